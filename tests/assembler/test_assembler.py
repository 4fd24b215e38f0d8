"""`ContextAssembler`: what it takes, when it answers from its cache, whom it asks, how it ends."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    AssemblyCache,
    ConcurrentAppendError,
    ConfigurationError,
    ContextAssembler,
    CutPolicy,
    ModelRegistry,
    PromptSection,
    Session,
    SessionEvent,
    SqliteStore,
    UnknownSessionError,
    create_context_assembler,
    user_event,
)
from context_assembler.cache import CacheKey
from context_assembler.errors import (
    EmptySessionError,
)
from context_assembler.events import Covers, SessionHead, Text
from tests.core.sessions import OPUS, answer, text

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def look(city: str) -> str:
    """Look up a city.

    Args:
        city: Its name.
    """
    return city


def reply(said: str, *, id: str = "msg_1") -> dict[str, Any]:
    return answer(text(said), id=id)


class Bare:
    """The least of a store: events and heads, read only."""

    def __init__(self) -> None:
        self.events: list[SessionEvent] = []
        self.session = Session(id="trip")
        self.incarnation = ""
        self.loads: list[int] = []

    async def head(self, session_id: str) -> SessionHead:
        if session_id != "trip":
            raise UnknownSessionError(session_id, known=["trip"])
        return SessionHead(
            session=self.session, last_seq=len(self.events), incarnation=self.incarnation
        )

    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        assert session_id == "trip"
        self.loads.append(after_seq)
        for event in self.events[after_seq:]:
            yield event

    def add(self, *events: SessionEvent) -> list[SessionEvent]:
        """Number events and keep them."""
        numbered = [
            replace(event, seq=seq, id=event.id or f"own_{seq}")
            for seq, event in enumerate(events, len(self.events) + 1)
        ]
        self.events += numbered
        return numbered


class Own(Bare):
    """A store of seven methods, as far as the assembler calls them."""

    async def create(self, session: Session) -> None:
        self.session = session

    async def append(
        self, session_id: str, events: list[SessionEvent], *, expected_seq: int | None = None
    ) -> list[SessionEvent]:
        if expected_seq not in (None, len(self.events)):
            raise ConcurrentAppendError(
                session_id, expected_seq=expected_seq or 0, actual_seq=len(self.events)
            )
        return self.add(*events)


class AwaitedTools:
    """A source of tools that has to be awaited."""

    name = "awaited"

    async def list_tools(self) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        return [{"name": "far", "description": "Far away.", "input_schema": {"type": "object"}}]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def begun(**parts: Any) -> ContextAssembler:
    given: dict[str, Any] = {"now": lambda: NOON, **parts}
    assembler = ContextAssembler(**given)
    await assembler.add_user("trip", "Where to in May?")
    return assembler


# ---- calls ----


async def test_every_part_may_be_given_by_name_in_the_short_form(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("Be kind.")
    (tmp_path / "skills" / "maps").mkdir(parents=True)
    skill = "---\nname: maps\ndescription: Draws maps.\n---\nDraw."
    (tmp_path / "skills" / "maps" / "SKILL.md").write_text(skill)
    assembler = create_context_assembler(
        sessions=f"sqlite:{tmp_path / 'agent.db'}",
        bootstrap=tmp_path,
        tools=look,
        skills=tmp_path / "skills",
        prompt_sections=[PromptSection(name="house", content="No smoking.", priority=5)],
    )
    await assembler.add_user("trip", "Where to?")

    context = await assembler.assemble("trip", model=OPUS)

    assert context.system_prompt.startswith("Be kind.")
    assert "maps" in context.system_prompt
    assert context.system_prompt.endswith("No smoking.")
    assert [tool.name for tool in context.tools] == ["look"]
    await assembler.close()


async def test_sessions_that_cannot_be_assembled_are_named() -> None:
    assembler = await begun()
    await assembler.sessions.create(Session(id="empty"))

    with pytest.raises(UnknownSessionError, match="Did you mean 'trip'"):
        await assembler.assemble("trap", model=OPUS)
    with pytest.raises(EmptySessionError):
        await assembler.assemble("empty", model=OPUS)


async def test_defaults_come_from_the_session_its_agent_and_the_settings() -> None:
    config = AssemblerConfig(
        defaults={"model": "gpt-4.1", "max_tokens": 1}, agents={"pilot": {"max_tokens": 2}}
    )
    assembler = ContextAssembler(config=config)
    settings: dict[str, dict[str, Any]] = {"plain": {}, "set": {"max_tokens": 3}}
    for name, defaults in settings.items():
        session = Session(id=name, agent_id="pilot", defaults=defaults)
        await assembler.sessions.create(session)
        await assembler.add_user(name, "Hello.")

    contexts = [await assembler.assemble(name) for name in settings]
    contexts.append(await assembler.assemble("set", max_tokens=4))

    assert [context.parameters.max_tokens for context in contexts] == [2, 3, 4]


async def test_a_query_without_memory_is_not_ignored_in_silence() -> None:
    context = await (await begun()).assemble("trip", model=OPUS, query="Lima")

    assert any("no memory is configured" in warning for warning in context.report.warnings)


async def test_explaining_reports_what_assembling_reports() -> None:
    assembler = await begun(tools=[look])

    report = await assembler.explain("trip", model=OPUS)

    assert report.entries == (await assembler.assemble("trip", model=OPUS)).report.entries


# ---- the cache ----


async def test_a_replay_has_each_call_of_the_session() -> None:
    assembler, sent = await begun(), list[int]()
    for turn in range(4):
        context = await assembler.assemble("trip", model=OPUS)
        sent.append(context.metadata.ledger.used_tokens)
        await assembler.record("trip", reply("Yes. " * 30, id=f"msg_{turn}"), context)
        await assembler.add_user("trip", "And then? " * 9)
    stored = [event async for event in assembler.sessions.load("trip")]
    covers, said = Covers(1, stored[3].seq), (Text("They talked."),)
    summary = SessionEvent(type="compaction", parts=said, covers=covers)
    await assembler.sessions.append("trip", [summary])
    context = await assembler.assemble("trip", model=OPUS)
    sent.append(context.metadata.ledger.used_tokens)
    await assembler.record("trip", reply("So it is.", id="msg_last"), context)

    half = CutPolicy(strategy="sliding", cache_stable=False, budget_share=0.5)
    simulation = await assembler.simulate("trip", model=OPUS, policies=[CutPolicy(), half])

    whole, (settled, cut) = simulation.everything, simulation.runs
    assert [step.tokens for step in whole.steps] == [step.tokens for step in settled.steps] == sent
    assert whole.rewrites == 1
    assert 0 < cut.tokens < whole.tokens
    assert (whole.usd or 0) > 0


async def test_an_unchanged_session_is_answered_from_the_cache() -> None:
    assembler = await begun(tools=[look])

    contexts = [await assembler.assemble("trip", model=OPUS) for _ in range(3)]

    assert [context.metadata.cache_hit for context in contexts] == [False, True, True]
    assert contexts[0].to_request() == contexts[2].to_request()
    stats = assembler.cache_stats()
    assert (stats.hits, stats.entries) == (2, 1)
    assert 0.5 < stats.hit_rate < 1


async def said(assembler: ContextAssembler, _folder: Path) -> None:
    await assembler.add_user("trip", "And then?")


async def appended_elsewhere(_assembler: ContextAssembler, folder: Path) -> None:
    async with SqliteStore(folder / "agent.db") as store:
        await store.append("trip", [user_event("Me too.")])


async def recreated(assembler: ContextAssembler, _folder: Path) -> None:
    await assembler.sessions.create(Session(id="trip", defaults={"max_tokens": 7}))


async def begun_again(assembler: ContextAssembler, _folder: Path) -> None:
    await assembler.sessions.delete("trip")
    await assembler.add_user("trip", "Where to in May?")


async def edited(_assembler: ContextAssembler, folder: Path) -> None:
    (folder / "AGENT.md").write_text("Be brief.")


async def forgotten(assembler: ContextAssembler, _folder: Path) -> None:
    assert assembler.invalidate_cache("trip") == 1
    assert assembler.invalidate_cache() == 0


CHANGES: dict[str, Callable[[ContextAssembler, Path], Any]] = {
    "a new event": said,
    "an event of another process": appended_elsewhere,
    "another record": recreated,
    "the session begun again": begun_again,
    "an edited file": edited,
    "a cache that was told to forget": forgotten,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_what_changes_is_noticed(
    tmp_path: Path, change: Callable[[ContextAssembler, Path], Any]
) -> None:
    (tmp_path / "AGENT.md").write_text("Be kind.")
    assembler = await begun(sessions=SqliteStore(tmp_path / "agent.db"), bootstrap=tmp_path)
    before = await assembler.assemble("trip", model=OPUS)
    assert (await assembler.assemble("trip", model=OPUS)).metadata.cache_hit

    await change(assembler, tmp_path)

    after = await assembler.assemble("trip", model=OPUS)
    assert not after.metadata.cache_hit
    is_same = after.to_request() == before.to_request()
    assert is_same == (change in (begun_again, forgotten))
    await assembler.sessions.close()


async def test_other_options_are_other_calls() -> None:
    assembler = await begun()
    calls: list[dict[str, Any]] = [
        {"model": OPUS},
        {"model": OPUS, "max_tokens": 9},
        {"model": "gpt-4.1"},
        {"model": "gpt-4.1", "temperature": 1},
        {"model": "gpt-4.1", "temperature": 1.0},
        {"model": OPUS, "use_cache": False},
        {"model": OPUS, "use_cache": False},
    ]

    contexts = [await assembler.assemble("trip", **options) for options in calls]

    assert not any(context.metadata.cache_hit for context in contexts)


async def test_a_model_that_changes_and_midnight_are_noticed() -> None:
    clock, registry = [NOON], ModelRegistry()
    registry.register("mine", window_tokens=9_000, output_tokens=100)
    assembler = await begun(registry=registry, now=lambda: clock[0])
    first = await assembler.assemble("trip", model="mine")

    registry.register("mine", window_tokens=8_000, output_tokens=100)
    second = await assembler.assemble("trip", model="mine")
    clock[0] = NOON.replace(day=5)
    third = await assembler.assemble("trip", model="mine")

    windows = [one.metadata.ledger.window_tokens for one in (first, second, third)]
    assert windows == [9_000, 8_000, 8_000]
    assert not third.metadata.cache_hit


def test_a_cache_is_usable_alone() -> None:
    now = [0.0]
    cache = AssemblyCache[str](max_entries=2, ttl_seconds=10, clock=lambda: now[0])
    first, second, other = CacheKey("a", "1"), CacheKey("a", "2"), CacheKey("b", "1")

    cache.set(first, "old")
    cache.set(second, "new")
    cache.set(other, "other")

    assert (cache.get(first), cache.get(second), cache.get(other)) == (None, "new", "other")
    cache.set(CacheKey("c"), "third")
    assert (cache.get(second), cache.stats().entries) == (None, 2)
    now[0] = 10.0
    assert cache.get(other) is None
    assert cache.stats().hit_rate == 2 / 5


# ---- tasks, threads and loops ----


async def test_many_sessions_are_assembled_at_once(tmp_path: Path) -> None:
    assembler = ContextAssembler(SqliteStore(tmp_path / "agent.db"), tools=[look])

    async def live(name: str) -> list[dict[str, Any]]:
        for number in range(3):
            await assembler.add_user(name, f"{name} {number}")
            context = await assembler.assemble(name, model=OPUS)
            await assembler.record(name, reply("Yes.", id=f"{name}{number}"), context)
        messages: list[dict[str, Any]] = (await assembler.assemble(name, model=OPUS)).to_request()[
            "messages"
        ]
        return messages

    talks = await asyncio.gather(*(live(f"s{number}") for number in range(30)))

    for number, messages in enumerate(talks):
        texts = [part["text"] for one in messages for part in one["content"]]
        assert [one for one in texts if one.startswith("s")] == [f"s{number} {n}" for n in range(3)]
    await assembler.sessions.close()


async def test_many_callers_at_once_get_the_same_and_it_is_made_once() -> None:
    assembler = await begun(tools=[AwaitedTools()])

    contexts = await asyncio.gather(*(assembler.assemble("trip", model=OPUS) for _ in range(20)))

    assert sum(not context.metadata.cache_hit for context in contexts) == 1
    assert all(context.to_request() == contexts[0].to_request() for context in contexts)


WITHOUT_A_LOOP = """
import sys
from context_assembler import ContextAssembler, user_event
assembler = ContextAssembler(f"sqlite:{sys.argv[1]}")
assembler.sessions.append_now("trip", [user_event("Hello.")])
print(assembler.assemble_sync("trip", model="claude-opus-5-5").to_request()["messages"][0]["role"])
print("asyncio" in sys.modules)
"""


def test_assembling_without_a_loop_starts_none(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_LOOP, str(tmp_path / "agent.db")],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )

    assert done.stdout.split() == ["user", "False"]


async def test_assembling_synchronously_works_inside_a_running_loop() -> None:
    plain, awaited = await begun(), await begun(tools=[AwaitedTools()])

    assert plain.assemble_sync("trip", model=OPUS).tools == ()
    assert [t.name for t in awaited.assemble_sync("trip", model=OPUS).tools] == ["far"]


def test_assembling_synchronously_awaits_what_has_to_be_awaited() -> None:
    assembler = ContextAssembler(tools=[AwaitedTools()])
    asyncio.run(assembler.add_user("trip", "Hello."))

    assert [tool.name for tool in assembler.assemble_sync("trip", model=OPUS).tools] == ["far"]


async def test_a_long_history_is_assembled_next_to_the_loop() -> None:
    assembler = await begun()
    await assembler.sessions.append("trip", [user_event("Why?")] * 400)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    await assembler.assemble("trip", model=OPUS)
    ticking.cancel()

    assert ticks > 1


# ---- stores of the caller's own ----


async def test_two_methods_are_enough_to_assemble_from() -> None:
    store = Bare()
    store.add(user_event("Where to?"))
    assembler = ContextAssembler(store)
    context = await assembler.assemble("trip", model=OPUS)
    store.add(user_event("And then?"))

    grown = await assembler.assemble("trip", model=OPUS)

    assert [len(one.to_request()["messages"]) for one in (context, grown)] == [1, 1]
    assert "And then?" in str(grown.to_request())
    assert store.loads == [0, 1]
    with pytest.raises(ConfigurationError, match="Bare cannot be written to"):
        await assembler.record("trip", reply("Lima."), grown)


async def test_a_store_of_seven_methods_keeps_everything(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("Be kind.")
    store = Own()
    assembler = ContextAssembler(store, bootstrap=tmp_path, now=lambda: NOON)
    await assembler.add_user("trip", "Where to?", agent_id="pilot")
    context = await assembler.assemble("trip", model=OPUS)
    stored = await assembler.record("trip", reply("Lima."), context)
    await assembler.add_tool_result("trip", "c1", "done")

    await assembler.record("trip", reply("Lima."), context)

    another = ContextAssembler(store, bootstrap=tmp_path, now=lambda: NOON)
    assert [event.seq for event in stored] == [2, 3]
    assert len(store.events) == 4
    contexts = [await one.assemble("trip", model=OPUS) for one in (assembler, another)]
    assert contexts[0].to_request() == contexts[1].to_request()


async def test_an_own_store_whose_session_was_begun_again_is_read_again() -> None:
    store = Own()
    assembler = ContextAssembler(store)
    store.add(user_event("Private."), user_event("Secret."))
    await assembler.assemble("trip", model=OPUS)

    store.events, store.incarnation = [], "2"
    store.add(user_event("Of another."), user_event("Mine."), user_event("Yours."))

    payload = str((await assembler.assemble("trip", model=OPUS)).to_request())
    assert "Of another." in payload
    assert "Private." not in payload


class Shuffled(Own):
    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        events = [event async for event in super().load(session_id, after_seq=after_seq)]
        for event in reversed(events):
            yield event


async def test_a_store_whose_events_do_not_follow_each_other_is_told() -> None:
    store = Shuffled()
    store.add(user_event("Where to?"), user_event("And then?"))

    with pytest.raises(ConfigurationError, match=r"load\(\) .* event 2 out of order.*in order"):
        await ContextAssembler(store).assemble("trip", model=OPUS)


# ---- exact counts ----


class Client:
    """An SDK client that charges twice what is estimated, or refuses to count."""

    def __init__(self, counts: Callable[[dict[str, Any]], int]) -> None:
        self.messages = self
        self.counts = counts
        self.asked = 0

    def count_tokens(self, **payload: Any) -> Any:
        self.asked += 1
        return {"input_tokens": self.counts(payload)}


async def test_a_payload_is_cut_until_the_providers_own_count_fits() -> None:
    client = Client(lambda payload: len(str(payload["messages"])))
    assembler = ContextAssembler(clients={"anthropic": client})
    talk = [user_event("Where to next, and why? " * 20) for _ in range(60)]
    await assembler.sessions.append("trip", talk)

    context = await assembler.assemble("trip", model=OPUS, exact=True, max_context_tokens=9_000)

    ledger = context.metadata.ledger
    assert ledger.counted_tokens is not None
    assert ledger.counted_tokens <= 9_000
    assert context.report.ledger == ledger
    assert client.asked > 1


async def test_a_count_that_fails_is_a_warning() -> None:
    def refuse(_payload: dict[str, Any]) -> int:
        raise OSError("no network")

    assembler = await begun(clients={"anthropic": Client(refuse)})

    plain = await assembler.assemble("trip", model=OPUS)
    context = await assembler.assemble("trip", model=OPUS, exact=True)

    assert context.metadata.ledger.counted_tokens is None
    assert context.report.entries == plain.report.entries
    assert any("no network" in warning for warning in context.report.warnings)


async def test_an_exact_count_needs_a_client() -> None:
    with pytest.raises(ConfigurationError, match="needs a client"):
        await (await begun()).assemble("trip", model=OPUS, exact=True)


# ---- edits that wait ----


async def frozen(folder: Path) -> ContextAssembler:
    (folder / "AGENT.md").write_text("Be kind.")
    config = AssemblerConfig(bootstrap={"policy": "freeze"})
    assembler = await begun(bootstrap=folder, config=config)
    context = await assembler.assemble("trip", model=OPUS)
    await assembler.record("trip", reply("Lima."), context)
    (folder / "AGENT.md").write_text("Be brief.")
    await assembler.add_user("trip", "And then?")
    return assembler


async def test_a_frozen_prompt_waits_for_the_next_rewrite(tmp_path: Path) -> None:
    assembler = await frozen(tmp_path)

    held = await assembler.assemble("trip", model=OPUS)
    refreshed = await assembler.assemble("trip", model=OPUS, refresh=True)
    elsewhere = await assembler.assemble("trip", model="gpt-4.1")

    assert held.system_prompt == "Be kind."
    assert any("changed on disk" in warning for warning in held.report.warnings)
    assert refreshed.system_prompt == elsewhere.system_prompt == "Be brief."


async def test_a_cut_lets_edits_in(tmp_path: Path) -> None:
    assembler = await frozen(tmp_path)
    await assembler.sessions.append("trip", [user_event("Why? " * 300)] * 30)

    context = await assembler.assemble("trip", model=OPUS, max_context_tokens=4_000)

    assert context.metadata.cut_id > 0
    assert context.system_prompt == "Be brief."
    entries, ledger = context.report.entries, context.metadata.ledger
    assert any(entry.rule == "rewrite.system" for entry in entries)
    said = [entry for entry in entries if entry.kind in ("message", "note")]
    sent = sum(entry.tokens_after for entry in said if entry.decision != "dropped")
    assert sent == ledger.tokens_of("history", "notes")


async def test_a_frozen_prompt_that_a_smaller_window_has_no_room_for_is_cut(tmp_path: Path) -> None:
    (tmp_path / "CONTEXT.md").write_text("\n".join(f"Rule {number}." for number in range(900)))
    assembler = await frozen(tmp_path)

    small = await assembler.assemble("trip", model=OPUS, max_context_tokens=3_000)

    assert small.metadata.cut_id == 0
    assert small.metadata.ledger.used_tokens < 3_000
    assert "Rule 899." in small.system_prompt


async def test_a_template_that_breaks_leaves_the_prompt_as_it_was(tmp_path: Path) -> None:
    assembler = await frozen(tmp_path)
    (tmp_path / "AGENT.md").write_text("---\ntemplate: jinja2\n---\n{{ nothing }}")

    assert (await assembler.assemble("trip", model=OPUS)).system_prompt == "Be kind."


# ---- tools that come and go ----


MAP = {"name": "map", "description": "A map.", "input_schema": {"type": "object"}}


async def changed(folder: Path | None = None) -> tuple[ContextAssembler, AssembledContext]:
    """Return a session in which a tool was added after the call that is returned."""
    tools: list[Any] = [look]

    class Listing:
        def list_tools(self) -> list[Any]:
            return list(tools)

    assembler = await begun(tools=Listing(), bootstrap=folder)
    before = await assembler.assemble("trip", model=OPUS)
    await assembler.record("trip", reply("Lima."), before)
    await assembler.add_user("trip", "And then?")
    tools.append(MAP)
    return assembler, before


async def test_tools_that_come_later_are_announced_after_the_history() -> None:
    assembler, before = await changed()

    context = await assembler.assemble("trip", model=OPUS)

    payload, first = context.to_request(), before.to_request()
    assert payload["messages"][: len(first["messages"])] == first["messages"]
    assert "tool_addition" in str(payload["messages"][-1])
    assert sorted(tool.name for tool in context.tools) == ["look", "map"]


async def test_tools_are_declared_again_if_what_stands_before_them_changed(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("Be kind.")
    assembler, _ = await changed(tmp_path)
    (tmp_path / "AGENT.md").write_text("Be brief.")

    payload = (await assembler.assemble("trip", model=OPUS)).to_request()

    assert [tool["name"] for tool in payload["tools"]] == ["look", "map"]
    assert "tool_addition" not in str(payload["messages"])


async def test_another_model_is_not_sent_what_announced_tools_to_the_first() -> None:
    assembler, _ = await changed()
    context = await assembler.assemble("trip", model=OPUS)
    await assembler.record("trip", reply("Rome.", id="msg_2"), context)
    await assembler.add_user("trip", "And after that?")

    payload = (await assembler.assemble("trip", model="gpt-5.5")).to_request()

    assert [tool["name"] for tool in payload["tools"]] == ["look", "map"]
    assert "map" not in str(payload["input"])


async def test_tools_of_a_skill_go_with_it(tmp_path: Path) -> None:
    skill = tmp_path / "maps" / "SKILL.md"
    skill.parent.mkdir()
    spec = "tools: [{name: map, description: A map., input_schema: {type: object}}]"
    skill.write_text(f"---\nname: maps\ndescription: Draws maps.\n{spec}\n---\nDraw.")
    assembler = await begun(tools=[look], skills=tmp_path)
    call: dict[str, Any] = {"model": OPUS, "active_skills": ["maps"]}

    before = await assembler.assemble("trip", **call)
    skill.write_text("---\nname: maps\ndescription: Draws maps.\n---\nDraw.")
    after = await assembler.assemble("trip", **call)

    assert [tool.name for tool in before.tools] == ["look", "map"]
    assert [tool.name for tool in after.tools] == ["look"]


async def test_a_call_that_another_process_recorded_is_gone_on_from(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("Be kind.")
    config = AssemblerConfig(bootstrap={"policy": "freeze"})
    parts: dict[str, Any] = {"bootstrap": tmp_path, "config": config, "now": lambda: NOON}
    one, other = (ContextAssembler(SqliteStore(tmp_path / "a.db"), **parts) for _ in range(2))
    await one.add_user("trip", "Where to?")
    await one.record("trip", reply("Lima."), await one.assemble("trip", model=OPUS))
    (tmp_path / "AGENT.md").write_text("Be brief.")
    rewritten = await other.assemble("trip", model=OPUS, refresh=True)
    await other.record("trip", reply("Rome.", id="msg_2"), rewritten)

    context = await one.assemble("trip", model=OPUS)

    assert context.system_prompt == "Be brief."
    for assembler in (one, other):
        await assembler.sessions.close()


# ---- the end ----


async def test_entering_watches_and_leaving_closes(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("Be kind.")
    path = tmp_path / "agent.db"

    async with ContextAssembler(f"sqlite:{path}", bootstrap=tmp_path) as assembler:
        await assembler.add_user("trip", "Where to?")
        assert (await assembler.assemble("trip", model=OPUS)).system_prompt == "Be kind."

    assert names_in(tmp_path) == ["AGENT.md", "agent.db"]
    await assembler.add_user("trip", "It opens again.")
    await assembler.close()


async def test_a_store_that_was_given_stays_open(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "agent.db")
    async with ContextAssembler(store) as assembler:
        await assembler.add_user("trip", "Where to?")

    assert "agent.db-wal" in names_in(tmp_path)
    await store.close()


async def test_memory_is_asked_within_the_settings(tmp_path: Path) -> None:
    config = AssemblerConfig(memory={"store": f"sqlite:{tmp_path / 'm.db'}", "limit": 1})
    assembler = await begun(config=config)
    await assembler.remember(["Ana prefers tea.", "Ana prefers tea with milk and no sugar."])

    found = await assembler.recall("What does Ana prefer?")
    context = await assembler.assemble("trip", model=OPUS, query="What does Ana prefer?")

    assert len(found.items) == 1
    assert "Ana prefers" in str(context.to_request()["messages"][-1])
    await assembler.close()


async def test_without_memory_there_is_none() -> None:
    with pytest.raises(ConfigurationError, match="No memory is configured"):
        await (await begun()).recall("Ana")


@pytest.mark.parametrize("memory", [42, object()])
def test_what_is_no_memory_is_refused_at_once(memory: Any) -> None:
    with pytest.raises(TypeError, match="a store, its URL or path"):
        ContextAssembler(memory=memory)
