from dataclasses import replace
from typing import Any

import pytest

from context_assembler.errors import ReplyError
from context_assembler.providers.openai_chat import OPENAI_CHAT
from context_assembler.values.draft import Reply
from context_assembler.values.parts import Opaque, Text, Thinking, ToolCall
from tests.providers.drafts import GPT_4O, READ_FILE, assistant, draft, user
from tests.providers.wires import USAGE, json_answer, openai_client, stream_answer

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "read_file", "arguments": '{ "path": "a" }'},
}
BODY: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-6-sol",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "Reading.",
                "refusal": None,
                "tool_calls": [CALL],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 130,
        "completion_tokens": 30,
        "total_tokens": 160,
        "prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 7},
    },
}
READ_CALL = ToolCall(
    call_id="call_1",
    name="read_file",
    arguments={"path": "a"},
    arguments_json='{ "path": "a" }',
)


def read(message: Any, **fields: Any) -> Reply:
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return OPENAI_CHAT.read_reply({**BODY, "choices": [choice], **fields}, None)


def test_an_sdk_object_and_its_dict_read_alike() -> None:
    client = openai_client(json_answer(BODY))
    completion = client.chat.completions.create(
        model="gpt-6-sol", messages=[{"role": "user", "content": "go"}]
    )

    from_object, from_dict = (OPENAI_CHAT.read_reply(r, None) for r in (completion, BODY))

    assert from_object == from_dict
    assert from_dict.parts == (Text("Reading."), READ_CALL)
    assert from_dict.usage == USAGE
    assert (from_dict.response_id, from_dict.stop_reason) == ("chatcmpl-1", "tool_calls")
    assert OPENAI_CHAT.matches_reply(completion)


def test_a_stream_reads_as_the_whole_message() -> None:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {**BODY, "object": "chat.completion.chunk", "choices": [choice], "usage": None}

    first = {**CALL, "index": 0, "function": {"name": "read_file", "arguments": ""}}
    rest = {"index": 0, "function": {"arguments": '{ "path": "a" }'}}
    chunks = [
        chunk({"role": "assistant", "content": "Reading."}),
        chunk({"tool_calls": [first]}),
        chunk({"tool_calls": [rest]}),
        chunk({}, "tool_calls"),
    ]
    client = openai_client(stream_answer(chunks, is_named=False))

    with client.chat.completions.stream(
        model="gpt-6-sol", messages=[{"role": "user", "content": "go"}]
    ) as stream:
        reply = OPENAI_CHAT.read_reply(stream.get_final_completion(), None)

    assert reply.parts == (Text("Reading."), READ_CALL)
    assert reply.usage is None


def test_what_was_read_goes_back_as_it_came() -> None:
    parts = OPENAI_CHAT.read_reply(BODY, None).parts

    payload = OPENAI_CHAT.render(draft([user("go"), assistant(*parts)], limits=GPT_4O, system=""))

    assert payload["messages"][1] == {
        "role": "assistant",
        "content": "Reading.",
        "tool_calls": [CALL],
    }


def test_a_call_gets_the_name_that_its_tool_has_in_the_draft() -> None:
    made = draft(limits=GPT_4O, tools=(replace(READ_FILE, name="fs.read"),))
    sent_name = OPENAI_CHAT.render(made)["tools"][0]["function"]["name"]
    renamed = {**CALL, "function": {"name": sent_name, "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [renamed]}

    reply = OPENAI_CHAT.read_reply({**BODY, "choices": [{"message": message}]}, made)

    assert [part.name for part in reply.parts if isinstance(part, ToolCall)] == ["fs.read"]


def test_several_choices_give_the_first_and_a_warning() -> None:
    reply = OPENAI_CHAT.read_reply({**BODY, "choices": BODY["choices"] * 2}, None)

    assert reply.parts == (Text("Reading."), READ_CALL)
    assert "first of 2" in reply.warnings[0]


def test_a_refusal_is_kept_as_one() -> None:
    block = {"type": "refusal", "refusal": "I can't."}
    expected = Opaque(provider="openai_chat", block=block, text="I can't.")

    assert read({"content": None, "refusal": "I can't."}).parts == (expected,)
    assert read({"content": [block]}).parts == (expected,)


def test_other_servers_show_their_reasoning() -> None:
    listed = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    listed += [{"type": "text", "text": "Yes."}, {"type": "text", "text": ""}]
    thought = Thinking(text="hm", provider="openai_chat")

    for message in (
        {"content": "Yes.", "reasoning_content": "hm"},
        {"content": "Yes.", "reasoning": "hm"},
        {"content": listed},
    ):
        assert read(message).parts == (thought, Text("Yes."))


def test_the_words_of_a_spoken_answer_are_kept() -> None:
    audio = {"id": "a", "expires_at": 1, "data": "AA==", "transcript": "Hello."}

    reply = read({"content": None, "audio": audio})

    assert reply.parts == (Text("Hello."),)
    assert "only the words" in reply.warnings[0]


def test_citations_are_kept_beside_the_text() -> None:
    cited = [{"type": "url_citation", "url_citation": {"url": "https://example.com"}}]

    reply = read({"content": "So.", "annotations": cited})

    assert reply.parts == (Text("So.", extras={"openai_chat": {"annotations": cited}}),)


def test_what_is_left_out_is_named() -> None:
    reply = read({"content": [{"type": "reference"}], "audio": {"id": "a"}})

    assert reply.parts == ()
    assert len(reply.warnings) == 2


ARGUMENTS: dict[str, tuple[Any, ToolCall, int]] = {
    "a cut stream": (
        '{"path": "a',
        ToolCall(call_id="call_1", name="f", arguments_json='{"path": "a'),
        1,
    ),
    "an object": ({"path": "a"}, ToolCall(call_id="call_1", name="f", arguments={"path": "a"}), 0),
    "nothing": (None, ToolCall(call_id="call_1", name="f"), 0),
}


@pytest.mark.parametrize(
    ("given", "expected", "warnings"), ARGUMENTS.values(), ids=ARGUMENTS.keys()
)
def test_arguments(given: Any, expected: ToolCall, warnings: int) -> None:
    made = {"id": "call_1", "function": {"name": "f", "arguments": given}}

    reply = read({"content": "", "tool_calls": [made]})

    assert reply.parts == (expected,)
    assert len(reply.warnings) == warnings


def test_calls_of_other_shapes() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "grep", "input": "foo"}}
    legacy = {"content": None, "function_call": {"name": "f", "arguments": "{}"}}

    assert read({"tool_calls": [custom]}).parts == (
        ToolCall(
            call_id="c",
            name="grep",
            arguments={"input": "foo"},
            extras={"openai_chat": {"type": "custom"}},
        ),
    )
    assert read(legacy).parts == (ToolCall(call_id="call_0", name="f", arguments_json="{}"),)


UNREADABLE: dict[str, Any] = {
    "text": "hello",
    "no choices": {"object": "chat.completion", "choices": []},
    "a choice without a message": {"choices": [{"delta": {}}]},
}


@pytest.mark.parametrize("reply", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_says_so(reply: Any) -> None:
    with pytest.raises(ReplyError, match="cannot be recorded"):
        OPENAI_CHAT.read_reply(reply, None)
