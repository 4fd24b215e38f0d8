"""Names in a store of memories: which it can keep, and several of them."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import cast

from context_assembler.errors import InvalidParameterError


def can_be_kept(name: object) -> bool:
    """Whether a store can keep the name of anything: every database keeps Unicode without NUL."""
    return isinstance(name, str) and (
        name.isprintable() or not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in name)
    )


def several_names(name: str, given: object) -> tuple[str, ...]:
    """Return the names in the order of giving, those of a set in order of their letters.

    Args:
        name: What the parameter is called.

    Raises:
        InvalidParameterError: It is a single one, or something among them is no text.
    """
    whole: object = given
    is_one = isinstance(given, (str, bytes, Mapping, type))
    several = None if is_one or not isinstance(given, Iterable) else cast("Iterable[object]", given)
    if several is None:
        example = given if isinstance(given, str) else "one"
        raise InvalidParameterError(
            name,
            whole,
            rule="must be several texts",
            remedy=f"Pass a tuple, such as ({example!r},).",
        )
    names = tuple(several)
    if not all(isinstance(one, str) for one in names):
        raise InvalidParameterError(name, names, rule="must be str", remedy="Pass strings.")
    texts = cast("tuple[str, ...]", names)
    return tuple(sorted(texts)) if isinstance(given, AbstractSet) else texts
