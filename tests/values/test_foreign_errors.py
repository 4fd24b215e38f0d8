"""Errors of code that is not ours, in words."""

import pytest

from context_assembler.values.foreign_errors import said_by, tell_problem


class SilentError(Exception):
    def __str__(self) -> str:
        raise ValueError


TOLD = {
    "one line": (ValueError("no\n route "), "ValueError: no route"),
    "nothing said": (ValueError(), "ValueError"),
    "nothing that can be said": (SilentError(), "SilentError"),
    "a long story": (
        ValueError("it went on " * 99),
        f"ValueError: {'it went on ' * 16}it went on…",
    ),
    "a book": (ValueError("x" * 10**6), f"ValueError: {'x' * 188}"),
}


@pytest.mark.parametrize(("error", "told"), TOLD.values(), ids=TOLD.keys())
def test_an_error_is_told_in_one_line(error: Exception, told: str) -> None:
    assert tell_problem(error) == told


def test_an_error_that_cannot_be_told_says_nothing() -> None:
    assert said_by(SilentError()) == ""
