"""Memories in a collection of Qdrant: of a server, in a folder, or in memory.

The engine searches, by words (a sparse vector, weighed by how rare they are) and by meaning. It knows
no transactions: after a crash a part of what one `remember` keeps may be there.
"""

import os
import time
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from threading import RLock
from typing import Any, Final
from uuid import UUID, uuid5

from context_assembler.errors import MemoryUnavailableError
from context_assembler.events import load_json
from context_assembler.memory import records
from context_assembler.memory.kinds import KINDS, TYPE_FIELDS, MemoryKind
from context_assembler.memory.stores import AGAIN, Row, Scores, entry_of, to_stamp
from context_assembler.memory.words import query_stems, record_stems

_DENSE: Final = "dense"
_SPARSE: Final = "words"
_SATURATION: Final = 1.2  # BM25's k1; the server knows how rare a word is (its IDF modifier)
_IDS: Final = UUID("6f8d7a1e-5b0c-4c52-9a57-1f7a5f1d2c3b")  # a change loses every record
_PAGE: Final = 1_000
_KEYWORDS: Final = ("kind", "namespace", "session_id", "parent_id", "author", "id")
_TYPED: Final = "type"  # what `event_types` or `entity_types` ask for
_INTEGERS: Final = ("key", "line", "digest", "created_at", "last_access_at")
_VERSION: Final = 3
_ORDERS: Final[Mapping[str | None, tuple[str, bool]]] = {
    "newest": ("created_at", True),
    "oldest": ("created_at", False),
    "most_important": ("importance", True),
    "last_accessed": ("last_access_at", True),
    None: ("key", False),
}


def open_table(url: str) -> "QdrantTable":
    """Return the collection of a server or folder: `qdrant:http://host:6333#memories`."""
    where, _, collection = url.partition(":")[2].partition("#")
    return QdrantTable(where or ":memory:", collection or "memories")


class QdrantTable:
    """The rows of a memory store as points; `QDRANT_API_KEY` holds a server's key."""

    readers = 1

    def __init__(self, location: str, collection: str) -> None:
        self._location, self._name = location, collection
        self._lock = RLock()
        self._client: Any = None
        self._last_key, self._is_current = 0, False

    @contextmanager
    def reading(self) -> Generator[None]:
        """Let nobody else of this process look meanwhile, and say what went wrong."""
        qdrant = records.load_package("qdrant_client", "Keeping memories in Qdrant", "qdrant")
        known = records.load_package("qdrant_client.http.exceptions", "")
        with self._lock:
            try:
                if self._client is None:
                    self._client = qdrant.QdrantClient(**self._place())
                yield
            except MemoryUnavailableError:  # of what looked inside
                raise
            except (known.ApiException, OSError, RuntimeError) as error:
                is_down = isinstance(error, known.ResponseHandlingException)
                said = " ".join(str(error).split())[:200]
                raise MemoryUnavailableError(
                    f"{self._location}#{self._name}",
                    reason=f"{AGAIN if is_down else ''}{said}",
                    remedy="Check that the server runs, its address, QDRANT_API_KEY and its log; a "
                    "folder can be opened by one process at a time.",
                ) from error

    writing = reading

    def model(self) -> tuple[str, int] | None:
        """Return name and dimension of the vectors that are kept."""
        with self.reading():
            known = self._collection()
        metadata: Any = (known and known.metadata) or {}
        return (metadata["model"], metadata["dimension"]) if metadata.get("model") else None

    def use_model(self, model: str, dimension: int) -> None:
        """Make room for vectors of that model."""
        models = self._created()
        dense = models.DenseVectorConfig(size=dimension, distance=models.Distance.COSINE)
        space = models.DenseVectorNameConfig(dense=dense)
        self._client.create_vector_name(self._name, _DENSE, space)
        told = {"model": model, "dimension": dimension}
        self._client.update_collection(self._name, metadata=told)

    def rows(self, column: str, values: Sequence[Any]) -> list[Row]:
        """Return the rows with one of the values in that column."""
        return self._scroll(_filter(records.NO_FILTERS, {column: values}, {})) if values else []

    def next_key(self) -> int:
        """Return a key that was never used."""
        return max(self._last_key + 1, time.time_ns() // 1_000)

    def put(self, rows: Sequence[Row], _before: object) -> None:
        """Keep the rows; one of a known id takes the place of that before it."""
        self._put(self._created(), rows)

    def _put(self, models: Any, rows: Sequence[Row]) -> None:
        points = list[Any]()
        for row, own in zip(rows, record_stems([entry_of(row).own for row in rows]), strict=True):
            counts = Counter(map(_index, own))
            weights = {at: n * (_SATURATION + 1) / (n + _SATURATION) for at, n in counts.items()}
            sparse = models.SparseVector(indices=[*weights], values=[*weights.values()])
            vectors: dict[str, Any] = {_SPARSE: sparse} if weights else {}
            payload = {name: value for name, value in row._asdict().items() if value is not None}
            if row.details and (field := TYPE_FIELDS.get(row.kind)):
                known: Any = load_json(row.details.encode())
                payload[_TYPED] = known.get("metadata", {}).get(field)
            if row.codes:
                payload["codes"] = b64encode(row.codes).decode()
                vectors[_DENSE] = [*map(float, memoryview(row.codes).cast("b"))]
            point = models.PointStruct(id=_point_id(row), payload=payload, vector=vectors)
            points.append(point)
        if points:
            self._client.upsert(self._name, points, wait=True)
        self._last_key = max(self._last_key, 0, *(row.key for row in rows))

    def remove(self, rows: Sequence[Row]) -> None:
        """Remove the rows."""
        self._created()
        self._client.delete(self._name, [*map(_point_id, rows)], wait=True)

    def touch(self, keys: Sequence[int], stamp: int) -> None:
        """Count that the rows were used at that moment, as often as they are named."""
        self._created()
        for row in self.rows("key", keys):
            used = max(row.last_access_at or stamp, stamp)
            count = row.access_count + keys.count(row.key)
            payload = {"access_count": count, "last_access_at": used}
            self._client.set_payload(self._name, payload, [_point_id(row)], wait=True)

    def by_words(self, query: str, filters: records.MemoryFilters, limit: int) -> Scores:
        """Return keys and scores above 0 of the rows that fit by words, best first."""
        from qdrant_client.models import SparseVector

        indices = sorted({*map(_index, query_stems(query))})
        sparse = SparseVector(indices=indices, values=[1.0] * len(indices))
        return self._query(sparse, _SPARSE, filters, limit) if indices else []

    def by_vector(
        self, vector: records.Vector, filters: records.MemoryFilters, limit: int
    ) -> list[int]:
        """Return the keys of the rows whose vectors lie nearest, best first."""
        numbers = [*map(float, memoryview(vector.codes).cast("b"))]
        return [key for key, _ in self._query(numbers, _DENSE, filters, limit)]

    def listed(
        self,
        filters: records.MemoryFilters,
        order: str | None = None,
        limit: int | None = None,
        after: int = 0,
    ) -> list[Row]:
        """Return the first rows of an order; of none: the next in the order of storing."""
        from qdrant_client.models import Direction, OrderBy

        column, is_down = _ORDERS[order]
        has_bound = order == "last_accessed" or after
        wanted = _filter(filters, {}, {column: after} if has_bound else {})
        by = OrderBy(key=column, direction=Direction.DESC if is_down else Direction.ASC)
        rows = self._scroll(wanted, order_by=by, limit=limit)
        rows.sort(key=lambda row: (getattr(row, column), row.created_at, row.key), reverse=is_down)
        return rows

    def beside(self, keys: Sequence[int], before: int, after: int) -> dict[int, list[int]]:
        """Return by key those of the rows around each in its line, in order, without itself."""
        rows = self.rows("key", keys)
        lines = sorted(self.rows("line", [*{row.line for row in rows if row.line is not None}]))
        beside: dict[int, list[int]] = {}
        for row in rows:
            earlier = [one.key for one in lines if one.line == row.line and one.key < row.key]
            later = [one.key for one in lines if one.line == row.line and one.key > row.key]
            beside[row.key] = [*earlier[max(len(earlier) - before, 0) :], *later[:after]]
        return beside

    def word_counts(self, words: Sequence[str]) -> None:
        """The engine does not say how rare a word is."""

    def state(self) -> None:
        """The engine does not say whether something was written."""

    def kinds(self, filters: records.MemoryFilters) -> frozenset[MemoryKind]:
        """Return the kinds of which there may be rows."""
        return frozenset(filters.kinds or KINDS)  # to find out takes as long as to search

    def stats(self) -> records.MemoryStats:
        """Return what the collection holds."""
        rows = self.listed(records.NO_FILTERS, "oldest", None)
        by_kind, by_namespace = Counter(r.kind for r in rows), Counter(r.namespace for r in rows)
        vectors, (model, _) = sum(row.codes is not None for row in rows), self.model() or (None, 0)
        return records.MemoryStats(len(rows), by_kind, by_namespace, vectors, model)

    def drop_vectors(self) -> None:
        """Forget all vectors, and of which model they were."""
        with self.writing():
            if self.model() is not None:
                rows = self.listed(records.NO_FILTERS)
                self._client.delete_vector_name(self._name, _DENSE)
                self._client.update_collection(self._name, metadata={"model": None})
                self.put([row._replace(codes=None) for row in rows], {})

    def optimize(self) -> None:
        """The engine does so by itself."""

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _place(self) -> dict[str, Any]:
        if self._location.startswith("http"):
            key = os.environ.get("QDRANT_API_KEY")
            return {"url": self._location, "api_key": key, "check_compatibility": False}
        if self._location == ":memory:":
            return {"location": self._location}
        return {"path": self._location, "force_disable_check_same_thread": True}

    def _collection(self) -> Any:
        """Return what is known of the collection; `None` if there is none."""
        exists = self._client.collection_exists(self._name)
        return self._client.get_collection(self._name).config if exists else None

    def _created(self) -> Any:
        """Create the collection unless it is there, and return the types of Qdrant's client."""
        from qdrant_client import models

        if not self._client.collection_exists(self._name):
            words = {_SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)}
            configs = {"vectors_config": {}, "sparse_vectors_config": words}
            self._client.create_collection(self._name, **configs)
            kinds = models.PayloadSchemaType
            indexed = {**dict.fromkeys(_KEYWORDS, kinds.KEYWORD), "importance": kinds.FLOAT}
            indexed |= dict.fromkeys(_INTEGERS, kinds.INTEGER)
            # Without a server every search reads every record.
            for column, kind in indexed.items() if self._location.startswith("http") else ():
                self._client.create_payload_index(self._name, column, kind)
            self._client.update_collection(self._name, metadata={"version": _VERSION})
        elif not self._is_current:
            metadata: Any = self._collection().metadata or {}
            version = metadata.get("version", 1)
            if version > _VERSION:
                raise RuntimeError(f"its points are of version {version}: upgrade the package")
            if version < _VERSION:  # 3: the type of events and entities is next to their details
                rows = self._scroll(None)
                self._put(models, rows)
                # 2: an id is one of its namespace, and so is a point's
                moved = [row for row in rows if row.namespace and version < 2]
                gone = [_point_id(row._replace(namespace="")) for row in moved]
                self._client.delete(self._name, gone, wait=True)
                self._client.update_collection(self._name, metadata={"version": _VERSION})
        self._is_current = True
        return models

    def _query(self, by: Any, using: str, filters: records.MemoryFilters, limit: int) -> Scores:
        if self._collection() is None:
            return []
        given = {"query": by, "using": using, "query_filter": _filter(filters, {}, {})}
        wanted = {**given, "limit": limit, "with_payload": ["key"]}
        found = self._client.query_points(self._name, **wanted).points
        pairs = [(int(point.payload["key"]), float(point.score)) for point in found]
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))

    def _scroll(self, wanted: Any, *, order_by: Any = None, limit: int | None = None) -> list[Row]:
        rows, at = list[Row](), None
        size = limit or (1_000_000 if order_by else _PAGE)
        with self.reading():
            while self._collection() is not None:
                options = {"limit": size, "offset": at, "order_by": order_by}
                points, at = self._client.scroll(self._name, scroll_filter=wanted, **options)
                rows += [_row_of(point.payload) for point in points]
                if at is None or limit or order_by:
                    break
        return rows


def _row_of(payload: dict[str, Any]) -> Row:
    codes = payload.get("codes")
    known = {**payload, "codes": None if codes is None else b64decode(codes)}
    return Row._make(known.get(name) for name in Row._fields)


def _filter(
    filters: records.MemoryFilters, more: Mapping[str, Any], over: Mapping[str, int]
) -> Any:
    """Return the filters as Qdrant has them, with columns that hold one of, or more than, values."""
    from qdrant_client import models

    def any_of(columns: Mapping[str, Sequence[Any] | None]) -> list[Any]:
        held = {name: models.MatchAny(any=[*values]) for name, values in columns.items() if values}
        return [models.FieldCondition(key=name, match=match) for name, match in held.items()]

    given = (filters.kinds, filters.namespaces, filters.session_ids, filters.parent_ids)
    wanted = {**dict(zip(_KEYWORDS, (*given, filters.authors, filters.ids), strict=True)), **more}
    since, until = (to_stamp(one) if one else None for one in (filters.since, filters.until))
    bounds = (
        ("created_at", models.Range(gte=since, lt=until)),
        ("importance", models.Range(gte=filters.least_importance)),
        *((name, models.Range(gt=value)) for name, value in over.items()),
    )
    within = [models.FieldCondition(key=name, range=one) for name, one in bounds]
    either: list[Any] = []
    for kind, field in TYPE_FIELDS.items():
        if wanted_types := any_of({_TYPED: getattr(filters, f"{field}s")}):
            other = models.Filter(must_not=any_of({"kind": [kind]}))
            either.append(models.Filter(should=[other, *wanted_types]))
    unwanted = {"id": filters.excluded_ids, "session_id": filters.excluded_session_ids}
    must = [*any_of(wanted), *(one for one in within if one.range != models.Range())]
    must += [*either, *([models.HasIdCondition(has_id=[])] if filters.admit_nothing else ())]
    return models.Filter(must=must, must_not=any_of(unwanted))


def _point_id(row: Row) -> str:
    """Return the id of a record's point: Qdrant takes numbers and UUIDs only."""
    return str(uuid5(_IDS, "\0".join(filter(None, (row.id, row.namespace)))))


def _index(stem: str) -> int:
    return int.from_bytes(blake2b(stem.encode(), digest_size=4).digest())
