"""Folders are watched while a watch is entered."""

import asyncio
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from anyio.to_thread import current_default_thread_limiter

from context_assembler import AssemblerConfig, ContextAssembler
from context_assembler.stages.load_bootstrap import BootstrapLoader
from context_assembler.watch import FolderWatch


async def pause(event: asyncio.Event, *, seconds: float) -> None:
    """Wait for the event, no longer than so."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Signal:
    """Set whenever a watch calls back."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def __call__(self) -> None:
        self._event.set()

    async def wait_while(self, change: Callable[[int], object]) -> None:
        """Make changes until one is noticed: a watch needs a moment until it stands."""
        self._event.clear()
        async with asyncio.timeout(30):
            version = 0
            while not self._event.is_set():
                version += 1
                change(version)
                await pause(self._event, seconds=0.5)

    async def wait_after(self, change: Callable[[], object]) -> None:
        """Make one change and wait until it is noticed."""
        self._event.clear()
        change()
        async with asyncio.timeout(30):
            await self._event.wait()


@pytest.fixture
def signal() -> Signal:
    return Signal()


def write(path: Path, text: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(text), encoding="utf-8")
    return path


async def test_a_change_calls_back(tmp_path: Path, signal: Signal) -> None:
    async with FolderWatch(lambda: [tmp_path], signal) as watch:
        await signal.wait_while(lambda version: write(tmp_path / "AGENT.md", version))

    assert watch.failure is None


async def test_a_folder_may_appear_vanish_and_be_replaced(tmp_path: Path, signal: Signal) -> None:
    folder, other = tmp_path / "a/bootstrap", tmp_path / "b"
    other.mkdir()

    async with FolderWatch(lambda: [folder, other], signal) as watch:
        await signal.wait_while(lambda version: write(other / "AGENT.md", version))
        await signal.wait_after(lambda: folder.mkdir(parents=True))
        await signal.wait_while(lambda version: write(folder / "AGENT.md", version))
        await signal.wait_after(lambda: (tmp_path / "a").rename(tmp_path / "c"))
        await signal.wait_after(lambda: write(folder / "AGENT.md", "anew"))
        await signal.wait_while(lambda version: write(folder / "AGENT.md", version))
        await signal.wait_after(lambda: shutil.rmtree(folder))

    assert watch.failure is None


async def test_folders_may_be_added_while_watching(tmp_path: Path, signal: Signal) -> None:
    folders = [tmp_path / "a"]
    folders[0].mkdir()

    async with FolderWatch(lambda: folders, signal, look_again_seconds=0.05):
        await signal.wait_while(lambda version: write(tmp_path / "a/x.md", version))
        await signal.wait_after(lambda: folders.append(write(tmp_path / "b/y.md", 0).parent))
        await signal.wait_while(lambda version: write(tmp_path / "b/y.md", version))


async def test_a_watch_that_cannot_stand_says_why(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("no more watches")

    async with FolderWatch(lambda: [tmp_path], fail) as watch, asyncio.timeout(30):
        version = 0
        while watch.failure is None:
            version += 1
            write(tmp_path / "AGENT.md", version)
            await pause(asyncio.Event(), seconds=0.3)

    assert str(watch.failure) == "no more watches"


async def test_folders_that_vanish_again_and_again_end_the_watch(tmp_path: Path) -> None:
    asked = 0

    def folders() -> list[Path]:
        nonlocal asked
        asked += 1
        raise FileNotFoundError("it was here a moment ago")

    watch = FolderWatch(folders, lambda: None)
    async with watch, asyncio.timeout(30):
        while watch.failure is None:
            await pause(asyncio.Event(), seconds=0.05)

    assert asked > 1


async def test_a_watch_takes_none_of_the_threads_that_endpoints_run_in(
    tmp_path: Path, signal: Signal
) -> None:
    async with FolderWatch(lambda: [tmp_path], signal):
        await signal.wait_while(lambda version: write(tmp_path / "AGENT.md", version))

        assert current_default_thread_limiter().borrowed_tokens == 0


def test_a_watch_ends_from_another_loop_or_with_its_own(tmp_path: Path) -> None:
    def still_watching() -> list[threading.Thread]:
        threads = [one for one in threading.enumerate() if one.name == "watch-folders"]
        for thread in threads:
            thread.join(30)
        return [thread for thread in threads if thread.is_alive()]

    async def enter() -> FolderWatch:
        watch = FolderWatch(lambda: [tmp_path], lambda: None, look_again_seconds=0.05)
        return await watch.__aenter__()

    with asyncio.Runner() as first, asyncio.Runner() as second:
        watch = first.run(enter())
        second.run(watch.__aexit__(None, None, None))
        assert still_watching() == []
        first.run(enter())

    assert still_watching() == []


async def test_a_loader_says_where_its_files_are_looked_for(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    write(root / "bootstrap/AGENT.md", "@../docs/rules.md @/etc/hostname.md")
    write(root / "real/soul.md", "soul")
    (root / "bootstrap/SOUL.md").symlink_to("../real/soul.md")
    loader = BootstrapLoader(root / "bootstrap", root=root)

    before = loader.watched_folders()
    await loader.load()

    assert before == {root / "bootstrap"}
    assert loader.watched_folders() == {root / "bootstrap", root / "docs", root / "real"}


async def test_an_edit_is_in_the_next_context_of_a_watching_assembler(tmp_path: Path) -> None:
    folder = tmp_path / "bootstrap"
    write(folder / "AGENT.md", "version 1")
    config = AssemblerConfig(defaults={"model": "claude-opus-5-5", "max_tokens": 100})

    async with ContextAssembler(bootstrap=folder, config=config) as assembler:
        await assembler.add_user("s", "Hi.")
        prompts = [(await assembler.assemble("s")).system_prompt]
        write(folder / "AGENT.md", "version 2")
        prompts.append((await assembler.assemble("s")).system_prompt)
        shutil.rmtree(folder)
        prompts.append((await assembler.assemble("s")).system_prompt)
        write(folder / "AGENT.md", "version 3")
        prompts.append((await assembler.assemble("s")).system_prompt)

    assert prompts == ["version 1", "version 2", "", "version 3"]
