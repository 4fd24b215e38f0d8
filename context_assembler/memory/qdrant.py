"""Memories in a collection of Qdrant: of a server, in a folder, or in memory.

The engine searches, by words (a sparse vector, weighed by how rare they are) and by meaning. It knows
no transactions: after a crash a part of what one `remember` keeps may be there.
"""

import os
import time
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from threading import RLock
from typing import Any, Final
from uuid import UUID, uuid5

from context_assembler.errors import MemoryUnavailableError, MissingExtraError
from context_assembler.memory.kinds import KINDS, MemoryKind
from context_assembler.memory.records import MemoryFilters, MemoryOrder, MemoryStats, Vector
from context_assembler.memory.stores import Row, entry_of, to_moment, to_stamp
from context_assembler.memory.words import query_stems, record_stems

_DENSE: Final = "dense"
_SPARSE: Final = "words"
_SATURATION: Final = 1.2  # BM25's k1; the server knows how rare a word is (its IDF modifier)
_IDS: Final = UUID("6f8d7a1e-5b0c-4c52-9a57-1f7a5f1d2c3b")  # a change loses every record
_PAGE: Final = 1_000
_KEYWORDS: Final = ("kind", "namespace", "session_id", "parent_id", "author")
_INTEGERS: Final = ("key", "line", "digest", "created_at", "last_access_at")
_ORDERS: Final[Mapping[MemoryOrder | None, tuple[str, str]]] = {
    "newest": ("created_at", "desc"),
    "oldest": ("created_at", "asc"),
    "most_important": ("importance", "desc"),
    "last_accessed": ("last_access_at", "desc"),
    None: ("key", "asc"),
}


def open_table(url: str) -> "QdrantTable":
    """Return the collection of a server or folder: `qdrant:http://host:6333#memories`."""
    where, _, collection = url.partition(":")[2].partition("#")
    return QdrantTable(where or ":memory:", collection=collection or "memories")


class QdrantTable:
    """The rows of a memory store as points; `QDRANT_API_KEY` holds a server's key."""

    readers = 1

    def __init__(self, location: str, *, collection: str, timeout_seconds: int = 10) -> None:
        self._location, self._name = location, collection
        self._timeout_seconds = timeout_seconds
        self._lock = RLock()
        self._client: Any = None
        self._last_key = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        try:
            import qdrant_client
            from qdrant_client.http.exceptions import ApiException
        except ImportError as error:
            raise MissingExtraError("Keeping memories in Qdrant", extra="qdrant") from error
        with self._lock:
            try:
                if self._client is None:
                    self._client = self._open(qdrant_client.QdrantClient)
                yield
            except (ApiException, OSError, RuntimeError) as error:
                raise MemoryUnavailableError(
                    f"{self._location}#{self._name}",
                    reason=" ".join(str(error).split())[:200],
                    remedy="Check that the server runs, its address, QDRANT_API_KEY and its log; a "
                    "folder can be opened by one process at a time.",
                ) from error

    writing = reading

    def model(self) -> tuple[str, int] | None:
        with self.reading():
            if not self._client.collection_exists(self._name):
                return None
            known = self._client.get_collection(self._name).config.metadata or {}
            return (known["model"], known["dimension"]) if known.get("model") else None

    def use_model(self, model: str, dimension: int) -> None:
        self._create()
        models = _models()
        dense = models.DenseVectorConfig(size=dimension, distance=models.Distance.COSINE)
        config = models.DenseVectorNameConfig(dense=dense)
        self._client.create_vector_name(self._name, _DENSE, config)
        metadata = {"model": model, "dimension": dimension}
        self._client.update_collection(self._name, metadata=metadata)

    def rows(self, column: str, values: Sequence[Any]) -> list[Row]:
        models = _models()
        if not values:
            return []
        if column == "id":
            condition = models.HasIdCondition(has_id=[*map(_point_id, values)])
        else:
            condition = models.FieldCondition(key=column, match=models.MatchAny(any=[*values]))
        return self._scroll(models.Filter(must=[condition]))

    def next_key(self) -> int:
        return max(self._last_key + 1, time.time_ns() // 1_000)

    def put(self, rows: Sequence[Row], before: Mapping[int, Row]) -> None:
        if not rows:
            return
        self._create()
        models, points = _models(), []
        for row, own in zip(rows, record_stems([entry_of(row).own for row in rows]), strict=True):
            counts = Counter(map(_index, own))
            weights = {at: n * (_SATURATION + 1) / (n + _SATURATION) for at, n in counts.items()}
            sparse = models.SparseVector(indices=[*weights], values=[*weights.values()])
            vectors: dict[str, Any] = {_SPARSE: sparse} if weights else {}
            payload = {name: value for name, value in row._asdict().items() if value is not None}
            if row.codes:
                payload["codes"] = b64encode(row.codes).decode()
                vectors[_DENSE] = [*map(float, memoryview(row.codes).cast("b"))]
            points.append(models.PointStruct(id=_point_id(row.id), payload=payload, vector=vectors))
        self._client.upsert(self._name, points, wait=True)
        self._last_key = max(self._last_key, *(row.key for row in rows))

    def remove(self, rows: Sequence[Row]) -> None:
        if rows:
            self._client.delete(self._name, [_point_id(row.id) for row in rows], wait=True)

    def touch(self, ids: Sequence[str], stamp: int) -> None:
        times = Counter(ids)
        with self.writing():
            for row in self.rows("id", [*times]):
                used = max(row.last_access_at or stamp, stamp)
                count = row.access_count + times[row.id]
                payload = {"access_count": count, "last_access_at": used}
                self._client.set_payload(self._name, payload, [_point_id(row.id)], wait=True)

    def by_words(self, query: str, filters: MemoryFilters, limit: int) -> list[tuple[int, float]]:
        indices = sorted({*map(_index, query_stems(query))})
        if not indices:
            return []
        sparse = _models().SparseVector(indices=indices, values=[1.0] * len(indices))
        return self._query(sparse, _SPARSE, filters, limit)

    def by_vector(self, vector: Vector, filters: MemoryFilters, limit: int) -> list[int]:
        numbers = [*map(float, memoryview(vector.codes).cast("b"))]
        return [key for key, _ in self._query(numbers, _DENSE, filters, limit)]

    def listed(
        self,
        filters: MemoryFilters,
        order: MemoryOrder | None,
        limit: int | None,
        after_key: int = 0,
    ) -> list[Row]:
        models, (column, direction) = _models(), _ORDERS[order]
        wanted = _filter(filters)
        if order == "last_accessed" or after_key:
            bound = models.Range(gt=after_key)
            wanted.must.append(models.FieldCondition(key=column, range=bound))
        by = models.OrderBy(key=column, direction=direction)
        rows = self._scroll(wanted, order_by=by, limit=limit)
        is_down = direction == "desc"
        rows.sort(key=lambda row: (getattr(row, column), row.created_at, row.key), reverse=is_down)
        return rows

    def beside(self, ids: Sequence[str], before: int, after: int) -> dict[str, list[Row]]:
        found = self.rows("id", ids)
        lines: dict[int | None, list[Row]] = {}
        for row in self.rows("line", [*{row.line for row in found if row.line is not None}]):
            lines.setdefault(row.line, []).append(row)
        beside: dict[str, list[Row]] = {}
        for row in found:
            line = sorted(lines.get(row.line, ()), key=lambda one: one.key)
            earlier = [one for one in line if one.key < row.key]
            later = [one for one in line if one.key > row.key]
            beside[row.id] = [*earlier[max(len(earlier) - before, 0) :], *later[:after]]
        return beside

    def kinds(self, filters: MemoryFilters) -> frozenset[MemoryKind]:
        return frozenset(filters.kinds or KINDS)  # to find out takes as long as to search

    def stats(self) -> MemoryStats:
        rows = self.listed(MemoryFilters(), None, None)
        times = [row.created_at for row in rows]
        model = self.model() or (None, None)
        return MemoryStats(
            records=len(rows),
            by_kind=dict(sorted(Counter(row.kind for row in rows).items())),
            by_namespace=dict(sorted(Counter(row.namespace for row in rows).items())),
            vectors=sum(row.codes is not None for row in rows),
            vector_model=model[0],
            vector_dimension=model[1],
            oldest_at=to_moment(min(times)) if times else None,
            newest_at=to_moment(max(times)) if times else None,
            bytes=sum(len(row.text.encode()) + len(row.codes or b"") * 5 for row in rows),
        )

    def drop_vectors(self) -> None:
        with self.writing():
            if self.model() is not None:
                rows = self.listed(MemoryFilters(), None, None)
                self._client.delete_vector_name(self._name, _DENSE)
                self._client.update_collection(self._name, metadata={"model": None})
                self.put([row._replace(codes=None) for row in rows], {})

    def optimize(self) -> None:
        """The engine does so by itself."""

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open(self, make: Any) -> Any:
        if self._location.startswith(("http://", "https://")):
            return make(
                url=self._location,
                api_key=os.environ.get("QDRANT_API_KEY"),
                timeout=self._timeout_seconds,
                check_compatibility=False,
            )
        if self._location == ":memory:":
            return make(":memory:")
        return make(path=self._location, force_disable_check_same_thread=True)

    def _create(self) -> None:
        if self._client.collection_exists(self._name):
            return
        models = _models()
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        self._client.create_collection(
            self._name, vectors_config={}, sparse_vectors_config={_SPARSE: words}
        )
        if self._location.startswith("http"):  # without a server every search reads every record
            kinds = models.PayloadSchemaType
            indexed = dict.fromkeys(_KEYWORDS, kinds.KEYWORD) | {"importance": kinds.FLOAT}
            for column, kind in (indexed | dict.fromkeys(_INTEGERS, kinds.INTEGER)).items():
                self._client.create_payload_index(self._name, column, kind)

    def _query(
        self, query: Any, using: str, filters: MemoryFilters, limit: int
    ) -> list[tuple[int, float]]:
        if not self._client.collection_exists(self._name):
            return []
        found = self._client.query_points(
            self._name,
            query=query,
            using=using,
            query_filter=_filter(filters),
            limit=limit,
            with_payload=["key"],
        )
        pairs = [(int(point.payload["key"]), float(point.score)) for point in found.points]
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))

    def _scroll(self, wanted: Any, *, order_by: Any = None, limit: int | None = None) -> list[Row]:
        rows: list[Row] = []
        with self.reading():
            if not self._client.collection_exists(self._name):
                return []
            at = None
            while True:
                points, at = self._client.scroll(
                    self._name,
                    scroll_filter=wanted,
                    limit=limit or (1_000_000 if order_by else _PAGE),
                    offset=at,
                    order_by=order_by,
                )
                rows += [_row_of(point.payload) for point in points]
                if at is None or limit or order_by:
                    return rows


def _models() -> Any:
    from qdrant_client import models

    return models


def _row_of(payload: Mapping[str, Any]) -> Row:
    known = {name: payload.get(name) for name in Row._fields}
    codes = known["codes"]
    return Row(**{**known, "codes": None if codes is None else b64decode(codes)})


def _filter(filters: MemoryFilters) -> Any:
    models = _models()

    def any_of(column: str, names: Sequence[str]) -> list[Any]:
        match = models.MatchAny(any=[*names])
        return [models.FieldCondition(key=column, match=match)] if names else []

    def bound(column: str, **bounds: Any) -> list[Any]:
        limits = {name: value for name, value in bounds.items() if value is not None}
        given = models.Range(**limits) if limits else None
        return [models.FieldCondition(key=column, range=given)] if limits else []

    ids = [models.HasIdCondition(has_id=[*map(_point_id, filters.excluded_ids)])]
    return models.Filter(
        must=[
            *any_of("kind", filters.kinds),
            *any_of("namespace", filters.namespaces),
            *any_of("session_id", filters.session_ids),
            *any_of("parent_id", filters.parent_ids),
            *any_of("author", filters.authors),
            *bound("created_at", gte=filters.since and to_stamp(filters.since)),
            *bound("created_at", lt=filters.until and to_stamp(filters.until)),
            *bound("importance", gte=filters.least_importance),
        ],
        must_not=[
            *(ids if filters.excluded_ids else ()),
            *any_of("session_id", filters.excluded_session_ids),
        ],
    )


def _point_id(memory_id: str) -> str:
    """Return the id of a record's point: Qdrant takes numbers and UUIDs only."""
    return str(uuid5(_IDS, memory_id))


def _index(stem: str) -> int:
    return int.from_bytes(blake2b(stem.encode(), digest_size=4).digest())
