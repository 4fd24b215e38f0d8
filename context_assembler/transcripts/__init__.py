"""The transcript formats that travel with the package."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from context_assembler.errors import TranscriptError
from context_assembler.ports import ReadTranscript, Transcript
from context_assembler.transcripts.anthropic import AnthropicTranscript
from context_assembler.transcripts.claude_code import ClaudeCodeTranscript
from context_assembler.transcripts.gemini import GeminiTranscript
from context_assembler.transcripts.issues import IssueLog
from context_assembler.transcripts.openai_chat import OpenAIChatTranscript
from context_assembler.transcripts.openai_responses import OpenAIResponsesTranscript
from context_assembler.transcripts.parsing import Row, Rows, as_mapping, parse_source
from context_assembler.transcripts.session_files import split_sessions
from context_assembler.values.given import check_known
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.reading import as_text

__all__ = ["TRANSCRIPTS", "detect_transcript", "read_sessions", "read_transcript"]

TRANSCRIPTS: Final[Mapping[str, Transcript]] = {
    "claude_code": ClaudeCodeTranscript(),
    "openai_responses": OpenAIResponsesTranscript(),
    "gemini": GeminiTranscript(),
    "anthropic": AnthropicTranscript(),
    "openai_chat": OpenAIChatTranscript(),
}
"""The most particular first: messages of plain text, which could be anybody's, are the last one's."""

# What stands alone around a session in which nothing was said, as the formats are written.
_EMPTY: Final = {"contents": "gemini", "messages": "anthropic"}
_OF_CODEX: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context"})


def detect_transcript(source: Any, *, name: str = "transcript") -> Transcript:
    """Return the first format that the source looks like.

    Args:
        source: The text or bytes of a file, or the parsed JSON.
        name: What to call the source in errors.

    Raises:
        TranscriptError: It looks like none of them, or is not JSON at all.
    """
    parsed = parse_source(source, name=name, log=IssueLog())
    for transcript in TRANSCRIPTS.values():
        if transcript.matches(source):
            return transcript
    if (empty := _format_of_nothing(parsed)) is not None:
        return TRANSCRIPTS[empty]
    if len(split_sessions(parsed)) > 1:
        raise TranscriptError(
            source=name,
            reason="it holds several sessions",
            remedy="Read it with read_sessions().",
        )
    listed = f"Known formats: {', '.join(TRANSCRIPTS)}."
    if any(map(_is_of_codex, parsed.rows)):
        raise TranscriptError(
            source=name,
            reason="it is a session file of OpenAI's Codex CLI, which is not read as it is",
            remedy="Its Responses items can be: jq -c 'select(.type == \"response_item\").payload' "
            f"writes them, one a line. {listed}",
        )
    raise TranscriptError(source=name, reason="its format is unknown", remedy=listed)


def _format_of_nothing(parsed: Rows) -> str | None:
    """Return what reads a session in which nothing was said; `None` where something was."""
    value = parsed.rows[0].value
    if len(parsed.rows) > 1 or parsed.has_lines:
        return None
    if is_array(value):
        return None if value else "openai_chat"
    held = list(as_mapping(value).items())
    is_empty = len(held) == 1 and is_array(held[0][1]) and not held[0][1]
    return _EMPTY.get(held[0][0]) if is_empty else None


def _is_of_codex(row: Row) -> bool:
    """Whether a row is one of Codex CLI's: `{"timestamp": …, "type": …, "payload": {…}}`."""
    fields = as_mapping(row.value)
    return as_text(fields.get("type")) in _OF_CODEX and is_object(fields.get("payload"))


def read_transcript(source: Any, *, format: str | None = None) -> ReadTranscript:  # noqa: A002 – as the command line calls it
    """Return the events of a transcript, and what of it could not be mapped.

    Args:
        source: A file's path, its text or bytes, or the parsed JSON.
        format: A name in `TRANSCRIPTS`; by default the source tells.

    Raises:
        TranscriptError: The source cannot be read as a transcript.
        UnknownOptionError: There is no format of that name.
    """
    content, name = _content_of(source)
    return _reader(content, format=format, name=name).read(content, name=name)


def read_sessions(source: Any, *, format: str | None = None) -> list[tuple[str, ReadTranscript]]:  # noqa: A002 – as the command line calls it
    """Return every session of a source with a name for each, in order; one transcript is one session.

    Several sessions are a list, or JSON Lines, of objects with `messages`, `traj` or `request`, or an
    object with `simulations`. Names are made of `id` or `task_id` where there is one.

    Raises:
        TranscriptError: The source, or one of its sessions, cannot be read.
        UnknownOptionError: There is no format of that name.
    """
    content, name = _content_of(source)
    return list(_each_session(content, format=format, name=name))


def _each_session(
    content: Any,
    *,
    format: str | None,  # noqa: A002
    name: str,
) -> Iterator[tuple[str, ReadTranscript]]:
    sessions = split_sessions(parse_source(content, name=name, log=IssueLog()))
    if not sessions:
        yield name, _reader(content, format=format, name=name).read(content, name=name)
    for session_name, session in sessions:
        place = f"{name}[{session_name}]"
        yield session_name, _reader(session, format=format, name=place).read(session, name=place)


def _reader(content: Any, *, format: str | None, name: str) -> Transcript:  # noqa: A002
    if format is None:
        return detect_transcript(content, name=name)
    check_known(format, TRANSCRIPTS, kind="transcript format")
    return TRANSCRIPTS[format]


def _content_of(source: Any) -> tuple[Any, str]:
    if not isinstance(source, Path):
        return source, "transcript"
    try:
        return source.read_bytes(), source.name
    except OSError as error:
        raise TranscriptError(
            source=str(source),
            reason=f"the file cannot be read ({error.strerror})",
            remedy="Check the path and the file's permissions.",
        ) from error
