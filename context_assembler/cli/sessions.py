"""`import`, `export` and `sessions`: stores, and transcripts from and to other programs."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer

from context_assembler.cli.command import (
    STANDARD,
    Answer,
    Raw,
    command,
    counted,
    one_line,
    read_content,
    table_of,
)
from context_assembler.errors import ConfigurationError, UnknownSessionError, nearest
from context_assembler.events import Covers, Session, SessionEvent, to_json
from context_assembler.sessions import open_store
from context_assembler.transcripts import ReadTranscript, read_sessions, write_transcript

app: Final = typer.Typer(add_completion=False)
_MOST_ISSUES: Final = 10


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
    if path.parent.is_dir():  # else the store itself reports the missing folder
        near = nearest(path.name, [one.name for one in path.parent.iterdir() if one.is_file()])
        meant = [url.replace(place, str(Path(place).with_name(name))) for name in near]
        fix = f"Did you mean {meant[0]!r}?" if meant else f"Fill it first: context-assembler {fill}"
        raise ConfigurationError(f"There is no file {place}.", remedy=fix)


async def load_events(url: str | None, session_id: str) -> list[SessionEvent]:
    """Return every event of a stored session, oldest first."""
    async with opened_store(url) as store:
        return [event async for event in store.load(session_id)]


class _Imported(NamedTuple):
    """One session found in a file, its name there, its id, and how many events were new."""

    session: str
    name: str
    file: Path
    read: ReadTranscript
    new_events: int = 0


@command(app, "import")
async def import_(
    file: list[Path],
    *,
    sessions: str | None = None,
    session: str | None = None,
    agent: str | None = None,
    format: str | None = None,
    append: bool = False,
) -> Answer:
    """Read transcripts into a session store.

    What could not be mapped is listed. Several sessions in one file get the ids <file>-1, <file>-2 …
    Nothing is written unless everything can be read.

    Args:
        file: '-' reads stdin.
        session: The new session's id; by default the file's name.
        agent: Whose session it is.
        format: claude_code, openai_responses, gemini, anthropic or openai_chat; recognised.
        append: Append what is new to a session that exists.
    """
    found = [one for path in file for one in _read(path, format)]
    if session is not None:
        if len(found) != 1:
            problem = f"--session names one session, but {len(found)} were found."
            raise ConfigurationError(problem, remedy="Leave --session out: each gets its own name.")
        found = [found[0]._replace(session=session)]
    names = [one.session for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        problem = f"Two files would become session {twice[0]!r}."
        raise ConfigurationError(problem, remedy="Import them one by one, with --session.")
    async with opened_store(sessions, creates=True) as store:
        stored = [await _stored(store, one.session) for one in found]
        for one, before in zip(found, stored, strict=True):
            if before is not None and not append:
                problem = f"There is a session {one.session!r} already."
                remedy = "Name another one with --session, or pass --append."
                raise ConfigurationError(problem, remedy=remedy)
        pairs = zip(found, stored, strict=True)
        done = [await _store(store, one, before, agent) for one, before in pairs]
    value = [
        {
            "session": one.session,
            "name": one.name,
            "file": str(one.file),
            "events": len(one.read.events),
            "new_events": one.new_events,
            "tools": len(one.read.tools),
            "issues": [issue._asdict() for issue in one.read.issues],
        }
        for one in done
    ]
    return Answer(value, (line for one in done for line in _show_imported(one)))


def _show_imported(one: _Imported) -> Iterator[str]:
    yield f"{one.session}: {counted(one.new_events, 'event')} from {one.file}"
    if one.read.tools:
        yield f"  {counted(len(one.read.tools), 'tool')} in the file: pass --tools {one.file}"
    if issues := one.read.issues:
        yield f"  {len(issues)} not mapped:"
    for issue in issues[:_MOST_ISSUES]:
        where = "" if issue.line is None else f"line {issue.line}: "
        yield one_line(f"{where}{issue.what}: {issue.reason}", max_chars=200)
    if len(issues) > _MOST_ISSUES:
        yield f"  {len(issues) - _MOST_ISSUES} more; --json lists them all"


def _read(file: Path, format: str | None) -> list[_Imported]:
    is_stdin = file == STANDARD
    read = read_sessions(read_content(file) if is_stdin else file, format=format)
    stem = "session" if is_stdin else file.stem
    return [
        _Imported(stem if len(read) == 1 else f"{stem}-{number}", name, file, transcript)
        for number, (name, transcript) in enumerate(read, start=1)
    ]


async def _stored(store: Any, session_id: str) -> list[SessionEvent] | None:
    try:
        return [event async for event in store.load(session_id)]
    except UnknownSessionError:
        return None


async def _store(
    store: Any, one: _Imported, before: list[SessionEvent] | None, agent: str | None
) -> _Imported:
    events = one.read.events
    new = list(events) if before is None else _later(one.session, before, events)
    if new:
        await store.append(one.session, new, expected_seq=len(before or ()))
    if before is None:
        created = next((e.created_at for e in events if e.created_at is not None), None)
        metadata = {"imported_from": one.file.name, "name": one.name}
        session = Session(id=one.session, agent_id=agent, metadata=metadata, created_at=created)
        await store.create(session)
    return one._replace(new_events=len(new))


def _later(
    session_id: str, stored: Sequence[SessionEvent], given: Sequence[SessionEvent]
) -> list[SessionEvent]:
    """Return the transcript's events after those that the session has already.

    Two events are the same if they have one id or, if the transcript has no ids, one content.
    """
    ids = [event.id for event in stored]
    start = len(stored)
    if given and given[0].id in ids:
        start = ids.index(given[0].id)
    elif given and not given[0].id:
        start = max(0, len(stored) - len(given))
    had, shifted = stored[start:], [_shifted(event, start) for event in given]
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
    if (covers := event.covers) is None:
        return event
    first, last = covers.first_seq + by, covers.last_seq + by
    moved = Covers(first_seq=first, last_seq=last, excluded_ids=covers.excluded_ids)
    return replace(event, covers=moved)


@command(app, "export")
async def export(
    session: str, *, sessions: str | None = None, format: str = "openai_chat"
) -> Answer:
    """Write a session as a transcript to stdout; with --json as the 'text' of an object.

    Args:
        session: The session's id.
        format: claude_code, openai_responses, gemini, anthropic or openai_chat.
    """
    text = write_transcript(await load_events(sessions, session), format=format)
    return Answer({"session": session, "format": format, "text": text}, [Raw(text)])


@command(app, "sessions")
async def list_sessions(*, sessions: str | None = None) -> Answer:
    """List the sessions of a store."""
    async with opened_store(sessions) as store:
        heads = list(await store.list_sessions())
    names = ("id", "agent_id", "defaults", "metadata", "created_at")
    value = [
        {name: to_json(getattr(head.session, name)) for name in names} | {"events": head.last_seq}
        for head in heads
    ]
    if not heads:
        return Answer(value, [f"{sessions} holds no session."])
    cells = [
        (one["id"], one["agent_id"] or "", f"{one['events']:,}", (one["created_at"] or "")[:19])
        for one in value
    ]
    columns = ("session", "agent", "events", "created")
    return Answer(value, [table_of(*columns, right=("events",), rows=cells)])
