"""What an embedder may be given: texts for a purpose, and bounds."""

from collections.abc import Sequence
from typing import get_args

from context_assembler.errors import InvalidParameterError
from context_assembler.ports import EmbedPurpose
from context_assembler.values.given import check_known, check_type, listed


def checked_texts(texts: object, *, purpose: object) -> Sequence[str]:
    """Return the texts as a sequence.

    Raises:
        InvalidParameterError: They are no texts, or a single one.
        UnknownOptionError: There is no such purpose.
    """
    check_known(purpose, get_args(EmbedPurpose), kind="purpose")
    return listed("texts", texts, str, such_as="a list of strings")  # type: ignore[arg-type] # checked there


def check_size(name: str, given: object) -> None:
    """Refuse a bound that is no whole number, or leaves nothing.

    Raises:
        InvalidParameterError: It is.
    """
    check_type(name, given, int, such_as="a whole number, or leave it out")
    if isinstance(given, int) and given < 1:
        raise InvalidParameterError(
            name, given, rule="must be positive", remedy="Leave it out, or raise it."
        )
