"""Copies of a store: row by row what it held, however often the copying was interrupted."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_assembler import ContextAssembler, Session, SessionEvent, user_event
from context_assembler.events import CallRow, SessionHead
from context_assembler.sessions import SqliteStore, SqlStore, open_store
from context_assembler.sessions.copying import Copied, copy_sessions
from context_assembler.testing import event_log
from context_assembler.transcripts import write_transcript
from tests.core.sessions import answer, text

REPOSITORY = Path(__file__).parents[2]
AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
MODELS = ("claude-haiku-4-5", "gpt-5.6-sol", "gemini-3.6-flash")
ROWS = """
    SELECT id, last_seq, created_at FROM sessions ORDER BY key;
    SELECT s.id, e.key & 4294967295, kind, e.id, e.created_at, body
        FROM events e JOIN sessions s ON s.key = e.key >> 32 ORDER BY e.key;
    SELECT s.id, reply_seq, answers_seq, model, factor
        FROM calls JOIN sessions s ON s.key = session ORDER BY session, reply_seq;
    SELECT * FROM texts ORDER BY hash
"""


def rows_of(path: Path) -> list[list[Any]]:
    with closing(sqlite3.connect(path)) as db:
        return [db.execute(sql).fetchall() for sql in ROWS.split(";")]


class CountsParts:
    """A family that nobody finds by its key: a store that lacks its counts asks for them."""

    def __init__(self) -> None:
        self.key, self.counted = "parts", 0

    def count_event(self, kind: int, body: dict[str, Any]) -> int:
        del kind
        self.counted += 1
        return len(body["parts"])

    def count_reasoning(self, body: dict[str, Any]) -> int:
        return 0 * len(body)


async def fill(store: SqlStore) -> None:
    """Fill a store with sessions that have all that a session can have."""
    async with ContextAssembler(store, now=lambda: AT, system="Be kind.") as assembler:
        for name, turns in {"short": 3, "long": 100}.items():
            await store.create(Session(id=name, agent_id="ada", metadata={"n": [1]}))
            for n in range(turns):
                lines = "U go {0}", "A[c{0}] I look", "T[c{0}] found {0}", "A done"
                await store.append(name, event_log(*(line.format(n) for line in lines)))
        await store.append("deleted", [user_event("hi")])
        await store.delete("deleted")
        for name in ("short", "long"):
            context = await assembler.assemble(name, model=MODELS[0])
            reply = answer(text("Yes."), id=f"m-{name}", input_tokens=90)
            await assembler.record(name, reply, context)
        await assembler.fork("long", at=50)
        await assembler.rewind("short", to=3)
    assert len(store.columns("long", CountsParts()).tokens) == 400 + 1
    store.keep_derived("long", "short", {1: "one", 2: {"a": 2}})


async def answers_of(store: SqlStore) -> list[Any]:
    """Return what programs get: requests and transcripts of every session."""
    answers: list[Any] = []
    async with ContextAssembler(store, now=lambda: AT, system="Be kind.") as assembler:
        for head in await store.list_sessions():
            events = [event async for event in store.load(head.session.id)]
            answers += [
                head.session,
                head.session.nonce,
                store.calls(head.session.id),
                write_transcript(events, format="anthropic"),
            ]
            for model in MODELS:
                context = await assembler.assemble(head.session.id, model=model)
                answers.append(context.to_request())
    return answers


async def copied(source: SqlStore, target: SqlStore) -> list[Copied]:
    return list(copy_sessions(source, target, await source.list_sessions()))


@pytest.mark.parametrize("location", ["memory", "sqlite", "postgresql"], indirect=True)
async def test_a_copy_there_and_back_has_every_row_and_gives_the_same_requests(
    location: str, tmp_path: Path
) -> None:
    first, back = SqliteStore(tmp_path / "first.db"), SqliteStore(tmp_path / "back.db")
    async with first, open_store(location) as between, back:
        await fill(first)
        between.append_now("own", [user_event("of the target")])
        between.columns("own", CountsParts())  # a family of another number
        assert {one.outcome for one in await copied(first, between)} == {"copied"}
        await between.delete("own")
        await copied(between, back)

        answers = await answers_of(first)
        assert await answers_of(between) == answers
        assert await answers_of(back) == answers
        family = CountsParts()
        assert back.columns("long", family) == first.columns("long", family)
        assert family.counted == 0
        assert {one[1:] for one in await copied(first, back)} == {("there", 0)}
    assert rows_of(tmp_path / "back.db") == rows_of(tmp_path / "first.db")


COPYING = """
import sys, asyncio
from context_assembler.sessions import open_store
from context_assembler.sessions.copying import copy_sessions

source, target = map(open_store, sys.argv[1:])
for copied in copy_sessions(source, target, asyncio.run(source.list_sessions())):
    print(copied.id, flush=True)
"""


def kill_after(sessions: int, source: str, target: str) -> None:
    """Kill a copying that has reported so many sessions, wherever it is by then."""
    arguments = [sys.executable, "-c", COPYING, source, target]
    copying = subprocess.Popen(arguments, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert copying.stdout is not None
    for _ in range(sessions):
        copying.stdout.readline()
    copying.send_signal(signal.SIGKILL)
    copying.communicate(timeout=60)


@pytest.mark.parametrize("location", ["sqlite", "postgresql"], indirect=True)
async def test_what_a_killed_copying_began_the_next_one_ends(location: str, tmp_path: Path) -> None:
    source = SqliteStore(tmp_path / "source.db")
    for number in range(60):
        await source.append(f"s{number}", [user_event("x" * 99)] * 200)
        call = CallRow(provider="p", model="m", answers_seq=200, system_hash=f"{number}")
        source.append_now(f"s{number}", [user_event("y")], call=call, texts={f"{number}": "t"})
    await source.close()
    kill_after(5, f"sqlite:{tmp_path / 'source.db'}", location)

    async with source, open_store(location) as target:
        half = await target.list_sessions()
        outcomes = await copied(source, target)

        assert 5 <= len(half) < 60
        assert {head.last_seq for head in half[:-1]} == {201}
        assert [one.outcome for one in outcomes[:5]] == ["there"] * 5
        assert outcomes[-1] == ("s59", "copied", 201)
        for name in ("s0", "s5", "s59"):
            assert await loaded(target, name) == await loaded(source, name)
        assert [len(target.calls(f"s{n}")) for n in range(60)] == [1] * 60
        assert all(target.text(f"{n}") == "t" for n in range(60))


@pytest.mark.parametrize("location", ["memory", "postgresql"], indirect=True)
async def test_a_session_that_went_on_is_continued_and_one_that_differs_left_alone(
    location: str, tmp_path: Path
) -> None:
    async with SqliteStore(tmp_path / "source.db") as source, open_store(location) as target:
        for name in ("goes on", "same", "other text", "other record", "longer there"):
            await source.append(name, [user_event(name, created_at=AT), user_event("more")])
        await copied(source, target)
        for name in ("other text", "other record", "longer there"):
            await target.delete(name)
        await target.append("other text", [user_event("mine", created_at=AT)])
        await target.append("longer there", [user_event("longer there", created_at=AT)] * 3)
        await target.create(Session(id="other record", agent_id="mine"))
        await source.append("goes on", [user_event("on")])
        before = [await loaded(target, name) for name in ("other text", "longer there")]

        outcomes = {one.id: one[1:] for one in await copied(source, target)}

        assert outcomes == {
            "goes on": ("continued", 1),
            "same": ("there", 0),
            "other text": ("differs", 0),
            "other record": ("differs", 0),
            "longer there": ("differs", 0),
        }
        assert await loaded(target, "goes on") == await loaded(source, "goes on")
        assert [await loaded(target, name) for name in ("other text", "longer there")] == before


class WrittenTo(SqliteStore):
    """A store in which a block gets full, and a session is deleted, while it is copied."""

    def look(self, session_id: str) -> SessionHead | None:
        head = super().look(session_id)
        if session_id == "goes on":
            self.append_now(session_id, event_log(*["U go", "A[c] I look", "T[c] found"] * 40))
            self.delete_now("deleted")
        return head


async def test_a_source_may_be_written_to_while_it_is_copied(tmp_path: Path) -> None:
    source, target = WrittenTo(tmp_path / "source.db"), SqliteStore(tmp_path / "target.db")
    async with source, target:
        await source.append("goes on", [user_event("hi")] * 200)
        await source.append("deleted", [user_event("hi")])

        assert await copied(source, target) == [("goes on", "copied", 200)]

        assert [head.last_seq for head in await target.list_sessions()] == [200]
        assert len(target.columns("goes on", CountsParts()).kinds) == 200
        context = await ContextAssembler(target).assemble("goes on", model=MODELS[0])
        assert context.to_request()["messages"]


async def loaded(store: SqlStore, session_id: str) -> list[SessionEvent]:
    return [event async for event in store.load(session_id)]
