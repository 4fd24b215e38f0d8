"""What holds for every store that many processes and threads use at once: no event is lost or doubled."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from context_assembler import ConcurrentAppendError, UnknownSessionError, user_event
from context_assembler.sessions import open_store

REPOSITORY = Path(__file__).parents[2]
pytestmark = pytest.mark.parametrize("location", ["sqlite", "postgresql"], indirect=True)


def said(location: str, session_id: str = "shared") -> list[str]:
    async def read() -> list[str]:
        async with open_store(location) as store:
            return [event.text async for event in store.load(session_id)]

    return asyncio.run(read())


def start(module: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.sessions.{module}", *map(str, arguments)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def test_two_stores_over_one_place_see_each_other_at_once(location: str) -> None:
    async with open_store(location) as one, open_store(location) as two:
        with pytest.raises(UnknownSessionError):
            await two.head("trip")
        await one.append("trip", [user_event("a")])
        await two.append("trip", [user_event("b")])
        with pytest.raises(ConcurrentAppendError):
            await one.append("trip", [user_event("c")], expected_seq=1)

        assert [event.text async for event in one.load("trip")] == ["a", "b"]


def test_many_processes_append_to_a_new_place_at_once(location: str) -> None:
    writers = [start("append_in_process", location, n, 10, 3) for n in range(4)]
    for writer in writers:
        _, complaint = writer.communicate(timeout=90)
        assert (writer.returncode, complaint) == (0, "")

    texts = said(location)

    assert texts[::3] == texts[1::3] == texts[2::3]
    assert sorted(texts[::3]) == sorted(f"{w}:{n}" for w in range(4) for n in range(1, 11))
    for number in range(4):
        own = [int(text.split(":")[1]) for text in texts[::3] if text[0] == str(number)]
        assert own == list(range(1, 11))


@pytest.mark.parametrize("acknowledged", [1, 4, 9])
def test_a_killed_process_leaves_all_of_an_append_or_nothing(
    location: str, acknowledged: int
) -> None:
    writer = start("append_in_process", location, "w", -1, 50)
    assert writer.stdout is not None
    for _ in range(acknowledged):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    told = acknowledged + len(writer.communicate(timeout=60)[0].splitlines())

    async def read() -> list[str]:
        async with open_store(location) as store:
            found = [event.text async for event in store.load("shared")]
            await store.append("shared", [user_event("after")], expected_seq=len(found))
            return found

    texts = asyncio.run(read())
    appends = len(texts) // 50
    assert appends >= told
    assert texts == [f"w:{n}" for n in range(1, appends + 1) for _ in range(50)]


def test_threads_share_a_store(location: str) -> None:
    store = open_store(location)

    def work(name: str) -> None:
        for number in range(10):
            store.append_now(name, [user_event(str(number))])
            store.append_now("shared", [user_event(name)])

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert said(location, "t2") == [str(number) for number in range(10)]
    assert sorted(said(location)) == [f"t{n // 10}" for n in range(40)]
    asyncio.run(store.close())


def test_one_store_serves_several_loops_after_each_other(location: str) -> None:
    store = open_store(location)

    for number in range(3):
        kept = asyncio.run(store.append("trip", [user_event("hi")]))
        assert kept[0].seq == number + 1
    asyncio.run(store.close())


FORKING = """
import asyncio, os, sys, threading
from context_assembler import user_event
from context_assembler.sessions import open_store

store = open_store(sys.argv[1])
over = threading.Event()

def use(name, rounds):
    for number in range(rounds):
        store.append_now(name, [user_event(f"{name} {number}")])
        assert store.look(name).last_seq > 0

def use_until_over():
    while not over.is_set():
        use("shared", 1)

use("shared", 1)  # what it imports is imported before anybody forks
threads = [threading.Thread(target=use_until_over) for _ in range(2)]
for thread in threads:
    thread.start()
statuses = []
for number in range(6):
    child = os.fork()
    if not child:
        try:
            use(f"own {number}", 2)
            asyncio.run(store.append(f"own {number}", [user_event("bye")]))
            os._exit(0)
        finally:
            os._exit(1)
    statuses.append(os.waitpid(child, 0)[1])
over.set()
for thread in threads:
    thread.join()
heads = asyncio.run(store.list_sessions())
print(statuses.count(0), sorted(head.last_seq for head in heads if head.session.id != "shared"))
asyncio.run(store.close())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_children_of_a_process_with_busy_threads_go_on(location: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, location],
        check=False,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert (done.stdout, done.returncode) == (f"6 {[3] * 6}\n", 0), done.stderr
    if path := open_store(location).path:
        assert [one.name for one in path.parent.iterdir()] == ["agent.db"]
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
