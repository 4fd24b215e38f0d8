"""What is said where not even the shortest form fits: what is too large, and what helps."""

from collections import defaultdict
from collections.abc import Sequence

from context_assembler.errors import ContextOverflowError
from context_assembler.errors.base import with_article
from context_assembler.ports import TokenCounter
from context_assembler.truncation.apply import Piece
from context_assembler.truncation.checkpoints import Cut
from context_assembler.truncation.history import MeasuredHistory, is_user
from context_assembler.truncation.shorten import part_tokens
from context_assembler.values.options import OverflowPolicy, TruncationSettings
from context_assembler.values.parts import Document, Image, Opaque, ToolCall, ToolResult


def overflow_of(
    pieces: Sequence[Piece],
    history: MeasuredHistory,
    cut: Cut,
    *,
    room_tokens: int,
    settings: TruncationSettings,
    counter: TokenCounter,
) -> ContextOverflowError:
    """Return the error that names the largest of what may not be left out, and a way out."""
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
    return max(listed, key=lambda part: part_tokens(part, counter=counter, seq=seq), default=None)


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
