"""Parts made smaller, and what is done if nothing more can be dropped: shorten inside what is left."""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from context_assembler import events
from context_assembler.errors import ContextOverflowError, with_article
from context_assembler.events import ASSISTANT, KIND_MASK, PINNED, USER, Json, JsonObject
from context_assembler.options import OverflowPolicy, TruncationSettings
from context_assembler.report import Rule
from context_assembler.texts import shorten_text

if TYPE_CHECKING:
    from context_assembler.truncation.cut import History

_Limits: TypeAlias = dict[str, int]  # the most tokens of a part, by group
_Sizes: TypeAlias = dict[tuple[int, int], tuple[str, int]]  # by line and part: group and tokens
_Known: TypeAlias = "dict[tuple[int, frozenset[tuple[str, int]]], Shortened | None]"

# By group of parts, what the report calls it; the order in which groups are shortened. What the model
# said comes after what it asked for and got: in words it holds what another provider's own tools found.
_GROUPS: Final[Mapping[str, str]] = {
    "results": "results of tools",
    "arguments": "arguments of calls",
    "pinned results": "pinned results of tools",
    "pinned arguments": "pinned arguments of calls",
    "reply text": "what the model said",
    "earlier user text": "what the user said before the last time",
    "user text": "what the user said last, or pinned",
}
_LAST_GROUP: Final = "user text"  # only if the caller allows it
_MINIMUM_TOKENS: Final = 24  # a marker with a few words on either side
_LEAST_GAIN_TOKENS: Final = 16  # a little more than the marker costs; less is not worth the content
_NEXT_LIMIT_SHARE: Final = 0.85
_ROUNDS: Final = 4
_LARGER_NUMBER_TOKENS: Final = 6
_SHORTEST_STRING_CHARS: Final = 40


class Lines(Protocol):
    """The bodies of a history's lines; only those that are shortened are read.

    `parts` returns the parts of a line as they are sent if nothing is cut. `count` returns the tokens
    of parts that are sent as a message of this kind; `line` is the line that they are part of, so that
    they are counted as the line was (-1: none). `name` returns the id of the line's event, if it has
    one, for reports and errors. `is_clock` says whether a line is a note that tells the time. `handle`
    returns how the events of lines are read with the tool `history`, as a marker says it: empty if the
    tool is not offered; the longest one for no lines.
    """

    def parts(self, line: int) -> Sequence[JsonObject]: ...
    def count(self, kind: int, parts: Sequence[JsonObject], line: int = -1) -> int: ...
    def count_text(self, text: str) -> int: ...
    def name(self, line: int) -> str: ...
    def is_clock(self, line: int) -> bool: ...
    def handle(self, _lines: Sequence[int], /) -> str:
        return ""


def part_tokens(lines: Lines, part: JsonObject, line: int) -> int:
    """Return the tokens of a part: of a text alone, of anything else as a message of its own."""
    if part["type"] == "text":
        return lines.count_text(part["text"])
    kind = events.TOOL_RESULT if part["type"] == "tool_result" else ASSISTANT
    return lines.count(kind | events.flags_of([part]), [part], line)


def shorten_part(lines: Lines, part: JsonObject, line: int, max_tokens: int) -> JsonObject:
    """Return the part cut down to a limit; the same object if it has that size, or cannot shrink."""
    kind = part["type"]
    if kind == "text":
        short = _shorten_text(lines, part["text"], [line], max_tokens)
        return part if short == part["text"] else {"type": "text", "text": short}
    if not kind.startswith("tool_") or part_tokens(lines, part, line) <= max_tokens:
        return part
    smaller = _shorten_result if kind == "tool_result" else _shorten_call
    return smaller(lines, part, line, max_tokens)


def _shorten_text(lines: Lines, text: str, of: Sequence[int], max_tokens: int) -> str:
    handle, count = lines.handle(of), lines.count_text
    return shorten_text(text, max_tokens=max_tokens, count_text=count, handle=handle)


def smallest_stub_tokens(lines: Lines) -> int:
    """Return what is left at most of a result of which not even the marker fits its limit."""
    text = _shorten_text(lines, "9 " * 99, (), 1)
    content = [{"type": "text", "text": text}]
    stub = {"type": "tool_result", "call_id": "c", "content": content}
    return lines.count(events.TOOL_RESULT, [stub]) + _LARGER_NUMBER_TOKENS


def _shorten_result(lines: Lines, result: JsonObject, line: int, max_tokens: int) -> JsonObject:
    """Return a result whose text is head, marker with the original size, and tail.

    Images and documents are replaced by a line that names them. If not even the marker fits, the
    marker alone is left.
    """
    handle = lines.handle([line])
    text = "\n".join(_text_of(part, handle) for part in result.get("content", ()))
    allowed, shortened = max_tokens, result
    for _ in range(_ROUNDS):
        short = _shorten_text(lines, text, [line], allowed)
        shortened = {**result, "content": [{"type": "text", "text": short}]}
        over = part_tokens(lines, shortened, line) - max_tokens
        if over <= 0:
            break
        allowed = min(allowed, lines.count_text(short)) - over
    return shortened


def _text_of(part: JsonObject, handle: str) -> str:
    """Return what stands for a part of a result in its text."""
    kind, text = part["type"], part.get("text") or ""
    if kind == "image":
        return f"[an image was left out here{handle}]"
    if kind == "document" and not text:
        return f"[the document {part.get('title') or 'without a title'} was left out here{handle}]"
    return str(text)


def _shorten_call(lines: Lines, call: JsonObject, line: int, max_tokens: int) -> JsonObject:
    """Return a call with shorter arguments that are still a JSON object.

    Long strings go first, the longest most; then whole values; at last all arguments.
    """
    arguments: dict[str, Json] = call.get("arguments") or {}
    handle = lines.handle([line])
    shortest_chars = _SHORTEST_STRING_CHARS + len(handle)

    def with_arguments(smaller: Json) -> JsonObject:
        kept = {k: v for k, v in call.items() if k not in ("arguments_json", "signature")}
        return {**kept, "arguments": smaller}

    def clipped(text: str) -> str:
        about: Any = {"count_text": len, "unit": "characters", "handle": handle}
        return shorten_text(text, max_tokens=longest_chars, **about)

    def outlined(value: Json) -> Json:
        chars = _json_chars(value)
        return value if chars <= shortest_chars else f"[… {chars:,} characters left out{handle} …]"

    chars = [0]
    _changed(arguments, lambda text: chars.append(len(text)))
    longest_chars = max(chars)
    while longest_chars > shortest_chars:
        longest_chars = max(longest_chars // 2, shortest_chars)
        shortened = with_arguments(_changed(arguments, clipped))
        if part_tokens(lines, shortened, line) <= max_tokens:
            return shortened
    outline = with_arguments({name: outlined(value) for name, value in arguments.items()})
    if part_tokens(lines, outline, line) <= max_tokens:
        return outline
    return with_arguments({"left_out": f"{_json_chars(arguments):,} characters{handle}"})


def _changed(value: Json, change: Callable[[str], Json]) -> Json:
    """Return the value with every string inside it changed."""
    if isinstance(value, str):
        return change(value)
    if hasattr(value, "items"):
        return {name: _changed(inner, change) for name, inner in value.items()}
    return [_changed(inner, change) for inner in value] if hasattr(value, "append") else value


def _json_chars(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str))


class Shortened(NamedTuple):
    """What is sent of a line in place of its parts; without a `rule` nothing was shortened."""

    parts: Sequence[JsonObject]
    tokens: int
    rule: Rule = ""
    reason: str = ""


class Piece(NamedTuple):
    """A line that is left; `line` is -1 for the marker."""

    line: int
    kind: int
    exchange: int
    tokens: int
    parts: Sequence[JsonObject]


class Floor(NamedTuple):
    """What has to stay of the first `exchanges` of a history, before it is shortened.

    Attributes:
        task: The exchange of the task; `None` if it is no anchor.
        kept: Everything loose before this boundary is gone.
        omitted: Lines of these exchanges that are not sent.
    """

    pieces: list[Piece]
    exchanges: int
    task: int | None
    kept: int
    history: "History"
    omitted: Sequence[int] = ()

    @property
    def tokens(self) -> int:
        """All of it."""
        return sum(piece.tokens for piece in self.pieces)

    def group_of(self, piece: Piece, part: JsonObject) -> str | None:
        """Return the group that a part is shortened with; `None`: it goes back verbatim."""
        kind, is_pinned = piece.kind & KIND_MASK, piece.kind & PINNED
        if part["type"] in ("tool_result", "tool_call"):
            name = "results" if part["type"] == "tool_result" else "arguments"
            return f"pinned {name}" if is_pinned else name
        if part["type"] != "text" or kind not in (USER, ASSISTANT, events.TOOL_CALL):
            return None
        if kind != USER:
            return "reply text"
        is_last = piece.exchange == self.history.last_opener(self.exchanges)
        return _LAST_GROUP if is_last or is_pinned else "earlier user text"


class Shortening(NamedTuple):
    """A floor made smaller: what is sent of its lines, by line, and the tokens of all that is left.

    `stage` is the number of the last group that was shortened, and the most tokens of its parts;
    `None`: nothing had to be.
    """

    shortened: dict[int, Shortened]
    tokens: int
    stage: tuple[int, int] | None = None


def shorten_to(
    most_tokens: int, floor: Floor, lines: Lines, settings: TruncationSettings
) -> Shortening:
    """Return the floor with its largest parts shortened to so much, or as far as they can be.

    One group is shortened before the next. Within a group one limit is lowered step by step and holds
    for every part, so that the largest shrinks first; the highest one that seems to do is tried first.
    A part is shortened as a function of itself and the limit.
    """
    shortest = Shortening({}, floor.tokens)
    over = floor.tokens - most_tokens
    if over <= 0:
        return shortest
    known: _Known = {}
    sizes = _sizes(floor, lines)
    for limits in _worth_trying(list(sizes.values()), over, settings):
        group, limit = list(limits.items())[-1]
        shortest = _shorten(floor, limits, lines, sizes, known)
        shortest = shortest._replace(stage=(list(_GROUPS).index(group) + 1, limit))
        if shortest.tokens <= most_tokens:
            break
    return shortest


def least_tokens(floor: Floor, lines: Lines, room: int, settings: TruncationSettings) -> int:
    """Return how little shortening leaves of the groups that have to be shortened for the room."""
    sizes, left = list(_sizes(floor, lines).values()), floor.tokens
    for group in _groups(settings.on_overflow):
        if left <= room:
            break
        minimum = _minimum_tokens(group, settings)
        left -= sum(_gain(size, minimum) for one, size in sizes if one == group)
    return left


def shortens_user_text(stage: tuple[int, int] | None) -> bool:
    """Whether that stage shortened what the user said."""
    return stage is not None and list(_GROUPS)[stage[0] - 1].endswith("user text")


def _gain(tokens: int, limit: int) -> int:
    """Return what shortening a part to a limit frees: nothing if that is not worth the content."""
    return tokens - limit if tokens - limit >= _LEAST_GAIN_TOKENS else 0


def _groups(on_overflow: OverflowPolicy) -> list[str]:
    return [one for one in _GROUPS if one != _LAST_GROUP or on_overflow == "shorten"]


def _minimum_tokens(group: str, settings: TruncationSettings) -> int:
    is_result = group.endswith("results")
    return settings.stub_tokens if is_result else min(_MINIMUM_TOKENS, settings.stub_tokens)


def _sizes(floor: Floor, lines: Lines) -> _Sizes:
    return {
        (piece.line, at): (group, part_tokens(lines, part, piece.line))
        for piece in floor.pieces
        for at, part in enumerate(piece.parts)
        if (group := floor.group_of(piece, part)) is not None
    }


def _worth_trying(
    sizes: Sequence[tuple[str, int]], over: int, settings: TruncationSettings
) -> Iterator[_Limits]:
    """Yield the limits that seem to be low enough, the highest ones first, and the lowest of all."""
    limits: _Limits = {}
    groups = _groups(settings.on_overflow)
    for group in groups:
        own = [size for one, size in sizes if one == group]
        minimum = _minimum_tokens(group, settings)
        limit = _highest(own, over, minimum)
        while limit > minimum:
            yield {**limits, group: limit}
            limit = max(minimum, int(limit * _NEXT_LIMIT_SHARE))
        limits[group] = minimum
        over -= _saved(own, minimum)
        if over <= 0 or group == groups[-1]:
            yield dict(limits)


def _highest(sizes: Sequence[int], wanted: int, minimum: int) -> int:
    """Return the highest limit that frees so much of parts of these sizes, or else the minimum."""
    limits = range(minimum, max(sizes, default=minimum) + 1)
    does = bisect_left(limits, True, key=lambda limit: _saved(sizes, limit) < wanted)
    return minimum + max(0, does - 1)


def _saved(sizes: Sequence[int], limit: int) -> int:
    return sum(_gain(size, limit) for size in sizes)


def _shorten(
    floor: Floor, limits: _Limits, lines: Lines, sizes: _Sizes, known: _Known
) -> Shortening:
    """Return what limits leave; `known` is what is left of each line under its own limits."""
    shortened: dict[int, Shortened] = {}
    tokens = floor.tokens
    for piece in floor.pieces:
        sized = [sizes.get((piece.line, at), ("", 0)) for at in range(len(piece.parts))]
        groups = {group for group, _ in sized}
        key = piece.line, frozenset(pair for pair in limits.items() if pair[0] in groups)
        if key not in known:
            known[key] = _shorten_line(floor, piece, limits, lines, sized)
        if (smaller := known[key]) is not None:
            shortened[piece.line] = smaller
            tokens += smaller.tokens - piece.tokens
    return Shortening(shortened, tokens)


def _shorten_line(
    floor: Floor,
    piece: Piece,
    limits: _Limits,
    lines: Lines,
    sized: Sequence[tuple[str, int]],
) -> Shortened | None:
    parts: list[JsonObject] = []
    changed: set[str] = set()
    for part, (group, tokens) in zip(piece.parts, sized, strict=True):
        limit, kept = limits.get(group, tokens), part
        if _gain(tokens, limit):
            kept = shorten_part(lines, part, piece.line, limit)
            changed.add(group)
        parts.append(kept)
    if not changed:
        return None
    kind = piece.kind & KIND_MASK
    what = [said for group, said in _GROUPS.items() if group in changed]
    if piece.exchange == floor.task and kind == USER:
        what = ["the user's task"]
    return Shortened(
        parts,
        lines.count(piece.kind, parts, piece.line),
        "overflow.shorten",
        f"What may not be left out does not fit, so that {' and '.join(what)} had to be shortened.",
    )


def overflow_of(
    floor: Floor, shortest: Shortening, lines: Lines, room: int, settings: TruncationSettings
) -> ContextOverflowError:
    """Return the error that names the largest of what may not be left out, and a way out."""
    by_label: defaultdict[str, list[Piece]] = defaultdict(list)
    sizes: defaultdict[str, int] = defaultdict(int)
    for whole in floor.pieces:
        short = shortest.shortened.get(whole.line)
        piece = whole if short is None else whole._replace(parts=short.parts, tokens=short.tokens)
        label = _label(piece, floor)
        by_label[label].append(piece)
        sizes[label] += piece.tokens
    largest = max(sizes, key=lambda label: sizes[label])
    worst = max(by_label[largest], key=lambda piece: piece.tokens)
    kinds = ("tool_call", "tool_result", "opaque")
    native = [part for part in worst.parts if part["type"] in kinds]
    part = max(native, key=lambda one: part_tokens(lines, one, worst.line), default=None)
    return ContextOverflowError(
        budget_tokens=room,
        needed_tokens=shortest.tokens,
        culprit=f"the {largest} ({_name(part, worst, lines)})",
        sizes_tokens=sizes,
        remedy=_remedy(largest, worst, part, settings.on_overflow),
    )


def _label(piece: Piece, floor: Floor) -> str:
    history, kind = floor.history, piece.kind & KIND_MASK
    if kind in (events.NOTE, events.COMPACTION):
        return "marker" if piece.line < 0 else "notes" if kind == events.NOTE else "summary"
    if piece.kind & PINNED:
        return "pinned messages"
    if piece.exchange == floor.exchanges - 1:
        is_user = history.kinds[history.starts[piece.exchange]] & KIND_MASK == USER
        return "last user message" if is_user else "exchange in flight"
    if piece.exchange == floor.task:
        return "task"
    if piece.exchange == history.last_opener(floor.kept):
        return "last user message"
    return "other messages that have to stay"


def _name(part: JsonObject | None, worst: Piece, lines: Lines) -> str:
    """Name a line by its largest call, result or block of a provider's own, else by its id."""
    event_id = lines.name(worst.line) if worst.line >= 0 else ""
    role = "assistant" if worst.kind & KIND_MASK in (ASSISTANT, events.TOOL_CALL) else "user"
    whole = f"message {event_id!r}" if event_id else f"role {role}"
    if part is None:
        return whole
    if part["type"] != "opaque":
        return f"call {part['call_id']!r}"
    block_type = part["block"].get("type")
    named = f"{block_type} block" if isinstance(block_type, str) else "block"
    return f"{with_article(named)} of {part['provider']}, which goes back verbatim, in {whole}"


def _remedy(label: str, worst: Piece, part: JsonObject | None, on_overflow: OverflowPolicy) -> str:
    raise_the_limit = "raise max_context_tokens or choose a model with a larger window."
    if any(one["type"] in ("image", "document") for one in worst.parts):
        return f"Send smaller or fewer images and documents, {raise_the_limit}"
    if part is not None and part["type"] == "opaque":
        return f"Limit what the provider's own tools may return, {raise_the_limit}"
    if label in ("task", "last user message") and on_overflow == "error":
        return f"Set on_overflow='shorten' to have the user's text shortened, {raise_the_limit}"
    advice = {
        "pinned messages": "Unpin some of them",
        "summary": "Compact again to a shorter summary",
        "exchange in flight": "Make fewer or smaller calls at once",
    }.get(label)
    return f"{advice}, {raise_the_limit}" if advice else raise_the_limit.capitalize()
