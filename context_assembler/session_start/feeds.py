"""What a coding agent did, kept as memory: from its transcripts, and from what its hooks report."""

import os
import re
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_assembler.errors import TranscriptError
from context_assembler.events import Json, JsonObject, SessionEvent, ToolCall, ToolResult, is_object
from context_assembler.memory.kinds import LearningMetadata, ObservationMetadata, SessionMetadata
from context_assembler.memory.records import MemoryRecord, masked, normal_text
from context_assembler.memory.stores import MemoryStore
from context_assembler.session_start.inject import find_project
from context_assembler.transcripts import ReadTranscript, read_transcript

HOOKS: Final = ("PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd")
_PATHS: Final = ("file_path", "notebook_path", "path")
_WRITES: Final = ("content", "new_string", "new_str", "edits", "new_source", "file_text")
_MOST_FAILURES: Final = 20  # of one session, the last ones
_REFUSED: Final = "The user doesn't want to proceed with this tool use."  # of Claude Code
_TITLE_CHARS: Final = 80
_TEXT_CHARS: Final = 300


class Observed(NamedTuple):
    """What was remembered of one session: the project, and how many records are new or changed."""

    project: str
    session_id: str
    records: int


async def observe(
    store: MemoryStore, given: JsonObject | Path, *, project_path: str | None = None
) -> Observed:
    """Remember what a session did; observing it again replaces what was known of it.

    Args:
        given: A transcript's file, or what a hook of the client was handed: `PostToolUse` is one
            observation, `Stop` reads the transcript so far, `SessionEnd` all of it.
        project_path: Instead of the folder that the transcript or the hook names.

    Raises:
        TranscriptError: The file is not a transcript, or the object of no hook that is known.
    """
    if isinstance(given, Path):
        read = read_transcript(given, partial=True)
        return await _observe_transcript(store, read, given.stem, project_path, is_ended=True)
    return await _observe_hook(store, given if is_object(given) else {}, project_path)


async def learn(
    store: MemoryStore, text: str, *, project_path: str, confidence: float = 0.8, domain: str = ""
) -> str:
    """Remember a learning of a project; learning it again changes how sure it is. Returns its id."""
    record = MemoryRecord(
        text=text,
        kind="learnings",
        id=f"learning:{_hash(normal_text(text))}",
        namespace=find_project(project_path),
        importance=confidence,
        metadata=LearningMetadata(confidence=confidence, domain=domain or None),
    )
    [done] = await store.remember([record])
    return done.id


async def _observe_hook(store: MemoryStore, told: JsonObject, project_path: str | None) -> Observed:
    event, session = told.get("hook_event_name"), str(told.get("session_id") or "")
    if event not in HOOKS or not session:
        raise TranscriptError(
            source="The report of a hook",
            reason=f"its event is {event!r}, or it names no session",
            remedy=f"Pass the JSON of {', '.join(HOOKS)}, or a transcript's file.",
        )
    if str(event).startswith("PostToolUse"):  # the client's `cwd` follows its shell
        here = os.environ.get("CLAUDE_PROJECT_DIR") or told.get("cwd") or os.getcwd()
        project = find_project(project_path or str(here))
        arguments = told.get("tool_input")
        said = _text_of(told.get("tool_response", told.get("error", "")))
        call = ToolCall(
            call_id=str(told.get("tool_use_id") or said),
            name=str(told.get("tool_name") or "tool"),
            arguments=arguments if is_object(arguments) else {},
        )
        error = said if event == "PostToolUseFailure" else None
        found = _observation(call, error, session, (str(here), project))
        return Observed(project, session, await _keep(store, [found] if found else []))
    path = Path(str(told.get("transcript_path") or ""))
    read = read_transcript(path, format="claude_code", partial=True)
    is_ended = event == "SessionEnd"
    return await _observe_transcript(store, read, session, project_path, is_ended=is_ended)


async def _observe_transcript(
    store: MemoryStore,
    read: ReadTranscript,
    name: str,
    project_path: str | None,
    *,
    is_ended: bool,
) -> Observed:
    about: Mapping[str, Any] = read.metadata or {}
    session = str(about.get("session_id") or name)
    project = find_project(project_path or str(about.get("cwd") or os.getcwd()))
    records = records_of(read, project, session, is_ended=is_ended)
    return Observed(project, session, await _keep(store, records))


async def _keep(store: MemoryStore, records: list[MemoryRecord]) -> int:
    done = await store.remember(records)
    return sum(one.outcome != "duplicate" for one in done)


def records_of(
    read: ReadTranscript, project: str, session: str, *, is_ended: bool
) -> list[MemoryRecord]:
    """Return the session as one record, and an observation for each file edited and call failed."""
    found: dict[str, MemoryRecord] = {}
    calls: dict[str, ToolCall] = {}
    asked, answer, failures, paths = "", "", list[str](), dict[str, None]()
    first = last = None
    folders = (str((read.metadata or {}).get("cwd") or project), project)
    for event in read.events:
        first, last = first or event.created_at, event.created_at or last
        if event.type == "user" and _is_request(event):
            asked = asked or event.text
        answer = event.text if event.type == "assistant" and event.text.strip() else answer
        for part in event.parts:
            if isinstance(part, ToolCall):
                calls[part.call_id] = part
            if not isinstance(part, ToolResult) or part.call_id not in calls:
                continue
            call, error = calls[part.call_id], part.text if part.is_error else None
            record = _observation(call, error, session, folders, event.created_at)
            if record is None:
                continue
            found.pop(record.id, None)
            found[record.id] = record
            if error is not None:
                failures.append(record.id)
            elif isinstance(record.metadata, ObservationMetadata):
                paths |= dict.fromkeys(record.metadata.paths)
    for name in failures[:-_MOST_FAILURES]:
        found.pop(name, None)
    if not asked or (read.metadata or {}).get("agent_id"):  # a sub-agent works in another session
        return list(found.values())
    asked = re.sub(r":\s*\n[\s#]*", ": ", asked, count=1)  # "Implement this plan:" …
    title = str((read.metadata or {}).get("title") or "") or _first_line(asked, _TITLE_CHARS)
    summary = MemoryRecord(
        text=_first_line(answer or asked, _TEXT_CHARS),
        kind="sessions",
        id=f"session:{session}",
        namespace=project,
        session_id=session,
        created_at=last,
        metadata=SessionMetadata(
            title=title, started_at=first, ended_at=last if is_ended else None, paths=tuple(paths)
        ),
    )
    return [summary, *found.values()]


def _is_request(event: SessionEvent) -> bool:
    """Whether the user said it, and not the client in the user's place."""
    return event.origin == "user" and not event.text.lstrip().startswith(("<", "Caveat:"))


def _observation(
    call: ToolCall,
    error: str | None,
    session: str,
    folders: tuple[str, str],
    at: datetime | None = None,
) -> MemoryRecord | None:
    """Return what is kept of a call: of an edit, or of one that failed; `None`: nothing.

    Args:
        folders: Where the session ran, and the project: a path is told as seen from there.
    """
    arguments = call.arguments
    path = next((one for name in _PATHS if isinstance(one := arguments.get(name), str)), "")
    inside = (one for one in folders if path.startswith(one.rstrip(os.sep) + os.sep))
    shown = next((os.path.relpath(path, folder) for folder in inside), path)
    if error is not None:
        what = masked(str(arguments.get("command") or shown or arguments.get("pattern") or ""))
        name, kind, text = f"failed:{call.call_id}", "failure", _failure(call, what, masked(error))
    elif path and any(name in arguments for name in _WRITES) and not os.path.isabs(shown):
        name, kind, text = f"edited:{path}", "edit", f"Edited {os.path.basename(path)}"
    else:
        return None
    if not text:
        return None
    return MemoryRecord(
        text=text,
        kind="observations",
        id=f"{session}:{_hash(name)}",
        namespace=folders[1],
        session_id=session,
        parent_id=f"session:{session}",
        created_at=at,
        metadata=ObservationMetadata(observation_type=kind, paths=(shown,) if shown else ()),
    )


def _failure(call: ToolCall, what: str, error: str) -> str:
    """Return what a failed call tells: an empty text if a user refused it and said nothing."""
    done, tag = "failed", "tool_use_error>"  # Claude Code's, around errors of its own tools
    if error.startswith(_REFUSED):
        done, error = "refused", error.partition("the user said:")[2]
    lines = error.replace(f"</{tag}", "").replace(f"<{tag}", "").strip().splitlines()
    if not lines and done == "refused":
        return ""
    reason = lines[-1 if "command" in call.arguments else 0] if lines else ""
    about = [f"{call.name} {done}", _first_line(what, _TITLE_CHARS), reason]
    return ": ".join(filter(None, about))[:_TEXT_CHARS]


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _first_line(text: str, most: int) -> str:
    """Return the first line that says something; what is a secret is masked before it is cut."""
    lines = masked(text).splitlines()
    line = next((line.strip(" #*:") for line in lines if line.strip(" #*:")), "")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _text_of(value: Json) -> str:
    if is_object(value):
        value = value.get("stderr") or value.get("error")
    return str(value or "")
