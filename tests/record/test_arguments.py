"""Arguments that are no JSON object: kept as the model wrote them, told to it, and never run."""

from collections.abc import Callable
from typing import Any

import pytest

from context_assembler import (
    ContextAssembler,
    SessionEvent,
    ToolCall,
    assistant_event,
    read_transcript,
    tool_result_event,
    user_event,
)
from context_assembler.transcripts import write_transcript

BROKEN = {
    "cut off": '{"path": "/home',
    "a list": "[1,2]",
    "null": "null",
    "a text": '"x"',
    "a number": "7",
    "true": "true",
    "trailing text": '{"path": "/home"} done',
    "twice": '{"path": "/home"}{"path": "/home"}',
    "many digits": '{"n": ' + "9" * 5_000 + "}",
    "an endless number": '{"n": 1e999}',
    "no number": '{"n": NaN}',
    "infinity": '{"n": [-Infinity]}',
    "deep": '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}",
    "too deep for servers": '{"a": ' + "[" * 250 + "]" * 250 + "}",
    "blanks": "  \n",
    "single quotes": "{'path': '/home'}",
    "a comment": '{"path": "/home" /* here */}',
    "a raw line break": '{"path": "/ho\nme"}',
    "marked as code": '```json\n{"path": "/home"}\n```',
    "a byte order mark": '\ufeff{"path": "/home"}',
    "text in text": '"{\\"path\\": \\"/home\\"}"',
}
SOUND: dict[str, tuple[str, Any]] = {
    "nothing": ("", {}),
    "empty": ("{}", {}),
    "spaced": (" { } ", {}),
    "an object": ('{"n": 12345678901234567890}', {"n": 12345678901234567890}),
    "a key twice": ('{"n": 1, "n": 2}', {"n": 2}),
}


def chat(written: Any, finish: str = "tool_calls") -> Any:
    function = {"name": "list_files", "arguments": written}
    call = {"id": "c1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "id": "r1",
        "object": "chat.completion",
        "model": "gpt-4.1",
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
    }


def chat_object(written: Any) -> Any:
    from openai.types.chat import ChatCompletion

    return ChatCompletion.model_validate({**chat(written), "created": 0})


def chat_stream(written: str) -> Any:
    first = {"index": 0, "id": "c1", "function": {"name": "list_files", "arguments": written[:9]}}
    rest = {"index": 0, "function": {"arguments": written[9:]}}
    deltas: list[Any] = [{"tool_calls": [first]}, {"tool_calls": [rest]}, {}]
    kind = {"id": "r1", "object": "chat.completion.chunk", "model": "gpt-4.1"}
    ends = [None, None, "tool_calls"]
    return [
        {**kind, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip(deltas, ends, strict=True)
    ]


def item(written: Any, status: str = "completed") -> dict[str, Any]:
    own = {"type": "function_call", "id": "fc_1", "call_id": "c1", "status": status}
    return {**own, "name": "list_files", "arguments": written}


def responses(written: Any) -> Any:
    response = {"object": "response", "id": "r1", "status": "completed", "model": "gpt-5.5"}
    return {**response, "output": [item(written)]}


def responses_stream(written: str) -> Any:
    response = {"object": "response", "id": "r1", "status": "in_progress", "model": "gpt-5.5"}
    kind = "response.function_call_arguments.delta"
    return [
        {"type": "response.created", "response": {**response, "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item("", "in_progress")},
        {"type": kind, "output_index": 0, "delta": written[:5]},
        {"type": kind, "output_index": 0, "delta": written[5:]},
        {"type": "response.output_item.done", "output_index": 0, "item": item(written)},
    ]


def message(given: Any, stop: str | None = "tool_use") -> dict[str, Any]:
    block = {"type": "tool_use", "id": "c1", "name": "list_files", "input": given}
    kind = {"id": "r1", "type": "message", "role": "assistant", "model": "claude-opus-5-5"}
    return {**kind, "content": [block], "stop_reason": stop}


def anthropic_stream(written: str) -> Any:
    start: dict[str, Any] = {**message({}, None), "content": []}
    delta = {"type": "input_json_delta", "partial_json": written}
    return [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": message({})["content"][0]},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]


SAY: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "chat": ("gpt-4.1", chat),
    "chat, an SDK's object": ("gpt-4.1", chat_object),
    "chat, streamed": ("gpt-4.1", chat_stream),
    "another server": ("mistral-large-4", chat),
    "responses": ("gpt-5.5", responses),
    "responses, streamed": ("gpt-5.5", responses_stream),
    "anthropic": ("claude-opus-5-5", message),
    "anthropic, streamed": ("claude-opus-5-5", anthropic_stream),
}
each_form = pytest.mark.parametrize(("model", "say"), SAY.values(), ids=SAY.keys())


async def answer_of(model: str, reply: Any) -> tuple[ContextAssembler, SessionEvent]:
    assembler = ContextAssembler()
    await assembler.add_user("s", "What is in /home?")
    context = await assembler.assemble("s", model=model, max_tokens=1000)
    *_, answer = await assembler.record("s", reply, context)
    return assembler, answer


@each_form
@pytest.mark.parametrize("written", BROKEN.values(), ids=BROKEN.keys())
async def test_a_call_without_an_object_cannot_be_run_and_the_model_learns_why(
    model: str, say: Callable[[Any], Any], written: str
) -> None:
    assembler, answer = await answer_of(model, say(written))

    assert answer.tool_calls == ()
    [call] = answer.unfinished_calls
    assert call.error is not None
    assert "not a JSON object" in call.error
    assert (call.arguments, call.arguments_json) == ({}, written)
    context = await assembler.assemble("s", model=model, max_tokens=1000)
    assert context.check().refused == []
    [result] = context.messages[-1]["parts"]
    assert (result["is_error"], result["content"][0]["text"]) == (True, call.error)


@each_form
@pytest.mark.parametrize(("written", "arguments"), SOUND.values(), ids=SOUND.keys())
async def test_a_call_with_an_object_can_be_run(
    model: str, say: Callable[[Any], Any], written: str, arguments: Any
) -> None:
    _, answer = await answer_of(model, say(written))

    assert [(one.arguments, one.error) for one in answer.tool_calls] == [(arguments, None)]
    assert answer.unfinished_calls == ()


@pytest.mark.parametrize("given", [[], [1], 0, False, 7, "x"], ids=repr)
@pytest.mark.parametrize("say", [message, chat, responses])
async def test_what_is_no_object_is_none_in_any_type(say: Callable[[Any], Any], given: Any) -> None:
    model = next(name for name, form in SAY.values() if form is say)

    _, answer = await answer_of(model, say(given))

    assert [call.error is None for call in answer.unfinished_calls] == [False]


def sent_arguments(payload: Any) -> Any:
    """Return the arguments of the only call in a payload."""
    if "input" in payload:
        return next(one["arguments"] for one in payload["input"] if "arguments" in one)
    message = next(one for one in payload["messages"] if one["role"] == "assistant")
    if "tool_calls" in message:
        return message["tool_calls"][0]["function"]["arguments"]
    return message["content"][0]["input"]


WRAPPED = {"INVALID_JSON": "[1,2]"}


@each_form
async def test_what_the_model_wrote_goes_back_to_it(model: str, say: Callable[[Any], Any]) -> None:
    assembler, _ = await answer_of(model, say("[1,2]"))

    payload = (await assembler.assemble("s", model=model, max_tokens=1000)).to_request()

    wanted: Any = "[1,2]" if model.startswith("gpt") else '{"INVALID_JSON":"[1,2]"}'
    assert sent_arguments(payload) == (WRAPPED if model.startswith("claude") else wanted)


@pytest.mark.parametrize("written", BROKEN.values(), ids=BROKEN.keys())
def test_an_imported_call_keeps_its_text(written: str) -> None:
    [reply] = [chat(written)["choices"][0]["message"]]

    events = read_transcript([{"role": "user", "content": "Hello."}, reply]).events

    assert events[-1].tool_calls == ()
    assert [call.arguments_json for call in events[-1].unfinished_calls] == [written]


@pytest.mark.parametrize("name", ["openai_chat", "anthropic", "openai_responses", "gemini"])
@pytest.mark.parametrize("written", ['{"path": "/home', "[1,2]", "null"])
def test_an_exported_call_comes_back_as_it_was_written(name: str, written: str) -> None:
    broken = ToolCall(call_id="c1", name="f", arguments_json=written)
    events = [user_event("Go."), assistant_event((broken,)), tool_result_event("c1", "No.")]

    read = read_transcript(write_transcript(events, format=name)).events

    [call] = [one for event in read for one in event.unfinished_calls]
    assert (call.name, call.arguments, call.arguments_json) == ("f", {}, written)


def test_of_calls_with_one_id_the_last_is_the_one_that_was_cut_off() -> None:
    calls = [ToolCall(call_id="c", name="f", arguments={"a": number}) for number in range(3)]
    broken = ToolCall(call_id="c", name="f", arguments_json="{")
    cut_off = {"unfinished_calls": ["c"]}

    event = SessionEvent(type="assistant", parts=(broken, *calls), metadata=cut_off)

    assert event.tool_calls == tuple(calls[:2])
    assert event.unfinished_calls == (broken, calls[2])
