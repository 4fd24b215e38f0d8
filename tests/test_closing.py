"""What was opened is let go of: whoever closes twice, is cancelled, or meets an error while he closes."""

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from context_assembler import AssemblerConfig, ContextAssembler
from context_assembler.config.memory_table import MemorySettings
from context_assembler.memory import open_memory
from context_assembler.sessions import SqliteStore
from context_assembler.sync import close_all
from context_assembler.tools.listed import ListedTools
from context_assembler.values.events import user_event

Use: TypeAlias = Callable[[Any], Any]
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="this system does not list what a process has open"
)


async def _use_assembler(assembler: ContextAssembler) -> None:
    await assembler.add_user("trip", "Where to?")
    await assembler.assemble("trip", model="gpt-4.1")
    await assembler.remember(["The ferry leaves at nine."])
    assert (await assembler.recall("ferry")).items


async def _use_sessions(store: Any) -> None:
    await store.append("trip", [user_event("Where to?")])
    assert await store.head("trip")


async def _use_memory(store: Any) -> None:
    await store.remember([])
    await store.touch(["nobody"])
    await store.search("ferry")


async def _use_watching_assembler(assembler: ContextAssembler) -> None:
    await assembler.__aenter__()
    await _use_assembler(assembler)


def _open_assembler(folder: Path) -> ContextAssembler:
    memory = MemorySettings(store=f"sqlite:{folder}/memory.db")
    return ContextAssembler(f"sqlite:{folder}/agent.db", config=AssemblerConfig(memory=memory))


def _open_watching_assembler(folder: Path) -> ContextAssembler:
    store, memory = f"sqlite:{folder}/agent.db", f"sqlite:{folder}/memory.db"
    return ContextAssembler(store, bootstrap=folder, memory=memory)


OPENED: dict[str, tuple[Callable[[Path], Any], Use]] = {
    "an assembler with memory": (_open_assembler, _use_assembler),
    "an assembler that was entered": (_open_watching_assembler, _use_watching_assembler),
    "a store of sessions": (lambda folder: SqliteStore(folder / "agent.db"), _use_sessions),
    "a store of memories": (lambda folder: open_memory(folder / "memory.db"), _use_memory),
}
every_one = pytest.mark.parametrize(("opened", "use"), OPENED.values(), ids=OPENED.keys())


def _open_files(folder: Path) -> list[str]:
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sorted(name for name in map(str, map(Path.readlink, links)) if str(folder) in name)


@pytest.fixture
def before() -> set[threading.Thread]:
    return set(threading.enumerate())


async def _threads_since(before: set[threading.Thread]) -> list[str]:
    """Return the names of the threads that are ours, once those that are ending had the time to."""
    for _ in range(200):
        if not _names_since(before):
            break
        await asyncio.sleep(0.01)
    return _names_since(before)


def _names_since(before: set[threading.Thread]) -> list[str]:
    names = [thread.name for thread in set(threading.enumerate()) - before]
    return [name for name in names if name.startswith(("sessions", "memories", "watch"))]


@every_one
async def test_what_is_used_after_it_was_closed_is_closed_again(
    opened: Callable[[Path], Any], use: Use, tmp_path: Path, before: set[threading.Thread]
) -> None:
    subject = opened(tmp_path)

    for _ in range(3):
        await use(subject)
        await subject.close()

        assert _open_files(tmp_path) == []
        assert await _threads_since(before) == []


@every_one
async def test_whoever_is_cancelled_while_he_closes_leaves_nothing_open(
    opened: Callable[[Path], Any], use: Use, tmp_path: Path, before: set[threading.Thread]
) -> None:
    subject = opened(tmp_path)

    for steps in range(1, 7):
        await use(subject)
        closing = asyncio.ensure_future(subject.close())
        for _ in range(steps):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

        assert await _threads_since(before) == []
        assert _open_files(tmp_path) == []


async def test_what_fails_to_close_keeps_nothing_else_open(
    tmp_path: Path, before: set[threading.Thread]
) -> None:
    class Clings(ListedTools):
        async def close(self) -> None:
            raise OSError("it clings")

    memory = f"sqlite:{tmp_path}/memory.db"
    assembler = ContextAssembler(f"sqlite:{tmp_path}/agent.db", memory=memory, tools=Clings([]))
    await _use_assembler(assembler)

    with pytest.raises(OSError, match="clings"):
        await assembler.close()

    assert _open_files(tmp_path) == []
    assert await _threads_since(before) == []


async def test_an_assembler_that_is_forgotten_leaves_nothing_open(
    tmp_path: Path, before: set[threading.Thread]
) -> None:
    assembler = _open_assembler(tmp_path)
    await _use_assembler(assembler)

    del assembler
    gc.collect()

    assert await _threads_since(before) == []
    assert _open_files(tmp_path) == []


async def test_an_assembler_is_closed_once_when_it_is_closed_while_entered(
    tmp_path: Path, before: set[threading.Thread]
) -> None:
    async with _open_watching_assembler(tmp_path) as assembler:
        await _use_assembler(assembler)
        await assembler.close()
        await assembler.close()

        assert await _threads_since(before) == []
    assert _open_files(tmp_path) == []
    assert len(asyncio.all_tasks()) == 1


async def test_all_are_closed_in_order_and_the_last_error_is_raised() -> None:
    closed: list[int] = []

    async def close(number: int, error: type[BaseException] | None) -> None:
        closed.append(number)
        if error is not None:
            raise error

    closes = [(1, ValueError), (2, None), (3, KeyError), (4, None)]
    with pytest.raises(KeyError):
        await close_all(*(lambda n=n, e=e: close(n, e) for n, e in closes))

    assert closed == [1, 2, 3, 4]
