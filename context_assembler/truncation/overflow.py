"""What is done where nothing more can be dropped: shorten inside what is left, or say what is too big."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias, assert_never

from context_assembler.errors import ContextOverflowError
from context_assembler.errors.base import with_article
from context_assembler.ports import TokenCounter
from context_assembler.truncation.apply import CarriedOut, Piece, shortened_entry
from context_assembler.truncation.checkpoints import Cut
from context_assembler.truncation.history import MeasuredHistory, is_user
from context_assembler.truncation.shorten import (
    block_tokens,
    call_tokens,
    result_tokens,
    shorten_parts,
)
from context_assembler.values.options import OverflowPolicy, TruncationSettings
from context_assembler.values.parts import (
    Document,
    Image,
    Opaque,
    Part,
    Text,
    ToolCall,
    ToolResult,
)

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

    Within a group one limit is lowered step by step and holds for every part, so that the largest
    shrinks first. A part is shortened as a function of itself and the limit.

    Raises:
        ContextOverflowError: Even the shortest form is too large.
    """
    sizes = _part_sizes(done.pieces, history, counter=counter)
    total_tokens = done.tokens
    ladder = list(_ladder(room_tokens, settings=settings))
    shortest = done
    for stage, limits in enumerate(ladder, start=1):
        saved = sum(size - limits[group] for group, size in sizes if size > limits.get(group, size))
        if total_tokens - saved <= room_tokens or stage == len(ladder):
            shortest = _shortened(done, history, limits, counter=counter)
            if shortest.tokens <= room_tokens:
                return shortest, replace(cut, stage=stage)
    raise _overflow(
        shortest.pieces, history, cut, room_tokens=room_tokens, settings=settings, counter=counter
    )


def _ladder(room_tokens: int, *, settings: TruncationSettings) -> Iterator[_Limits]:
    """Yield the limits to try: one group after the other from the room down to its minimum."""
    limits = _Limits()
    for group in _GROUPS[settings.on_overflow]:
        is_result = group in ("results", "pinned results")
        minimum = settings.stub_tokens if is_result else min(MINIMUM_TOKENS, settings.stub_tokens)
        limit = max(room_tokens, minimum)
        while limit > minimum:
            yield {**limits, group: limit}
            limit = max(minimum, int(limit * _NEXT_LIMIT_SHARE))
        limits[group] = minimum
        yield dict(limits)


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
        (group, _part_tokens(part, counter=counter, seq=piece.message.seq))
        for piece in pieces
        for part in piece.message.parts
        if isinstance(part, ToolResult | ToolCall | Text)
        and (group := _group_of(part, piece, history)) is not None
    ]


def _part_tokens(
    part: ToolResult | ToolCall | Text | Opaque, *, counter: TokenCounter, seq: int
) -> int:
    match part:
        case ToolResult():
            return result_tokens(part, counter=counter, seq=seq)
        case ToolCall():
            return call_tokens(part, counter=counter, seq=seq)
        case Text(text):
            return counter.count_text(text)
        case Opaque():
            return block_tokens(part, counter=counter, seq=seq)
        case _:
            assert_never(part)


def _shortened(
    done: CarriedOut, history: MeasuredHistory, limits: _Limits, *, counter: TokenCounter
) -> CarriedOut:
    shortened = CarriedOut(entries=dict(done.entries))
    for piece in done.pieces:
        smaller = _shortened_piece(piece, history, limits, counter=counter)
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


def _overflow(
    pieces: Sequence[Piece],
    history: MeasuredHistory,
    cut: Cut,
    *,
    room_tokens: int,
    settings: TruncationSettings,
    counter: TokenCounter,
) -> ContextOverflowError:
    by_label: defaultdict[str, list[Piece]] = defaultdict(list)
    for piece in pieces:
        by_label[_label(piece, history, cut)].append(piece)
    sizes = {label: sum(p.tokens for p in of_label) for label, of_label in by_label.items()}
    largest = max(sizes, key=lambda label: sizes[label])
    worst = max(by_label[largest], key=lambda piece: piece.tokens)
    return ContextOverflowError(
        budget_tokens=room_tokens,
        needed_tokens=sum(sizes.values()),
        culprit=f"the {largest} ({_name(worst, counter=counter)})",
        sizes_tokens=sizes,
        remedy=_remedy(
            largest,
            settings.on_overflow,
            has_media=_has_media(worst),
            is_native=isinstance(_largest_part(worst, counter=counter), Opaque),
        ),
    )


def _label(piece: Piece, history: MeasuredHistory, cut: Cut) -> str:
    number, message = piece.exchange, piece.message
    if message.kind in ("marker", "note", "summary"):
        return {"marker": "marker", "note": "notes", "summary": "summary"}[message.kind]
    if message.is_pinned:
        return "pinned messages"
    if number == history.last:
        return "last user message" if is_user(history.exchanges[number]) else "exchange in flight"
    if number == history.task:
        return "task"
    if number == history.last_user[cut.kept_from]:
        return "last user message"
    return "other messages that have to stay"


def _name(piece: Piece, *, counter: TokenCounter) -> str:
    """Name a message by its largest call, result or block of a provider's own, else by its id."""
    largest = _largest_part(piece, counter=counter)
    whole = f"message {piece.message.id!r}" if piece.message.id else f"role {piece.message.role}"
    match largest:
        case ToolCall(call_id=call_id) | ToolResult(call_id=call_id):
            return f"call {call_id!r}"
        case Opaque(provider=provider, block=block):
            kind = block.get("type")
            named = f"{kind} block" if isinstance(kind, str) else "block"
            return f"{with_article(named)} of {provider}, which goes back verbatim, in {whole}"
        case None:
            return whole


def _largest_part(piece: Piece, *, counter: TokenCounter) -> ToolCall | ToolResult | Opaque | None:
    listed = [p for p in piece.message.parts if isinstance(p, ToolCall | ToolResult | Opaque)]
    seq = piece.message.seq
    return max(listed, key=lambda part: _part_tokens(part, counter=counter, seq=seq), default=None)


def _has_media(piece: Piece) -> bool:
    return any(isinstance(part, Image | Document) for part in piece.message.parts)


def _remedy(label: str, on_overflow: OverflowPolicy, *, has_media: bool, is_native: bool) -> str:
    raise_the_limit = "raise max_context_tokens or choose a model with a larger window."
    if has_media:
        return f"Send smaller or fewer images and documents, {raise_the_limit}"
    if is_native:
        return f"Limit what the provider's own tools may return, {raise_the_limit}"
    if label in ("task", "last user message") and on_overflow == "error":
        return f"Set on_overflow='shorten' to have the user's text shortened, {raise_the_limit}"
    if label == "pinned messages":
        return f"Unpin some of them, {raise_the_limit}"
    if label == "summary":
        return f"Compact again to a shorter summary, {raise_the_limit}"
    if label == "exchange in flight":
        return f"Make fewer or smaller calls at once, {raise_the_limit}"
    return raise_the_limit.capitalize()
