"""Errors of code that is not ours, in words; whatever such an error does, they can be told."""

from typing import Final

_PROBLEM_CHARS: Final = 200
_READ_CHARS: Final = 10_000


def said_by(error: BaseException) -> str:
    """Return what an error says; empty where it says nothing, or cannot."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - foreign code: what it raised is told without its words
        return ""


def tell_problem(error: BaseException) -> str:
    """Return an error in one line: its name, and the beginning of what it says, in whole words."""
    said = " ".join(said_by(error)[:_READ_CHARS].split())
    name = type(error).__name__
    return _beginning(f"{name}: {said}") if said else name


def _beginning(problem: str) -> str:
    if len(problem) <= _PROBLEM_CHARS:
        return problem
    words, _, rest = problem[:_PROBLEM_CHARS].rpartition(" ")
    if len(rest) > _PROBLEM_CHARS // 2:
        return problem[:_PROBLEM_CHARS]  # no word is so long: encoded bytes, say
    return f"{words.rstrip(' ,;:.')}…"
