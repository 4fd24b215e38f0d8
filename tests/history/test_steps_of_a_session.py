"""An assembler that saw a session grow sends what one sends that sees it for the first time."""

import json
from typing import Any

import pytest

from context_assembler import ContextAssembler
from context_assembler.config import AssemblerConfig
from context_assembler.resources import bundled_path
from context_assembler.sessions import InMemoryStore
from context_assembler.transcripts import read_transcript
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import SessionEvent, user_event

MODELS = ["gpt-5.5", "claude-opus-4-8"]


def sample_events() -> tuple[SessionEvent, ...]:
    sample = json.loads((bundled_path("samples") / "coding_agent.json").read_text("utf-8"))
    return read_transcript(sample, format="openai_chat").events


def seen(context: AssembledContext) -> tuple[Any, ...]:
    """Return what may not depend on what came before."""
    return context.to_request(), context.report.entries, context.metadata.ledger


@pytest.mark.parametrize("model", MODELS)
async def test_every_step_is_that_of_a_new_assembler(model: str) -> None:
    store, events = InMemoryStore(), sample_events()
    old = ContextAssembler(store, config=AssemblerConfig())
    asked: dict[str, Any] = {"model": model, "max_context_tokens": 6_000, "fresh": True}
    for end in range(0, 3 * len(events), 11):
        batch = [events[at % len(events)] for at in range(end, end + 11)]
        await store.append("trip", batch)

        step = await old.assemble("trip", **asked)

        new = await ContextAssembler(store, config=AssemblerConfig()).assemble("trip", **asked)
        assert seen(step) == seen(new)


async def test_an_invalidated_session_is_read_anew() -> None:
    store = Corrected()
    assembler = ContextAssembler(store, config=AssemblerConfig())
    await store.append("trip", [user_event("hello"), user_event("and now?")])
    await assembler.assemble("trip", model="gpt-5.5")
    store.correct("trip", "hello there")

    assembler.invalidate_cache("trip")

    context = await assembler.assemble("trip", model="gpt-5.5")
    assert context.messages[0].text == "hello there"


class Corrected(InMemoryStore):
    """A store whose owner changes what was stored, behind everybody's back."""

    def correct(self, session_id: str, text: str) -> None:
        events = self._logs[session_id].events
        events[0] = type(events[0])(body=user_event(text).body, id=events[0].id, seq=1)
