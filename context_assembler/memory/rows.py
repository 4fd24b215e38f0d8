"""Memories as rows of engines that know no SQL: what stands in a row, and tests on it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from context_assembler.errors import VectorModelError
from context_assembler.memory.damage import DAMAGES, unreadable
from context_assembler.memory.preparing import PreparedRecord, text_leaves
from context_assembler.memory.vector_scan import load_numpy
from context_assembler.values.codec import load_json
from context_assembler.values.json_bounds import shown
from context_assembler.values.json_shapes import is_object
from context_assembler.values.leaf_codecs import FieldError
from context_assembler.values.memories.codec import MEMORY_FORMAT_VERSION, decode_memory
from context_assembler.values.memories.kept_names import can_be_kept
from context_assembler.values.memories.records import (
    FIRST_MOMENT,
    LAST_MOMENT,
    MAX_ID_CHARS,
    MemoryFilters,
    MemoryRecord,
)
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.parts import Json

Row: TypeAlias = dict[str, Any]
"""A record's fields by the name of the column; `words` and `context` are what it is found by.

`place` is the order of storing, `line` what records stand in a row in, `digest` the hash of what
makes two records the same. Times are microseconds since 1970.
"""

TEXT_COLUMNS: Final = (
    "id",
    "kind",
    "namespace",
    "session_id",
    "parent_id",
    "author",
    "text",
    "details",
)
WHOLE_COLUMNS: Final = (
    "line",
    "digest",
    "created_at",
    "access_count",
    "last_access_at",
    "format_version",
    "place",
)
COLUMNS: Final = (*TEXT_COLUMNS, *WHOLE_COLUMNS, "importance")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NOBODY: Final = "-" * (MAX_ID_CHARS + 1)
_NEVER_NONE: Final = ("id", "kind", "text", "namespace", "importance", "format_version")
_SAME: Final = (
    "id",
    "kind",
    "text",
    "namespace",
    "session_id",
    "parent_id",
    "author",
    "importance",
    "access_count",
)


RowOperator: TypeAlias = Literal["in", "not in", "=", ">=", "<"]


@dataclass(frozen=True, slots=True)
class RowTest:
    """A condition that a row must meet; a row without a value is in nothing, and beyond no bound."""

    column: str
    operator: RowOperator
    value: Any


@dataclass(frozen=True, slots=True)
class VectorModel:
    """Which vectors a table keeps."""

    name: str
    dimension: int

    def check(self, vector: Vector) -> None:
        """Refuse a vector that cannot be compared with these.

        Raises:
            VectorModelError: It is of another model or dimension.
        """
        if (vector.model, vector.dimension) != (self.name, self.dimension):
            raise VectorModelError(
                f"{vector.model!r} with {vector.dimension} dimensions",
                kept=f"{self.name!r} with {self.dimension}",
            )


def tests_of(filters: MemoryFilters) -> list[RowTest]:
    """Return the tests that the filters amount to."""
    return [
        RowTest(test.column, test.operator, to_stamp(test.value))
        if isinstance(test.value, datetime)
        else test
        for test in plain_tests(filters)
    ]


def plain_tests(filters: MemoryFilters) -> list[RowTest]:
    """Return the tests that the filters amount to, with times as they are.

    In the place of a name that no engine can be asked for stands one that no record has.
    """
    lists: tuple[tuple[str, RowOperator, Sequence[str]], ...] = (
        ("kind", "in", filters.kinds),
        ("namespace", "in", filters.namespaces),
        ("session_id", "in", filters.session_ids),
        ("parent_id", "in", filters.parent_ids),
        ("author", "in", filters.authors),
        ("id", "not in", filters.excluded_ids),
        ("session_id", "not in", filters.excluded_session_ids),
    )
    bounds: tuple[tuple[str, RowOperator, datetime | float | None], ...] = (
        ("created_at", ">=", filters.since),
        ("created_at", "<", filters.until),
        ("importance", ">=", filters.least_importance),
    )
    return [
        *(
            RowTest(column, operator, [n if can_be_kept(n) else _NOBODY for n in names])
            for column, operator, names in lists
            if names
        ),
        *(
            RowTest(column, operator, bound)
            for column, operator, bound in bounds
            if bound is not None
        ),
    ]


def make_row(prepared: PreparedRecord, *, place: int) -> Row:
    """Return the record as a row, without what it is found by."""
    record = prepared.record
    accessed = record.last_access_at
    codes = None if record.vector is None else memoryview(record.vector.codes).cast("b")
    return {
        "id": prepared.memory_id,
        "kind": record.kind,
        "namespace": record.namespace,
        "session_id": record.session_id,
        "parent_id": record.parent_id,
        "author": record.author,
        "line": prepared.line,
        "digest": prepared.digest,
        "text": prepared.text,
        "details": None if prepared.details is None else prepared.details.decode(),
        "created_at": to_stamp(prepared.created_at),
        "importance": record.importance,
        "access_count": record.access_count,
        "last_access_at": None if accessed is None else to_stamp(accessed),
        "format_version": MEMORY_FORMAT_VERSION,
        "place": place,
        "vector": None if codes is None else [float(code) for code in codes],
    }


def read_row(row: Row, model: VectorModel | None) -> MemoryRecord:
    """Return the record of a row.

    Raises:
        MemoryFormatError: The row is damaged, or of a newer version.
    """
    try:
        return _read_row(row, model)
    except DAMAGES as error:
        raise unreadable(row["id"], error) from error


def text_of(row: Row) -> str:
    """Return all that a record is found by: its text, its details and its author.

    What is damaged of it says nothing.
    """
    parts = (row["text"], *_leaves_of(row), row["author"])
    return "\n".join(part for part in parts if isinstance(part, str))


def place_of(row: Row) -> tuple[int, str]:
    """Return where a row stands in the order of storing; a damaged one may stand before all."""
    place = row["place"]
    return place if isinstance(place, int) else 0, str(row["id"])


def number_in(row: Row, column: str, *, otherwise: float) -> float:
    """Return a number of a row; another where it is damaged."""
    stored = row[column]
    return stored if isinstance(stored, (int, float)) else otherwise


def pack_vector(numbers: Any, model: str) -> Vector | None:
    """Return the vector of an engine's numbers; `None` where they have no direction."""
    if numbers is None:
        return None
    numpy = load_numpy()
    exact = numpy.asarray(numbers, dtype=numpy.float64)
    largest = numpy.abs(exact).max(initial=0.0)
    if not 0 < largest < numpy.inf:
        return None
    return Vector(model=model, codes=numpy.rint(exact * (127 / largest)).astype("int8").tobytes())


def unit_numbers(vector: Vector) -> list[float]:
    """Return the vector as numbers, of length 1."""
    numbers = memoryview(vector.codes).cast("b")
    length = sum(n * n for n in numbers) ** 0.5
    return [n / length for n in numbers]


def to_stamp(moment: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def to_moment(stamp: int) -> datetime:
    """Return the time that `to_stamp` was given, in UTC, or the nearest that there is.

    Raises:
        FieldError: The row is damaged: that is no number.
    """
    try:
        return _EPOCH + timedelta(microseconds=stamp)
    except OverflowError:
        return FIRST_MOMENT if stamp < 0 else LAST_MOMENT
    except TypeError:
        raise FieldError("time", f"{shown(stamp)} is no number") from None


def _read_row(row: Row, model: VectorModel | None) -> MemoryRecord:
    for name in _NEVER_NONE:
        if row[name] is None:
            raise FieldError(name, "missing")
    encoded: dict[str, Json] = {name: row[name] for name in _SAME}
    encoded["version"] = row["format_version"]
    encoded |= _details_of(row)
    record = decode_memory(encoded, where=f"The memory {row['id']!r}")
    vector = None if model is None else pack_vector(row.get("vector"), model.name)
    if model is not None and vector is not None:
        model.check(vector)
    accessed = row["last_access_at"]
    return replace(
        record,
        created_at=to_moment(row["created_at"]),
        last_access_at=None if accessed is None else to_moment(accessed),
        vector=vector,
    )


def _details_of(row: Row) -> dict[str, Json]:
    if row["details"] is None:
        return {}
    try:
        details = load_json(row["details"].encode())
    except (AttributeError, ValueError) as error:
        raise FieldError("details", f"not JSON ({error})") from None
    if not is_object(details):
        raise ValueError("its details are no object")
    return dict(details)


def _leaves_of(row: Row) -> list[str]:
    try:
        return list(text_leaves(_details_of(row)))
    except DAMAGES:
        return []
