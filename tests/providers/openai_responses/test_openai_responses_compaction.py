"""Results of `responses.compact`, and replies that hold less than they should."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.errors import ReplyError
from context_assembler.ports import Provider
from context_assembler.providers import provider_for_reply
from context_assembler.providers.openai_chat import OPENAI_CHAT
from context_assembler.providers.openai_responses import OPENAI_RESPONSES
from context_assembler.stages.repair_history import repair_history
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.compactions import compacted_window
from context_assembler.values.events import CompactionBody, SessionEvent, user_event
from context_assembler.values.json_shapes import is_object
from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque, Text, Thinking, ToolCall
from context_assembler.values.wire import object_of
from tests.providers.drafts import GPT_4O, GPT_62, assistant, call, draft, result, results, user
from tests.providers.openai_responses.item_samples import ANSWERED, MADE, REASONING
from tests.providers.sdk_types import assert_sdk_takes
from tests.providers.wires import json_answer, openai_client

US = "openai_responses"
ASKED: dict[str, Any] = {
    "type": "message",
    "id": "msg_u1",
    "role": "user",
    "status": "completed",
    "content": [{"type": "input_text", "text": "Book a flight."}],
}
SEALED: dict[str, Any] = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAABz"}
RESULT: dict[str, Any] = {
    "id": "resp_c1",
    "object": "response.compaction",
    "created_at": 1,
    "output": [ASKED, {**SEALED, "created_by": "user_1"}],
    "usage": {
        "input_tokens": 130,
        "output_tokens": 30,
        "total_tokens": 160,
        "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 7},
    },
}


def test_the_result_of_a_compaction_is_a_reply_with_the_compaction_alone() -> None:
    compacted = openai_client(json_answer(RESULT)).responses.compact(model="gpt-6.2-astra")

    reply = OPENAI_RESPONSES.read_reply(compacted, None)

    assert provider_for_reply(compacted) is OPENAI_RESPONSES
    assert [part.block["type"] for part in reply.parts if isinstance(part, Opaque)] == [
        "compaction"
    ]
    assert len(reply.parts) == 1
    assert reply.usage is not None
    assert reply.usage.reasoning_tokens == 7


def test_the_window_of_a_compaction_goes_back_as_it_came() -> None:
    compacted = openai_client(json_answer(RESULT)).responses.compact(model="gpt-6.2-astra")
    window = compacted_window(object_of(compacted) or {}, provider=US)
    talk = [Message(role="user", kind="summary", parts=(Text("Told."), *window)), user("ok")]

    payload = OPENAI_RESPONSES.render(draft(talk, limits=GPT_62, system=""))

    asked = {key: value for key, value in ASKED.items() if key != "id"}
    assert payload["input"][:2] == [asked, SEALED]
    assert OPENAI_RESPONSES.check_payload(payload, limits=GPT_62) == []
    assert_sdk_takes(US, payload)


# ---- replies with holes ----

RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "gpt-6.2-astra",
    "output": [REASONING, *MADE.values(), *(asked for asked, _ in ANSWERED.values())],
    "usage": RESULT["usage"],
    "incomplete_details": {"reason": "max_output_tokens"},
    "input_transformations": [{"id": "rs_0", "action": "removed", "reason": "prefix_mismatch"}],
}
COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "Hm.",
                "refusal": "No.",
                "reasoning_content": "hm",
                "annotations": [{"type": "url_citation"}],
                "audio": {"id": "a", "transcript": "Hm."},
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}},
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    },
}
REPLIES = {"responses": (OPENAI_RESPONSES, RESPONSE), "chat": (OPENAI_CHAT, COMPLETION)}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys: list[Any] = list(value) if is_object(value) else list(range(len(value)))
    for key in keys:
        inner = value[key]
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*path, key))


def _with_hole(body: dict[str, Any], path: tuple[Any, ...], hole: Any) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(body))
    place: Any = copied
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = hole
    return copied


@pytest.mark.parametrize(("provider", "body"), REPLIES.values(), ids=REPLIES.keys())
@settings(max_examples=100)
@given(data=st.data())
def test_a_reply_with_a_hole_is_read_or_refused_and_can_go_back(
    provider: Provider, body: dict[str, Any], data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(list(_places(body))))
    hole = data.draw(st.sampled_from([None, "", 3, [], {}, [None], {"type": None}]))
    limits = GPT_62 if provider is OPENAI_RESPONSES else GPT_4O
    try:
        parts = provider.read_reply(_with_hole(body, path, hole), None).parts
    except ReplyError:
        return

    history = repair_history([user("go"), assistant(*parts), user("ok")]).messages
    payload = provider.render(draft(history, limits=limits, tools=()))

    found = provider.check_payload(payload, limits=limits)
    assert [violation for violation in found if violation.level == "refused"] == []


def test_a_model_of_an_older_sdk_is_read() -> None:
    class Model:
        def dict(self, **_: Any) -> dict[str, Any]:
            return COMPLETION

    assert OPENAI_CHAT.read_reply(Model(), None) == OPENAI_CHAT.read_reply(COMPLETION, None)


BAD_HISTORIES: dict[str, list[Message]] = {
    "a long id and a name in another script": [
        user("go"),
        assistant(call("x" * 400, "срочно!")),
        results(result("x" * 400, "ok")),
    ],
    "half of the arguments": [
        user("go"),
        assistant(ToolCall(call_id="c1", name="read_file", arguments_json='{"path": "a')),
        results(result("c1", "ok")),
    ],
    "a result that comes two turns late": [
        user("go"),
        assistant(call("c1")),
        user("well?"),
        assistant("Wait."),
        user("and?"),
        results(result("c1", "ok")),
    ],
    "thinking of another provider, and of nobody": [
        user("go"),
        assistant(
            Thinking(provider="anthropic", block={"type": "thinking", "signature": "s"}),
            Thinking(text="hm"),
            "Yes.",
        ),
        user("ok"),
    ],
}


@pytest.mark.parametrize("provider", [OPENAI_CHAT, OPENAI_RESPONSES], ids=["chat", "responses"])
@pytest.mark.parametrize("talk", BAD_HISTORIES.values(), ids=BAD_HISTORIES.keys())
def test_bad_histories_become_valid_requests(provider: Provider, talk: list[Message]) -> None:
    history = repair_history(talk).messages

    payload = provider.render(draft(history, limits=GPT_4O))

    assert provider.check_payload(payload, limits=GPT_4O) == []
    assert_sdk_takes(provider.name, payload)


def test_numbers_that_json_does_not_know_are_kept_as_words() -> None:
    item = {**MADE["a call of an MCP server"], "output": float("nan")}
    endless = {**COMPLETION, "model": "m", "usage": {"prompt_tokens": float("inf")}}

    reply = OPENAI_RESPONSES.read_reply({"object": "response", "output": [item]}, None)

    assert [part.block["output"] for part in reply.parts if isinstance(part, Opaque)] == ["NaN"]
    assert len(reply.warnings) == 1
    assert any("NaN" in warning for warning in OPENAI_CHAT.read_reply(endless, None).warnings)


INCOMPLETE: dict[str, dict[str, Any]] = {
    "a call that asks for nothing": {**ANSWERED["a patch"][0], "operation": None},
    "a call without an id": {**ANSWERED["a custom tool"][0], "call_id": None},
    "an output for nobody": {"type": "program_output", "id": "po_1", "result": "booked"},
}


@pytest.mark.parametrize("item", INCOMPLETE.values(), ids=INCOMPLETE.keys())
def test_an_item_that_lacks_what_it_needs_is_told_in_words(item: dict[str, Any]) -> None:
    reply = OPENAI_RESPONSES.read_reply({"object": "response", "output": [REASONING, item]}, None)

    payload = OPENAI_RESPONSES.render(
        draft([user("go"), assistant(*reply.parts), user("ok")], limits=GPT_62, system="")
    )

    assert payload["input"][2]["type"] == "message"
    assert payload["input"][2]["content"].startswith(f"[{item['type']}")


def test_an_export_holds_the_compaction_that_its_own_api_wrote() -> None:
    own = CompactionBody(
        summary="Told.", first_seq=1, last_seq=1, native=(Opaque(provider=US, block=SEALED),)
    )
    foreign = replace(own, native=(Opaque(provider="anthropic", block={"type": "compaction"}),))

    for body, item in (
        (own, SEALED),
        (foreign, {"type": "message", "role": "user", "content": "Told."}),
    ):
        events = [user_event("go"), SessionEvent(body=body)]
        assert json.loads(TRANSCRIPTS[US].write(events)) == [item]


def test_a_deep_item_is_described() -> None:
    deep: Any = "end"
    for _ in range(3_000):
        deep = [deep]
    item = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "q": deep}}

    [part] = OPENAI_RESPONSES.read_reply({"object": "response", "output": [item]}, None).parts

    assert isinstance(part, Opaque)
    assert "…" in part.text
