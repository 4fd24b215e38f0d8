"""Records out of tables that others made: which of their fields is which of ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from context_assembler.errors import InvalidParameterError, MemoryFormatError
from context_assembler.memory.damage import DAMAGES, unreadable
from context_assembler.memory.rows import (
    Row,
    RowTest,
    pack_vector,
    plain_tests,
    to_moment,
    to_stamp,
)
from context_assembler.values.given import check_type
from context_assembler.values.json_shapes import is_object
from context_assembler.values.leaf_codecs import FieldError
from context_assembler.values.memories.codec import decode_memory
from context_assembler.values.memories.kinds import MemoryKind, check_kind
from context_assembler.values.memories.records import (
    USUAL_IMPORTANCE,
    MemoryFilters,
    MemoryRecord,
    check_moment,
)
from context_assembler.values.parts import Json

_REMEDY: Final = "Correct the field, or leave its name out of FieldNames."
_NAMED: Final = ("namespace", "session_id", "parent_id", "author", "importance")
_PATHS: Final = ("id", "kind", "created_at", "vector", *_NAMED)
_MICROSECONDS_BY_UNIT: Final[Mapping[str, int]] = {
    "seconds": 1_000_000,
    "milliseconds": 1_000,
    "microseconds": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldNames:
    """Where the fields of a memory stand in a table of one's own; a dot leads inside a field.

    A field without a name holds its default in every record, and filters know that: nothing is
    found in the namespace `shop` of a table that has no namespaces.

    Attributes:
        id: `None`: the engine's own number or id.
        kind: The field that names the kind; without it every record is `of_kind`.
        created_at: By `time_unit` ISO text or a column of times (UTC unless they say otherwise),
            or a number since 1970.
        vector: In LanceDB a column, in Qdrant the name of a vector, empty for the one without.
        metadata: Fields by what they are called in the kind's metadata; what it does not have goes
            to `extras`.
    """

    text: str = "text"
    id: str | None = None
    kind: str | None = None
    of_kind: MemoryKind = "memories"
    namespace: str | None = None
    session_id: str | None = None
    parent_id: str | None = None
    author: str | None = None
    created_at: str | None = None
    time_unit: Literal["text", "seconds", "milliseconds", "microseconds"] = "text"
    importance: str | None = None
    vector: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        check_kind(self.of_kind)
        for name in ("text", *_PATHS):
            given = getattr(self, name)
            if given is not None or name == "text":
                check_type(name, given, str, such_as="the name of a field")
        check_type("metadata", self.metadata, Mapping, such_as="{'path': 'file'}")
        for ours, path in self.metadata.items():
            check_type(f"metadata[{ours!r}]", path, str, such_as="the name of a field")
        check_type("time_unit", self.time_unit, str, such_as="'text'")
        if self.time_unit != "text" and self.time_unit not in _MICROSECONDS_BY_UNIT:
            raise InvalidParameterError(
                "time_unit",
                self.time_unit,
                rule="must be a unit that is known",
                remedy=f"Use one of text, {', '.join(_MICROSECONDS_BY_UNIT)}.",
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The fields that are read, without what stands inside of them."""
        named = (self.text, self.id, self.kind, self.created_at)
        others = (getattr(self, name) for name in _NAMED)
        paths = (*named, *others, *self.metadata.values())
        return tuple(dict.fromkeys(path.partition(".")[0] for path in paths if path))


def tests_on(filters: MemoryFilters, names: FieldNames) -> list[RowTest] | None:
    """Return the filters as tests on the named fields; `None` where nothing can meet them.

    Tests on `created_at` hold a time, those on the id texts, with `id` for a column without name.
    """
    defaults = {"kind": names.of_kind, "namespace": "", "importance": USUAL_IMPORTANCE}
    tests: list[RowTest] = []
    for test in plain_tests(filters):
        column: str | None = getattr(names, test.column)
        if column is not None or test.column == "id":
            tests.append(replace(test, column=column or "id"))
        elif not _holds(test, defaults.get(test.column)):
            return None
    return tests


def read_record(
    values: Mapping[str, Any], names: FieldNames, *, own_id: object, model: str | None, vector: Any
) -> MemoryRecord:
    """Return the record that the fields of a row or payload make.

    Args:
        own_id: What the engine calls the row.
        vector: The numbers of its vector, if it has one.

    Raises:
        MemoryFormatError: A field cannot be what it is said to be.
    """
    memory_id = own_id if names.id is None else field_at(values, names.id)
    where = f"The memory {str(memory_id)!r}"
    encoded: dict[str, Json] = {
        "id": str(memory_id),
        "kind": field_at(values, names.kind) or names.of_kind,
        "text": field_at(values, names.text) or "",
        "metadata": {
            ours: plain
            for ours, path in names.metadata.items()
            if (plain := _plain(field_at(values, path))) is not None
        },
    }
    encoded |= {name: _plain(field_at(values, getattr(names, name))) for name in _NAMED}
    try:
        moment = _moment(field_at(values, names.created_at), names.time_unit)
        record = decode_memory(encoded, where=where)
        packed = None if model is None else pack_vector(vector, model)
    except DAMAGES as error:
        raise unreadable(str(memory_id), error, _REMEDY) from error
    return replace(record, created_at=moment, vector=packed)


def found_row(
    values: Mapping[str, Any],
    names: FieldNames,
    *,
    own_id: object,
    model: str | None,
    vector: Any,
    place: int | None = None,
) -> Row:
    """Return a row of what a ranking needs; the order is that of time where there is no other.

    Its `record` may be the error of one that cannot be read.
    """
    try:
        record = read_record(values, names, own_id=own_id, model=model, vector=vector)
    except MemoryFormatError as error:
        return {"id": str(own_id), "place": place or 0, "record": error}
    if place is None:
        place = 0 if record.created_at is None else to_stamp(record.created_at)
    return {"id": record.id, "place": place, "record": record}


def since_1970(moment: datetime, unit: str) -> float:
    """Return the time as a number of that unit."""
    return to_stamp(moment) / _MICROSECONDS_BY_UNIT[unit]


def field_at(values: Mapping[str, Any], path: str | None) -> Any:
    """Return what stands at the path; `None` where nothing does."""
    if path is None:
        return None
    found: Any = values
    for name in path.split("."):
        found = found.get(name) if is_object(found) else None
    return found


def _holds(test: RowTest, value: Any) -> bool:
    match test.operator:
        case "in":
            return value in test.value
        case "not in":
            return value not in test.value
        case _:
            return value is not None and value >= test.value


def _moment(given: Any, unit: str) -> datetime | None:
    match given:
        case None:
            return None
        case datetime():
            moment = given
        case str():
            moment = datetime.fromisoformat(given)
        case int() | float() if unit in _MICROSECONDS_BY_UNIT:
            stamp = round(given * _MICROSECONDS_BY_UNIT[unit])
            if to_stamp(moment := to_moment(stamp)) != stamp:
                told = f"{given!r} {unit} since 1970 lie beyond the years 1 to 9999"
                raise FieldError("created_at", f"{told}; is that its time_unit?")
        case _:
            raise FieldError("created_at", f"{given!r} is no time; what is its time_unit?")
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    check_moment("created_at", moment)
    return moment


def _plain(value: Any) -> Any:
    """Return the value as JSON has it, as far as that is a matter of numbers and times."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value
