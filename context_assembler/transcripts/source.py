"""The text of a transcript as JSON rows, and the list of what could not be mapped."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_assembler.errors import TranscriptError, brief_repr, with_article
from context_assembler.events import Json, JsonObject, SessionEvent
from context_assembler.ports import ToolSpec
from context_assembler.providers.wire import as_list, as_object

_NAMES: Final = ("id", "session_id", "simulation_id", "task_id")
_HISTORIES: Final = ("messages", "traj", "contents")
_LISTS: Final = ("simulations", "sessions")
_MAX_DEPTH: Final = 200
_MAX_DIGITS: Final = 4_300  # what Python reads back without a setting


class TranscriptIssue(NamedTuple):
    """Something in a transcript that has no place in a session; `line` counts from 1."""

    line: int | None
    what: str
    reason: str


class ReadTranscript(NamedTuple):
    """The events of a transcript, in order, and everything that could not be mapped."""

    events: tuple[SessionEvent, ...]
    issues: tuple[TranscriptIssue, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    metadata: JsonObject | None = None

    def __repr__(self) -> str:
        return brief_repr(self)


class Issues:
    """Issues in order of first appearance; those of one kind are counted, not repeated."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[Any]] = {}

    def note(self, what: str, reason: str, line: int | None = None) -> None:
        """Report one place."""
        self._found.setdefault((f"{what}@{line}", reason), [line, what or "the transcript", 0])

    def count(self, what: str, reason: str, line: int | None = None) -> None:
        """Report one more of a kind; the issue has the line of the first and how many there are."""
        self._found.setdefault((what, reason), [line, what, 0])[2] += 1

    def found(self) -> tuple[TranscriptIssue, ...]:
        """Return what was reported so far."""
        return tuple(
            TranscriptIssue(line, f"{what} ({count}×)" if count else what, reason)
            for (_, reason), (line, what, count) in self._found.items()
        )


class Row(NamedTuple):
    """One JSON value and the line it stands in; `None` for a whole document."""

    line: int | None
    value: Json


class Rows(NamedTuple):
    """What a source holds; `has_lines` tells JSON Lines from one document."""

    rows: tuple[Row, ...]
    has_lines: bool

    @property
    def values(self) -> list[Json]:
        """The values; of a lone list, its entries."""
        listed = as_list(self.document)
        return [*listed] if listed else [row.value for row in self.rows]

    @property
    def document(self) -> Json:
        """The whole value if it is one document, else the list of the lines' values."""
        return [row.value for row in self.rows] if self.has_lines else self.rows[0].value


def unreadable(name: str, reason: str, *, line: int | None = None) -> TranscriptError:
    """Return the error for a source that is no transcript."""
    remedy = "Give a JSON or JSON Lines transcript of a known format."
    return TranscriptError(source=name, reason=reason, remedy=remedy, line=line)


def parse_source(source: Any, *, name: str, issues: Issues) -> Rows:
    """Return the JSON of a text, of bytes, or of JSON that is parsed already.

    Lines that are not JSON are reported and left out.

    Raises:
        TranscriptError: The source is empty, or nothing in it is JSON.
    """
    if isinstance(source, str) and _names_a_file(source):
        raise TranscriptError(
            source=source.strip(),
            reason="a text is read as the transcript itself, and this one names a file",
            remedy=f"Pass Path({source.strip()!r}) to read the file.",
        )
    if isinstance(source, bytes | bytearray):
        from context_assembler.texts import decode_text

        source, _, warnings = decode_text(bytes(source))
        for warning in warnings:
            issues.note("bytes", warning)
    if isinstance(source, str):
        return _parse_text(source.removeprefix("\ufeff"), name, issues)
    if isinstance(source, Mapping | list | tuple):
        bounded = _bounded(source, issues, name, 0)
        return Rows((Row(None, bounded),), has_lines=False)
    kind = "None" if source is None else with_article(type(source).__name__)
    raise unreadable(name, f"{kind} is no transcript")


def _names_a_file(text: str) -> bool:
    path = text.strip()
    if len(path) > 1_000 or any(mark in path for mark in "\n{[\0") or not path:
        return False
    try:
        return path.lower().endswith((".json", ".jsonl", ".ndjson")) or Path(path).is_file()
    except OSError:
        return False


def _parse_text(text: str, name: str, issues: Issues) -> Rows:
    if not text.strip():
        raise unreadable(name, "it is empty")
    try:
        value = _parse_json(text, name, issues)
    except ValueError as error:
        rows: list[Row] = []
        # Not `splitlines`: U+2028 and the like may stand inside JSON strings.
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                rows.append(Row(number, _parse_json(line, name, issues)))
            except ValueError as broken:
                issues.note("line", f"is not JSON ({broken}); left out", number)
        if not rows:
            raise unreadable(name, f"it is not JSON ({error})") from None
        return Rows(tuple(rows), has_lines=True)
    if isinstance(value, dict | list):
        return Rows((Row(None, value),), has_lines=False)
    raise unreadable(name, f"it holds {value!r:.40} alone")


def _parse_json(text: str, name: str, issues: Issues) -> Json:
    def read_constant(constant: str) -> None:
        issues.count(constant, "is not JSON; read as null")

    def read_integer(digits: str) -> int | str:
        if len(digits) <= _MAX_DIGITS:
            return int(digits)
        issues.count("numbers", f"of more than {_MAX_DIGITS:,} digits are kept as text")
        return digits

    try:
        value = json.loads(text, parse_constant=read_constant, parse_int=read_integer)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return _bounded(value, issues, name, 0)


def _bounded(value: Json, issues: Issues, name: str, depth: int) -> Json:
    """Return plain JSON; what no store could keep becomes text or null, and is reported."""
    if isinstance(value, float) and not math.isfinite(value):
        issues.count(str(value), "is not JSON; read as null")
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    if depth >= _MAX_DEPTH:
        issues.note("", f"what is nested deeper than {_MAX_DEPTH} levels is kept as text")
        return repr(value)
    inside: Any = value
    if isinstance(value, Mapping):
        for key in inside:
            if not isinstance(key, str):
                raise unreadable(name, f"its key {key!r:.40} is no text")
        return {key: _bounded(held, issues, name, depth + 1) for key, held in inside.items()}
    if isinstance(value, Iterable):
        return [_bounded(held, issues, name, depth + 1) for held in inside]
    raise unreadable(name, f"{with_article(type(value).__name__)} is not JSON")


def split_sessions(parsed: Rows) -> list[tuple[str, JsonObject]]:
    """Return the sessions of a source with their names; empty if it is not a collection."""
    if parsed.has_lines:
        return _named(parsed.values)
    value = parsed.rows[0].value
    if isinstance(value, list):
        return _named(as_list(value))
    for key in _LISTS:
        if isinstance(as_object(value).get(key), list):
            return _named(value[key])
    return _named([value]) if _session_in(value) is not value else []


def _session_in(value: Json) -> JsonObject | None:
    """Return the object with the history: the value itself, or its `request`."""
    fields = as_object(value)
    if any(isinstance(fields.get(key), list) for key in _HISTORIES):
        return fields
    inner = fields.get("request")
    return _session_in(inner) if isinstance(inner, Mapping) else None


def _named(values: Sequence[Json]) -> list[tuple[str, JsonObject]]:
    found = [(value, session) for value in values if (session := _session_in(value)) is not None]
    if not found or len(found) < len(values):
        return []
    named: dict[str, JsonObject] = {}
    for number, (value, session) in enumerate(found):
        fields = as_object(value)
        name = next((fields[k] for k in _NAMES if isinstance(fields.get(k), str | int)), number)
        whole = f"{name}" if fields.get("trial") is None else f"{name}-{fields['trial']}"
        free, count = whole, 1
        while free in named:
            count += 1
            free = f"{whole}-{count}"
        named[free] = session
    return list(named.items())
