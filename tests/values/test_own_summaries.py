"""Summaries that a caller writes: what they may cover, and what is sent in its place."""

from dataclasses import replace
from typing import Any

import pytest

from context_assembler import (
    ContextAssembler,
    SessionEvent,
    ToolCall,
    assistant_event,
    compaction_event,
    tool_result_event,
    user_event,
)
from context_assembler.errors import InvalidParameterError
from tests.models import MODELS

SUMMARY = "## Goal\nA trip to Lima.\n## Open\nThe hotel."


def calling(*call_ids: str) -> SessionEvent:
    return assistant_event([ToolCall(call_id=i, name="look", arguments={}) for i in call_ids])


def script() -> list[SessionEvent]:
    """Two calls at once, an id that comes again, and a result stored before its call."""
    return [
        user_event("Plan a trip."),
        calling("c1", "c2"),
        tool_result_event("c2", "rain"),
        tool_result_event("c1", "sun"),
        user_event("Never fly on a Friday.", is_pinned=True),
        calling("c1"),
        tool_result_event("c1", "snow"),
        tool_result_event("c9", "fog"),
        calling("c9"),
        assistant_event("It is planned."),
        user_event("And the hotel?"),
    ]


async def begin() -> tuple[ContextAssembler, list[SessionEvent]]:
    assembler = ContextAssembler()
    return assembler, await assembler.sessions.append("trip", script())


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
async def test_a_summary_stands_where_the_covered_events_were(model: str) -> None:
    assembler, events = await begin()
    compacted = compaction_event(SUMMARY, events[:-1])
    await assembler.sessions.append("trip", [compacted], expected_seq=len(events))

    context = await assembler.assemble("trip", model=model, max_tokens=1000)

    sent = str(context.to_request())
    assert context.check() == []
    assert "The hotel." in sent
    assert "And the hotel?" in sent
    assert "Plan a trip." not in sent
    assert "Never fly on a Friday." in sent
    assert "compaction.covers" in {entry.rule for entry in context.report.entries}


async def test_of_all_ranges_those_are_taken_that_part_no_call_from_its_result() -> None:
    _, events = await begin()
    parted = {2, 3, 6, 8}  # these ends leave a result behind, or a result that waits for its call

    taken = {end for end in range(1, 12) if _is_taken(events[:end])}

    assert taken == set(range(1, 12)) - parted
    assert [begin for begin in range(11) if not _is_taken(events[begin:])] == [2, 3, 6, 8]


def _is_taken(covered: list[SessionEvent]) -> bool:
    try:
        compaction_event(SUMMARY, covered)
    except InvalidParameterError:
        return False
    return True


STORED = [replace(event, id=f"e{seq}", seq=seq) for seq, event in enumerate(script(), start=1)]
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "an empty summary": (" \n", STORED[:1], "summary must say something"),
    "no text": (None, STORED[:1], "summary must be text"),
    "no events": (SUMMARY, [], "in a row"),
    "an event": (SUMMARY, STORED[0], "covered must be a list"),
    "numbers": (SUMMARY, [1, 5], "covered"),
    "events that are not stored": (SUMMARY, script()[:1], "must be stored events"),
    "a gap": (SUMMARY, [STORED[0], STORED[4]], r"in a row.*events\[:n\]"),
    "newest first": (SUMMARY, STORED[4::-1], "oldest first"),
    "a call without its result": (SUMMARY, STORED[:3], "'c1' is missing.*before event 2"),
    "a result without its call": (
        SUMMARY,
        STORED[3:5],
        "that of 'c1' is missing.*begin behind event 4",
    ),
}


@pytest.mark.parametrize(("summary", "covered", "rule"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_covered_is_refused(summary: Any, covered: Any, rule: str) -> None:
    with pytest.raises(InvalidParameterError, match=rule):
        compaction_event(summary, covered)


async def test_a_later_summary_covers_the_earlier_one() -> None:
    assembler, events = await begin()
    store = assembler.sessions
    await store.append("trip", [compaction_event("Old news.", events[:4])])
    await store.append("trip", [assistant_event("The Plaza."), user_event("Thanks.")])
    events = [event async for event in store.load("trip")]
    await store.append("trip", [compaction_event(SUMMARY, events[:-1])])

    context = await assembler.assemble("trip", model="gpt-4.1")

    assert "Old news." not in str(context.messages)
    assert "The Plaza." not in str(context.messages)
    assert context.messages[0].text == SUMMARY
