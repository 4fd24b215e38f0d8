"""Parts of a message made smaller, each as a function of itself and a limit alone."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias, assert_never

from context_assembler.ports import TokenCounter
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Document,
    Image,
    Json,
    Opaque,
    Part,
    ResultPart,
    Text,
    ToolCall,
    ToolResult,
)
from context_assembler.values.texts.shortening import shorten_text

PartLimit: TypeAlias = Callable[[Part], int | None]

_ROUNDS: Final = 4
_LARGER_NUMBER_TOKENS: Final = 6
_SHORTEST_STRING_CHARS: Final = 40


def result_tokens(result: ToolResult, *, counter: TokenCounter, seq: int = 0) -> int:
    """Return the tokens of one result, as a message of its own.

    Args:
        seq: Of the message that holds it: what counts are corrected by goes by that.
    """
    return counter.count_message(Message(role="tool", parts=(result,), origin="tool", seq=seq))


def call_tokens(call: ToolCall, *, counter: TokenCounter, seq: int = 0) -> int:
    """Return the tokens of one call, as a message of its own; `seq` as in `result_tokens`."""
    return counter.count_message(Message(role="assistant", parts=(call,), origin="model", seq=seq))


def block_tokens(block: Opaque, *, counter: TokenCounter, seq: int = 0) -> int:
    """Return the tokens of a provider's own block, as a message; `seq` as in `result_tokens`."""
    return counter.count_message(Message(role="assistant", parts=(block,), origin="model", seq=seq))


def part_tokens(
    part: ToolResult | ToolCall | Text | Opaque, *, counter: TokenCounter, seq: int
) -> int:
    """Return the tokens of one part; `seq` as in `result_tokens`."""
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


def shorten_result(
    result: ToolResult, *, max_tokens: int, counter: TokenCounter, seq: int = 0
) -> ToolResult:
    """Return the result, or one whose text is head, marker with the original size, and tail.

    Images and documents are replaced by a line that names them. Where not even the marker fits,
    the marker alone is left.
    """
    if result_tokens(result, counter=counter, seq=seq) <= max_tokens:
        return result
    text = "\n".join(_spoken(part) for part in result.content)
    allowed_tokens = max_tokens
    shortened = result
    for _ in range(_ROUNDS):
        spoken = shorten_text(text, max_tokens=allowed_tokens, count_text=counter.count_text)
        shortened = replace(result, content=(Text(spoken),))
        over_tokens = result_tokens(shortened, counter=counter, seq=seq) - max_tokens
        if over_tokens <= 0:
            break
        allowed_tokens = min(allowed_tokens, counter.count_text(spoken)) - over_tokens
    return shortened


def smallest_stub_tokens(*, counter: TokenCounter) -> int:
    """Return what is left at most of a result of which not even the marker fits its limit."""
    marker = shorten_text("9 " * 99, max_tokens=1, count_text=counter.count_text)
    stub = ToolResult(call_id="c", content=(Text(marker),))
    return result_tokens(stub, counter=counter) + _LARGER_NUMBER_TOKENS


def _spoken(part: ResultPart) -> str:
    """Say in text what a part of a result was."""
    match part:
        case Text(text):
            return text
        case Image():
            return "[an image was left out here]"
        case Document(title=title, text=text):
            return text or f"[the document {title or 'without a title'} was left out here]"
        case Opaque(text=text):
            return text
        case _:
            assert_never(part)


def shorten_call(
    call: ToolCall, *, max_tokens: int, counter: TokenCounter, seq: int = 0
) -> ToolCall:
    """Return the call, or one with shorter arguments that are still a JSON object.

    Long strings go first, the longest most; then whole values; at last all arguments.
    """
    if call_tokens(call, counter=counter, seq=seq) <= max_tokens:
        return call
    arguments: dict[str, Json] = dict(call.arguments)
    if call.arguments_json is not None and not arguments:
        arguments = {"unreadable_arguments": call.arguments_json}
    longest_chars = _longest_string_chars(arguments)
    while longest_chars > _SHORTEST_STRING_CHARS:
        longest_chars = max(longest_chars // 2, _SHORTEST_STRING_CHARS)
        shortened = _with_arguments(call, _clipped_object(arguments, longest_chars))
        if call_tokens(shortened, counter=counter, seq=seq) <= max_tokens:
            return shortened
    outlined = _with_arguments(call, {name: _outlined(value) for name, value in arguments.items()})
    if call_tokens(outlined, counter=counter, seq=seq) <= max_tokens:
        return outlined
    return _with_arguments(call, {"left_out": f"{_json_chars(arguments):,} characters"})


def _with_arguments(call: ToolCall, arguments: dict[str, Json]) -> ToolCall:
    return replace(call, arguments=arguments, arguments_json=None, signature=None)


def _longest_string_chars(value: Json) -> int:
    if isinstance(value, str):
        return len(value)
    return max((_longest_string_chars(inner) for inner in _inner_values(value)), default=0)


def _inner_values(value: Json) -> list[Json]:
    if is_object(value):
        return list(value.values())
    return list(value) if is_array(value) else []


def _clipped_object(arguments: dict[str, Json], max_chars: int) -> dict[str, Json]:
    return {name: _clipped(value, max_chars) for name, value in arguments.items()}


def _clipped(value: Json, max_chars: int) -> Json:
    """Shorten every string inside a value, characters standing in for tokens."""
    if isinstance(value, str):
        return shorten_text(value, max_tokens=max_chars, count_text=len, unit="characters")
    if is_object(value):
        return {name: _clipped(inner, max_chars) for name, inner in value.items()}
    if is_array(value):
        return [_clipped(inner, max_chars) for inner in value]
    return value


def _outlined(value: Json) -> Json:
    chars = _json_chars(value)
    return value if chars <= _SHORTEST_STRING_CHARS else f"[… {chars:,} characters left out …]"


def _json_chars(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str))


def shorten_parts(message: Message, *, limit: PartLimit, counter: TokenCounter) -> Message:
    """Return the message with every part cut down to its limit; the same object if none was.

    Args:
        limit: Most tokens of a part; `None` leaves the part alone.
    """
    seq = message.seq
    parts = tuple(_shorten_part(p, limit(p), counter=counter, seq=seq) for p in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)


def _shorten_part(part: Part, max_tokens: int | None, *, counter: TokenCounter, seq: int) -> Part:
    if max_tokens is None:
        return part
    match part:
        case ToolResult():
            return shorten_result(part, max_tokens=max_tokens, counter=counter, seq=seq)
        case ToolCall():
            return shorten_call(part, max_tokens=max_tokens, counter=counter, seq=seq)
        case Text(text):
            return Text(shorten_text(text, max_tokens=max_tokens, count_text=counter.count_text))
        case _:
            return part
