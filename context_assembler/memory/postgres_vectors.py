"""The vectors of a memory store on PostgreSQL, compared by pgvector."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_assembler.errors import MemoryUnavailableError
from context_assembler.memory.postgres_pool import run
from context_assembler.memory.postgres_schema import read_state, write_state
from context_assembler.memory.sqlite_writes import check_model
from context_assembler.values.memories.vectors import Vector

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_FIRST_VERSION: Final = (
    0,
    7,
)  # the first with half-precision vectors, which hold our codes exactly
_REMEDY: Final = (
    "Install pgvector 0.7 or newer on the server (https://github.com/pgvector/pgvector), or keep "
    "records without vectors: they are found by their words."
)
_CREATE_REMEDY: Final = "Let an administrator run in this database: CREATE EXTENSION vector"
_FIND_EXTENSION: Final = """
    SELECT e.extversion, quote_ident(n.nspname)
    FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""


class VectorTerms(NamedTuple):
    """How pgvector is asked for a vector's neighbours, wherever its extension was created."""

    type: str
    operator: str
    literal: str


async def vector_terms(connection: "AsyncConnection[Any]", vector: Vector) -> VectorTerms | None:
    """Return how to ask; `None` where the store keeps no vectors.

    Raises:
        VectorModelError: It keeps those of another model.
    """
    state = await read_state(connection)
    if "vector_model" not in state:
        return None
    _check_model(vector, state)
    schema = await _extension_schema(connection)
    return VectorTerms(f"{schema}.halfvec", f"OPERATOR({schema}.<=>)", to_literal(vector))


async def agree_on_model(
    connection: "AsyncConnection[Any]", vectors: Sequence[Vector], *, location: str
) -> None:
    """Make room for vectors of that model, unless those of another are there.

    Raises:
        VectorModelError: The store keeps vectors of another model, or was given those of two.
        MemoryUnavailableError: The server has no pgvector.
    """
    if not vectors:
        return
    state = await read_state(connection)
    if "vector_model" not in state:
        first = vectors[0]
        state = {"vector_model": first.model, "vector_dimension": str(first.dimension)}
        await _create_table(connection, first.dimension, location=location)
        for name, value in state.items():
            await write_state(connection, name, value)
    for vector in vectors:
        _check_model(vector, state)


async def keep_vectors(
    connection: "AsyncConnection[Any]", vector_by_id: dict[str, Vector | None]
) -> None:
    """Keep the vectors of these records in the place of those that they had."""
    state = await read_state(connection)
    if "vector_model" not in state:
        return
    gone = [memory_id for memory_id, vector in vector_by_id.items() if vector is None]
    kept = {memory_id: vector for memory_id, vector in vector_by_id.items() if vector is not None}
    if gone:
        await run(
            connection,
            "DELETE FROM memory_vectors WHERE key IN "
            "(SELECT key FROM memory_records WHERE id = ANY(%(ids)s))",
            {"ids": gone},
        )
    if kept:
        schema = await _extension_schema(connection)
        await run(
            connection,
            f"INSERT INTO memory_vectors SELECT r.key, given.literal::{schema}.halfvec "  # noqa: S608 – our own words
            "FROM unnest(%(ids)s::text[], %(literals)s::text[]) AS given (id, literal) "
            "JOIN memory_records r USING (id) "
            "ON CONFLICT (key) DO UPDATE SET direction = excluded.direction",
            {"ids": list(kept), "literals": list(map(to_literal, kept.values()))},
        )


async def drop_vectors(connection: "AsyncConnection[Any]") -> None:
    """Forget every vector, and the model that they were of."""
    await run(connection, "UPDATE memory_records SET codes = NULL WHERE codes IS NOT NULL")
    await run(connection, "DROP TABLE IF EXISTS memory_vectors")
    await run(connection, "DELETE FROM memory_state WHERE name LIKE 'vector\\_%%'", {})


def to_literal(vector: Vector) -> str:
    """Return the vector as pgvector reads it."""
    return f"[{','.join(map(str, memoryview(vector.codes).cast('b')))}]"


async def _create_table(
    connection: "AsyncConnection[Any]", dimension: int, *, location: str
) -> None:
    found = await (await run(connection, _FIND_EXTENSION)).fetchone()
    if found is None:
        found = await _create_extension(connection, location=location)
    version, schema = found
    if tuple(map(int, version.split(".")[:2])) < _FIRST_VERSION:
        raise MemoryUnavailableError(
            location, reason=f"its pgvector is of version {version}", remedy=_REMEDY
        )
    await run(
        connection,
        "CREATE TABLE memory_vectors ("
        "key bigint PRIMARY KEY REFERENCES memory_records (key) ON DELETE CASCADE, "
        f"direction {schema}.halfvec({dimension}) NOT NULL)",
    )


async def _create_extension(connection: "AsyncConnection[Any]", *, location: str) -> Any:
    cursor = await run(
        connection,
        "SELECT count(*), bool_or(v.superuser AND NOT v.trusted) "
        "AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) "
        "FROM pg_available_extension_versions v WHERE v.name = 'vector'",
    )
    versions, is_forbidden = await cursor.fetchone() or (0, False)
    if not versions:
        raise MemoryUnavailableError(
            location, reason="the server has no pgvector, which vectors need", remedy=_REMEDY
        )
    if is_forbidden:
        raise MemoryUnavailableError(
            location,
            reason="its database has no extension 'vector', and the user may not create it",
            remedy=_CREATE_REMEDY,
        )
    await run(connection, "CREATE EXTENSION IF NOT EXISTS vector")
    return await (await run(connection, _FIND_EXTENSION)).fetchone()


async def _extension_schema(connection: "AsyncConnection[Any]") -> str:
    found = await (await run(connection, _FIND_EXTENSION)).fetchone()
    assert found is not None  # the table of vectors has a column of its type
    return str(found[1])


def _check_model(vector: Vector, state: dict[str, str]) -> None:
    check_model(vector, model=state["vector_model"], dimension=int(state["vector_dimension"]))
