"""The text of a transcript as JSON rows, and the list of what could not be mapped."""

import itertools
import json
import math
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from context_assembler.errors import TranscriptError, brief_repr, with_article
from context_assembler.events import Body, Json, JsonObject, SessionEvent, event_of, kind_of
from context_assembler.ports import ToolSpec
from context_assembler.providers.wire import as_list, as_object, as_text, read_object

_NAMES: Final = ("id", "session_id", "simulation_id", "task_id")
_HISTORIES: Final = ("messages", "conversation", "traj", "contents")
_LISTS: Final = ("simulations", "sessions")
# Where replies of SDKs and whole documents have messages.
_HOLDERS: Final = (*_HISTORIES, *_LISTS, "history", "input", "output", "choices", "candidates")
_MAX_DEPTH: Final = 200
_MAX_DIGITS: Final = 4_300  # what Python reads back without a setting


class TranscriptIssue(NamedTuple):
    """Something in a transcript that has no place in a session; `line` counts from 1."""

    line: int | None
    what: str
    reason: str


class ReadTranscript(NamedTuple):
    """The events of a transcript, in order, and everything that could not be mapped.

    `rows_read` rows became events; `rows_listed` did not, and are named in the issues.
    """

    events: tuple[SessionEvent, ...]
    issues: tuple[TranscriptIssue, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    metadata: JsonObject | None = None
    rows_read: int = 0
    rows_listed: int = 0
    format: str = ""

    def __repr__(self) -> str:
        return brief_repr(self)


class Issues:
    """Issues in order of first appearance; those of one kind are counted, not repeated."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[Any]] = {}
        self.lost: list[TranscriptIssue] = []  # one for each row that could not be read

    def note(self, what: str, reason: str, line: int | None = None) -> None:
        """Report one place."""
        self._found.setdefault((f"{what}@{line}", reason), [line, what or "the transcript", 0])

    def count(self, what: str, reason: str, line: int | None = None) -> None:
        """Report one more of a kind; the issue has the line of the first and how many there are."""
        self._found.setdefault((what, reason), [line, what, 0])[2] += 1

    def lose(self, what: str, reason: str, line: int | None = None) -> None:
        """Report a row that could not be read."""
        self.note(what, reason, line)
        self.lost.append(TranscriptIssue(line, what, reason))

    def found(self) -> tuple[TranscriptIssue, ...]:
        """Return what was reported so far."""
        return tuple(
            TranscriptIssue(line, f"{what} ({count}×)" if count else what, reason)
            for (_, reason), (line, what, count) in self._found.items()
        )


class Row(NamedTuple):
    """One row of a transcript: a line, or an entry of a document's list; lines count from 1."""

    at: int
    line: int | None
    fields: JsonObject
    """The row's object; empty if it is none."""
    value: Json = None
    """The row as it is."""


class Rows(NamedTuple):
    """The rows of a source, and the object around them.

    `key` names the list in that object which holds the rows; it is empty for lines and lone lists.
    """

    rows: tuple[Row, ...]
    head: JsonObject
    key: str


class Parsed(NamedTuple):
    """The JSON of a source: one document, or JSON Lines if `lines` has their numbers."""

    name: str
    issues: Issues
    document: Json
    lines: tuple[int, ...] = ()

    def rows(self, *keys: str) -> Rows:
        """Return lines, the entries of a list, or those of the first list of an object's `keys`.

        `a.b` is the list `b` in the object `a`. An object without such a list is the only row.
        """
        values: Json = self.document
        if isinstance(values, Mapping):
            for key in keys:
                *outer, last = key.split(".")
                holder = as_object(values)
                for name in outer:
                    holder = as_object(holder.get(name))
                held = holder.get(last)
                if isinstance(held, list) or (key in ("input", "contents") and held is not None):
                    head = {name: one for name, one in as_object(values).items() if name != key}
                    entries = [_said(one, key) for one in listed(held or [])]
                    return Rows(self._numbered(entries), head, key)
            values = [values]
        return Rows(self._numbered(as_list(values)), {}, "")

    def _numbered(self, values: Sequence[Json]) -> tuple[Row, ...]:
        lines = self.lines or (None,) * len(values)
        pairs = zip(lines, values, strict=True)
        return tuple(Row(at, line, as_object(one), one) for at, (line, one) in enumerate(pairs))


def _said(entry: Json, key: str) -> Json:
    """Return an entry of a request; a lone text, or a lone part of Gemini's, as the user's message."""
    is_text, same = isinstance(entry, str), entry
    if key == "contents" and (is_text or (as_object(entry) and "parts" not in entry)):
        return {"parts": [{"text": same} if is_text else same]}
    return {"role": "user", "content": same} if key == "input" and is_text else same


def listed(value: Json) -> list[Json]:
    """Return the entries of a list; a value by itself is the only one."""
    return [*as_list(value)] if isinstance(value, list) else [value]


def walk_back(links: Sequence[tuple[str, Json]], at: int) -> Iterator[tuple[int, bool]]:
    """Yield the places from one row back to the first, and whether a row names its parent rightly.

    Args:
        links: The id of each row and that of its parent, `None` for a first one. A parent that is
            no earlier row is damaged: the row before is taken for it.
    """
    places = {own: place for place, (own, _) in enumerate(links) if own}
    while at >= 0:
        parent = links[at][1]
        found = -1 if parent is None else places.get(as_text(parent), at)
        yield at, found < at
        at = min(found, at - 1)


class Reading:
    """A transcript while a reader reads it: its rows, and the events made of them.

    Every row ends in an event, in `use`, or in `leave`; any other is listed as unread.
    """

    def __init__(self, rows: Rows, parsed: Parsed, format: str, strays: Iterable[Row]) -> None:
        self.rows, self.head, self.key = rows
        self._strays = {row.at for row in strays}  # they are not as the format requires
        self.name, self.issues = parsed.name, parsed.issues
        self.format = format
        self.metadata: dict[str, Json] = {}
        self.tools: tuple[ToolSpec, ...] = ()
        self.events: list[tuple[str, Body, str, Json]] = []
        self._ids = Counter[str]()
        self._used: set[int] = set()
        self._left: set[int] = set()
        self._broken = len(self.issues.lost)  # lines that are not JSON are no rows

    def add(
        self, row: Row | None, event_type: str, body: Body, *, id: Json = "", time: Json = None
    ) -> None:
        """Add an event; an id that is taken gets a number, a time of no zone is left out."""
        own = as_text(id)
        self._ids[own] += 1
        free = f"{own}#{self._ids[own]}" if own and self._ids[own] > 1 else own
        self.events.append((event_type, body, free, time))
        if row is not None:
            self.use(row)

    def use(self, *rows: Row) -> None:
        """Count rows as read that have no event of their own."""
        self._used.update(row.at for row in rows)

    def leave(self, row: Row, what: str, reason: str, *, is_known: bool = True) -> None:
        """List a row that is not read.

        Args:
            what: The rows of this kind, such as `rows of type progress`; or the one row.
            is_known: Whether such rows are known, and left out on purpose: then they are counted.
                Of rows that are not as the format requires, nobody can know that.
        """
        if is_known and row.at in self._strays:
            what, reason = f"{self.key or 'row'}[{row.at}]", f"is not as {self.format} requires"
            is_known, reason = False, f"{reason}; left out"
        report = self.issues.count if is_known else self.issues.lose
        report(what, reason, row.line)
        self._left.add(row.at)

    def finish(self, *, is_named: bool, partial: bool) -> ReadTranscript:
        """Return what was read.

        Args:
            is_named: Whether somebody named the format. If not, rows that are not as it requires
                count as unread, even if the reader kept what they say.

        Raises:
            TranscriptError: More than a tenth of the rows could not be read, or one is a reply or
                a document of its own, and not `partial`; or there is no event at all.
        """
        strange = set[int]() if is_named else self._strays
        for row in self.rows:
            what = f"{self.key or 'row'}[{row.at}]"
            if row.at in self._strays and _holds_messages(row.value) and not partial:
                raise TranscriptError(
                    source=self.name,
                    reason=f"{what} holds messages, and is not one of {self.format} itself",
                    remedy="Put the messages in its place, such as `choices[0].message` or each "
                    "item of `output`; read a transcript of another format by itself. Or pass "
                    "partial=True (import --partial) to leave it out.",
                    line=row.line,
                )
            if row.at not in self._used | self._left:
                self.leave(row, what, "holds nothing that could be read", is_known=False)
            elif row.at in strange - self._left:
                reason = f"is not as {self.format} requires; what it says is kept"
                self.issues.lose(what, reason, row.line)
        total, lost = len(self.rows) + self._broken, self.issues.lost
        if len(lost) * 10 > total and not (partial and self.events):
            line, what, reason = lost[0]
            count = f"{len(lost)} of its {total} rows could not be read as {self.format}: "
            raise TranscriptError(
                source=self.name,
                reason=f"{count if total > 1 else ''}{what} {reason.partition(';')[0]}",
                remedy="Repair it, name its format, or pass partial=True (import --partial) to read "
                "the rest.",
                line=line,
            )
        events = tuple(_event(*one) for one in self.events)
        rows = len(self.rows) - len(self._left), len(self._left) + self._broken
        about = self.tools, self.metadata or None
        return ReadTranscript(events, self.issues.found(), *about, *rows, self.format)


def _holds_messages(value: Json) -> bool:
    """Whether a value is a reply of an SDK, the content of one, or a document, or has one inside."""
    fields = as_object(value)
    if fields.keys() & {"type", "role"}:
        return False
    lists = (value, *(fields.get(key) for key in _HOLDERS))
    is_choice = bool(fields.keys() & {"finish_reason", "finishReason"})
    is_whole = is_choice or any(as_object(one) for held in lists for one in as_list(held))
    return is_whole or any(_holds_messages(one) for one in fields.values() if as_object(one))


def _event(event_type: str, body: Body, id: str, time: Json) -> SessionEvent:
    return event_of(body, kind=kind_of(event_type, body), id=id, seq=0, created_at=_time(time))


def _time(value: Json) -> datetime | None:
    """Return the time in UTC, unless nobody knows in which zone it is.

    Numbers are seconds, or milliseconds, since 1970.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None
    return None if moment is None or moment.tzinfo is None else moment.astimezone(UTC)


class Format(NamedTuple):
    """One format of transcripts.

    A source is of this format if its head does not speak against it, one of its rows or its head
    has what no other format has, and no row that this format does not take is one that another
    format takes.

    Attributes:
        takes: Whether an object can be a row of this format: what the format requires of each.
        marks: Whether a row that it takes has what no other format has.
        read: Reads the rows.
        keys: Where the list of rows stands in a document that is an object.
        head: Whether what is around the rows shows this format (`True`) or excludes it (`False`).
        write: Writes events.
    """

    takes: Callable[[JsonObject], bool]
    marks: Callable[[JsonObject], bool]
    read: Callable[[Reading], None]
    keys: tuple[str, ...] = ()
    head: Callable[[Rows], bool | None] = lambda _rows: None
    write: Callable[[Iterable[SessionEvent]], str] | None = None

    def rows(self, parsed: Parsed) -> Rows:
        """Return the rows of a source as this format has them."""
        return parsed.rows(*self.keys)

    def strays(self, parsed: Parsed) -> list[Row]:
        """Return the rows that are none of this format's."""
        return [row for row in self.rows(parsed).rows if not self.takes(row.fields)]

    def is_shown(self, parsed: Parsed) -> bool:
        """Whether head or rows show the format, wherever its other rows come from."""
        rows = self.rows(parsed)
        told = self.head(rows)
        marked = any(self.takes(one.fields) and self.marks(one.fields) for one in rows.rows)
        return told is not False and (marked or (told is True))


def _unreadable(name: str, reason: str) -> TranscriptError:
    remedy = "Give a JSON or JSON Lines transcript of a known format; pass a file as Path(name)."
    return TranscriptError(source=name, reason=reason, remedy=remedy)


def parse_source(source: Any, name: str) -> Parsed:
    """Return the JSON of a text, of bytes, or of JSON that is parsed already.

    Lines that are not JSON are reported and left out.

    Raises:
        TranscriptError: The source is empty, or nothing in it is JSON.
    """
    issues = Issues()
    if isinstance(source, bytes | bytearray):
        from context_assembler.texts import decode_text

        source, _, warnings = decode_text(bytes(source))
        for warning in warnings:
            issues.note("bytes", warning)
    if isinstance(source, str):
        return _parse_text(source.removeprefix("\ufeff"), name, issues)
    value = bounded(source, issues, name, 0)
    if isinstance(value, dict | list):
        return Parsed(name, issues, value)
    raise _unreadable(name, f"{value!r:.40} is not a transcript")


def _parse_text(text: str, name: str, issues: Issues) -> Parsed:
    if not text.strip():
        raise _unreadable(name, "it is empty")
    try:
        value = _parse_json(text, name, issues)
    except ValueError as error:
        rows: dict[int, Json] = {}
        # Not `splitlines`: U+2028 and the like may stand inside JSON strings.
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                rows[number] = _parse_json(line, name, issues)
            except ValueError as broken:
                issues.lose("line", f"is not JSON ({broken}); left out", number)
        if not rows:
            raise _unreadable(name, f"it is not JSON ({error})") from None
        return Parsed(name, issues, [*rows.values()], (*rows,))
    if isinstance(value, dict | list):
        return Parsed(name, issues, value)
    raise _unreadable(name, f"it holds {value!r:.40} alone")


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
    return bounded(value, issues, name, 0)


def bounded(value: Json, issues: Issues, name: str, depth: int) -> Json:
    """Return plain JSON; what no store could keep becomes text or null, and is reported."""
    if isinstance(value, float) and not math.isfinite(value):
        issues.count(str(value), "is not JSON; read as null")
        return None
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, Enum)):
        return value
    if depth >= _MAX_DEPTH:
        issues.note("", f"what is nested deeper than {_MAX_DEPTH} levels is kept as text")
        return repr(value)
    inside: Any = _told(value)
    if inside is not value:
        return bounded(inside, issues, name, depth)
    if isinstance(value, Mapping):
        for key in inside:
            if not isinstance(key, str):
                raise _unreadable(name, f"its key {key!r:.40} is not text")
        return {key: bounded(held, issues, name, depth + 1) for key, held in inside.items()}
    if isinstance(value, Iterable):
        return [bounded(held, issues, name, depth + 1) for held in inside]
    raise _unreadable(name, f"{with_article(type(value).__name__)} is not JSON")


def _told(value: Any) -> Any:
    """Return what an SDK's object, a dataclass, a moment or bytes says; anything else as it is.

    A kind or a role that the object's class gives is told as well.
    """
    same: Any = value
    if value.__class__ in (dict, list, tuple):
        return same
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    told: Any = read_object(value)
    if told is None and callable(dump := getattr(value, "to_dict", None)):
        told = dump()
    if told is None or isinstance(value, Mapping):
        return as_object(same) or same
    marks = {key: getattr(value, key, None) for key in ("type", "role") if key not in told}
    return told | {key: mark for key, mark in marks.items() if isinstance(mark, str)}


def split_sessions(parsed: Parsed) -> list[tuple[str, JsonObject]]:
    """Return the sessions of a source with their names; empty if it is not a collection."""
    value = parsed.document
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
    named: dict[str, JsonObject] = {}
    for number, value in enumerate(values):
        if (session := _session_in(value)) is None:
            return []
        fields = as_object(value)
        name = next((fields[k] for k in _NAMES if isinstance(fields.get(k), str | int)), number)
        whole = f"{name}" if fields.get("trial") is None else f"{name}-{fields['trial']}"
        free = (f"{whole}-{count}" if count > 1 else whole for count in itertools.count(1))
        named[next(one for one in free if one not in named)] = session
    return list(named.items())
