"""Recorded sessions, compacted without a model: what of them the next request still holds.

    python -m benchmarks.compactions [--most 40]

For each kind of recording: sessions, those whose request is valid for all four providers, those with
the task and the pinned message in it, those of which the store still holds every event, and the share
of the names in the last ten replies that the request still has.
"""

import argparse
import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.data import corpus
from context_assembler import ContextAssembler, SessionEvent, read_transcript
from context_assembler.errors import AssemblyError
from context_assembler.texts import one_line

PROVIDERS: Final = ("anthropic", "openai_chat", "openai_responses", "gemini")
OPTIONS: Final[dict[str, Any]] = {"model": "claude-opus-5-5", "max_tokens": 1000}
LEAST_TOKENS: Final = 3000  # that a summary could replace
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{5,}")
_TELLING: Final = re.compile(r"[/._]|[a-z][A-Z]|\d")
_ESCAPED: Final = re.compile(r"\\+[nt]")


def names_in(text: str) -> set[str]:
    """Return the names in a text: paths, and words with capitals, digits or signs within."""
    found = (name.strip("./-") for name in _NAME.findall(_ESCAPED.sub(" ", text)))
    return {name for name in found if len(name) > 5 and _TELLING.search(name)}


def said_last(stored: Iterable[SessionEvent]) -> set[str]:
    """Return the names in the last ten replies and their calls."""
    replies = [event for event in stored if event.type == "assistant"][-10:]
    calls = [call for event in replies for call in event.tool_calls]
    said = [json.dumps(dict(call.arguments), ensure_ascii=False) for call in calls]
    return names_in(" ".join([*(event.text for event in replies), *said]))


def shown_as(said: SessionEvent | str) -> str:
    """Return the beginning of what was said, or a payload, as both have it."""
    if isinstance(said, str):
        return " ".join(said.split())
    return json.dumps(" ".join(said.text.split())[:60], ensure_ascii=False)[1:-1]


async def compacted(path: Path, *, keep: int = 2) -> Counter[str] | None:
    """Compact one recording, and return what is counted; `None` if it is too short for that."""
    assembler = ContextAssembler()
    events = [*read_transcript(path).events]
    asked = [at for at, event in enumerate(events) if event.type == "user"]
    if not asked:
        return None
    pinned = asked[len(asked) // 2]
    events = [replace(one, is_pinned=at == pinned) for at, one in enumerate(events)]
    stored = await assembler.sessions.append("s", events)
    before = await assembler.assemble("s", **OPTIONS)
    check = before.check_compaction(is_explicit=True)
    if not check.needed or check.details["compactable_tokens"] < LEAST_TOKENS:
        return None
    done = await assembler.compact("s", keep=keep, **OPTIONS)
    context = await assembler.assemble("s", **OPTIONS)
    kept = {message["id"] for message in context.messages}
    task = next(event for event in stored if event.type == "user")
    payload = _ESCAPED.sub(" ", json.dumps(context.to_anthropic(), ensure_ascii=False))
    said = said_last(stored)
    read = [event async for event in assembler.sessions.load("s")]
    return Counter(
        {
            "sessions": 1,
            "valid": not any(context.check(name).refused for name in PROVIDERS),
            # A very large one is summarised: it is the goal.
            "task": task.id in kept or one_line(task.text)[:80] in done.event.text,
            # One that is joined to its neighbour has the neighbour's id.
            "pins": stored[pinned].id in kept or shown_as(stored[pinned]) in shown_as(payload),
            "readable": read[: len(stored)] == stored,
            "named": len(said),
            "kept": sum(name in payload for name in said),
            "covered": done.covered_tokens,
            "summaries": done.summary_tokens,
        }
    )


def main() -> None:
    """Print the table."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--most", type=int, default=40, help="sessions of each kind")
    most = asked.parse_args().most
    folder = corpus()
    if folder is None:
        raise SystemExit("Set CONTEXT_ASSEMBLER_CORPUS to the folder of the recorded sessions.")
    found: dict[str, Counter[str]] = {}
    for kind in sorted(one for one in (folder / "trajectories").iterdir() if one.is_dir()):
        paths = sorted(path for path in kind.rglob("*.json*") if path.is_file())
        for path in Random(1).sample(paths, len(paths)):
            if found.get(kind.name, Counter())["sessions"] == most:
                break
            try:
                one = asyncio.run(compacted(path))
            except AssemblyError:
                continue  # no recording that can be read, or one without a message
            if one is not None:
                found.setdefault(kind.name, Counter()).update(one)
    found["all"] = sum(found.values(), Counter())
    print(
        "| sessions | number | valid | task | pins | readable | names kept | tokens, before → after |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, one in found.items():
        shares = [
            f"{one[what] / one['sessions']:.0%}" for what in ("valid", "task", "pins", "readable")
        ]
        names = f"{one['kept'] / max(one['named'], 1):.1%}"
        tokens = f"{one['covered']:,} → {one['summaries']:,}"
        print("|", " | ".join([name, str(one["sessions"]), *shares, names, tokens]), "|")


if __name__ == "__main__":
    main()
