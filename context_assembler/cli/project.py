"""`memory observe`, `index-code` and `learn`: what fills the memory of a project."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from context_assembler import session_start
from context_assembler.cli import command as cli
from context_assembler.cli import memory
from context_assembler.cli.command import Answer, Words
from context_assembler.events import Json
from context_assembler.options import AssemblerConfig
from context_assembler.session_start.inject import state_folder

app: Final = memory.app
_T = TypeVar("_T")


@cli.command(app, "observe")
async def observe(
    files: list[Path] | None = None, *, memory: Words = None, project: Path | None = None
) -> Answer:
    """Remember what sessions of a coding agent did; running it twice adds nothing.

    Without files it reads the JSON of a hook from stdin (PostToolUse, Stop, SessionEnd).

    Args:
        files: Session files of Claude Code.
        project: A folder of the project; by default the one that the sessions name.
    """
    folder = str(project) if project else None
    told: list[Any] = [*(files or ())]
    if not told:
        remedy = "Pass session files, or let a client's hook write to stdin."
        told = [cli.parse_json(cli.read_text(cli.STANDARD), "stdin", remedy)]

    async def keep(store: Any) -> list[session_start.Observed]:
        return [await session_start.observe(store, one, project_path=folder) for one in told]

    done = await _kept(memory, keep, lambda seen: [one.project for one in seen])
    rows: list[Json] = [one._asdict() for one in done]
    return Answer(rows, [cli.table_of(rows, "project", "session_id", "records")])


@cli.command(app, "index-code")
async def index_code(folder: Path = Path(), *, memory: Words = None) -> Answer:
    """Remember the functions that were changed since the last run; running it twice adds nothing.

    Args:
        folder: A folder of a git repository.
    """

    async def keep(store: Any) -> session_start.Indexed:
        return await session_start.index_code(store, str(folder))

    done = await _kept(memory, keep, lambda indexed: [indexed.project])
    unread = [f"{path}: {reason}" for path, reason in done.unread.items()]
    said = f"{done.commits} commits, {done.functions} new functions of {done.project}."
    return Answer(done._asdict(), [said, *(f"Not read: {one}" for one in unread)])


@cli.command(app, "learn")
async def learn(
    text: str, *, memory: Words = None, project: Path | None = None, confidence: float = 0.8
) -> Answer:
    """Remember a learning of this project; the same text again changes how sure it is.

    Args:
        text: What to remember, in one sentence.
        project: A folder of the project; by default this one.
        confidence: How sure it is, from 0 to 1.
    """
    folder = str((project or Path()).resolve())

    async def keep(store: Any) -> str:
        return await session_start.learn(store, text, project_path=folder, confidence=confidence)

    name = await _kept(memory, keep, lambda _: [folder])
    return Answer({"id": name}, [f"Kept as {name}."])


async def _kept(
    url: str | None,
    keep: Callable[[Any], Awaitable[_T]],
    projects_of: Callable[[_T], list[str]],
) -> _T:
    """Change the store, then render what the hook reads of the projects that changed."""
    settings, made = AssemblerConfig().session_start, list[session_start.StartContext]()
    async with memory.opened(url, creates=True) as store:
        done = await keep(store)
        for project in dict.fromkeys(projects_of(done)):
            made.append(await session_start.SessionStart(store, settings=settings).build(project))
    named = url or AssemblerConfig().memory.store or ""
    for context in made:
        session_start.keep_rendered(context, state_folder(), store=named)
    return done
