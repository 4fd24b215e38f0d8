"""Vectors that were computed once, in a SQLite file: one of their own or a memory store's."""

import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from context_assembler.errors import MemoryUnavailableError
from context_assembler.sqlite.files import open_for_writing
from context_assembler.sqlite.schema import Schema, VersionTable, transaction
from context_assembler.sqlite.worker import SqliteWorker

_KEYS_PER_QUERY: Final = 500


class CacheFile:
    """A bounded table of vectors under the digests of what they were computed from.

    It holds no texts. The oldest go first. Nothing is touched before the first use.

    Args:
        path: The file; its folder must exist. `~` is the home folder.
        max_vectors: How many are kept.
        busy_seconds: How long to wait for another process that writes.
    """

    def __init__(self, path: str | Path, *, max_vectors: int, busy_seconds: float = 10.0) -> None:
        self.path = Path(path).expanduser().absolute()
        self._max_vectors = max_vectors
        opened = partial(open_for_writing, self.path, _SCHEMA, busy_seconds=busy_seconds)
        self._worker = SqliteWorker(self.path, _SCHEMA, opened)

    async def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the codes that are there, by key; empty codes stand for no vector.

        Raises:
            MemoryUnavailableError: The file cannot be used.
        """
        return await self._worker.run(partial(_read, keys=keys))

    async def write(self, codes_by_key: Mapping[bytes, bytes]) -> None:
        """Keep the codes, and drop the oldest above the bound.

        Raises:
            MemoryUnavailableError: The file cannot be used.
        """
        await self._worker.run(
            partial(_write, codes_by_key=codes_by_key, max_vectors=self._max_vectors)
        )

    async def close(self) -> None:
        """Close the file and end the thread."""
        await self._worker.close()


def _create_table(connection: sqlite3.Connection) -> None:
    """Version 1; `number` is the order of computing."""
    connection.execute(
        """
        CREATE TABLE embedding_cache (
            number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, codes BLOB NOT NULL
        )
        """
    )


_SCHEMA: Final = Schema(
    name="embeddings",
    migrations=(_create_table,),
    tables=("embedding_cache",),
    unavailable=MemoryUnavailableError,
    version=VersionTable("embedding_cache_version"),
)


def _read(connection: sqlite3.Connection, *, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        batch = keys[start : start + _KEYS_PER_QUERY]
        marks = ", ".join("?" * len(batch))
        found.update(
            connection.execute(
                f"SELECT key, codes FROM embedding_cache WHERE key IN ({marks})",  # noqa: S608 – our own words
                batch,
            )
        )
    return found


def _write(
    connection: sqlite3.Connection, *, codes_by_key: Mapping[bytes, bytes], max_vectors: int
) -> None:
    with transaction(connection):
        connection.executemany(
            "INSERT OR REPLACE INTO embedding_cache (key, codes) VALUES (?, ?)",
            codes_by_key.items(),
        )
        connection.execute(
            "DELETE FROM embedding_cache "
            "WHERE number <= (SELECT max(number) FROM embedding_cache) - ?",
            (max_vectors,),
        )
