from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.stages import repair_history as stage
from context_assembler.stages.repair_history import repair_history
from context_assembler.stages.repair_history.pairing import are_paired
from context_assembler.values.exchanges import NO_RESULT
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Json,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)
from tests.shorthand import shown, talk
from tests.strategies import broken_histories, paired_conversations

OPENING = "U+ (The conversation begins with the assistant.)"

# rows before, rows after, rules of the entries
CASES: dict[str, tuple[list[str], list[str], list[str]]] = {
    "a call that was interrupted gets an error result right behind it": (
        ["U write the file", "A[c1]", "U continue"],
        ["U write the file", "A[c1]", "T[c1?]", "U continue"],
        ["missing_result"],
    ),
    "one call of a set without a result does not cost the other's": (
        ["U a", "A[c1 c2]", "T[c2] two", "U b"],
        ["U a", "A[c1 c2]", "T[c1? c2] two", "U b"],
        ["missing_result"],
    ),
    "a result without a call is dropped": (
        ["U a", "T[c9] lost", "A ok", "U b"],
        ["U a", "A ok", "U b"],
        ["orphan_result"],
    ),
    "a result whose call was cut away in front is dropped": (
        ["T[c1] one", "A ok", "U b"],
        [OPENING, "A ok", "U b"],
        ["first_user", "orphan_result"],
    ),
    "of two results for one call the first wins": (
        ["U a", "A[c1]", "T[c1] one", "T[c1] again"],
        ["U a", "A[c1]", "T[c1] one"],
        ["duplicate_result"],
    ),
    "one id in two turns makes two pairs": (
        ["U a", "A[c1]", "T[c1] one", "A ok", "U b", "A[c1]", "T[c1] two", "U c"],
        ["U a", "A[c1]", "T[c1] one", "A ok", "U b", "A[c1]", "T[c1] two", "U c"],
        [],
    ),
    "one id in two turns: only the second lacks its result": (
        ["U a", "A[c1]", "T[c1] one", "A ok", "U b", "A[c1]", "U c"],
        ["U a", "A[c1]", "T[c1] one", "A ok", "U b", "A[c1]", "T[c1?]", "U c"],
        ["missing_result"],
    ),
    "one id in two turns: only the first lacks its result": (
        ["U a", "A[c1]", "U b", "A[c1]", "T[c1] two"],
        ["U a", "A[c1]", "T[c1?]", "U b", "A[c1]", "T[c1] two"],
        ["missing_result"],
    ),
    "two late results go to two calls in order": (
        ["U a", "A[c1]", "U b", "A[c1]", "T[c1] one", "T[c1] two"],
        ["U a", "A[c1]", "T[c1] one", "U b", "A[c1]", "T[c1] two"],
        ["moved_result"],
    ),
    "a second result of an old call is not the result of a later call": (
        ["U a", "A[c1]", "T[c1] one", "T[c1] again", "U b", "A[c1]", "U c"],
        ["U a", "A[c1]", "T[c1] one", "U b", "A[c1]", "T[c1?]", "U c"],
        ["duplicate_result", "missing_result"],
    ),
    "a result stored before its call moves behind it": (
        ["U a", "T[c1] one", "A[c1]", "U b"],
        ["U a", "A[c1]", "T[c1] one", "U b"],
        ["moved_result"],
    ),
    "a result stored before a repeated call of its turn moves behind it": (
        ["U a", "A[c1]", "T[c1] one", "T[c1] two", "A[c1]", "U b"],
        ["U a", "A[c1]", "T[c1] one", "A[c1]", "T[c1] two", "U b"],
        ["moved_result"],
    ),
    "a late result moves up to its call": (
        ["U a", "A[c1]", "U hurry", "T[c1] one"],
        ["U a", "A[c1]", "T[c1] one", "U hurry"],
        ["moved_result"],
    ),
    "what stands between a call and its results moves behind them": (
        ["U a", "A[c1 c2]", "T[c1] one", "S be brief", "T[c2] two", "A ok", "U b"],
        ["U a", "A[c1 c2]", "T[c1 c2] one|two", "S be brief", "A ok", "U b"],
        ["moved_result"],
    ),
    "results of one set are put together in the order of the calls": (
        ["U a", "A[c1 c2]", "T[c2] two", "T[c1] one"],
        ["U a", "A[c1 c2]", "T[c1 c2] one|two"],
        ["grouped_results"],
    ),
    "results of two sets in one message are parted": (
        ["U a", "A[c1]", "A[c2]", "T[c1 c2] one|two"],
        ["U a", "A[c1]", "T[c1] one", "A[c2]", "T[c2] two"],
        ["moved_result"],
    ),
    "a call twice in one message is one call": (
        ["U a", "A[c1 c1]", "T[c1] one"],
        ["U a", "A[c1]", "T[c1] one"],
        ["repeated_call"],
    ),
    "empty and blank messages vanish": (
        ["U a", "A", "U ", "S \n", "A ok", "U b"],
        ["U a", "A ok", "U b"],
        ["empty", "empty", "blank"],
    ),
    "an aborted empty reply vanishes, a real last answer stays": (
        ["U hi", "A here is the answer", "A"],
        ["U hi", "A here is the answer", "U+ Continue."],
        ["empty", "prefill"],
    ),
    "the user turn comes last, where it stays once it is recorded": (
        ["U hi", "A the answer", "N the time"],
        ["U hi", "A the answer", "N the time", "U+ Continue."],
        ["prefill"],
    ),
    "a history from the assistant gets a user turn in front": (
        ["S be brief", "A[c1]", "T[c1] one"],
        [OPENING, "S be brief", "A[c1]", "T[c1] one"],
        ["first_user"],
    ),
    "a summary opens a history": (["M so far", "A ok", "U b"], ["M so far", "A ok", "U b"], []),
    "neighbours of one role stay apart": (["U a", "U b"], ["U a", "U b"], []),
    "instructions alone are no conversation": (["S be brief"], ["S be brief"], []),
    "nothing stays nothing": ([], [], []),
}


@pytest.mark.parametrize(("before", "after", "rules"), CASES.values(), ids=CASES.keys())
def test_a_broken_history_becomes_valid(
    before: list[str], after: list[str], rules: list[str]
) -> None:
    repaired = repair_history(talk(*before))

    assert shown(repaired.messages) == after
    assert [entry.rule for entry in repaired.entries] == [f"repair.{rule}" for rule in rules]


def test_a_made_up_result_says_that_the_call_may_have_run() -> None:
    repaired = repair_history(talk("U write the file", "A[c1]"))

    made_up = repaired.messages[-1]
    result = ToolResult(call_id="c1", content=(Text(NO_RESULT),), is_error=True, tool_name="look")
    assert made_up == Message(role="tool", parts=(result,), kind="synthetic", origin="assembler")
    assert repaired.entries[0].id == "m2"
    assert "c1" in repaired.entries[0].reason


def test_a_message_with_one_stored_result_is_not_ours() -> None:
    repaired = repair_history(talk("U a", "A[c1 c2]", "T[c2] two"))

    results = repaired.messages[-1]
    assert (results.kind, results.id, results.seq) == ("said", "m3", 3)


def test_put_together_results_are_pinned_if_any_is() -> None:
    history = talk("U a", "A[c1 c2]", "T[c1] one", "T[c2] two")
    history[3] = replace(history[3], is_pinned=True)

    repaired = repair_history(history)

    assert repaired.messages[2].is_pinned
    assert repaired.messages[2].id == "m3"


def test_different_calls_with_one_id_in_one_message_are_told_apart() -> None:
    calls = tuple(
        ToolCall(call_id=call_id, name="look", arguments={"at": n})
        for n, call_id in enumerate(["c1", "c1", "c1_2"])
    )
    history = [
        *talk("U a"),
        Message(role="assistant", parts=(Text("ok"), *calls)),
        *talk("T[c1 c1 c1_2] one|two|three"),
    ]

    repaired = repair_history(history)

    assert shown(repaired.messages[1:]) == ["A[c1 c1_3 c1_2] ok", "T[c1 c1_3 c1_2] one|two|three"]
    assert [entry.rule for entry in repaired.entries] == ["repair.shared_call_id"]


def test_a_single_result_goes_to_the_first_of_two_calls_with_one_id() -> None:
    calls = tuple(ToolCall(call_id="c1", name="look", arguments={"at": n}) for n in range(2))
    history = [*talk("U a"), Message(role="assistant", parts=calls), *talk("T[c1] one")]

    repaired = repair_history(history)

    assert shown(repaired.messages)[-1] == "T[c1 c1_2?] one"


CALL = ToolCall(call_id="c1", name="look")
RESULT = ToolResult(call_id="c1", content=(Text("one"),))
MISPLACED: dict[str, tuple[list[Message], list[str]]] = {
    "a call and thinking of the user": (
        [Message(role="user", parts=(Thinking(text="hm"), Text("a"), CALL))],
        ["U a"],
    ),
    "a user message of nothing but a call": (
        [*talk("U a"), Message(role="user", parts=(CALL,))],
        ["U a"],
    ),
    "a result in the user's message": (
        [*talk("U a", "A[c1]"), Message(role="user", parts=(Text("b"), RESULT))],
        ["U a", "A[c1]", "T[c1] one", "U b"],
    ),
    "a user message of nothing but a result": (
        [*talk("U a", "A[c1]"), Message(role="user", parts=(RESULT,))],
        ["U a", "A[c1]", "T[c1] one"],
    ),
    "a result inside the reply": (
        [*talk("U a"), Message(role="assistant", parts=(CALL, RESULT, Text("ok")))],
        ["U a", "A[c1] ok", "T[c1] one"],
    ),
    "text in a tool message": (
        [*talk("U a", "A[c1]"), Message(role="tool", parts=(Text("0"), RESULT, Text("2")))],
        ["U a", "A[c1]", "T[c1] 0\none\n2"],
    ),
    "a tool message without results": (
        [*talk("U a", "A[c1]"), Message(role="tool", parts=(Text("lost"), CALL))],
        ["U a", "A[c1]", "T[c1?]"],
    ),
}


@pytest.mark.parametrize(("before", "after"), MISPLACED.values(), ids=MISPLACED.keys())
def test_parts_in_the_wrong_role_are_moved_or_dropped(
    before: list[Message], after: list[str]
) -> None:
    repaired = repair_history(before)

    assert shown(repaired.messages) == after
    assert repaired.entries


DIRTY = "\ud83d\ude00\0 \ud800x"
CLEAN = "😀 \ufffdx"
PARTS: dict[str, tuple[Part, Part]] = {
    "text": (Text(DIRTY), Text(CLEAN)),
    "unsigned thinking": (Thinking(text=DIRTY), Thinking(text=CLEAN)),
    "an image from the web": (
        Image(source=UrlSource(url=f"https://example.com/{DIRTY}")),
        Image(source=UrlSource(url=f"https://example.com/{CLEAN}")),
    ),
    "an image in the message": (
        Image(source=Base64Source(media_type="image/png", data="aGk=\0")),
        Image(source=Base64Source(media_type="image/png", data="aGk=")),
    ),
    "an uploaded document": (
        Document(source=FileIdSource(provider="anthropic", file_id="f\0"), title=DIRTY, text=DIRTY),
        Document(source=FileIdSource(provider="anthropic", file_id="f"), title=CLEAN, text=CLEAN),
    ),
    "only the text of a document": (
        Document(source=UrlSource(url="https://example.com/a"), text=DIRTY),
        Document(source=UrlSource(url="https://example.com/a"), text=CLEAN),
    ),
    "an opaque block": (
        Opaque(provider="anthropic", block={"type": "x", "text": DIRTY}, text=DIRTY),
        Opaque(provider="anthropic", block={"type": "x", "text": CLEAN}, text=CLEAN),
    ),
    "the readable twin of a clean opaque block": (
        Opaque(provider="gemini", block={"thought_signature": "E"}, text=DIRTY),
        Opaque(provider="gemini", block={"thought_signature": "E"}, text=CLEAN),
    ),
    "the readable twin of clean signed thinking": (
        Thinking(provider="anthropic", text=DIRTY, block={"thinking": "", "signature": "E"}),
        Thinking(provider="anthropic", text=CLEAN, block={"thinking": "", "signature": "E"}),
    ),
}


@pytest.mark.parametrize(("before", "after"), PARTS.values(), ids=PARTS.keys())
def test_text_is_cleaned_everywhere(before: Part, after: Part) -> None:
    history = [*talk("U a"), Message(role="assistant", parts=(Text("ok"), before)), *talk("U b")]

    repaired = repair_history(history)

    assert repaired.messages[1].parts == (Text("ok"), after)
    assert [entry.rule for entry in repaired.entries] == ["repair.clean_text"] * (before != after)


# What a provider signed, with text in it that no request can carry.
SEALED: dict[str, tuple[Part, Part]] = {
    "thinking": (
        Thinking(provider="anthropic", text=DIRTY, block={"thinking": DIRTY, "signature": "E"}),
        Thinking(provider="anthropic", text=CLEAN),
    ),
    "text": (Text(DIRTY, signature="E"), Text(CLEAN)),
    "a call": (
        ToolCall(call_id="c1", name="f", arguments={"a": DIRTY}, signature="E"),
        ToolCall(call_id="c1", name="f", arguments={"a": CLEAN}),
    ),
    "a verbatim block": (
        Opaque(
            provider="gemini",
            block={"executableCode": {"code": DIRTY}, "thoughtSignature": "E"},
            text=DIRTY,
        ),
        Opaque(provider="gemini", block={"executableCode": {"code": CLEAN}}, text=CLEAN),
    ),
}


@pytest.mark.parametrize(("before", "after"), SEALED.values(), ids=SEALED.keys())
def test_what_was_signed_and_had_to_be_cleaned_has_no_signature_any_more(
    before: Part, after: Part
) -> None:
    history = [*talk("U a"), Message(role="assistant", parts=(before,)), *talk("U b")]

    repaired = repair_history(history)

    assert repaired.messages[1].parts == (after,)
    [row] = [entry for entry in repaired.entries if entry.rule == "repair.clean_text"]
    assert row.reason.endswith("1 signature(s) of what was cleaned are not sent.")
    assert repair_history(repaired.messages).messages == repaired.messages


ARGUMENTS: dict[str, tuple[dict[str, Json], dict[str, Json]]] = {
    "nested": ({"a": [{"b": DIRTY}, 1, None]}, {"a": [{"b": CLEAN}, 1, None]}),
    "keys": ({DIRTY: True}, {CLEAN: True}),
    "keys that become one": ({"k": 1, "k\0": 2, "k\0\0": 3}, {"k": 1, "k_2": 2, "k_3": 3}),
}


@pytest.mark.parametrize(("before", "after"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_arguments_and_results_are_cleaned(before: dict[str, Json], after: dict[str, Json]) -> None:
    call = ToolCall(call_id="c\0", name="lo\0ok", arguments=before, arguments_json="{\0}")
    result = ToolResult(call_id="c", content=(Text(DIRTY),), tool_name="lo\0ok")
    history = [
        *talk("U a"),
        Message(role="assistant", parts=(call,)),
        Message(role="tool", parts=(result,)),
    ]

    reply, results = repair_history(history).messages[1:]

    assert reply.parts == (
        ToolCall(call_id="c", name="look", arguments=after, arguments_json="{}"),
    )
    assert results.parts == (ToolResult(call_id="c", content=(Text(CLEAN),), tool_name="look"),)


def test_very_deep_arguments_are_no_trouble() -> None:
    deep: Json = "x"
    for _ in range(100_000):
        deep = [deep]
    call = ToolCall(call_id="c1", name="look", arguments={"deep": deep})
    history = [*talk("U a"), Message(role="assistant", parts=(call,)), *talk("T[c1] one")]

    repaired = repair_history(history)

    assert repaired.messages[1] is history[1]


def test_a_last_reply_of_unsigned_thinking_was_aborted() -> None:
    history = [*talk("U a"), Message(role="assistant", parts=(Thinking(text="Let me"),), id="m2")]

    repaired = repair_history(history)

    assert shown(repaired.messages) == ["U a"]
    assert [(e.rule, e.id, e.decision) for e in repaired.entries] == [
        ("repair.aborted", "m2", "dropped")
    ]


def test_an_empty_thinking_part_with_a_signature_is_a_full_one() -> None:
    signed = Thinking(provider="anthropic", block={"type": "thinking", "signature": "E"})
    history = [*talk("U a"), Message(role="assistant", parts=(signed,)), *talk("U b")]

    repaired = repair_history(history)

    assert repaired.messages == tuple(history)


def test_a_last_answer_stays_last_where_the_model_accepts_that() -> None:
    repaired = repair_history(talk("U a", "A {"), accepts_prefill=True)

    assert shown(repaired.messages) == ["U a", "A {"]
    assert repaired.entries == ()


@given(history=paired_conversations)
@settings(max_examples=60, deadline=None)
def test_a_history_that_needs_no_repair_is_returned_as_it_is(history: list[Message]) -> None:
    repaired = repair_history(history)

    assert repaired.entries == ()
    assert all(a is b for a, b in zip(repaired.messages, history, strict=True))


def _are_never_paired(_: Sequence[Message]) -> bool:
    return False


@given(
    history=st.one_of(broken_histories, paired_conversations),
    accepts_prefill=st.booleans(),
    provider=st.sampled_from([None, "anthropic", "gemini"]),
)
@settings(max_examples=500)
def test_where_every_result_stands_behind_its_call_nothing_is_left_to_pair(
    history: list[Message], *, accepts_prefill: bool, provider: str | None
) -> None:
    repaired = repair_history(history, accepts_prefill=accepts_prefill, provider=provider)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "are_paired", _are_never_paired)
        matched = repair_history(history, accepts_prefill=accepts_prefill, provider=provider)

    assert repaired == matched
    kept = {id(message) for message in history}
    assert [id(m) in kept for m in repaired.messages] == [id(m) in kept for m in matched.messages]


@given(history=paired_conversations)
def test_most_histories_are_paired_already(history: list[Message]) -> None:
    is_run_elsewhere = any(isinstance(part, Opaque) for m in history for part in m.parts)
    assert is_run_elsewhere or are_paired(history)


@given(history=broken_histories, accepts_prefill=st.booleans())
@settings(max_examples=100, deadline=None)
def test_repairing_twice_changes_nothing(history: list[Message], *, accepts_prefill: bool) -> None:
    once = repair_history(history, accepts_prefill=accepts_prefill)

    twice = repair_history(once.messages, accepts_prefill=accepts_prefill)

    assert twice.entries == ()
    assert all(a is b for a, b in zip(twice.messages, once.messages, strict=True))


@given(history=broken_histories)
@settings(max_examples=100, deadline=None)
def test_every_call_has_its_results_right_behind_it(history: list[Message]) -> None:
    repaired = repair_history(history).messages

    for at, message in enumerate(repaired):
        call_ids = [call.call_id for call in message.tool_calls]
        assert len(set(call_ids)) == len(call_ids)
        if call_ids:
            assert repaired[at + 1].role == "tool"
            assert [r.call_id for r in repaired[at + 1].tool_results] == call_ids
        if message.role == "tool":
            assert repaired[at - 1].tool_calls


@given(history=broken_histories)
@settings(max_examples=100, deadline=None)
def test_a_repaired_history_is_from_the_user_to_the_user(history: list[Message]) -> None:
    repaired = repair_history(history).messages

    spoken = [message for message in repaired if message.role != "system"]
    assert all(message.parts for message in repaired)
    assert not spoken or (spoken[0].role == "user" and spoken[-1].role in ("user", "tool"))


@given(history=broken_histories)
@settings(max_examples=100, deadline=None)
def test_whatever_was_changed_has_an_entry(history: list[Message]) -> None:
    repaired = repair_history(history)

    is_same = len(repaired.messages) == len(history) and all(
        a is b for a, b in zip(repaired.messages, history, strict=True)
    )
    assert is_same == (repaired.entries == ())


@given(history=broken_histories)
@settings(max_examples=100, deadline=None)
def test_no_call_is_ever_erased(history: list[Message]) -> None:
    repaired = repair_history(history).messages

    asked = {c.call_id for m in history if m.role == "assistant" for c in m.tool_calls}
    kept = {c.call_id for m in repaired for c in m.tool_calls}
    assert asked <= kept


@given(history=broken_histories)
@settings(max_examples=100, deadline=None)
def test_no_result_appears_twice(history: list[Message]) -> None:
    stored = sum(len(m.tool_results) for m in history)

    repaired = repair_history(history).messages

    real = [r for m in repaired for r in m.tool_results if not r.text.endswith(NO_RESULT)]
    assert len(real) <= stored
