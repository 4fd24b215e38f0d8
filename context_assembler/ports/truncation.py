"""The socket of truncation strategies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from context_assembler.ports.tokens import TokenCounter
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings
from context_assembler.values.report import ReportEntry

CHECKPOINT_LEVELS: Final = 1 << 46
"""Levels nearer to 0 are those of cuts at checkpoints that shorten no more than old results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """A history that fits.

    `entries` has one row for every message that was shortened or dropped. `level` is a number for
    the cut: 0 means untouched; the same level means the same cut. One that `holds` is made at a
    checkpoint, until messages behind it leave less than `spare_tokens` of the room: what it left is
    taken for so much more.
    """

    messages: tuple[Message, ...]
    entries: tuple[ReportEntry, ...] = ()
    level: int = 0
    holds: bool = False
    spare_tokens: int = 0


class Truncate(Protocol):
    """Makes a repaired history fit: at most `room_tokens`, still in order, still paired."""

    def __call__(
        self,
        messages: Sequence[Message],
        /,
        *,
        room_tokens: int,
        counter: TokenCounter,
        settings: TruncationSettings,
    ) -> Truncation:
        """Return what to send.

        Raises:
            ContextOverflowError: The anchors alone do not fit, even shortened.
        """
        ...
