"""Folders are watched while a watch is entered."""

import asyncio
from pathlib import Path

from context_assembler.watch import FolderWatch


async def test_a_change_calls_back(tmp_path: Path) -> None:
    changed = asyncio.Event()
    (tmp_path / "AGENT.md").write_text("a")

    async with FolderWatch([tmp_path], changed.set) as watch:
        async with asyncio.timeout(20):
            version = 0
            while not changed.is_set():  # the watcher may need a moment to stand
                version += 1
                (tmp_path / "AGENT.md").write_text(f"version {version}")
                await asyncio.wait({asyncio.ensure_future(changed.wait())}, timeout=0.5)

    assert changed.is_set()
    assert watch.failure is None


async def test_a_folder_that_does_not_exist_is_not_watched(tmp_path: Path) -> None:
    async with FolderWatch([tmp_path / "nowhere"], lambda: None) as watch:
        assert watch.failure is None


async def test_a_watch_that_cannot_stand_says_why(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("no more watches")

    changed = asyncio.Event()
    async with FolderWatch([tmp_path], fail) as watch:
        async with asyncio.timeout(20):
            version = 0
            while watch.failure is None:
                version += 1
                (tmp_path / "AGENT.md").write_text(f"version {version}")
                await asyncio.wait({asyncio.ensure_future(changed.wait())}, timeout=0.3)
        changed.set()

    assert str(watch.failure) == "no more watches"
