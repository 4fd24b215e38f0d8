"""Sessions as others keep them, read into events and written back.

`FORMATS` has one row per format. A format is recognised by what it requires; a source that fits none,
or more than one, is refused with the nearest formats named.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from context_assembler.errors import TranscriptError, UnknownOptionError
from context_assembler.events import SessionEvent, active_events
from context_assembler.providers import PROVIDERS
from context_assembler.providers.wire import as_object
from context_assembler.texts import read_file
from context_assembler.transcripts.agents import AGENT_FORMATS
from context_assembler.transcripts.claude_code import CLAUDE_CODE
from context_assembler.transcripts.frameworks import FRAMEWORK_FORMATS
from context_assembler.transcripts.gemini_cli import GEMINI_CLI
from context_assembler.transcripts.messages import API_FORMATS
from context_assembler.transcripts.source import (
    Format,
    Parsed,
    Reading,
    ReadTranscript,
    Row,
    TranscriptIssue,
    parse_source,
    split_sessions,
)

__all__ = [
    "FORMATS",
    "ReadTranscript",
    "TranscriptIssue",
    "detect_format",
    "read_sessions",
    "read_transcript",
    "write_transcript",
]

_MOST_NEAR: Final = 3


def read_transcript(
    source: Any, *, format: str | None = None, partial: bool = False
) -> ReadTranscript:
    """Return the events of a transcript, and what of it could not be mapped.

    Args:
        source: A file's path, its text or bytes, or the parsed JSON; SDK objects may stand in it.
        format: A name in `FORMATS`; by default the source tells.
        partial: Whether a source is read of which more than a tenth cannot be read.

    Raises:
        TranscriptError: The source cannot be read as a transcript.
        UnknownOptionError: There is no format of that name.
    """
    return _read(_parse(source), format, partial=partial)


def read_sessions(
    source: Any, *, format: str | None = None, partial: bool = False
) -> list[tuple[str, ReadTranscript]]:
    """Return every session of a source with a name for each, in order.

    Several sessions are a list, or JSON Lines, of objects with `messages`, `traj`, `contents` or
    `request`, or an object with `simulations` or `sessions`. Names come from `id` or `task_id`.

    Raises:
        TranscriptError: The source, or one of its sessions, cannot be read.
        UnknownOptionError: There is no format of that name.
    """
    parsed = _parse(source)
    found = [
        (own, parse_source(session, f"{parsed.name}[{own}]"))
        for own, session in split_sessions(parsed)
    ]
    sessions = found or [(parsed.name, parsed)]
    return [(own, _read(session, format, partial=partial)) for own, session in sessions]


def write_transcript(events: Iterable[SessionEvent], *, format: str) -> str:
    """Return events in a format, without what rewinds left behind and compactions cover.

    Raises:
        UnknownOptionError: No format of that name can be written.
    """
    writers = {name: known.write for name, known in FORMATS.items() if known.write is not None}
    if format not in writers:
        raise UnknownOptionError(format, kind="transcript format to write", known=writers)
    return writers[format](active_events(events))


def detect_format(source: Any, *, name: str = "transcript") -> str:
    """Return the name of the one format that a source is in.

    Raises:
        TranscriptError: It is in none of them, or is not JSON at all.
    """
    return _detect(parse_source(source, name))


def _read(parsed: Parsed, format: str | None, *, partial: bool) -> ReadTranscript:
    known = format or _detect(parsed)
    if known not in FORMATS:
        raise UnknownOptionError(known, kind="transcript format", known=FORMATS)
    rows, strays = FORMATS[known].rows(parsed), FORMATS[known].strays(parsed)
    reading = Reading(rows, parsed, known, strays)
    FORMATS[known].read(reading)
    return reading.finish(is_named=format is not None, partial=partial)


def _detect(parsed: Parsed) -> str:
    shown = [known for known, row in FORMATS.items() if row.is_shown(parsed)]
    strays = {known: FORMATS[known].strays(parsed) for known in shown}
    found = [known for known in shown if not any(map(_is_somebodys, strays[known]))]
    if len(found) == 1:
        return found[0]
    document = parsed.document
    if document == [] or as_object(document) in ({"messages": []}, {"contents": []}):
        empty = {"contents": "gemini", "messages": "anthropic"}
        return next((empty[key] for key in as_object(document)), "openai_chat")
    if len(split_sessions(parsed)) > 1:
        reason, remedy = "it holds several sessions", "Read it with read_sessions()."
        raise TranscriptError(source=parsed.name, reason=reason, remedy=remedy)
    raise TranscriptError(
        source=parsed.name,
        reason=f"its format is {'not clear' if found else 'unknown'}{_nearest(parsed, found or shown)}",
        remedy=f"Name it with format= (import --format). Known formats: {', '.join(FORMATS)}.",
    )


def _is_somebodys(row: Row) -> bool:
    return any(known.takes(row.fields) for known in FORMATS.values())


def _nearest(parsed: Parsed, shown: list[str]) -> str:
    """Return the formats that are shown or take most of the rows, with how many these are."""
    listed = (known.rows(parsed) for known in FORMATS.values())
    rows = max(listed, key=lambda one: (len(one.rows), one.key)).rows
    taken = {name: sum(known.takes(row.fields) for row in rows) for name, known in FORMATS.items()}
    near = sorted(filter(taken.get, taken), key=lambda name: (name not in shown, -taken[name]))
    told = [f"{name} ({taken[name]} of {len(rows)} rows)" for name in near[:_MOST_NEAR]]
    return f"; nearest: {', '.join(told)}" if told else ""


def _parse(source: Any) -> Parsed:
    if not isinstance(source, Path):
        return parse_source(source, "transcript")
    try:
        content = read_file(source)[0]
    except OSError as error:
        raise TranscriptError(
            source=str(source),
            reason=f"the file cannot be read ({error.strerror})",
            remedy="Check the path and the file's permissions.",
        ) from error
    return parse_source(content, source.name)


FORMATS: Final[Mapping[str, Format]] = {
    **CLAUDE_CODE,
    **GEMINI_CLI,
    **AGENT_FORMATS,
    **FRAMEWORK_FORMATS,
    **API_FORMATS,
}
assert FORMATS.keys() >= set(PROVIDERS)
