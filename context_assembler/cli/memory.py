"""`memory`: keep memories, of programs and of projects, find them, and measure how well they are found."""

import io
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer

from context_assembler import memory as memories
from context_assembler import session_start
from context_assembler.cli import command as cli
from context_assembler.cli.command import Answer, Words
from context_assembler.cli.sessions import check_exists
from context_assembler.errors import AssemblyError, ConfigurationError, UnknownMemoryError
from context_assembler.events import Json, to_json
from context_assembler.options import AssemblerConfig
from context_assembler.session_start.inject import state_folder
from context_assembler.session_start.rendered import forget_rendered

_OUTCOMES: Final = ("added", "replaced", "duplicate")
app: Final = typer.Typer(add_completion=False, help="Keep memories, find them, and measure recall.")
_SHOWN: Final = (
    "markdown token_count sources_used source_status source_notes budget_exceeded truncated_items "
    "items"
).split()


@asynccontextmanager
async def opened(url: str | None, *, creates: bool = False) -> AsyncGenerator[Any, None]:
    """Open the memory store of that URL, or of the settings; its file must exist."""
    named = url or AssemblerConfig().memory.store
    if not named:
        remedy = "Pass --memory sqlite:memory.db, or set CONTEXT_ASSEMBLER_MEMORY."
        raise ConfigurationError("No memory store is given.", remedy=remedy)
    if not creates:
        check_exists(named, f"memory import FILE --memory {named}")
    async with memories.open_memory(named) as store:
        yield store


@asynccontextmanager
async def _assembler(
    url: str | None, *, creates: bool = False, **options: Any
) -> AsyncGenerator[memories.MemoryAssembler, None]:
    """Open the store and put the embedder of the settings next to it."""
    name = AssemblerConfig().memory.embedder
    embed = memories.open_embedder(name) if name and name != "none" else None
    async with opened(url, creates=creates) as store:
        yield memories.MemoryAssembler(store, embed=embed, **options)


def _only(namespace: str | None) -> memories.MemoryFilters:
    return memories.MemoryFilters(namespaces=None if namespace is None else (namespace,))


@cli.command(app, "add")
async def add(
    text: str, *, memory: Words = None, kind: str = "memories", namespace: str = ""
) -> Answer:
    """Remember one text.

    Args:
        text: What to remember; - reads stdin.
    """
    content = cli.read_text(cli.STANDARD).rstrip("\n") if text == "-" else text
    record = memories.MemoryRecord(text=content, kind=kind, namespace=namespace)
    async with _assembler(memory, creates=True) as keeper:
        [done] = await keeper.remember(record)
    return Answer(to_json(done))


@cli.command(app, "search")
async def search(
    query: str,
    *,
    memory: Words = None,
    kind: list[str] | None = None,
    namespace: Words = None,
    event_type: list[str] | None = None,
    entity_type: list[str] | None = None,
    limit: int | None = None,
    max_tokens: int | None = None,
    explain: bool = False,
) -> Answer:
    """Print the memories that fit a query.

    Args:
        query: Any text.
        kind: Only memories of this kind: memories, code …; repeatable.
        event_type: Only events of this type; repeatable.
        entity_type: Only entities of this type; repeatable.
        limit: How many memories at most.
        max_tokens: Longest answer, in tokens.
        explain: Show why each candidate was kept or left out.
    """
    settings = AssemblerConfig().memory
    names = settings.namespaces if namespace is None else (namespace,)
    async with _assembler(memory, preset=settings.preset) as assembler:
        context = await assembler.assemble_context(
            query,
            limit=limit or settings.limit,
            max_tokens=max_tokens or settings.max_tokens,
            context_types=kind or settings.context_types or None,
            filters=memories.MemoryFilters(
                namespaces=names, event_types=event_type or (), entity_types=entity_type or ()
            ),
        )
    states, notes = set(context.source_status.values()), context.source_notes
    if states and states <= {"failed", "timed_out", "skipped"}:
        reasons, remedy = "; ".join(notes.values()), "Correct it, or name another with --memory."
        raise AssemblyError(f"No store could be searched: {reasons}", remedy=remedy)
    for name, reason in notes.items():
        cli.print_note(f"{name}: {reason}")
    value: dict[str, Json] = {name: to_json(getattr(context, name)) for name in _SHOWN}
    shown: list[Any] = [context.markdown]
    if explain:
        value["explanations"] = to_json(context.explanations)
        columns = ("score", "outcome", "memory_id", "reason")
        shown.append(cli.table_of(value["explanations"], *columns))
    return Answer(value, shown)


@cli.command(app, "stats")
async def stats(*, memory: Words = None) -> Answer:
    """Print how many memories a store has, by kind and project."""
    async with opened(memory) as store:
        return Answer(to_json(await store.stats()))


@cli.command(app, "forget")
async def forget(id: list[str], *, memory: Words = None, namespace: Words = None) -> Answer:
    """Remove memories from the store.

    Args:
        id: The memories' ids.
    """
    async with opened(memory) as store:
        gone = [*await store.forget(id, filters=_only(namespace))]
    if not gone:
        raise UnknownMemoryError(id[0])
    forget_rendered(state_folder())
    return Answer({"forgotten": gone, "unknown": [one for one in id if one not in gone]})


@cli.command(app, "import")
async def import_(
    file: Path, *, memory: Words = None, namespace: str = "", partial: bool = False
) -> Answer:
    """Remember the memories of a file or folder.

    All of them, or none. It reads JSON Lines as export writes them, mem0's get_all, claude-mem's exports, the graph of
    the MCP memory server, and Markdown, such as MEMORY.md. What cannot be read is listed.

    Args:
        file: A file or folder; - reads stdin.
        namespace: The project for memories that name none.
        partial: Read a file even if more than a tenth of it cannot be read.
    """
    source = io.BytesIO(cli.read_content(file)) if file == cli.STANDARD else file
    read = memories.load_memories(source, namespace=namespace, partial=partial)
    async with _assembler(memory, creates=True) as keeper:
        done = await keeper.remember(read.records)
    outcomes = [one.outcome for one in done]
    value: dict[str, Json] = {name: outcomes.count(name) for name in _OUTCOMES}
    rows = {"rows_read": read.rows_read, "rows_listed": len(read.unread)}
    value |= {"format": read.format, **rows, "listed": to_json(read.unread)}
    shown: list[Any] = [cli.fields_of({name: value[name] for name in ("format", *_OUTCOMES)})]
    shown += [cli.table_of(value["listed"], "place", "line", "reason")] if read.unread else []
    shown.append(f"{read.rows_read:,} rows read, {len(read.unread):,} listed.")
    return Answer(value | {"ids": [one.id for one in done]}, shown)


@cli.command(app, "export")
async def export(file: Path, *, memory: Words = None, namespace: Words = None) -> Answer:
    """Write the memories of a store to a file.

    If that fails, the file stays as it was.

    Args:
        file: Where to write JSON Lines; - is stdout.
    """
    target: Any = sys.stdout.buffer if file == cli.STANDARD else file
    async with opened(memory) as store:
        number = await memories.export_memories(store, target, filters=_only(namespace))
    if file == cli.STANDARD:
        raise typer.Exit
    return Answer({"written": number, "file": str(file)})


@cli.command(app, "fade")
async def fade(
    *, memory: Words = None, half_life_days: float | None = None, dry_run: bool = False
) -> Answer:
    """Forget memories that have lost their worth.

    A memory's worth is its importance, halved for each half-life without use.

    Args:
        half_life_days: Days without use after which the worth is halved.
        dry_run: Only list what would be forgotten.
    """
    settings = AssemblerConfig().memory
    days = half_life_days or settings.fades_half_life_days
    if days is None:
        remedy = "Pass --half-life-days 30, or set [memory] fades_half_life_days."
        raise ConfigurationError("No half-life is given.", remedy=remedy)
    async with opened(memory) as store:
        faded = await memories.find_faded(
            store, half_life_days=days, now=datetime.now(UTC), least_worth=settings.fades_below
        )
        ids, gone = [record.id for record in faded], list[str]()
        for record in () if dry_run else faded:  # an id is one of its namespace
            gone += await store.forget([record.id], filters=_only(record.namespace))
    if dry_run:
        return Answer({"forgotten": [], "would_forget": ids})
    forget_rendered(state_folder())
    return Answer({"forgotten": gone})


@cli.command(app, "eval")
async def evaluate(file: Path, *, memory: Words = None, budget: list[int] | None = None) -> Answer:
    """Measure how much of the evidence for questions is recalled.

    Args:
        file: Questions with their evidence, JSON Lines.
        budget: A token budget; repeatable.
    """
    questions = memories.read_questions(cli.read_text(file).splitlines(), name=str(file))
    budgets: dict[str, Any] = {"budgets_tokens": tuple(dict.fromkeys(budget))} if budget else {}
    async with _assembler(memory, preset=AssemblerConfig().memory.preset) as assembler:
        result = await memories.evaluate_recall(assembler, questions, **budgets)
    return Answer({**to_json(result), "missed": [question.id for question in result.missed]})


# ---- what a coding agent did in a project ----


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
    async with opened(url, creates=True) as store:
        yield store, projects
        start = session_start.SessionStart(store, settings=settings.session_start)
        made = [await start.build(project) for project in dict.fromkeys(projects)]
    for context in made:
        named = url or settings.memory.store or ""
        session_start.keep_rendered(context, state_folder(), store=named)
