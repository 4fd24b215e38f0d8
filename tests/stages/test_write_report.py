"""Rows of messages: whatever was done to one, they add up to what is sent of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from context_assembler import ContextAssembler
from context_assembler.stages.write_report import write_report
from context_assembler.testing import ScriptedReply, serve_providers
from context_assembler.testing.word_counter import WordCounter
from context_assembler.values.context import AssembledContext
from context_assembler.values.ledger import Ledger
from context_assembler.values.messages import Message
from context_assembler.values.options import AssembleOptions, Settled, TruncationStrategy
from context_assembler.values.parts import Base64Source, Image, JsonObject, Text, ToolCall
from context_assembler.values.report import Decision, ReportEntry
from tests.adding_up import differences
from tests.calling import call_model
from tests.providers.drafts import PIXEL

WORDS = WordCounter()


def rows_of(context: AssembledContext, *decisions: Decision) -> list[ReportEntry]:
    return [row for row in context.report.of(*decisions) if row.kind == "message"]


async def test_a_shortened_reply_that_loses_its_thinking_counts_as_it_is_sent(
    tmp_path: Path,
) -> None:
    (tmp_path / "AGENT.md").write_text("Be kind.")
    call = ToolCall(call_id="c1", name="look", arguments={})
    script = [ScriptedReply(text="word " * 600, thinking="Hmm. " * 20, tool_calls=(call,))]
    assembler = ContextAssembler("memory:", bootstrap=tmp_path, tools=[look])
    await assembler.add_user("s", "please " * 600)
    with serve_providers(script) as server:
        first = await assembler.assemble("s", model="claude-opus-5-5", max_tokens=500)
        reply = await call_model(server, first)
    answer = (await assembler.record("s", reply, first))[-1]
    await assembler.add_tool_result("s", answer.tool_calls[0].call_id, "seen")

    (tmp_path / "AGENT.md").write_text("Be very kind, and short.")
    cut = await assembler.assemble(
        "s", model="claude-opus-5-5", max_tokens=500, max_context_tokens=2000
    )

    assert [row.id for row in rows_of(cut, "cleared")] == [answer.id]
    assert [row.id for row in rows_of(cut, "shortened")] == [answer.id]
    assert differences(cut.report) == {}


def look() -> str:
    """Look."""
    return "seen"


async def test_what_a_model_cannot_read_is_one_row_with_both_sizes() -> None:
    assembler = ContextAssembler("memory:")
    picture = Image(source=Base64Source(media_type="image/png", data=PIXEL))
    await assembler.add_user("s", [Text("Look."), picture])

    context = await assembler.assemble("s", model="gpt-3.5-turbo", max_tokens=500)

    (row,) = (row for row in context.report.entries if row.kind == "message")
    assert (row.decision, row.rule) == ("shortened", "media.unsupported")
    assert row.tokens_before > row.tokens_after > 0
    assert differences(context.report) == {}


@pytest.mark.parametrize("strategy", ["smart", "sliding", "simple"])
async def test_made_up_answers_to_calls_are_counted_only_where_they_are_sent(
    strategy: TruncationStrategy,
) -> None:
    assembler = ContextAssembler("memory:")
    for number in range(8):
        await assembler.add_user("s", "please " * 100)
        context = await assembler.assemble("s", model="claude-haiku-4-5", max_tokens=300)
        await assembler.record("s", unanswered_call(number), context)
    await assembler.add_user("s", "go")

    cut = await assembler.assemble(
        "s",
        model="claude-haiku-4-5",
        max_tokens=300,
        max_context_tokens=1500,
        truncation_strategy=strategy,
    )

    assert any(row.id == "" for row in rows_of(cut, "dropped"))
    assert differences(cut.report) == {}


def unanswered_call(number: int) -> JsonObject:
    call: JsonObject = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": "well " * 100}, call],
        "stop_reason": "tool_use",
    }


def message(text: str, name: str = "") -> Message:
    return Message(role="user", id=name, kind="said" if name else "synthetic", parts=(Text(text),))


def row(name: str, decision: Decision, before: int = 0, after: int = 0) -> ReportEntry:
    return ReportEntry(
        kind="message", id=name, decision=decision, tokens_before=before, tokens_after=after
    )


def told(
    history: Sequence[Message],
    sent: Sequence[Message],
    *,
    repairs: Sequence[ReportEntry] = (),
    cuts: Sequence[ReportEntry] = (),
) -> list[tuple[str, Decision, int, int]]:
    report = write_report(
        files=(),
        pieces=(),
        repairs=repairs,
        history=history,
        cuts=cuts,
        sent=sent,
        ledger=Ledger(window_tokens=1000, reserve_tokens=100, budget_tokens=900),
        settled=Settled(options=AssembleOptions(), layers={}),
        warnings=(),
        counter=WORDS,
    )
    return [
        (entry.id, entry.decision, entry.tokens_before, entry.tokens_after)
        for entry in report.entries
    ]


LONG, SHORT = message("one two three four", "a"), message("one two", "a")
AT_FIRST, IN_THE_END = WORDS.count_message(LONG), WORDS.count_message(SHORT)


def test_the_last_row_with_a_size_bears_what_the_message_takes() -> None:
    repairs = [row("a", "shortened", 90, 70), row("a", "cleared")]

    rows = told([LONG], [SHORT], repairs=repairs, cuts=[row("a", "shortened", 70, 50)])

    assert rows == [
        ("a", "cleared", 0, 0),
        ("a", "shortened", 0, 0),
        ("a", "shortened", 90, IN_THE_END),
    ]


def test_a_message_that_is_left_out_in_the_end_takes_nothing() -> None:
    rows = told([LONG], [], cuts=[row("a", "shortened", 70, 50)])

    assert rows == [("a", "shortened", 70, 0)]


def test_a_message_of_nothing_but_stale_reasoning_is_told_of_by_that_row_alone() -> None:
    assert told([LONG], [], repairs=[row("a", "cleared")]) == [("a", "cleared", 0, 0)]


def test_a_row_without_a_size_stands_in_front_of_the_kept_one() -> None:
    rows = told([LONG], [SHORT], repairs=[row("a", "cleared")])

    assert rows == [("a", "cleared", 0, 0), ("a", "kept", AT_FIRST, IN_THE_END)]


def test_a_row_of_what_is_no_message_of_the_history_bears_nothing() -> None:
    rows = told([], [], repairs=[row("b", "dropped", 9)], cuts=[row("c", "shortened", 9, 5)])

    assert rows == [("b", "dropped", 9, 0), ("c", "shortened", 9, 0)]


def test_messages_without_an_id_are_found_by_their_place() -> None:
    first, second, third = message("one two three"), message("one"), message("four five six")
    ends = [message("here", name) for name in ("a", "b", "c")]
    history = [ends[0], first, ends[1], second, ends[2], third]
    cut = message("four")

    rows = told(
        history,
        [ends[1], second, ends[2], cut],
        cuts=[row("a", "dropped", 5), row("", "dropped", 7), row("", "shortened", 7, 6)],
    )

    whole, short = WORDS.count_message(ends[1]), WORDS.count_message(second)
    assert rows == [
        ("a", "dropped", 5, 0),
        ("", "dropped", 7, 0),
        ("b", "kept", whole, whole),
        ("synthetic", "kept", short, short),
        ("c", "kept", whole, whole),
        ("", "shortened", 7, WORDS.count_message(cut)),
    ]
