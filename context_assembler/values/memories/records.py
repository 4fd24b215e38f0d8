"""A memory, what is asked of a source of memories, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, NoReturn, TypeAlias, TypeGuard

from context_assembler.errors import InvalidParameterError
from context_assembler.values.memories.kept_names import can_be_kept, several_names
from context_assembler.values.memories.kinds import KINDS, MemoryKind, check_kind
from context_assembler.values.memories.metadata import Metadata
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.parts import JsonObject

MAX_ID_CHARS: Final = 512
USUAL_IMPORTANCE: Final = 0.5

MAX_COUNT: Final = 2**53
"""Up to here every whole number is exact in JSON, and every store can keep it."""

MAX_AGE_DAYS: Final = 700_000
"""Nineteen centuries."""

_ID_REMEDY: Final = f"Use at most {MAX_ID_CHARS} characters, without NUL and unpaired surrogates."
_COUNTED: Final = "Leave it out: the store counts."
_VECTORS: Final = (Vector, type(None))
_LISTS: Final = (
    "kinds",
    "namespaces",
    "session_ids",
    "parent_ids",
    "authors",
    "excluded_ids",
    "excluded_session_ids",
)
_NAMES: Final = ("id", "namespace", "session_id", "parent_id", "author")
_NEVER_NONE: Final = frozenset({"id", "namespace"})


FIRST_MOMENT: Final = datetime.min.replace(tzinfo=UTC)
LAST_MOMENT: Final = datetime.max.replace(tzinfo=UTC)


def check_moment(name: str, moment: datetime | None) -> None:
    """Refuse a time of which nobody can say when it is.

    Raises:
        InvalidParameterError: It has no time zone, or lies beyond the years 1 to 9999 of UTC.
    """
    if moment is None:
        return
    if type(moment) is datetime and moment.tzinfo is UTC:
        return
    _check_type(name, moment, datetime, "Pass a datetime with a time zone, or None.")
    if moment.utcoffset() is None:
        _refuse(name, moment, "must have a time zone", "Use datetime.now(UTC) or .astimezone().")
    if not FIRST_MOMENT <= moment <= LAST_MOMENT:
        _refuse(
            name, moment, "must lie in the years 1 to 9999 of UTC", "Correct it, or leave it out."
        )


def _check_type(name: str, given: object, wanted: type, remedy: str) -> None:
    if not isinstance(given, wanted):
        _refuse(name, given, f"must be {wanted.__name__}", remedy)


def _check_bound(name: str, bound: object, *, most: float = MAX_COUNT) -> None:
    if bound is None:
        return
    if not _is_number(bound) or isinstance(bound, bool):
        _refuse(name, bound, "must be a number", "Use None for no bound.")
    if not bound >= 0:
        _refuse(name, bound, "must not be negative", "Use None for no bound.")
    if bound > most:
        _refuse(name, bound, f"must be at most {most}", "Use None for no bound.")


def _is_number(given: object) -> TypeGuard[float]:
    return isinstance(given, (int, float))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """One thing that is remembered.

    Whoever holds a record may rely on its kind being known, its metadata being of that kind, and
    its times having a zone and lying in the years 1 to 9999 of UTC.

    Attributes:
        id: Unique in its store; empty until the store gives one.
        namespace: The project it belongs to; empty for what belongs to none.
        session_id: The session it was made in.
        parent_id: What it is a part of, or was made from: a document, an event.
        author: Who said or wrote it.
        created_at: `None` until the store fills in the time of storing.
        importance: From 0 to 1.
        metadata: `None` stands for the kind's metadata with nothing in it.
        extras: Fields of an imported record that this version does not know.
        vector: Where the text lies in an embedding model's space.
        access_count: How often it was touched; the store counts.
    """

    text: str
    kind: MemoryKind = "memories"
    id: str = ""
    namespace: str = ""
    session_id: str | None = None
    parent_id: str | None = None
    author: str | None = None
    created_at: datetime | None = None
    importance: float = USUAL_IMPORTANCE
    metadata: Metadata | None = None
    extras: JsonObject = field(default_factory=dict[str, object])
    vector: Vector | None = None
    access_count: int = 0
    last_access_at: datetime | None = None

    def __post_init__(self) -> None:
        wanted = KINDS[check_kind(self.kind)].metadata
        _check_text("text", self.text)
        if self.metadata is not None and not isinstance(self.metadata, wanted):
            _refuse(
                "metadata",
                self.metadata,
                f"must be {wanted.__name__} for {self.kind!r}",
                f"Pass {wanted.__name__}(…), or another kind.",
            )
        # Records are made by the thousand, and nearly all are like this.
        is_usual = type(self.importance) is float and 0 <= self.importance <= 1
        is_usual = (
            is_usual and type(self.access_count) is int and 0 <= self.access_count < MAX_COUNT
        )
        is_usual = is_usual and type(self.vector) in _VECTORS and type(self.extras) is dict
        if not is_usual:
            _check_values(self)
        for name in _NAMES:
            given = getattr(self, name)
            if given is None and name not in _NEVER_NONE:
                continue
            if not (isinstance(given, str) and len(given) <= MAX_ID_CHARS and given.isprintable()):
                _check_name(name, given)
        check_moment("created_at", self.created_at)
        check_moment("last_access_at", self.last_access_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilters:
    """Which records may be found at all; what is empty or `None` excludes nothing.

    Attributes:
        since: Made at this moment or later.
        until: Made before this moment.
        session_ids: Made in one of these sessions.
        excluded_session_ids: Not made in any of these, such as the session that asks.
    """

    kinds: tuple[MemoryKind, ...] = ()
    namespaces: tuple[str, ...] = ()
    session_ids: tuple[str, ...] = ()
    parent_ids: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    least_importance: float | None = None
    excluded_ids: tuple[str, ...] = ()
    excluded_session_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _LISTS:
            given = getattr(self, name)
            if given != ():  # whatever is given one after another is walked through once
                object.__setattr__(self, name, several_names(name, given))
        for kind in self.kinds:
            check_kind(kind)
        check_moment("since", self.since)
        check_moment("until", self.until)
        _check_bound("least_importance", self.least_importance, most=1)


NO_FILTERS: Final = MemoryFilters()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHit:
    """A record that a search found, and by what.

    Attributes:
        order: Where it stands among all records of its store; of two, the larger was stored later.
        bm25: How well the words fit, more is better, comparable within one search; `None` where
            no word did.
        similarity: Cosine with the query's vector; `None` where one of the two has none.
    """

    record: MemoryRecord
    order: int
    bm25: float | None = None
    similarity: float | None = None


RememberOutcome: TypeAlias = Literal["added", "replaced", "duplicate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What became of a record that was to be kept.

    Attributes:
        id: Under which it is found; of a duplicate, the id of the record that was there already.
        notices: Sentences about what was changed before it was kept, such as masked secrets.
    """

    id: str
    outcome: RememberOutcome
    notices: tuple[str, ...] = ()


MemoryOrder: TypeAlias = Literal["newest", "oldest", "most_important", "last_accessed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What a store may let go of, by itself never; `None` sets no bound.

    Attributes:
        max_records: How many are kept, the newest first.
        max_age_days: Older ones go.
        kept_importance: Whatever is this important stays.
        filters: What the bounds are for; other records are neither counted nor dropped.
    """

    max_records: int | None = None
    max_age_days: float | None = None
    kept_importance: float | None = None
    filters: MemoryFilters = NO_FILTERS

    def __post_init__(self) -> None:
        _check_bound("max_records", self.max_records)
        _check_bound("max_age_days", self.max_age_days, most=MAX_AGE_DAYS)
        _check_bound("kept_importance", self.kept_importance)
        if self.max_records is not None:
            _check_type("max_records", self.max_records, int, "Pass a whole number, or None.")
        _check_type("filters", self.filters, MemoryFilters, "Pass MemoryFilters(kinds=(…)).")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats:
    """What a store holds."""

    records: int
    by_kind: Mapping[str, int]
    by_namespace: Mapping[str, int]
    vectors: int
    vector_model: str | None
    vector_dimension: int | None
    oldest_at: datetime | None
    newest_at: datetime | None
    bytes: int


def _check_values(record: MemoryRecord) -> None:
    if not (_is_number(record.importance) and 0 <= record.importance <= 1):
        _refuse("importance", record.importance, "must be from 0 to 1", "Scale it to 0 … 1.")
    _check_type("access_count", record.access_count, int, _COUNTED)
    if not 0 <= record.access_count <= MAX_COUNT:
        rule = f"must be from 0 to {MAX_COUNT}"
        _refuse("access_count", record.access_count, rule, _COUNTED)
    if record.vector is not None:
        _check_type("vector", record.vector, Vector, "Pass Vector.pack(model, numbers).")
    _check_type("extras", record.extras, Mapping, "Pass a dict.")


def _check_name(name: str, given: object) -> None:
    text = _check_text(name, given)
    if len(text) > MAX_ID_CHARS:
        _refuse(name, text, f"must not be longer than {MAX_ID_CHARS} characters", _ID_REMEDY)
    if not can_be_kept(text):
        _refuse(name, text, "must not hold NUL or unpaired surrogates", _ID_REMEDY)


def _check_text(name: str, given: object) -> str:
    if not isinstance(given, str):
        _refuse(name, given, "must be text", "Pass a string.")
    return given


def _refuse(name: str, value: object, rule: str, remedy: str) -> NoReturn:
    raise InvalidParameterError(name, value, rule=rule, remedy=remedy)
