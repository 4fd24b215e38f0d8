"""The opening of a session is its leading instructions, each sent once, whatever comes late."""

from datetime import UTC, datetime
from typing import Any

import pytest

from context_assembler import ContextAssembler, system_event, user_event
from context_assembler.errors import EmptySessionError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CALL: dict[str, Any] = {"model": "claude-opus-5-5"}


async def test_an_instruction_that_follows_the_first_question_in_vain_is_sent_once() -> None:
    assembler = ContextAssembler(bootstrap=None)
    await assembler.store.append("s", [system_event("You are A.", created_at=NOW)])
    with pytest.raises(EmptySessionError):
        await assembler.assemble("s", **CALL)
    late = [system_event("You are also B.", created_at=NOW), user_event("hi")]
    await assembler.store.append("s", late)

    warm = (await assembler.assemble("s", **CALL)).to_anthropic()
    cold = (
        await ContextAssembler(assembler.store, bootstrap=None).assemble("s", **CALL)
    ).to_anthropic()

    assert str(warm).count("You are also B.") == 1
    assert str(warm) == str(cold)


async def test_a_prompt_with_a_lone_surrogate_is_recorded() -> None:
    assembler = ContextAssembler(bootstrap=None)
    await assembler.store.append("s", [system_event("Be \ud83d nice."), user_event("hi")])
    context = await assembler.assemble("s", **CALL)

    said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}]}
    await assembler.record("s", {**said, "id": "msg_1", "stop_reason": "end_turn"}, context)

    again = await assembler.assemble("s", **CALL)
    assert [turn["role"] for turn in again.messages][:2] == ["user", "assistant"]
