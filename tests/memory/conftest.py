"""Stores that the tests of memory run over."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from context_assembler.memory import MemoryStore, open_memory
from tests.conftest import new_schema

OpenStore = Callable[..., MemoryStore]


@pytest.fixture(params=["memory", "sqlite", "postgresql", "qdrant"])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenStore]:
    """Return what opens a store of each kind, empty at first, with any options."""
    opened: list[MemoryStore] = []

    def opening(url: str) -> OpenStore:
        def open_one(**options: Any) -> MemoryStore:
            opened.append(open_memory(url, **options))
            return opened[-1]

        return open_one

    match request.param:
        case "postgresql":
            with new_schema(request.getfixturevalue("postgres_server")) as url:
                yield opening(url)
                for store in opened:
                    await store.close()
            return
        case "qdrant":
            pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
            yield opening(f"qdrant:{tmp_path / 'qdrant'}")
        case "sqlite":
            yield opening(f"sqlite:{tmp_path / 'memory.db'}")
        case _:
            yield opening("memory:")
    for store in opened:
        await store.close()


@pytest.fixture
def store(open_store: OpenStore) -> MemoryStore:
    return open_store()
