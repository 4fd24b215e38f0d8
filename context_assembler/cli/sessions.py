"""`import`, `export`, `sessions`, `migrate`, `count`: stores, and transcripts of other programs."""

import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product, takewhile
from operator import eq
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import RenderableType
from rich.progress import track

from context_assembler import ContextAssembler, errors, transcripts
from context_assembler.cli import ERROR, FINE
from context_assembler.cli import command as cli
from context_assembler.cli.command import Answer, Words
from context_assembler.events import (
    Json,
    Session,
    SessionEvent,
    SessionHead,
    ToolCall,
    ToolResult,
    active_events,
    to_json,
)
from context_assembler.models import get_model_limits
from context_assembler.options import LAYERS, AssemblerConfig
from context_assembler.providers.wire import NO_RESULT
from context_assembler.sessions import open_store
from context_assembler.sessions.copying import copy_sessions
from context_assembler.sessions.files import path_of
from context_assembler.tokens import TokenCounter
from context_assembler.transcripts import ReadTranscript

app: Final = typer.Typer(add_completion=False)
stored_sessions: Final = typer.Typer(help="Sessions of a store: list, show, fork, delete.")
app.add_typer(stored_sessions, name="sessions")
_MOST_ISSUES: Final = 10
_UNITS: Final = {"h": 1, "d": 24, "w": 168}
_MOST_HOURS: Final = 876_000  # a hundred years


@asynccontextmanager
async def opened_store(url: str | None, *, creates: bool = False) -> AsyncGenerator[Any, None]:
    """Open the session store of that URL, and close it again.

    Args:
        creates: Whether the store may be a new one; else its file must exist.
    """
    if not url:
        remedy = "Pass --sessions sqlite:agent.db, or set CONTEXT_ASSEMBLER_SESSIONS."
        raise errors.ConfigurationError("No session store is given.", remedy=remedy)
    if not creates:
        check_exists(url, f"import FILE --sessions {url}")
    async with open_store(url) as store:
        yield store


def check_exists(url: str, fill: str) -> None:
    """Refuse a SQLite URL whose file does not exist: the store would be empty."""
    path = path_of(url) if url.lower().startswith("sqlite:") else None
    if path is not None and path.parent.is_dir() and not path.exists():
        near = errors.nearest(path.name, [one.name for one in path.parent.iterdir()])
        fix = f"Did you mean {near[0]!r}?" if near else f"Fill it first: context-assembler {fill}"
        raise errors.ConfigurationError(f"There is no file {path}.", remedy=fix)


async def _load(url: str | None, session_id: str) -> list[SessionEvent]:
    async with opened_store(url) as store:
        return [event async for event in store.load(session_id)]


@cli.command(app, "import")
async def import_(
    file: list[Path],
    *,
    sessions: Words = None,
    session: Words = None,
    agent: Words = None,
    format: Words = None,
    append: bool = False,
    partial: bool = False,
) -> Answer:
    """Read transcripts into a session store.

    What cannot be read is listed; the last line counts the rows. Several sessions in one file get the ids <file>-1, <file>-2 …
    If a file cannot be read, nothing is written.

    Args:
        file: The transcripts; '-' reads stdin.
        session: The new session's id; by default the file's name.
        agent: The agent of the session.
        append: Append what is new to a session that exists.
        partial: Read a file even if more than a tenth of it cannot be read.
    """
    found = [one for path in file for one in _read(path, format, partial=partial)]
    ids = [session] if session else [name for name, *_ in found]
    if len({*ids}) != len(found):
        problem = f"The files hold {len(found)} sessions, but only {len({*ids})} ids."
        remedy = "Leave out --session, or import the files one by one."
        raise errors.ConfigurationError(problem, remedy=remedy)
    async with opened_store(sessions, creates=True) as store:
        stored = [await _stored(store, name) for name in ids]
        for name, before in zip(ids, stored, strict=True):
            if before is not None and not append:
                problem = f"There is a session {name!r} already."
                remedy = "Name another one with --session, or pass --append."
                raise errors.ConfigurationError(problem, remedy=remedy)
        done: list[dict[str, Json]] = []
        for own, before, (_, name, path, read) in zip(ids, stored, found, strict=True):
            new = _later(own, before or [], read)
            if new:
                await store.append(own, new, expected_seq=len(before or ()))
            if before is None:
                about: dict[str, Json] = {"imported_from": path.name, "name": name}
                about |= {"transcript": read.metadata} if read.metadata else {}
                at = min((e.created_at for e in read.events if e.created_at), default=None)
                await store.create(Session(id=own, agent_id=agent, metadata=about, created_at=at))
            row = {"session": own, "name": name, "file": str(path), "events": len(read.events)}
            row |= {"new_events": len(new), "tools": len(read.tools)}
            row |= {"rows_read": read.rows_read, "rows_listed": read.rows_listed}
            done.append({**row, "issues": to_json(read.issues)})
    return Answer(done, _show_imported(done))


def _show_imported(done: list[dict[str, Json]]) -> Iterator[RenderableType]:
    yield cli.table_of(done, "session", "new_events", "tools", "file")
    for row in done:
        for issue in row["issues"][:_MOST_ISSUES]:
            line = f", line {issue['line']}" if issue["line"] else ""
            yield f"Not mapped: {row['file']}{line}, {issue['what']}: {issue['reason']}"[:240]
        if (more := len(row["issues"]) - _MOST_ISSUES) > 0:
            yield f"{more} more in {row['file']}; --json lists them all."
    read, listed = (sum(row[key] for row in done) for key in ("rows_read", "rows_listed"))
    yield f"{read:,} rows read, {listed:,} listed."


def _read(
    file: Path, format: str | None, *, partial: bool
) -> Iterator[tuple[str, str, Path, ReadTranscript]]:
    is_stdin = file == cli.STANDARD
    source = cli.read_content(file) if is_stdin else file
    read = transcripts.read_sessions(source, format=format, partial=partial)
    stem = "session" if is_stdin else file.stem
    for number, (name, transcript) in enumerate(read, start=1):
        if not any(event.parts for event in transcript.events):
            reason = "none of its messages has text, a call or a result"
            remedy = f"Give messages in one of these formats: {', '.join(transcripts.FORMATS)}."
            raise errors.TranscriptError(source=str(file), reason=reason, remedy=remedy)
        yield stem if len(read) == 1 else f"{stem}-{number}", name, file, transcript


async def _stored(store: Any, session_id: str) -> list[SessionEvent] | None:
    try:
        return [event async for event in store.load(session_id)]
    except errors.UnknownSessionError:
        return None


def _later(
    session_id: str, stored: Sequence[SessionEvent], read: ReadTranscript
) -> list[SessionEvent]:
    """Return what a transcript tells after that which the session has already.

    They are compared part by part; results by themselves, for an export moves them to their calls
    and makes up those that are missing.
    """
    ids, (said, _) = [event.id for event in stored], _told(read.events)
    last_seq, stored = len(stored), active_events(stored)
    had, known = 0, Counter[str]()
    for run in _runs(stored, read):
        parts, results = _told(run)
        same = sum(1 for _ in takewhile(bool, map(eq, parts, said)))
        had = max(had, same)
        known |= results
        if same and same in (len(said), len(parts)) and isinstance(run, tuple):
            break  # an export: a list is the session itself, which tells results otherwise
    new: list[SessionEvent] = []
    # An export names calls whose id was used before anew: results go to the calls of the session.
    told = [part.call_id for _, part in said[:had] if isinstance(part, ToolCall)]
    own = [call.call_id for event in stored for call in event.tool_calls]
    names = {new: old for new, old in zip(told[::-1], own[::-1], strict=False) if new not in own}
    for event in read.events:
        rest: list[Any] = []
        for part in event.parts:
            if isinstance(part, ToolResult):
                known[_key(part)] -= 1
                if known[_key(part)] < 0 and _key(part) != NO_RESULT:
                    rest.append(replace(part, call_id=names.get(part.call_id, part.call_id)))
            elif had:
                had -= 1
            else:
                rest.append(part)
        if rest or (not event.parts and not had):
            is_whole = rest == [*event.parts]
            new.append(event if is_whole else replace(event, parts=tuple(rest), id=""))
    if {*ids} & {event.id for event in new if event.id}:
        raise errors.ConfigurationError(
            f"Session {session_id!r} has some of these events, and others between or after them.",
            remedy="Import the transcript as a session of its own, with --session.",
        )
    seqs = [*(event.seq for event in stored), *range(last_seq + 1, last_seq + len(new) + 1)]
    return [_covering(event, seqs, len(read.events)) for event in new]


def _runs(stored: Sequence[SessionEvent], read: ReadTranscript) -> Iterator[Sequence[SessionEvent]]:
    """Yield what a transcript may continue: the session, its end, and what is read of its exports.

    These are exports of the whole session, and of what it had before each compaction.
    """
    yield stored
    ids, first = [event.id for event in stored], next((event.id for event in read.events), "")
    if first in ids:
        yield stored[ids.index(first) :]
    # Plain messages of Anthropic's are read as Chat.
    twins = ("anthropic",) if read.format == "openai_chat" else ()
    names = [one for one in (read.format, *twins) if stored and transcripts.FORMATS[one].write]
    compactions = [n for n, event in enumerate(stored) if event.type == "compaction" and n]
    for name, end in product(names, [len(stored), *reversed(compactions)]):
        text = transcripts.write_transcript(stored[:end], format=name)
        with suppress(errors.TranscriptError):  # nothing that this format can hold
            yield transcripts.read_transcript(text, format=read.format, partial=True).events


def _told(events: Sequence[SessionEvent]) -> tuple[list[tuple[str, Any]], Counter[str]]:
    """Return what was said, part by part, and how often each result was given."""
    parts: list[tuple[str, Any]] = [(event.type, part) for event in events for part in event.parts]
    said = [one for one in parts if not isinstance(one[1], ToolResult)]
    return said, Counter(_key(part) for _, part in parts if isinstance(part, ToolResult))


def _key(result: ToolResult) -> str:
    return NO_RESULT if result.text.endswith(NO_RESULT) else str(to_json(result))


def _covering(event: SessionEvent, seqs: Sequence[int], count: int) -> SessionEvent:
    """Return the event with what it covers by the numbers that `count` events have here: the last."""
    if (covers := event.covers) is None:
        return event
    first, last = (seqs[max(seq - 1 - count, -len(seqs))] for seq in covers[:2])
    return replace(event, covers=covers._replace(first_seq=first, last_seq=last))


@cli.command(app, "export")
async def export(session: str, *, sessions: Words = None, format: str = "openai_chat") -> Answer:
    """Write a session as a transcript to stdout.

    With --json, the transcript is the field 'text' of an object.

    Args:
        session: The session's id.
    """
    text = transcripts.write_transcript(await _load(sessions, session), format=format)
    return Answer({"session": session, "format": format, "text": text}, [cli.Raw(text)])


def _about(head: SessionHead) -> dict[str, Any]:
    names = ("id", "agent_id", "defaults", "metadata", "created_at")
    return {name: to_json(getattr(head.session, name)) for name in names} | {
        "events": head.last_seq
    }


@cli.command(stored_sessions, "list")
async def list_sessions(*, sessions: Words = None) -> Answer:
    """List the sessions of a store."""
    async with opened_store(sessions) as store:
        value = [_about(head) for head in await store.list_sessions()]
    rows = ({**row, "created": str(row["created_at"] or "")[:10]} for row in value)
    return Answer(value, [cli.table_of(rows, "id", "agent_id", "events", "created")])


@cli.command(stored_sessions, "show")
async def show(session: str, *, last: int = 10, sessions: Words = None) -> Answer:
    """Show what a store holds of a session, and its newest events.

    Args:
        last: How many events to show.
    """
    async with opened_store(sessions) as store:
        head = await store.head(session)
        newest = [one async for one in store.load(session, after_seq=max(0, head.last_seq - last))]
    rows = [{**to_json(one), "text": cli.one_line(one.text, max_chars=200)} for one in newest]
    shown: list[Any] = [cli.fields_of(_about(head)), "", cli.table_of(rows, "seq", "type", "text")]
    return Answer({**_about(head), "newest": to_json(newest)}, shown)


@cli.command(stored_sessions, "rewind")
async def rewind(session: str, to: str, *, sessions: Words = None) -> Answer:
    """Take a session back to an earlier event; what followed is kept.

    Args:
        session: The session's id.
        to: The event that the session goes on from: its number or its id; 0 begins again.
    """
    async with opened_store(sessions) as store:
        stored = await ContextAssembler(store).rewind(session, _point(to))
    return Answer(to_json(stored), [f"{session} goes on from event {stored.answers_seq}."])


@cli.command(stored_sessions, "fork")
async def fork(
    session: str, new_id: str = "", *, at: Words = None, sessions: Words = None
) -> Answer:
    """Begin a session with the events of another one.

    Args:
        session: The session's id.
        new_id: Of the new session; by default made up.
        at: The last event that both have: its number or its id; by default the newest.
    """
    async with opened_store(sessions) as store:
        point = None if at is None else _point(at)
        made = await ContextAssembler(store).fork(session, new_id, at=point)
        head = await store.head(made.id)
    return Answer(_about(head), [f"{made.id} has {head.last_seq} events of {session}."])


def _point(given: str) -> int | str:
    return int(given) if given.isdecimal() else given


@cli.command(stored_sessions, "delete")
async def delete(session: list[str], *, sessions: Words = None) -> Answer:
    """Delete sessions with all their events."""
    async with opened_store(sessions) as store:
        heads = [await store.head(name) for name in dict.fromkeys(session)]  # all, or none
        for head in heads:
            await store.delete(head.session.id)
    return Answer([_about(head) for head in heads], [f"{len(heads)} deleted."])


@cli.command(stored_sessions, "prune")
async def prune(*, older_than: str, delete: bool = False, sessions: Words = None) -> Answer:
    """List sessions without new events for some time, or delete them.

    If its newest event has no time, a session counts from its creation.

    Args:
        older_than: Since when, such as 30d, 12h or 4w.
        delete: Delete them, with all their events.
    """
    number, unit = older_than[:-1], _UNITS.get(older_than[-1:])
    if unit is None or not (number.isdecimal() and int(number) * unit <= _MOST_HOURS):
        rule, remedy = "must be a number of hours, days or weeks", "Pass --older-than 30d."
        raise errors.InvalidParameterError("--older-than", older_than, rule=rule, remedy=remedy)
    limit = datetime.now(tz=UTC) - timedelta(hours=int(number) * unit)
    async with opened_store(sessions) as store:
        old = await store.prune(limit, deletes=delete)
    value = [_about(head) for head in old]
    done = "deleted" if delete else "would be deleted: pass --delete"
    return Answer(value, [cli.table_of(value, "id", "events"), f"{len(old)} {done}."])


@cli.command(app, "migrate")
async def migrate(source: str, target: str, *, dry_run: bool = False) -> Answer:
    """Copy all sessions of a store into another one.

    Run it again after it was interrupted, or after sessions went on: it copies what is lacking.
    A session that is another one in the target is left as it is, and the exit code is 2.

    Args:
        source: The URL of the store to copy, such as sqlite:agent.db.
        target: The URL of the other one, such as postgresql://agent@db.example.com/agents.
        dry_run: Only list what would be copied.
    """
    async with opened_store(source) as one, opened_store(target, creates=True) as other:
        heads = await one.list_sessions()
        copying = copy_sessions(one, other, heads, is_dry=dry_run)
        bar = track(copying, "Sessions", len(heads), console=cli.console(sys.stderr))
        found = [copied._asdict() for copied in bar]
    differing = [row for row in found if row["outcome"] == "differs"]
    done = "would be copied" if dry_run else "copied"
    events, count = sum(row["events"] for row in found), sum(row["events"] > 0 for row in found)
    shown: list[Any] = [cli.table_of(differing, "id", "outcome")] if differing else []
    shown.append(f"{events:,} events of {count:,} sessions {done}, {len(differing)} differ.")
    return Answer(found, shown, ERROR if differing else FINE)


@cli.command(app, "count")
def count(file: Path, *, model: Words = None) -> Answer:
    """Count the tokens of a text or a conversation.

    A transcript is counted as the conversation it holds, tools included.

    Args:
        file: A text or a transcript; '-' reads stdin.
        model: The model whose tokens are counted; by default that of the settings.
    """
    name = model or AssemblerConfig().defaults.model
    if name is None:
        raise errors.MissingModelError(layers=LAYERS)
    counter, content, messages = TokenCounter(name), cli.read_text(file), None
    rows = Counter[str]()
    try:
        read = transcripts.read_transcript(content)
    except errors.TranscriptError:  # it is a text
        rows["text"] = counter.count_text(content)
    else:
        messages = len(read.events)
        for event in read.events:
            rows[event.type] += counter.count_message(event)
        if tools := read.tools:
            rows["tools"] = sum(map(counter.count_tool, tools))
            rows["tools"] += counter.count_tools_overhead(tools)
        rows["request"] = counter.request_tokens
    listed = [{"name": part, "tokens": tokens} for part, tokens in rows.items()]
    value: dict[str, Json] = {"tokens": rows.total(), "model": name, "counter": counter.name}
    value |= {"is_exact": counter.is_exact, "messages": messages, "rows": listed}
    value["window_tokens"] = get_model_limits(name).window_tokens
    how = "counted exactly" if counter.is_exact else "estimated"
    sentence = f"{value['tokens']:,} tokens, {how} with {counter.name}."
    return Answer(value, [sentence, cli.table_of(listed, "name", "tokens")])
