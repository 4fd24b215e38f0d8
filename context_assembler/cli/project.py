"""`memory observe`, `index-code` and `learn`: what fills the memory of a project."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from context_assembler import session_start
from context_assembler.cli import command as cli
from context_assembler.cli import memory
from context_assembler.cli.command import Answer, Words
from context_assembler.errors import AssemblyError
from context_assembler.events import Json
from context_assembler.options import AssemblerConfig
from context_assembler.session_start.inject import state_folder

app: Final = memory.app


@cli.command(app, "observe")
async def observe(
    files: list[Path] | None = None, *, memory: Words = None, project: Path | None = None
) -> Answer:
    """Remember what sessions of a coding agent did.

    Running it twice adds nothing. Without files it reads the JSON of a hook from stdin (PostToolUse, Stop, SessionEnd). It then
    writes errors to stderr and ends with exit code 0, because a failing hook must not stop its client.

    Args:
        files: Session files of Claude Code.
        project: A folder of the project; by default the one that the sessions name.
    """
    folder, done = str(project) if project else None, list[session_start.Observed]()
    try:
        async with _changing(memory) as (store, projects):
            remedy = "Pass session files, or let a client's hook write to stdin."
            told: list[Any] = [*(files or ())]
            if not told:
                told = [cli.parse_json(cli.read_text(cli.STANDARD), "stdin", remedy)]
            done += [await session_start.observe(store, one, project_path=folder) for one in told]
            projects += [one.project for one in done]
    except (AssemblyError, OSError) as error:
        if files:
            raise
        cli.print_note(str(error))
    rows: list[Json] = [one._asdict() for one in done]
    return Answer(rows, [cli.table_of(rows, "project", "session_id", "records")])


@cli.command(app, "index-code")
async def index_code(folder: Path = Path(), *, memory: Words = None) -> Answer:
    """Remember the functions that were changed since the last run.

    Running it twice adds nothing.

    Args:
        folder: A folder of a git repository.
    """
    async with _changing(memory) as (store, projects):
        done = await session_start.index_code(store, str(folder))
        projects.append(done.project)
    unread = [f"{path}: {reason}" for path, reason in done.unread.items()]
    said = f"{done.commits} commits, {done.functions} new functions of {done.project}."
    return Answer(done._asdict(), [said, *(f"Not read: {one}" for one in unread)])


@cli.command(app, "learn")
async def learn(
    text: str, *, memory: Words = None, project: Path | None = None, confidence: float = 0.8
) -> Answer:
    """Remember a learning of this project.

    The same text again changes how sure it is.

    Args:
        text: What to remember, in one sentence.
        project: A folder of the project; by default this one.
        confidence: How sure it is, from 0 to 1.
    """
    folder = str((project or Path()).resolve())
    given: Any = {"project_path": folder, "confidence": confidence}
    async with _changing(memory) as (store, projects):
        name = await session_start.learn(store, text, **given)
        projects.append(folder)
    return Answer({"id": name}, [f"Kept as {name}."])


@asynccontextmanager
async def _changing(url: str | None) -> AsyncGenerator[tuple[Any, list[str]], None]:
    """Lend the store, and a list for the projects that are changed; the hook reads those anew."""
    settings, projects = AssemblerConfig(), list[str]()
    async with memory.opened(url, creates=True) as store:
        yield store, projects
        start = session_start.SessionStart(store, settings=settings.session_start)
        made = [await start.build(project) for project in dict.fromkeys(projects)]
    for context in made:
        named = url or settings.memory.store or ""
        session_start.keep_rendered(context, state_folder(), store=named)
