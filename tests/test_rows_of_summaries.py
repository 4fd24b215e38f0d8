"""The report says of every summary that is sent what is not sent because of it."""

from collections.abc import Sequence

import pytest

from context_assembler import (
    ContextAssembler,
    ReportEntry,
    SessionEvent,
    ToolCall,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.cli.report_view import runs_of
from context_assembler.values.events import CompactionBody
from tests.adding_up import differences

MODELS = ["claude-opus-5-5", "gpt-4.1", "gpt-6.2-sol", "gemini-4-argon"]


def summary(text: str, *, first: int, last: int, spared: Sequence[str] = ()) -> SessionEvent:
    body = CompactionBody(summary=text, first_seq=first, last_seq=last, excluded_ids=tuple(spared))
    return SessionEvent(body=body, origin="model")


def exchange(number: int) -> list[SessionEvent]:
    """Return four events that are four messages."""
    call = ToolCall(call_id=f"c{number}", name="look_up", arguments={"n": number})
    return [
        user_event("Which?"),
        assistant_event(call),
        tool_result_event(f"c{number}", "x" * 4_000),
        assistant_event("That one."),
    ]


async def rows_of(*events: SessionEvent, model: str = MODELS[0]) -> list[ReportEntry]:
    async with ContextAssembler() as assembler:
        await assembler.sessions.append("s", [*events, user_event("And now?")])
        context = await assembler.assemble("s", model=model, max_tokens=500)

    assert differences(context.report) == {}
    return [row for row in context.report.entries if row.rule == "compaction.covers"]


@pytest.mark.parametrize("model", MODELS)
async def test_a_summary_says_which_messages_it_stands_for(model: str) -> None:
    [row] = await rows_of(*exchange(1), *exchange(2), summary("Two.", first=1, last=6), model=model)

    assert (row.kind, row.id, row.decision) == ("message", "evt_9", "kept")
    assert row.reason.startswith("It stands for 6 messages, events 1 to 6, of about 1,0")
    assert row.tokens_after > 0


async def test_a_later_summary_stands_for_all_that_went_into_it() -> None:
    first = summary("One.", first=1, last=4)
    [row] = await rows_of(*exchange(1), first, *exchange(2), summary("Two.", first=5, last=9))

    assert row.id == "evt_10"
    assert "8 messages, events 1 to 9" in row.reason


async def test_two_summaries_say_each_what_is_their_own() -> None:
    rows = await rows_of(
        *exchange(1),
        *exchange(2),
        summary("The first.", first=1, last=4),
        summary("The second.", first=5, last=6),
    )

    assert ["events 1 to 4" in rows[0].reason, "events 5 to 6" in rows[1].reason] == [True, True]


async def test_what_a_summary_spares_is_not_counted() -> None:
    [row] = await rows_of(*exchange(1), summary("One.", first=1, last=4, spared=["evt_1"]))

    assert "3 messages, events 2 to 4" in row.reason


async def test_one_message_of_one_event_is_told_as_one() -> None:
    [row] = await rows_of(user_event("x" * 400), summary("One.", first=1, last=1))

    assert row.reason == "It stands for 1 message, event 1, of about 100 tokens."


async def test_no_message_that_says_something_takes_nothing() -> None:
    [row] = await rows_of(user_event("a"), user_event("b"), summary("Two.", first=1, last=2))
    [lone] = await rows_of(user_event("a"), summary("One.", first=1, last=1))

    assert row.reason == "It stands for 2 messages, events 1 to 2, of about 2 tokens."
    assert lone.reason == "It stands for 1 message, event 1, of about 1 token."


async def test_a_summary_of_nothing_says_so() -> None:
    [row] = await rows_of(user_event("Which?"), summary("None.", first=7, last=9))

    assert "It stands for nothing" in row.reason


async def test_without_a_summary_there_is_no_such_row() -> None:
    assert await rows_of(*exchange(1)) == []


async def test_a_summary_has_a_line_of_its_own_in_what_is_explained() -> None:
    async with ContextAssembler() as assembler:
        await assembler.sessions.append(
            "s", [*exchange(1), summary("One.", first=1, last=4), user_event("And now?")]
        )
        report = await assembler.explain("s", model=MODELS[0], max_tokens=500)

    [line] = [run for run in runs_of(report.entries) if "stands for" in run.reason]
    assert line.reason.startswith("It stands for 4 messages")
