"""Any history comes out valid: every call with its result, clean text, from the user to the user."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings

from context_assembler import (
    Opaque,
    SessionEvent,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant_event,
    system_event,
    tool_result_event,
    user_event,
)
from context_assembler.events import Provenance, part_from_json, to_json
from tests.core.sessions import OPUS, assembled
from tests.history.logs import broken_logs, sound_logs
from tests.history.talk import (
    MISSING,
    block,
    call,
    cases,
    result,
    rules,
    shown,
    talk,
    text_of,
    transform,
)

CASES = cases(
    """
a call that was interrupted gets an error result right behind it
    U write the file; A[c1]; U continue
    → U write the file; A[c1]; T[c1?]; U continue → missing_result
one call of a set without a result does not cost the other's
    U a; A[c1 c2]; T[c2] two; U b → U a; A[c1 c2]; T[c1? c2] two; U b → missing_result
a result without a call is dropped
    U a; T[c9] lost; A ok; U b → U a; A ok; U b → orphan_result
a result whose call was cut away in front is dropped
    T[c1] one; A ok; U b
    → U+ (The conversation begins with the assistant.); A ok; U b → first_user, orphan_result
of two results for one call the first wins
    U a; A[c1]; T[c1] one; T[c1] again → U a; A[c1]; T[c1] one → orphan_result
one id in two turns makes two pairs
    U a; A[c1]; T[c1] one; A ok; U b; A[c1]; T[c1] two; U c
    → U a; A[c1]; T[c1] one; A ok; U b; A[c1]; T[c1] two; U c
one id in two turns: only the second lacks its result
    U a; A[c1]; T[c1] one; A ok; U b; A[c1]; U c
    → U a; A[c1]; T[c1] one; A ok; U b; A[c1]; T[c1?]; U c → missing_result
one id in two turns: only the first lacks its result
    U a; A[c1]; U b; A[c1]; T[c1] two → U a; A[c1]; T[c1?]; U b; A[c1]; T[c1] two → missing_result
a result stored before its call moves behind it
    U a; T[c1] one; A[c1]; U b → U a; A[c1]; T[c1] one; U b → moved_result
a result stored before a repeated call moves behind it
    U a; A[c1]; T[c1] one; T[c1] two; A[c1]; U b
    → U a; A[c1]; T[c1] one; A[c1]; T[c1] two; U b → moved_result
a late result moves up to its call
    U a; A[c1]; U hurry; T[c1] one → U a; A[c1]; T[c1] one; U hurry → missing_result, moved_result
what stands between a call and its results moves behind them
    U a; A[c1 c2]; T[c1] one; S be brief; T[c2] two; A ok; U b
    → U a; A[c1 c2]; T[c1 c2] one|two; S be brief; A ok; U b → missing_result, moved_result
results of one set are put together in the order of the calls
    U a; A[c1 c2]; T[c2] two; T[c1] one → U a; A[c1 c2]; T[c1 c2] one|two
results of two sets in one message are parted
    U a; A[c1]; A[c2]; T[c1 c2] one|two
    → U a; A[c1]; T[c1] one; A[c2]; T[c2] two → missing_result, moved_result
an aborted empty reply vanishes, a real last answer stays
    U hi; A here is the answer; A → U hi; A here is the answer; U+ Continue. → empty, prefill
the user's turn comes last, where it stays once it is recorded
    U hi; A the answer; N the time → U hi; A the answer; N the time; U+ Continue. → prefill
a history from the assistant gets a user turn in front
    U; S be brief; A[c1]; T[c1] one
    → U+ (The conversation begins with the assistant.); S be brief; A[c1]; T[c1] one
    → empty, first_user
neighbours of one role stay apart
    U a; U b → U a; U b
nothing stays nothing
     →
"""
)
BLANK = ["U a", "A", "U ", "S \n", "A ok", "U b"]
CASES["empty and blank messages vanish"] = (
    BLANK,
    ["U a", "A ok", "U b"],
    ["empty"] * 2 + ["blank"],
)


@pytest.mark.parametrize(("before", "after", "told"), CASES.values(), ids=CASES.keys())
def test_a_broken_history_becomes_valid(
    before: list[str], after: list[str], told: list[str]
) -> None:
    done = transform(talk(*before), accepts_prefill=False)

    assert shown(done.turns) == after
    assert rules(done) == told


def test_a_made_up_result_says_that_the_call_may_have_run() -> None:
    done = transform(talk("U write the file", "A[c1]"))

    [made_up] = done.turns[-1]["parts"]
    assert done.turns[-1].get("kind") == "synthetic"
    assert made_up["is_error"]
    assert text_of(made_up["content"]).startswith(MISSING)
    assert done.entries[0].id == "e2"
    assert "c1" in done.entries[0].reason


def test_put_together_results_carry_the_first_id_and_are_pinned_if_any_is() -> None:
    events = talk("U a", "A[c1 c2]", "T[c1] one", "T[c2] two")
    events[3] = replace(events[3], is_pinned=True)

    turn = transform(events).turns[2]

    assert (turn.get("id"), turn.get("seq"), turn.get("is_pinned")) == ("e3", 3, True)


CALL = call("c1")
RESULT = result("c1", "one")
MISPLACED: dict[str, tuple[list[str | SessionEvent], list[str]]] = {
    "a call and thinking of the user": (
        [user_event((Thinking(text="hm"), Text("a"), CALL))],
        ["U a"],
    ),
    "a user message of nothing but a call": (["U a", user_event((CALL,))], ["U a"]),
    "a result in the user's message": (
        ["U a", "A[c1]", user_event((Text("b"), RESULT))],
        ["U a", "A[c1]", "T[c1] one", "U b"],
    ),
    "a user message of nothing but a result": (
        ["U a", "A[c1]", user_event((RESULT,))],
        ["U a", "A[c1]", "T[c1] one"],
    ),
    "a result inside the reply": (
        ["U a", assistant_event((CALL, RESULT, Text("ok")))],
        ["U a", "A[c1] ok", "T[c1] one"],
    ),
}


@pytest.mark.parametrize(("before", "after"), MISPLACED.values(), ids=MISPLACED.keys())
def test_parts_in_the_wrong_role_are_moved_or_dropped(
    before: list[str | SessionEvent], after: list[str]
) -> None:
    assert shown(transform(talk(*before)).turns) == after


# ---- clean text ----

DIRTY, CLEAN = "\ud83d\ude00\0 \ud800x", "😀 \ufffdx"


def dirty(text: str) -> dict[str, Any]:
    """Return parts that hold the text in every place."""
    return {
        "text": Text(text),
        "a block": Opaque(provider="anthropic", block={"type": "x", "text": text}, text=text),
        "a call": call("c1", text, arguments={text: [{"b": text}, 1, None]}),
    }


@pytest.mark.parametrize("name", dirty(""))
def test_text_is_cleaned_everywhere(name: str) -> None:
    said = user_event if name != "a call" else assistant_event
    done = transform(talk("U a", said((Text("ok"), dirty(DIRTY)[name])), "U b"))

    assert done.turns[1]["parts"] == to_json([Text("ok"), dirty(CLEAN)[name]])
    assert rules(done)[0] == "clean_text"


# What a provider signed, with text in it that no request can carry.
SIGNED = {
    "text": (Text(DIRTY, signature="E"), Text(CLEAN)),
    "a call": (
        call("c1", arguments={"a": DIRTY}, signature="E"),
        call("c1", arguments={"a": CLEAN}),
    ),
    "a block": (
        block("gemini", executableCode={"code": DIRTY}, thoughtSignature="E"),
        block("gemini", executableCode={"code": CLEAN}),
    ),
}


@pytest.mark.parametrize(("before", "after"), SIGNED.values(), ids=SIGNED.keys())
def test_what_was_signed_and_had_to_be_cleaned_has_no_signature_any_more(
    before: Any, after: Any
) -> None:
    done = transform(talk("U a", assistant_event((before,)), "U b"))

    assert done.turns[1]["parts"] == [to_json(after)]


def test_very_deep_arguments_are_no_trouble() -> None:
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    asks = call("c1", arguments={"deep": deep})

    done = transform(talk("U a", assistant_event((asks,)), "T[c1] one"))

    assert done.turns[1]["parts"] == [to_json(asks)]


UNREADABLE = {
    "cut off": ('{"path": "a', True),
    "no object": ("[1]", True),
    "nothing": ("", False),
    "an empty object": ("{}", False),
    "an object": ('{"path": "a"}', False),
}


@pytest.mark.parametrize(("written", "is_told"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_arguments_that_are_no_object_are_sent_as_they_were_written(
    written: str, is_told: bool
) -> None:
    asks = call("c1", arguments_json=written)

    done = transform(talk("U a", assistant_event((asks,)), "T[c1] one"))

    [sent], [answer] = done.turns[1]["parts"], done.turns[2]["parts"]
    assert sent.get("arguments_json", "") == written
    assert sent.get("arguments") == ({"INVALID_JSON": written} if is_told else None)
    assert text_of(answer["content"]) == "one"
    assert ("arguments" in rules(done)) == is_told


# ---- thoughts ----


def test_a_last_reply_of_unsigned_thinking_was_aborted() -> None:
    done = transform(talk("U a", assistant_event((Thinking(text="Let me"),))))

    assert shown(done.turns) == ["U a"]
    assert rules(done) == ["reasoning.empty", "reasoning.unsigned"]


@pytest.mark.parametrize("keeps", [True, False])
def test_signed_thinking_stays_whole_or_goes(keeps: bool) -> None:
    signed = Thinking(provider="anthropic", block={"type": "thinking", "signature": "E"})
    reply = assistant_event((signed, Text("ok")))

    done = transform(talk("U a", reply, "U b"), keeps_signed=keeps)

    assert done.turns[1]["parts"] == to_json([signed, Text("ok")] if keeps else [Text("ok")])


# ---- replies that a provider refused to give ----


@pytest.mark.parametrize("stop_reason", ["refusal", "content_filter", "SAFETY"])
@pytest.mark.parametrize("parts", [(), (Text("I will"),), (Text("I will"), CALL), (CALL, CALL)])
def test_a_line_stands_for_a_reply_that_was_refused(stop_reason: str, parts: Any) -> None:
    made_by = Provenance(provider="anthropic", model="m", stop_reason=stop_reason)
    refused = assistant_event(parts, made_by=made_by)

    done = transform(talk("U a", refused, "U b"))

    line = f"[The provider refused this reply ({stop_reason}).]"
    assert shown(done.turns) == ["U a", f"A {line}", "U b"]
    assert rules(done) == ["refused"]
    assert stop_reason in done.entries[0].reason


@pytest.mark.parametrize("stop_reason", ["stop", "end_turn", "STOP", "OTHER", "max_tokens"])
def test_a_line_stands_for_a_reply_that_ended_without_a_word(stop_reason: str) -> None:
    made_by = Provenance(provider="gemini", model="m", stop_reason=stop_reason)

    done = transform(talk("U a", assistant_event((), made_by=made_by), "U b"))

    assert shown(done.turns) == ["U a", f"A [The reply was empty ({stop_reason}).]", "U b"]
    assert rules(done) == ["refused"]


def test_an_empty_reply_that_was_broken_off_is_left_out() -> None:
    made_by = Provenance(provider="gemini", model="m", stop_reason=None)

    done = transform(talk("U a", assistant_event((), made_by=made_by), "U b"))

    assert "A" not in {turn[0] for turn in shown(done.turns)}


@pytest.mark.parametrize("part", [Text(" \n"), Thinking(text="Hm.")])
def test_a_line_stands_for_a_reply_that_says_nothing(part: Any) -> None:
    made_by = Provenance(provider="anthropic", model="m", stop_reason="end_turn")

    done = transform(talk("U a", assistant_event((part,), made_by=made_by), "U b"))

    assert shown(done.turns) == ["U a", "A [The reply was empty (end_turn).]", "U b"]


def test_a_refused_reply_whose_calls_were_answered_stays_as_it_is() -> None:
    made_by = Provenance(provider="anthropic", model="m", stop_reason="content_filter")
    refused = assistant_event((CALL,), made_by=made_by)

    assert shown(transform(talk("U a", refused, "T[c1] one")).turns)[1:] == ["A[c1]", "T[c1] one"]


# ---- calls that a provider runs itself ----


def asked(call_id: str) -> Opaque:
    return block("anthropic", type="server_tool_use", id=call_id, name="web_search", input={})


def found(call_id: str) -> Opaque:
    return block("anthropic", type="web_search_tool_result", tool_use_id=call_id, content=[])


def reply(*parts: Any) -> SessionEvent:
    return assistant_event(parts)


SAID = {"Here.": Text("Here."), "c1": CALL, "c2": call("c2")}


def server_row(row: str) -> SessionEvent | str:
    """Return the event of a row; in a reply `s1?` asks the server, `s1!` is what it found."""
    if not row.startswith("A "):
        return row
    makers = {"?": asked, "!": found}
    words = row.split()[1:]
    return reply(*(makers[w[-1]](w[:-1]) if w[-1] in makers else SAID[w] for w in words))


SERVER: dict[str, tuple[list[str], list[int], list[str]]] = {
    # rows behind the user's first, parts of the turns behind it, rules
    "answered in the same reply": (["A s1? s1! Here.", "U next"], [3, 1], []),
    "answered in the next reply": (["A s1?", "A s1! Here.", "U next"], [1, 2, 1], []),
    "never answered": (["A Here. s1?", "U next"], [1, 1], ["server_call"]),
    "nothing else, never answered": (["A s1?", "U next"], [1], ["server_call"]),
    "a result without its call": (["A s1! Here.", "U next"], [1, 1], ["server_call"]),
    "waiting at the end": (["A Here. s1?"], [2], []),
    "next to a call of the client's": (
        ["A s1? c1", "T[c1] one", "A s1! Here.", "U next"],
        [2, 1, 2, 1],
        [],
    ),
    "over several rounds of the client's calls": (
        ["A s1? c1", "T[c1] one", "A c2", "T[c2] two", "A s1! Here.", "U next"],
        [2, 1, 1, 1, 2, 1],
        [],
    ),
    "waiting for a result of the client's": (["A s1? c1", "T[c1] one"], [2, 1], []),
    "the user speaks while it runs": (
        ["A s1? c1", "T[c1] one", "U next"],
        [1, 1, 1],
        ["server_call"],
    ),
    "text between": (["A s1?", "A Here.", "A s1!", "U next"], [1] * 4, []),
    "two messages stand between": (
        ["A s1? s2?", "U next", "A s1!", "U next", "A s2!", "U next"],
        [2, 1, 1, 1, 1, 1],
        ["server_call", "server_call"],
    ),
    "a message stands between": (
        ["A s1?", "U next", "A s1! Here.", "U next"],
        [1, 2, 1, 1],
        ["server_call"],
    ),
    "a result before its call": (["A s1! s1? Here.", "U next"], [1, 1], ["server_call"]),
    "asked twice, answered twice": (["A s1? s1? s1! s1!", "U next"], [2, 1], ["server_call"]),
}


@pytest.mark.parametrize(("events", "sizes", "told"), SERVER.values(), ids=SERVER.keys())
def test_a_providers_own_calls_stay_with_their_results(
    events: list[str], sizes: list[int], told: list[str]
) -> None:
    done = transform(talk("U a", *map(server_row, events)))

    assert [len(turn["parts"]) for turn in done.turns[1:]] == sizes
    assert rules(done) == told


SERVER_BLOCKS = [asked("srvtoolu_a"), asked("srvtoolu_b"), found("srvtoolu_a"), found("srvtoolu_b")]


@pytest.mark.parametrize("between", [[], ["U go on"]])
def test_any_order_of_a_providers_own_calls_is_valid(between: list[str]) -> None:
    for blocks in product(SERVER_BLOCKS, repeat=3):
        first, second = reply(*blocks[:2]), reply(*blocks[2:])
        events: list[str | SessionEvent] = [first, *between, second, *between]

        assert assembled("U a", *events, model=OPUS).check() == []


# ---- laws ----


@given(events=sound_logs)
@settings(max_examples=60)
def test_a_history_that_needs_no_repair_goes_through_unchanged(events: list[SessionEvent]) -> None:
    done = transform(events)

    assert done.entries == ()
    parts = [part for turn in done.turns for part in turn["parts"]]
    assert parts == [to_json(part) for event in events for part in event.parts]


@given(events=broken_logs)
@settings(max_examples=150)
def test_whatever_comes_in_is_paired_and_spoken_in_turn(events: list[SessionEvent]) -> None:
    turns = transform(events, accepts_prefill=False).turns

    spoken = [turn for turn in turns if turn["role"] != "system"]
    assert all(turn["parts"] for turn in turns)
    assert not spoken or spoken[0]["role"] == "user"
    waits = {part["type"] for part in spoken[-1]["parts"]} >= {"opaque"} if spoken else True
    assert waits or spoken[-1]["role"] in ("user", "tool")
    for at, turn in enumerate(turns):
        calls = [part["call_id"] for part in turn["parts"] if part["type"] == "tool_call"]
        if calls:
            assert [part["call_id"] for part in turns[at + 1]["parts"]] == calls
        assert turn["role"] != "tool" or any(
            part["type"] == "tool_call" for part in turns[at - 1]["parts"]
        )


@given(events=broken_logs)
@settings(max_examples=100)
def test_no_call_is_erased_and_no_result_comes_twice(events: list[SessionEvent]) -> None:
    turns = transform(events).turns

    covered = any(event.type == "compaction" for event in events)
    parts = [part for turn in turns for part in turn["parts"]]
    kept = {part["call_id"] for part in parts if part["type"] == "tool_call"}
    asks = [c for event in events if event.type in ("assistant", "tool_call") for c in event.parts]
    assert covered or {c.call_id.replace("\0", "") for c in asks if isinstance(c, ToolCall)} <= kept
    real = [part for part in parts if part["type"] == "tool_result" and MISSING not in str(part)]
    stored = [part for event in events for part in event.parts if isinstance(part, ToolResult)]
    assert len(real) <= len(stored)


@given(events=broken_logs)
@settings(max_examples=100)
def test_repairing_twice_changes_nothing(events: list[SessionEvent]) -> None:
    once = transform([event for event in events if event.type != "compaction"]).turns
    makers: Any = {"user": user_event, "assistant": assistant_event, "system": system_event}

    again: list[SessionEvent] = []
    for turn in once:
        parts = tuple(map(part_from_json, turn["parts"]))
        if turn["role"] == "tool":
            again += [SessionEvent(type="tool_result", parts=(part,)) for part in parts]
        else:
            again.append(makers[turn["role"]](parts))
    twice = transform(again, takes_leading_system=False)

    assert [turn["parts"] for turn in twice.turns] == [turn["parts"] for turn in once]


def test_a_result_is_found_by_its_tool_too() -> None:
    assert (
        shown(transform([*talk("U a", "A[c1]"), tool_result_event("c1", "one")]).turns)[-1]
        == "T[c1] one"
    )
