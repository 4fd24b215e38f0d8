"""Calls that a provider runs itself: paired inside replies, or left out and reported."""

import pytest

from context_assembler.stages.repair_history import repair_history
from context_assembler.values.messages import Message
from context_assembler.values.parts import JsonObject, Opaque, Part, Text


def search(call_id: str) -> Opaque:
    block: JsonObject = {
        "type": "server_tool_use",
        "id": call_id,
        "name": "web_search",
        "input": {},
    }
    return Opaque(provider="anthropic", block=block)


def found(call_id: str) -> Opaque:
    block: JsonObject = {"type": "web_search_tool_result", "tool_use_id": call_id, "content": []}
    return Opaque(provider="anthropic", block=block)


def reply(*parts: Part) -> Message:
    return Message(role="assistant", parts=parts, id="r")


def over_mcp(call_id: str) -> tuple[Opaque, Opaque]:
    call: JsonObject = {"type": "mcp_tool_use", "id": call_id, "name": "ask", "input": {}}
    result: JsonObject = {"type": "mcp_tool_result", "tool_use_id": call_id, "content": []}
    return Opaque(provider="anthropic", block=call), Opaque(provider="anthropic", block=result)


USER = Message(role="user", parts=(Text("hi"),), id="u")


def test_a_call_waiting_at_the_end_stays_and_nothing_follows_it() -> None:
    history = (USER, reply(Text("Searching."), search("s1")))

    assert repair_history(history).messages == history


@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses", "gemini"])
def test_nobody_else_goes_on_from_a_call_that_waits_at_the_end(provider: str) -> None:
    repaired = repair_history((USER, reply(Text("Searching."), search("s1"))), provider=provider)

    assert [message.role for message in repaired.messages] == ["user", "assistant", "user"]
    assert repaired.messages[1].parts == (Text("Searching."),)
    assert repaired.messages[2].note == "continue"
    assert [entry.rule for entry in repaired.entries] == ["repair.server_call", "repair.prefill"]


def test_a_reply_of_nothing_but_a_waiting_call_is_left_out_for_somebody_else() -> None:
    repaired = repair_history((USER, reply(search("s1"))), provider="gemini")

    assert repaired.messages == (USER,)
    assert [entry.decision for entry in repaired.entries] == ["dropped"]


def test_what_somebody_else_is_sent_stays_the_same_when_more_is_said() -> None:
    paused = (USER, reply(Text("Searching."), search("s1")))
    first = repair_history(paused, provider="gemini").messages

    later = repair_history((*paused, *first[2:], reply(Text("Done.")), USER), provider="gemini")

    assert later.messages[: len(first)] == first


def test_its_own_provider_goes_on_from_a_call_that_waits_at_the_end() -> None:
    history = (USER, reply(Text("Searching."), search("s1")))

    assert repair_history(history, provider="anthropic").messages == history


def test_a_call_answered_in_the_next_reply_stays() -> None:
    history = (USER, reply(search("s1")), reply(found("s1"), Text("Here.")), USER)

    assert repair_history(history).messages == history


def test_a_call_that_was_never_answered_is_left_out_and_reported() -> None:
    repaired = repair_history((USER, reply(Text("Searching."), search("s1")), USER))

    assert repaired.messages[1].parts == (Text("Searching."),)
    assert [entry.rule for entry in repaired.entries] == ["repair.server_call"]


def test_a_result_without_its_call_is_left_out_with_a_message_that_held_nothing_else() -> None:
    repaired = repair_history((USER, reply(found("s1")), USER))

    assert [message.role for message in repaired.messages] == ["user", "user"]
    assert [entry.decision for entry in repaired.entries] == ["dropped"]


def test_a_call_over_mcp_stays_with_its_result() -> None:
    history = (USER, reply(*over_mcp("m1"), Text("Here.")), USER)

    assert repair_history(history).messages == history
