from dataclasses import replace
from typing import Any

import pytest

from context_assembler.errors import ReplyError
from context_assembler.providers import PROVIDERS, provider_for_reply
from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.values.draft import Reply
from context_assembler.values.parts import Opaque, Part, Text, Thinking, ToolCall
from tests.providers.drafts import OPUS, READ_FILE, assistant, call, draft, user
from tests.providers.wires import USAGE, anthropic_client, json_answer, stream_answer

THOUGHT = {"type": "thinking", "thinking": "", "signature": "EqQB"}
HIDDEN = {"type": "redacted_thinking", "data": "AAAA"}
SEARCH = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "q"},
}
CITED = {
    "type": "text",
    "text": "Cited.",
    "citations": [
        {
            "type": "char_location",
            "cited_text": "x",
            "document_index": 0,
            "document_title": None,
            "start_char_index": 0,
            "end_char_index": 1,
        }
    ],
}
BODY: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "content": [
        THOUGHT,
        HIDDEN,
        {"type": "text", "text": "Reading."},
        {"type": "text", "text": ""},
        CITED,
        SEARCH,
        {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": 30,
        "output_tokens_details": {"thinking_tokens": 7},
    },
}
PARTS: tuple[Part, ...] = (
    Thinking(text="", provider="anthropic", block=THOUGHT),
    Thinking(text="", provider="anthropic", block=HIDDEN),
    Text("Reading."),
    Opaque(provider="anthropic", block=CITED, text="Cited."),
    Opaque(provider="anthropic", block=SEARCH, text='[web_search: {"query":"q"}]'),
    ToolCall(call_id="toolu_1", name="read_file", arguments={"path": "a"}),
)


def ask(body: dict[str, Any]) -> Any:
    client = anthropic_client(json_answer(body))
    return client.messages.create(
        model="claude-opus-5-5", max_tokens=10, messages=[{"role": "user", "content": "go"}]
    )


def read(*content: Any, **fields: Any) -> Reply:
    return ANTHROPIC.read_reply({**BODY, "content": list(content), **fields}, None)


def test_an_sdk_object_and_its_dict_read_alike() -> None:
    from_object, from_dict = (ANTHROPIC.read_reply(reply, None) for reply in (ask(BODY), BODY))

    assert from_object == from_dict
    assert from_dict.parts == PARTS
    assert from_dict.usage == USAGE
    assert (from_dict.response_id, from_dict.stop_reason) == ("msg_1", "tool_use")
    assert from_dict.warnings == ()


def test_what_was_read_goes_back_as_it_came() -> None:
    parts = ANTHROPIC.read_reply(ask(BODY), None).parts

    paused = ANTHROPIC.render(draft([user("go"), assistant(*parts)]))["messages"][1]["content"]

    assert paused == [block for block in BODY["content"] if block.get("text") != ""]


def test_a_stream_reads_as_the_whole_message() -> None:
    blocks: list[tuple[dict[str, Any], str, str]] = [
        ({"type": "thinking", "thinking": "", "signature": ""}, "signature_delta", "signature"),
        ({"type": "text", "text": ""}, "text_delta", "text"),
        ({**BODY["content"][6], "input": {}}, "input_json_delta", "partial_json"),
    ]
    deltas = ["EqQB", "Reading.", '{"path": "a"}']
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**BODY, "content": [], "stop_reason": None}}
    ]
    for index, ((block, kind, key), value) in enumerate(zip(blocks, deltas, strict=True)):
        delta = {"type": kind, key: value}
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 30}},
        {"type": "message_stop"},
    ]
    client = anthropic_client(stream_answer(events, is_named=True))

    with client.messages.stream(
        model="claude-opus-5-5", max_tokens=10, messages=[{"role": "user", "content": "go"}]
    ) as stream:
        reply = ANTHROPIC.read_reply(stream.get_final_message(), None)

    assert reply.parts == (PARTS[0], PARTS[2], PARTS[5])
    assert reply.stop_reason == "tool_use"


def test_a_call_gets_the_name_that_its_tool_has_in_the_draft() -> None:
    made = draft([user("go")], limits=OPUS, tools=(replace(READ_FILE, name="fs.read"),))
    sent_name = ANTHROPIC.render(made)["tools"][0]["name"]
    body: dict[str, Any] = {
        **BODY,
        "content": [{"type": "tool_use", "id": "t", "name": sent_name, "input": {}}],
    }

    assert ANTHROPIC.read_reply(body, made).parts == (call("t", "fs.read"),)


def test_arguments_that_are_no_object_are_kept_as_they_are() -> None:
    cut = {"type": "tool_use", "id": "t", "name": "read_file", "input": '{"path": "a'}
    none = {"type": "tool_use", "id": "u", "name": "read_file"}

    reply = read(cut, none, stop_reason="max_tokens")

    first, second = reply.parts
    assert first == ToolCall(call_id="t", name="read_file", arguments_json='{"path": "a')
    assert second == ToolCall(call_id="u", name="read_file")
    assert [word in text for word, text in zip(("'t'", "cut off"), reply.warnings, strict=True)]


def test_unsigned_thinking_is_readable_text() -> None:
    assert read({"type": "thinking", "thinking": "hm"}).parts == (
        Thinking(text="hm", provider="anthropic"),
    )


def test_an_api_written_summary_has_a_plain_twin() -> None:
    block = {"type": "compaction", "content": "Done so far.", "signature": "x"}

    assert read(block).parts == (Opaque(provider="anthropic", block=block, text="Done so far."),)


def test_a_reply_without_usage_is_read() -> None:
    reply = read({"type": "text", "text": "hi"}, usage=None, id=None, model=None, stop_reason=None)

    assert (reply.usage, reply.response_id, reply.model) == (None, None, "")
    assert reply.parts == (Text("hi"),)


UNREADABLE = {
    "text": "hello",
    "nothing": None,
    "no content": {"type": "message"},
    "content that is no list of blocks": {"type": "message", "content": ["a"]},
}


@pytest.mark.parametrize("reply", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_says_so(reply: Any) -> None:
    with pytest.raises(ReplyError, match="cannot be recorded"):
        ANTHROPIC.read_reply(reply, None)


def test_a_reply_finds_its_provider() -> None:
    assert provider_for_reply(ask(BODY)) is PROVIDERS["anthropic"]
    assert provider_for_reply({"choices": []}) is PROVIDERS["openai_chat"]
    with pytest.raises(ReplyError, match=r"anthropic, .*openai_chat, openai_responses"):
        provider_for_reply({"output": []})
