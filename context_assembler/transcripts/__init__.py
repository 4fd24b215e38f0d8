"""Sessions as others keep them, read into events and written back.

The message formats of the four APIs are read by the providers' own files; Claude Code and Gemini CLI
have files here. `FORMATS` lists them, the most particular first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_assembler.errors import TranscriptError, UnknownOptionError
from context_assembler.events import Body, Json, JsonObject, SessionEvent, event_of, kind_of
from context_assembler.ports import ToolSpec
from context_assembler.providers import PROVIDERS
from context_assembler.providers.wire import as_list, as_object, objects_in
from context_assembler.transcripts import claude_code, gemini_cli, writing
from context_assembler.transcripts.source import (
    Issues,
    ReadTranscript,
    Rows,
    TranscriptIssue,
    parse_source,
    split_sessions,
    unreadable,
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

_CODEX: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context"})
# Blocks that no other message format has; plain text alone could be anybody's.
_ANTHROPIC_BLOCKS: Final = frozenset(
    "tool_use tool_result redacted_thinking image document server_tool_use".split()
)
_RESPONSES_ITEMS: Final = frozenset(
    "reasoning compaction additional_tools item_reference configuration_update".split()
)
_RESPONSES_CONTENT: Final = frozenset("input_text input_image input_file output_text".split())
_CHAT_ROLES: Final = frozenset("user assistant tool function system developer".split())


class _Format(NamedTuple):
    """One format: whether rows look like it, how to read and how to write it."""

    matches: Callable[[Rows], bool]
    read: Callable[[Rows, str, Issues], ReadTranscript]
    write: Callable[[Iterable[SessionEvent]], str]


def read_transcript(source: Any, *, format: str | None = None) -> ReadTranscript:
    """Return the events of a transcript, and what of it could not be mapped.

    Args:
        source: A file's path, its text or bytes, or the parsed JSON.
        format: A name in `FORMATS`; by default the source tells.

    Raises:
        TranscriptError: The source cannot be read as a transcript.
        UnknownOptionError: There is no format of that name.
    """
    content, name = _content_of(source)
    issues = Issues()
    return _read(parse_source(content, name=name, issues=issues), format, name, issues)


def read_sessions(source: Any, *, format: str | None = None) -> list[tuple[str, ReadTranscript]]:
    """Return every session of a source with a name for each, in order.

    Several sessions are a list, or JSON Lines, of objects with `messages`, `traj`, `contents` or
    `request`, or an object with `simulations` or `sessions`. Names come from `id` or `task_id`.

    Raises:
        TranscriptError: The source, or one of its sessions, cannot be read.
        UnknownOptionError: There is no format of that name.
    """
    content, name = _content_of(source)
    issues = Issues()
    parsed = parse_source(content, name=name, issues=issues)
    sessions = split_sessions(parsed)
    if not sessions:
        return [(name, _read(parsed, format, name, issues))]
    return list(_each(sessions, format, name))


def _each(
    sessions: Iterable[tuple[str, JsonObject]], format: str | None, name: str
) -> Iterator[tuple[str, ReadTranscript]]:
    for session_name, session in sessions:
        issues, place = Issues(), f"{name}[{session_name}]"
        parsed = parse_source(session, name=place, issues=issues)
        yield session_name, _read(parsed, format, place, issues)


def write_transcript(events: Iterable[SessionEvent], *, format: str) -> str:
    """Return events in a format; what a compaction covers is left to its summary.

    Raises:
        UnknownOptionError: There is no format of that name.
    """
    return _format(format).write(events)


def detect_format(source: Any, *, name: str = "transcript") -> str:
    """Return the name of the first format that a source looks like.

    Raises:
        TranscriptError: It looks like none of them, or is not JSON at all.
    """
    return _detect(parse_source(source, name=name, issues=Issues()), name)


def _format(name: str) -> _Format:
    if name not in FORMATS:
        raise UnknownOptionError(name, kind="transcript format", known=FORMATS)
    return FORMATS[name]


def _read(parsed: Rows, format: str | None, name: str, issues: Issues) -> ReadTranscript:
    chosen = _format(_detect(parsed, name) if format is None else format)
    return chosen.read(parsed, name, issues)


def _detect(parsed: Rows, name: str) -> str:
    for known, row in FORMATS.items():
        if row.matches(parsed):
            return known
    document = parsed.document
    if document == [] or as_object(document) in ({"messages": []}, {"contents": []}):
        empty = {"contents": "gemini", "messages": "anthropic"}
        return next((empty[key] for key in as_object(document)), "openai_chat")
    if len(split_sessions(parsed)) > 1:
        remedy = "Read it with read_sessions()."
        raise TranscriptError(source=name, reason="it holds several sessions", remedy=remedy)
    listed = f"Known formats: {', '.join(FORMATS)}."
    if any(
        str(as_object(value).get("type")) in _CODEX
        and isinstance(as_object(value).get("payload"), Mapping)
        for value in parsed.values
    ):
        raise TranscriptError(
            source=name,
            reason="it is a session file of OpenAI's Codex CLI, which is not read as it is",
            remedy="Its Responses items can be: jq -c 'select(.type == \"response_item\").payload' "
            f"writes them, one a line. {listed}",
        )
    raise TranscriptError(source=name, reason="its format is unknown", remedy=listed)


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


# ---- the message formats of the four APIs ----


def _message_list(parsed: Rows, key: str = "messages") -> tuple[list[Json], JsonObject]:
    """Return the messages and the request around them; no messages if there is no list."""
    if parsed.has_lines:
        return [row.value for row in parsed.rows], {}
    value = parsed.rows[0].value
    if isinstance(value, list):
        return [*as_list(value)], {}
    fields = as_object(value)
    for name in (key, "traj") if key == "messages" else (key,):
        if isinstance(fields.get(name), list):
            return fields[name], {k: v for k, v in fields.items() if k != name}
    return ([value], {}) if "role" in fields or "type" in fields or "parts" in fields else ([], {})


def _matches_anthropic(parsed: Rows) -> bool:
    messages, request = _message_list(parsed)
    objects = [as_object(message) for message in messages]
    if not messages or any(
        m.get("role") not in ("user", "assistant", "system") or "tool_calls" in m for m in objects
    ):
        return False
    has_tools = any("input_schema" in tool for tool in objects_in(request.get("tools")))
    is_for_claude = "max_tokens" in request and str(request.get("model")).startswith("claude")
    if "system" in request or has_tools or is_for_claude:
        return True
    for message in objects:
        for fields in objects_in(message.get("content")):
            if str(fields.get("type")) in _ANTHROPIC_BLOCKS or (
                isinstance(fields.get("type"), str) and "signature" in fields
            ):
                return True
    return any(message.get("type") == "message" for message in objects)


def _matches_responses(parsed: Rows) -> bool:
    value = as_object(parsed.document)
    if isinstance(value.get("input"), list | str):
        return True
    if value.get("object") == "response" and isinstance(value.get("output"), list):
        return True
    items = [as_object(item) for item in _message_list(parsed)[0]]
    if any("tool_calls" in item or item.get("role") == "tool" for item in items):
        return False
    return any(map(_is_item, items))


def _is_item(item: JsonObject) -> bool:
    kind, content = str(item.get("type") or ""), item.get("content")
    if kind in _RESPONSES_ITEMS or ("call_id" in item and kind.endswith(("_call", "_call_output"))):
        return True
    if kind == "message" and isinstance(content, str):
        return True
    return any(str(piece.get("type")) in _RESPONSES_CONTENT for piece in objects_in(content))


def _matches_gemini(parsed: Rows) -> bool:
    contents, request = _message_list(parsed, "contents")
    if gemini_cli.matches(parsed):
        return True
    if "contents" in as_object(parsed.document) and not request and not contents:
        return False
    return any(
        isinstance(as_object(one).get("parts"), list | dict)
        and as_object(one).get("role") in ("user", "model", "function", None)
        # Other libraries' messages have parts as well, and name their kind.
        and not any("part_kind" in part for part in objects_in(as_object(one)["parts"]))
        for one in contents
    ) or (isinstance(as_object(parsed.document).get("contents"), list) and bool(contents))


def _matches_chat(parsed: Rows) -> bool:
    roles = [as_object(message).get("role") for message in _message_list(parsed)[0]]
    return any(isinstance(role, str) and role in _CHAT_ROLES for role in roles)


def _reader(provider: str) -> Callable[[Rows, str, Issues], ReadTranscript]:
    def read(parsed: Rows, name: str, issues: Issues) -> ReadTranscript:
        from importlib import import_module

        module = import_module(f"context_assembler.providers.{provider}")
        lines = [row.line for row in parsed.rows] if parsed.has_lines else []

        def note(where: str, what: str) -> None:
            number = where.partition("[")[2].partition("]")[0]
            line = lines[int(number)] if lines and number.isdigit() else None
            issues.note(where, what, line)

        document: Json = parsed.document
        fields = as_object(document)
        if fields and not fields.keys() & {"messages", "traj", "contents", "input", "output"}:
            document = [document]
        elif "traj" in fields:  # as tau-bench has it
            document = {**fields, "messages": fields["traj"]}
        read_events: list[tuple[str, Body]] = module.read_messages(document, note)
        request = as_object(document)
        tools, metadata = _tools_of(request, note), _rest_of(request)
        keys = ("messages", "contents", "input", "output")
        if not read_events and document and not any(request.get(key) == [] for key in keys):
            raise unreadable(name, "none of its messages can be read")
        events = tuple(_event(kind, _told(body, provider)) for kind, body in read_events)
        return ReadTranscript(events, issues.found(), tools, metadata or None)

    return read


def _told(body: Body, provider: str) -> Body:
    """Return a body without empty fields of its message, and with the time that this names."""
    fields = body.get("metadata", {}).get(provider)
    if not fields:
        return body
    kept = {key: value for key, value in fields.items() if value is not None}
    body = {key: value for key, value in body.items() if key != "metadata"}
    body |= {"metadata": {provider: kept}} if kept else {}
    return body | ({"created_at": kept["timestamp"]} if "timestamp" in kept else {})


def _event(event_type: str, body: Body, **fields: Any) -> SessionEvent:
    """Return an event of a type and a body, as readers make them."""
    created = fields.pop("created_at", None) or body.pop("created_at", None)
    kind = kind_of(event_type, body)
    return event_of(body, kind=kind, id=fields.get("id", ""), seq=0, created_at=_time(created))


def _time(value: Json) -> datetime | None:
    """Return the time in UTC, unless nobody knows in which zone it is."""
    if isinstance(value, datetime):
        return value
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is None else moment.astimezone(UTC)


def _tools_of(request: JsonObject, note: Callable[[str, str], None]) -> tuple[ToolSpec, ...]:
    specs = request.get("tools") or request.get("functions")
    specs = specs or as_object(request.get("config")).get("tools")
    if not as_list(specs):
        return ()
    from context_assembler.tools import ListedTools

    listed = ListedTools([*as_list(specs)], name="transcript", kind="transcript")
    tools = tuple(listed.list_now())
    for problem in listed.problems:
        note("tools", f"{problem.problem}; left out")
    return tools


def _rest_of(request: JsonObject) -> JsonObject:
    read = {"messages", "traj", "contents", "input", "output", "tools", "functions", "system"}
    read |= {"instructions", "systemInstruction", "system_instruction"}
    return {key: value for key, value in request.items() if key not in read and value is not None}


def _read_claude_code(parsed: Rows, name: str, issues: Issues) -> ReadTranscript:
    events, metadata = claude_code.read_rows(parsed, name, issues)
    made = tuple(_identified(event_type, body, row) for event_type, body, row in events)
    return ReadTranscript(made, issues.found(), (), metadata or None)


def _identified(event_type: str, body: Body, row: JsonObject) -> SessionEvent:
    event = _event(event_type, body, created_at=row.get("created_at"))
    return replace(event, id=row.get("id", ""))


def _read_gemini(parsed: Rows, name: str, issues: Issues) -> ReadTranscript:
    if not gemini_cli.matches(parsed):
        return _reader("gemini")(parsed, name, issues)
    session = as_object(parsed.document)
    events = gemini_cli.read_session(session, issues)
    made = tuple(_identified(event_type, body, row) for event_type, body, row in events)
    rest = {key: value for key, value in session.items() if key != "messages"}
    return ReadTranscript(made, issues.found(), (), rest or None)


def _writer(provider: str) -> Callable[[Iterable[SessionEvent]], str]:
    return lambda events: writing.write_messages(events, provider)


FORMATS: Final[Mapping[str, _Format]] = {
    "claude_code": _Format(claude_code.matches, _read_claude_code, claude_code.write_rows),
    "openai_responses": _Format(
        _matches_responses, _reader("openai_responses"), _writer("openai_responses")
    ),
    "gemini": _Format(
        _matches_gemini,
        _read_gemini,
        _writer("gemini"),
    ),
    "anthropic": _Format(_matches_anthropic, _reader("anthropic"), _writer("anthropic")),
    "openai_chat": _Format(_matches_chat, _reader("openai_chat"), _writer("openai_chat")),
}
assert {name for name in FORMATS if name != "claude_code"} == set(PROVIDERS)
