"""What arrives damaged, foreign or too much: kept, named or refused, and never an accident."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler import ContextAssembler
from context_assembler.errors import EventFormatError, ReplyError
from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.stages.repair_history import repair_history
from context_assembler.values.events import assistant_event, user_event
from context_assembler.values.json_bounds import broken_bound
from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque, Text, Thinking, ToolCall
from tests.providers.drafts import (
    OPUS,
    READ_FILE,
    assistant,
    call,
    draft,
    result,
    results,
    user,
)

NAN = float("nan")


def payload_of(*talk: Message, **options: Any) -> dict[str, Any]:
    """Return the payload of a repaired talk, which is valid."""
    repaired = repair_history(talk)
    payload = ANTHROPIC.render(draft(repaired.messages, **options))
    assert ANTHROPIC.check_payload(payload, limits=OPUS) == []
    json.dumps(payload, allow_nan=False)
    return payload


def reply(*blocks: Any, **fields: Any) -> dict[str, Any]:
    head = {"type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    return {**head, "content": list(blocks), **fields}


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": [value]}
    return value


FOREIGN = {
    "unsigned": Thinking(text="hm", provider="anthropic"),
    "of nobody": Thinking(text="hm"),
    "of another provider": Thinking(provider="openai_responses", block={"type": "reasoning"}),
}


@pytest.mark.parametrize("thinking", FOREIGN.values(), ids=FOREIGN.keys())
def test_thinking_that_is_not_the_models_own_is_not_sent(thinking: Thinking) -> None:
    payload = payload_of(user("go"), assistant(thinking, "Done."), user("Good."))

    assert payload["messages"][1]["content"] == [{"type": "text", "text": "Done."}]


def test_a_call_id_of_400_characters_is_respelled_for_call_and_result() -> None:
    call_id = "call_" + "x|é" * 132

    payload = payload_of(user("go"), assistant(call(call_id)), results(result(call_id, "ok")))

    sent = payload["messages"][1]["content"][0]["id"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", sent)
    assert payload["messages"][2]["content"][0]["tool_use_id"] == sent


def test_a_tool_name_in_another_script_is_respelled_and_read_back() -> None:
    made = draft([user("go")], tools=(replace(READ_FILE, name="срочно!"),))
    sent = ANTHROPIC.render(made)["tools"][0]["name"]

    read = ANTHROPIC.read_reply(
        reply({"type": "tool_use", "id": "t", "name": sent, "input": {}}), made
    )

    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", sent)
    assert read.parts == (ToolCall(call_id="t", name="срочно!"),)


def test_150_tools_are_all_offered() -> None:
    tools = tuple(replace(READ_FILE, name=f"tool_{n}") for n in range(150))

    assert len(payload_of(user("go"), tools=tools)["tools"]) == 150


def test_half_of_the_arguments_are_none_and_are_kept() -> None:
    read = ANTHROPIC.read_reply(
        reply({"type": "tool_use", "id": "t", "name": "read_file", "input": '{"path": "a'}), None
    )

    payload = payload_of(user("go"), assistant(*read.parts), results(result("t", "ok")))

    assert payload["messages"][1]["content"][0]["input"] == {}
    assert read.parts[0] == ToolCall(call_id="t", name="read_file", arguments_json='{"path": "a')
    assert "not a JSON object" in read.warnings[0]


def test_a_result_for_a_call_two_turns_ago_moves_behind_it() -> None:
    payload = payload_of(
        user("go"),
        assistant(call("c1")),
        user("And?"),
        assistant("Wait."),
        user("Now?"),
        results(result("c1", "late")),
    )

    assert payload["messages"][2]["content"][0]["content"] == [{"type": "text", "text": "late"}]


BLOCKS_WITH_NAN: dict[str, dict[str, Any]] = {
    "a server result": {"type": "web_search_tool_result", "tool_use_id": "s", "content": [NAN]},
    "a signed thought": {"type": "thinking", "thinking": "", "signature": "s", "score": NAN},
    "a call's extra field": {"type": "tool_use", "id": "t", "name": "n", "input": {}, "x": NAN},
    "a call's input": {"type": "tool_use", "id": "t", "name": "n", "input": {"x": NAN}},
}


@pytest.mark.parametrize("block", BLOCKS_WITH_NAN.values(), ids=BLOCKS_WITH_NAN.keys())
async def test_what_is_no_number_breaks_no_append(block: dict[str, Any]) -> None:
    async with ContextAssembler(sessions="memory:") as assembler:
        await assembler.add_user("s", "go")
        context = await assembler.assemble("s", model="claude-opus-5-5")

        [event] = (await assembler.record("s", reply(block), context))[-1:]

    assert "NaN" in str(event.parts) or "NaN" in str(event.tool_calls[0].arguments_json)
    assert event.metadata["warnings"]


@pytest.mark.parametrize("levels", [150, 450, 3_000])
def test_deep_blocks_of_a_reply_become_text_with_a_warning(levels: int) -> None:
    blocks = (
        {"type": "server_tool_use", "id": "s", "name": "n", "input": deep(levels)},
        {"type": "tool_use", "id": "t", "name": "n", "input": deep(levels)},
        {"type": "hologram", "content": deep(levels)},
    )

    read = ANTHROPIC.read_reply(reply(*blocks), None)

    assert len(read.warnings) >= 3
    assert all(broken_bound(part.block) is None for part in read.parts if isinstance(part, Opaque))
    assert ANTHROPIC.matches_reply(reply(*blocks))


async def test_deep_content_of_the_caller_is_refused_by_name() -> None:
    async with ContextAssembler(sessions="memory:") as assembler:
        with pytest.raises(EventFormatError, match="nested too deeply"):
            await assembler.add_user("s", Opaque(provider="anthropic", block=deep(900)))


def test_a_deep_draft_is_rendered() -> None:
    block = {"type": "hologram", "content": deep(900)}
    made = draft([user("go", Opaque(provider="anthropic", block=block)), user("?")])

    payload = ANTHROPIC.render(made)

    assert payload["messages"][0]["content"][1]["type"] == "hologram"
    assert len(ANTHROPIC.fingerprints(made)) == 3


class _Older:
    """A reply of an SDK on pydantic 1, whose blocks are plain."""

    def dict(self, **_options: Any) -> dict[str, Any]:
        return {"type": "message", "content": [{"type": "text", "text": "Hi."}]}


def test_replies_of_an_older_sdk_are_read() -> None:
    assert ANTHROPIC.matches_reply(_Older())
    read = ANTHROPIC.read_reply(_Older(), None)

    assert read.parts == (Text("Hi."),)
    assert (read.model, read.usage, read.stop_reason) == ("", None, None)


FIELDS: dict[str, dict[str, Any]] = {
    "text": {"text": "x", "citations": None},
    "thinking": {"thinking": "x", "signature": "s"},
    "redacted_thinking": {"data": "x"},
    "tool_use": {"id": "t", "name": "n", "input": {}, "caller": None, "toolset_name": None},
    "server_tool_use": {"id": "srvtoolu_1", "name": "n", "input": {}},
    "web_search_tool_result": {"tool_use_id": "srvtoolu_1", "content": []},
    "compaction": {"content": "x", "signature": "s", "encrypted_content": None},
    "container_upload": {"file_id": "f"},
}


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_none_in_any_field_is_read_and_sent_or_refused(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(FIELDS)))
    emptied = data.draw(st.sets(st.sampled_from(sorted(FIELDS[kind]))))
    block = {"type": kind} | {k: None if k in emptied else v for k, v in FIELDS[kind].items()}
    head = data.draw(st.sets(st.sampled_from(["id", "model", "usage", "stop_reason", "role"])))
    body = {**reply(block), **dict.fromkeys(head)}

    read = ANTHROPIC.read_reply(body, None)
    payload = ANTHROPIC.render(draft([user("go"), assistant(*read.parts), user("Good.")]))

    assert json.loads(json.dumps(payload)) == payload
    ANTHROPIC.check_payload(payload, limits=OPUS)


@pytest.mark.parametrize("content", [None, [None], ["x"], 3, [[]]])
def test_content_that_is_no_list_of_blocks_is_refused(content: Any) -> None:
    with pytest.raises(ReplyError, match="no list of content blocks"):
        ANTHROPIC.read_reply({"type": "message", "content": content}, None)


async def test_a_session_of_an_older_package_goes_on() -> None:
    """Server calls that were stored without a text for others."""
    block: dict[str, Any] = {"type": "server_tool_use", "id": "srvtoolu_1", "input": {}}
    async with ContextAssembler(sessions="memory:") as assembler:
        await assembler.add_user("s", "go")
        said = assistant_event([Opaque(provider="anthropic", block=block), Text("Hm.")])
        await assembler.sessions.append("s", [said, user_event("And?")])

        context = await assembler.assemble("s", model="gpt-4.1")

    assert context.check() == []
