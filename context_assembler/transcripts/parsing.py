"""The text of a transcript as JSON: one document, or one per line."""

import codecs
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from context_assembler.errors import TranscriptError
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject

_BOM: Final = "\ufeff"
_UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


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
    if isinstance(source, (bytes, bytearray)):
        source = _decode(bytes(source), log)
    if not isinstance(source, str):
        if is_object(source) or is_array(source):
            return Rows((Row(None, source),), has_lines=False)
        reason = f"a {type(source).__name__} is no transcript"
        raise _unreadable(name, reason)
    text = source.removeprefix(_BOM)
    if not text.strip():
        raise _unreadable(name, "it is empty")
    return _parse_text(text, name, log)


def parse_json(text: str, log: IssueLog, spot: Spot) -> Json:
    """Return the value of a JSON text; what Python calls NaN and Infinity is read as null.

    Raises:
        ValueError: The text is not JSON, or nested too deeply.
    """

    def read_constant(constant: str) -> None:
        log.count(spot, constant, "is not JSON; read as null")

    try:
        return json.loads(text, parse_constant=read_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


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


def _decode(content: bytes, log: IssueLog) -> str:
    encoding = "utf-16" if content.startswith(_UTF16_MARKS) else "utf-8"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        log.note(Spot(line=line, path="bytes"), "are not UTF-8; read as U+FFFD")
        return content.decode(encoding, "replace")


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
    raise _unreadable(name, f"a JSON {type(value).__name__} is no transcript")


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
