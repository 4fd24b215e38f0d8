"""A call of an unchanged session is answered without asking anybody; any change is noticed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from context_assembler import ContextAssembler, InMemoryStore, ModelRegistry, SqliteStore
from context_assembler.errors import AssemblyError
from context_assembler.limits import default_registry
from context_assembler.ports import SessionStore
from context_assembler.providers import provider_for
from context_assembler.sessions import calibrations_of
from context_assembler.tokens import counter_for
from context_assembler.tools.functions import FunctionTools
from context_assembler.values.calibration import UsageObservation, counter_id
from context_assembler.values.events import Session, SessionHead
from context_assembler.values.tools import ToolSpec

MODEL = "gpt-5.5"
CLAUDE = "claude-opus-4-5"
SPEC = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionStore]:
    opened = InMemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "agent.db")
    yield opened
    await opened.close()


def find_flights(city: str) -> str:
    """Find flights to a city."""
    return city


class Asked:
    """Counts how often somebody is asked."""

    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self.times = 0
        self._ask = ask

    async def __call__(self, *given: Any, **named: Any) -> Any:
        self.times += 1
        return await self._ask(*given, **named)


async def _begun(store: SessionStore, **given: Any) -> ContextAssembler:
    """Return an assembler that has just answered a call from its cache."""
    assembler = ContextAssembler(store, **given)
    await assembler.add_user("trip", "Hello")
    for _ in range(2):
        await assembler.assemble("trip", model=MODEL)
    context = await assembler.assemble("trip", model=MODEL)
    assert context.metadata.cache_hit
    return assembler


async def test_an_unchanged_session_asks_nobody(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembler = await _begun(store, tools=[find_flights, SPEC])
    head = Asked(store.head)
    monkeypatch.setattr(store, "head", head)

    first = await assembler.assemble("trip", model=MODEL)
    again = await assembler.assemble("trip", model=MODEL)

    assert head.times == 0
    assert first.metadata.cache_hit
    assert again.to_openai_responses() == first.to_openai_responses()
    assert [tool.name for tool in again.tools] == ["find_flights", "look"]


async def _append(store: SessionStore, _: ContextAssembler) -> None:
    await ContextAssembler(store).add_user("trip", "And back")


async def _begin_anew(store: SessionStore, _: ContextAssembler) -> None:
    await store.delete("trip")
    await ContextAssembler(store).add_user("trip", "Something else")


async def _change_record(store: SessionStore, _: ContextAssembler) -> None:
    await store.create(Session(id="trip", defaults={"temperature": None, "max_tokens": 77}))


async def _learn(store: SessionStore, _: ContextAssembler) -> None:
    limits = default_registry().get(MODEL)
    seen = UsageObservation(
        provider=provider_for(limits),
        model=limits.id,
        shape="text",
        counter=counter_id(counter_for(limits, protocol=provider_for(limits)).name),
        counted_tokens=1_000,
        reported_tokens=1_500,
    )
    for _number in range(5):
        await calibrations_of(store).observe_usage(seen)


CHANGES = {
    "another process appends": _append,
    "the session is begun anew": _begin_anew,
    "its defaults change": _change_record,
    "usage teaches how to count": _learn,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_what_is_written_is_noticed(
    store: SessionStore, change: Callable[[SessionStore, ContextAssembler], Awaitable[None]]
) -> None:
    assembler = await _begun(store)

    await change(store, assembler)
    context = await assembler.assemble("trip", model=MODEL)

    anew = await ContextAssembler(store).assemble("trip", model=MODEL)
    assert not context.metadata.cache_hit
    assert context.to_openai_responses() == anew.to_openai_responses()


async def test_other_options_and_other_sessions_are_other_calls(store: SessionStore) -> None:
    assembler = await _begun(store)
    await assembler.add_user("other", "Good morning")
    for _ in range(2):
        await assembler.assemble("trip", model=MODEL)

    short = await assembler.assemble("trip", model=MODEL, max_tokens=50)
    other = await assembler.assemble("other", model=MODEL)

    assert short.parameters.max_tokens == 50
    assert [message.text for message in other.messages if message.seq] == ["Good morning"]


async def test_defaults_that_are_equal_and_not_the_same_are_noticed(store: SessionStore) -> None:
    assembler = await _begun(store)
    contexts: list[tuple[int, int]] = []
    for max_tokens in (100, 100.0, 100):
        await store.create(Session(id="trip", defaults={"max_tokens": max_tokens}))
        warm = await assembler.assemble("trip", model=MODEL)
        anew = await ContextAssembler(store).assemble("trip", model=MODEL)
        contexts.append((warm.parameters.max_tokens, anew.parameters.max_tokens))
        assert warm.report.warnings == anew.report.warnings

    assert contexts[0] == contexts[2] == (100, 100)
    assert contexts[1][0] == contexts[1][1] != 100  # no whole number: left out with a warning


async def test_true_and_one_are_different_answers(store: SessionStore) -> None:
    assembler = await _begun(store)
    for _ in range(3):
        await assembler.assemble("trip", model=CLAUDE, temperature=1)
    context = await assembler.assemble("trip", model=CLAUDE, temperature=1.0)

    assert repr(context.parameters.temperature) == "1.0"


class Changing:
    """A source of the application's own, which says nothing of itself."""

    name = "changing"

    def __init__(self) -> None:
        self.tools = [ToolSpec(name="one", description="One.", input_schema={"type": "object"})]

    async def list_tools(self) -> Sequence[ToolSpec]:
        return self.tools


class ChangingFunctions(FunctionTools):
    """One that replaces how tools are listed, and inherits that they stay."""

    def __init__(self) -> None:
        super().__init__([find_flights])
        self.tools: list[ToolSpec] = []

    async def list_tools(self) -> Sequence[ToolSpec]:
        return [*await super().list_tools(), *self.tools]


@pytest.mark.parametrize("make", [Changing, ChangingFunctions])
async def test_sources_that_may_change_are_asked(
    store: SessionStore, make: Callable[[], Changing | ChangingFunctions]
) -> None:
    source = make()
    assembler = await _begun(store, tools=[source])

    source.tools.append(ToolSpec(name="two", description="Two.", input_schema={"type": "object"}))
    context = await assembler.assemble("trip", model=MODEL)

    assert "two" in [tool.name for tool in context.tools]


async def test_instruction_files_are_looked_at(store: SessionStore, tmp_path: Path) -> None:
    file = tmp_path / "AGENT.md"
    file.write_text("Be brief.", encoding="utf-8")
    assembler = await _begun(store, bootstrap=tmp_path)

    file.write_text("Be kind, and take your time.", encoding="utf-8")
    context = await assembler.assemble("trip", model=MODEL)

    assert "Be kind" in context.system_prompt


async def test_skills_are_looked_at(store: SessionStore, tmp_path: Path) -> None:
    assembler = await _begun(store, skills=tmp_path)

    (tmp_path / "pdf").mkdir()
    front = "---\nname: pdf\ndescription: Makes pdf files.\n---\n"
    (tmp_path / "pdf" / "SKILL.md").write_text(front, encoding="utf-8")
    context = await assembler.assemble("trip", model=MODEL)

    assert "Makes pdf files." in context.system_prompt


async def test_a_query_is_searched_for_again(store: SessionStore, tmp_path: Path) -> None:
    assembler = await _begun(store, memory=f"sqlite:{tmp_path / 'memory.db'}")
    for _ in range(3):
        await assembler.assemble("trip", model=MODEL, query="green tea")

    await assembler.remember("The user drinks green tea.")
    context = await assembler.assemble("trip", model=MODEL, query="green tea")

    assert "drinks green tea" in str(context.to_openai_responses()["input"])


async def test_what_becomes_known_of_a_model_counts(store: SessionStore) -> None:
    registry = ModelRegistry()
    assembler = await _begun(store, registry=registry)

    registry.register(MODEL, window_tokens=1_060_000)
    context = await assembler.assemble("trip", model=MODEL)

    assert context.draft.limits.window_tokens == 1_060_000


async def test_midnight_is_another_day(store: SessionStore) -> None:
    time = [datetime(2026, 5, 4, 23, 59, 59, tzinfo=UTC)]
    assembler = await _begun(store, now=lambda: time[0])

    time[0] += timedelta(seconds=2)
    context = await assembler.assemble("trip", model=MODEL)

    assert not context.metadata.cache_hit


async def test_the_forecast_is_of_the_moment_of_the_call(store: SessionStore) -> None:
    time = [datetime(2026, 5, 4, 12, tzinfo=UTC)]
    assembler = await _begun(store, now=lambda: time[0])

    time[0] += timedelta(hours=2)
    context = await assembler.assemble("trip", model=MODEL)

    assert context.metadata.cache_hit
    assert getattr(context.report.outlook, "now", None) == time[0]


class Elsewhere(InMemoryStore):
    """A store that replaces where sessions are looked up, and inherits the mark."""

    extra = 0

    async def head(self, session_id: str) -> SessionHead:
        head = await super().head(session_id)
        defaults = {**(head.session.defaults or {}), "max_tokens": 100 + self.extra}
        return SessionHead(
            session=Session(id=session_id, defaults=defaults),
            last_seq=head.last_seq,
            incarnation=head.incarnation,
        )


async def test_a_mark_says_nothing_of_a_store_that_looks_elsewhere() -> None:
    store = Elsewhere()
    assembler = await _begun(store)

    store.extra = 5
    context = await assembler.assemble("trip", model=MODEL)

    assert context.parameters.max_tokens == 105


async def test_many_callers_at_once_get_what_holds(store: SessionStore) -> None:
    assembler = await _begun(store)

    async def step(number: int) -> int:
        await assembler.add_user("trip", f"Message {number}")
        return len((await assembler.assemble("trip", model=MODEL)).messages)

    seen = await asyncio.gather(*map(step, range(20)))

    assert max(seen) == len((await assembler.assemble("trip", model=MODEL)).messages)


@pytest.mark.parametrize("wrong", [["trip"], {"a": 1}, 7, b"trip"])
@pytest.mark.parametrize("place", [0, 1])
async def test_ids_that_are_no_text_are_refused_in_our_own_words(
    store: SessionStore, wrong: Any, place: int
) -> None:
    assembler = await _begun(store)
    ids: list[Any] = ["trip", None]
    ids[place] = wrong

    with pytest.raises(AssemblyError, match="must be text"):
        await assembler.assemble(*ids, model=MODEL)
