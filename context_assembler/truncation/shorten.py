"""Parts of an event made smaller, each as a function of itself and a limit alone."""

import json
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from context_assembler.events import ASSISTANT, TOOL_RESULT, Json, JsonObject
from context_assembler.texts import shorten_text

_ROUNDS: Final = 4
_LARGER_NUMBER_TOKENS: Final = 6
_SHORTEST_STRING_CHARS: Final = 40


class Lines(Protocol):
    """The bodies of a history's lines; only those that are shortened are read."""

    def parts(self, line: int) -> Sequence[JsonObject]:
        """Return the parts of a line as they are sent if nothing is cut."""
        ...

    def count(self, kind: int, parts: Sequence[JsonObject], line: int = -1) -> int:
        """Return the tokens of parts that are sent as a message of this kind.

        Args:
            line: Whose parts they are, so that they are counted as the line was; -1: nobody's.
        """
        ...

    def count_text(self, text: str) -> int:
        """Return the tokens of a text."""
        ...

    def name(self, line: int) -> str:
        """Return the id of the line's event, for reports and errors; empty if it has none."""
        ...


def part_tokens(lines: Lines, part: JsonObject, line: int) -> int:
    """Return the tokens of a part: of a text alone, of anything else as a message of its own."""
    if part["type"] == "text":
        return lines.count_text(part["text"])
    return lines.count(TOOL_RESULT if part["type"] == "tool_result" else ASSISTANT, [part], line)


def shorten_part(lines: Lines, part: JsonObject, line: int, max_tokens: int) -> JsonObject:
    """Return the part cut down to a limit; the same object if it has that size, or cannot shrink."""
    kind = part["type"]
    if kind == "text":
        short = shorten_text(part["text"], max_tokens=max_tokens, count_text=lines.count_text)
        return part if short == part["text"] else {"type": "text", "text": short}
    if kind not in _SHORTEN or part_tokens(lines, part, line) <= max_tokens:
        return part
    return _SHORTEN[kind](lines, part, line, max_tokens)


def smallest_stub_tokens(lines: Lines) -> int:
    """Return what is left at most of a result of which not even the marker fits its limit."""
    text = shorten_text("9 " * 99, max_tokens=1, count_text=lines.count_text)
    content = [{"type": "text", "text": text}]
    stub = {"type": "tool_result", "call_id": "c", "content": content}
    return lines.count(TOOL_RESULT, [stub]) + _LARGER_NUMBER_TOKENS


def _shorten_result(lines: Lines, result: JsonObject, line: int, max_tokens: int) -> JsonObject:
    """Return a result whose text is head, marker with the original size, and tail.

    Images and documents are replaced by a line that names them. If not even the marker fits, the
    marker alone is left.
    """
    text = "\n".join(map(_text_of, result.get("content", ())))
    allowed, shortened = max_tokens, result
    for _ in range(_ROUNDS):
        short = shorten_text(text, max_tokens=allowed, count_text=lines.count_text)
        shortened = {**result, "content": [{"type": "text", "text": short}]}
        over = part_tokens(lines, shortened, line) - max_tokens
        if over <= 0:
            break
        allowed = min(allowed, lines.count_text(short)) - over
    return shortened


def _text_of(part: JsonObject) -> str:
    """Return what stands for a part of a result in its text."""
    kind, text = part["type"], part.get("text") or ""
    if kind == "image":
        return "[an image was left out here]"
    if kind == "document" and not text:
        return f"[the document {part.get('title') or 'without a title'} was left out here]"
    return str(text)


def _shorten_call(lines: Lines, call: JsonObject, line: int, max_tokens: int) -> JsonObject:
    """Return a call with shorter arguments that are still a JSON object.

    Long strings go first, the longest most; then whole values; at last all arguments.
    """
    arguments = call.get("arguments") or {}
    if call.get("arguments_json") is not None and not arguments:
        arguments = {"unreadable_arguments": call["arguments_json"]}

    def with_arguments(smaller: Json) -> JsonObject:
        kept = {k: v for k, v in call.items() if k not in ("arguments_json", "signature")}
        return {**kept, "arguments": smaller}

    longest_chars = _longest_string_chars(arguments)
    while longest_chars > _SHORTEST_STRING_CHARS:
        longest_chars = max(longest_chars // 2, _SHORTEST_STRING_CHARS)
        shortened = with_arguments(_clipped(arguments, longest_chars))
        if part_tokens(lines, shortened, line) <= max_tokens:
            return shortened
    outlined = with_arguments({name: _outlined(value) for name, value in arguments.items()})
    if part_tokens(lines, outlined, line) <= max_tokens:
        return outlined
    return with_arguments({"left_out": f"{_json_chars(arguments):,} characters"})


_SHORTEN: Final[dict[str, Callable[[Lines, JsonObject, int, int], JsonObject]]] = {
    "tool_result": _shorten_result,
    "tool_call": _shorten_call,
}


def _longest_string_chars(value: Json) -> int:
    if isinstance(value, str):
        return len(value)
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max(map(_longest_string_chars, held), default=0)


def _clipped(value: Json, max_chars: int) -> Json:
    """Shorten every string inside a value, by its characters."""
    if isinstance(value, str):
        return shorten_text(value, max_tokens=max_chars, count_text=len, unit="characters")
    if isinstance(value, dict):
        return {name: _clipped(held, max_chars) for name, held in value.items()}
    return [_clipped(held, max_chars) for held in value] if isinstance(value, list) else value


def _outlined(value: Json) -> Json:
    chars = _json_chars(value)
    return value if chars <= _SHORTEST_STRING_CHARS else f"[… {chars:,} characters left out …]"


def _json_chars(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str))
