"""`import`, `export` and `sessions`: stores, and transcripts from and to other programs."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from context_assembler.cli.screen import (
    JsonFlag,
    SessionsUrl,
    counted,
    one_line,
    people,
    print_json,
    printable,
    read_content,
    table_of,
)
from context_assembler.errors import ConfigurationError, UnknownSessionError, nearest
from context_assembler.events import Covers, Session, SessionEvent, to_json
from context_assembler.sessions import open_store
from context_assembler.transcripts import FORMATS, read_sessions, write_transcript
from context_assembler.transcripts.source import ReadTranscript

app: Final = typer.Typer(add_completion=False)


@asynccontextmanager
async def opened_store(url: str | None, *, creates: bool = False) -> AsyncGenerator[Any, None]:
    """Open the session store of that URL, and close it again.

    Args:
        creates: Whether the store may be a new one; else its file must exist.
    """
    if not url:
        remedy = "Pass --sessions sqlite:agent.db, or set CONTEXT_ASSEMBLER_SESSIONS."
        raise ConfigurationError("No session store is given.", remedy=remedy)
    if not creates:
        check_exists(url, f"import FILE --sessions {url}")
    store = open_store(url)
    try:
        yield store
    finally:
        await store.close()


def check_exists(url: str, fill: str) -> None:
    """Refuse a SQLite URL whose file does not exist: the store would be empty."""
    scheme, _, place = url.partition(":")
    path = Path(place.removeprefix("//")).expanduser()
    if scheme.lower() != "sqlite" or place in ("", ":memory:") or path.exists():
        return
    if not path.parent.is_dir():
        return  # the store itself reports the missing folder
    near = nearest(path.name, [other.name for other in path.parent.iterdir() if other.is_file()])
    meant = [url.replace(place, str(Path(place).with_name(name))) for name in near]
    fix = f"Did you mean {meant[0]!r}?" if meant else f"Fill it first: context-assembler {fill}"
    raise ConfigurationError(f"There is no file {place}.", remedy=fix)


async def load_events(url: str | None, session_id: str) -> list[SessionEvent]:
    """Return every event of a stored session, oldest first."""
    async with opened_store(url) as store:
        return [event async for event in store.load(session_id)]


class _Imported(NamedTuple):
    """One session found in a file, its name there, its id, and how many events were new."""

    session_id: str
    name: str
    file: Path
    transcript: ReadTranscript
    new_events: int = 0


@app.command("import")
def import_(
    *,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="'-' reads stdin.")],
    sessions: SessionsUrl = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="The new session's id; the file's name.")
    ] = None,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="Whose session it is.")] = None,
    format_name: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help=f"{', '.join(FORMATS)}; recognised."),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Append what is new to a session that exists.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Read transcripts into a session store.

    What could not be mapped is listed. Several sessions in one file get the ids <file>-1, <file>-2 …
    Nothing is written unless everything can be read.
    """
    found = _named([one for file in files for one in _read(file, format_name=format_name)], session)
    done = asyncio.run(_store(found, sessions, agent=agent, append=append))
    if as_json:
        print_json(
            [
                {
                    "session": one.session_id,
                    "name": one.name,
                    "file": str(one.file),
                    "events": len(one.transcript.events),
                    "new_events": one.new_events,
                    "tools": len(one.transcript.tools),
                    "issues": [issue._asdict() for issue in one.transcript.issues],
                }
                for one in done
            ]
        )
        return
    for one in done:
        _print_imported(one)


def _print_imported(one: _Imported) -> None:
    console = people()
    issues, new = one.transcript.issues, counted(one.new_events, "event")
    console.print(printable(f"{one.session_id}: {new} from {one.file}"), soft_wrap=True)
    if one.transcript.tools:
        tools = counted(len(one.transcript.tools), "tool")
        console.print(f"  {tools} in the file: pass --tools {one.file}", soft_wrap=True)
    if issues:
        console.print(f"  {len(issues)} not mapped:", style="yellow")
    for issue in issues[:10]:
        where = "" if issue.line is None else f"line {issue.line}: "
        text = one_line(f"{where}{issue.what}: {issue.reason}", max_chars=200)
        console.print(f"  · {text}", soft_wrap=True)
    if len(issues) > 10:
        console.print(f"  · {len(issues) - 10} more; --json lists them all")


def _read(file: Path, *, format_name: str | None) -> list[_Imported]:
    is_stdin = file == Path("-")
    read = read_sessions(read_content(file) if is_stdin else file, format=format_name)
    stem = "session" if is_stdin else file.stem
    return [
        _Imported(stem if len(read) == 1 else f"{stem}-{number}", name, file, transcript)
        for number, (name, transcript) in enumerate(read, start=1)
    ]


def _named(found: list[_Imported], session_id: str | None) -> list[_Imported]:
    if session_id is None:
        taken = [one.session_id for one in found]
        if twice := sorted({name for name in taken if taken.count(name) > 1}):
            problem = f"Two files would become session {twice[0]!r}."
            raise ConfigurationError(problem, remedy="Import them one by one, with --session.")
        return found
    if len(found) != 1:
        problem = f"--session names one session, but {len(found)} were found."
        raise ConfigurationError(problem, remedy="Leave --session out: each gets its own name.")
    return [found[0]._replace(session_id=session_id)]


async def _store(
    found: Sequence[_Imported], url: str | None, *, agent: str | None, append: bool
) -> list[_Imported]:
    done: list[_Imported] = []
    async with opened_store(url, creates=True) as store:
        stored = {one.session_id: await _stored(store, one.session_id) for one in found}
        for one in found:
            before = stored[one.session_id]
            if before is not None and not append:
                problem = f"There is a session {one.session_id!r} already."
                remedy = "Name another one with --session, or pass --append."
                raise ConfigurationError(problem, remedy=remedy)
        for one in found:
            before, events = stored[one.session_id], one.transcript.events
            new = list(events) if before is None else _later(one.session_id, before, events)
            if new:
                await store.append(one.session_id, new, expected_seq=len(before or ()))
            if before is None:
                created = next((e.created_at for e in events if e.created_at is not None), None)
                metadata = {"imported_from": one.file.name, "name": one.name}
                session = Session(
                    id=one.session_id, agent_id=agent, metadata=metadata, created_at=created
                )
                await store.create(session)
            done.append(one._replace(new_events=len(new)))
    return done


async def _stored(store: Any, session_id: str) -> list[SessionEvent] | None:
    try:
        return [event async for event in store.load(session_id)]
    except UnknownSessionError:
        return None


def _later(
    session_id: str, stored: Sequence[SessionEvent], given: Sequence[SessionEvent]
) -> list[SessionEvent]:
    """Return the transcript's events after those that the session has already.

    Two events are the same if they have one id or, if the transcript has no ids, one content.
    """
    ids = [event.id for event in stored]
    if given and given[0].id in ids:
        start = ids.index(given[0].id)
    else:
        start = max(0, len(stored) - len(given)) if given and not given[0].id else len(stored)
    had = stored[start:]
    shifted = [_shifted(event, start) for event in given]
    same = all(
        a.id == b.id if b.id else (a.parts, a.origin) == (b.parts, b.origin)
        for a, b in zip(had, shifted, strict=False)
    )
    if had and same and len(had) <= len(given):
        return shifted[len(had) :]
    if set(ids) & {event.id for event in given if event.id}:
        raise ConfigurationError(
            f"Session {session_id!r} has some of these events, and others between or after them.",
            remedy="Import the transcript as a session of its own, with --session.",
        )
    return [_shifted(event, len(stored)) for event in given]


def _shifted(event: SessionEvent, by: int) -> SessionEvent:
    """Return the event with what it covers counted from its place in the session."""
    if event.covers is None or by == 0:
        return event
    covers = event.covers
    moved = Covers(
        first_seq=covers.first_seq + by,
        last_seq=covers.last_seq + by,
        excluded_ids=covers.excluded_ids,
    )
    return replace(event, covers=moved)


@app.command("export")
def export(
    *,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    sessions: SessionsUrl = None,
    format_name: Annotated[
        str, typer.Option("--format", metavar="NAME", help=f"{', '.join(FORMATS)}.")
    ] = "openai_chat",
    as_json: JsonFlag = False,
) -> None:
    """Write a session as a transcript to stdout; with --json as the 'text' of an object."""
    text = write_transcript(asyncio.run(load_events(sessions, session)), format=format_name)
    if as_json:
        print_json({"session": session, "format": format_name, "text": text})
    else:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


@app.command("sessions")
def list_sessions(*, sessions: SessionsUrl = None, as_json: JsonFlag = False) -> None:
    """List the sessions of a store."""

    async def listed() -> list[Any]:
        async with opened_store(sessions) as store:
            return list(await store.list_sessions())

    heads = asyncio.run(listed())
    if as_json:
        print_json(
            [
                {
                    "id": head.session.id,
                    "agent_id": head.session.agent_id,
                    "defaults": to_json(head.session.defaults),
                    "metadata": to_json(head.session.metadata),
                    "created_at": to_json(head.session.created_at),
                    "events": head.last_seq,
                }
                for head in heads
            ]
        )
        return
    if not heads:
        people().print(printable(f"{sessions} holds no session."))
        return
    table = table_of("session", "agent", "events", "created", right=("events",))
    for head in heads:
        created = head.session.created_at
        table.add_row(
            one_line(head.session.id, max_chars=60),
            one_line(head.session.agent_id or "", max_chars=30),
            f"{head.last_seq:,}",
            created.isoformat(sep=" ", timespec="seconds") if created else "",
        )
    people().print(table)
