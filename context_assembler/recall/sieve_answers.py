"""What of a source's answer can be used: hits that are what they say, as many as were asked for."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, Final, Generic, SupportsFloat, TypeVar, get_args, get_origin, get_type_hints

from context_assembler.errors.base import with_article
from context_assembler.values.json_shapes import is_array
from context_assembler.values.memories.identities import identified
from context_assembler.values.memories.kinds import KINDS, MemoryKind
from context_assembler.values.memories.records import MemoryHit, MemoryRecord

T = TypeVar("T", MemoryHit, MemoryRecord)

_LARGEST: Final = 1e100  # its square is a number, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieved(Generic[T]):
    """What can be used, in the order of the source, and sentences about what was left out."""

    found: tuple[T, ...]
    notes: tuple[str, ...] = ()


def sieve_hits(answered: Iterable[object], *, limit: int) -> Sieved[MemoryHit]:
    """Return the first `limit` hits of an answer that can be used, each record with an id.

    Raises:
        TypeError: Something among them is no hit, or none of them can be used.
    """
    return _sieve(answered, MemoryHit, _usable_hit, limit=limit)


def sieve_records(answered: Iterable[object], *, limit: int) -> Sieved[MemoryRecord]:
    """Return the first `limit` records of an answer that can be used, each with an id.

    Raises:
        TypeError: Something among them is no record, or none of them can be used.
    """
    return _sieve(answered, MemoryRecord, usable_record, limit=limit)


def usable_record(record: object) -> MemoryRecord:
    """Return the record with an id.

    Raises:
        TypeError: It is none, or something in it is of another type than it must be.
    """
    if not isinstance(record, MemoryRecord):
        raise TypeError(f"its record is {with_article(repr(type(record).__name__))}")
    metadata = record.metadata
    for name, is_right in _checks_of(record.kind) if metadata is not None else ():
        value = getattr(metadata, name)
        if (value is None and is_right is _are_texts) or not (value is None or is_right(value)):
            raise TypeError(
                f"the {name} in its metadata is {with_article(repr(type(value).__name__))}"
            )
    if type(record.importance) is not float:
        record = replace(record, importance=_number("importance", record.importance))
    return identified(record)


def _sieve(
    answered: Iterable[object], kind: type[T], usable: Callable[[T], T], *, limit: int
) -> Sieved[T]:
    given = tuple(islice(answered, limit + 1))
    notes = [f"only the first {limit} of its answers count"] if len(given) > limit else []
    found: list[T] = []
    problems: list[str] = []
    for one in given[:limit]:
        if not isinstance(one, kind):
            raise TypeError(f"it answered {type(one).__name__!r} in the place of {kind.__name__!r}")
        try:
            found.append(usable(one))
        except TypeError as error:
            problems.append(str(error))
    if problems and not found:
        raise TypeError(f"nothing that it answered can be used: {problems[0]}")
    if problems:
        notes.append(f"{len(problems)} of {len(given[:limit])} cannot be used: {problems[0]}")
    return Sieved(found=tuple(found), notes=tuple(notes))


def _usable_hit(hit: MemoryHit) -> MemoryHit:
    record = usable_record(hit.record)
    bm25 = _usable_score("bm25", hit.bm25)
    similarity = _usable_score("similarity", hit.similarity)
    if record is hit.record and bm25 is hit.bm25 and similarity is hit.similarity:
        return hit
    return replace(hit, record=record, bm25=bm25, similarity=similarity)


def _usable_score(name: str, score: object) -> float | None:
    """Return the score as a number; `None` for one that nothing can be worked out with."""
    if score is None:
        return None
    number = score if type(score) is float else _number(name, score)
    return number if -_LARGEST < number < _LARGEST else None


def _number(name: str, given: object) -> float:
    try:
        if isinstance(given, SupportsFloat):
            return float(given)
    except (ArithmeticError, ValueError):
        raise TypeError(f"its {name} is too large") from None
    raise TypeError(f"its {name} is {with_article(repr(type(given).__name__))}")


@cache
def _checks_of(kind: MemoryKind) -> tuple[tuple[str, Callable[[Any], bool]], ...]:
    """Return for each field of a kind's metadata what says whether a value may stand there."""
    hints = get_type_hints(KINDS[kind].metadata)
    return tuple((name, _check_of(hint)) for name, hint in hints.items())


def _check_of(hint: object) -> Callable[[Any], bool]:
    if get_origin(hint) is tuple:
        return _are_texts
    told = get_args(hint)
    return next((check for type_, check in _CHECKS.items() if type_ in told), _is_text)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return is_array(value) and all(map(_is_text, value))


def _is_truth(value: object) -> bool:
    is_usual = value is True or value is False
    return is_usual or (isinstance(value, SupportsFloat) and value in (0, 1))


def _is_number(value: object) -> bool:
    if type(value) is float:
        return True
    try:
        return isinstance(value, SupportsFloat) and isinstance(float(value), float)
    except (ArithmeticError, ValueError):
        return False


def _is_moment(value: object) -> bool:
    return isinstance(value, datetime)


_CHECKS: Final[Mapping[type, Callable[[Any], bool]]] = {
    bool: _is_truth,
    int: _is_number,
    float: _is_number,
    datetime: _is_moment,
}
