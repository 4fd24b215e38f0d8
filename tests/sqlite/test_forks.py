"""A process that is forked while its threads are inside SQLite."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from context_assembler.memory import MemoryRecord, SqliteMemoryStore
from context_assembler.sessions import SqliteStore
from context_assembler.values.events import user_event

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
ROOT = Path(__file__).parents[2]
Write: TypeAlias = Callable[[Any], Any]

WRITES: dict[str, tuple[Callable[..., Any], Write]] = {
    "sessions": (SqliteStore, lambda store: store.append("trip", [user_event("Where to?")])),
    "memories": (SqliteMemoryStore, lambda store: store.remember([MemoryRecord(text="a zebra")])),
}


def _take_a_while(connection: sqlite3.Connection, begun: threading.Event) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE numbers (n)")
    begun.set()
    connection.executemany("INSERT INTO numbers VALUES (?)", ((n,) for n in range(200_000)))
    connection.execute("COMMIT")


@pytest.mark.parametrize(("store_class", "write"), WRITES.values(), ids=WRITES.keys())
def test_a_child_of_a_process_that_is_writing_can_write(
    store_class: Callable[..., Any], write: Write, tmp_path: Path
) -> None:
    store = store_class(tmp_path / "kept.db", busy_seconds=1)
    asyncio.run(write(store))
    begun = threading.Event()
    work = store._writer.run(partial(_take_a_while, begun=begun))
    writing = threading.Thread(target=asyncio.run, args=(work,))
    writing.start()
    begun.wait()

    child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio.run(write(store))
            status = 0
        finally:
            os._exit(status)
    _, outcome = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(outcome) == 0
    writing.join()
    asyncio.run(store.close())


BUSY_PROCESS = """
import asyncio, os, sys, threading
from context_assembler import ContextAssembler

assembler = ContextAssembler(f"sqlite:{sys.argv[1]}")
over = threading.Event()

async def use(name, rounds):
    for number in range(rounds):
        await assembler.add_user(name, f"question {number}")
        await assembler.assemble(name, model="gpt-4.1")

async def use_until_over(name):
    while not over.is_set():
        await use(name, 1)

threads = [
    threading.Thread(target=lambda: asyncio.run(use_until_over("shared"))) for _ in range(3)
]
for thread in threads:
    thread.start()
statuses = []
for number in range(20):
    child = os.fork()
    if not child:
        try:
            asyncio.run(use(f"own {number}", 2))
            os._exit(0)
        finally:
            os._exit(1)
    statuses.append(os.waitpid(child, 0)[1])
over.set()
for thread in threads:
    thread.join()
print(statuses.count(0), len(asyncio.run(assembler.sessions.list_sessions())))
asyncio.run(assembler.close())
"""


def test_children_of_a_process_with_busy_threads_go_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUSY_PROCESS, str(tmp_path / "agent.db")],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert (done.stdout, done.returncode) == ("20 21\n", 0), done.stderr
