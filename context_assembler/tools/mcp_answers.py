"""What a server answered over HTTP: to each call by itself, however many are made at once."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

_NO_WAY_IN: Final = (401, 403)


@dataclass(slots=True)
class HttpAnswers:
    """The last answer to the messages of one call, or of a connection itself; 0: none yet."""

    status: int = 0
    words: str = ""

    def note(self, status: int, words: str) -> None:
        """Keep a status, in numbers and in words."""
        self.status, self.words = status, words

    @property
    def refusal(self) -> str:
        """A clause about the answer where it refuses."""
        is_refusal = self.status >= 400
        return f"it answered HTTP {self.status} {self.words}".strip() if is_refusal else ""

    @property
    def lets_nobody_in(self) -> bool:
        """Whether the server did not even look at what it was asked."""
        return self.status in _NO_WAY_IN or self.status >= 500


_HEARD: ContextVar[HttpAnswers] = ContextVar("_HEARD")


@contextmanager
def heard_alone() -> Generator[HttpAnswers]:
    """Keep the answers to what is sent from here, and to nothing that others send meanwhile.

    The SDK posts a message in the context of who sends it: `last_context` of its streams (mcp 2.3).
    """
    answers = HttpAnswers()
    before = _HEARD.set(answers)
    try:
        yield answers
    finally:
        _HEARD.reset(before)


def note_answer(status: int, words: str) -> None:
    """Tell those who sent the message that is being answered."""
    answers = _HEARD.get(None)
    if answers is not None:
        answers.note(status, words)
