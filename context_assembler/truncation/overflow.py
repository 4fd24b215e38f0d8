"""What is done where nothing more can be dropped: shorten inside what is left."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from context_assembler.ports import TokenCounter
from context_assembler.truncation.apply import CarriedOut, Piece, shortened_entry
from context_assembler.truncation.checkpoints import Cut
from context_assembler.truncation.history import MeasuredHistory
from context_assembler.truncation.shorten import part_tokens, shorten_parts
from context_assembler.truncation.too_large import overflow_of
from context_assembler.values.options import OverflowPolicy, TruncationSettings
from context_assembler.values.parts import Part, Text, ToolCall, ToolResult

_Group: TypeAlias = Literal[
    "results",
    "arguments",
    "pinned results",
    "pinned arguments",
    "reply text",
    "earlier user text",
    "user text",
]
_Limits: TypeAlias = dict[_Group, int]
_Known: TypeAlias = dict[tuple[int, frozenset[tuple[str, int]]], Piece]

_WHAT: Final[dict[_Group, str]] = {
    "results": "results of tools",
    "arguments": "arguments of calls",
    "pinned results": "pinned results of tools",
    "pinned arguments": "pinned arguments of calls",
    "reply text": "what the model said",
    "earlier user text": "what the user said before the last time",
    "user text": "what the user said last, or pinned",
}

MINIMUM_TOKENS: Final = 24  # a marker with a few words on either side
_NEXT_LIMIT_SHARE: Final = 0.85

# What the model said comes behind what it asked for and got: in words it holds what another
# provider's own tools found. What the user said last, or pinned, is shortened only where the caller
# allows it.
_ALWAYS: Final[tuple[_Group, ...]] = (
    "results",
    "arguments",
    "pinned results",
    "pinned arguments",
    "reply text",
    "earlier user text",
)
_GROUPS: Final[dict[OverflowPolicy, tuple[_Group, ...]]] = {
    "error": _ALWAYS,
    "shorten": (*_ALWAYS, "user text"),
}


def relieve(
    done: CarriedOut,
    *,
    history: MeasuredHistory,
    cut: Cut,
    room_tokens: int,
    settings: TruncationSettings,
    counter: TokenCounter,
) -> tuple[CarriedOut, Cut]:
    """Shorten the largest parts of what is left until it fits, each group before the next.

    Raises:
        ContextOverflowError: Even the shortest form is too large.
    """
    shortest = shorten_to(
        room_tokens,
        done,
        history=history,
        room_tokens=room_tokens,
        settings=settings,
        counter=counter,
    )
    if shortest.tokens <= room_tokens:
        return shortest, replace(cut, stage=shortest.stage)
    raise overflow_of(
        shortest.pieces, history, cut, room_tokens=room_tokens, settings=settings, counter=counter
    )


def shorten_to(
    most_tokens: int,
    done: CarriedOut,
    *,
    history: MeasuredHistory,
    room_tokens: int,
    settings: TruncationSettings,
    counter: TokenCounter,
) -> CarriedOut:
    """Return what is left with its largest parts shortened to so much, or as far as they can be.

    Within a group one limit is lowered step by step and holds for every part, so that the largest
    shrinks first; the highest one that seems to do is tried first. A part is shortened as a function
    of itself and the limit.
    """
    if done.tokens <= most_tokens:
        return done
    sizes = _part_sizes(done.pieces, history, counter=counter)
    shortest = done
    known: _Known = {}
    for limits in _worth_trying(sizes, done.tokens - most_tokens, room_tokens, settings=settings):
        shortest = _shortened(done, history, limits, counter=counter, known=known)
        if shortest.tokens <= most_tokens:
            group, limit = list(limits.items())[-1]
            return replace(shortest, stage=(list(_WHAT).index(group) + 1, limit))
    return shortest


def _worth_trying(
    sizes: Sequence[tuple[_Group, int]],
    over_tokens: int,
    room_tokens: int,
    *,
    settings: TruncationSettings,
) -> Iterator[_Limits]:
    """Yield the limits that seem to be low enough, the highest ones first, and the lowest of all."""
    ladder = list(_ladder(room_tokens, settings=settings))
    tried_tokens = 0
    for limits, above in zip(ladder, [{}, *ladder], strict=False):
        saved = _saved_tokens(sizes, limits)
        if saved == tried_tokens:  # limits only fall: none of these is one of what was tried
            continue
        if saved >= over_tokens and not tried_tokens:
            yield _highest(limits, above, over_tokens=over_tokens, sizes=sizes)
        if saved >= over_tokens or limits is ladder[-1]:
            tried_tokens = saved
            yield limits


def _highest(
    limits: _Limits,
    above: _Limits,
    *,
    over_tokens: int,
    sizes: Sequence[tuple[_Group, int]],
) -> _Limits:
    """Return limits between these and those above, the last one as high as seems to do."""
    group, limit = list(limits.items())[-1]
    highest = range(limit, above.get(group, max(size for _, size in sizes)) + 1)
    fits = bisect_left(
        highest, True, key=lambda one: _saved_tokens(sizes, {**limits, group: one}) < over_tokens
    )
    return {**limits, group: highest[fits - 1]}


def _saved_tokens(sizes: Sequence[tuple[_Group, int]], limits: _Limits) -> int:
    return sum(size - limits[group] for group, size in sizes if size > limits.get(group, size))


def least_tokens(
    done: CarriedOut,
    *,
    history: MeasuredHistory,
    room_tokens: int,
    settings: TruncationSettings,
    counter: TokenCounter,
) -> int:
    """Return how little shortening leaves of the groups that have to be shortened for the room."""
    sizes = _part_sizes(done.pieces, history, counter=counter)
    left_tokens = done.tokens
    for group in _GROUPS[settings.on_overflow]:
        if left_tokens <= room_tokens:
            break
        minimum = _minimum_tokens(group, settings=settings)
        left_tokens -= sum(max(0, size - minimum) for one, size in sizes if one == group)
    return left_tokens


def _ladder(room_tokens: int, *, settings: TruncationSettings) -> Iterator[_Limits]:
    """Yield the limits to try: one group after the other from the room down to its minimum."""
    limits = _Limits()
    for group in _GROUPS[settings.on_overflow]:
        minimum = _minimum_tokens(group, settings=settings)
        limit = max(room_tokens, minimum)
        while limit > minimum:
            yield {**limits, group: limit}
            limit = max(minimum, int(limit * _NEXT_LIMIT_SHARE))
        limits[group] = minimum
        yield dict(limits)


def _minimum_tokens(group: _Group, *, settings: TruncationSettings) -> int:
    is_result = group in ("results", "pinned results")
    return settings.stub_tokens if is_result else min(MINIMUM_TOKENS, settings.stub_tokens)


def _group_of(part: Part, piece: Piece, history: MeasuredHistory) -> _Group | None:
    match part:
        case ToolResult():
            return "pinned results" if piece.message.is_pinned else "results"
        case ToolCall():
            return "pinned arguments" if piece.message.is_pinned else "arguments"
        case Text() if piece.message.is_from_user:
            is_last = piece.exchange == history.last_user[-1]
            return "user text" if is_last or piece.message.is_pinned else "earlier user text"
        case Text() if piece.message.role == "assistant":
            return "reply text"
        case _:  # a provider's own blocks go back verbatim, or with their whole exchange not at all
            return None


def _part_sizes(
    pieces: Sequence[Piece], history: MeasuredHistory, *, counter: TokenCounter
) -> list[tuple[_Group, int]]:
    return [
        (group, part_tokens(part, counter=counter, seq=piece.message.seq))
        for piece in pieces
        for part in piece.message.parts
        if isinstance(part, ToolResult | ToolCall | Text)
        and (group := _group_of(part, piece, history)) is not None
    ]


def _shortened(
    done: CarriedOut,
    history: MeasuredHistory,
    limits: _Limits,
    *,
    counter: TokenCounter,
    known: _Known,
) -> CarriedOut:
    """Return what is left of the pieces; `known` is what is left of each under its own limits."""
    shortened = replace(done, pieces=[], entries=dict(done.entries))
    for at, piece in enumerate(done.pieces):
        groups = {_group_of(part, piece, history) for part in piece.message.parts}
        own = frozenset((group, limit) for group, limit in limits.items() if group in groups)
        if (at, own) not in known:
            known[at, own] = _shortened_piece(piece, history, limits, counter=counter)
        smaller = known[at, own]
        shortened.pieces.append(smaller)
        if smaller is not piece and piece.index is not None:
            shortened.entries[piece.index] = shortened_entry(
                smaller.message,
                before=history.message_tokens[piece.index],
                after=smaller.tokens,
                rule="overflow.shorten",
                reason=_reason(piece, smaller, history),
            )
    return shortened


def _reason(whole: Piece, shorter: Piece, history: MeasuredHistory) -> str:
    parts = zip(whole.message.parts, shorter.message.parts, strict=True)
    groups = {_group_of(part, whole, history) for part, kept in parts if part != kept}
    what = [told for group, told in _WHAT.items() if group in groups]
    if whole.exchange == history.task and whole.message.is_from_user:
        what = ["the user's task"]
    return (
        f"What may not be left out does not fit, so that {' and '.join(what)} had to be shortened."
    )


def _shortened_piece(
    piece: Piece, history: MeasuredHistory, limits: _Limits, *, counter: TokenCounter
) -> Piece:
    def limit(part: Part) -> int | None:
        group = _group_of(part, piece, history)
        return None if group is None else limits.get(group)

    message = shorten_parts(piece.message, limit=limit, counter=counter)
    if message is piece.message:
        return piece
    return replace(piece, message=message, tokens=counter.count_message(message))
