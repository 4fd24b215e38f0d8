"""`lint` and `count`: instruction files, and the tokens of a text, a session, an image or a PDF."""

import base64
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from context_assembler.cli import LINT_FOUND
from context_assembler.cli.command import (
    Answer,
    command,
    counted,
    heading,
    one_line,
    read_content,
    table_of,
)
from context_assembler.cli.sessions import load_events
from context_assembler.errors import ConfigurationError, MissingModelError, TranscriptError
from context_assembler.events import Base64Source, Document, Image, SessionEvent, user_event
from context_assembler.models import get_model_limits
from context_assembler.options import AssemblerConfig
from context_assembler.ports import ToolSpec
from context_assembler.prompt import BootstrapLoader, lint_files
from context_assembler.texts import decode_text
from context_assembler.tokens import TokenCounter
from context_assembler.transcripts import read_transcript

app: Final = typer.Typer(add_completion=False)
_STYLES: Final = {"error": "red", "warning": "yellow", "note": "dim"}
_MEDIA_TYPES: Final = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"%PDF-": "application/pdf",
}


@command(app, "lint")
def lint(
    folder: Path,
    *,
    agent: str = "",
    agent_name: list[str] | None = None,
    upward: bool | None = None,
    max_file_tokens: int | None = None,
    max_total_tokens: int | None = None,
    model: str = "gpt-5.5",
    strict: bool = False,
) -> Answer:
    """Check a folder of instruction files as the loader would read it.

    Per file: encoding, size, tokens, imports, what the caps cut, links, copies, secrets, and lines
    that look injected. Also: instruction files that are not read, and what other clients would cut.
    Exit code: 14 if there is an error, or with --strict a warning.

    Args:
        folder: Where the files are.
        agent: Whose variants are read.
        agent_name: Accepted for AGENT.md; repeatable.
        upward: Read the folders above as well.
        max_file_tokens: Cap of one file.
        max_total_tokens: Cap of all files.
        model: Whose tokens are counted.
        strict: Warnings count as errors.
    """
    if not folder.is_dir():
        remedy = "Name the folder that holds AGENT.md."
        raise ConfigurationError(f"{folder} is not a folder.", remedy=remedy)
    settings = AssemblerConfig().bootstrap
    loader = BootstrapLoader(
        folder,
        agent_names=tuple(agent_name or settings.agent_names),
        searches_upward=settings.searches_upward if upward is None else upward,
        max_file_tokens=max_file_tokens or settings.max_file_tokens,
        max_total_tokens=max_total_tokens or settings.max_total_tokens,
    )
    today = datetime.now(tz=UTC).date().isoformat()
    variables = {"agent": agent, "session": "lint", "model": model, "date": today}
    found = lint_files(
        loader,
        agent or None,
        count_text=TokenCounter(model).count_text,
        variables={**variables, "skills": [], "tools": []},
        required=settings.required,
    )
    fails = found.count("error") or (strict and found.count("warning"))
    return Answer(found.to_json(), _show_lint(found), LINT_FOUND if fails else 0)


def _show_lint(found: Any) -> Iterator[RenderableType]:
    for one in found.files:
        file = one.file
        yield heading(file.path)
        if file.state in ("ok", "empty"):
            size = f"{file.encoding}, {file.size_bytes:,} bytes, {one.tokens:,} tokens"
            kept = one.kept_tokens
            cut = f", {kept:,} after the caps" if kept < one.tokens else ""
            yield f"  {file.section}: {size}{cut}"
        yield from (f"  imports {path}" for path in file.imports)
        for finding in one.findings:
            place = f"line {finding.line}: " if finding.line else ""
            yield _finding(finding.level, f"{place}{finding.message}")
    if found.unread:
        yield heading("Not read")
        yield from (_finding(file.level, f"{file.path}: {file.reason}") for file in found.unread)
    if found.forecasts:
        yield heading("What other clients would cut")
        yield from (f"  {client}: {cut}" for client, cut in found.forecasts)
    errors, warnings = (counted(found.count(level), level) for level in ("error", "warning"))
    yield f"\n{errors}, {warnings}."


def _finding(level: str, sentence: str) -> Text:
    return Text.assemble((f"  {level} ", _STYLES[level]), one_line(sentence, max_chars=400))


@command(app, "count")
async def count(
    file: Path | None = None,
    *,
    model: str | None = None,
    session: str | None = None,
    sessions: str | None = None,
    text: bool = False,
) -> Answer:
    """Count the tokens of a text, a conversation, an image or a PDF.

    A transcript is counted as the conversation it holds, tools included.

    Args:
        file: A text, a transcript, an image or a PDF; '-' reads stdin.
        model: Whose tokens; by default the settings' own model.
        session: Count a stored session instead.
        text: Count a transcript as the text that it is.
    """
    if (file is None) == (session is None):
        remedy = "Name one FILE ('-' for stdin) or a --session."
        raise ConfigurationError("It is not clear what to count.", remedy=remedy)
    name = model or AssemblerConfig().defaults.model
    if name is None:
        raise MissingModelError
    counter, messages = TokenCounter(name), None
    if session is not None:
        events = await load_events(sessions, session)
        messages, rows = len(events), _count_events(counter, events)
    elif file is not None:
        messages, rows = _count_file(counter, file, read_content(file), is_text=text)
    total = sum(rows.values())
    how = "counted exactly" if counter.is_exact else "estimated"
    what = "" if messages is None else f"{counted(messages, 'event')}, "
    cells = [(part, f"{tokens:,}") for part, tokens in rows.items()]
    value = {
        "tokens": total,
        "model": name,
        "counter": counter.name,
        "is_exact": counter.is_exact,
        "window_tokens": get_model_limits(name).window_tokens,
        "messages": messages,
        "rows": [{"name": part, "tokens": tokens} for part, tokens in rows.items()],
    }
    lines = [f"{total:,} tokens: {what}{how} with {counter.name}."]
    return Answer(value, [*lines, table_of("part", "tokens", right=("tokens",), rows=cells)])


def _count_file(
    counter: TokenCounter, path: Path, content: bytes, *, is_text: bool
) -> tuple[int | None, dict[str, int]]:
    kind = next((k for magic, k in _MEDIA_TYPES.items() if content.startswith(magic)), None)
    if kind is not None and not is_text:
        source = Base64Source(media_type=kind, data=base64.b64encode(content).decode())
        is_pdf = kind == "application/pdf"
        part = Document(source=source) if is_pdf else Image(source=source)
        return None, {path.name: counter.count_message(user_event(part))}
    if path.suffix.lower() in (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf") and not is_text:
        remedy = "Give the file itself, or pass --text to count the text in it."
        raise ConfigurationError(f"The bytes of {path} are not what it is named.", remedy=remedy)
    text = decode_text(content)[0]
    try:
        read = None if is_text else read_transcript(text)
    except TranscriptError:
        read = None  # no conversation, so a text
    if read is None:
        return None, {"text": counter.count_text(text)}
    return len(read.events), _count_events(counter, read.events, read.tools)


def _count_events(
    counter: TokenCounter, events: Sequence[SessionEvent], tools: Sequence[ToolSpec] = ()
) -> dict[str, int]:
    rows: dict[str, int] = {}
    for event in events:
        rows[event.type] = rows.get(event.type, 0) + counter.count_message(event)
    if tools:
        rows["tools"] = sum(map(counter.count_tool, tools)) + counter.count_tools_overhead(tools)
    return {**rows, "request": counter.request_tokens}
