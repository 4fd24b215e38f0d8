"""Kept lines as turns: what a provider's wire is given, one after the other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from context_assembler import events
from context_assembler.events import Body, JsonObject
from context_assembler.history.lines import SYNTHETIC, Timeline
from context_assembler.history.repair import missing_result
from context_assembler.ports import Turn

# By kind of line: the turn's role, kind and origin, and the kind of lines that may join the turn.
_MADE: Final[Mapping[int, tuple[Any, Any, Any, int]]] = {
    events.USER: ("user", "said", "user", -1),
    events.ASSISTANT: ("assistant", "said", "model", events.TOOL_CALL),
    events.TOOL_CALL: ("assistant", "said", "model", events.TOOL_CALL),
    events.TOOL_RESULT: ("tool", "said", "tool", events.TOOL_RESULT),
    events.COMPACTION: ("user", "summary", "assembler", -1),
    events.SYSTEM: ("system", "said", "developer", -1),
    events.NOTE: ("system", "note", "developer", -1),
    SYNTHETIC: ("user", "synthetic", "assembler", -1),
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
    special = timeline.parts.keys() | shortened.keys()
    turn: Turn | None = None
    calls: list[str] = []  # of the last reply
    joins = -1
    for line in lines:
        kind, seq = timeline.kinds[line], timeline.seqs[line]
        number, body = kind & events.KIND_MASK, bodies[seq] if seq else _NO_BODY
        is_result, parts = number == events.TOOL_RESULT, body["parts"]
        if line in special:
            parts = [*(shortened.get(line) or timeline.parts[line])]
        if turn is not None and number == joins:
            turn["parts"] = [*turn["parts"], *parts]
            if seq and is_result:
                turn["kind"] = "said"
        else:
            if turn is not None:
                yield _paired(turn, calls)
            if not is_result:
                calls = []
            role, made, origin, joins = _MADE[number]
            if is_result and not seq:
                made, origin = "synthetic", "assembler"
            note, origin = body.get("note"), body.get("origin", origin)
            if line in timeline.notes:
                note, origin = timeline.notes[line]
            turn = {
                "role": "user" if note == "continue" else role,
                "parts": parts,
                "kind": made,
                "note": note,
                "seq": seq,
                "id": str(seq) if seq else "",
                "origin": origin,
                "made_by": None if is_result else body.get("made_by"),
            }
        if kind & events.HAS_CALLS and not is_result:
            calls += [part["call_id"] for part in parts if part["type"] == "tool_call"]
        if kind & events.PINNED:
            turn["is_pinned"] = True
    if turn is not None:
        yield _paired(turn, calls)


def _paired(turn: Turn, calls: Sequence[str]) -> Turn:
    """Return a turn of results with one for each call, in the order of the calls; others as it is."""
    if turn["role"] == "tool" and [part["call_id"] for part in turn["parts"]] != calls:
        left, paired = [*turn["parts"]], list[JsonObject]()
        for name in calls:
            found = (at for at, part in enumerate(left) if part["call_id"] == name)
            own = next(found, None)
            missing = missing_result({"call_id": name, "name": ""})
            paired.append(missing if own is None else left.pop(own))
        turn["parts"] = paired
    return turn
