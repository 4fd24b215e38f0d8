"""`import` and `export`: sessions from and to the formats of others."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.progress import Progress

from context_assembler.cli.import_appending import events_behind
from context_assembler.cli.opening import load_events, opened_store, standard_input
from context_assembler.cli.request_options import JsonFlag, SessionsUrl
from context_assembler.cli.screen import counted, notes, one_line, people, print_json
from context_assembler.errors import ConfigurationError, UnknownOptionError, UnknownSessionError
from context_assembler.ports import ReadTranscript, SessionStore, TranscriptIssue
from context_assembler.sessions import number_events
from context_assembler.transcripts import TRANSCRIPTS, read_sessions
from context_assembler.values.codec import to_json
from context_assembler.values.events import Session
from context_assembler.values.parts import Json

_MOST_ISSUES_SHOWN: Final = 10

app: Final = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One session found in a file, the name it has there, and the id it gets.

    `new_count` is how many of its events the session did not have.
    """

    session_id: str
    name: str
    file: Path
    transcript: ReadTranscript
    new_count: int = 0


@app.command("import")
def import_(
    *,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="'-' reads stdin.")],
    sessions: SessionsUrl = None,
    session: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The new session's id; the file's name by default."),
    ] = None,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="Whose session it is.")] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help=f"{', '.join(TRANSCRIPTS)}; found out by default."
        ),
    ] = None,
    append: Annotated[
        bool,
        typer.Option("--append", help="Append what is new to a session that exists."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Read transcripts into a session store.

    What could not be mapped is listed.
    Several sessions in one file get the ids <file>-1, <file>-2 …
    Nothing is written unless everything can be read.
    """
    found = asyncio.run(
        _import(
            files, sessions, session=session, agent=agent, format_name=format_name, append=append
        )
    )
    if as_json:
        print_json([_as_json(imported) for imported in found])
    else:
        _print_imported(found)


@app.command("export")
def export(
    *,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    sessions: SessionsUrl = None,
    format_name: Annotated[
        str, typer.Option("--format", metavar="NAME", help=f"{', '.join(TRANSCRIPTS)}.")
    ] = "openai_chat",
    as_json: JsonFlag = False,
) -> None:
    """Write a session as a transcript.

    The transcript goes to stdout; with --json it is the 'text' of an object that names its format.
    """
    _check_format(format_name)
    text = TRANSCRIPTS[format_name].write(asyncio.run(load_events(sessions, session)))
    if as_json:
        print_json({"session": session, "format": format_name, "text": text})
        return
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


async def _import(
    files: Sequence[Path],
    url: str | None,
    *,
    session: str | None,
    agent: str | None,
    format_name: str | None,
    append: bool,
) -> list[Imported]:
    if format_name is not None:
        _check_format(format_name)
    async with opened_store(url, creates=True) as store:
        with Progress(console=notes(), disable=not sys.stderr.isatty(), transient=True) as progress:
            read = progress.add_task("reading", total=len(files))
            found: list[Imported] = []
            for file in files:
                found.extend(_read(file, format_name=format_name))
                progress.advance(read)
            found = _named(found, session)
            unfinished = await _check_new(store, found) if not append else set[str]()
            written = progress.add_task("writing", total=len(found))
            told: list[Imported] = []
            for imported in found:
                is_there = imported.session_id in unfinished
                new_count = await _write(
                    store, imported, agent=agent, append=append, is_there=is_there
                )
                told.append(replace(imported, new_count=new_count))
                progress.advance(written)
    return told


def _check_format(name: str) -> None:
    if name not in TRANSCRIPTS:
        raise UnknownOptionError(name, kind="transcript format", known=TRANSCRIPTS)


def _read(file: Path, *, format_name: str | None) -> Iterator[Imported]:
    source = standard_input().read() if file == Path("-") else file
    read = read_sessions(source, format=format_name)
    stem = "session" if file == Path("-") else file.stem
    for number, (name, transcript) in enumerate(read, start=1):
        session_id = stem if len(read) == 1 else f"{stem}-{number}"
        yield Imported(session_id=session_id, name=name, file=file, transcript=transcript)


def _named(found: list[Imported], session_id: str | None) -> list[Imported]:
    if session_id is None:
        taken = [imported.session_id for imported in found]
        if twice := sorted({name for name in taken if taken.count(name) > 1}):
            raise ConfigurationError(
                f"Two files would become session {twice[0]!r}.",
                remedy="Import them one by one, with --session.",
            )
        return found
    if len(found) != 1:
        raise ConfigurationError(
            f"--session names one session, but {len(found)} were found.",
            remedy="Leave --session out: each gets the name of its file and a number.",
        )
    [only] = found
    return [replace(only, session_id=session_id)]


async def _check_new(store: SessionStore, found: Sequence[Imported]) -> set[str]:
    """Refuse sessions that exist, and return those of which an import was ended half-way."""
    unfinished: set[str] = set()
    for imported in found:
        if await _last_seq(store, imported.session_id) is None:
            continue
        if not await _is_unfinished(store, imported):
            raise ConfigurationError(
                f"There is a session {imported.session_id!r} already.",
                remedy="Name another one with --session, or pass --append.",
            )
        unfinished.add(imported.session_id)
    return unfinished


async def _is_unfinished(store: SessionStore, imported: Imported) -> bool:
    """Whether an import of these very events was ended before it said what they are."""
    head = await store.head(imported.session_id)
    if replace(head.session, created_at=None) != Session(id=imported.session_id):
        return False
    stored = [event async for event in store.load(imported.session_id)]
    return stored == number_events(imported.transcript.events, last_seq=0, taken_ids=())


async def _last_seq(store: SessionStore, session_id: str) -> int | None:
    """Return how far the session has come; `None` where there is none of that id."""
    try:
        head = await store.head(session_id)
    except UnknownSessionError:
        return None
    return head.last_seq


async def _write(
    store: SessionStore, imported: Imported, *, agent: str | None, append: bool, is_there: bool
) -> int:
    """Append the events in one go, all of them or none, then tell whose a new session is.

    Returns:
        How many events were new to the session.

    Args:
        is_there: Whether they are there already.
    """
    events = imported.transcript.events
    last_seq = await _last_seq(store, imported.session_id) if append else None
    if last_seq is not None:
        stored = [event async for event in store.load(imported.session_id)]
        behind = events_behind(imported.session_id, stored, events)
        if behind:
            await store.append(imported.session_id, behind, expected_seq=last_seq)
        return len(behind)
    if not is_there:
        await store.append(imported.session_id, events, expected_seq=0)
    await store.create(
        Session(
            id=imported.session_id,
            agent_id=agent,
            metadata={"imported_from": imported.file.name, "name": imported.name},
            created_at=next((e.created_at for e in events if e.created_at is not None), None),
        )
    )
    return len(events)


def _as_json(imported: Imported) -> dict[str, Json]:
    return {
        "session": imported.session_id,
        "name": imported.name,
        "file": str(imported.file),
        "events": len(imported.transcript.events),
        "new_events": imported.new_count,
        "tools": len(imported.transcript.tools),
        "issues": to_json(imported.transcript.issues),
    }


def _print_imported(found: Sequence[Imported]) -> None:
    console = people()
    for imported in found:
        events, issues = imported.transcript.events, imported.transcript.issues
        name = one_line(imported.session_id, max_chars=80)
        known = len(events) - imported.new_count
        had = f"; the session had {known:,} of them" if known else ""
        read = counted(len(events), "event")
        console.print(f"{name}: {read} from {imported.file}{had}", soft_wrap=True)
        if tools := imported.transcript.tools:
            console.print(
                f"  The file defines {counted(len(tools), 'tool')}; give them to assemble with "
                f"--tools {imported.file}",
                soft_wrap=True,
            )
        if issues:
            console.print(f"  {len(issues)} not mapped:", style="yellow")
        for issue in issues[:_MOST_ISSUES_SHOWN]:
            console.print(f"  · {_spelling(issue)}", soft_wrap=True)
        if len(issues) > _MOST_ISSUES_SHOWN:
            console.print(f"  · {len(issues) - _MOST_ISSUES_SHOWN} more; --json lists them all")


def _spelling(issue: TranscriptIssue) -> str:
    where = "" if issue.line is None else f"line {issue.line}: "
    return one_line(f"{where}{issue.what}: {issue.reason}", max_chars=200)
