"""Memories in a table of LanceDB: in a folder, an object store, or LanceDB Cloud."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from context_assembler.errors import ConfigurationError
from context_assembler.memory.field_names import FieldNames
from context_assembler.memory.lancedb_own import OwnLanceTable
from context_assembler.memory.lancedb_table import LanceTable
from context_assembler.memory.row_store import RowMemoryStore
from context_assembler.memory.table_source import TableSource, check_vector_settings
from context_assembler.ports import Clock, Embed


def open_lancedb(
    location: str | Path,
    *,
    table: str = "memories",
    name: str = "memory",
    embed: Embed | None = None,
    masks_secrets: bool = True,
    finds_duplicates: bool = True,
    clock: Clock = time.time,
    options: Mapping[str, Any] | None = None,
) -> RowMemoryStore:
    """Return a memory store in a table of LanceDB; nothing is touched before the first call.

    It is searched by words (LanceDB's full-text index) and, where there are vectors, by meaning.
    Each `remember` is one version of the table: all of it is there, or nothing.

    Args:
        location: A folder, or a URL that LanceDB opens, such as `s3://bucket/path`.
        options: Further arguments of `lancedb.connect`, such as `storage_options`.
    """
    return RowMemoryStore(
        LanceTable(location, table=table, options=options),
        name=name,
        embed=embed,
        masks_secrets=masks_secrets,
        finds_duplicates=finds_duplicates,
        clock=clock,
    )


def open_lancedb_url(location: str) -> RowMemoryStore:
    """Return the store that stands behind `lancedb:`, a folder; a table behind `#`.

    Raises:
        ConfigurationError: There is no folder.
    """
    folder, _, table = location.partition("#")
    if not folder.strip("/"):
        raise ConfigurationError(
            f"'lancedb:{location}' names no folder.",
            remedy="Write 'lancedb:memories.lance', or 'lancedb:FOLDER#TABLE'.",
        )
    return open_lancedb(folder, table=table or "memories")


def open_lancedb_table(
    location: str | Path,
    *,
    table: str,
    fields: FieldNames | None = None,
    name: str | None = None,
    embed: Embed | None = None,
    vector_model: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> TableSource:
    """Return a source over a table of one's own, which is only read.

    It is searched by the words of its text, through the table's full-text index or, without one, by
    reading every row, and by its vectors where `fields` names them.

    Args:
        name: What the source is called in reports; `None`: the table.
        embed: Gives queries vectors in the space of the table's.
        vector_model: The name of that space, where queries come with vectors.

    Raises:
        ConfigurationError: There are vectors, and nobody says of which model.
    """
    named = FieldNames() if fields is None else fields
    check_vector_settings(named, embed=embed, vector_model=vector_model)
    model = vector_model if embed is None else embed.model
    return TableSource(
        OwnLanceTable(location, table=table, fields=named, model=model, options=options),
        name=name or table,
        fields=named,
        embed=embed,
        vector_model=vector_model,
    )
