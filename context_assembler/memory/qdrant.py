"""Memories in a collection of Qdrant: of a server, in a folder, or in memory."""

import time
from collections.abc import Callable
from pathlib import Path

from context_assembler.errors import ConfigurationError
from context_assembler.memory.field_names import FieldNames
from context_assembler.memory.qdrant_collection import QdrantCollection
from context_assembler.memory.qdrant_connection import QdrantConnection
from context_assembler.memory.qdrant_own import OwnQdrantCollection
from context_assembler.memory.row_store import RowMemoryStore
from context_assembler.memory.table_source import TableSource, check_vector_settings
from context_assembler.ports import Clock, Embed
from context_assembler.values.given import check_type


def open_qdrant(
    location: str | Path = ":memory:",
    *,
    collection: str = "memories",
    name: str = "memory",
    embed: Embed | None = None,
    masks_secrets: bool = True,
    finds_duplicates: bool = True,
    clock: Clock = time.time,
    api_key: str | Callable[[], str] | None = None,
    timeout_seconds: int = 10,
) -> RowMemoryStore:
    """Return a memory store in a collection of Qdrant; nothing is touched before the first call.

    It is searched by words (a sparse vector of them, weighed by how rare they are) and, where there
    are vectors, by meaning. Qdrant knows no transactions: after a crash, or for who reads
    meanwhile, a part of what one `remember` keeps may be there.

    Args:
        location: The `http://` or `https://` address of a server, a folder that one process at a
            time may open, or `:memory:`. Without a server every search reads every record.
        api_key: `None`: what `QDRANT_API_KEY` says, if anything.
        timeout_seconds: How long to wait for each answer of a server.
    """
    connection = QdrantConnection(location, api_key=api_key, timeout_seconds=timeout_seconds)
    return RowMemoryStore(
        QdrantCollection(connection, collection=collection),
        name=name,
        embed=embed,
        masks_secrets=masks_secrets,
        finds_duplicates=finds_duplicates,
        clock=clock,
    )


def open_qdrant_url(location: str) -> RowMemoryStore:
    """Return the store that stands behind `qdrant:`, a server or a folder; a collection behind `#`.

    Raises:
        ConfigurationError: There is neither.
    """
    where, _, collection = location.partition("#")
    if not where.strip("/"):
        raise ConfigurationError(
            f"'qdrant:{location}' names no server and no folder.",
            remedy="Write 'qdrant:http://localhost:6333#memories', or 'qdrant:FOLDER'.",
        )
    return open_qdrant(where, collection=collection or "memories")


def open_qdrant_collection(
    location: str | Path,
    *,
    collection: str,
    fields: FieldNames,
    name: str | None = None,
    embed: Embed | None = None,
    vector_model: str | None = None,
    api_key: str | Callable[[], str] | None = None,
    timeout_seconds: int = 10,
) -> TableSource:
    """Return a source over a collection of one's own, which is only read.

    It is searched by its vectors alone: a question without one finds nothing.

    Args:
        name: What the source is called in reports; `None`: the collection.
        embed: Gives queries vectors in the space of the collection's.
        vector_model: The name of that space, where queries come with vectors.

    Raises:
        ConfigurationError: No vector is named, or nobody says of which model they are.
    """
    check_type("fields", fields, FieldNames, such_as="FieldNames(vector='')")
    if fields.vector is None:
        raise ConfigurationError(
            "A collection of Qdrant is searched by its vectors, and none is named.",
            remedy="Pass FieldNames(vector='…'), with '' for the vector without a name.",
        )
    check_vector_settings(fields, embed=embed, vector_model=vector_model)
    connection = QdrantConnection(location, api_key=api_key, timeout_seconds=timeout_seconds)
    model = vector_model if embed is None else embed.model
    return TableSource(
        OwnQdrantCollection(connection, collection=collection, fields=fields, model=model),
        name=name or collection,
        fields=fields,
        embed=embed,
        vector_model=vector_model,
    )
