"""A collection of one's own in Qdrant, as memories."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from context_assembler.errors import MemoryUnavailableError
from context_assembler.memory.asked_parts import check_place_name
from context_assembler.memory.field_names import (
    FieldNames,
    found_row,
    since_1970,
)
from context_assembler.memory.qdrant_connection import QdrantConnection, explained
from context_assembler.memory.qdrant_points import condition_of, load_models, load_qdrant
from context_assembler.memory.rows import Row, RowTest, unit_numbers
from context_assembler.values.json_shapes import is_object
from context_assembler.values.memories.vectors import Vector


class OwnQdrantCollection:
    """Searches a collection by its vectors; of words Qdrant itself tells no scores."""

    def __init__(
        self,
        connection: QdrantConnection,
        *,
        collection: str,
        fields: FieldNames,
        model: str | None,
    ) -> None:
        self._connection = connection
        check_place_name("collection", collection)
        self._name = collection
        self._fields = fields
        self._vector = fields.vector or ""
        self._model = model

    @property
    def is_shared(self) -> bool:
        """Whether several threads may read at once."""
        return self._connection.is_server

    @property
    def location(self) -> str:
        """What the collection is called in errors."""
        return f"{self._connection.location}#{self._name}"

    def load(self) -> None:
        """Import the engine's package, which takes seconds."""
        load_qdrant()

    def dimension(self) -> int | None:
        """Return how many numbers a vector has."""
        with explained(self.location):
            vectors = self._client().get_collection(self._name).config.params.vectors
        by_name: Mapping[str, Any] = vectors if is_object(vectors) else {"": vectors}
        found = by_name.get(self._vector)
        if found is None:
            names = ", ".join(repr(name) for name, kind in by_name.items() if kind is not None)
            raise MemoryUnavailableError(
                self.location,
                reason=f"it has no vector {self._vector!r}, but {names or 'none at all'}",
                remedy="Name it in FieldNames(vector=…); '' is the one without a name.",
            )
        return int(found.size)

    def find_by_words(
        self,
        query: str,  # noqa: ARG002
        tests: Sequence[RowTest],  # noqa: ARG002
        *,
        limit: int,  # noqa: ARG002
    ) -> list[tuple[Row, float]]:
        """Return nothing: a collection of one's own is searched by meaning alone."""
        return []

    def find_by_vector(
        self, vector: Vector, tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        """Return the points whose vectors lie nearest, by the collection's own distance."""
        models = load_models()
        with explained(self.location):
            found = self._client().query_points(
                self._name,
                query=unit_numbers(vector),
                using=self._vector or None,
                query_filter=models.Filter(
                    must=[self._condition(t) for t in tests if t.operator != "not in"],
                    must_not=[
                        c for t in tests if t.operator == "not in" for c in self._conditions(t)
                    ],
                ),
                limit=limit,
                with_payload=True,
                with_vectors=[self._vector] if self._vector else True,
            )
        points = found.points
        # A similarity falls, a distance rises; more must stand for the nearer.
        sign = -1 if points and points[0].score < points[-1].score else 1
        return [(self._row(point), sign * point.score) for point in points]

    def close(self) -> None:
        """Let go of the connection; the next call opens it again."""
        self._connection.close()

    def _row(self, point: Any) -> Row:
        vector = point.vector.get(self._vector) if self._vector else point.vector
        return found_row(
            point.payload or {},
            self._fields,
            own_id=point.id,
            model=self._model,
            vector=vector,
        )

    def _condition(self, test: RowTest) -> Any:
        if not isinstance(test.value, datetime):
            return condition_of(test)
        models = load_models()
        bound = "gte" if test.operator == ">=" else "lt"
        unit = self._fields.time_unit
        bounds = (
            models.DatetimeRange(**{bound: test.value})
            if unit == "text"
            else models.Range(**{bound: since_1970(test.value, unit)})
        )
        return models.FieldCondition(key=test.column, range=bounds)

    def _conditions(self, test: RowTest) -> list[Any]:
        """Return what the values mean, which may be texts or numbers there."""
        models = load_models()
        numbers = [int(value) for value in test.value if value.isascii() and value.isdigit()]
        if test.column == "id" and self._fields.id is None:
            return [models.HasIdCondition(has_id=[*numbers, *filter(_is_uuid, test.value)])]
        as_numbers = [replace(test, value=numbers)] if numbers else []
        return [condition_of(kind) for kind in (test, *as_numbers)]

    def _client(self) -> Any:
        client = self._connection.client(is_writing=False)
        if client is None:
            raise MemoryUnavailableError(
                self.location, reason="there is no such folder", remedy="Check the folder."
            )
        return client


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
