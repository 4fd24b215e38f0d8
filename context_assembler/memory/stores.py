"""`MemoryStore`: what is kept of a record, whatever engine keeps it; `open_memory` opens one by URL.

An engine is a table of rows that waits; the store lends it threads, so that no event loop waits.
"""

import asyncio
import math
import os
import time
import warnings
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b, sha256
from importlib import import_module
from json import dumps
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias, TypeVar, cast

from context_assembler import errors
from context_assembler.events import Json, dump_json, is_list, is_object, load_json
from context_assembler.history.secrets import mask
from context_assembler.memory.kinds import KINDS, TURN_LIKE, TYPE_FIELDS, MemoryKind, check_kind
from context_assembler.memory.records import (
    MEMORY_FORMAT_VERSION,
    NO_FILTERS,
    MemoryFilters,
    MemoryHit,
    MemoryOrder,
    MemoryRecord,
    MemoryStats,
    Remembered,
    Retention,
    Vector,
    WordCounts,
    decode_details,
    encode_details,
    load_package,
    normal_text,
    refuse,
    utc_at,
)
from context_assembler.memory.score import fuse
from context_assembler.memory.words import index_text
from context_assembler.texts import clean_text

if TYPE_CHECKING:
    from context_assembler.memory import postgres, qdrant, sqlite

CONTEXT_WEIGHT: Final = 0.3  # of a word next to the record's own
_CONTEXT_CHARS: Final = 150  # of the text before a record; a change needs a rebuilt index
_RECORDS_PER_PAGE: Final = 500
PAUSE_SECONDS: Final = 10  # until a server that was down is asked again
AGAIN: Final = f"it is down, and is tried again after {PAUSE_SECONDS} seconds; "
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_CLEANED: Final = "Characters that no text may hold (NUL, lone surrogates) were taken out."
_REPAIR: Final = "Forget this memory, restore it from a backup, or upgrade the package."
T = TypeVar("T")
Scores: TypeAlias = list[tuple[int, float]]  # keys with what their rows are worth, best first


class Row(NamedTuple):
    """A record as an engine keeps it.

    Attributes:
        key: The order of storing; never used twice.
        line: A hash of what orders records into a line: their session or parent.
        digest: A hash that is equal if two records say the same; `None` if that does not matter.
        details: JSON of metadata and extras.
        created_at, last_access_at: Microseconds since 1970.
        codes: The vector, a byte for each dimension.
    """

    key: int
    id: str
    kind: str
    namespace: str
    session_id: str | None
    parent_id: str | None
    author: str | None
    text: str
    importance: float
    access_count: int
    line: int | None
    digest: int | None
    details: str | None
    created_at: int
    last_access_at: int | None
    codes: bytes | None
    format_version: int

    @property
    def name(self) -> tuple[str, str]:
        """What no other row has: an id is one of its namespace."""
        return self.namespace, self.id


class Entry(NamedTuple):
    """What a row is found by: its own words, and those of what stands before it in a dialogue."""

    key: int
    kind: str
    namespace: str
    own: str
    before: str


# A row, whether id and time were given, and what was changed.
_New: TypeAlias = tuple[Row, bool, bool, tuple[str, ...]]


class MemoryStore:
    """Keeps memories in an engine; `open_memory` makes one.

    Nothing is touched before the first call. Every method raises `MemoryUnavailableError` if the
    engine cannot be used, and `MemoryFormatError` for a record that cannot be read; a search leaves
    such a record out, with a `DamagedMemoryWarning`.

    Args:
        name: What the source is called in reports.
        masks_secrets: Whether secrets are masked before a record is kept.
        finds_duplicates: Whether a record without an id is left out if its kind, namespace and text
            are there already; of turns of a conversation each is kept.
        clock: Seconds since 1970, for records without a time of their own.
    """

    def __init__(
        self,
        table: "SqlTable | qdrant.QdrantTable",
        *,
        name: str = "memory",
        masks_secrets: bool = True,
        finds_duplicates: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self._table, self._clock = table, clock
        self._masks_secrets, self._finds_duplicates = masks_secrets, finds_duplicates
        self._pools: dict[bool, ThreadPoolExecutor] = {}
        self._process_id, self._here = os.getpid(), local()
        self._down: tuple[errors.MemoryUnavailableError, float] | None = None

    async def remember(self, records: Sequence[MemoryRecord]) -> list[Remembered]:
        """Keep all of the records, or none, and return what became of each, in order.

        A record without an id gets one. A record whose id is there already in its namespace takes
        that one's place; the time of the first stays if the new one has none, and how often it was
        used.

        Raises:
            InvalidParameterError: A namespace holds what no text may hold, such as NUL.
            EventFormatError: A record holds something that JSON cannot express.
            VectorModelError: The store keeps vectors of another model.
        """
        return await self._run(lambda: self._remember(records), writes=True) if records else []

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
        vector: Vector | None = None,
    ) -> list[MemoryHit]:
        """Return at most `limit` records that fit, best first; none if nothing fits.

        Any text is a query: of its words those that say something are searched for, any of them is
        enough. With a vector those nearest to it are found as well.

        Raises:
            VectorModelError: The store keeps vectors of another model.
            MissingExtraError: There is a vector, and numpy is not installed.
        """
        return await self._run(lambda: self._search(query, limit, filters, vector))

    async def get(self, memory_id: str, *, filters: MemoryFilters = NO_FILTERS) -> MemoryRecord:
        """Return the record of that id.

        Raises:
            UnknownMemoryError: There is none.
            InvalidParameterError: There are several, each of another namespace.
        """
        records = await self._read(lambda: self._named([memory_id], filters).values())
        if not records:
            raise errors.UnknownMemoryError(memory_id)
        return records[0]

    async def list_records(
        self, *, order: MemoryOrder = "newest", limit: int = 20, filters: MemoryFilters = NO_FILTERS
    ) -> list[MemoryRecord]:
        """Return at most `limit` records in that order; `last_accessed` leaves out the others."""
        return await self._read(lambda: self._table.listed(filters, order, limit))

    async def neighbours(
        self,
        memory_ids: Sequence[str],
        *,
        before: int = 2,
        after: int = 2,
        filters: MemoryFilters = NO_FILTERS,
    ) -> dict[str, list[MemoryRecord]]:
        """Return by id what stands around each record in its session or parent, oldest first.

        The records themselves are left out, and ids that are not there. What stands around a record
        is of its kind and namespace.
        """
        starts = await self._read(
            lambda: self._table.listed(replace(filters, ids=[*map(clean_text, memory_ids)]))
        )
        around = await self.around(starts, before, after)
        found: dict[str, list[MemoryRecord]] = {start.id: [] for start in starts}
        for start in starts:
            found[start.id] += [one for one, _ in around[start.key] if filters.admit(one)]
        return found

    async def around(
        self, records: Sequence[MemoryRecord], before: int, after: int
    ) -> dict[str, list[tuple[MemoryRecord, int]]]:
        """Return by key what `neighbours` does for records of this store, and how far away it is."""
        known = {record.place: record for record in records}

        def look() -> list[Row]:
            near.update(self._table.beside([*known], before, after))
            return self._table.rows(
                "key", [*{k for keys in near.values() for k in keys} - {*known}]
            )

        near: dict[int, list[int]] = {}
        known |= {record.place: record for record in await self._read(look)}
        around: dict[str, list[tuple[MemoryRecord, int]]] = {}
        for record in records:
            keys = near.get(record.place, [])
            first = -sum(key < record.place for key in keys)
            around[record.key] = [
                (known[key], first + at + (key > record.place))
                for at, key in enumerate(keys)
                if key in known
            ]
        return around

    async def word_counts(self, words: Sequence[str]) -> WordCounts | None:
        """Return how many records there are, and about how many have each word; `None`: not known."""
        return await self._run(lambda: self._table.word_counts(words))

    async def state(self) -> object:
        """Return what is equal only if nothing was written meanwhile; `None`: not known."""
        return await self._run(self._table.state)

    async def at_once(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what is found by a coroutine that waits for nothing but this store.

        All that it reads is read in one thread, and of one moment.
        """

        def act() -> T:
            with self._table.reading():
                self._here.is_inside = True
                coroutine = work()
                try:
                    coroutine.send(None)
                except StopIteration as done:
                    return cast("T", done.value)
                finally:
                    self._here.is_inside = False
                    coroutine.close()
                raise RuntimeError("It waited for something else than the store.")

        return await self._run(act)

    async def present_kinds(self, *, filters: MemoryFilters = NO_FILTERS) -> frozenset[MemoryKind]:
        """Return the kinds of which there may be records; there are surely none of the others."""
        if filters.admit_nothing:
            return frozenset()
        return await self._run(lambda: self._table.kinds(filters))

    async def forget(
        self, memory_ids: Sequence[str], *, filters: MemoryFilters = NO_FILTERS
    ) -> list[str]:
        """Remove the records, and return the ids of those that were there.

        Raises:
            InvalidParameterError: Several namespaces have an id; the filters can say whose is meant.
        """
        return await self._run(lambda: self._forget(memory_ids, filters), writes=True)

    async def touch(
        self, memory_ids: Sequence[str], *, filters: MemoryFilters = NO_FILTERS
    ) -> None:
        """Note that the records were used; ids that are not there are passed over.

        Raises:
            InvalidParameterError: Several namespaces have an id; the filters can say whose is meant.
        """
        await self._run(lambda: self._touch(memory_ids, filters), writes=True)

    async def prune(self, retention: Retention) -> list[str]:
        """Remove what the bounds do not cover, and return the ids, the oldest first."""
        return await self._run(lambda: self._prune(retention), writes=True)

    async def drop_vectors(self) -> None:
        """Forget every vector, so that those of another model can come."""
        await self._run(self._table.drop_vectors, writes=True)

    async def optimize(self) -> None:
        """Make searches faster after many writes; readers go on meanwhile."""
        await self._run(self._table.optimize, writes=True)

    async def export(self, *, filters: MemoryFilters = NO_FILTERS) -> AsyncIterator[MemoryRecord]:
        """Yield the records in the order of storing; those that are stored meanwhile are seen too."""
        last = 0
        while True:
            look = partial(self._table.listed, filters, None, _RECORDS_PER_PAGE, last)
            rows = await self._run(look)
            for record in await self._read(rows.copy):
                yield record
            if not rows:
                return
            last = rows[-1].key

    async def stats(self) -> MemoryStats:
        """Return what the store holds."""
        return await self._run(self._table.stats)

    async def close(self) -> None:
        """Close files and connections, and end the threads; the next call opens them again."""
        self._down = None
        await self._run(self._table.close, writes=True)
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _now(self) -> datetime:
        return utc_at(self._clock())

    async def _run(self, act: Callable[[], T], *, writes: bool = False) -> T:
        if getattr(self._here, "is_inside", False):
            return act()
        if self._down and abs(self._clock() - self._down[1]) < PAUSE_SECONDS:
            raise self._down[0].with_traceback(None)
        if self._process_id != os.getpid():  # threads do not survive a fork
            self._process_id, self._pools = os.getpid(), {}
        if writes not in self._pools:
            self._pools[writes] = ThreadPoolExecutor(1 if writes else self._table.readers)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pools[writes], act)
        except errors.MemoryUnavailableError as error:
            self._down = (error, self._clock()) if AGAIN in str(error) else None
            raise

    async def _read(self, look: Callable[[], Iterable[Row]]) -> list[MemoryRecord]:
        def read() -> list[MemoryRecord]:
            with self._table.reading():
                rows = [*look()]
            model = self._table.model() if any(row.codes for row in rows) else None
            return [_record_of(row, model) for row in rows]

        return await self._run(read)

    def _remember(self, records: Sequence[MemoryRecord]) -> list[Remembered]:
        # Made ready before the lock is taken: other writers wait for the engine only.
        given = [self._prepared(record) for record in records]
        table = self._table
        with table.writing():
            model = table.model()
            for vector in (record.vector for record in records):
                if vector is not None:
                    if model is None:
                        model = vector.model, vector.dimension
                        table.use_model(*model)
                    vector.check(*model)
            rows, before, outcomes = self._settle(given)
            if rows:
                table.put(rows, before)
        return outcomes

    def _prepared(self, record: MemoryRecord) -> _New:
        """Return the record as it is kept: clean, without secrets, with a time and an id."""
        notices: dict[str, None] = {}

        def clean(value: Json) -> Json:
            if isinstance(value, str):
                text = clean_text(value)
                notices.update({_CLEANED: None} if text is not value else {})
                text, found = mask(text) if self._masks_secrets else (text, "")
                notices.update({f"{found[:1].upper()}{found[1:]}.": None} if found else {})
                return text
            if is_object(value):
                return {clean_text(str(key)): clean(inner) for key, inner in value.items()}
            return [*map(clean, value)] if is_list(value) else value

        spec, moment = KINDS[record.kind], record.created_at or self._now()
        text, author = clean(record.text), record.author and clean(record.author)
        details = clean(encode_details(record))
        given_id, namespace = clean_text(record.id), record.namespace
        if clean_text(namespace) != namespace:
            rule = "must hold no NUL and no lone surrogate"
            refuse("namespace", namespace, rule, "Name the project without it.")
        names = (record.session_id, record.parent_id)
        session_id, parent_id = (one and clean_text(one) for one in names)
        place, memory_id, digest = (namespace, record.kind), given_id, None
        owner = session_id if spec.follows == "session" else parent_id
        if self._finds_duplicates and not spec.is_turn_like:
            metadata = details.get("metadata", {})
            own = (str(metadata.get(name)) for name in spec.identity)
            digest = _hash(*place, normal_text(text), *own)
        if not memory_id:
            # Behind the second it is of: indexes of ids so grow at one end.
            told = (*place, session_id, parent_id, author, moment.isoformat(), text)
            code = blake2b("\0".join(one or "" for one in told).encode(), digest_size=8)
            memory_id = f"mem_{max(int(moment.timestamp()), 0):010x}{code.hexdigest()}"
        line, where = None if owner is None else _hash(*place, owner), f"The memory {memory_id!r}"
        dumped = dump_json(details, where=where).decode() if details else None
        used = to_stamp(record.last_access_at) if record.last_access_at else None
        codes = record.vector.codes if record.vector else None
        row = Row(
            *(0, memory_id, record.kind, namespace, session_id, parent_id, author),
            *(text, record.importance, record.access_count, line, digest, dumped),
            *(to_stamp(moment), used, codes, MEMORY_FORMAT_VERSION),
        )
        return row, bool(given_id), record.created_at is not None, tuple(notices)

    def _settle(self, given: Sequence[_New]) -> tuple[list[Row], dict[int, Row], list[Remembered]]:
        """Return the rows to be kept, by key those whose place some take, and what became of each.

        Later ones see what became of those before.
        """
        table, names = self._table, {row.namespace for row, *_ in given}
        own = MemoryFilters(ids=[row.id for row, *_ in given], namespaces=[*names])
        known = {row.name: row for row in table.listed(own)}
        digests = {row.digest for row, has_id, *_ in given if row.digest is not None and not has_id}
        alike = sorted(table.rows("digest", [*digests]), reverse=True)
        known |= {row.name: row for row in alike}
        said = {(row.namespace, row.digest, normal_text(row.text)): row.name for row in alike}
        stored = {row.key: row for row in known.values()}
        key, outcomes = table.next_key(), list[Remembered]()
        changed: dict[tuple[str, str], Row] = {}

        def is_there(row: Row) -> bool:
            return bool(table.listed(MemoryFilters(ids=[row.id], namespaces=[row.namespace])))

        for row, has_id, has_time, notices in given:
            same = "" if row.digest is None else normal_text(row.text)
            old, words = known.get(row.name), (row.namespace, row.digest, same)
            # A short hash alone does not prove anything, and a row may have been replaced.
            twin = known.get(said.get(words, row.name)) if same and not has_id else None
            if twin is not None and (twin.namespace, twin.digest, normal_text(twin.text)) == words:
                if row.importance > twin.importance:
                    known[twin.name] = changed[twin.name] = twin._replace(importance=row.importance)
                outcomes.append(Remembered(twin.id, "duplicate", notices))
                continue
            if has_id and old is not None:
                times = [at for at in (old.last_access_at, row.last_access_at) if at is not None]
                made = row._replace(
                    key=old.key,
                    created_at=row.created_at if has_time else old.created_at,
                    access_count=max(old.access_count, row.access_count),
                    last_access_at=max(times, default=None),
                )
                outcomes.append(Remembered(row.id, "replaced", notices))
            else:
                made, number = row._replace(key=key), 2
                while made.name in known or (number > 2 and is_there(made)):
                    made, number = made._replace(id=f"{row.id}-{number}"), number + 1
                key += 1
                outcomes.append(Remembered(made.id, "added", notices))
            known[made.name] = changed[made.name] = made
            said[words] = said.get(words, made.name) if has_id else made.name
        before = {row.key: stored[row.key] for row in changed.values() if row.key in stored}
        return [*changed.values()], before, outcomes

    def _search(
        self, query: str, limit: int, filters: MemoryFilters, vector: Vector | None
    ) -> list[MemoryHit]:
        if filters.admit_nothing:
            return []
        table = self._table
        with table.reading():
            by_words, model = dict(table.by_words(query, filters, limit)), table.model()
            near: Sequence[int] = ()
            if vector is not None and model is not None:
                vector.check(*model)
                near = table.by_vector(vector, filters, limit)
            rows = table.rows("key", [*dict.fromkeys((*by_words, *near))])
        alike = {} if vector is None else _cosines(vector, rows)
        best = max(by_words.values(), default=0.0) or 1.0
        places = {key: at for at, key in enumerate(by_words)}

        def rank(row: Row) -> tuple[float, int]:
            if not alike:
                return 0.0, places[row.key]
            words, meaning = by_words.get(row.key, 0.0) / best, max(alike.get(row.key, 0.0), 0.0)
            return -fuse(words, meaning), row.key

        hits: list[MemoryHit] = []
        for row in sorted(rows, key=rank)[:limit]:
            try:
                record = _record_of(row, model)
            except errors.MemoryFormatError as error:
                told = f"{error.problem} A search went on without it. {error.remedy}"
                warnings.warn(told, errors.DamagedMemoryWarning, stacklevel=2)
                continue
            hits.append(MemoryHit(record, row.key, by_words.get(row.key), alike.get(row.key)))
        return hits

    def _named(self, memory_ids: Iterable[str], filters: MemoryFilters) -> dict[str, Row]:
        """Return by id, in their order, the rows that are there."""
        ids = [*dict.fromkeys(map(clean_text, memory_ids))]
        rows = self._table.listed(replace(filters, ids=ids)) if ids else []
        named = {row.id: row for row in rows}
        for row in rows:
            if named[row.id] is not row:
                rule = "must be an id of one namespace alone"
                remedy = "Pass filters=MemoryFilters(namespaces=[…]), or --namespace."
                refuse("memory_ids", row.id, rule, remedy)
        return {memory_id: named[memory_id] for memory_id in ids if memory_id in named}

    def _touch(self, memory_ids: Sequence[str], filters: MemoryFilters) -> None:
        stamp = to_stamp(self._now())
        with self._table.writing():
            rows = self._named(memory_ids, filters)
            keys = [rows[name].key for name in map(clean_text, memory_ids) if name in rows]
            if keys:
                self._table.touch(keys, stamp)

    def _forget(self, memory_ids: Iterable[str], filters: MemoryFilters) -> list[str]:
        with self._table.writing():
            rows = self._named(memory_ids, filters)
            if rows:
                self._table.remove([*rows.values()])
        return [*rows]

    def _prune(self, retention: Retention) -> list[str]:
        bounds = (retention.max_records, retention.max_age_days, retention.kept_importance)
        most, days, least = (math.inf if bound is None else bound for bound in bounds)
        oldest = to_stamp(self._now()) - days * 86_400_000_000
        with self._table.writing():
            surplus = [
                row
                for rank, row in enumerate(self._table.listed(retention.filters, "newest", None))
                if (rank >= most or row.created_at < oldest) and row.importance < least
            ]
            if surplus:
                self._table.remove(surplus)
        return [row.id for row in reversed(surplus)]


def _hash(*words: str) -> int:
    return int.from_bytes(sha256("\0".join(words).encode()).digest()[:8], signed=True)


def to_stamp(moment: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def to_moment(stamp: int | None) -> datetime | None:
    """Return the time that `to_stamp` was given, in UTC."""
    return None if stamp is None else _EPOCH + stamp * _MICROSECOND


def _record_of(row: Row, model: tuple[str, int] | None) -> MemoryRecord:
    """Return the record of a row.

    Args:
        model: Of which model its vector is.

    Raises:
        MemoryFormatError: The row is damaged, or of a newer version.
    """
    where = f"The memory {row.id!r}"
    if row.format_version != MEMORY_FORMAT_VERSION:
        reason = f"it has format version {row.format_version}"
        raise errors.MemoryFormatError(where=where, reason=reason, remedy=_REPAIR)
    try:
        metadata, extras = None, dict[str, Json]()
        if row.details is not None:
            metadata, extras = decode_details(row.kind, load_json(row.details.encode()))
        return MemoryRecord(
            text=row.text,
            kind=check_kind(row.kind),
            id=row.id,
            namespace=row.namespace,
            session_id=row.session_id,
            parent_id=row.parent_id,
            author=row.author,
            importance=row.importance,
            access_count=row.access_count,
            created_at=to_moment(row.created_at),
            metadata=metadata,
            extras=extras,
            vector=Vector(model=model[0], codes=row.codes) if row.codes and model else None,
            last_access_at=to_moment(row.last_access_at),
            place=row.key,
        )
    except (errors.AssemblyError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = str(getattr(error, "problem", error)).rstrip(".")
        raise errors.MemoryFormatError(where=where, reason=reason, remedy=_REPAIR) from error


def entry_of(row: Row, before: str | None = None) -> Entry:
    """Return what a row is found by: its text, its details, its author, the text before it."""
    details = () if row.details is None else _leaves(load_json(row.details.encode()))
    own = " ".join(map(index_text, (row.text, *details, *([row.author] if row.author else []))))
    context = index_text(before[:_CONTEXT_CHARS]) if before and row.kind in TURN_LIKE else ""
    return Entry(row.key, row.kind, row.namespace, own, context)


def found_entry(found: Sequence[Any]) -> Entry:
    """Return the entry of what `ENTRIES` finds."""
    return entry_of(Row._make(found[:-1]), found[-1])


def _leaves(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value) or is_list(value):
        for inner in value.values() if is_object(value) else value:
            yield from _leaves(inner)


def _cosines(vector: Vector, rows: Sequence[Row]) -> dict[int, float]:
    """Return by key how alike each row's vector is; products of whole numbers, alike everywhere."""
    placed = {row.key: row.codes for row in rows if row.codes is not None}
    if not placed:
        return {}
    np = load_package("numpy", "Comparing vectors")
    codes = np.frombuffer(b"".join(placed.values()), dtype=np.int8)
    found = codes.reshape(len(placed), -1).astype(float)
    wanted = np.frombuffer(vector.codes, dtype=np.int8).astype(float)
    lengths = np.sqrt((found * found).sum(axis=1)) * np.sqrt((wanted * wanted).sum())
    return dict(zip(placed, (found @ wanted / lengths).tolist(), strict=True))


# ---- rows in a SQL database ----

FLOOR_ROWS: Final = 1_000  # a word in so many rows is never too common to be searched for
COMMON_SHARE: Final = 0.02
MOST_TERMS: Final = 32
_TESTS: Final = {
    "ids": "r.id {}",
    "kinds": "r.kind {}",
    "namespaces": "r.namespace {}",
    "session_ids": "r.session_id {}",
    "parent_ids": "r.parent_id {}",
    "authors": "r.author {}",
    "excluded_ids": "NOT r.id {}",
    "excluded_session_ids": "NOT coalesce(r.session_id, '') {}",
    "since": "r.created_at >= ?",
    "until": "r.created_at < ?",
    "least_importance": "r.importance >= ?",
    **{f"{one}s": f"(r.kind <> '{kind}' OR {{details}} {{}})" for kind, one in TYPE_FIELDS.items()},
}
_COLUMNS: Final = ", ".join(f"r.{name}" for name in Row._fields)
_ORDERS: Final[Mapping[MemoryOrder | None, str]] = {
    "newest": "r.created_at DESC, r.key DESC",
    "oldest": "r.created_at, r.key",
    "most_important": "r.importance DESC, r.created_at DESC, r.key DESC",
    "last_accessed": "r.last_access_at DESC, r.key DESC",
    None: "r.key",
}
_SIDES: Final = ("< g.key ORDER BY n.key DESC", "> g.key ORDER BY n.key")
_NEIGHBOUR: Final = (
    "(SELECT {} FROM memory_records n WHERE n.line = g.line AND n.key {} LIMIT 1 OFFSET {})"
)
_NEXT: Final = f"SELECT {_NEIGHBOUR.format('n.key', _SIDES[1], 0)} FROM {{}} g"
_TEXT_BEFORE: Final = _NEIGHBOUR.format(f"substr(n.text, 1, {_CONTEXT_CHARS})", _SIDES[0], 0)
ENTRIES: Final = (
    f"SELECT {_COLUMNS.replace('r.', 'g.')}, {_TEXT_BEFORE} FROM memory_records g "
    "WHERE g.key {} ORDER BY g.key"
)
_PUT: Final = (
    f"INSERT INTO memory_records ({', '.join(Row._fields)}) "
    f"VALUES ({', '.join('?' * len(Row._fields))}) ON CONFLICT (key) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in Row._fields[1:])
)


def rare_words(counts: Mapping[str, int], most: int) -> tuple[dict[str, int], list[str]]:
    """Return the words that are searched for, with how many rows have each, and the common ones.

    A word in more than `most` of the rows is searched for only if the rarer ones find too few:
    ranking takes time for every row that has any of the words, and what is everywhere adds little.
    """
    rare = sorted((count, word) for word, count in counts.items() if 0 < count <= most)
    chosen = {word: count for count, word in rare[:MOST_TERMS]}
    is_enough = sum(chosen.values()) >= FLOOR_ROWS
    return chosen, [word for word, count in counts.items() if count > most and not is_enough]


def conditions_of(
    filters: MemoryFilters, database: "sqlite.SqliteDatabase | postgres.PostgresDatabase"
) -> tuple[str, list[Any]]:
    """Return what comes behind `WHERE` for rows `r`, and its parameters; empty for no filters."""
    parts, values = list[str](), list[Any]()
    for name, test in _TESTS.items():
        value: Any = getattr(filters, name)
        if value not in (None, (), []) or (name == "namespaces" and value is not None):
            is_one_of = ""
            if "{}" in test:
                is_one_of, value = database.given([*map(clean_text, value)])
            details = database.details.format(name.removesuffix("s"))
            parts.append(test.format(is_one_of, details=details))
            values.append(to_stamp(value) if isinstance(value, datetime) else value)
    return " AND ".join(parts), values


class SqlTable:
    """The rows of a memory store in the tables `memory_records` and `memory_state` of a database."""

    def __init__(self, database: "sqlite.SqliteDatabase | postgres.PostgresDatabase") -> None:
        self._db = database
        self.readers = database.readers
        self.reading, self.writing = database.reading, database.writing
        self.by_words, self.by_vector = database.by_words, database.by_vector
        self.word_counts = database.word_counts
        self.kinds, self.optimize, self.close = database.kinds, database.optimize, database.close
        self.state = database.state

    def model(self) -> tuple[str, int] | None:
        """Return name and dimension of the vectors that are kept."""
        with self._db.reading():
            found = dict(self._db.run("SELECT name, value FROM memory_state"))
        return (found["model"], int(found["dimension"])) if "model" in found else None

    def use_model(self, model: str, dimension: int) -> None:
        """Make room for vectors of that model."""
        self._db.use_model(dimension)
        values = (("model", model), ("dimension", str(dimension)))
        self._db.run_many("INSERT INTO memory_state (name, value) VALUES (?, ?)", values)

    def rows(self, column: str, values: Sequence[Any]) -> list[Row]:
        """Return the rows with one of the values as their `key` or `digest`."""
        is_one_of, parameter = self._db.given(values)
        return self._rows(f"WHERE r.{column} {is_one_of}", parameter) if values else []

    def next_key(self) -> int:
        """Return the first key that was never used."""
        [(key,)] = self._db.run("SELECT value FROM memory_state WHERE name = 'next_key'")
        return int(key)

    def put(self, rows: Sequence[Row], before: Mapping[int, Row]) -> None:
        """Keep the rows, and make them searchable.

        Args:
            before: By key, the rows whose place some of them take.
        """
        moved = [row for row in rows if row.key in before]
        stale = {*before, *self._next([*before.values(), *moved])}
        self._db.unindex(self._entries(stale))
        self._db.run_many(_PUT, rows)
        last = str(max(row.key for row in rows) + 1)
        sql = "UPDATE memory_state SET value = ? WHERE name = 'next_key' AND CAST(value AS bigint) < ?"
        self._db.run(sql, last, int(last))
        self._db.index(self._entries({*stale, *(row.key for row in rows)}))
        self._db.put_vectors([row for row in rows if row.codes], [*before])

    def remove(self, rows: Sequence[Row]) -> None:
        """Remove the rows."""
        gone = {row.key for row in rows}
        behind = self._next(rows) - gone
        self._db.unindex(self._entries(gone | behind))
        is_one_of, parameter = self._db.given([*gone])
        self._db.run(f"DELETE FROM memory_records WHERE key {is_one_of}", parameter)
        self._db.index(self._entries(behind))
        self._db.put_vectors([], [*gone])

    def touch(self, keys: Sequence[int], stamp: int) -> None:
        """Count that the rows were used at that moment, as often as they are named."""
        last = "CASE WHEN last_access_at > ? THEN last_access_at ELSE ? END"
        sql = "UPDATE memory_records SET access_count = access_count + 1, last_access_at = "
        self._db.run_many(f"{sql}{last} WHERE key = ?", [(stamp, stamp, key) for key in keys])

    def listed(
        self,
        filters: MemoryFilters,
        order: MemoryOrder | None = None,
        limit: int | None = None,
        after: int = 0,
    ) -> list[Row]:
        """Return the first rows of an order; of none: the next in the order of storing."""
        condition, values = conditions_of(filters, self._db)
        used = "r.last_access_at IS NOT NULL" if order == "last_accessed" else ""
        where = " AND ".join(filter(None, (condition, used, "r.key > ?")))
        last = "" if limit is None else f" LIMIT {int(limit)}"
        return self._rows(f"WHERE {where} ORDER BY {_ORDERS[order]}{last}", *values, after)

    def beside(self, keys: Sequence[int], before: int, after: int) -> dict[int, list[int]]:
        """Return by key those of the rows around each in its line, in order, without itself."""
        places = [(_SIDES[0], at) for at in range(before)] + [
            (_SIDES[1], at) for at in range(after)
        ]
        near = ", ".join(_NEIGHBOUR.format("n.key", *place) for place in places)
        is_one_of, parameter = self._db.given(keys)
        sql = f"SELECT g.key, {near} FROM memory_records g WHERE g.key {is_one_of}"
        found = self._db.run(sql, parameter) if keys and places else ()
        return {key: sorted(one for one in rest if one is not None) for key, *rest in found}

    def stats(self) -> MemoryStats:
        """Return what the table holds."""
        with self._db.reading():
            [(records, vectors)] = self._db.run("SELECT count(*), count(codes) FROM memory_records")
            count = "SELECT {0}, count(*) FROM memory_records GROUP BY {0} ORDER BY {0}"
            by_kind, by_namespace = (
                dict(self._db.run(count.format(column))) for column in ("kind", "namespace")
            )
            model, _ = self.model() or (None, 0)
            return MemoryStats(records, by_kind, by_namespace, vectors, model)

    def drop_vectors(self) -> None:
        """Forget all vectors, and of which model they were."""
        with self._db.writing():
            self._db.run("UPDATE memory_records SET codes = NULL WHERE codes IS NOT NULL")
            self._db.run("DELETE FROM memory_state WHERE name IN ('model', 'dimension')")
            self._db.drop_vectors()

    def _rows(self, rest: str, *values: Any) -> list[Row]:
        with self._db.reading():
            found = self._db.run(f"SELECT {_COLUMNS} FROM memory_records r {rest}", *values)
        return [*map(Row._make, found)]

    def _next(self, rows: Iterable[Row]) -> set[int]:
        """Return which rows stand behind the places of these, and so are found by their words."""
        pairs = [(r.line, r.key) for r in rows if r.line is not None and r.kind in TURN_LIKE]
        found = self._db.run(_NEXT.format(self._db.pairs), dumps(pairs)) if pairs else ()
        return {key for (key,) in found if key is not None}

    def _entries(self, keys: Collection[int]) -> list[Entry]:
        """Return what the rows are found by, as they and what is before them are at this moment."""
        is_one_of, parameter = self._db.given([*keys])
        found = self._db.run(ENTRIES.format(is_one_of), parameter) if keys else ()
        return [*map(found_entry, found)]


# ---- opening ----

MEMORY_STORES: Final[Mapping[str, str]] = {
    "memory": "sqlite",
    "sqlite": "sqlite",
    "postgresql": "postgres",
    "postgres": "postgres",
    "qdrant": "qdrant",
}
"""By the scheme of a URL, the module whose `open_table` opens it."""


def open_memory(store: str | Path, **options: Any) -> MemoryStore:
    """Return the store that a URL names; a path is a SQLite file.

    `memory:` keeps memories in this process, `sqlite:memory.db` in a file of the current folder,
    `sqlite:///var/lib/memory.db` in one elsewhere, `postgresql://user@host/database` on a server,
    `qdrant:http://host:6333#COLLECTION` in a collection of Qdrant.

    Args:
        options: As in `MemoryStore`.

    Raises:
        ConfigurationError: No bundled store has that scheme, or the location cannot be one.
    """
    url = f"sqlite:{store}" if isinstance(store, Path) else store
    scheme, colon, _ = url.partition(":")
    module = MEMORY_STORES.get(scheme.lower()) if colon else None
    if module is None:
        told = errors.without_credentials(url)
        listed = " or ".join(f"'{name}:…'" for name in MEMORY_STORES)
        remedy = f"Write {listed}, pass the Path of a file, or end a folder of notes with a slash."
        remedy = errors.mean_file(told) or remedy
        raise errors.ConfigurationError(f"No memory store opens {told!r}.", remedy=remedy)
    engine = import_module(f"context_assembler.memory.{module}")
    return MemoryStore(engine.open_table(url), **options)
