"""A cut carried out: the messages that are left, and one entry for everything done."""

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
    """What a cut leaves: pieces in order, and per message index what was done to it.

    `stage` says how far it was shortened where nothing more could be dropped: by the number of the
    last group of parts that were, and the most tokens of each.
    """

    pieces: list[Piece] = field(default_factory=list[Piece])
    entries: dict[int, ReportEntry] = field(default_factory=dict[int, ReportEntry])
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
        new = [
            Piece(
                message=history.messages[index],
                tokens=history.message_tokens[index],
                index=index,
                exchange=later,
            )
            for later in range(number, len(history.exchanges))
            for index in range(history.starts[later], history.starts[later + 1])
        ]
        return replace(self, pieces=[*self.pieces, *new])

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages to send."""
        return tuple(piece.message for piece in self.pieces)

    @property
    def sorted_entries(self) -> tuple[ReportEntry, ...]:
        """The entries in order of appearance."""
        return tuple(self.entries[index] for index in sorted(self.entries))


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
    window_from: int = 0,
    stubs: Stubs | None = None,
) -> CarriedOut:
    """Drop and shorten as the cut says.

    Args:
        stubs: What was shortened before; what this cut shortens is added.
    """
    done = CarriedOut()
    stubs = {} if stubs is None else stubs
    islands = history.islands(cut.kept_from)
    gap: int | None = None
    for number in range(len(history.exchanges)):
        if number >= cut.kept_from or history.is_anchor[number] or number in islands:
            is_whole = number >= cut.whole_from or not history.bulky[number]
            _keep(
                done,
                history,
                number,
                stub_tokens=None if is_whole else stub_tokens,
                rules=rules,
                counter=counter,
                stubs=stubs,
            )
            continue
        gap = len(done.pieces) if gap is None else gap
        _drop(done, history, number, rules=rules, is_outside=number < window_from)
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
    stubs: Stubs,
) -> None:
    for index in range(history.starts[number], history.starts[number + 1]):
        message, tokens = history.messages[index], history.message_tokens[index]
        if stub_tokens is not None and message.role == "tool":
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


def _drop(
    done: CarriedOut, history: MeasuredHistory, number: int, *, rules: Rules, is_outside: bool
) -> None:
    rule = f"{rules.name}.window" if is_outside else f"{rules.name}.drop"
    reason = (
        "Older than the newest turns that this strategy keeps."
        if is_outside
        else "The history does not fit, and the oldest exchanges go first."
    )
    for index in range(history.starts[number], history.starts[number + 1]):
        done.entries[index] = ReportEntry(
            kind="message",
            id=history.messages[index].id,
            decision="dropped",
            tokens_before=history.message_tokens[index],
            reason=reason,
            rule=rule,
        )
