"""Kept lines as turns: what a provider's wire is given, one after the other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from context_assembler import events
from context_assembler.events import Body, JsonObject
from context_assembler.history.lines import SYNTHETIC, Timeline
from context_assembler.history.repair import missing_result
from context_assembler.ports import Turn

_JOINS: Final = {
    events.ASSISTANT: events.TOOL_CALL,
    events.TOOL_CALL: events.TOOL_CALL,
    events.TOOL_RESULT: events.TOOL_RESULT,
}
# By kind of line: the turn's role, kind and origin.
_MADE: Final[Mapping[int, tuple[Any, Any, Any]]] = {
    events.USER: ("user", "said", "user"),
    events.ASSISTANT: ("assistant", "said", "model"),
    events.TOOL_CALL: ("assistant", "said", "model"),
    events.TOOL_RESULT: ("tool", "said", "tool"),
    events.COMPACTION: ("user", "summary", "assembler"),
    events.SYSTEM: ("system", "said", "developer"),
    events.NOTE: ("system", "note", "developer"),
    SYNTHETIC: ("user", "synthetic", "assembler"),
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
    turn: Turn | None = None
    calls: list[str] = []  # of the last reply
    joins = -1  # the kind of lines that may still join the turn
    for line in lines:
        kind, seq = kinds[line], seqs[line]
        number = kind & events.KIND_MASK
        body = bodies[seq] if seq else _NO_BODY
        parts: list[JsonObject] = body["parts"]
        if line in special:
            parts = [*(shortened.get(line) or own[line])]
        ids: list[str] = []
        if kind & events.HAS_CALLS and number != events.TOOL_RESULT:
            ids = [part["call_id"] for part in parts if part["type"] == "tool_call"]
        if turn is not None and number == joins:
            turn["parts"] = [*turn["parts"], *parts]
            calls += ids
            if seq and number == events.TOOL_RESULT:
                turn["kind"] = "said"
            if kind & events.PINNED:
                turn["is_pinned"] = True
            continue
        if turn is not None:
            yield _paired(turn, calls) if joins == events.TOOL_RESULT else turn
        if number != events.TOOL_RESULT:
            calls = ids
        joins, note, made_by = _JOINS.get(number, -1), None, None
        role, made, origin = _MADE[number]
        if len(body) > 1:
            origin, note = body.get("origin", origin), body.get("note")
            made_by = body.get("made_by") if number != events.TOOL_RESULT else None
        elif not seq and line in notes:
            note, origin = notes[line]
        elif not seq and number == events.TOOL_RESULT:
            made, origin = "synthetic", "assembler"
        turn = {
            "role": "user" if note == "continue" else role,
            "parts": parts,
            "kind": made,
            "note": note,
            "seq": seq,
            "id": str(seq) if seq else "",
            "origin": origin,
            "made_by": made_by,
        }
        if kind & events.PINNED:
            turn["is_pinned"] = True
    if turn is not None:
        yield _paired(turn, calls) if joins == events.TOOL_RESULT else turn


def _paired(turn: Turn, calls: Sequence[str]) -> Turn:
    """Return a turn of results with one for each call, in the order of the calls."""
    if [part["call_id"] for part in turn["parts"]] != calls:
        waiting: dict[str, list[JsonObject]] = {}
        for part in turn["parts"]:
            waiting.setdefault(part["call_id"], []).append(part)
        missing = ([missing_result({"call_id": name, "name": ""})] for name in calls)
        found = ((waiting.get(name) or none) for name, none in zip(calls, missing, strict=True))
        turn["parts"] = [results.pop(0) for results in found]
    return turn
