"""A provider's own block that stands where it is refused becomes its text; the request stays valid."""

from typing import Any

import pytest

from context_assembler import SessionEvent
from context_assembler.events import Opaque, Text
from tests.core.sessions import assembled

CLAUDE, GPT = ("anthropic", "claude-opus-5-5"), ("openai_responses", "gpt-6.2-sol")
RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_7", "content": []}
CALL = {"type": "custom_tool_call", "call_id": "c9", "name": "run", "input": "x"}
ASKED = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
BLOCKS: list[tuple[tuple[str, str], Any, dict[str, Any]]] = [
    (CLAUDE, "user", RESULT),
    (CLAUDE, "user", {"type": "compaction", "content": "What was before."}),
    (CLAUDE, "user", {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}),
    (CLAUDE, "user", {"type": "redacted_thinking", "data": "c2ln"}),
    *((GPT, "user", CALL), (GPT, "assistant", CALL), (GPT, "assistant", ASKED)),
    (GPT, "user", {"type": "custom_tool_call_output", "call_id": "c", "output": "x"}),
    (GPT, "user", {"type": "function_call_output", "call_id": "c", "output": "x"}),
    (GPT, "user", {"type": "reasoning", "id": "rs_1", "summary": []}),
]


@pytest.mark.parametrize(("asked", "kind", "block"), BLOCKS)
def test_a_block_in_the_wrong_place_is_sent_as_text(
    asked: tuple[str, str], kind: Any, block: dict[str, Any]
) -> None:
    provider, model = asked
    part = Opaque(provider=provider, block=block, text="what it says")

    context = assembled(
        "U hi", SessionEvent(type=kind, parts=(Text("hello"), part)), "U hi", model=model
    )

    assert context.check().refused == []
    assert "what it says" in str(context.to_request())
