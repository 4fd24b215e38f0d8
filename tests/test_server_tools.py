"""What a provider's own tools found: told elsewhere in words, verbatim at home, within the budget."""

import json
from typing import Any

import pytest

from context_assembler import ContextAssembler, ContextOverflowError

LOG = "\n".join(f"line {number} of the log" for number in range(9000))
RAN: dict[str, Any] = {
    "type": "bash_code_execution_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "bash_code_execution_result",
        "stdout": LOG,
        "stderr": "",
        "return_code": 0,
        "content": [],
    },
}


async def session(*, in_flight: bool) -> ContextAssembler:
    """Return the assembler of a session in which Claude's server ran a long command.

    Args:
        in_flight: Whether the same reply calls a tool of ours, which has just answered.
    """
    assembler = ContextAssembler(sessions="memory:")
    await assembler.add_user("s", "Run the build.")
    own: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    blocks: list[dict[str, Any]] = [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "bash_code_execution",
            "input": {"command": "make"},
        },
        RAN,
        *([own] if in_flight else [{"type": "text", "text": "It failed."}]),
    ]
    reply = {
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": blocks,
        "stop_reason": "tool_use" if in_flight else "end_turn",
    }
    context = await assembler.assemble("s", model="claude-opus-5-5")
    await assembler.record("s", reply, context)
    if in_flight:
        await assembler.add_tool_result("s", "toolu_1", "seen")
    else:
        await assembler.add_user("s", "Why?")
    return assembler


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-6-astra", "gemini-4-argon"])
async def test_elsewhere_its_words_are_shortened_to_fit(model: str) -> None:
    assembler = await session(in_flight=True)

    context = await assembler.assemble("s", model=model, max_context_tokens=9000, max_tokens=2000)

    sent = json.dumps(context.to_request())
    assert "line 0 of the log" in sent
    assert "line 8999 of the log" in sent
    assert "tokens in full" in sent
    assert context.metadata.ledger.free_tokens >= 0
    assert "overflow.shorten" in [row.rule for row in context.report.of("shortened")]


async def test_at_home_it_goes_back_verbatim_or_is_named() -> None:
    assembler = await session(in_flight=True)

    whole = await assembler.assemble("s", model="claude-opus-5-5", max_tokens=2000)
    with pytest.raises(ContextOverflowError) as caught:
        await assembler.assemble(
            "s", model="claude-opus-5-5", max_context_tokens=9000, max_tokens=2000
        )

    messages = whole.to_anthropic()["messages"]
    assert RAN in [block for message in messages for block in message["content"]]
    assert "a bash_code_execution_tool_result block of anthropic" in caught.value.culprit
    assert "may return" in caught.value.remedy


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-5.5", "gemini-4-argon"])
async def test_it_goes_with_its_exchange_once_that_is_past(model: str) -> None:
    assembler = await session(in_flight=False)
    # Where it could be shortened, the cut that did so holds until a step has come in behind it.
    await assembler.add_user("s", "Here is what I found. " + "a finding of mine, " * 900)

    context = await assembler.assemble("s", model=model, max_context_tokens=9000, max_tokens=2000)

    assert "of the log" not in json.dumps(context.to_request())
    assert "dropped" in [row.decision for row in context.report.entries if row.kind == "message"]


async def test_at_home_nothing_of_it_stays_behind_its_exchange() -> None:
    assembler = await session(in_flight=False)

    context = await assembler.assemble(
        "s", model="claude-opus-5-5", max_context_tokens=9000, max_tokens=2000
    )

    assert "of the log" not in json.dumps(context.to_request())


@pytest.mark.parametrize("model", ["gpt-5.5", "gemini-4-argon"])
async def test_elsewhere_it_stays_as_it_was_shortened_for_a_step(model: str) -> None:
    assembler = await session(in_flight=False)

    context = await assembler.assemble("s", model=model, max_context_tokens=9000, max_tokens=2000)

    assert "tokens in full" in json.dumps(context.to_request())
    assert context.metadata.ledger.free_tokens >= 0
