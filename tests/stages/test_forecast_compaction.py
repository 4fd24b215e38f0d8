"""The call behind a compaction is not what the call before it was, whoever wrote the compaction."""

from dataclasses import replace
from typing import Any, Final

import pytest

from context_assembler import ContextAssembler
from context_assembler.sessions import InMemoryStore
from context_assembler.values.answered_calls import answered_calls
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    EventBody,
    Provenance,
    SessionEvent,
)
from context_assembler.values.forecasts import CacheForecast
from context_assembler.values.parts import Json, Opaque, Text

CLAUDE: Final = "claude-opus-5-5"
GPT: Final = "gpt-5.5"
LONG: Final = "so that it is worth caching " * 300
SEALED: Final[Json] = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAxyz"}
TOLD: Final[Json] = {"type": "compaction", "content": "They spoke of caches."}


def response(*items: Json) -> dict[str, Json]:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": GPT}
    return {**head, "status": "completed", "output": list(items)}


def said(text: str) -> Json:
    content: list[Json] = [{"type": "output_text", "text": text, "annotations": list[Json]()}]
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def message(*blocks: Json) -> dict[str, Json]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": CLAUDE}
    return {**head, "content": list(blocks), "stop_reason": "end_turn"}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


# The model, an ordinary reply, and one with a compaction.
COMPACTED: dict[str, tuple[str, dict[str, Json], dict[str, Json]]] = {
    "sealed, and went on": (GPT, response(said("Yes.")), response(SEALED, said("So."))),
    "sealed, and stopped": (GPT, response(said("Yes.")), response(SEALED)),
    "told, and went on": (CLAUDE, message(text("Yes.")), message(TOLD, text("So."))),
    "in the middle of a reply": (
        CLAUDE,
        message(text("Yes.")),
        message(text("Well."), TOLD, text("So.")),
    ),
}


class Loop:
    """A session that is asked one question after the other."""

    def __init__(self, model: str) -> None:
        self.store = InMemoryStore()
        self.assembler = ContextAssembler(self.store)
        self.options: dict[str, Any] = {"model": model, "max_tokens": 1000}

    async def step(self, reply: dict[str, Json]) -> CacheForecast:
        await self.assembler.add_user("s", f"And then? {LONG}")
        context = await self.assembler.assemble("s", **self.options)
        anew = await ContextAssembler(self.store).assemble("s", **self.options)
        forecast = context.report.forecast
        assert forecast is not None
        assert forecast.broken == getattr(anew.report.forecast, "broken", None)
        await self.assembler.record("s", reply, context)
        return forecast


@pytest.mark.parametrize(("model", "plain", "compacted"), COMPACTED.values(), ids=COMPACTED.keys())
async def test_the_call_behind_a_providers_compaction_is_told_to_break_the_prefix(
    model: str, plain: dict[str, Json], compacted: dict[str, Json]
) -> None:
    loop = Loop(model)
    replies = (plain, compacted, plain, plain)

    forecasts = [await loop.step(reply) for reply in replies]

    first, second, behind, later = forecasts
    [summary] = [
        event async for event in loop.store.load("s") if isinstance(event.body, CompactionBody)
    ]
    assert (first.broken, second.broken, later.broken) == (None, None, None)
    assert behind.broken is not None
    assert (behind.broken.piece, behind.broken.id) == ("message", summary.id)
    assert behind.broken.reason == "It stands in for what the last call was sent before it."
    assert behind.split.read_tokens <= behind.broken.shared_tokens


async def test_a_plain_compaction_is_told_in_the_same_words() -> None:
    loop = Loop(CLAUDE)
    for _ in range(2):
        await loop.step(message(text("Yes.")))
    head = await loop.store.head("s")
    summary = CompactionBody(summary="They spoke.", first_seq=1, last_seq=head.last_seq)
    await loop.store.append("s", [SessionEvent(body=summary)])

    forecast = await loop.step(message(text("Yes.")))

    assert forecast.broken is not None
    assert forecast.broken.reason == "It stands in for what the last call was sent before it."


MADE_BY: Final = Provenance(provider="anthropic", model=CLAUDE, prefix_fingerprint="sent")
BLOCK: Final = Opaque(provider="anthropic", block={"type": "compaction", "content": "So."})


def recorded(body: EventBody, *, answers_seq: int = 1) -> SessionEvent:
    return SessionEvent(body=body, answers_seq=answers_seq)


def compaction(*native: Opaque, made_by: Provenance = MADE_BY) -> SessionEvent:
    body = CompactionBody(summary="So.", first_seq=1, last_seq=2, native=native, made_by=made_by)
    return recorded(body)


BEHIND: Final = AssistantBody(
    parts=(Text("So."),), made_by=replace(MADE_BY, prefix_fingerprint="summary")
)
CALLS: dict[str, tuple[SessionEvent, SessionEvent, str]] = {
    "what was said behind it in one reply": (compaction(BLOCK), recorded(BEHIND), "sent"),
    "the answer to another call": (compaction(BLOCK), recorded(BEHIND, answers_seq=5), "summary"),
    "what an application compacted": (compaction(), recorded(BEHIND), "summary"),
    "another response": (
        compaction(BLOCK, made_by=replace(MADE_BY, response_id="other")),
        recorded(BEHIND),
        "summary",
    ),
    "a compaction that nobody fingerprinted": (
        compaction(BLOCK, made_by=replace(MADE_BY, prefix_fingerprint=None)),
        recorded(BEHIND),
        "summary",
    ),
}


@pytest.mark.parametrize(("before", "behind", "sent"), CALLS.values(), ids=CALLS.keys())
def test_a_call_is_known_by_all_that_it_was_sent(
    before: SessionEvent, behind: SessionEvent, sent: str
) -> None:
    assert answered_calls([before, behind])[-1].fingerprint == sent
