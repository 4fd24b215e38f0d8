import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from context_assembler.assembler import ContextAssembler
from context_assembler.values.prompt import PromptSection
from context_assembler.values.tools import ToolSpec
from tests.cli.running import run
from tests.cli.samples import STORE, TOOLS, write_json

WORDS = ("flights", "--sessions", STORE, "--model", "gpt-5.5")
REPLY: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "model": "gpt-5.5",
    "status": "completed",
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "There are two.", "annotations": []}],
        }
    ],
}


def record(*names: str, sections: tuple[str, ...] = ()) -> None:
    """Record a call of a program that has these tools and sections."""

    async def play() -> None:
        async with ContextAssembler(
            STORE,
            tools=[ToolSpec(name=name, description="A tool.") for name in names],
            prompt_sections=[
                PromptSection(name=name, content=f"About {name}.", priority=500)
                for name in sections
            ],
            now=lambda: datetime(2026, 11, 28, tzinfo=UTC),
        ) as assembler:
            await assembler.add_user("flights", "Which flights are there?")
            context = await assembler.assemble("flights", model="gpt-5.5")
            await assembler.record("flights", REPLY, context)
            await assembler.add_user("flights", "Take the first.")

    asyncio.run(play())


TOLD = {
    "a tool": (
        ("find_flights",),
        (),
        "tools that are not given here (find_flights): pass --tools FILE, or read",
    ),
    "a section": (
        (),
        ("role",),
        "sections that are not given here (role): pass --bootstrap FOLDER, or read",
    ),
    "both": (
        ("find_flights",),
        ("role",),
        "tools and sections that are not given here (find_flights; role): pass --tools FILE and",
    ),
    "many": (("a", "b", "c", "d", "e", "f", "g"), (), "(a, b, c, d, e and 2 more)"),
}


@pytest.mark.parametrize(("tools", "sections", "said"), TOLD.values(), ids=TOLD.keys())
def test_what_a_program_gave_and_the_command_line_does_not_is_named_first(
    tools: tuple[str, ...], sections: tuple[str, ...], said: str
) -> None:
    record(*tools, sections=sections)

    explained, checked = (run(command, *WORDS).stdout for command in ("explain", "check"))
    assembled = run("assemble", *WORDS).stderr

    for shown in (explained, checked, assembled.removeprefix("Note: ")):
        words = " ".join(shown.split())
        assert words.startswith("This session was recorded with ")
        assert said in words


def test_programs_are_warned_too() -> None:
    record("find_flights")

    for command in ("explain", "check"):
        first = run(command, *WORDS, "--json").json["warnings"][0]
        assert "(find_flights)" in first


def test_nothing_is_said_of_what_is_given_or_left_out_on_purpose() -> None:
    record("list_files")
    tools = ("--tools", write_json("tools.json", TOOLS))

    given = run("explain", *WORDS, *tools).stdout
    left_out = run("explain", *WORDS, *tools, "--disabled-tools", "list_files").stdout

    assert "was recorded with" not in given
    assert "was recorded with" not in left_out


def test_what_cannot_be_assembled_is_checked_without_a_warning() -> None:
    record("find_flights")

    bound = ("--max-context-tokens", "5")

    assert run("assemble", *WORDS, *bound).exit_code == 2
    assert run("check", *WORDS, *bound, "--json").json["warnings"] == []
