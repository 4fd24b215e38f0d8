"""Optional packages that embedders need, loaded when they are first used."""

from importlib import import_module
from typing import Any

from context_assembler.errors import MissingExtraError


def load_numpy() -> Any:
    """Return numpy.

    Raises:
        MissingExtraError: It is not installed.
    """
    return load_extra("numpy", what="Embedding text", extra="memory")


def load_extra(package: str, *, what: str, extra: str) -> Any:
    """Return a module of an optional package.

    Args:
        what: What needs it, at the beginning of a sentence.
        extra: Which extra of this package brings it along.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(what, extra=extra) from error
