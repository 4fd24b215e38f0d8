"""Strategies that make a history fit the window."""

from collections.abc import Mapping, Sequence
from typing import Final

from context_assembler.ports import TokenCounter, Truncate, Truncation
from context_assembler.truncation.growing import GrowingHistory
from context_assembler.truncation.history import Rules
from context_assembler.truncation.simple import RULES as SIMPLE_RULES
from context_assembler.truncation.simple import simple
from context_assembler.truncation.sliding import RULES as SLIDING_RULES
from context_assembler.truncation.sliding import sliding
from context_assembler.truncation.smart import RULES as SMART_RULES
from context_assembler.truncation.smart import smart
from context_assembler.values.given import check_known, check_method, check_type, listed
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings

__all__ = ["TRUNCATIONS", "GrowingHistory", "Truncator"]

TRUNCATIONS: Final[Mapping[str, Truncate]] = {
    "smart": smart,
    "simple": simple,
    "sliding": sliding,
}


_RULES: Final[Mapping[str, Rules]] = {
    "smart": SMART_RULES,
    "simple": SIMPLE_RULES,
    "sliding": SLIDING_RULES,
}


class Truncator:
    """Makes histories fit by the strategy that its settings name."""

    def __init__(self, settings: TruncationSettings | None = None) -> None:
        """Check the settings.

        Raises:
            UnknownOptionError: There is no such strategy.
        """
        check_type(
            "settings", settings, TruncationSettings, type(None), such_as="TruncationSettings(…)"
        )
        self._settings = settings or TruncationSettings()
        strategy = self._settings.strategy
        check_known(strategy, TRUNCATIONS, kind="truncation strategy")
        self._truncate = TRUNCATIONS[strategy]

    def grow(
        self, messages: Sequence[Message], *, room_tokens: int, counter: TokenCounter
    ) -> GrowingHistory:
        """Return a history that is made to fit again and again while it grows to these messages."""
        _check(room_tokens=room_tokens, counter=counter)
        return GrowingHistory(
            listed("messages", messages, Message, such_as="a list of Message(…)"),
            room_tokens=room_tokens,
            counter=counter,
            settings=self._settings,
            rules=_RULES[self._settings.strategy],
        )

    def truncate(
        self, messages: Sequence[Message], *, room_tokens: int, counter: TokenCounter
    ) -> Truncation:
        """Return what to send of a repaired history.

        While only messages are appended and room, settings and counts stay the same, equal levels
        mean that the result starts with the earlier result.

        Args:
            messages: The history, oldest first, with this call's notes at its end.
            room_tokens: What the messages may use together.

        Raises:
            ContextOverflowError: What may not be dropped does not fit, even shortened.
        """
        _check(room_tokens=room_tokens, counter=counter)
        messages = listed("messages", messages, Message, such_as="a list of Message(…)")
        return self._truncate(
            messages, room_tokens=room_tokens, counter=counter, settings=self._settings
        )


def _check(*, room_tokens: object, counter: object) -> None:
    check_type("room_tokens", room_tokens, int, such_as="a number of tokens, such as 100_000")
    check_method("counter", counter, "count_message", such_as="TokenCounter(…)")
