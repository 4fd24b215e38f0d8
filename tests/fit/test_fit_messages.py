"""Lists of all four shapes: what stays is the same object, what is sent is valid and only grows."""

import copy
import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler import FittedMessages, ToolCall, fit_messages
from context_assembler.errors import (
    ContextOverflowError,
    InvalidParameterError,
    TranscriptError,
    UnknownModelError,
    UnsupportedRequestError,
)
from context_assembler.providers import check_payload
from context_assembler.providers.wire import as_list
from context_assembler.testing import ScriptedReply, serve_providers
from context_assembler.tokens import TokenCounter

KEYS = {
    "openai_chat": ("messages", "gpt-4.1"),
    "openai_responses": ("input", "gpt-5.4"),
    "anthropic": ("messages", "claude-sonnet-4-6"),
    "gemini": ("contents", "gemini-2.5-flash"),
}
SHAPES = sorted(KEYS)


def talk(shape: str, steps: int = 30) -> list[Any]:
    """Return a task and an agent's steps on it; half the replies are the SDK's objects."""
    told: list[Any] = [user(shape, "Migrate the billing table.")]
    for at in range(steps):
        told += step(shape, at, f"row {at} of the table\n" * 40, as_object=bool(at % 2))
    return told


def user(shape: str, text: str) -> dict[str, Any]:
    if shape == "gemini":
        return {"role": "user", "parts": [{"text": text}]}
    return {"role": "user", "content": text}


def step(shape: str, at: int, output: str, *, as_object: bool) -> list[Any]:
    name, arguments, call_id = "read", {"page": at}, f"call_{at}"
    if shape == "gemini":
        from google.genai import types

        call: Any = {
            "role": "model",
            "parts": [{"functionCall": {"name": name, "args": arguments}}],
        }
        result = {"functionResponse": {"name": name, "response": {"output": output}}}
        call = types.Content.model_validate(call) if as_object else call
        return [call, {"role": "user", "parts": [result]}]
    if shape == "anthropic":
        from anthropic.types import Message

        block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        call = {"role": "assistant", "content": [block]}
        usage = {"input_tokens": 1, "output_tokens": 1}
        about = {"id": "m", "type": "message", "model": "claude-sonnet-4-6", "usage": usage}
        call = Message.model_validate(call | about) if as_object else call
        return [call, {"role": "user", "content": [result_block(call_id, output)]}]
    if shape == "openai_chat":
        from openai.types.chat import ChatCompletionMessage

        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": call_id, "type": "function", "function": function}]
        call = {"role": "assistant", "content": None, "tool_calls": calls}
        call = ChatCompletionMessage.model_validate(call) if as_object else call
        return [call, {"role": "tool", "tool_call_id": call_id, "content": output}]
    from openai.types.responses import ResponseFunctionToolCall

    call = {"type": "function_call", "call_id": call_id, "name": name}
    call["arguments"] = json.dumps(arguments)
    call = ResponseFunctionToolCall.model_validate(call) if as_object else call
    return [call, {"type": "function_call_output", "call_id": call_id, "output": output}]


def result_block(call_id: str, output: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": output}


def plain(messages: list[Any]) -> list[Any]:
    return [
        one
        if isinstance(one, dict)
        else one.model_dump(mode="json", exclude_unset=True, by_alias=True)
        for one in messages
    ]


def refused(shape: str, messages: list[Any]) -> list[Any]:
    key = KEYS[shape][0]
    payload = {"model": KEYS[shape][1], "max_tokens": 1, key: plain(messages)}
    found = check_payload(shape, payload).refused
    return [one for one in found if one.where.startswith(f"{key}[")]


def check(fitted: FittedMessages, messages: list[Any]) -> None:
    """Check that every message is sent as it is, or listed; and that all fit."""
    listed = {entry.id for entry in fitted.changes}
    assert fitted.tokens <= fitted.max_tokens
    for one, at in zip(fitted.messages, fitted.indices, strict=True):
        assert at is None or one is messages[at] or str(at) in listed
    kept = {*fitted.indices}
    assert all(at in kept or str(at) in listed for at in range(len(messages)))


@pytest.mark.parametrize("shape", SHAPES)
class TestGrowingList:
    def test_it_is_as_it_was_until_something_has_to_go(self, shape: str) -> None:
        messages = talk(shape)
        fitted = fit_messages(messages, model=KEYS[shape][1])
        assert all(map(lambda a, b: a is b, fitted.messages, messages))
        assert fitted.indices == [*range(len(messages))]
        assert not fitted.changes

    def test_it_fits_is_valid_and_only_grows_between_cuts(self, shape: str) -> None:
        messages, rewrites = talk(shape, 60), 0
        before, seen = None, copy.deepcopy(messages)
        for end in range(1, len(messages) + 1, 2):
            part = messages[:end]
            fitted = fit_messages(part, model=KEYS[shape][1], max_tokens=4_000, after=before)
            check(fitted, part)
            assert not refused(shape, fitted.messages)
            assert fitted.messages[0] is messages[0]
            if before is not None:
                is_same = fitted.messages[: len(before.messages)] == before.messages
                assert fitted.keeps_prefix == is_same
                rewrites += not is_same
            before = fitted
        assert 0 < rewrites < 16
        assert plain(messages) == plain(seen)

    def test_what_was_fitted_before_changes_nothing_but_the_cost(self, shape: str) -> None:
        model = KEYS[shape][1]
        messages, before = talk(shape, 40), None
        for end in range(1, len(messages) + 1):
            before = fit_messages(messages[:end], model=model, max_tokens=3_000, after=before)
            alone = fit_messages(messages[:end], model=model, max_tokens=3_000)
            for name in ("messages", "indices", "changes", "tokens", "max_tokens"):
                assert getattr(before, name) == getattr(alone, name), (end, name)

    def test_a_wrong_after_is_not_used(self, shape: str) -> None:
        model, messages = KEYS[shape][1], talk(shape, 40)
        other = [user(shape, "Something else."), *messages[1:]]
        alone = fit_messages(other, model=model, max_tokens=3_000)
        for before in (
            fit_messages(messages, model=model, max_tokens=3_000),
            fit_messages(other, model=model, max_tokens=2_000),
            fit_messages(messages[:5], model=model),
        ):
            again = fit_messages(other, model=model, max_tokens=3_000, after=before)
            assert (again.messages, again.changes) == (alone.messages, alone.changes)

    def test_a_message_changed_in_place_is_read_again(self, shape: str) -> None:
        model, messages = KEYS[shape][1], talk(shape)
        before = fit_messages(messages, model=model)
        messages[0] |= user(shape, "Migrate it, slowly. " * 500)
        after = fit_messages(messages, model=model, after=before)
        assert after.tokens > before.tokens + 1_000

    def test_only_what_is_new_is_counted(self, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model, messages = KEYS[shape][1], talk(shape, 100)
        before = fit_messages(messages, model=model, max_tokens=4_000)
        counted, count = list[int](), TokenCounter.count_event

        def counting(family: TokenCounter, kind: int, body: Any) -> int:
            counted.append(kind)
            return count(family, kind, body)

        monkeypatch.setattr(TokenCounter, "count_event", counting)
        more = [*messages, *step(shape, 100, "the end", as_object=False)]
        fit_messages(more, model=model, max_tokens=4_000, after=before)
        assert len(counted) < 12


@cache
def recorded(folder: Path, shape: str) -> list[Any]:
    text = (folder / "requests" / f"accepted_{shape}.jsonl").read_text(encoding="utf-8")
    rows = map(json.loads, text.split("\n")[:-1])
    lists = [row["request"].get(KEYS[shape][0]) for row in rows]
    return [as_list(one) for one in lists if len(as_list(one)) > 2]


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=25)
@given(data=st.data())
def test_recorded_requests_stay_valid(shape: str, corpus: Path, data: st.DataObject) -> None:
    messages = data.draw(st.sampled_from(recorded(corpus, shape)))
    model, seen = KEYS[shape][1], copy.deepcopy(messages)
    whole, flaws = fit_messages(messages, model=model), refused(shape, messages)
    opened = whole.indices[:1] == [None]
    assert flaws or all(map(lambda a, b: a is b, whole.messages[opened:], messages))
    most = max(1, int(whole.tokens * data.draw(st.floats(0.3, 1))))
    before, repeats = None, data.draw(st.booleans())
    for end in range(max(1, len(messages) - 4), len(messages) + 1):
        part = messages[:end]
        try:
            fitted = fit_messages(
                part, model=model, max_tokens=most, after=before, shorten_repeats=repeats
            )
        except ContextOverflowError:
            continue
        check(fitted, part)
        assert flaws or not refused(shape, fitted.messages)
        before = fitted
    assert messages == seen


ACCEPTED_CALLS = ("881ceb93", "b7a8c408", "c53edb25")  # behind reasoning with an id, without one


def test_reasoning_with_an_id_stays_before_a_call_without_one(corpus: Path) -> None:
    text = (corpus / "requests" / "accepted_openai_responses.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line[8:16] in ACCEPTED_CALLS]
    assert len(rows) == len(ACCEPTED_CALLS)
    for row in rows:
        items = row["request"]["input"]
        assert fit_messages(items, model="gpt-5.5").indices == [*range(len(items))]


def ask_anthropic(url: str, messages: list[Any]) -> list[Any]:
    """Return what a reply adds to a list, and the result of its call."""
    from anthropic import Anthropic

    thinking: Any = {"type": "adaptive", "display": "summarized"}
    tools: Any = [{"name": "read", "input_schema": {"type": "object"}}]
    with Anthropic(base_url=url, api_key="test", max_retries=0) as client:
        reply = client.messages.create(
            model="claude-opus-5-5",
            max_tokens=99,
            messages=messages,
            tools=tools,
            thinking=thinking,
        )
    called: Any = reply.content[-1]
    return [reply, {"role": "user", "content": [result_block(called.id, "row\n" * 200)]}]


def ask_openai(url: str, messages: list[Any]) -> list[Any]:
    from openai import OpenAI

    tools: Any = [{"type": "function", "name": "read", "parameters": {"type": "object"}}]
    with OpenAI(base_url=f"{url}/v1", api_key="test", max_retries=0) as client:
        reply = client.responses.create(
            model="gpt-6.2-sol",
            input=messages,
            tools=tools,
            store=False,
            include=["reasoning.encrypted_content"],
        )
    called: Any = reply.output[-1]
    result = {"type": "function_call_output", "call_id": called.call_id, "output": "row\n" * 200}
    return [*reply.output, result]


BOUND = {"claude-opus-5-5": ask_anthropic, "gpt-6.2-sol": ask_openai}


@pytest.mark.parametrize("model", BOUND)
def test_reasoning_that_is_bound_to_what_stood_before_it_is_left_out_after_a_cut(
    model: str,
) -> None:
    told, before, left_out = [user("anthropic", "Migrate the table.")], None, list[int]()
    calls = [ToolCall(call_id=f"c{n}", name="read", arguments={"page": n}) for n in range(30)]
    with serve_providers([ScriptedReply("So.", (call,), "Next.") for call in calls]) as server:
        for _ in calls:
            fitted = fit_messages(told, model=model, max_tokens=4_000, after=before)
            alone = fit_messages(told, model=model, max_tokens=4_000)
            assert (fitted.messages, fitted.changes) == (alone.messages, alone.changes)
            check(fitted, told)
            left_out.append(sum(one.rule == "reasoning.prefix" for one in fitted.changes))
            before = fitted
            told += BOUND[model](server.url, fitted.messages)
    assert left_out[0] == 0
    assert left_out[-1] > 1
    assert not any(seen.refusal or seen.left_out for seen in server.requests)


GO = {"role": "user", "content": "Go."}
BRIEF = {"role": "system", "content": "Be brief."}
ASKS = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": name, "name": "read", "input": {}} for name in "ab"],
}
SEEN = {"role": "user", "content": [result_block("b", "row"), {"type": "text", "text": "Go on."}]}
BOTH = {"role": "user", "content": [result_block(name, "row") for name in "ab"]}
FOREIGN = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}


def item(name: str, output: str | None = None) -> dict[str, Any]:
    if output is not None:
        return {"type": "function_call_output", "call_id": name, "output": output}
    return {"type": "function_call", "call_id": name, "name": "read", "arguments": "{}"}


def thought_over(at: int) -> list[dict[str, Any]]:
    """Return reasoning with an id, which a message without one parts from its call."""
    thought = {"type": "reasoning", "id": f"rs_{at}", "summary": [], "encrypted_content": "x"}
    call = item(f"c{at}") | {"id": f"fc_{at}"}
    return [thought, {"role": "assistant", "content": "row"}, call, item(f"c{at}", "ok")]


def model_says(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": [*parts]}


LOOK, OK = model_says({"text": "I look."}), {"role": "assistant", "content": "ok"}
CALL, ANSWER = step("gemini", 1, "row", as_object=False)
BEGIN, ON = user("gemini", "Go"), user("gemini", "On")
# Model, messages, and the places of what is sent.
REPAIRED: list[tuple[str, list[Any], list[int | None]]] = [
    ("claude-opus-5-5", [GO, ASKS, BRIEF, FOREIGN], [0, 1, 3]),
    ("claude-opus-5-5", [GO, ASKS, BRIEF, GO], [0, 1, 3]),
    ("claude-opus-5-5", [GO, OK, BRIEF, ASKS, BOTH, BRIEF, GO], [0, 1, 2, 3, 4]),
    ("claude-sonnet-4-6", [GO, ASKS, SEEN], [0, 1, 2, None, 2]),
    ("claude-sonnet-4-6", [GO, OK, BRIEF, OK], [0, 1, 2, 3, None]),
    (
        "gpt-5.4",
        [GO, *(item(name, text) for name in ("c", "c", "d", "c") for text in (None, "ok"))],
        [*range(9)],
    ),
    ("gpt-5.4", [GO, *(item("c", text) for text in (None, None, "a", "b"))], [*range(5)]),
    ("gpt-5.4", [GO, *thought_over(1), *thought_over(2)], [0, 2, 3, 4, 6, 7, 8]),
    ("gemini-2.5-flash", [BEGIN, LOOK, CALL, ANSWER], [0, 1, 3]),
    ("gemini-2.5-flash", [BEGIN, *[LOOK] * 4, CALL, ANSWER], [0, 1, 6]),
    ("gemini-4-argon", [BEGIN, CALL, ANSWER, LOOK, CALL, ANSWER], [0, 1, 2, 3, 5]),
    ("gemini-4-argon", [BEGIN, CALL, ANSWER, ON, CALL, ANSWER], [*range(6)]),
]
SPOKEN = {"claude": "anthropic", "gpt": "openai_responses", "gemini": "gemini"}


SUMMARY = {"type": "compaction", "content": "They said hello.", "signature": "x"}
SUMMED = {"role": "assistant", "content": [SUMMARY]}
THRESHOLD = {"role": "assistant", "content": [{"type": "compaction", "content": "Hello."}]}


@pytest.mark.parametrize("messages", [[SUMMED, GO], [SUMMED, OK, GO], [THRESHOLD, GO]])
def test_a_summary_by_anthropic_stays_in_front_of_everything_else(messages: list[Any]) -> None:
    fitted = fit_messages(messages, model="claude-opus-5-5")
    assert fitted.messages == messages
    assert not fitted.changes


def test_marks_for_the_cache_that_move_on_change_no_prefix() -> None:
    def said(*marked: int) -> list[Any]:
        mark = {"cache_control": {"type": "ephemeral"}}
        texts = [{"type": "text", "text": "Hi"} | (mark if at in marked else {}) for at in range(3)]
        return [{"role": "user", "content": [text]} for text in texts]

    before = fit_messages(said(1)[:2], model="claude-opus-5-5")
    assert fit_messages(said(2), model="claude-opus-5-5", after=before).keeps_prefix


class TestBrokenLists:
    @pytest.mark.parametrize(("model", "messages", "places"), REPAIRED)
    def test_it_is_valid_and_listed_whatever_was_fitted_before(
        self, model: str, messages: list[Any], places: list[int | None]
    ) -> None:
        before, shape = None, SPOKEN[model.partition("-")[0]]
        for end in range(1, len(messages) + 1):
            part = messages[:end]
            fitted = fit_messages(part, model=model, after=before)
            check(fitted, part)
            payload = {"model": model, "max_tokens": 99, KEYS[shape][0]: fitted.messages}
            found = check_payload(shape, payload).refused
            assert not [one for one in found if one.where.startswith(KEYS[shape][0])]
            alone = fit_messages(part, model=model)
            assert (fitted.messages, fitted.changes) == (alone.messages, alone.changes)
            before = fitted
        assert before is not None
        assert before.indices == places

    def test_a_marker_between_instructions_and_the_user_stays_in_the_users_message(self) -> None:
        messages = [GO, BRIEF, *talk("anthropic", 40)[1:], GO]
        fitted = fit_messages(messages, model="claude-opus-5-5", max_tokens=3_000)
        check(fitted, messages)
        payload = {"model": "claude-opus-5-5", "max_tokens": 99, "messages": plain(fitted.messages)}
        found = check_payload("anthropic", payload).refused
        assert not [one for one in found if one.where.startswith("messages")]
        assert str(fitted.messages).count("left out here") == 1

    @pytest.mark.parametrize(
        ("model", "more"),
        [
            ("claude-opus-5-5", [GO, ASKS, SEEN]),
            ("gemini-2.5-flash", [BEGIN, CALL, ANSWER]),
        ],
    )
    def test_instructions_in_front_are_refused_where_they_stand_next_to_the_list(
        self, model: str, more: list[Any]
    ) -> None:
        for role in ("system", "developer"):
            with pytest.raises(TranscriptError, match=r"messages\[0\].*system="):
                fit_messages([{"role": role, "content": "Be brief."}, *more], model=model)
        chat = [BRIEF, *talk("openai_chat", 2)]  # a gateway may take it
        assert fit_messages(chat, model=model).indices == [*range(len(chat))]

    def test_a_call_without_a_result_gets_one(self) -> None:
        messages = [user("openai_chat", "Go."), step("openai_chat", 1, "", as_object=False)[0]]
        messages.append(user("openai_chat", "And?"))
        fitted = fit_messages(messages, model="gpt-4.1")
        assert fitted.indices == [0, 1, None, 2]
        assert fitted.messages[2]["tool_call_id"] == "call_1"
        assert [entry.rule for entry in fitted.changes if entry.kind == "note"] == ["repair.added"]
        assert not refused("openai_chat", fitted.messages)

    def test_a_result_without_a_call_is_left_out(self) -> None:
        lost = {"role": "user", "content": [result_block("c", "?"), {"type": "text", "text": "Hi"}]}
        fitted = fit_messages([lost], model="claude-sonnet-4-6")
        assert fitted.indices == [0]
        assert not refused("anthropic", fitted.messages)
        assert [entry.id for entry in fitted.changes] == ["0"]
        assert len(lost["content"]) == 2

    def test_a_result_that_comes_late_is_moved_and_listed(self) -> None:
        asked, (call, result) = (
            user("openai_chat", "And?"),
            step("openai_chat", 1, "r", as_object=False),
        )
        messages = [user("openai_chat", "Go."), call, asked, result]
        fitted = fit_messages(messages, model="gpt-4.1")
        assert fitted.indices == [0, 1, 3, 2]
        assert fitted.messages[2] is result
        told = [(entry.id, entry.decision, entry.rule) for entry in fitted.changes]
        assert told == [("3", "repaired", "repair.moved_result")]

    def test_calls_that_share_an_id_are_told_apart_and_their_results_keep_their_places(
        self,
    ) -> None:
        call = {"id": "same", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        results = [{"role": "tool", "tool_call_id": "same", "content": text} for text in "ab"]
        reply = {"role": "assistant", "content": None, "tool_calls": [call, call]}
        fitted = fit_messages([user("openai_chat", "Go."), reply, *results], model="gpt-4.1")
        ids = [one["id"] for one in fitted.messages[1]["tool_calls"]]
        assert fitted.indices == [0, 1, 2, 3]
        assert len({*ids}) == 2
        told = [(one["tool_call_id"], one["content"]) for one in fitted.messages[2:]]
        assert told == list(zip(ids, "ab", strict=True))
        assert [entry.decision for entry in fitted.changes] == ["repaired"] * 3

    def test_reasoning_that_leads_to_nothing_is_left_out_with_that_reason(self) -> None:
        item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
        hello = user("openai_responses", "Hi")
        for messages in ([hello, item], [hello, item, hello], [item, hello]):
            fitted = fit_messages(messages, model="gpt-5.4")
            entry = next(one for one in fitted.changes if one.kind == "message")
            assert entry.id == str(messages.index(item))
            assert entry.decision == "dropped"
            assert "(R2)" in entry.reason
            assert messages.index(item) not in fitted.indices

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("foreign", SHAPES)
    def test_messages_of_another_shape_are_sent_in_that_of_the_list(
        self, shape: str, foreign: str
    ) -> None:
        messages = [*talk(shape, 8), *step(foreign, 8, "more", as_object=False)]
        fitted = fit_messages(messages, model=KEYS[shape][1])
        check(fitted, messages)
        assert not refused(shape, fitted.messages)
        assert fitted.indices == [*range(len(messages))]
        changed = ["17", "18"] if foreign != shape else []
        assert [entry.id for entry in fitted.changes] == changed
        short = fit_messages(messages, model=KEYS[shape][1], max_tokens=1_500)
        check(short, messages)
        assert not refused(shape, short.messages)
        assert short.messages[-2:] == fitted.messages[-2:]

    @pytest.mark.parametrize("shape", SHAPES)
    def test_a_list_that_begins_with_the_model_is_opened_if_the_provider_wants_that(
        self, shape: str
    ) -> None:
        said: dict[str, Any] = {"role": "assistant", "content": "Hello."}
        if shape == "gemini":
            said = {"role": "model", "parts": [{"text": "Hello."}]}
        messages, before = [said, user(shape, "Hi."), said, user(shape, "And?")], None
        for end in (2, 4):
            fitted = fit_messages(messages[:end], model=KEYS[shape][1], after=before)
            added = [entry.id for entry in fitted.changes]
            assert added == ([] if shape.startswith("openai") else ["added[0]"])
            assert fitted.messages[len(added) :] == messages[:end]
            assert before is None or fitted.messages[: len(before.messages)] == before.messages
            before = fitted

    def test_what_was_added_is_named(self) -> None:
        said = {"role": "assistant", "content": "Hello."}
        messages = [said, *talk("anthropic", 40)]
        fitted = fit_messages(messages, model="claude-sonnet-4-6", max_tokens=3_000)
        rules = [entry.rule for entry in fitted.changes if entry.kind == "note"]
        assert rules == ["repair.added", "smart.marker"]

    @pytest.mark.parametrize("odd", [{"role": "bot", "content": "?"}, {"type": "x"}, 3, None])
    def test_what_cannot_be_read_is_named(self, odd: Any) -> None:
        with pytest.raises(TranscriptError, match=r"messages\[1\]"):
            fit_messages([user("openai_chat", "Hi"), odd], model="gpt-4.1")


class TestSizes:
    def test_instructions_stay_first_and_are_counted(self) -> None:
        lead = {"role": "developer", "content": "Be brief. " * 100}
        messages = [lead, *talk("openai_chat", 60)]
        fitted = fit_messages(messages, model="gpt-4.1", max_tokens=4_000)
        assert fitted.messages[0] is lead
        bare = fit_messages(messages[1:], model="gpt-4.1")
        assert fit_messages(messages, model="gpt-4.1").tokens > bare.tokens + 200

    def test_system_and_tools_are_counted(self) -> None:
        def find(city: str) -> str:
            """Find a city."""
            return city

        bare = fit_messages([user("anthropic", "Hi")], model="claude-sonnet-4-6")
        blocks = [{"type": "text", "text": "Be brief. " * 50}]
        wide: list[dict[str, Any]] = [
            {"system": "Be brief. " * 50},
            {"system": blocks},
            {"tools": [find]},
            {"response_format": {"type": "object", "properties": {"city": {"type": "string"}}}},
        ]
        for more in wide:
            fitted = fit_messages([user("anthropic", "Hi")], model="claude-sonnet-4-6", **more)
            assert fitted.tokens > bare.tokens + 10

    def test_what_cannot_fit_is_an_error_with_sizes(self) -> None:
        for messages in (
            [{"role": "system", "content": "word " * 500}],
            [{"role": "system", "content": "word " * 500}, user("openai_chat", "Hi")],
            [user("openai_chat", "word " * 500)],
        ):
            with pytest.raises(ContextOverflowError) as found:
                fit_messages(messages, model="gpt-4.1", max_tokens=100)
            assert found.value.budget_tokens <= 100
            assert "max_tokens" in str(found.value)
            assert "max_context_tokens" not in str(found.value)
        with pytest.raises(UnknownModelError):
            fit_messages([], model="no-such-model")

    def test_a_long_result_is_shortened_in_a_new_message(self) -> None:
        messages = talk("openai_chat", 2)
        messages[-1]["content"] = "line of the log\n" * 3_000
        messages[-1]["name"] = "read"
        whole = copy.deepcopy(messages[-1])
        fitted = fit_messages(messages, model="gpt-4.1", max_tokens=2_000)
        short = fitted.messages[-1]
        entry = next(one for one in fitted.changes if one.id == "4")
        assert short["tool_call_id"] == "call_1"
        assert short["name"] == "read"
        assert len(short["content"]) < len(whole["content"])
        assert messages[-1] == whole
        assert entry.decision == "shortened"
        assert entry.tokens_before > entry.tokens_after > 0

    def test_tokens_can_be_counted_simply(self) -> None:
        messages = talk("openai_chat", 20)
        exact, simple = (
            fit_messages(messages, model="gpt-4.1", counter=name) for name in ("auto", "simple")
        )
        assert exact.messages == simple.messages
        assert exact.tokens != simple.tokens

    @pytest.mark.parametrize("answer", [lambda groups: [*groups], lambda _: None, lambda _: [0.5]])
    def test_an_own_strategy_that_returns_no_indices_is_named(self, answer: Any) -> None:
        with pytest.raises(InvalidParameterError, match="indices"):
            fit_messages(
                talk("openai_chat", 40),
                model="gpt-4.1",
                max_tokens=3_000,
                strategy=lambda groups, _columns, _room: answer(groups),
            )

    def test_own_strategies_and_newest_messages(self) -> None:
        messages = talk("openai_chat", 40)
        none = fit_messages(
            messages,
            model="gpt-4.1",
            max_tokens=3_000,
            strategy=lambda _groups, _columns, _room: [],
        )
        assert none.indices[-2:] == [79, 80]
        assert len(none.messages) < 12
        newest = fit_messages(messages, model="gpt-4.1", max_tokens=4_000, keep_last_messages=10)
        assert newest.indices[-10:] == [*range(71, 81)]
        assert all(a.tokens >= b.tokens for a, b in pairwise((newest, none)))


def test_tools_next_to_chat_messages_need_a_model_that_takes_them_there() -> None:
    messages = talk("openai_chat")
    spec = {"name": "find_flights", "input_schema": {"type": "object"}}
    with pytest.raises(UnsupportedRequestError, match="in the Responses API only"):
        fit_messages(messages, model="gpt-6.2-sol", tools=[spec])
    assert fit_messages(messages, model="gpt-5.4", tools=[spec]).keeps_prefix
