"""What callers without types pass, refused at the edge by its name."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar, cast

from context_assembler.errors import InvalidParameterError, UnknownOptionError

T = TypeVar("T")

_NO_FILES_NAME: Final = "must not hold NUL or unpaired surrogates"
_WORDS_BY_TYPE: Final[Mapping[type, str]] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    type(None): "None",
    Iterable: "several",
    Mapping: "a mapping",
    Sequence: "a list",
}


class _PathLike(Protocol):
    def __fspath__(self) -> object: ...


def check_type(name: str, given: object, *kinds: type, such_as: str) -> None:
    """Refuse what is of none of the types; no truth value counts as a number.

    Args:
        such_as: What to pass, as a caller would write it.

    Raises:
        InvalidParameterError: It is none of them.
    """
    if not isinstance(given, kinds) or (isinstance(given, bool) and bool not in kinds):
        named = " or ".join(_WORDS_BY_TYPE.get(kind, kind.__name__) for kind in kinds)
        raise _refusal(name, given, rule=f"must be {named}", such_as=such_as)


def check_count(name: str, given: object) -> None:
    """Refuse what is no number of things, none included.

    Raises:
        InvalidParameterError: It is no whole number, or negative.
    """
    check_type(name, given, int, such_as="a whole number")
    if isinstance(given, int) and given < 0:
        raise _refusal(name, given, rule="must not be negative", such_as="0 or more")


def check_method(name: str, given: object, method: str, *, such_as: str) -> None:
    """Refuse what does not have the method, or is a class that has.

    Raises:
        InvalidParameterError: It has not.
    """
    if isinstance(given, type) or not callable(getattr(given, method, None)):
        rule = f"must be an object that has {method}()"
        raise _refusal(name, given, rule=rule, such_as=such_as)


def check_callable(name: str, given: object, *, such_as: str) -> None:
    """Refuse what cannot be called.

    Raises:
        InvalidParameterError: It cannot.
    """
    if not callable(given):
        raise _refusal(name, given, rule="must be a function", such_as=such_as)


def check_path(name: str, given: object, *, such_as: str) -> None:
    """Refuse what is no path of text; a number would be taken for an open file.

    Raises:
        InvalidParameterError: It is none, or one that no file can have.
    """
    text = cast("_PathLike", given).__fspath__() if hasattr(type(given), "__fspath__") else given
    if not isinstance(text, str):
        raise _refusal(name, given, rule="must be a path", such_as=such_as)
    try:
        # As Python spells bytes of a file's name that are no text.
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise _refusal(name, given, rule=_NO_FILES_NAME, such_as=such_as) from None
    if "\0" in text:
        raise _refusal(name, given, rule=_NO_FILES_NAME, such_as=such_as)


def check_known(given: object, known: Collection[str], *, kind: str) -> None:
    """Refuse a name that is none of the known ones, or no text at all.

    Raises:
        UnknownOptionError: It is none of them.
    """
    if not isinstance(given, str) or given not in known:
        raise UnknownOptionError(given, kind=kind, known=known)


def listed(name: str, given: Iterable[T], kind: type[T], *, such_as: str) -> tuple[T, ...]:
    """Return what is given one after another; a single text or mapping is not several.

    Raises:
        InvalidParameterError: It is not several, or something among it is of another type.
    """
    entries = _entries_of(given)
    if entries is None or not all(isinstance(entry, kind) for entry in entries):
        named = _WORDS_BY_TYPE.get(kind, kind.__name__)
        raise _refusal(name, given, rule=f"must be several of: {named}", such_as=such_as)
    return cast("tuple[T, ...]", entries)


def _entries_of(given: object) -> tuple[object, ...] | None:
    is_one = isinstance(given, str | bytes | Mapping | type)
    return (
        None
        if is_one or not isinstance(given, Iterable)
        else tuple(cast("Iterable[object]", given))
    )


def _refusal(name: str, given: object, *, rule: str, such_as: str) -> InvalidParameterError:
    return InvalidParameterError(name, given, rule=rule, remedy=f"Pass {such_as}.")
