from dataclasses import replace
from typing import Any

import pytest

from context_assembler.errors import ReplyError
from context_assembler.providers import provider_for_reply
from context_assembler.providers.openai_responses import OPENAI_RESPONSES
from context_assembler.values.draft import Reply
from context_assembler.values.parts import Opaque, Part, Text, Thinking, ToolCall
from tests.providers.drafts import (
    GPT_62,
    READ_FILE,
    assistant,
    draft,
    result,
    results,
    user,
)
from tests.providers.wires import USAGE, json_answer, openai_client, stream_answer

US = "openai_responses"
REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Read first."}],
    "encrypted_content": "gAAAA",
}
MESSAGE: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "Reading.", "annotations": [], "logprobs": []}],
}
CALL: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "status": "completed",
    "call_id": "call_1",
    "name": "read_file",
    "arguments": '{ "path": "a" }',
}
BODY: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-6.2-astra",
    "output": [REASONING, MESSAGE, CALL],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 130,
        "output_tokens": 30,
        "total_tokens": 160,
        "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 20},
        "output_tokens_details": {"reasoning_tokens": 7},
    },
}
PARTS: tuple[Part, ...] = (
    Thinking(text="Read first.", provider=US, block=REASONING),
    Text("Reading.", extras={US: {"id": "msg_1", "status": "completed", "phase": "commentary"}}),
    ToolCall(
        call_id="call_1",
        name="read_file",
        arguments={"path": "a"},
        arguments_json='{ "path": "a" }',
        extras={US: {"id": "fc_1", "status": "completed"}},
    ),
)


def read(*output: Any, **fields: Any) -> Reply:
    return OPENAI_RESPONSES.read_reply({**BODY, "output": list(output), **fields}, None)


def test_an_sdk_object_and_its_dict_read_alike() -> None:
    response = openai_client(json_answer(BODY)).responses.create(model="gpt-6.2-astra", input="go")

    from_object, from_dict = (OPENAI_RESPONSES.read_reply(r, None) for r in (response, BODY))

    assert from_object == from_dict
    assert from_dict.parts == PARTS
    assert from_dict.usage == USAGE
    assert (from_dict.response_id, from_dict.stop_reason) == ("resp_1", "completed")
    assert provider_for_reply(response) is OPENAI_RESPONSES


def test_a_stream_reads_as_the_whole_response() -> None:
    opening: dict[str, Any] = {**BODY, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "sequence_number": 0, "response": opening},
        *(
            {
                "type": "response.output_item.added",
                "sequence_number": i,
                "output_index": i,
                "item": {**item, "arguments": ""} if item is CALL else item,
            }
            for i, item in enumerate(BODY["output"])
        ),
        {"type": "response.completed", "sequence_number": 9, "response": BODY},
    ]
    client = openai_client(stream_answer(events, is_named=True))

    with client.responses.stream(model="gpt-6.2-astra", input="go") as stream:
        final = stream.get_final_response()

    assert OPENAI_RESPONSES.read_reply(final, None).parts == PARTS


def test_the_last_event_of_a_stream_is_a_reply_too() -> None:
    event = {"type": "response.completed", "sequence_number": 9, "response": BODY}

    assert OPENAI_RESPONSES.matches_reply(event)
    assert OPENAI_RESPONSES.read_reply(event, None).parts == PARTS


def test_what_was_read_goes_back_as_it_came() -> None:
    parts = OPENAI_RESPONSES.read_reply(BODY, None).parts
    talk = [user("go"), assistant(*parts), results(result("call_1", "alpha"))]

    payload = OPENAI_RESPONSES.render(draft(talk, limits=GPT_62, system=""))

    silent: dict[str, Any] = {"type": "output_text", "text": "Reading.", "annotations": []}
    assert payload["input"][1:4] == [REASONING, {**MESSAGE, "content": [silent]}, CALL]


def test_a_call_gets_the_name_that_its_tool_has_in_the_draft() -> None:
    made = draft(limits=GPT_62, tools=(replace(READ_FILE, name="fs.read"),))
    sent_name = OPENAI_RESPONSES.render(made)["tools"][0]["name"]

    reply = OPENAI_RESPONSES.read_reply({**BODY, "output": [{**CALL, "name": sent_name}]}, made)

    assert [part.name for part in reply.parts if isinstance(part, ToolCall)] == ["fs.read"]


REFUSAL = {**MESSAGE, "content": [{"type": "refusal", "refusal": "I can't."}]}
SHELL: dict[str, Any] = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "c1",
    "status": "completed",
    "action": {"commands": ["ls"]},
}
SHELL_OUTPUT: dict[str, Any] = {"type": "shell_call_output", "call_id": "c1", "output": []}
SEARCH: dict[str, Any] = {
    "type": "tool_search_call",
    "call_id": None,
    "execution": "server",
    "arguments": {},
}
CUSTOM = {"type": "custom_tool_call", "call_id": "c1", "name": "grep", "input": "foo"}
COMPACTION = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
LONG_CODE = {"type": "code_interpreter_call", "id": "ci_1", "code": "x" * 600}


def opaque(item: dict[str, Any], text: str) -> Opaque:
    return Opaque(provider=US, block=item, text=text)


ITEMS: dict[str, tuple[list[dict[str, Any]], list[Part]]] = {
    "a refusal": ([REFUSAL], [opaque(REFUSAL, "I can't.")]),
    "an empty text": ([{**MESSAGE, "content": []}], []),
    "a message in one piece of text": (
        [{"role": "assistant", "content": "Hi."}],
        [Text("Hi.")],
    ),
    "pieces of nobody": (
        [{"type": "message", "role": "assistant", "content": ["x", {"type": "output_audio"}]}],
        [
            opaque(
                {
                    "type": "message",
                    "role": "assistant",
                    "content": ["x", {"type": "output_audio"}],
                },
                "x",
            )
        ],
    ),
    "cited text": (
        [{"content": [{"type": "output_text", "text": "So.", "annotations": [{"type": "x"}]}]}],
        [Text("So.", extras={US: {"annotations": [{"type": "x"}]}})],
    ),
    "reasoning without encryption": (
        [{"type": "reasoning", "id": "rs_1", "content": [{"text": "hm"}], "status": None}],
        [
            Thinking(
                text="hm",
                provider=US,
                extras={US: {"type": "reasoning", "id": "rs_1", "content": [{"text": "hm"}]}},
            )
        ],
    ),
    "a custom call": (
        [CUSTOM],
        [
            ToolCall(
                call_id="c1",
                name="grep",
                arguments={"input": "foo"},
                extras={US: {"type": "custom_tool_call"}},
            )
        ],
    ),
    "a command for the client's shell": (
        [SHELL],
        [
            ToolCall(
                call_id="c1",
                name="shell",
                arguments={"commands": ["ls"]},
                extras={US: {"type": "shell_call", "id": "sh_1", "status": "completed"}},
            )
        ],
    ),
    "a command that the provider has run": (
        [SHELL, SHELL_OUTPUT],
        [
            opaque(SHELL, '[shell_call: {"commands":["ls"]}]'),
            opaque(SHELL_OUTPUT, "[shell_call_output]"),
        ],
    ),
    "a command for the provider's container": (
        [{**SHELL, "environment": {"type": "container_reference"}}],
        [
            opaque(
                {**SHELL, "environment": {"type": "container_reference"}},
                '[shell_call: {"commands":["ls"]}]',
            )
        ],
    ),
    "a search of the server's": ([SEARCH], [opaque(SEARCH, "[tool_search_call]")]),
    "a compaction": (
        [COMPACTION],
        [
            opaque(
                COMPACTION,
                "[The conversation before this point was compacted by OpenAI; only it can read it.]",
            )
        ],
    ),
    "long code": (
        [LONG_CODE],
        [opaque(LONG_CODE, f"[code_interpreter_call: {LONG_CODE['code']}]")],
    ),
    "arguments as an object": (
        [{**CALL, "arguments": {"path": "a"}, "id": None, "status": None}],
        [ToolCall(call_id="call_1", name="read_file", arguments={"path": "a"})],
    ),
}


@pytest.mark.parametrize(("output", "parts"), ITEMS.values(), ids=ITEMS.keys())
def test_items(output: list[dict[str, Any]], parts: list[Part]) -> None:
    reply = read(*output)

    assert list(reply.parts) == parts
    assert reply.warnings == ()


def test_a_cut_off_reply_says_why_and_where() -> None:
    cut = {**CALL, "arguments": '{"path": "a', "status": "incomplete"}

    reply = read(cut, status="incomplete", incomplete_details={"reason": "max_output_tokens"})

    assert reply.stop_reason == "max_output_tokens"
    assert [part.arguments_json for part in reply.parts if isinstance(part, ToolCall)] == [
        '{"path": "a'
    ]
    assert "not a JSON object" in reply.warnings[0]
    assert "cut off inside the call 'call_1'" in reply.warnings[1]


def test_reasoning_that_the_provider_did_not_use_is_told() -> None:
    change = {"type": "reasoning", "id": "rs_1", "action": "removed", "reason": "prefix_mismatch"}

    reply = read(MESSAGE, input_transformations=[change, change, {**change, "reason": None}])

    assert reply.warnings == (
        "2 reasoning item(s) of the request were not used: prefix_mismatch.",
        "1 reasoning item(s) of the request were not used: unknown.",
    )


def test_a_reply_that_failed_on_its_way_is_kept_with_a_warning() -> None:
    reply = read(MESSAGE, status="failed", error={"code": "server_error", "message": "Oops"})

    assert reply.stop_reason == "failed"
    assert reply.warnings == ("The model failed before it was done (Oops).",)


def test_nothing_reported_is_nothing_known() -> None:
    bare = OPENAI_RESPONSES.read_reply({"output": [MESSAGE]}, None)

    assert (bare.usage, bare.response_id, bare.stop_reason, bare.model) == (None, None, None, "")


UNREADABLE: dict[str, tuple[Any, str]] = {
    "text": ("hello", "neither a dict"),
    "no output": ({"object": "response"}, "no list of output items"),
    "a response that is not finished": ({**BODY, "status": "in_progress"}, "not finished"),
    "a failure": (
        {**BODY, "status": "failed", "output": [], "error": {"code": "server_error"}},
        "server_error",
    ),
    "a failure without a reason": ({**BODY, "status": "failed", "output": []}, "no reason"),
}


@pytest.mark.parametrize(("reply", "reason"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_says_so(reply: Any, reason: str) -> None:
    with pytest.raises(ReplyError, match=reason):
        OPENAI_RESPONSES.read_reply(reply, None)
    assert not OPENAI_RESPONSES.matches_reply("hello")
