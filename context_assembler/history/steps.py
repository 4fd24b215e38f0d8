"""Every step from a session's events to a valid history, in their order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import is_
from typing import Final, NamedTuple, TypeAlias

from context_assembler.stages.cap_entries import cap_entries
from context_assembler.stages.mask_secrets import SecretMasker
from context_assembler.stages.repair_history import repair_history
from context_assembler.stages.settle_tools import UNSETTLED, SettledTools
from context_assembler.stages.transform_messages import MessageTransformer
from context_assembler.tokens import counter_for
from context_assembler.values.events import SessionEvent
from context_assembler.values.growing import begin
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings
from context_assembler.values.parts import Text
from context_assembler.values.readers import Reader
from context_assembler.values.report import ReportEntry

Rows: TypeAlias = tuple[ReportEntry, ...]

BEFORE: Final = Message(role="user", origin="assembler", parts=(Text("(What came before.)"),))
"""Stands for a settled part while the rest is repaired: an answer is due behind both."""

_BEHIND: Final = Message(role="user", origin="assembler", parts=(Text("(What comes behind.)"),))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryWay:
    """How events become a history: everything that it depends on besides the events.

    Of `tools` that is which notes of their changes are declared by now, and left out; of `caps` how
    much one entry may take.
    """

    reader: Reader
    masker: SecretMasker
    tools: SettledTools = UNSETTLED
    caps: TruncationSettings = field(default_factory=TruncationSettings)


@dataclass(frozen=True, kw_only=True)
class History:
    """A valid history, oldest message first, and the session's own system prompt.

    `rows` are the report's rows by the step that wrote them. The first `settled_count` messages are
    the same in every later history of the session that has the same `lineage`.
    """

    messages: Sequence[Message] = ()
    leading_system: tuple[str, ...] = ()
    rows: tuple[Rows, Rows, Rows, Rows, Rows] = ((), (), (), (), ())
    settled_count: int = 0
    lineage: object = field(default=None, repr=False, compare=False)

    @property
    def entries(self) -> Rows:
        """One row for everything that was left out or changed, step by step."""
        return tuple(chain.from_iterable(self.rows))

    def followed_by(self, later: "History") -> "History":
        """Return both as one; the later one is still open."""
        first, second, third, fourth, fifth = (
            mine + theirs for mine, theirs in zip(self.rows, later.rows, strict=True)
        )
        return History(
            messages=begin(self.messages).followed_by(later.messages),
            leading_system=self.leading_system,
            rows=(first, second, third, fourth, fifth),
            settled_count=len(self.messages),
        )

    def goes_on_from(self, earlier: "History") -> bool:
        """Whether this is the earlier history with nothing changed and messages behind it."""
        start = (
            min(earlier.settled_count, self.settled_count)
            if self.lineage is not None and self.lineage is earlier.lineage
            else 0
        )
        before = earlier.messages[start:]
        now = self.messages[start : start + len(before)]
        return (
            len(now) == len(before)
            and all(map(is_, now, before))
            and self.leading_system == earlier.leading_system
            and self.rows == earlier.rows
        )


class Worked(NamedTuple):
    """What the steps made of events: the history, and the messages before they were repaired.

    `leaves_open`: whether a private key that was masked at the end may go on in what follows.
    """

    history: History
    messages: tuple[Message, ...]
    leaves_open: bool = False


def work_out(
    events: Iterable[SessionEvent],
    way: HistoryWay,
    *,
    is_beginning: bool = True,
    is_end: bool = True,
    is_open: bool = False,
) -> Worked:
    """Take every step from events to a valid history.

    Args:
        is_beginning: Whether the session begins with these events; else they follow others, behind
            which an answer is due.
        is_end: Whether it ends with them; else nothing is done about how they end.
        is_open: Whether a private key that was masked before them may go on in them.
    """
    reader = way.reader
    transformer = MessageTransformer(
        takes_leading_system=is_beginning, reads=reader.reads_compaction
    )
    transformed = transformer.transform(events)
    current, left_out = way.tools.leave_out_old(transformed.messages)
    before = () if is_beginning else (BEFORE,)
    behind = () if is_end else (_BEHIND,)
    repaired = repair_history(
        (*before, *current, *behind),
        accepts_prefill=reader.limits.supports("prefill"),
        provider=reader.provider,
    )
    end = len(repaired.messages) - len(behind)
    # Behind the repair: what hides a secret is cleaned away there, and what it was cut into joined.
    masked = way.masker.mask_messages(repaired.messages[len(before) : end], is_open=is_open)
    capped, capped_rows = cap_entries(
        masked.messages,
        caps=way.caps,
        count_text=counter_for(reader.limits).count_text,
    )
    history = History(
        messages=capped,
        leading_system=transformed.leading_system,
        rows=(transformed.entries, left_out, repaired.entries, masked.rows, capped_rows),
    )
    return Worked(history, transformed.messages, masked.leaves_open)
