"""Counts that a long session leaves beside its events, and what they change: nothing but time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from context_assembler import ContextAssembler, get_model_limits
from context_assembler.errors import StoreUnavailableError
from context_assembler.sessions import CountsAtRest, InMemoryStore, SqliteStore
from context_assembler.sessions.counts_at_rest import LEAST_COUNTS
from context_assembler.tokens import COUNTING_VERSION, ModelTokenCounter, counter_for
from context_assembler.values.events import (
    SessionEvent,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import Image, Part, Text, ToolCall, ToolResult, UrlSource
from context_assembler.values.resting_counts import RestingCount, place_of_counts

MODEL = "gpt-4o"
GPT_4O = ModelLimits(
    id=MODEL, provider="openai", window_tokens=128_000, output_tokens=16_384, encoding="o200k_base"
)


def long_session() -> list[SessionEvent]:
    events = [user_event("Read all files.")]
    for number in range(LEAST_COUNTS):
        call = ToolCall(call_id=f"call_{number}", name="read", arguments={"path": f"{number}.py"})
        events += [assistant_event(call), tool_result_event(call.call_id, f"Nothing in {number}.")]
    return events


def key_of_counts() -> str:
    place = place_of_counts(counter_for(get_model_limits(MODEL), protocol="openai_chat"))
    assert place is not None
    return place[1]


class CountedCalls:
    """Counts how many messages are counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        count = ModelTokenCounter._count_parts  # pyright: ignore[reportPrivateUsage]

        def counted(counter: ModelTokenCounter, message: Message) -> int:
            self.number += 1
            return count(counter, message)

        monkeypatch.setattr(ModelTokenCounter, "_count_parts", counted)


async def test_what_one_process_counted_the_next_one_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.db"
    async with SqliteStore(path) as store:
        await store.append("trip", long_session())
    calls, used = CountedCalls(monkeypatch), list[int]()

    counted: list[int] = []
    for _ in range(2):
        calls.number = 0
        async with ContextAssembler(sessions=SqliteStore(path)) as assembler:
            context = await assembler.assemble("trip", model=MODEL)
        used.append(context.metadata.ledger.used_tokens)
        counted.append(calls.number)

    assert used[0] == used[1]
    assert counted[0] > LEAST_COUNTS > 10 > counted[1]


async def test_what_comes_in_step_by_step_is_left_behind_as_well(tmp_path: Path) -> None:
    events = long_session()
    async with SqliteStore(tmp_path / "agent.db") as store:
        await store.append("trip", events[: LEAST_COUNTS + 1])
        async with ContextAssembler(sessions=store) as assembler:
            await assembler.assemble("trip", model=MODEL)
            for at in range(LEAST_COUNTS + 1, len(events), 2):
                await store.append("trip", events[at : at + 2])
                await assembler.assemble("trip", model=MODEL)
        found = await store.find_counts("trip", counter=key_of_counts())

    assert len(events) - LEAST_COUNTS < len(found)
    assert {1, 2, LEAST_COUNTS + 2} <= found.keys()


async def test_a_short_session_leaves_nothing(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "agent.db") as store:
        await store.append("trip", long_session()[:21])
        async with ContextAssembler(sessions=store) as assembler:
            await assembler.assemble("trip", model=MODEL)

        assert await store.find_counts("trip", counter=key_of_counts()) == {}


class RefusingStore(InMemoryStore):
    """Neither reads nor writes counts."""

    async def find_counts(self, *_: Any, **__: Any) -> Mapping[int, RestingCount]:
        raise StoreUnavailableError("counts", reason="it is broken", remedy="Mend it.")

    async def keep_counts(self, *_: Any, **__: Any) -> None:
        raise StoreUnavailableError("counts", reason="it is read-only", remedy="Leave it so.")


class BareStore:
    """A store of a user's own, with nothing but what a session store needs."""

    def __init__(self) -> None:
        inner = InMemoryStore()
        self.create, self.append, self.load, self.head = (
            inner.create,
            inner.append,
            inner.load,
            inner.head,
        )
        self.list_sessions, self.delete, self.close = (
            inner.list_sessions,
            inner.delete,
            inner.close,
        )


@pytest.mark.parametrize("store", [RefusingStore(), BareStore()], ids=["refusing", "bare"])
async def test_no_counts_are_needed(store: Any) -> None:
    plain = InMemoryStore()
    used: list[int] = []
    for one in (plain, store):
        await one.append("trip", long_session())
        async with ContextAssembler(sessions=one) as assembler:
            context = await assembler.assemble("trip", model=MODEL)
        used.append(context.metadata.ledger.used_tokens)

    assert used[0] == used[1]


async def test_a_message_that_is_not_as_it_is_stored_is_counted_anew() -> None:
    store = InMemoryStore()
    events = tuple(await store.append("trip", long_session()))
    incarnation = (await store.head("trip")).incarnation
    counter = counter_for(GPT_4O)
    place = place_of_counts(counter)
    assert place is not None
    await store.keep_counts(
        "trip", {2: RestingCount(1, 1_234)}, counter=place[1], incarnation=incarnation
    )
    derived: dict[Any, Any] = {}
    await CountsAtRest(store).fetch("trip", counter=counter, derived=derived, events=events)
    resting = derived[place]
    body: Any = events[1].body

    def count(*parts: Part, seq: int = 2, **fields: Any) -> int:
        message = Message(role="assistant", parts=parts, seq=seq, **fields)
        tokens: int = resting.count(message, counter.count_message)
        return tokens

    assert count(*body.parts) == 1_234
    assert count(*body.parts, Text("And more.")) < 100
    assert count(Text("Something else.")) < 100
    assert count(*body.parts, kind="synthetic") < 100
    assert count(*body.parts, seq=0) < 100


def test_the_version_goes_up_when_counts_change() -> None:
    """Change COUNTING_VERSION together with these numbers."""
    call = ToolCall(
        call_id="c", name="read_file", arguments={"path": "src/main.py", "lines": [1, 9]}
    )
    picture = Image(source=UrlSource(url="https://example.org/a.png"), width_px=640, height_px=480)
    result = ToolResult(call_id="c", content=(Text("def main() -> None: …\n"),), is_error=True)
    messages = [
        Message(role="user", parts=(Text("Wie spät ist es? 現在何時ですか?"), picture)),
        Message(role="assistant", parts=(Text("I will look."), call)),
        Message(role="tool", parts=(result, result)),
        Message(role="user", parts=(Text("│ aaaa ████ │ ສະບາຍດີ\n" * 9),)),
    ]
    models = {
        MODEL: GPT_4O,
        "claude": ModelLimits(
            id="claude-opus-5-5",
            provider="anthropic",
            window_tokens=200_000,
            output_tokens=64_000,
            encoding="anthropic-new",
        ),
        "gemini": ModelLimits(
            id="gemini-3-pro",
            provider="google",
            window_tokens=1_000_000,
            output_tokens=64_000,
            encoding="gemini",
        ),
    }

    counts = {
        name: [counter_for(limits).count_message(message) for message in messages]
        for name, limits in models.items()
    }

    assert COUNTING_VERSION == 4
    assert counts == {
        "gpt-4o": [1618, 34, 50, 202],
        "claude": [1622, 83, 120, 214],
        "gemini": [1611, 16, 16, 106],
    }
