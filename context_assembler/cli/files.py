"""`lint` and `count`: instruction files, and the tokens of a text, a session, an image or a PDF."""

import asyncio
import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from context_assembler.cli import LINT_FOUND
from context_assembler.cli.screen import (
    JsonFlag,
    SessionsUrl,
    counted,
    heading,
    one_line,
    people,
    print_json,
    printable,
    read_content,
    table_of,
)
from context_assembler.cli.sessions import load_events
from context_assembler.errors import ConfigurationError, TranscriptError
from context_assembler.events import (
    Base64Source,
    Document,
    Image,
    SessionEvent,
    user_event,
)
from context_assembler.options import AssemblerConfig
from context_assembler.prompt import BootstrapLoader, lint_files
from context_assembler.texts import decode_text
from context_assembler.tokens import TokenCounter
from context_assembler.transcripts import read_transcript

app: Final = typer.Typer(add_completion=False)
_STYLES: Final = {"error": "red", "warning": "yellow", "note": "dim"}
_IMAGE_TYPES: Final = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}


@app.command("lint")
def lint(
    *,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files are.")],
    agent_id: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Whose variants are read.")
    ] = None,
    agent_names: Annotated[
        list[str] | None,
        typer.Option("--agent-name", metavar="NAME", help="Accepted for AGENT.md; repeatable."),
    ] = None,
    upward: Annotated[
        bool | None, typer.Option("--upward/--no-upward", help="Read the folders above as well.")
    ] = None,
    max_file_tokens: Annotated[int | None, typer.Option(min=1, help="Cap of one file.")] = None,
    max_total_tokens: Annotated[int | None, typer.Option(min=1, help="Cap of all files.")] = None,
    model: Annotated[str, typer.Option("--model", "-m", metavar="ID")] = "gpt-5.5",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check a folder of instruction files as the loader would read it.

    Per file: encoding, size, tokens, imports, what the caps cut, links, copies, secrets, and lines
    that look injected. Also: instruction files that are not read, and what other clients would cut.
    Exit code: 14 if there is an error, or with --strict a warning.
    """
    if not folder.is_dir():
        remedy = "Name the folder that holds AGENT.md."
        raise ConfigurationError(f"{folder} is not a folder.", remedy=remedy)
    settings = AssemblerConfig().bootstrap
    loader = BootstrapLoader(
        folder,
        agent_names=tuple(agent_names or settings.agent_names),
        searches_upward=settings.searches_upward if upward is None else upward,
        max_file_tokens=max_file_tokens or settings.max_file_tokens,
        max_total_tokens=max_total_tokens or settings.max_total_tokens,
    )
    today = datetime.now(tz=UTC).date().isoformat()
    variables = {"agent": agent_id or "", "session": "lint", "model": model, "date": today}
    found = lint_files(
        loader,
        agent_id,
        count_text=TokenCounter(model).count_text,
        variables={**variables, "skills": [], "tools": []},
        required=settings.required,
    )
    if as_json:
        print_json(found.to_json())
    else:
        _print_lint(found)
    if found.count("error") or (strict and found.count("warning")):
        raise typer.Exit(LINT_FOUND)


def _print_lint(found: Any) -> None:
    console = people()
    for one in found.files:
        file = one.file
        heading(console, printable(file.path))
        if file.state in ("ok", "empty"):
            size = f"{file.encoding}, {file.size_bytes:,} bytes, {one.tokens:,} tokens"
            kept = one.kept_tokens
            cut = f", {kept:,} after the caps" if kept < one.tokens else ""
            console.print(f"  {file.section}: {size}{cut}")
        for path in file.imports:
            console.print(f"  imports {printable(path)}", soft_wrap=True)
        for finding in one.findings:
            place = f"line {finding.line}: " if finding.line else ""
            _print_finding(finding.level, f"{place}{one_line(finding.message, max_chars=300)}")
    if found.unread:
        heading(console, "Not read")
    for file in found.unread:
        _print_finding(file.level, f"{printable(file.path)}: {file.reason}")
    if found.forecasts:
        heading(console, "What other clients would cut")
    for client, cut in found.forecasts:
        console.print(f"  {client}: {printable(cut)}", soft_wrap=True)
    console.print()
    errors, warnings = (counted(found.count(level), level) for level in ("error", "warning"))
    console.print(f"{errors}, {warnings}.")


def _print_finding(level: str, sentence: str) -> None:
    people().print(Text.assemble((f"  {level} ", _STYLES[level]), sentence), soft_wrap=True)


@app.command("count")
def count(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A text, transcript, image or PDF; '-' reads stdin."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="ID", help="Whose tokens.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="A stored session instead.")
    ] = None,
    sessions: SessionsUrl = None,
    is_text: Annotated[
        bool, typer.Option("--text", help="Count a transcript as the text that it is.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Count the tokens of a text, a conversation, an image or a PDF.

    A transcript is counted as the conversation it holds, tools included.
    """
    if (file is None) == (session is None):
        remedy = "Name one FILE ('-' for stdin) or a --session."
        raise ConfigurationError("It is not clear what to count.", remedy=remedy)
    name = model or AssemblerConfig().defaults.model
    if name is None:
        remedy = "Pass --model, or set a model under [defaults] in context-assembler.toml."
        raise ConfigurationError("It is not clear whose tokens to count.", remedy=remedy)
    counter = TokenCounter(name)
    if session is not None:
        events = asyncio.run(load_events(sessions, session))
        what, rows = counted(len(events), "event"), _rows(counter, events, ())
    else:
        assert file is not None
        what, rows = _count_file(counter, file, read_content(file), is_text=is_text)
    total = sum(rows.values())
    if as_json:
        print_json(
            {
                "tokens": total,
                "what": what,
                "model": name,
                "counter": counter.name,
                "is_exact": counter.is_exact,
                "rows": rows,
            }
        )
        return
    how = "counted exactly" if counter.is_exact else "estimated"
    people().print(f"{total:,} tokens: {what}, {how} with {counter.name}.", soft_wrap=True)
    if len(rows) > 1:
        table = table_of("part", "tokens", right=("tokens",))
        for part, tokens in rows.items():
            table.add_row(part, f"{tokens:,}")
        people().print(table)


def _count_file(
    counter: TokenCounter, path: Path, content: bytes, *, is_text: bool
) -> tuple[str, dict[str, int]]:
    kind = next((k for magic, k in _IMAGE_TYPES.items() if content.startswith(magic)), None)
    kind = "application/pdf" if b"%PDF-" in content[:1024] else kind
    if kind is not None and not is_text:
        source = Base64Source(media_type=kind, data=base64.b64encode(content).decode())
        is_pdf = kind == "application/pdf"
        part = Document(source=source) if is_pdf else Image(source=source)
        tokens = counter.count_message(user_event(part))
        return "a PDF" if is_pdf else "an image", {path.name: tokens}
    if path.suffix.lower() in (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf") and not is_text:
        remedy = "Give the file itself, or pass --text to count the text in it."
        raise ConfigurationError(f"The bytes of {path} are not what it is named.", remedy=remedy)
    text = decode_text(content)[0]
    if not is_text:
        try:
            read = read_transcript(text)
            what = counted(len(read.events), "event")
            return what, _rows(counter, list(read.events), read.tools)
        except TranscriptError:
            pass  # no conversation, so a text
    return "a text", {"text": counter.count_text(text)}


def _rows(counter: TokenCounter, events: list[SessionEvent], tools: Any) -> dict[str, int]:
    rows: dict[str, int] = {}
    for event in events:
        rows[event.type] = rows.get(event.type, 0) + counter.count_message(event)
    if tools:
        rows["tools"] = sum(map(counter.count_tool, tools)) + counter.count_tools_overhead(tools)
    return {**rows, "request": counter.request_tokens}
