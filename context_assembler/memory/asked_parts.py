"""What a store or a source of memories may be made of."""

from collections.abc import Mapping
from math import isfinite

from context_assembler.errors import InvalidParameterError
from context_assembler.values.given import check_callable, check_method, check_path, check_type
from context_assembler.values.memories.kept_names import can_be_kept


def check_parts(*, name: object, embed: object = None) -> None:
    """Refuse a source's name that is no text, and what does not embed.

    Raises:
        InvalidParameterError: One of them is not what it must be.
    """
    check_type("name", name, str, such_as="what the source is called in reports, such as 'memory'")
    if embed is not None:
        check_method("embed", embed, "embed", such_as="an embedder, or None to go by words alone")
        model = getattr(embed, "model", None)
        check_type("embed.model", model, str, such_as="an embedder whose vectors have a name")


def check_store_parts(*, name: object, clock: object, embed: object = None) -> None:
    """Refuse what `check_parts` does, and what tells no time.

    Raises:
        InvalidParameterError: One of them is not what it must be.
    """
    check_parts(name=name, embed=embed)
    check_callable("clock", clock, such_as="a function that returns seconds since 1970")


def check_location(location: object) -> None:
    """Refuse what is neither a folder nor a URL.

    Raises:
        InvalidParameterError: It is neither.
    """
    check_path("location", location, such_as="a folder such as 'memories', or a URL")


def check_place_name(name: str, given: object) -> None:
    """Refuse a name that no table or collection can have.

    Raises:
        InvalidParameterError: It is no text, says nothing, or holds NUL or unpaired surrogates.
    """
    if not isinstance(given, str) or not given.strip() or not can_be_kept(given):
        raise InvalidParameterError(
            name,
            given,
            rule=f"must be the name of a {name}",
            remedy="Pass a name such as 'memories'.",
        )


def check_address(name: str, given: object, *, such_as: str) -> None:
    """Refuse what is no address of a server.

    Raises:
        InvalidParameterError: It is no text, or holds NUL or unpaired surrogates.
    """
    check_type(name, given, str, such_as=such_as)
    if not can_be_kept(given):
        raise InvalidParameterError(
            name,
            given,
            rule="must not hold NUL or unpaired surrogates",
            remedy=f"Pass {such_as}.",
        )


def check_least_one(name: str, given: object) -> None:
    """Refuse what is no whole number from 1 on.

    Raises:
        InvalidParameterError: It is none.
    """
    check_type(name, given, int, such_as="a whole number")
    if isinstance(given, int) and given < 1:
        raise InvalidParameterError(name, given, rule="must be positive", remedy="Leave it out.")


def check_seconds(name: str, given: object) -> None:
    """Refuse what nobody can wait for.

    Raises:
        InvalidParameterError: It is no number, not positive, or endless.
    """
    check_type(name, given, int, float, such_as="a number of seconds")
    if isinstance(given, (int, float)) and not (given > 0 and is_finite(given)):
        raise InvalidParameterError(
            name, given, rule="must be more than 0 and finite", remedy="Pass seconds, such as 10."
        )


def check_options(given: object) -> None:
    """Refuse what names no arguments.

    Raises:
        InvalidParameterError: It is no mapping.
    """
    check_type("options", given, Mapping, type(None), such_as="a dict of arguments, or None")


def is_finite(given: float) -> bool:
    """Whether the number is one that floats reach as well."""
    try:
        return isfinite(given)
    except OverflowError:
        return False
