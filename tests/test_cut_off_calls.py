"""A call that a reply was cut off in is no call to run, whichever provider answered."""

from typing import Any, Final

import pytest

from context_assembler import ContextAssembler, open_store

CUT: Final = '{"path": "/srv/a", "text": "half of wh'
WHOLE: Final = '{"path": "/srv/b"}'


def chat_call(call_id: str, arguments: str) -> dict[str, Any]:
    function = {"name": "write_file", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def chat(ended: str) -> dict[str, Any]:
    calls = [chat_call("call_1", WHOLE), chat_call("call_2", CUT)]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return {"model": "m", "choices": [{"message": message, "finish_reason": ended}]}


def anthropic(stop_reason: str | None) -> dict[str, Any]:
    inputs: list[tuple[str, dict[str, str]]] = [
        ("call_1", {"path": "/srv/b"}),
        ("call_2", {"path": "/srv"}),
    ]
    calls = [
        {"type": "tool_use", "id": call_id, "name": "write_file", "input": given}
        for call_id, given in inputs
    ]
    return {"type": "message", "model": "m", "content": calls, "stop_reason": stop_reason}


def responses_call(call_id: str, arguments: str, status: str) -> dict[str, Any]:
    own = {"call_id": call_id, "name": "write_file", "arguments": arguments, "status": status}
    return {"type": "function_call", "id": f"fc_{call_id}", **own}


RESPONSES: Final = {
    "object": "response",
    "model": "m",
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "output": [
        responses_call("call_1", WHOLE, "completed"),
        responses_call("call_2", CUT, "incomplete"),
    ],
}
GEMINI: Final = {
    "candidates": [
        {
            "content": {
                "parts": [
                    {"functionCall": {"id": call_id, "name": "write_file", "args": {"path": path}}}
                    for call_id, path in (("call_1", "/srv/b"), ("call_2", "/srv"))
                ]
            },
            "finishReason": "MAX_TOKENS",
        }
    ]
}
CUT_OFF: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "anthropic, too long": ("claude-opus-5-5", anthropic("max_tokens")),
    "anthropic, stream broke": ("claude-opus-5-5", anthropic(None)),
    "openai_chat, too long": ("gpt-4.1", chat("length")),
    "openai_chat, filtered": ("gpt-4.1", chat("content_filter")),
    "openai_responses, too long": ("gpt-5.5", RESPONSES),
    "gemini, too long": ("gemini-4-argon", GEMINI),
}


@pytest.mark.parametrize(("model", "reply"), CUT_OFF.values(), ids=CUT_OFF.keys())
async def test_a_cut_off_call_is_kept_apart_from_those_to_run(
    model: str, reply: dict[str, Any]
) -> None:
    assembler = ContextAssembler("memory:")
    await assembler.add_user("s", "Write both files.")
    context = await assembler.assemble("s", model=model, max_tokens=1000)

    *_, answer = await assembler.record("s", reply, context)

    assert [call.call_id for call in answer.tool_calls] == ["call_1"]
    assert [call.call_id for call in answer.unfinished_calls] == ["call_2"]
    await assembler.add_tool_result("s", "call_1", "written")
    following = await assembler.assemble("s", model=model, max_tokens=1000)
    assert following.check() == []
    assert [row.id for row in following.report.entries if row.rule == "repair.missing_result"]


async def test_any_process_knows_of_it(tmp_path: Any) -> None:
    url = f"sqlite:{tmp_path / 'agent.db'}"
    async with ContextAssembler(url) as assembler:
        await assembler.add_user("s", "Write both files.")
        context = await assembler.assemble("s", model="gpt-4.1", max_tokens=1000)
        await assembler.record("s", chat("length"), context)

    store = open_store(url)
    *_, answer = [event async for event in store.load("s")]
    await store.close()

    assert [call.call_id for call in answer.unfinished_calls] == ["call_2"]


async def test_calls_of_a_reply_that_ended_by_itself_are_all_to_be_run() -> None:
    assembler = ContextAssembler("memory:")
    await assembler.add_user("s", "Write both files.")
    context = await assembler.assemble("s", model="claude-opus-5-5", max_tokens=1000)

    *_, answer = await assembler.record("s", anthropic("tool_use"), context)

    assert [call.call_id for call in answer.tool_calls] == ["call_1", "call_2"]
    assert answer.unfinished_calls == ()
