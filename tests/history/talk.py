"""Sessions in one line per event, and turns in one line per turn, for tables of cases.

`U hi` user, `A ok` assistant, `S be brief` system, `A[c1 c2] text` assistant with calls, `C[c1]` a
call as an event of its own, `T[c1 c2] one|two` results, `M1-4 text` a summary of events 1 to 4 (`M1-4!2
text`: but event 2), `N text` a note. As shown, `T[c1?]` is a result that was made up, `U+` a user turn
that the assembler made.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from context_assembler import Opaque, SessionEvent, Text, ToolCall, ToolResult
from context_assembler.events import Covers
from context_assembler.history import MessageTransformer, Transformed

MISSING = "No result was recorded"
_ROW = re.compile(r"([UASTCMN])(?:(\d+)-(\d+)(?:!(\S+))?)?(?:\[([^\]]*)\])?(?: (.*?))?", re.DOTALL)
_TYPES = {"U": "user", "A": "assistant", "S": "system", "C": "tool_call", "M": "compaction"}


def talk(*rows: str | SessionEvent) -> list[SessionEvent]:
    """Return the events that the rows stand for, numbered from 1, with the ids e1, e2 …"""
    return [
        replace(_event(row) if isinstance(row, str) else row, id=f"e{number}", seq=number)
        for number, row in enumerate(rows, start=1)
    ]


def cases(text: str) -> dict[str, tuple[list[str], list[str], list[str]]]:
    """Return cases: a name in one line, and under it, set in, `rows; … → rows; … → rules, …`."""
    found: dict[str, tuple[list[str], list[str], list[str]]] = {}
    for name, given in re.findall(r"^(\S.*)\n((?: .*\n)+)", text, re.MULTILINE):
        before, after, told = [*" ".join(given.split()).split("→"), ""][:3]
        found[name] = (_listed(before, ";"), _listed(after, ";"), _listed(told, ","))
    return found


def _listed(text: str, mark: str) -> list[str]:
    return [one.strip() for one in text.split(mark) if one.strip()]


def _event(row: str) -> SessionEvent:
    found = _ROW.fullmatch(row)
    assert found, row
    letter, first, last, apart, ids, text = found.groups()
    calls, fields = (ids or "").split(), dict[str, Any]()
    if letter == "T":
        texts = (text or "").split("|") + [""] * len(calls)
        results = tuple(result(name, said) for name, said in zip(calls, texts, strict=False))
        return SessionEvent(type="tool_result", parts=results, origin="tool", **fields)
    if letter == "M":
        excluded = tuple(f"e{one}" for one in (apart or "").split(",") if one)
        fields["covers"] = Covers(first_seq=int(first), last_seq=int(last), excluded_ids=excluded)
    if letter == "N":
        fields["note"] = "reminder"
    parts = (*([Text(text)] if text else []), *map(call, calls))
    return SessionEvent(type=_TYPES.get(letter, "system"), parts=parts, **fields)  # type: ignore[arg-type]  # a literal


def call(call_id: str, name: str = "look", **fields: Any) -> ToolCall:
    """Return a call."""
    return ToolCall(call_id=call_id, name=name, **fields)


def result(call_id: str, text: str = "", **fields: Any) -> ToolResult:
    """Return a result of text."""
    return ToolResult(call_id=call_id, content=(Text(text),) if text else (), **fields)


def block(provider: str, **fields: Any) -> Opaque:
    """Return a block of a provider's own."""
    return Opaque(provider=provider, block=fields)


def transform(events: Iterable[SessionEvent], **options: Any) -> Transformed:
    """Return the events as turns."""
    return MessageTransformer(**options).transform(events)


def shown(turns: Iterable[Any]) -> list[str]:
    """Return turns as rows."""
    return [_row(turn) for turn in turns]


def rules(done: Transformed) -> list[str]:
    """Return the rules of a report's entries, without the word in front."""
    return [entry.rule.removeprefix("repair.") for entry in done.entries]


def text_of(parts: Sequence[Any]) -> str:
    """Return the text of JSON parts."""
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def _row(turn: Any) -> str:
    parts, text = turn["parts"], text_of(turn["parts"])
    ids = [part["call_id"] for part in parts if part["type"] == "tool_call"]
    if turn["role"] == "tool":
        texts = [text_of(part.get("content", ())) for part in parts]
        made = [said.startswith(MISSING) for said in texts]
        ids = [
            f"{part['call_id']}{'?' * is_made}" for part, is_made in zip(parts, made, strict=True)
        ]
        text = "|".join(said for said, is_made in zip(texts, made, strict=True) if not is_made)
    letters = {"summary": "M", "note": "N", "synthetic": "U"}
    letter = letters.get(turn["kind"], turn["role"][0].upper()) if turn["role"] != "tool" else "T"
    if turn["role"] == "user" and turn["kind"] in ("note", "synthetic"):
        letter = "U+"
    called = f"[{' '.join(ids)}]" if ids else ""
    return f"{letter}{called} {text}".rstrip()
