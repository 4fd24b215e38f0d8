"""A program for the tests: prints what a report says of faulty tools, skills and instructions.

python -m tests.warn_in_process FOLDER
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from context_assembler import AssemblerConfig, ContextAssembler
from context_assembler.values.codec import to_json

COLOURS = frozenset({"red", "green", "blue", "white", "black"})


def paint(colours: frozenset[str] = COLOURS, others: Any = COLOURS) -> None:
    """Paint it."""


def mix(colours: "Unknown") -> None:  # type: ignore[name-defined] # noqa: F821 - a fault to warn of
    """Mix them."""


def tools() -> list[Any]:
    keywords: dict[str, Any] = {
        "type": COLOURS,
        "enum": COLOURS,
        "default": COLOURS,
        "minLength": COLOURS,
        "items": COLOURS,
        "anyOf": COLOURS,
    }
    faulty = [
        {"name": f"bad_{key}", "input_schema": {"properties": {"a": {key: value}}}}
        for key, value in keywords.items()
    ]
    return [
        paint,
        mix,
        *faulty,
        {"name": "bad", "input_schema": {"properties": COLOURS}},
        COLOURS_OF,
    ]


class ColoursOf:
    """An executor whose entries are no tools."""

    def list_tools(self) -> list[Any]:
        return [COLOURS, {"name": COLOURS}, {"type": COLOURS}]


COLOURS_OF = ColoursOf()


def write_files(folder: Path) -> None:
    listed = "!!set {red, green, blue, white, black}"
    (folder / "skills" / "paint").mkdir(parents=True)
    head = f"---\nname: paint\ndescription: Paints.\nallowed-tools: {listed}\nmetadata: {listed}\n---\n"
    (folder / "skills" / "paint" / "SKILL.md").write_text(head, "utf-8")
    (folder / "skills" / "mix").mkdir()
    (folder / "skills" / "mix" / "SKILL.md").write_text(
        f"---\ndescription: {listed}\n---\n", "utf-8"
    )
    missing = " ".join(f"@{name}.md" for name in "abcdefg")
    (folder / "AGENT.md").write_text(f"---\ncolours: {listed}\n---\n{missing}\n", "utf-8")


async def main(folder: Path) -> None:
    write_files(folder)
    assembler = ContextAssembler(
        bootstrap=folder,
        skills=folder / "skills",
        tools=tools(),
        config=AssemblerConfig(folder=folder),
    )
    await assembler.add_user("trip", "hi")
    options: dict[str, Any] = {
        "disabled_tools": ["x", "y", "z"],
        "skill_filter": ["p*", "x*", "y*"],
    }
    context = await assembler.assemble("trip", model="gpt-4o", **options)
    print(json.dumps(to_json(context.report.warnings)))
    print(json.dumps(to_json(context.report.entries)))
    print(context.system_prompt)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
