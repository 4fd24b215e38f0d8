"""A memory, what a source of memories is asked and answers, and a memory as JSON."""

import math
import re
import unicodedata
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, NoReturn, Protocol, TypeAlias, runtime_checkable

from context_assembler import errors
from context_assembler.events import Json, JsonObject, dump_json, is_object, load_json
from context_assembler.history.secrets import mask
from context_assembler.memory import kinds
from context_assembler.memory.kinds import KINDS, MemoryKind, Metadata, check_kind
from context_assembler.texts import clean_text

MEMORY_FORMAT_VERSION: Final = 1
USUAL_IMPORTANCE: Final = 0.5
_UPGRADE: Final = "Upgrade the package: pip install --upgrade context-assembler"
_CORRECT: Final = "Correct the record, or leave it out."
_UNNAMED: Final = "unnamed-"
_LONG_WORD: Final = re.compile(r"\S{400}")
_PIECES: Final = re.compile(r"\S{1,400}|\s+")

MemoryOrder: TypeAlias = Literal["newest", "oldest", "most_important", "last_accessed"]
RememberOutcome: TypeAlias = Literal["added", "replaced", "duplicate"]
EmbedPurpose: TypeAlias = Literal["record", "query"]


# ---- values ----


def check_moment(name: str, moment: datetime | None) -> None:
    """Refuse a time without a time zone.

    Raises:
        InvalidParameterError: It has none.
    """
    if moment is not None and moment.tzinfo is None:
        refuse(name, moment, "must have a time zone", "Use datetime.now(UTC) or .astimezone().")


def read_importance(name: str, given: float) -> float:
    """Return an importance from 0 to 1; what is 2 to 10 is on a scale of ten.

    Raises:
        InvalidParameterError: It is on neither scale, or could be on both.
    """
    if not (0 <= given <= 1 or 2 <= given <= 10):
        rule = "must be from 0 to 1, or on a scale of ten: from 2 to 10"
        refuse(name, given, rule, "1 is the most, not 1 of ten: write that as 0.1.")
    return given / 10 if given > 1 else given


def refuse(name: str, value: object, rule: str, remedy: str) -> NoReturn:
    """Raise the error of a value that cannot be what it is."""
    raise errors.InvalidParameterError(name, value, rule=rule, remedy=remedy)


def unusable_file(path: Path, act: str, error: OSError) -> errors.ConfigurationError:
    """Return the error of a file that the operating system refuses."""
    problem = f"The file {str(path)!r} cannot be {act}: {error.strerror or error}."
    return errors.ConfigurationError(problem, remedy=errors.CHECK_FILE)


def load_package(name: str, what: str, extra: str = "memory") -> Any:
    """Return a package that only a part of all this needs.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise errors.MissingExtraError(what, extra=extra) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """The direction of a text in the space of one embedding model; its length is not kept.

    `codes` holds a signed byte for each dimension, the largest of which is 127 or -127. Only
    vectors of one model can be compared.
    """

    model: str
    codes: bytes

    def __post_init__(self) -> None:
        if not self.model or not any(self.codes):
            rule = "must have a direction, and its model a name"
            remedy = "Pass what the model returned: finite numbers, not all of them zero."
            refuse("vector", (self.model, self.codes[:4]), rule, remedy)

    @classmethod
    def pack(cls, model: str, numbers: Sequence[float]) -> "Vector":
        """Return the vector of a model's numbers.

        Raises:
            InvalidParameterError: They have no direction, or the model has no name.
        """
        largest = max(map(abs, numbers), default=0.0)
        if not 0 < largest < math.inf or math.isnan(sum(numbers)):
            return cls(model=model, codes=b"")
        codes = array("b", (round(number / largest * 127) for number in numbers))
        return cls(model=model, codes=codes.tobytes())

    @property
    def dimension(self) -> int:
        """The number of dimensions."""
        return len(self.codes)

    def check(self, model: str, dimension: int) -> None:
        """Refuse to be compared with vectors of another model.

        Raises:
            VectorModelError: This vector is of another one.
        """
        if (self.model, self.dimension) != (model, dimension):
            given = f"{self.model!r} with {self.dimension} dimensions"
            raise errors.VectorModelError(given, kept=f"{model!r} with {dimension}")

    def cosine(self, other: "Vector") -> float:
        """Return how alike two directions are, from -1 to 1.

        Raises:
            VectorModelError: The other is of another model.
        """
        self.check(other.model, other.dimension)
        mine, others = memoryview(self.codes).cast("b"), memoryview(other.codes).cast("b")
        product = sum(a * b for a, b in zip(mine, others, strict=True))
        return product / math.sqrt(sum(a * a for a in mine) * sum(b * b for b in others))


Vectors: TypeAlias = list[Vector | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """One thing that is remembered.

    Attributes:
        id: Unique in its namespace; empty until the store gives one.
        namespace: The project, or the user, that it belongs to; empty for none.
        session_id: The session it was made in.
        parent_id: What it is a part of, or was made from: a document, an event.
        author: Who said or wrote it.
        created_at: With a time zone; `None` until the store fills in the time of storing.
        importance: From 0 to 1; what is given as 2 to 10 is kept as that many tenths, and 1 is the
            most there is.
        metadata: `None` stands for the kind's metadata with nothing in it.
        extras: Fields of an imported record that this version does not know.
        vector: Where the text lies in an embedding model's space.
        access_count: How often it was touched; the store counts.
        place: Where its store keeps it: of two records, the later one has the higher place.
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
    extras: JsonObject = field(default_factory=dict[str, Json])
    vector: Vector | None = None
    access_count: int = 0
    last_access_at: datetime | None = None
    place: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        wanted = KINDS[check_kind(self.kind)].metadata
        if self.metadata is not None and not isinstance(self.metadata, wanted):
            rule = f"must be {wanted.__name__} for {self.kind!r}"
            refuse("metadata", self.metadata, rule, f"Pass {wanted.__name__}(…).")
        importance = read_importance("importance", self.importance)
        object.__setattr__(self, "importance", importance)
        check_moment("created_at", self.created_at)
        check_moment("last_access_at", self.last_access_at)

    @property
    def key(self) -> str:
        """Tells the record from all others of its store: an id is one of its namespace."""
        return f"{self.namespace}\0{self.id}"

    @property
    def last_used_at(self) -> datetime | None:
        """When it was made, or touched after that."""
        made, touched = self.created_at, self.last_access_at
        return touched if touched and (made is None or touched > made) else made


_TOLD: Final = ("id", "kind", "namespace", "session_id", "parent_id", "author")
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilters:
    """Which records may be found at all; what is empty or `None` excludes nothing.

    Attributes:
        namespaces: Of one of these; of an empty list none may be found. `None` excludes nothing.
        since: Made at this moment or later.
        until: Made before this moment.
        least_importance: From 0 to 1, or 2 to 10, as that of a record.
        session_ids: Made in one of these sessions.
        event_types: Events must be of one of these types; other kinds are let through.
        entity_types: Entities must be of one of these types; other kinds are let through.
        excluded_session_ids: Not made in any of these, such as the session that asks.
    """

    kinds: Sequence[MemoryKind] = ()
    namespaces: Sequence[str] | None = None
    session_ids: Sequence[str] = ()
    parent_ids: Sequence[str] = ()
    authors: Sequence[str] = ()
    event_types: Sequence[str] = ()
    entity_types: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    least_importance: float | None = None
    excluded_ids: Sequence[str] = ()
    excluded_session_ids: Sequence[str] = ()
    ids: Sequence[str] = ()

    def __post_init__(self) -> None:
        for one in fields(self):
            if isinstance(getattr(self, one.name), str):
                refuse(one.name, getattr(self, one.name), "must be several texts", "Pass a tuple.")
        for name in self.kinds:
            check_kind(name)
        check_moment("since", self.since)
        check_moment("until", self.until)
        if self.least_importance is not None:
            least = read_importance("least_importance", self.least_importance)
            object.__setattr__(self, "least_importance", least)
        if self.namespaces is not None:  # nobody's name may become another's by being cleaned
            names = tuple(name for name in self.namespaces if clean_text(name) == name)
            object.__setattr__(self, "namespaces", names)

    @property
    def admit_nothing(self) -> bool:
        """Whether there is no namespace that may be searched."""
        return self.namespaces is not None and not self.namespaces

    def admit(self, record: MemoryRecord, *, unsaid: bool = False) -> bool:
        """Whether the record may be found.

        Args:
            unsaid: Whether it may if it leaves open what a filter asks for.
        """
        typed = KINDS[record.kind].type_field
        for name in (*_TOLD, typed) if typed else _TOLD:
            said = getattr(record.metadata if name == typed else record, name, None)
            wanted = getattr(self, f"{name}s", ())
            if wanted and said not in wanted and (said or not unsaid):
                return False
        made, bounds = record.created_at, (self.since or _FIRST, self.until or _LAST)
        is_timely = unsaid or bounds == (_FIRST, _LAST)
        if made is not None:
            is_timely = bounds[0] <= made < bounds[1]
        is_barred = record.id in self.excluded_ids or self.admit_nothing
        is_barred = is_barred or record.session_id in self.excluded_session_ids
        return is_timely and not is_barred and record.importance >= (self.least_importance or 0)


NO_FILTERS: Final = MemoryFilters()


class MemoryHit(NamedTuple):
    """A record that a search found, and by what.

    Attributes:
        order: Its place among all records of its store; of two, the larger was stored later.
        bm25: How well the words fit, more is better, comparable within one search; `None` if no
            word did.
        similarity: Cosine with the query's vector; `None` if one of the two has none.
    """

    record: MemoryRecord
    order: int = 0
    bm25: float | None = None
    similarity: float | None = None


class WordCounts(NamedTuple):
    """How many records a source has, and how many of them have each of some words, about."""

    records: int
    by_word: Mapping[str, int]


class Remembered(NamedTuple):
    """What became of a record that was to be kept.

    Attributes:
        id: Under which it is found; of a duplicate, the id of the record that was there already.
        notices: Sentences about what was changed before it was kept, such as masked secrets.
    """

    id: str
    outcome: RememberOutcome
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What `prune` removes from a store; `None` sets no bound.

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


class MemoryStats(NamedTuple):
    """What a store holds."""

    records: int
    by_kind: Mapping[str, int]
    by_namespace: Mapping[str, int]
    vectors: int
    vector_model: str | None


# ---- ports ----


@runtime_checkable
class MemorySource(Protocol):
    """Somewhere memories are found.

    A source may offer `neighbours`, `list_records`, `get`, `present_kinds` and `word_counts` as a
    `MemoryStore` does: what stands around a hit, what is newest and what relations lead to is then
    found as well, and how rare a word is need not be guessed from what was found.
    """

    name: str

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
        vector: Vector | None = None,
    ) -> Sequence[MemoryHit]:
        """Return at most `limit` records that fit, best first; none if nothing fits.

        Any text is a query, and the same question to the same records gets the same answer.

        Args:
            vector: Where the query lies in the space of the model that the source keeps vectors of.
        """
        ...


class Embed(Protocol):
    """Says where texts lie in the space of one embedding model.

    A vector depends on text, purpose and model alone, so that it can be kept. `model` names the
    space: another name for other vectors. `dimension` is `None` if the model decides.
    """

    model: str
    dimension: int | None

    async def embed(self, texts: Sequence[str], *, purpose: EmbedPurpose = "record") -> Vectors:
        """Return a vector for each text, in order; `None` for one that says nothing.

        Raises:
            EmbeddingError: The model cannot be used.
            MissingExtraError: A package that it needs is not installed.
        """
        ...

    async def close(self) -> None:
        """Close connections."""


# ---- JSON ----

OWN_FIELDS: Final = {"version", *(one.name for one in fields(MemoryRecord))} - {"extras", "place"}
_TEXTS: Final = ("id", "namespace", "session_id", "parent_id", "author")
_TIMES: Final = ("created_at", "last_access_at")
_TYPES: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("text", *_TEXTS, *_TIMES), str),
    "vector": dict,
    "importance": (int, float),
    "access_count": int,
}


def encode_memory(record: MemoryRecord) -> dict[str, Json]:
    """Return the record as JSON; fields that hold their default are left out."""
    encoded: dict[str, Json] = {"version": MEMORY_FORMAT_VERSION}
    encoded |= {"kind": record.kind, "text": record.text}
    encoded |= {name: one for name in (*_TEXTS, "access_count") if (one := getattr(record, name))}
    encoded |= {name: time.isoformat() for name in _TIMES if (time := getattr(record, name))}
    if record.importance != USUAL_IMPORTANCE:
        encoded["importance"] = record.importance
    if record.vector is not None:
        codes = b64encode(record.vector.codes).decode()
        encoded["vector"] = {"model": record.vector.model, "codes": codes}
    return encoded | encode_details(record)


def encode_details(record: MemoryRecord) -> dict[str, Json]:
    """Return what is known besides the plain fields: `metadata` with what is unknown, and extras."""
    details = dict(record.extras)
    known = {} if record.metadata is None else kinds.write_metadata(record.metadata)
    if metadata := {**known, **details.pop("metadata", {})}:
        details["metadata"] = metadata
    return details


def decode_details(kind: MemoryKind, given: JsonObject) -> tuple[Metadata | None, dict[str, Json]]:
    """Return metadata and extras of what `encode_details` returned.

    Raises:
        TypeError, ValueError: A field of the metadata is of the wrong type.
    """
    extras = dict(given)
    encoded: Json = extras.pop("metadata", None) or {}
    if not is_object(encoded):
        raise TypeError("metadata: it is not an object")
    own = kinds.field_types(kind)
    if unknown := {name: value for name, value in encoded.items() if name not in own}:
        extras["metadata"] = unknown
    known = {name: value for name, value in encoded.items() if name in own}
    return kinds.read_metadata(kind, known), extras


def decode_memory(
    given: Json | bytes, *, where: str = "A memory", line: int | None = None
) -> MemoryRecord:
    """Return the record that `encode_memory` was given, or wrote as JSON; unknown fields are kept.

    Raises:
        MemoryFormatError: It is of a newer version, says nothing, or is no memory; `where` and `line`
            name it.
    """
    encoded: Json = None
    try:
        encoded = load_json(given) if isinstance(given, bytes) else given
        return _decode(encoded)
    except (errors.AssemblyError, LookupError, TypeError, ValueError) as error:
        version = encoded.get("version") if is_object(encoded) else None
        remedy = _CORRECT if version in {MEMORY_FORMAT_VERSION, None} else _UPGRADE
        why = str(getattr(error, "problem", error)).rstrip(".")
        raise errors.MemoryFormatError(where=where, line=line, reason=why, remedy=remedy) from error


def _decode(encoded: Json) -> MemoryRecord:
    if not is_object(encoded):
        raise TypeError("it is not an object")
    version = encoded.get("version", MEMORY_FORMAT_VERSION)
    if version != MEMORY_FORMAT_VERSION:
        known = f"this package reads {MEMORY_FORMAT_VERSION}"
        raise ValueError(f"version: its format is {version!r}, {known}")
    made: dict[str, Any] = {"kind": check_kind(encoded.get("kind", "memories"))}
    for name, wanted in _TYPES.items():
        value = encoded.get(name)
        if (value is not None or name == "text") and not isinstance(value, wanted):
            raise TypeError(f"{name}: {errors.brief(value)} is of another type")
        if value is not None:
            made[name] = datetime.fromisoformat(value) if name in _TIMES else value
    if vector := made.get("vector"):
        codes = b64decode(vector["codes"], validate=True)
        made["vector"] = Vector(model=vector["model"], codes=codes)
    rest = {n: v for n, v in encoded.items() if n == "metadata" or n not in OWN_FIELDS}
    metadata, extras = decode_details(made["kind"], rest)
    record = MemoryRecord(**made, metadata=metadata, extras=extras)
    if not says_something(record):
        raise ValueError("text: it is empty")
    return record


def write_memories(records: Iterable[MemoryRecord]) -> Iterator[bytes]:
    """Yield the records as JSON Lines, each with its line feed."""
    for record in records:
        yield dump_json(encode_memory(record), where=f"The memory {record.id!r}") + b"\n"


# ---- identity ----


def says_something(record: MemoryRecord) -> bool:
    """Whether anything is left of the text once it is cleaned."""
    return bool(clean_text(record.text).strip())


def identified(record: MemoryRecord) -> MemoryRecord:
    """Return the record with an id: its own, or else one made of what it says."""
    if record.id:
        return record
    told = (record.namespace, record.kind, record.session_id, record.parent_id, record.author)
    joined = "\0".join(map(repr, (*told, record.created_at, record.metadata, record.text)))
    return replace(record, id=f"{_UNNAMED}{blake2b(joined.encode(), digest_size=10).hexdigest()}")


def reference_of(record: MemoryRecord) -> str:
    """Return what its source finds the record by; empty if it has no id that may be shown."""
    return "" if record.id.startswith(_UNNAMED) or masked(record.id) != record.id else record.id


def normal_text(text: str) -> str:
    """Return the text without what makes no difference: case, width, white space."""
    return " ".join(same_width(text).casefold().split())


def same_width(text: str) -> str:
    """Return the text with each character in its usual form (NFKC)."""
    if text.isascii():
        return text
    # By pieces: to order combining marks takes the square of how many stand together.
    pieces = _PIECES.findall(text) if _LONG_WORD.search(text) else [text]
    return "".join(unicodedata.normalize("NFKC", piece) for piece in pieces)


def masked(text: str) -> str:
    """Return the text cleaned, and without secrets."""
    return _mask(text) if len(text) > 2_000 else _mask_once(text)


def _mask(text: str) -> str:
    return mask(clean_text(text))[0]


_mask_once: Final = lru_cache(8_192)(_mask)  # one recall finds much of what the one before it found


def utc_at(seconds: float) -> datetime:
    """Return the time so many seconds after 1970."""
    return datetime.fromtimestamp(seconds, UTC)
