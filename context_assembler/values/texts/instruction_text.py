"""Reads the text of instruction files: their encoding and their front matter."""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Final, TypeGuard

from context_assembler.values.json_bounds import is_short_integer
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.texts.byte_order_marks import marked_encoding

_PLAIN_LINE: Final = re.compile(r"(?P<key>[A-Za-z][\w-]*)\s*:(?:\s+(?P<value>.*))?$")
_MAX_FRONT_MATTER_CHARS: Final = 65_536
_MAX_YAML_DEPTH: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedText:
    """Text with Unix line ends and without byte-order mark, and what was odd about its bytes.

    `encoding` is how the bytes were read, with what was taken off (`utf-8, BOM, CRLF`).
    """

    text: str
    encoding: str = "utf-8"
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """A file's metadata, the text behind it, and the line (from 1) on which that text begins."""

    text: str
    metadata: JsonObject = field(default_factory=dict[str, Json])
    first_line: int = 1
    warnings: tuple[str, ...] = ()


def decode_text(raw_bytes: bytes) -> DecodedText:
    """Decode a file that should be UTF-8; any bytes are accepted."""
    mark, encoding = marked_encoding(raw_bytes)
    if mark:
        return _decoded(raw_bytes[len(mark) :], encoding, has_mark=True)
    if (
        len(raw_bytes) >= 2
        and raw_bytes[1::2].count(0) * 10 > len(raw_bytes[1::2]) * 4
        and 0 not in raw_bytes[::2]
    ):
        decoded = _decoded(raw_bytes, "utf-16-le")
        guess = "no byte-order mark, but every other byte is zero: read as UTF-16"
        return replace(decoded, warnings=(guess, *decoded.warnings))
    return _decoded(raw_bytes, "utf-8")


def _decoded(raw_bytes: bytes, encoding: str, *, has_mark: bool = False) -> DecodedText:
    warnings: list[str] = []
    try:
        text = raw_bytes.decode(encoding)
    except UnicodeDecodeError as error:
        text = raw_bytes.decode(encoding, "replace")
        line = raw_bytes.count(b"\n", 0, error.start) + 1
        warnings.append(
            f"bytes that are not {encoding.upper()} were replaced, first in line {line}"
        )
    if "\0" in text:
        text = text.replace("\0", "")
        warnings.append("NUL characters were removed")
    marks = [*(["BOM"] if has_mark else ()), *(["CRLF"] if "\r" in text else ())]
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    return DecodedText(text=text, encoding=", ".join([encoding, *marks]), warnings=tuple(warnings))


def split_front_matter(text: str) -> FrontMatter:
    """Take YAML front matter off the top; a text that only begins with a rule stays whole."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return FrontMatter(text=text)
    ends = (i for i, line in enumerate(lines[1:], 1) if line.rstrip() in {"---", "..."})
    end = next(ends, None)
    if end is None or sum(map(len, lines[:end])) > _MAX_FRONT_MATTER_CHARS:
        return FrontMatter(text=text)
    read = _read_yaml(lines[1:end])
    if read is None:
        return FrontMatter(text=text)
    metadata, warnings = read
    body = "\n".join(lines[end + 1 :])
    return FrontMatter(text=body, metadata=metadata, first_line=end + 2, warnings=warnings)


def _read_yaml(lines: list[str]) -> tuple[JsonObject, tuple[str, ...]] | None:
    import yaml  # noqa: PLC0415 - loaded when first needed

    try:
        loaded: Json = yaml.safe_load("\n".join(lines))
        if loaded is None:
            return {}, ()
        # A rule, some prose and another rule are no front matter.
        return (plain_yaml(loaded), ()) if is_object(loaded) else None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        simple = _read_simple_lines(lines)
        if not simple:
            return None
        reason = str(getattr(error, "problem", None) or error).splitlines()[0]
        return simple, (f"its front matter is not YAML ({reason}); simple lines were read",)


def _read_simple_lines(lines: list[str]) -> dict[str, Json]:
    """Read `key: value` lines of front matter that YAML refuses; nothing if prose is among them."""
    found: dict[str, Json] = {}
    for line in lines:
        match = _PLAIN_LINE.match(line)
        if match:
            found[match["key"]] = (match["value"] or "").strip().strip("\"'")
        elif line.strip() and not line.startswith((" ", "\t", "-", "#")):
            return {}
    return found


def plain_yaml(loaded: Json, *, max_values: int = _MAX_FRONT_MATTER_CHARS) -> Json:
    """Return what a YAML loader made, as JSON has it.

    Args:
        max_values: How many values it may hold; references to others count as these do.

    Raises:
        ValueError: It holds more, or is nested too deeply.
    """
    waiting, found = [loaded], 0
    while waiting:
        value = waiting.pop()
        found += 1
        if found > max_values:
            raise ValueError("it unfolds to too many values")
        if is_object(value):
            waiting.extend(value.values())
        elif is_array(value) or _is_set(value):
            waiting.extend(value)
    return _plain(loaded)


def _plain(value: Json, depth: int = 0) -> Json:
    """Turn what YAML knows and JSON does not (dates, sets, keys that are numbers) into JSON."""
    if depth > _MAX_YAML_DEPTH:
        raise ValueError("it is nested too deeply")
    if is_object(value):
        return {str(key): _plain(one, depth + 1) for key, one in value.items()}
    if is_array(value):
        return [_plain(one, depth + 1) for one in value]
    if _is_set(value):  # `!!set`, whose own order changes from process to process
        return sorted((_plain(one, depth + 1) for one in value), key=str)
    if isinstance(value, int) and not is_short_integer(value):
        raise ValueError("it holds a number too long to be written")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def _is_set(value: object) -> TypeGuard[AbstractSet[Json]]:
    return isinstance(value, AbstractSet)
