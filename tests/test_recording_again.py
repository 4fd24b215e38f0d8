"""A reply that is recorded twice stands in its session once."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import anthropic
import openai
import pytest
from google import genai
from google.genai.types import HttpOptions

from context_assembler import AssemblerConfig, ContextAssembler, ToolCall
from context_assembler.errors import StoreError, StoreUnavailableError
from context_assembler.sessions import InMemoryStore, SqliteStore
from context_assembler.testing import ProviderServer, ScriptedReply, serve_providers
from context_assembler.values.calibration import Calibration, UsageObservation
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import SessionEvent
from tests.calling import call_model
from tests.models import MODELS

LOOK = ToolCall(call_id="toolu_1", name="look", arguments={"at": "the wall", "for_minutes": 1.0})
SCRIPT = [
    ScriptedReply(text="Let me see.", tool_calls=(LOOK,), thinking="Where?"),
    ScriptedReply(text="A wall."),
]


def look(at: str, for_minutes: float) -> str:
    """Look at something."""
    return f"{at}, {for_minutes}"


async def stream_model(server: ProviderServer, context: AssembledContext) -> Any:
    """Stream a reply, and return what the SDK hands out at the end of it."""
    return await asyncio.to_thread(_stream, server, context.provider, context.to_request())


def _stream(server: ProviderServer, provider: str, payload: dict[str, Any]) -> Any:
    if provider == "gemini":
        options = HttpOptions(base_url=server.gemini_url)
        google = genai.Client(api_key="test", http_options=options)
        models: Any = google.models
        return list(models.generate_content_stream(**payload))
    if provider == "anthropic":
        claude: Any = anthropic.Anthropic(base_url=server.anthropic_url, api_key="x").messages
        with claude.stream(**payload) as stream:
            return stream.get_final_message()
    gpt: Any = openai.OpenAI(base_url=server.openai_url, api_key="x")
    if provider == "openai_responses":
        with gpt.responses.stream(**payload) as stream:
            list(stream)
            return stream.get_final_response()
    with gpt.chat.completions.stream(**payload) as stream:
        return stream.get_final_completion()


CALLS = {"whole": call_model, "streamed": stream_model}
every_protocol = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
either_way = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with serve_providers(SCRIPT) as serving:
        yield serving


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> InMemoryStore | SqliteStore:
    if request.param == "memory":
        return InMemoryStore()
    return SqliteStore(tmp_path / "agent.db")


async def stored(assembler: ContextAssembler) -> list[SessionEvent]:
    return [event async for event in assembler.sessions.load("trip")]


@either_way
@every_protocol
async def test_a_reply_that_is_recorded_twice_is_stored_once(
    server: ProviderServer, store: InMemoryStore | SqliteStore, model: str, call: Any
) -> None:
    hours = count()
    start = datetime(2026, 11, 20, tzinfo=UTC)
    assembler = ContextAssembler(
        store, tools=[look], now=lambda: start + timedelta(hours=next(hours))
    )
    await assembler.add_user("trip", "Look around.")

    for _ in SCRIPT:
        context = await assembler.assemble("trip", model=model, max_tokens=2000)
        reply = await call(server, context)
        recorded = await assembler.record("trip", reply, context)
        before, learnt = await stored(assembler), await store.calibrations()
        await assembler.assemble("trip", model=model, max_tokens=2000)

        again = await assembler.record("trip", reply, context)

        assert again == before[-len(recorded) :]
        assert [event.id for event in again] == [event.id for event in recorded]
        assert (await stored(assembler), await store.calibrations()) == (before, learnt)
        for wanted in recorded[-1].tool_calls:
            await assembler.add_tool_result("trip", wanted.call_id, look(**wanted.arguments))
    await store.close()


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept events", "events read again"])
async def test_a_reply_delivered_again_is_known_by_another_process(
    server: ProviderServer, tmp_path: Path, is_kept: bool
) -> None:
    config = {} if is_kept else {"cache": {"max_mb": 0}}
    ours = _open(tmp_path, {})
    await ours.add_user("trip", "Look around.")
    context = await ours.assemble("trip", model="claude-opus-5-5", max_tokens=2000)
    reply = await call_model(server, context)
    recorded = await ours.record("trip", reply, context)
    await ours.add_tool_result("trip", "toolu_1", "a wall")
    before = await stored(ours)
    theirs = _open(tmp_path, config)

    again = await theirs.record("trip", reply, context)

    assert [event.id for event in again] == [event.id for event in recorded]
    assert await stored(theirs) == before
    later = await theirs.assemble("trip", model="claude-opus-5-5", max_tokens=2000)
    for assembler in (ours, theirs):
        await assembler.close()
    await call_model(server, later)


async def test_a_double_that_says_the_same_every_time_is_heard_every_time() -> None:
    async with ContextAssembler() as assembler:
        for said in ("One.", "Two."):
            await assembler.add_user("trip", said)
            context = await assembler.assemble("trip", model="claude-opus-5-5", max_tokens=2000)
            await assembler.record("trip", answer(), context)

        kinds = [event.type for event in await stored(assembler)]

    assert kinds.count("assistant") == 2


def _open(folder: Path, config: dict[str, Any]) -> ContextAssembler:
    return ContextAssembler(
        f"sqlite:{folder / 'agent.db'}", tools=[look], config=AssemblerConfig(**config)
    )


async def test_of_deliveries_at_once_one_is_stored(store: InMemoryStore | SqliteStore) -> None:
    assembler = ContextAssembler(store)
    context = await begin(assembler)

    all_recorded = await asyncio.gather(
        *(assembler.record("trip", answer(), context) for _ in range(5))
    )

    assert len({tuple(event.id for event in events) for events in all_recorded}) == 1
    assert [event.text for event in await stored(assembler)].count("Fly in May.") == 1
    await store.close()


class LosesItsAnswer(InMemoryStore):
    """A store that writes, and fails before it can say so."""

    fails = True

    async def append(
        self, session_id: str, events: Sequence[SessionEvent], *, expected_seq: int | None = None
    ) -> list[SessionEvent]:
        done = await super().append(session_id, events, expected_seq=expected_seq)
        if self.fails and any(event.origin == "model" for event in events):
            self.fails = False
            raise StoreUnavailableError("agent.db", reason="no answer came", remedy="Try again.")
        return done


async def test_to_try_again_after_the_store_failed_is_safe() -> None:
    assembler = ContextAssembler(LosesItsAnswer())
    context = await begin(assembler)

    with pytest.raises(StoreError):
        await assembler.record("trip", answer(), context)
    again = await assembler.record("trip", answer(), context)

    assert again == (await stored(assembler))[-len(again) :]
    assert [event.text for event in await stored(assembler)].count("Fly in May.") == 1


class LearnsNothing(InMemoryStore):
    """A store that keeps events, and fails to keep what was learned from their usage."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[UsageObservation] = []

    async def observe_usage(self, seen: UsageObservation) -> Calibration:
        self.seen.append(seen)
        raise StoreUnavailableError("agent.db", reason="it is locked", remedy="Try again.")


async def test_a_reply_that_is_stored_is_told_to_be_though_nothing_was_learned_from_it() -> None:
    store = LearnsNothing()
    assembler = ContextAssembler(store)
    await assembler.add_user("trip", "How long is the wall? " * 200)
    context = await assembler.assemble("trip", model="claude-opus-5-5")
    used = {"input_tokens": 1_200, "output_tokens": 5}
    reply = {key: held for key, held in answer().items() if key != "id"} | {"usage": used}

    events = await assembler.record("trip", reply, context)

    assert len(store.seen) == 1
    assert (await stored(assembler))[-len(events) :] == events


USED = {"input_tokens": 40, "output_tokens": 5}
Change: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
OTHERS: dict[str, Change] = {
    "another id": lambda reply: {**reply, "id": "msg_2"},
    "no id": lambda reply: {key: held for key, held in reply.items() if key != "id"},
    "other words": lambda reply: {**reply, "content": [{"type": "text", "text": "Fly in June."}]},
    "another end": lambda reply: {**reply, "stop_reason": "max_tokens"},
    "other usage": lambda reply: {**reply, "usage": {**USED, "input_tokens": 60}},
    "another model": lambda reply: {**reply, "model": "claude-opus-5"},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS.keys())
async def test_another_reply_is_stored_as_well(change: Change) -> None:
    assembler = ContextAssembler()
    context = await begin(assembler)
    first = await assembler.record("trip", answer(), context)

    second = await assembler.record("trip", change(answer()), context)

    assert second[-1].seq > first[-1].seq
    assert (await stored(assembler))[-1] == second[-1]


async def test_without_ids_every_call_of_record_stores() -> None:
    assembler = ContextAssembler()
    context = await begin(assembler)
    nameless = OTHERS["no id"](answer())

    for _ in range(3):
        await assembler.record("trip", nameless, context)

    assert [event.text for event in await stored(assembler)].count("Fly in May.") == 3


async def test_a_server_with_one_id_and_no_usage_may_repeat_itself() -> None:
    assembler = ContextAssembler()
    unmetered = {**answer(), "usage": None}
    for _ in range(3):
        context = await begin(assembler)
        await assembler.record("trip", unmetered, context)
        await assembler.record("trip", unmetered, context)

    texts = [event.text for event in await stored(assembler) if event.type != "system"]

    assert texts == ["Plan a trip.", "Fly in May."] * 3


async def test_a_compaction_in_a_reply_is_stored_once_with_what_stands_around_it() -> None:
    assembler = ContextAssembler()
    context = await begin(assembler)
    blocks = [text("Wait."), {"type": "compaction", "content": "They plan a trip."}, text("Fly.")]
    recorded = await assembler.record("trip", {**answer(), "content": blocks}, context)
    await assembler.add_user("trip", "Where to?")

    again = await assembler.record("trip", {**answer(), "content": blocks}, context)

    assert [event.type for event in again if not event.is_pinned][-3:] == [
        "assistant",
        "compaction",
        "assistant",
    ]
    assert [event.id for event in again] == [event.id for event in recorded]
    assert len(await stored(assembler)) == 1 + len(recorded) + 1


async def test_replies_are_looked_up_in_what_is_new_alone() -> None:
    assembler = ContextAssembler(Counting())
    store = assembler.sessions
    assert isinstance(store, Counting)
    for number in range(30):
        context = await begin(assembler)
        store.read = 0
        await assembler.record("trip", {**answer(), "id": f"msg_{number}"}, context)
        assert store.read <= 3


class Counting(InMemoryStore):
    """A store that counts the events it hands out."""

    read = 0

    async def read_batch(
        self, session_id: str, *, after_seq: int = 0, until_seq: int | None = None
    ) -> Any:
        batch = await super().read_batch(session_id, after_seq=after_seq, until_seq=until_seq)
        self.read += len(batch.events)
        return batch


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def answer() -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [text("Fly in May.")],
        "stop_reason": "end_turn",
        "usage": USED,
    }


async def begin(assembler: ContextAssembler) -> AssembledContext:
    await assembler.add_user("trip", "Plan a trip.")
    return await assembler.assemble("trip", model="claude-opus-5-5", max_tokens=2000)
