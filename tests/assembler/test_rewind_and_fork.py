"""`rewind` and `fork`: a session goes on from an earlier event, or another one does."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler import (
    AssemblerConfig,
    ContextAssembler,
    Session,
    SqliteStore,
    user_event,
)
from context_assembler.compaction import Compactor
from context_assembler.errors import CompactionError, InvalidParameterError, UnknownSessionError
from context_assembler.events import SessionEvent, active_events
from context_assembler.transcripts import FORMATS, write_transcript

OPUS, SOL = "claude-opus-5-5", "gpt-6.2-sol"
BEGAN = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
SPECS = [
    {"name": name, "description": name, "input_schema": {"type": "object"}}
    for name in ("look", "book", "pay")
]


def says(number: int, *calls: str, model: str = OPUS) -> dict[str, Any]:
    if model == SOL:
        text = {"type": "output_text", "text": f"Reply {number}.", "annotations": []}
        items: list[dict[str, Any]] = [
            {"type": "reasoning", "id": f"rs{number}", "summary": [], "encrypted_content": "xyz"},
            {"type": "message", "id": f"m{number}", "role": "assistant", "content": [text]},
        ]
        items += (
            {"type": "function_call", "call_id": call, "name": "look", "arguments": "{}"}
            for call in calls
        )
        about = {"id": f"r{number}", "object": "response", "model": SOL, "status": "completed"}
        return {**about, "output": items}
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": f"sig{number}"},
        {"type": "text", "text": f"Reply {number}. " + "It is so. " * 20},
        *({"type": "tool_use", "id": call, "name": "look", "input": {}} for call in calls),
    ]
    stop = "tool_use" if calls else "end_turn"
    about = {"id": f"m{number}", "type": "message", "role": "assistant", "model": OPUS}
    return {**about, "content": content, "stop_reason": stop}


class Step(NamedTuple):
    """What happens next to a session; `number` makes each one another one."""

    act: str
    number: int
    model: str = OPUS
    tools: int = 1


NOTHING = Step("", 0)


class Talk:
    """A session that goes through steps, at times that depend on the step alone."""

    def __init__(self, store: Any = "memory:") -> None:
        self.now = BEGAN
        self.open(store)

    def open(self, store: Any) -> None:
        """Go on as another process does."""
        config = AssemblerConfig(calibrates_tokens=False)
        self.assembler = ContextAssembler(
            store, system="Be kind.", config=config, now=lambda: self.now
        )

    async def begin(self) -> "Talk":
        await self.assembler.sessions.create(Session(id="trip", nonce="abcdef"))
        await self.assembler.add_user("trip", "Plan a trip to Lima. Do not fly.")
        return self

    async def payload(self, step: Step = NOTHING, session: str = "trip") -> str:
        return json.dumps((await self.context(step, session)).to_request())

    async def context(self, step: Step, session: str = "trip") -> Any:
        return await self.assembler.assemble(
            session,
            model=step.model,
            max_tokens=1_000,
            max_context_tokens=4_000,
            thinking_level="high",
            additional_tools=SPECS[: step.tools],
        )

    async def take(self, step: Step) -> str:
        """Go through a step, and return the payload that it ends with."""
        self.now = BEGAN + timedelta(minutes=7 * step.number)
        assembler, number = self.assembler, step.number
        if step.act == "compact":
            try:
                await assembler.compact(
                    "trip", model=OPUS, max_tokens=1_000, max_context_tokens=4_000, keep=2
                )
            except CompactionError:
                return "refused"
            return await self.payload(step)
        pinned = step.act == "pin"
        await assembler.add_user("trip", f"Question {number}? " * 30, is_pinned=pinned)
        if step.act in ("say", "pin"):
            context = await self.context(step)
            await assembler.record("trip", says(number, model=step.model), context)
        elif step.act in ("work", "open"):
            calls, context = (f"a{number}", f"b{number}"), await self.context(step)
            await assembler.record("trip", says(number, *calls, model=step.model), context)
            for call in calls if step.act == "work" else calls[:1]:
                await assembler.add_tool_result("trip", call, f"Result of {call}. " * 60)
        return await self.payload(step)


@st.composite
def steps(draw: st.DrawFn, first: int, most: int) -> list[Step]:
    acts = st.sampled_from(["say", "say", "work", "work", "open", "ask", "pin", "compact"])
    models, tools = st.sampled_from([OPUS, OPUS, SOL]), st.integers(1, 3)
    drawn = draw(st.lists(st.tuples(acts, models, tools), max_size=most))
    return [
        Step(act, first + number, model, count) for number, (act, model, count) in enumerate(drawn)
    ]


# ---- laws ----


@settings(max_examples=15, deadline=None)
@given(before=steps(1, 6), dropped=steps(20, 4), later=steps(40, 4), again=steps(60, 3))
def test_after_a_rewind_a_session_is_one_that_never_had_what_was_left_behind(
    before: list[Step], dropped: list[Step], later: list[Step], again: list[Step]
) -> None:
    async def check() -> None:
        one, other = await Talk().begin(), await Talk().begin()
        for step in before:
            assert await one.take(step) == await other.take(step)
        point = (await one.assembler.sessions.head("trip")).last_seq
        reached = await one.payload()
        for step in dropped:
            await one.take(step)
        away, left = (await one.assembler.sessions.head("trip")).last_seq, await one.payload()
        await one.assembler.rewind("trip", to=point)
        assert await one.payload() == await other.payload() == reached
        await one.assembler.rewind("trip", to=away)
        assert await one.payload() == left
        await one.assembler.rewind("trip", to=point)
        for number, step in enumerate([*later, *again]):
            if number == len(later):  # by way of another rewind, and in another process
                seq = (await one.assembler.sessions.head("trip")).last_seq
                await one.take(Step("work", 90))
                await one.assembler.rewind("trip", to=seq)
                one.open(one.assembler.sessions)
            one_now, other_now = await one.take(step), await other.take(step)
            assert one_now == other_now

    asyncio.run(check())


@settings(max_examples=15, deadline=None)
@given(before=steps(1, 6), later=steps(20, 2), other=steps(40, 2))
def test_a_fork_is_sent_as_its_session_was_and_neither_depends_on_the_other(
    before: list[Step], later: list[Step], other: list[Step]
) -> None:
    async def check() -> None:
        talk, points = await Talk().begin(), list[tuple[int, Step, str]]()
        for step in [NOTHING, *before]:
            payload = await talk.take(step) if step.act else await talk.payload(step)
            seq = (await talk.assembler.sessions.head("trip")).last_seq
            points.append((seq, step, payload))
        for step in later:
            await talk.take(step)
        left = await talk.payload(Step("", 30))
        for seq, step, payload in points:
            fork = await talk.assembler.fork("trip", at=seq)
            talk.now = BEGAN + timedelta(minutes=7 * step.number)
            assert payload in ("refused", await talk.payload(step, fork.id))
        end = await talk.assembler.fork("trip", "end")
        talk.now = BEGAN + timedelta(minutes=7 * (20 + len(later) - 1 if later else step.number))
        assert await talk.payload(Step("", 30), end.id) == left
        for step in other:
            await talk.take(step)
        assert await talk.payload(Step("", 30), end.id) == left
        await talk.assembler.sessions.delete("trip")
        talk.open(talk.assembler.sessions)
        assert await talk.payload(Step("", 30), end.id) == left

    asyncio.run(check())


# ---- what else happens to a session ----


class SevenMethods:
    """A store of the application's own, without columns."""

    def __init__(self) -> None:
        kept = SqliteStore(":memory:")
        self.create, self.append, self.load = kept.create, kept.append, kept.load
        self.head, self.list_sessions = kept.head, kept.list_sessions
        self.delete, self.close = kept.delete, kept.close


STORES: dict[str, Any] = {
    "memory": lambda _: "memory:",
    "sqlite": lambda folder: folder / "agent.db",
    "a store of seven methods": lambda _: SevenMethods(),
}


@pytest.fixture(params=[*STORES])
async def talk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Talk]:
    talk = await Talk(STORES[request.param](tmp_path)).begin()
    for step in (Step("say", 1), Step("work", 2), Step("say", 3)):
        await talk.take(step)
    yield talk
    await talk.assembler.sessions.close()


async def stored(talk: Talk, session: str = "trip") -> list[SessionEvent]:
    return [event async for event in talk.assembler.sessions.load(session)]


async def test_what_is_left_behind_can_be_read_and_comes_back(talk: Talk) -> None:
    before, payload = await stored(talk), await talk.payload()
    asked = [event for event in before if event.text.startswith("Question")]

    rewind = await talk.assembler.rewind("trip", to=asked[1].seq - 1)
    now = await talk.payload()

    assert await stored(talk) == [*before, rewind]
    assert (rewind.type, rewind.answers_seq) == ("rewind", asked[1].seq - 1)
    assert active_events(await stored(talk)) == before[: asked[1].seq - 1]
    assert "Question 1?" in now
    assert "Question 2?" not in now
    report = await talk.assembler.explain("trip", model=OPUS)
    [entry] = [one for one in report.entries if one.rule == "rewind"]
    assert (entry.id, f"since event {rewind.answers_seq}" in entry.reason) == (rewind.id, True)
    assert {one.id for one in report.entries}.isdisjoint(one.id for one in before[asked[1].seq :])
    await talk.assembler.rewind("trip", to=before[-1])
    assert await talk.payload() == payload
    await talk.assembler.rewind("trip", to=0)
    await talk.assembler.add_user("trip", "Begin again.")
    assert "Lima" not in await talk.payload()


@pytest.mark.parametrize("point", [-1, 99, "evt_99", ""])
async def test_a_point_that_is_no_event_of_the_session_is_refused(talk: Talk, point: Any) -> None:
    for asked in (talk.assembler.rewind("trip", point), talk.assembler.fork("trip", at=point)):
        with pytest.raises(InvalidParameterError, match="must be an event of session 'trip'"):
            await asked
    with pytest.raises(UnknownSessionError):
        await talk.assembler.fork("nobody's")
    with pytest.raises(InvalidParameterError, match="must be the id of no session"):
        await talk.assembler.fork("trip", "trip")


async def test_a_fork_keeps_its_record_and_where_it_comes_from(talk: Talk) -> None:
    first = await talk.assembler.fork("trip", at=4)
    second = await talk.assembler.fork(first.id, "second")

    heads = {head.session.id: head for head in await talk.assembler.sessions.list_sessions()}

    assert heads[first.id].session == first
    assert first.metadata["forked_from"] == {"session": "trip", "seq": 4, "root": "trip"}
    assert second.metadata["forked_from"] == {"session": first.id, "seq": 4, "root": "trip"}
    assert await stored(talk, "second") == (await stored(talk))[:4]
    for name in ("trip", first.id, second.id):
        context = await talk.context(Step("", 4, model=SOL), name)
        assert context.to_request()["prompt_cache_key"] == "trip"


async def test_signed_thinking_stays_valid_on_both_ways(talk: Talk) -> None:
    fork = await talk.assembler.fork("trip", at=len(await stored(talk)) - 1)
    await talk.assembler.rewind("trip", to=len(await stored(talk)) - 1)

    for name in ("trip", fork.id):
        payload = await talk.payload(Step("", 4), name)
        assert [f"sig{number}" in payload for number in (1, 2, 3)] == [True, True, False]


async def test_a_reply_to_a_request_of_before_is_refused(talk: Talk) -> None:
    await talk.assembler.add_user("trip", "And then?")
    context = await talk.context(Step("", 4))
    before = await stored(talk)

    await talk.assembler.rewind("trip", to=before[-1])

    reply = says(4)
    for late in (reply, {key: held for key, held in reply.items() if key != "id"}):
        with pytest.raises(InvalidParameterError, match="rewound or deleted meanwhile"):
            await talk.assembler.record("trip", late, context)
    assert len(await stored(talk)) == len(before) + 1
    context = await talk.context(Step("", 4))
    assert (await talk.assembler.record("trip", reply, context))[-1].text.startswith("Reply 4")


async def test_a_compaction_that_is_left_behind_covers_nothing(talk: Talk) -> None:
    payload, before = await talk.payload(), await stored(talk)
    done = await talk.assembler.compact("trip", model=OPUS, keep=1)
    assert "Question 1?" not in await talk.payload()

    await talk.assembler.rewind("trip", to=done.event.seq - 1)
    assert await talk.payload() == payload

    await talk.assembler.rewind("trip", to=done.event)
    assert "Question 1?" not in await talk.payload()
    assert (await stored(talk))[: len(before)] == before


async def test_a_rewind_outruns_an_automatic_compaction_and_nobody_waits(tmp_path: Path) -> None:
    talk = Talk(tmp_path / "agent.db")
    for number in range(9):
        talk.now = BEGAN + timedelta(minutes=number)
        await talk.assembler.add_user("trip", f"Question {number}? " * 80)
    options: Any = {"model": OPUS, "max_tokens": 500, "max_context_tokens": 3_000}

    async def rewind(session_id: str, _: Any) -> None:
        await talk.assembler.rewind(session_id, to=8)

    hooked = ContextAssembler(talk.assembler.sessions, auto_compact=Compactor(before=rewind))
    context = await hooked.assemble("trip", **options)
    assert (context.metadata.last_seq, "Question 8?" in str(context.to_request())) == (10, False)

    automatic = ContextAssembler(talk.assembler.sessions, auto_compact=Compactor())
    await automatic.assemble("trip", **options)
    assert (await stored(talk))[-1].type == "compaction"


async def asked(talk: Talk, function: Any, *calls: str) -> list[SessionEvent]:
    await talk.assembler.add_user("trip", "Look.")
    context = await talk.assembler.assemble(
        "trip", model=OPUS, max_tokens=1_000, additional_tools=[function]
    )
    reply = json.dumps(says(5, *calls)).replace('"look"', f'"{function.__name__}"')
    return await talk.assembler.record("trip", json.loads(reply), context)


async def test_calls_whose_results_are_left_behind_run_again(talk: Talk) -> None:
    ran = list[str]()

    async def see() -> str:
        ran.append("see")
        return f"Result {len(ran)}."

    answers = await asked(talk, see, "x", "y")
    assert await talk.assembler.run_tools("trip", answers, tools=[see]) == []
    await talk.assembler.rewind("trip", to=answers[-1])
    assert "Result 1." not in await talk.payload()

    assert await talk.assembler.run_tools("trip", answers, tools=[see]) == []

    assert len(ran) == 4
    payload = await talk.payload()
    assert ["Result 1." in payload, "Result 3." in payload] == [False, True]
    await talk.assembler.rewind("trip", to=answers[0].seq - 1)
    with pytest.raises(InvalidParameterError, match="that no rewind left behind"):
        await talk.assembler.run_tools("trip", answers, tools=[see])


async def test_results_of_tools_that_run_meanwhile_are_not_stored(talk: Talk) -> None:
    async def see() -> str:
        await talk.assembler.rewind("trip", to=1)
        return "Too late."

    answers = await asked(talk, see, "x")

    with pytest.raises(InvalidParameterError, match="that no rewind left behind"):
        await talk.assembler.run_tools("trip", answers, tools=[see])

    assert (await stored(talk))[-1].type == "rewind"


async def test_nor_are_they_if_another_process_rewinds_just_then(tmp_path: Path) -> None:
    talk, other = await Talk(tmp_path / "agent.db").begin(), Talk(tmp_path / "agent.db")
    store = talk.assembler.sessions
    append = store.append_now

    async def see() -> str:
        store.append_now = after_a_rewind
        return "Too late."

    def after_a_rewind(*given: Any, **named: Any) -> Any:
        store.append_now = append
        other.assembler.sessions.append_now("trip", [rewind])
        return append(*given, **named)

    answers = await asked(talk, see, "x")
    rewind = SessionEvent(type="rewind", answers_seq=answers[-1].seq)

    with pytest.raises(InvalidParameterError, match="that no rewind left behind"):
        await talk.assembler.run_tools("trip", answers, tools=[see])

    assert active_events(await stored(talk))[-1] == answers[-1]


async def test_replies_are_kept_however_many_sessions_are_open(talk: Talk) -> None:
    await talk.assembler.rewind("trip", to=4)
    context = await talk.context(NOTHING)
    for number in range(300):
        await talk.assembler.sessions.append(f"{number}", [user_event("Hi.")])
        await talk.assembler.assemble(f"{number}", model=OPUS)

    assert (await talk.assembler.record("trip", says(9), context))[-1].text.startswith("Reply 9")


async def test_other_processes_learn_of_a_rewind(tmp_path: Path) -> None:
    here = await Talk(tmp_path / "agent.db").begin()
    await here.take(Step("say", 1))
    there = Talk(tmp_path / "agent.db")
    there.now = here.now
    assert await there.payload() == await here.payload()
    context = await there.context(NOTHING)

    await here.assembler.rewind("trip", to=1)

    assert "Question" not in await there.payload()
    assert await there.payload() == await here.payload()
    with pytest.raises(InvalidParameterError, match="rewound"):
        await there.assembler.record("trip", says(2), context)


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if one.write])
async def test_transcripts_have_what_is_active(name: str) -> None:
    talk = await Talk().begin()
    await talk.take(Step("work", 1))
    before = await stored(talk)
    written = write_transcript(before, format=name)
    await talk.take(Step("work", 2))
    await talk.take(Step("compact", 3))
    await talk.assembler.rewind("trip", to=before[-1])

    assert write_transcript(await stored(talk), format=name) == written
