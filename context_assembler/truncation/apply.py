"""A cut carried out: the messages that are left, and one entry for everything done."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from context_assembler.ports import TokenCounter
from context_assembler.truncation.checkpoints import Cut
from context_assembler.truncation.history import MeasuredHistory, Rules, is_bulky
from context_assembler.truncation.shorten import result_tokens, shorten_parts
from context_assembler.values.messages import Message
from context_assembler.values.parts import Part, Text, ToolResult
from context_assembler.values.report import ReportEntry

Stubs: TypeAlias = dict[int, tuple[Message, int]]
"""Messages with shortened results and their tokens, by the places of the whole ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A message that is left; `index` is its place in the history, `None` for the marker."""

    message: Message
    tokens: int
    index: int | None
    exchange: int


@dataclass(slots=True, kw_only=True)
class CarriedOut:
    """What a cut leaves: pieces in order, per message index how it was shortened, and what is gone.

    `dropped` has the numbers of exchanges in order; those before `window_from` lie outside the window.
    `stage` says how far it was shortened where nothing more could be dropped: by the number of the
    last group of parts that were, and the most tokens of each.
    """

    pieces: list[Piece] = field(default_factory=list[Piece])
    entries: dict[int, ReportEntry] = field(default_factory=dict[int, ReportEntry])
    dropped: list[int] = field(default_factory=list[int])
    window_from: int = 0
    stage: tuple[int, int] | None = None

    @property
    def tokens(self) -> int:
        """All pieces together."""
        return sum(piece.tokens for piece in self.pieces)

    @property
    def kept_tokens(self) -> int:
        """What is left of the history, without the marker."""
        return sum(piece.tokens for piece in self.pieces if piece.index is not None)

    def followed_by(self, history: MeasuredHistory, number: int) -> "CarriedOut":
        """Return the same with the history's exchanges from this one on behind it, as they are."""
        return replace(self, pieces=[*self.pieces, *whole_pieces(history, number)])

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages to send."""
        return tuple(piece.message for piece in self.pieces)

    def told(self, history: MeasuredHistory, rules: Rules) -> tuple[ReportEntry, ...]:
        """Return an entry for everything that was done, in order of appearance."""
        entries = dict(self.entries)
        for number in self.dropped:
            is_outside = number < self.window_from
            for index in range(history.starts[number], history.starts[number + 1]):
                entries[index] = _dropped_entry(history, index, rules=rules, is_outside=is_outside)
        return tuple(entries[index] for index in sorted(entries))


def whole_pieces(history: MeasuredHistory, number: int) -> list[Piece]:
    """Return the history's messages from an exchange on, as they are."""
    return [
        Piece(
            message=history.messages[index],
            tokens=history.message_tokens[index],
            index=index,
            exchange=later,
        )
        for later in range(number, len(history.exchanges))
        for index in range(history.starts[later], history.starts[later + 1])
    ]


def marker_message(left_out: int) -> Message:
    """Return the line that stands where messages are missing."""
    counted = "1 earlier message was" if left_out == 1 else f"{left_out:,} earlier messages were"
    text = f"[{counted} left out here to fit the context window.]"
    return Message(role="user", parts=(Text(text),), kind="marker", origin="assembler")


def carry_out(
    history: MeasuredHistory,
    cut: Cut,
    *,
    rules: Rules,
    stub_tokens: int,
    counter: TokenCounter,
    whole: Sequence[Piece],
    stubs: Stubs,
    window_from: int = 0,
) -> CarriedOut:
    """Drop and shorten as the cut says.

    Args:
        whole: All messages of the history, and perhaps of what comes behind it.
        stubs: What was shortened before; what this cut shortens is added.
    """
    done = CarriedOut(window_from=window_from)
    islands = history.islands(cut.kept_from)
    gap: int | None = None
    tail = max(cut.kept_from, cut.whole_from)  # from here on all is whole
    for number in range(tail):
        if number >= cut.kept_from or history.is_anchor[number] or number in islands:
            is_whole = number >= cut.whole_from or not history.bulky[number]
            _keep(
                done,
                history,
                number,
                stub_tokens=None if is_whole else stub_tokens,
                rules=rules,
                counter=counter,
                whole=whole,
                stubs=stubs,
            )
            continue
        gap = len(done.pieces) if gap is None else gap
        done.dropped.append(number)
    done.pieces += whole[history.starts[tail] : history.starts[-1]]
    if gap is not None and rules.marks:
        marker = marker_message(len(history.messages) - len(done.pieces))
        piece = Piece(message=marker, tokens=counter.count_message(marker), index=None, exchange=-1)
        done.pieces.insert(gap, piece)
    return done


def shortened_entry(
    message: Message, *, before: int, after: int, rule: str, reason: str
) -> ReportEntry:
    """Return the entry of a shortened message."""
    return ReportEntry(
        kind="message",
        id=message.id,
        decision="shortened",
        tokens_before=before,
        tokens_after=after,
        reason=reason,
        rule=rule,
    )


def _keep(
    done: CarriedOut,
    history: MeasuredHistory,
    number: int,
    *,
    stub_tokens: int | None,
    rules: Rules,
    counter: TokenCounter,
    whole: Sequence[Piece],
    stubs: Stubs,
) -> None:
    if stub_tokens is None:
        done.pieces += whole[history.starts[number] : history.starts[number + 1]]
        return
    for index in range(history.starts[number], history.starts[number + 1]):
        message, tokens = history.messages[index], history.message_tokens[index]
        if message.role == "tool":
            if index not in stubs:
                stub = _with_stubs(message, stub_tokens=stub_tokens, counter=counter)
                stubs[index] = stub, counter.count_message(stub)
            message, tokens = stubs[index]
        if message is not history.messages[index]:
            done.entries[index] = shortened_entry(
                message,
                before=history.message_tokens[index],
                after=tokens,
                rule=f"{rules.name}.shorten",
                reason="A bulky tool result of an older exchange.",
            )
        done.pieces.append(Piece(message=message, tokens=tokens, index=index, exchange=number))


def _with_stubs(message: Message, *, stub_tokens: int, counter: TokenCounter) -> Message:
    def limit(part: Part) -> int | None:
        if not isinstance(part, ToolResult):
            return None
        size = result_tokens(part, counter=counter, seq=message.seq)
        return stub_tokens if is_bulky(size, stub_tokens=stub_tokens) else None

    return shorten_parts(message, limit=limit, counter=counter)


def _dropped_entry(
    history: MeasuredHistory, index: int, *, rules: Rules, is_outside: bool
) -> ReportEntry:
    reason = (
        "Older than the newest turns that this strategy keeps."
        if is_outside
        else "The history does not fit, and the oldest exchanges go first."
    )
    return ReportEntry(
        kind="message",
        id=history.messages[index].id,
        decision="dropped",
        tokens_before=history.message_tokens[index],
        reason=reason,
        rule=f"{rules.name}.window" if is_outside else f"{rules.name}.drop",
    )
