"""Rows as points of Qdrant: payloads, vectors and filters."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from importlib import import_module
from typing import Any, Final
from uuid import UUID, uuid5

from context_assembler.errors import MissingExtraError
from context_assembler.memory.rows import COLUMNS, Row, RowTest

DENSE: Final = "dense"
SPARSE: Final = "words"

_CONTEXT_WEIGHT: Final = 0.3  # of a word beside the record's own
_SATURATION: Final = 1.2  # BM25's k1; the server knows how rare a word is (its IDF modifier)
_IDS: Final = UUID("6f8d7a1e-5b0c-4c52-9a57-1f7a5f1d2c3b")  # changing this loses every record


def load_qdrant(module: str = "qdrant_client") -> Any:
    """Return a module of Qdrant's client.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError("Keeping memories in Qdrant", extra="qdrant") from error


def load_models() -> Any:
    """Return the types that Qdrant's client speaks."""
    return load_qdrant("qdrant_client.models")


def point_id(memory_id: str) -> str:
    """Return the id of a record's point, as Qdrant takes numbers and UUIDs only."""
    return str(uuid5(_IDS, memory_id))


def make_point(row: Row) -> Any:
    """Return the row as a point."""
    models = load_models()
    vectors: dict[str, Any] = {}
    if weights := _weights(row["words"], row["context"]):
        vectors[SPARSE] = models.SparseVector(indices=[*weights], values=[*weights.values()])
    if row.get("vector") is not None:
        vectors[DENSE] = [float(number) for number in row["vector"]]
    payload = {name: row[name] for name in COLUMNS if row[name] is not None}
    return models.PointStruct(id=point_id(row["id"]), payload=payload, vector=vectors)


def row_of(point: Any) -> Row:
    """Return the row of a point."""
    payload: Row = point.payload or {}
    vectors: Row = point.vector or {}
    row: Row = {name: payload.get(name) for name in COLUMNS}
    row["vector"] = vectors.get(DENSE)
    return row


def sparse_query(stems: Iterable[str]) -> Any:
    """Return a query for points that hold any of the stems."""
    indices = sorted({_index(stem) for stem in stems})
    return load_models().SparseVector(indices=indices, values=[1.0] * len(indices))


def filter_of(tests: Sequence[RowTest]) -> Any:
    """Return the tests as a filter; `None` for none."""
    if not tests:
        return None
    return load_models().Filter(
        must=[_own_condition(test) for test in tests if test.operator != "not in"],
        must_not=[_own_condition(test) for test in tests if test.operator == "not in"],
    )


def condition_of(test: RowTest) -> Any:
    """Return the test on a field of the payload; of `not in` what must not be."""
    models = load_models()
    match test.operator:
        case "in" | "not in":
            return models.FieldCondition(key=test.column, match=models.MatchAny(any=test.value))
        case "=":
            bounds = models.Range(gte=test.value, lte=test.value)
        case ">=":
            bounds = models.Range(gte=test.value)
        case "<":
            bounds = models.Range(lt=test.value)
    return models.FieldCondition(key=test.column, range=bounds)


def count_point_bytes(row: Mapping[str, Any], *, dimension: int) -> int:
    """Return about how much room a point takes: its texts, and a float for each dimension."""
    texts = sum(
        len(row[name].encode()) for name in ("text", "details") if isinstance(row[name], str)
    )
    return texts + 4 * dimension + 8 * len(COLUMNS)


def _weights(words: Sequence[str], context: Sequence[str]) -> dict[int, float]:
    counts: Counter[int] = Counter()
    weights: dict[int, float] = {}
    for stem in words:
        counts[_index(stem)] += 1
    for index, count in counts.items():
        weights[index] = float(count)
    for stem in context:
        index = _index(stem)
        weights[index] = weights.get(index, 0.0) + _CONTEXT_WEIGHT
    return {
        index: weight * (_SATURATION + 1) / (weight + _SATURATION)
        for index, weight in sorted(weights.items())
    }


def _index(stem: str) -> int:
    return int.from_bytes(blake2b(stem.encode(), digest_size=4).digest())


def _own_condition(test: RowTest) -> Any:
    if test.column == "id":
        return load_models().HasIdCondition(has_id=[point_id(n) for n in test.value])
    return condition_of(test)
