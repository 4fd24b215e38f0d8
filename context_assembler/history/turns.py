"""Kept lines as turns: what a provider's wire is given, one after the other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    HAS_CALLS,
    KIND_MASK,
    NOTE,
    SYSTEM,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Body,
    JsonObject,
)
from context_assembler.history.lines import SYNTHETIC, Timeline
from context_assembler.history.repair import missing_result
from context_assembler.ports import Turn

_JOINS: Final = {ASSISTANT: TOOL_CALL, TOOL_CALL: TOOL_CALL, TOOL_RESULT: TOOL_RESULT}
_KINDS: Final[Mapping[int, Any]] = {
    COMPACTION: "summary",
    NOTE: "note",
    SYNTHETIC: "synthetic",
}
_ROLES: Final[Mapping[int, Any]] = {
    USER: "user",
    ASSISTANT: "assistant",
    TOOL_RESULT: "tool",
    COMPACTION: "user",
    SYSTEM: "system",
    NOTE: "system",
    TOOL_CALL: "assistant",
    SYNTHETIC: "user",
}
_ORIGINS: Final[Mapping[int, Any]] = {
    USER: "user",
    ASSISTANT: "model",
    TOOL_CALL: "model",
    TOOL_RESULT: "tool",
    COMPACTION: "assembler",
    SYSTEM: "developer",
    NOTE: "developer",
    SYNTHETIC: "assembler",
}


_NO_BODY: Final[Body] = {"parts": []}


def turns_of(
    timeline: Timeline,
    lines: Iterable[int],
    bodies: Mapping[int, Body],
    shortened: Mapping[int, Sequence[JsonObject]],
) -> Iterator[Turn]:
    """Yield the turns of whole exchanges, in order.

    Args:
        bodies: By number, of every event of these lines.
        shortened: By line, parts that a cut left instead of the line's own.
    """
    kinds, seqs, own, notes = timeline.kinds, timeline.seqs, timeline.parts, timeline.notes
    special = own.keys() | shortened.keys()
    turn: Turn = {}
    calls: list[str] = []  # of the last reply
    joins = -1  # the kind of lines that may still join the turn
    for line in lines:
        kind, seq = kinds[line], seqs[line]
        number = kind & KIND_MASK
        body = bodies[seq] if seq else _NO_BODY
        parts = body["parts"]
        if line in special:
            parts = shortened.get(line) or own[line]
        ids: list[str] = []
        if kind & HAS_CALLS and number != TOOL_RESULT:
            ids = [part["call_id"] for part in parts if part["type"] == "tool_call"]
        if number == joins:
            turn["parts"] = [*turn["parts"], *parts]
            calls += ids
            if seq and number == TOOL_RESULT:
                turn["kind"] = "said"
            continue
        if turn:
            yield _paired(turn, calls) if joins == TOOL_RESULT else turn
        if number != TOOL_RESULT:
            calls = ids
        joins = _JOINS.get(number, -1)
        turn = {
            "role": _ROLES[number],
            "parts": parts if parts.__class__ is list else [*parts],
            "kind": _KINDS.get(number, "said"),
            "note": None,
            "seq": seq,
            "id": str(seq) if seq else "",
            "origin": _ORIGINS[number],
            "made_by": None,
        }
        if len(body) > 1:
            turn["origin"] = body.get("origin", turn["origin"])
            turn["note"] = body.get("note")
            turn["made_by"] = body.get("made_by") if number != TOOL_RESULT else None
        elif not seq:
            if line in notes:
                turn["note"], turn["origin"] = notes[line]
            elif number == TOOL_RESULT:
                turn["kind"], turn["origin"] = "synthetic", "assembler"
        if turn["note"] == "continue":
            turn["role"] = "user"
    if turn:
        yield _paired(turn, calls) if joins == TOOL_RESULT else turn


def _paired(turn: Turn, calls: Sequence[str]) -> Turn:
    """Return a turn of results with one for each call, in the order of the calls."""
    ids = [part["call_id"] for part in turn["parts"]]
    if ids != calls:
        waiting: dict[str, list[JsonObject]] = {}
        for part in turn["parts"]:
            waiting.setdefault(part["call_id"], []).append(part)
        turn["parts"] = [
            waiting[call_id].pop(0)
            if waiting.get(call_id)
            else missing_result({"call_id": call_id, "name": ""})
            for call_id in calls
        ]
    return turn
