"""What a memory assembler is given, checked at the edge."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from context_assembler.errors import InvalidParameterError
from context_assembler.memory.asked_bounds import check_filters
from context_assembler.ports import TokenCounter
from context_assembler.recall.fit_budget import CountText
from context_assembler.recall.sieve_answers import usable_record
from context_assembler.values.given import check_callable, check_method, check_type
from context_assembler.values.memories.kinds import KINDS, MemoryKind, check_kind
from context_assembler.values.memories.records import MemoryFilters, MemoryRecord
from context_assembler.values.recall import FormattedContext
from context_assembler.values.recall_settings import RecallSettings


def checked_kinds(
    context_types: Sequence[str] | str | None, filters: MemoryFilters
) -> tuple[MemoryKind, ...]:
    """Return the kinds to look for, each once; all of them where none are named.

    Raises:
        InvalidContextTypeError: There is no such kind.
        InvalidParameterError: The filters are none.
    """
    check_filters(filters)
    if context_types is None:
        return filters.kinds or tuple(KINDS)
    given = [context_types] if isinstance(context_types, str) else context_types
    check_type("context_types", given, Iterable, such_as="the name of a kind, or several")
    return tuple(dict.fromkeys(check_kind(kind) for kind in given))


def settled_by(given: RecallSettings | None, otherwise: RecallSettings) -> RecallSettings:
    """Return the settings that are given, or the others where none are.

    Raises:
        InvalidParameterError: What is given is no settings.
    """
    if given is None:
        return otherwise
    check_type("settings", given, RecallSettings, such_as="RecallSettings(…), or None")
    return given


def counted_by(given: TokenCounter | None, otherwise: CountText) -> CountText:
    """Return how the counter that is given counts a text, or the other way where none is.

    Raises:
        InvalidParameterError: What is given does not count.
    """
    if given is None:
        return otherwise
    check_method("counter", given, "count_text", such_as="TokenCounter(…), or None")
    return given.count_text


def check_parts(*, embed: object, clock: object, sleep: object) -> None:
    """Refuse what does not embed, tells no time, or does not wait.

    Raises:
        InvalidParameterError: One of them does not.
    """
    if embed is not None:
        check_method("embed", embed, "embed", such_as="an embedder, or None to go by words alone")
    check_callable("clock", clock, such_as="a function that returns seconds since 1970")
    check_callable("sleep", sleep, such_as="a function such as asyncio.sleep")


def check_context(given: object) -> None:
    """Refuse what was not recalled.

    Raises:
        InvalidParameterError: It is no `FormattedContext`.
    """
    check_type("context", given, FormattedContext, such_as="what assemble_context() returned")


def check_number(name: str, given: object, *, most: int | None = None) -> None:
    """Refuse what is no whole number from 1 on.

    Raises:
        InvalidParameterError: It is none, or larger than `most`.
    """
    is_number = isinstance(given, int) and not isinstance(given, bool)
    number = given if isinstance(given, int) else 0
    if not is_number or number < 1 or (most is not None and number > most):
        raise InvalidParameterError(
            name,
            given,
            rule="must be a whole number of at least 1" + (f" and at most {most}" if most else ""),
            remedy="Pass a number, such as a limit of 20 or max_tokens of 2000.",
        )


def check_words(name: str, given: object) -> None:
    """Refuse what is no text, or says nothing.

    Raises:
        InvalidParameterError: It is.
    """
    if not isinstance(given, str) or not given.strip():
        raise InvalidParameterError(
            name, given, rule="must say something", remedy="Pass a word or more."
        )


def check_text(name: str, given: object) -> None:
    """Refuse what is no text.

    Raises:
        InvalidParameterError: It is none.
    """
    check_type(name, given, str, such_as="a string; '' for nothing")


def checked_event(event: object, *, now: datetime) -> MemoryRecord:
    """Return what just happened as a record with an id: a record, or the text of an event.

    Raises:
        InvalidParameterError: It is neither, or its metadata holds something of another type.
    """
    if isinstance(event, str):
        event = MemoryRecord(text=event, kind="events", created_at=now)
    try:
        return usable_record(event)
    except TypeError as error:
        raise InvalidParameterError(
            "event",
            type(event).__name__,
            rule=f"must be a record or a text: {error}",
            remedy="Pass a string, or MemoryRecord(text=…, kind=…).",
        ) from None


def check_likeness(name: str, given: object) -> None:
    """Refuse what is no likeness of texts that say the same.

    Raises:
        InvalidParameterError: It is not from 0.5 to 1.
    """
    if not isinstance(given, int | float) or not 0.5 <= given <= 1:
        raise InvalidParameterError(
            name, given, rule="must be from 0.5 to 1", remedy="Pass a number such as 0.9, or None."
        )
