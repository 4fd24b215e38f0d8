"""A history measured once: what each exchange costs, what may go, what its shortening would free."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final

from context_assembler.ports import TokenCounter
from context_assembler.truncation.shorten import result_tokens, smallest_stub_tokens
from context_assembler.values.exchanges import Exchange, split_exchanges
from context_assembler.values.messages import Message

_LEAST_OPENING: Final = 4  # exchanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a strategy does to a history that does not fit.

    Attributes:
        name: The strategy's name, for the report.
        keeps_task: Whether the first message of the user is an anchor.
        keeps_opening: Whether what stands right behind it is kept, where that leaves enough room.
        shortens: Whether bulky tool results are shortened before anything is dropped.
        marks: Whether a line tells the model that messages were left out.
        has_window: Whether only the newest turns are kept to begin with.
    """

    name: str
    keeps_task: bool = False
    keeps_opening: bool = False
    shortens: bool = False
    marks: bool = False
    has_window: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredHistory:
    """Exchanges with their tokens; a *boundary* `b` lies right before exchange `b`.

    Everything about a boundary follows from what lies before it and from the exchange behind it,
    so that it stays true while the history grows.

    Attributes:
        message_tokens: Tokens of each message.
        starts: Index of the first message of each exchange, and the number of messages.
        ends: For each boundary, all tokens before it.
        is_anchor: For each exchange, whether it is kept in any case.
        lead: How many exchanges at the start are summaries and instructions.
        task: The exchange of the first user message; `None` where it is not an anchor.
        opening_tokens: Tokens of the exchanges that are anchors only for standing at the start.
        last_user: For each boundary, the last exchange before it that a user message opens, or -1.
        loose: For each boundary, the tokens before it that may go.
        savings: For each boundary, the tokens that shortening bulky results before it frees.
        bulky: For each exchange, whether it has such a result.
        opened_by: The first anchor that needs a user message before it, and that message's
            exchange.
    """

    messages: Sequence[Message]
    message_tokens: Sequence[int]
    exchanges: Sequence[Exchange]
    starts: Sequence[int]
    ends: Sequence[int]
    is_anchor: Sequence[bool]
    lead: int
    task: int | None
    opening_tokens: int
    last_user: Sequence[int]
    loose: Sequence[int]
    savings: Sequence[int]
    bulky: Sequence[bool]
    opened_by: tuple[int, int] | None

    @property
    def last(self) -> int:
        """The exchange in flight."""
        return len(self.exchanges) - 1

    @property
    def has_opening(self) -> bool:
        """Whether exchanges are anchors only for standing at the start."""
        return self.opening_tokens > 0

    @property
    def head_tokens(self) -> int:
        """Tokens of what every cut begins with: summaries, instructions, the task."""
        head = {*range(self.lead), *(() if self.task is None else (self.task,))}
        return sum(map(self.tokens_of, head))

    def tokens_of(self, number: int) -> int:
        """Return the tokens of one exchange."""
        return sum(self.message_tokens[self.starts[number] : self.starts[number + 1]])

    def islands(self, boundary: int) -> set[int]:
        """Return the exchanges before a boundary that are kept for the sake of what is behind it.

        These are the user's last message, unless the boundary falls on one, and the user message
        that opens the window.
        """
        kept: set[int] = set()
        if not opens_window(self.exchanges[boundary]):
            kept.add(self.last_user[boundary])
        if self.opened_by is not None and self.opened_by[0] < boundary:
            kept.add(self.opened_by[1])
        return {number for number in kept if number >= 0 and not self.is_anchor[number]}

    def freed_by_dropping(self, boundary: int) -> int:
        """Return the tokens that dropping everything loose before a boundary frees."""
        return self.loose[boundary] - sum(map(self.tokens_of, self.islands(boundary)))


def is_user(exchange: Exchange) -> bool:
    """Whether a message of the user opens the exchange."""
    return exchange[0].is_from_user


def opens_window(exchange: Exchange) -> bool:
    """Whether a history may begin with the exchange: with the user, or what stands in for one."""
    return exchange[0].role == "user" and exchange[0].kind in ("said", "synthetic")


def measure(
    messages: Sequence[Message],
    message_tokens: Sequence[int],
    *,
    rules: Rules,
    stub_tokens: int,
    counter: TokenCounter,
) -> MeasuredHistory:
    """Measure a history that has at least one message; it has no opening."""
    exchanges = split_exchanges(messages)
    starts = [0, *accumulate(map(len, exchanges))]
    lead = _lead(exchanges)
    task = _first_user(exchanges) if rules.keeps_task else None
    anchors = _anchors(exchanges, lead=lead, task=task)
    tokens = [sum(message_tokens[a:b]) for a, b in pairwise(starts)]
    freed = [0] * len(exchanges)
    if rules.shortens:
        sizes = [
            [] if is_anchor else _bulky_sizes(exchange, message_tokens[a:b], stub_tokens, counter)
            for exchange, is_anchor, (a, b) in zip(
                exchanges, anchors, pairwise(starts), strict=True
            )
        ]
        freed = _savings(sizes, stub_tokens, counter)
    last_user = _last_users(exchanges)
    return MeasuredHistory(
        messages=messages,
        message_tokens=message_tokens,
        exchanges=exchanges,
        starts=starts,
        ends=_running(tokens),
        is_anchor=anchors,
        lead=lead,
        task=task,
        opening_tokens=0,
        last_user=last_user,
        loose=_running(0 if a else t for a, t in zip(anchors, tokens, strict=True)),
        savings=_running(freed),
        bulky=[saving > 0 for saving in freed],
        opened_by=_opened_by(exchanges, anchors=anchors, lead=lead, last_user=last_user),
    )


def with_opening(history: MeasuredHistory, *, most_tokens: int) -> MeasuredHistory:
    """Return the history with its opening as anchors: the first exchanges that are none yet.

    Args:
        most_tokens: What they may take together; the history stays the same where few have that room.
    """
    anchors = list(history.is_anchor)
    tokens = [b - a for a, b in pairwise(history.ends)]
    opening = _opening(anchors, tokens, most_tokens=most_tokens) if most_tokens else []
    if not opening:
        return history
    for number in opening:
        anchors[number] = True
    freed = [
        0 if is_anchor else b - a
        for is_anchor, (a, b) in zip(anchors, pairwise(history.savings), strict=True)
    ]
    return replace(
        history,
        is_anchor=anchors,
        opening_tokens=sum(tokens[number] for number in opening),
        loose=_running(0 if a else t for a, t in zip(anchors, tokens, strict=True)),
        savings=_running(freed),
        bulky=[saving > 0 for saving in freed],
        opened_by=_opened_by(
            history.exchanges, anchors=anchors, lead=history.lead, last_user=history.last_user
        ),
    )


def is_bulky(tokens: int, *, stub_tokens: int) -> bool:
    """Whether shortening a result of this size is worth a rewrite."""
    return tokens > 2 * stub_tokens


def _running(values: Iterable[int]) -> list[int]:
    return [0, *accumulate(values)]


def _lead(exchanges: Sequence[Exchange]) -> int:
    """Count the summaries, instructions and notes that stand before everything else."""
    for number, exchange in enumerate(exchanges):
        first = exchange[0]
        if not (first.kind in ("summary", "note") or first.role == "system"):
            return number
    return len(exchanges)


def _first_user(exchanges: Sequence[Exchange]) -> int | None:
    return next((n for n, exchange in enumerate(exchanges) if is_user(exchange)), None)


def _anchors(exchanges: Sequence[Exchange], *, lead: int, task: int | None) -> list[bool]:
    anchors = [any(m.is_pinned for m in exchange) for exchange in exchanges]
    summaries = [n for n, exchange in enumerate(exchanges) if exchange[0].kind == "summary"]
    for number in (*range(lead), *summaries[-1:], *([task] if task is not None else [])):
        anchors[number] = True
    return anchors


def _opening(anchors: Sequence[bool], tokens: Sequence[int], *, most_tokens: int) -> list[int]:
    """Return the first exchanges that are no anchors, as far as they may take so much together.

    There is no opening where so few have that room: then the newest matter more.
    """
    opening: list[int] = []
    for number, is_anchor in enumerate(anchors):
        most_tokens -= 0 if is_anchor else tokens[number]
        if most_tokens < 0:
            break
        opening += [] if is_anchor else [number]
    return opening if len(opening) >= _LEAST_OPENING else []


def _last_users(exchanges: Sequence[Exchange]) -> list[int]:
    last_user = [-1]
    for number, exchange in enumerate(exchanges):
        last_user.append(number if opens_window(exchange) else last_user[-1])
    return last_user


def _opened_by(
    exchanges: Sequence[Exchange], *, anchors: Sequence[bool], lead: int, last_user: Sequence[int]
) -> tuple[int, int] | None:
    """Find the first anchor that no user message opens, and the user message before it."""
    behind_lead = range(lead, len(exchanges))
    first = next((n for n in behind_lead if anchors[n] and exchanges[n][0].kind != "summary"), None)
    if first is None or opens_window(exchanges[first]) or last_user[first] < 0:
        return None
    return first, last_user[first]


def _bulky_sizes(
    exchange: Exchange, of_messages: Sequence[int], stub_tokens: int, counter: TokenCounter
) -> list[int]:
    """Return the tokens of each result of the exchange that shortening is worth it for."""
    bulky: list[int] = []
    for message, tokens in zip(exchange, of_messages, strict=True):
        if message.role == "tool" and is_bulky(tokens, stub_tokens=stub_tokens):
            results = message.tool_results
            sizes = (
                [tokens]
                if len(results) == 1
                else [result_tokens(r, counter=counter, seq=message.seq) for r in results]
            )
            bulky += [size for size in sizes if is_bulky(size, stub_tokens=stub_tokens)]
    return bulky


def _savings(sizes: Sequence[Sequence[int]], stub_tokens: int, counter: TokenCounter) -> list[int]:
    """Return what shortening the bulky results of each exchange to stubs frees at least."""
    if not any(sizes):
        return [0] * len(sizes)
    left_tokens = max(stub_tokens, smallest_stub_tokens(counter=counter))
    return [sum(max(0, size - left_tokens) for size in of_exchange) for of_exchange in sizes]
