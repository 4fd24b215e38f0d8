"""Payloads for people: an outline, and how much of one payload the next one repeats."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from context_assembler.cli.screen import json_text, one_line
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject

_SHORT_TEXT_CHARS: Final = 60
_FIRST_MESSAGES: Final = 3

# The order in which providers read a request, and in which a cached prefix therefore grows.
_MESSAGE_LISTS: Final = ("messages", "input", "contents")
_PREFIX_ORDER: Final = ("config", "tools", "system", "instructions", *_MESSAGE_LISTS)
_BLOCK_LISTS: Final = ("content", "parts")
_CACHE_MARKER: Final = "cache_control"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefix:
    """What two payloads begin with alike, in characters of JSON."""

    shared_chars: int
    first_chars: int
    second_chars: int

    @property
    def is_whole_first(self) -> bool:
        """Whether the second payload begins with everything that the first one held."""
        return self.shared_chars == self.first_chars

    @property
    def share_of_second(self) -> float:
        """The part of the second payload that a prompt cache has already seen."""
        return self.shared_chars / self.second_chars if self.second_chars else 0.0


def payload_outline(payload: JsonObject, *, width_chars: int) -> str:
    """Return the payload in outline: a line for each setting and for each of the messages shown."""
    lines: list[str] = []
    for name, value in payload.items():
        if name in _MESSAGE_LISTS and is_array(value):
            entries = [_line(entry, width_chars=width_chars - 4) for entry in _ends(value)]
            lines.append(f'  "{name}": [\n    ' + ",\n    ".join(entries) + "\n  ]")
        else:
            lines.append(f'  "{name}": ' + _line(value, width_chars=width_chars - len(name) - 6))
    return "{\n" + ",\n".join(lines) + "\n}"


def _ends(messages: Sequence[Json]) -> list[Json]:
    """Return the first messages and the last one, and between them how many were left out."""
    between = len(messages) - _FIRST_MESSAGES - 1
    if between <= 1:
        return list(messages)
    return [*messages[:_FIRST_MESSAGES], f"… {between} more", messages[-1]]


def _line(value: Json, *, width_chars: int) -> str:
    if isinstance(value, str) and value.startswith("… "):
        return value
    more = f" ({len(value)} in all)" if is_array(value) and len(value) > 1 else ""
    text = json.dumps(_shortened(value), ensure_ascii=False)
    return one_line(text, max_chars=width_chars - len(more)) + more


def shared_prefix(first: JsonObject, second: JsonObject) -> SharedPrefix:
    """Compare two payloads block by block, in the order in which a provider reads them.

    Cache markers do not count: providers leave them out of what they compare.
    """
    firsts, seconds = list(_blocks(first)), list(_blocks(second))
    shared_chars = 0
    for one, other in zip(firsts, seconds, strict=False):
        if one != other:
            break
        shared_chars += len(one)
    return SharedPrefix(
        shared_chars=shared_chars,
        first_chars=sum(map(len, firsts)),
        second_chars=sum(map(len, seconds)),
    )


def _blocks(payload: JsonObject) -> Iterator[str]:
    for name in _PREFIX_ORDER:
        value = payload.get(name)
        for entry in value if is_array(value) else [value]:
            if is_object(entry):
                yield from _blocks_of(entry)
            elif entry is not None:
                yield json_text(entry)


def _blocks_of(entry: JsonObject) -> Iterator[str]:
    for name in _BLOCK_LISTS:
        if is_array(blocks := entry.get(name)):
            rest = {key: value for key, value in entry.items() if key != name}
            yield from (json_text([rest, _unmarked(block)]) for block in blocks)
            return
    yield json_text(_unmarked(entry))


def _unmarked(block: Json) -> Json:
    if not is_object(block):
        return block
    return {key: value for key, value in block.items() if key != _CACHE_MARKER}


def _shortened(value: Json) -> Json:
    if isinstance(value, str):
        return one_line(value, max_chars=_SHORT_TEXT_CHARS)
    if is_array(value):
        return [_shortened(entry) for entry in value]
    if is_object(value):
        return {key: _shortened(entry) for key, entry in value.items()}
    return value
