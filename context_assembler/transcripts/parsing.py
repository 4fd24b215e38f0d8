"""The text of a transcript as JSON: one document, or one per line."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_assembler.errors import TranscriptError
from context_assembler.errors.base import with_article
from context_assembler.transcripts.bounds import TOO_LONG, find_key_without_text, keep_in_bounds
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.values.json_bounds import MAX_INTEGER_DIGITS
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.texts.instruction_text import decode_text

_BOM: Final = "\ufeff"
_LONGEST_PATH_CHARS: Final = 1_000
_NOT_IN_PATHS: Final = ("\n", "{", "[", "\0")
_FILE_SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
_LONE_VALUES: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
}


class Row(NamedTuple):
    """One JSON value and the line it stands in; `None` for a whole document."""

    line: int | None
    value: Json


class Rows(NamedTuple):
    """What a source holds; `has_lines` tells JSON Lines from one document."""

    rows: tuple[Row, ...]
    has_lines: bool


def parse_source(source: Any, *, name: str, log: IssueLog) -> Rows:
    """Return the JSON of a text, of bytes, or of JSON that is parsed already.

    Lines that are not JSON are reported and left out.

    Raises:
        TranscriptError: The source is empty, or nothing in it is JSON.
    """
    if isinstance(source, str) and _names_a_file(source):
        raise _path_as_text(source.strip())
    if isinstance(source, (bytes, bytearray)):
        decoded = decode_text(bytes(source))
        for warning in decoded.warnings:
            log.note(Spot(path="bytes"), warning)
        source = decoded.text
    if not isinstance(source, str):
        if is_object(source) or is_array(source):
            if (stranger := find_key_without_text(source)) is not None:
                raise _unreadable(name, f"its key {stranger} is no text")
            return Rows((Row(None, keep_in_bounds(source, log, Spot())),), has_lines=False)
        kind = "None" if source is None else with_article(type(source).__name__)
        reason = f"{kind} is no transcript"
        raise _unreadable(name, reason)
    text = source.removeprefix(_BOM)
    if not text.strip():
        raise _unreadable(name, "it is empty")
    return _parse_text(text, name, log)


def parse_json(text: str, log: IssueLog, spot: Spot) -> Json:
    """Return the value of a JSON text, kept within what can be stored.

    What Python calls NaN and Infinity is read as null.

    Raises:
        ValueError: The text is not JSON, or nested too deeply.
    """

    def read_constant(constant: str) -> None:
        log.count(spot, constant, "is not JSON; read as null")

    def read_integer(digits: str) -> int | str:
        if len(digits) <= MAX_INTEGER_DIGITS:
            return int(digits)
        log.count(spot, "numbers", TOO_LONG)
        return digits

    try:
        value: Json = json.loads(text, parse_constant=read_constant, parse_int=read_integer)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return keep_in_bounds(value, log, spot)


def read_time(value: Json) -> datetime | None:
    """Return the time in UTC, unless nobody knows in which zone it is."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is None else moment.astimezone(UTC)


def dump_json_text(value: Json, *, indent: int | None = None) -> str:
    """Return the value as JSON text that can be written as UTF-8, whatever its strings hold."""
    plain = _Plain(ensure_ascii=False, indent=indent).encode(value)
    try:
        plain.encode()
    except UnicodeEncodeError:
        return _Plain(ensure_ascii=True, indent=indent).encode(value)
    return plain


class _Plain(json.JSONEncoder):
    """The standard encoder, for every kind of mapping and sequence."""

    def default(self, o: Any) -> Json:
        if is_object(o):
            return dict(o)
        return super().default(o)


def _parse_text(text: str, name: str, log: IssueLog) -> Rows:
    constants = IssueLog()  # thrown away where the text turns out to be lines
    try:
        value = parse_json(text, constants, Spot())
    except ValueError as error:
        rows = tuple(_parse_lines(text, log))
        if not rows:
            raise _unreadable(name, f"it is not JSON ({error})") from None
        return Rows(rows, has_lines=True)
    log.include(constants)
    if is_object(value) or is_array(value):
        return Rows((Row(None, value),), has_lines=False)
    raise _unreadable(name, f"it holds {_LONE_VALUES[type(value)]} alone")


def _parse_lines(text: str, log: IssueLog) -> Iterator[Row]:
    # Not `splitlines`: U+2028 and the like may stand inside JSON strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        spot = Spot(line=number, path="line")
        try:
            value = parse_json(line, log, spot)
        except ValueError as error:
            log.note(spot, f"is not JSON ({error}); left out")
        else:
            yield Row(number, value)


def _names_a_file(text: str) -> bool:
    path = text.strip()
    if len(path) > _LONGEST_PATH_CHARS or any(mark in path for mark in _NOT_IN_PATHS):
        return False
    try:
        return Path(path).suffix.lower() in _FILE_SUFFIXES or Path(path).is_file()
    except OSError:
        return False


def _path_as_text(path: str) -> TranscriptError:
    return TranscriptError(
        source=path,
        reason="a text is read as the transcript itself, and this one names a file",
        remedy=f"Pass Path({path!r}) to read the file.",
    )


def _unreadable(name: str, reason: str) -> TranscriptError:
    return TranscriptError(
        source=name,
        reason=reason,
        remedy="Give a JSON or JSON Lines transcript of a known format.",
    )


def left_over(fields: JsonObject, known: frozenset[str]) -> dict[str, Json]:
    """Return the fields that are not among the known ones and hold something."""
    return {key: value for key, value in fields.items() if key not in known and value is not None}


def as_mapping(value: Json) -> Mapping[str, Json]:
    """Return the object, or an empty one in place of anything else."""
    return value if is_object(value) else {}
