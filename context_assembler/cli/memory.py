"""`memory`: keep memories, find them, and measure how well they are found."""

import io
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import RenderableType

from context_assembler import memory as memories
from context_assembler.cli import DefaultGroup
from context_assembler.cli.command import (
    STANDARD,
    Answer,
    command,
    counted,
    fields_of,
    heading,
    one_line,
    print_note,
    read_content,
    read_text,
    table_of,
)
from context_assembler.cli.sessions import check_exists
from context_assembler.errors import AssemblyError, ConfigurationError, UnknownMemoryError
from context_assembler.events import Json, to_json
from context_assembler.options import AssemblerConfig

app: Final = typer.Typer(add_completion=False, cls=DefaultGroup.of("stats"))
_OUTCOMES: Final = ("added", "replaced", "duplicate")
_SHOWN: Final = ("markdown", "token_count", "sources_used", "source_status", "source_notes")


@asynccontextmanager
async def _opened(url: str | None, *, creates: bool = False) -> AsyncGenerator[Any, None]:
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
    url: str | None, embedder: str | None, *, creates: bool = False, **options: Any
) -> AsyncGenerator[memories.MemoryAssembler, None]:
    """Open the store and the embedder, by default those of the settings, and put them together."""
    name = AssemblerConfig().memory.embedder if embedder is None else embedder
    embed = memories.open_embedder(name) if name and name != "none" else None
    async with _opened(url, creates=creates) as store:
        try:
            yield memories.MemoryAssembler(store, embed=embed, **options)
        finally:
            if embed is not None:
                await embed.close()


def _filters(kinds: list[str] | None, namespace: str | None) -> memories.MemoryFilters:
    namespaces = () if namespace is None else (namespace,)
    return memories.MemoryFilters(kinds=tuple(kinds or ()), namespaces=namespaces)


def _count(number: int) -> str:
    return counted(number, "memory", "memories")


@command(app, "add")
async def add(
    text: str,
    *,
    memory: str | None = None,
    kind: str = "memories",
    namespace: str = "",
    author: str | None = None,
    session: str | None = None,
    importance: float = 0.5,
    merge_alike: float | None = None,
    embedder: str | None = None,
) -> Answer:
    """Remember one text.

    Args:
        text: What to remember; - reads stdin.
        kind: What it is.
        author: Who wrote it.
        session: Where it comes from.
        importance: From 0 to 1.
        merge_alike: The likeness, such as 0.9, from which it counts as a duplicate.
    """
    record = memories.MemoryRecord(
        text=read_text(STANDARD).rstrip("\n") if text == "-" else text,
        kind=kind,
        namespace=namespace,
        author=author,
        session_id=session,
        importance=importance,
    )
    alike = AssemblerConfig().memory.merges_alike if merge_alike is None else merge_alike
    async with _assembler(memory, embedder, creates=True, merges_alike=alike) as keeper:
        [done] = await keeper.remember(record)
    for notice in done.notices:
        print_note(notice)
    return Answer(to_json(done._asdict()), [f"{done.id} ({done.outcome})"])


@command(app, "search")
async def search(
    query: str,
    *,
    memory: str | None = None,
    kind: list[str] | None = None,
    namespace: str | None = None,
    limit: int | None = None,
    max_tokens: int | None = None,
    preset: str | None = None,
    embedder: str | None = None,
    explain: bool = False,
) -> Answer:
    """Print what fits a query, as a model would see it; the settings fill what is not given.

    Args:
        query: Any text.
        kind: memories, code …; repeatable.
        limit: The most memories.
        max_tokens: The most that the answer takes.
        preset: The kind of agent.
        explain: Why every candidate is in or not.
    """
    settings = AssemblerConfig().memory
    names = settings.namespaces if namespace is None else (namespace,)
    async with _assembler(memory, embedder, preset=preset or settings.preset) as assembler:
        context = await assembler.assemble_context(
            query,
            limit=limit or settings.limit,
            max_tokens=max_tokens or settings.max_tokens,
            context_types=kind or settings.context_types or None,
            filters=memories.MemoryFilters(namespaces=names),
        )
    states, notes = set(context.source_status.values()), context.source_notes
    if states and states <= {"failed", "timed_out", "skipped"}:
        reasons = "; ".join(dict.fromkeys(reason.rstrip(".") for reason in notes.values()))
        remedy = "Correct the store, or name another one with --memory."
        raise AssemblyError(f"Nothing could be searched: {reasons}.", remedy=remedy)
    for name, reason in notes.items():
        print_note(f"{name}: {reason}")
    value = {name: to_json(getattr(context, name)) for name in _SHOWN}
    value |= {
        name: to_json(getattr(context, name)) for name in ("budget_exceeded", "truncated_items")
    }
    value["items"] = [
        {
            "record": memories.encode_memory(item.record),
            "source": item.source,
            "found_in": [*item.found_in],
            "score": item.score,
            "tokens": item.tokens,
            "is_truncated": item.is_truncated,
        }
        for item in context.items
    ]
    if explain:
        value["explanations"] = [to_json(row._asdict()) for row in context.explanations]
    return Answer(value, _show_search(context, explain=explain))


def _show_search(context: memories.FormattedContext, *, explain: bool) -> Iterator[str]:
    if context.markdown:
        yield context.markdown
    elif context.budget_exceeded:
        print_note("What was found does not fit: give more room with --max-tokens.")
    else:
        print_note("Nothing relevant was found.")
    for row in context.explanations if explain else ():
        yield f"{row.score:.3f}  {row.outcome.replace('_', ' ')}  {row.memory_id}"
        yield f"       {row.source}: {one_line(row.reason, max_chars=300)}"


@command(app, "show")
async def show(id: str, *, memory: str | None = None) -> Answer:
    """Print one memory with all that is known of it.

    Args:
        id: The memory's id.
    """
    async with _opened(memory) as store:
        encoded = memories.encode_memory(await store.get(id))
    return Answer(encoded, [fields_of({k: v for k, v in encoded.items() if k != "vector"})])


@command(app, "stats")
async def stats(*, memory: str | None = None) -> Answer:
    """Print how many memories a store has, by kind and project."""
    async with _opened(memory) as store:
        found = to_json((await store.stats())._asdict())
    return Answer(found, [fields_of({k: v for k, v in found.items() if v is not None})])


@command(app, "forget")
async def forget(id: list[str], *, memory: str | None = None) -> Answer:
    """Remove memories from the store.

    Args:
        id: The memories' ids.
    """
    async with _opened(memory) as store:
        gone = await store.forget(id)
    unknown = [one for one in dict.fromkeys(id) if one not in gone]
    if not gone:
        raise UnknownMemoryError(unknown[0])
    for one in unknown:
        print_note(f"There is no memory {one!r}.")
    return Answer({"forgotten": [*gone], "unknown": unknown}, [f"{_count(len(gone))} forgotten."])


@command(app, "import")
async def import_(file: Path, *, memory: str | None = None, embedder: str | None = None) -> Answer:
    """Remember every memory of a file, or none.

    Args:
        file: JSON Lines, as export writes; - reads stdin.
    """
    source = io.BytesIO(read_content(file)) if file == STANDARD else file
    async with _assembler(memory, embedder, creates=True) as keeper:
        done = await memories.import_memories(keeper, source)
    numbers = {name: sum(one.outcome == name for one in done) for name in _OUTCOMES}
    text = ", ".join(f"{count:,} {name}" for name, count in numbers.items())
    shown = [f"{_count(len(done))} read from {file}: {text}."]
    return Answer({**numbers, "ids": [one.id for one in done]}, shown)


@command(app, "export")
async def export(
    file: Path,
    *,
    memory: str | None = None,
    kind: list[str] | None = None,
    namespace: str | None = None,
) -> Answer:
    """Write the memories of a store to a file, or leave the file as it was.

    Args:
        file: Where to write JSON Lines; - is stdout.
        kind: memories, code …; repeatable.
    """
    target: Any = sys.stdout.buffer if file == STANDARD else file
    async with _opened(memory) as store:
        number = await memories.export_memories(store, target, filters=_filters(kind, namespace))
    if file == STANDARD:
        print_note(f"{_count(number)} written.")
        raise typer.Exit
    return Answer({"written": number, "file": str(file)}, [f"{_count(number)} written to {file}."])


@command(app, "fade")
async def fade(
    *,
    memory: str | None = None,
    kind: list[str] | None = None,
    namespace: str | None = None,
    half_life_days: float | None = None,
    below: float | None = None,
    dry_run: bool = False,
) -> Answer:
    """Forget what is worth too little: its importance, halved for each half-life unused.

    Args:
        kind: memories, code …; repeatable.
        half_life_days: Time unused that halves the worth.
        below: What is worth less is forgotten.
        dry_run: Forget nothing.
    """
    settings = AssemblerConfig().memory
    days = settings.fades_half_life_days if half_life_days is None else half_life_days
    if days is None:
        remedy = "Pass --half-life-days 30, or set [memory] fades_half_life_days."
        raise ConfigurationError("No half-life is given.", remedy=remedy)
    async with _opened(memory) as store:
        faded = await memories.find_faded(
            store,
            half_life_days=days,
            now=datetime.now(UTC),
            least_worth=settings.fades_below if below is None else below,
            filters=_filters(kind, namespace),
        )
        ids = [record.id for record in faded]
        gone = await store.forget(ids) if ids and not dry_run else []
    value: dict[str, Json] = {"forgotten": [*gone]} | ({"would_forget": ids} if dry_run else {})
    shown = [f"{_count(len(ids if dry_run else gone))} {'would be ' if dry_run else ''}forgotten."]
    shown += [f"  {one.id[:40]}: {one_line(one.text)[:60]}" for one in faded if dry_run]
    return Answer(value, shown)


@command(app, "eval")
async def evaluate(
    file: Path,
    *,
    memory: str | None = None,
    kind: list[str] | None = None,
    budget: list[int] | None = None,
    preset: str = "general",
    embedder: str = "none",
    category: list[str] | None = None,
) -> Answer:
    """Measure how much of the evidence that questions need is recalled within a budget.

    Args:
        file: Questions with their evidence, JSON Lines.
        kind: memories, code …; repeatable.
        budget: In tokens; repeatable.
        preset: The kind of agent.
        category: Of the questions; repeatable.
    """
    questions = memories.read_questions(read_text(file).splitlines(), name=str(file))
    questions = [one for one in questions if not category or one.category in category]
    if not questions:
        raise ConfigurationError(f"{file} has no such question.", remedy="Name another file.")
    budgets: dict[str, Any] = {"budgets_tokens": tuple(dict.fromkeys(budget))} if budget else {}
    async with _assembler(memory, embedder, preset=preset) as assembler:
        result = await memories.evaluate_recall(
            assembler, questions, context_types=kind or None, **budgets
        )
    value = {
        "overall": _grade(result.overall),
        "by_category": {name: _grade(one) for name, one in result.by_category.items()},
        "missed": [question.id for question in result.missed],
    }
    return Answer(value, _show_evaluation(result))


def _grade(grade: memories.Grade) -> dict[str, Json]:
    return {
        "questions": grade.questions,
        "whole_evidence": to_json(grade.whole),
        "evidence_recalled": to_json(grade.recalled),
        "recall_at": to_json(grade.recall_at),
        "mrr": grade.mrr,
    }


def _show_evaluation(result: memories.Evaluation) -> Iterator[RenderableType]:
    right = [f"whole @{tokens:,}" for tokens in result.overall.whole]
    right = ["n", *right, *(f"r@{depth}" for depth in result.overall.recall_at), "MRR"]
    cells = [
        [name, f"{grade.questions:,}"]
        + [f"{share:.1%}" for share in (*grade.whole.values(), *grade.recall_at.values())]
        + [f"{grade.mrr:.3f}"]
        for name, grade in {**result.by_category, "all": result.overall}.items()
    ]
    yield table_of("questions", *right, right=right, rows=cells)
    if result.missed:
        yield heading(f"Not wholly recalled: {counted(len(result.missed), 'question')}")
    for question in result.missed[:10]:
        yield f"  {one_line(question.question, max_chars=90)}"
