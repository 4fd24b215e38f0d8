"""A provider's own block that stands where it is refused becomes its text; the request stays valid."""

from typing import Any

import pytest

from context_assembler import ContextAssembler, InMemoryStore, Session, SessionEvent
from context_assembler.events import Opaque, Text

MODELS = {"anthropic": "claude-opus-5-5", "openai_responses": "gpt-6.2-sol"}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_7", "content": []}
CALL = {"type": "custom_tool_call", "call_id": "c9", "name": "run", "input": "x"}
BLOCKS: list[tuple[str, Any, dict[str, Any]]] = [
    ("anthropic", "user", RESULT),
    ("anthropic", "user", {"type": "compaction", "content": "What was before."}),
    ("anthropic", "user", {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}),
    ("anthropic", "user", {"type": "redacted_thinking", "data": "c2ln"}),
    ("openai_responses", "user", CALL),
    ("openai_responses", "assistant", CALL),
    (
        "openai_responses",
        "user",
        {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
    ),
    (
        "openai_responses",
        "assistant",
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    ),
    ("openai_responses", "user", {"type": "function_call_output", "call_id": "c", "output": "x"}),
    ("openai_responses", "user", {"type": "reasoning", "id": "rs_1", "summary": []}),
]


@pytest.mark.parametrize(("provider", "kind", "block"), BLOCKS)
async def test_a_block_in_the_wrong_place_is_sent_as_text(
    provider: str, kind: Any, block: dict[str, Any]
) -> None:
    part = Opaque(provider=provider, block=block, text="what it says")
    events = [SessionEvent(type="user", parts=(Text("hi"),)) for _ in range(2)]
    events.insert(1, SessionEvent(type=kind, parts=(Text("hello"), part)))
    store = InMemoryStore()
    await store.create(Session(id="s"))
    await store.append("s", events)

    context = await ContextAssembler(sessions=store, bootstrap=None).assemble(
        "s", model=MODELS[provider]
    )

    assert not [found for found in context.check() if found.level == "refused"]
    assert "what it says" in str(context.to_request())
