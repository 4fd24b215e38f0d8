"""The memory stores that travel with the package, by the scheme of their URL.

What they keep, answer and raise stands here as well: records, kinds, metadata, vectors and errors.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from context_assembler.errors import (
    ConfigurationError,
    DamagedMemoryWarning,
    MemoryFormatError,
    MemoryUnavailableError,
    UnknownMemoryError,
    VectorModelError,
)
from context_assembler.errors.credentials import without_credentials
from context_assembler.errors.settings import mean_file
from context_assembler.memory.fading import find_faded, forget_faded
from context_assembler.memory.field_names import FieldNames
from context_assembler.memory.files import export_memories, import_memories
from context_assembler.memory.lancedb import open_lancedb, open_lancedb_table, open_lancedb_url
from context_assembler.memory.postgres import PostgresMemoryStore
from context_assembler.memory.qdrant import (
    open_qdrant,
    open_qdrant_collection,
    open_qdrant_url,
)
from context_assembler.memory.row_store import RowMemoryStore
from context_assembler.memory.sqlite import SqliteMemoryStore
from context_assembler.memory.table_source import TableSource
from context_assembler.ports import OpenedMemoryStore
from context_assembler.values.given import check_type
from context_assembler.values.memories.kinds import KINDS, KindSpec, MemoryKind
from context_assembler.values.memories.metadata import (
    ChangedFunctionMetadata,
    ChunkMetadata,
    CodeMetadata,
    CommitMetadata,
    EntityMetadata,
    EventMetadata,
    ExperienceMetadata,
    FactMetadata,
    LearningMetadata,
    Metadata,
    ObservationMetadata,
    PatternMetadata,
    RelationMetadata,
    SessionMetadata,
    ValueMetadata,
)
from context_assembler.values.memories.records import (
    MemoryFilters,
    MemoryHit,
    MemoryRecord,
    MemoryStats,
    Remembered,
    Retention,
)
from context_assembler.values.memories.vectors import Vector

__all__ = [
    "KINDS",
    "MEMORY_STORES",
    "ChangedFunctionMetadata",
    "ChunkMetadata",
    "CodeMetadata",
    "CommitMetadata",
    "DamagedMemoryWarning",
    "EntityMetadata",
    "EventMetadata",
    "ExperienceMetadata",
    "FactMetadata",
    "FieldNames",
    "KindSpec",
    "LearningMetadata",
    "MemoryFilters",
    "MemoryFormatError",
    "MemoryHit",
    "MemoryKind",
    "MemoryRecord",
    "MemoryStats",
    "MemoryUnavailableError",
    "Metadata",
    "ObservationMetadata",
    "PatternMetadata",
    "PostgresMemoryStore",
    "RelationMetadata",
    "Remembered",
    "Retention",
    "RowMemoryStore",
    "SessionMetadata",
    "SqliteMemoryStore",
    "TableSource",
    "UnknownMemoryError",
    "ValueMetadata",
    "Vector",
    "VectorModelError",
    "export_memories",
    "find_faded",
    "forget_faded",
    "import_memories",
    "open_lancedb",
    "open_lancedb_table",
    "open_memory",
    "open_qdrant",
    "open_qdrant_collection",
]


def _open_in_memory(location: str) -> SqliteMemoryStore:
    if location not in {"", "//"}:
        raise ConfigurationError(
            f"Memories in memory have no location, but got {location!r}.",
            remedy="Write 'memory:', or 'sqlite:FILE' to keep them in a file.",
        )
    return SqliteMemoryStore(None)


def _open_sqlite(location: str) -> SqliteMemoryStore:
    path = location.removeprefix("//")
    if not path or (path != location and not path.startswith("/")):
        raise ConfigurationError(
            f"'sqlite:{location}' names no file.",
            remedy="Write 'sqlite:memory.db', or 'sqlite:///absolute/path/memory.db'.",
        )
    return SqliteMemoryStore(path)


def _open_postgres(location: str) -> PostgresMemoryStore:
    if not location.startswith("//"):
        raise ConfigurationError(
            f"{without_credentials(f'postgresql:{location}')!r} is no URL of a database.",
            remedy="Write 'postgresql://user@host/database'.",
        )
    return PostgresMemoryStore(f"postgresql:{location}")


MEMORY_STORES: Final[Mapping[str, Callable[[str], OpenedMemoryStore]]] = {
    "memory": _open_in_memory,
    "sqlite": _open_sqlite,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
    "lancedb": open_lancedb_url,
    "qdrant": open_qdrant_url,
}
"""What opens the location behind the colon; nothing is touched before the first use."""


def open_memory(store: str | Path) -> OpenedMemoryStore:
    """Return the store that a URL names; a path is a SQLite file.

    `memory:` keeps memories in this process, `sqlite:memory.db` in a file of the current folder,
    `sqlite:///var/lib/memory.db` in one elsewhere, `postgresql://user@host/database` on a server, `lancedb:FOLDER#TABLE` in a table
    of LanceDB, `qdrant:http://host:6333#COLLECTION` in a collection of Qdrant.

    Raises:
        ConfigurationError: No bundled store has that scheme, or the location cannot be one.
    """
    if isinstance(store, Path):
        return SqliteMemoryStore(store)
    check_type("store", store, str, Path, such_as="'sqlite:memory.db', or a Path")
    scheme, colon, location = store.partition(":")
    opener = MEMORY_STORES.get(scheme.lower()) if colon else None
    if opener is None:
        listed = " or ".join(f"'{name}:…'" for name in MEMORY_STORES)
        told = without_credentials(store)
        raise ConfigurationError(
            f"No memory store opens {told!r}.",
            remedy=mean_file(told, known=MEMORY_STORES) or f"Write {listed}, or pass a Path.",
        )
    return opener(location)
