"""What a memory store on PostgreSQL tells its tables; whoever calls holds the lock of writers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from context_assembler.memory.postgres_batch import Batch, Twin, is_turn_like
from context_assembler.memory.postgres_pool import run
from context_assembler.memory.postgres_rows import (
    INSERT,
    UPDATE,
    conditions_of,
    given_row,
)
from context_assembler.memory.postgres_vectors import agree_on_model, keep_vectors
from context_assembler.memory.postgres_words import to_tsvectors, wording_of
from context_assembler.memory.preparing import PreparedRecord, normal_text
from context_assembler.values.codec import dump_json
from context_assembler.values.memories.records import Remembered, Retention
from context_assembler.values.parts import Json

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_ROWS_PER_STATEMENT: Final = 2_000  # a parameter holds less than a gigabyte
_LAST_OF_LINES: Final = """
    SELECT given.line, last.key, last.text
    FROM unnest(%(lines)s::bigint[]) AS given (line) CROSS JOIN LATERAL (
        SELECT key, text FROM memory_records r WHERE r.line = given.line
        ORDER BY key DESC LIMIT 1
    ) last
"""
_BESIDE: Final = """
    SELECT beside.key FROM memory_records o CROSS JOIN LATERAL (
        (SELECT key FROM memory_records r WHERE r.line = o.line AND r.key < o.key
            ORDER BY key DESC LIMIT 1)
        UNION ALL
        (SELECT key FROM memory_records r WHERE r.line = o.line AND r.key > o.key
            ORDER BY key LIMIT 1)
    ) beside WHERE o.id = ANY(%(ids)s)
"""
_TO_INDEX: Final = """
    SELECT r.key, r.kind, r.text, r.details::text, r.author,
        (SELECT text FROM memory_records b WHERE b.line = r.line AND b.key < r.key
            ORDER BY key DESC LIMIT 1),
        (SELECT text FROM memory_records b WHERE b.line = r.line AND b.key > r.key
            ORDER BY key LIMIT 1)
    FROM memory_records r WHERE r.key = ANY(%(keys)s)
"""
_SET_WORDS: Final = """
    UPDATE memory_records r SET words = given.words::tsvector
    FROM json_to_recordset(%(rows)s::json) AS given (key bigint, words text)
    WHERE r.key = given.key
"""
_TOUCH: Final = """
    UPDATE memory_records r SET access_count = r.access_count + given.times,
        last_access_at = greatest(r.last_access_at, %(moment)s)
    FROM unnest(%(ids)s::text[], %(times)s::bigint[]) AS given (id, times) WHERE r.id = given.id
"""


async def remember_records(
    connection: "AsyncConnection[Any]", prepared: Sequence[PreparedRecord], *, location: str
) -> list[Remembered]:
    """Keep the records.

    Raises:
        VectorModelError: The store keeps vectors of another model.
    """
    vectors = [p.record.vector for p in prepared if p.record.vector is not None]
    await agree_on_model(connection, vectors, location=location)
    batch = await _begin_batch(connection, prepared)
    for record in prepared:
        batch.keep(record)
    await _add(connection, batch)
    await _replace(connection, batch.replaced)
    if batch.raised:
        await run(
            connection,
            "UPDATE memory_records r SET importance = greatest(r.importance, given.importance) "
            "FROM unnest(%(ids)s::text[], %(importances)s::float8[]) AS given (id, importance) "
            "WHERE r.id = given.id",
            {"ids": list(batch.raised), "importances": list(batch.raised.values())},
        )
    kept = {**batch.added, **batch.replaced}
    changed = {
        m: p.record.vector for m, p in kept.items() if p.record.vector or m in batch.replaced
    }
    if changed:
        await keep_vectors(connection, changed)
    return [outcome.told() for outcome in batch.outcomes]


async def forget_records(
    connection: "AsyncConnection[Any]", memory_ids: Iterable[str]
) -> list[str]:
    """Remove the records, and return the ids of those that were there."""
    wanted = list(dict.fromkeys(memory_ids))
    if not wanted:
        return []
    beside = await _keys_beside(connection, wanted)
    cursor = await run(
        connection,
        "DELETE FROM memory_records WHERE id = ANY(%(ids)s) RETURNING id",
        {"ids": wanted},
    )
    gone = {memory_id for (memory_id,) in await cursor.fetchall()}
    await _index(connection, beside)
    return [memory_id for memory_id in wanted if memory_id in gone]


async def touch_records(
    connection: "AsyncConnection[Any]", memory_ids: Iterable[str], *, moment: datetime
) -> None:
    """Note that the records were used; ids that are not there are passed over."""
    counts = Counter(memory_ids)
    values = {"ids": list(counts), "times": list(counts.values()), "moment": moment}
    await run(connection, _TOUCH, values)


async def prune_records(
    connection: "AsyncConnection[Any]", retention: Retention, *, now: datetime
) -> list[str]:
    """Remove what the bounds do not cover, and return the ids, the oldest first."""
    condition, values = conditions_of(retention.filters)
    bounds: list[str] = []
    if retention.max_records is not None:
        bounds.append("rank > %(most)s")
        values["most"] = retention.max_records
    if retention.max_age_days is not None:
        bounds.append("created_at < %(oldest)s")
        values["oldest"] = now - timedelta(days=retention.max_age_days)
    spared = "true"
    if retention.kept_importance is not None:
        spared = "importance < %(kept_importance)s"
        values["kept_importance"] = retention.kept_importance
    cursor = await run(
        connection,
        f"""
        SELECT id FROM (
            SELECT r.id, r.key, r.created_at, r.importance,
                row_number() OVER (ORDER BY r.created_at DESC, r.key DESC) AS rank
            FROM memory_records r WHERE {condition}
        ) ranked WHERE ({" OR ".join(bounds) or "false"}) AND {spared} ORDER BY created_at, key
        """,  # noqa: S608 – our own words
        values,
    )
    return await forget_records(connection, [memory_id for (memory_id,) in await cursor.fetchall()])


async def _begin_batch(
    connection: "AsyncConnection[Any]", prepared: Sequence[PreparedRecord]
) -> Batch:
    ids = Counter(p.memory_id for p in prepared)
    cursor = await run(
        connection,
        "SELECT id, namespace FROM memory_records WHERE id = ANY(%(ids)s)",
        {"ids": list(ids)},
    )
    known: dict[str, str] = dict(await cursor.fetchall())
    made_up = {p.memory_id for p in prepared if not p.record.id}
    # A made-up id that is taken gets a number behind it, and those may be taken as well.
    taken = [m for m in made_up if m in known or ids[m] > 1]
    if taken:
        cursor = await run(
            connection,
            "SELECT r.id, r.namespace FROM unnest(%(ids)s::text[]) AS given (id) "
            "JOIN memory_records r ON r.id > given.id || '-' AND r.id < given.id || '.'",
            {"ids": taken},
        )
        known |= dict(await cursor.fetchall())
    digests = list({p.digest for p in prepared if p.digest is not None and not p.record.id})
    twins: dict[str, Twin] = {}
    if digests:
        cursor = await run(
            connection,
            "SELECT key, id, digest, text FROM memory_records WHERE digest = ANY(%(digests)s)",
            {"digests": digests},
        )
        for key, memory_id, digest, text in await cursor.fetchall():
            twins[memory_id] = Twin(key, memory_id, digest, normal_text(text))
    return Batch(known=known, twins=twins)


async def _add(connection: "AsyncConnection[Any]", batch: Batch) -> None:
    if not batch.added:
        return
    lines = {p.line for p in batch.added.values() if is_turn_like(p.record.kind)} - {None}
    last_texts: dict[int, str] = {}
    last_keys: list[int] = []
    if lines:
        cursor = await run(connection, _LAST_OF_LINES, {"lines": list(lines)})
        for line, key, text in await cursor.fetchall():
            last_texts[line] = text
            last_keys.append(key)
    words = batch.words_of_added(last_texts)
    rows = [given_row(p, words=w) for p, w in zip(batch.added.values(), words, strict=True)]
    await _run_for_all(connection, INSERT, rows)
    await _index(connection, last_keys)


async def _replace(
    connection: "AsyncConnection[Any]", replaced: Mapping[str, PreparedRecord]
) -> None:
    if not replaced:
        return
    ids = list(replaced)
    affected = await _keys_beside(connection, ids)
    await _run_for_all(connection, UPDATE, list(map(given_row, replaced.values())))
    affected += await _keys_beside(connection, ids)
    cursor = await run(
        connection, "SELECT key FROM memory_records WHERE id = ANY(%(ids)s)", {"ids": ids}
    )
    affected += [key for (key,) in await cursor.fetchall()]
    await _index(connection, affected)


async def _keys_beside(connection: "AsyncConnection[Any]", memory_ids: Sequence[str]) -> list[int]:
    """Return whose words depend on the records of these ids."""
    cursor = await run(connection, _BESIDE, {"ids": memory_ids})
    return [key for (key,) in await cursor.fetchall()]


async def _index(connection: "AsyncConnection[Any]", keys: Iterable[int]) -> None:
    """Work out anew what the rows are found by."""
    wanted = sorted(set(keys))
    if not wanted:
        return
    rows = await (await run(connection, _TO_INDEX, {"keys": wanted})).fetchall()
    wordings = [
        wording_of(
            text,
            None if details is None else details.encode(),
            author,
            [other for other in beside if other is not None] if is_turn_like(kind) else (),
        )
        for _, kind, text, details, author, *beside in rows
    ]
    worded = [
        {"key": row[0], "words": words}
        for row, (words, _) in zip(rows, to_tsvectors(wordings), strict=True)
    ]
    await _run_for_all(connection, _SET_WORDS, worded)


async def _run_for_all(
    connection: "AsyncConnection[Any]", statement: str, rows: Sequence[Mapping[str, Json]]
) -> None:
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        some = list(rows[start : start + _ROWS_PER_STATEMENT])
        dumped = dump_json(some, where="A batch of memories").decode()
        await run(connection, statement, {"rows": dumped})
