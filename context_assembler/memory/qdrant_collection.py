"""The rows of a memory store as points of a collection of Qdrant."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from context_assembler.errors import MemoryUnavailableError
from context_assembler.memory.asked_parts import check_place_name
from context_assembler.memory.qdrant_connection import (
    QdrantConnection,
    counted,
    explained,
    is_missing,
)
from context_assembler.memory.qdrant_points import (
    DENSE,
    SPARSE,
    count_point_bytes,
    filter_of,
    load_models,
    load_qdrant,
    make_point,
    point_id,
    row_of,
    sparse_query,
)
from context_assembler.memory.qdrant_state import metadata_of, model_of, read_state
from context_assembler.memory.rows import Row, RowTest, VectorModel, number_in, unit_numbers
from context_assembler.values.memories.vectors import Vector

_READERS: Final = 4
_PAGE: Final = 1_000
_POINTS_PER_CALL: Final = 500
_KEYWORDS: Final = ("kind", "namespace", "session_id", "parent_id", "author")
_INTEGERS: Final = ("created_at", "last_access_at", "place", "line", "digest")
_NO_NEW_VECTORS: Final = (
    "Upgrade the server to 1.18 or newer, or export the memories, and import them with vectors "
    "into another collection."
)


class QdrantCollection:
    """The rows of a memory store as points of a collection of Qdrant."""

    def __init__(self, connection: QdrantConnection, *, collection: str) -> None:
        self._connection = connection
        check_place_name("collection", collection)
        self._name = collection
        self.readers = _READERS if connection.is_server else 0

    @property
    def location(self) -> str:
        """What the collection is called in errors."""
        return f"{self._connection.location}#{self._name}"

    def load(self) -> None:
        """Import the engine's package, which takes seconds."""
        load_qdrant()

    def read_model(self) -> VectorModel | None:
        """Return which vectors are kept; `None` where none ever were."""
        with explained(self.location):
            client = self._connection.client(is_writing=False)
            return model_of(self._state(client) or {})

    def find(
        self,
        tests: Sequence[RowTest],
        *,
        columns: Sequence[str] | None = None,
        order: Sequence[str] = (),
        is_descending: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows that meet all tests."""
        if limit == 0:
            return []
        with explained(self.location):
            client = self._reader()
            if client is None:
                return []
            if limit is not None and order:
                return self._first_of_order(client, tests, order, is_descending, limit)
            payload = True if columns is None else list(columns)
            match tests:
                case [RowTest("id", "in", ids)]:  # which Qdrant looks up without a search
                    rows = iter(self._look_up(client, ids, payload))
                case _:
                    rows = self._scroll_all(client, tests, payload)
            return list(islice(rows, limit))

    def find_by_words(
        self, stems: Sequence[str], tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        """Return the rows that hold any of the stems, with positive scores, best first."""
        return self._query(sparse_query(stems), SPARSE, tests, limit)

    def find_by_vector(
        self, vector: Vector, tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        """Return the rows whose vectors lie nearest, with their cosines, best first."""
        return self._query(unit_numbers(vector), DENSE, tests, limit)

    def put(self, rows: Sequence[Row], *, model: VectorModel | None) -> None:
        """Keep the rows in the place of those of their ids, with the vectors of that model."""
        with explained(self.location):
            client = self._connection.client(is_writing=True)
            state = self._state(client)
            if state is None:
                self._create(client, model)
            elif model is not None and model_of(state) is None:
                self._add_vectors(client, model)
            points = [make_point(row) for row in rows]
        for start in range(0, len(points), _POINTS_PER_CALL):
            with counted(start, len(points)), explained(self.location):
                client.upsert(self._name, points[start : start + _POINTS_PER_CALL], wait=True)

    def remove(self, memory_ids: Sequence[str]) -> None:
        """Remove the rows of these ids."""
        with explained(self.location):
            if (client := self._reader()) is not None:
                client.delete(self._name, [point_id(n) for n in memory_ids], wait=True)

    def touch(self, memory_ids: Sequence[str], *, times: int, stamp: int) -> None:
        """Count that the rows were used that often, the last time at that moment."""
        with explained(self.location):
            client = self._reader()
            if client is None:
                return
            models = load_models()
            wanted = [point_id(memory_id) for memory_id in memory_ids]
            rows = map(row_of, client.retrieve(self._name, wanted))
            changes = [
                models.SetPayloadOperation(
                    set_payload=models.SetPayload(
                        points=[point_id(row["id"])],
                        payload={
                            "access_count": number_in(row, "access_count", otherwise=0) + times,
                            "last_access_at": max(
                                number_in(row, "last_access_at", otherwise=stamp), stamp
                            ),
                        },
                    )
                )
                for row in rows
            ]
            if changes:
                client.batch_update_points(self._name, changes, wait=True)

    def drop_vectors(self) -> None:
        """Forget all vectors, and which they were."""
        with explained(self.location):
            client = self._reader()
            if client is not None and model_of(self._state(client) or {}) is not None:
                client.delete_vector_name(self._name, DENSE)
                self._note(client, None)

    def count_vectors(self) -> int:
        """Return how many rows have a vector."""
        with explained(self.location):
            client = self._reader()
            models = load_models()
            having = models.Filter(must=[models.HasVectorCondition(has_vector=DENSE)])
            return 0 if client is None else int(client.count(self._name, having).count)

    def count_bytes(self) -> int:
        """Return about how much room texts and vectors take."""
        model = self.read_model()
        rows = self.find([], columns=("text", "details"))
        dimension = 0 if model is None else model.dimension
        return sum(count_point_bytes(row, dimension=dimension) for row in rows)

    def close(self) -> None:
        """Let go of files and connections; the next call opens them again."""
        self._connection.close()

    def _reader(self) -> Any:
        """Return the client; `None` where there is no collection yet."""
        client = self._connection.client(is_writing=False)
        return None if self._state(client) is None else client

    def _state(self, client: Any) -> dict[str, Any] | None:
        """Return what is known of the collection; `None` where there is none."""
        return None if client is None else read_state(client, self._name, location=self.location)

    def _create(self, client: Any, model: VectorModel | None) -> None:
        models = load_models()
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        dense = {} if model is None else {DENSE: _dense(models.VectorParams, models, model)}
        client.create_collection(
            self._name,
            vectors_config=dense,
            sparse_vectors_config={SPARSE: words},
            metadata=metadata_of(model),
        )
        if not self._connection.is_server:  # where every search reads every record
            return
        kinds = models.PayloadSchemaType
        indexed = dict.fromkeys(_KEYWORDS, kinds.KEYWORD) | dict.fromkeys(_INTEGERS, kinds.INTEGER)
        for column, kind in (indexed | {"importance": kinds.FLOAT}).items():
            client.create_payload_index(self._name, column, kind)

    def _add_vectors(self, client: Any, model: VectorModel) -> None:
        models = load_models()
        config = models.DenseVectorNameConfig(dense=_dense(models.DenseVectorConfig, models, model))
        try:
            client.create_vector_name(self._name, DENSE, config)
        except Exception as error:
            if not is_missing(error):
                raise
            reason = "the server adds no vectors to a collection that has none"
            raise MemoryUnavailableError(
                self.location, reason=reason, remedy=_NO_NEW_VECTORS
            ) from error
        self._note(client, model)

    def _note(self, client: Any, model: VectorModel | None) -> None:
        client.update_collection(self._name, metadata=metadata_of(model))

    def _query(
        self, query: Any, using: str, tests: Sequence[RowTest], limit: int
    ) -> list[tuple[Row, float]]:
        with explained(self.location):
            client = self._reader()
            if client is None:
                return []
            found = client.query_points(
                self._name,
                query=query,
                using=using,
                query_filter=filter_of(tests),
                limit=limit,
                with_vectors=[DENSE],
            )
            return [(row_of(point), point.score) for point in found.points]

    def _look_up(
        self, client: Any, memory_ids: Sequence[str], payload: bool | list[str]
    ) -> list[Row]:
        points = client.retrieve(
            self._name,
            [point_id(memory_id) for memory_id in memory_ids],
            with_payload=payload,
            with_vectors=[DENSE] if payload is True else False,
        )
        return [row_of(point) for point in points]

    def _scroll_all(
        self, client: Any, tests: Sequence[RowTest], payload: bool | list[str]
    ) -> Iterator[Row]:
        at = None
        while True:
            points, at = client.scroll(
                self._name,
                scroll_filter=filter_of(tests),
                limit=_PAGE,
                offset=at,
                with_payload=payload,
                with_vectors=[DENSE] if payload is True else False,
            )
            yield from map(row_of, points)
            if at is None:
                return

    def _first_of_order(
        self,
        client: Any,
        tests: Sequence[RowTest],
        order: Sequence[str],
        is_descending: bool,
        limit: int,
    ) -> list[Row]:
        """Return the first rows; of those alike in one column the next decides."""
        column, *rest = order
        points, _ = client.scroll(
            self._name,
            scroll_filter=filter_of(tests),
            limit=limit + 1,
            order_by=load_models().OrderBy(
                key=column, direction="desc" if is_descending else "asc"
            ),
            with_vectors=[DENSE],
        )
        rows = [row_of(point) for point in points]
        if rest and len(rows) > limit and rows[limit][column] == rows[limit - 1][column]:
            tied = rows[limit][column]
            rows = [row for row in rows if row[column] != tied]
            alike = [*tests, RowTest(column, "=", tied)]
            last = self._first_of_order(client, alike, rest, is_descending, limit - len(rows))
        else:
            rows, last = rows[:limit], []
        rows.sort(key=lambda row: [row[name] for name in order], reverse=is_descending)
        return [*rows, *last]


def _dense(make: Any, models: Any, model: VectorModel) -> Any:
    return make(size=model.dimension, distance=models.Distance.COSINE)
