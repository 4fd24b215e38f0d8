"""What the compaction detector asks of a history, kept up while the history grows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from context_assembler.stages.detect_compaction import HistoryFacts
from context_assembler.values.changing import changed
from context_assembler.values.exchanges import Exchange, split_exchanges
from context_assembler.values.messages import Message

CountMessage: TypeAlias = Callable[[Message], int]


@dataclass(frozen=True, kw_only=True)
class RunningFacts:
    """The facts of a history, and what it takes to go on from them.

    Attributes:
        total_tokens: Of all messages.
        loose_tokens: Of finished exchanges, less the latest summary and pinned messages.
        asked: The last message of the user, and its tokens if `loose_tokens` has it.
        in_flight: The exchange that may still grow.
        grown_tokens: What came in since the latest summary; `None`: there is none.
    """

    messages: int
    tool_calls: int
    total_tokens: int
    loose_tokens: int
    asked: tuple[Message, int] | None
    in_flight: Exchange
    grown_tokens: int | None

    @property
    def facts(self) -> HistoryFacts:
        """What the detector asks."""
        asked_tokens = self.asked[1] if self.asked is not None else 0
        return HistoryFacts(
            messages=self.messages,
            tool_calls=self.tool_calls,
            compactable_tokens=self.loose_tokens - asked_tokens,
            grown_tokens=self.grown_tokens,
        )

    def followed_by(self, messages: Sequence[Message], *, count: CountMessage) -> "RunningFacts":
        """Return the facts with messages behind: none of them a summary."""
        *finished, in_flight = split_exchanges((*self.in_flight, *messages))
        new_tokens = sum(map(count, messages))
        loose_tokens = self.loose_tokens
        asked = self.asked
        for message in (message for exchange in finished for message in exchange):
            tokens = 0 if message.is_pinned or message.kind == "summary" else count(message)
            loose_tokens += tokens
            if asked is not None and message is asked[0]:
                asked = message, tokens
        last = next((m for m in reversed(messages) if m.is_from_user), None)
        if last is not None:
            is_loose = not last.is_pinned and any(last is m for one in finished for m in one)
            asked = last, count(last) if is_loose else 0
        return changed(
            self,
            messages=self.messages + sum(m.kind not in ("note", "marker") for m in messages),
            tool_calls=self.tool_calls + sum(len(m.tool_calls) for m in messages),
            total_tokens=self.total_tokens + new_tokens,
            loose_tokens=loose_tokens,
            asked=asked,
            in_flight=in_flight,
            grown_tokens=None if self.grown_tokens is None else self.grown_tokens + new_tokens,
        )


def read_facts(messages: Sequence[Message], *, count: CountMessage) -> RunningFacts:
    """Return the facts of a history that has at least one message."""
    summary = next((m for m in reversed(messages) if m.kind == "summary"), None)
    *finished, in_flight = split_exchanges(messages)
    asked = next((m for m in reversed(messages) if m.is_from_user), None)
    loose = [m for exchange in finished for m in exchange if m is not summary and not m.is_pinned]
    is_loose = asked is not None and any(m is asked for m in reversed(loose))
    arrived = [m for m in messages if summary and (m.seq > summary.seq or m.seq == 0)]
    return RunningFacts(
        messages=sum(m.kind not in ("note", "marker") for m in messages),
        tool_calls=sum(len(m.tool_calls) for m in messages),
        total_tokens=sum(map(count, messages)),
        loose_tokens=sum(map(count, loose)),
        asked=None if asked is None else (asked, count(asked) if is_loose else 0),
        in_flight=in_flight,
        grown_tokens=sum(map(count, arrived)) if summary else None,
    )
