"""`memory`: keep memories, find them, and measure how well they are found."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from context_assembler import memory as memories
from context_assembler.cli.screen import (
    JsonFlag,
    counted,
    heading,
    one_line,
    people,
    print_json,
    print_note,
    printable,
    read_content,
    read_text,
    readable,
    table_of,
)
from context_assembler.cli.sessions import check_exists
from context_assembler.errors import AssemblyError, ConfigurationError, UnknownMemoryError
from context_assembler.events import Json, to_json
from context_assembler.options import AssemblerConfig, MemorySettings

app: Final = typer.Typer(add_completion=False)
T = TypeVar("T")
_STANDARD: Final = Path("-")


def _option(name: str, metavar: str, help: str) -> Any:
    return typer.Option(name, metavar=metavar, help=help)


Url = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="URL",
        envvar="CONTEXT_ASSEMBLER_MEMORY",
        help="The memory store, such as sqlite:memory.db; by default that of the settings.",
    ),
]
Namespace = Annotated[str | None, _option("--namespace", "NAME", "The project it belongs to.")]
Kinds = Annotated[list[str] | None, _option("--kind", "KIND", "memories, code …; repeatable.")]
Embedder = Annotated[
    str | None, _option("--embedder", "NAME", "none, bundled, minilm, openai:MODEL.")
]
Preset = Annotated[str | None, _option("--preset", "NAME", "The kind of agent.")]


def _settings() -> MemorySettings:
    return AssemblerConfig().memory


@asynccontextmanager
async def _opened(url: str | None, *, creates: bool = False) -> AsyncGenerator[Any, None]:
    """Open the memory store of that URL, or of the settings; its file must exist."""
    named = url or _settings().store
    if not named:
        raise ConfigurationError(
            "No memory store is given.",
            remedy="Pass --memory sqlite:memory.db, or set CONTEXT_ASSEMBLER_MEMORY.",
        )
    if not creates:
        check_exists(named, f"memory import FILE --memory {named}")
    async with memories.open_memory(named) as store:
        yield store


@asynccontextmanager
async def _embedder(name: str | None) -> AsyncGenerator[Any, None]:
    named = _settings().embedder if name is None else name
    if named in (None, "none"):
        yield None
        return
    embedder = memories.open_embedder(named)
    try:
        yield embedder
    finally:
        await embedder.close()


def _ask(url: str | None, work: Callable[[Any], Awaitable[T]]) -> T:
    async def run() -> T:
        async with _opened(url) as store:
            return await work(store)

    return asyncio.run(run())


def _filters(kinds: list[str] | None, namespace: str | None) -> Any:
    names = tuple(map(memories.check_kind, kinds or ()))
    namespaces = () if namespace is None else (namespace,)
    return memories.MemoryFilters(kinds=names, namespaces=namespaces)


@app.callback(invoke_without_command=True)
def overview(context: typer.Context, *, memory: Url = None, as_json: JsonFlag = False) -> None:
    """Keep memories, find them, and measure how well they are found. Without a command: `stats`."""
    given = {"memory": memory, "as_json": as_json or None}
    if context.invoked_subcommand is None:
        stats(memory=memory, as_json=as_json)
    else:
        defaults = {name: value for name, value in given.items() if value}
        context.default_map = {context.invoked_subcommand: defaults}


@app.command()
def add(
    *,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember; - reads stdin.")],
    memory: Url = None,
    kind: Annotated[str, _option("--kind", "KIND", "What it is.")] = "memories",
    namespace: Namespace = None,
    author: Annotated[str | None, _option("--author", "NAME", "Who wrote it.")] = None,
    session: Annotated[str | None, _option("--session", "ID", "Where it comes from.")] = None,
    importance: Annotated[float, _option("--importance", "SHARE", "From 0 to 1.")] = 0.5,
    merge_alike: Annotated[
        float | None, _option("--merge-alike", "LIKENESS", "From where on it is a duplicate.")
    ] = None,
    embedder: Embedder = None,
    as_json: JsonFlag = False,
) -> None:
    """Remember one text."""
    record = memories.MemoryRecord(
        text=read_text(_STANDARD).rstrip("\n") if text == "-" else text,
        kind=memories.check_kind(kind),
        namespace=namespace or "",
        author=author,
        session_id=session,
        importance=importance,
    )
    likeness = _settings().merges_alike if merge_alike is None else merge_alike

    async def remember() -> Any:
        async with _opened(memory, creates=True) as store, _embedder(embedder) as embed:
            keeper = memories.MemoryAssembler(store, embed=embed, merges_alike=likeness)
            return (await keeper.remember(record))[0]

    done = asyncio.run(remember())
    for notice in done.notices:
        print_note(notice)
    if as_json:
        print_json({"id": done.id, "outcome": done.outcome, "notices": [*done.notices]})
    else:
        people().print(printable(f"{done.id} ({done.outcome})"))


@app.command()
def search(
    *,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Any text.")],
    memory: Url = None,
    kind: Kinds = None,
    namespace: Namespace = None,
    limit: Annotated[int | None, _option("--limit", "N", "The most memories.")] = None,
    max_tokens: Annotated[int | None, _option("--max-tokens", "N", "Of the answer.")] = None,
    preset: Preset = None,
    embedder: Embedder = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Why every candidate is in or not.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print what fits a query, as a model would see it; the settings fill what is not given."""
    settled = _settings()
    given: dict[str, Any] = {"limit": limit or settled.limit}
    given["max_tokens"] = max_tokens or settled.max_tokens
    given["context_types"] = kind or settled.context_types or None
    names = settled.namespaces if namespace is None else (namespace,)
    given["filters"] = memories.MemoryFilters(namespaces=names)

    async def recall() -> Any:
        async with (
            _opened(memory) as store,
            _embedder(embedder) as embed,
            memories.MemoryAssembler(
                store, preset=preset or settled.preset, embed=embed
            ) as assembler,
        ):
            return await assembler.assemble_context(query, **given)

    context = asyncio.run(recall())
    states = set(context.source_status.values())
    if states and states <= {"failed", "timed_out", "skipped"}:
        reasons = "; ".join(dict.fromkeys(r.rstrip(".") for r in context.source_notes.values()))
        remedy = "Correct the store, or name another one with --memory."
        raise AssemblyError(f"Nothing could be searched: {reasons}.", remedy=remedy)
    if as_json:
        print_json(_context_as_json(context, explain=explain))
        return
    if context.markdown:
        people().print(printable(context.markdown), soft_wrap=True)
    elif context.budget_exceeded:
        print_note("What was found does not fit: give more room with --max-tokens.")
    else:
        print_note("Nothing relevant was found.")
    for name, reason in context.source_notes.items():
        print_note(f"{name}: {reason}")
    for row in context.explanations if explain else ():
        outcome, text = row.outcome.replace("_", " "), one_line(row.reason, max_chars=300)
        people().print(f"{row.score:.3f}  {outcome}  {one_line(row.memory_id)}", soft_wrap=True)
        people().print(f"       {row.source}: {text}", soft_wrap=True)


def _context_as_json(context: Any, *, explain: bool) -> dict[str, Json]:
    items = [
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
    names = ("markdown", "token_count", "sources_used", "source_status", "source_notes")
    names = (*names, "budget_exceeded", "truncated_items")
    shown: dict[str, Json] = {name: to_json(getattr(context, name)) for name in names}
    shown["items"] = items
    if explain:
        shown["explanations"] = [
            {**row._asdict(), "scores": {**row.scores}} for row in context.explanations
        ]
    return shown


@app.command()
def show(
    *,
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="The memory's id.")],
    memory: Url = None,
    as_json: JsonFlag = False,
) -> None:
    """Print one memory with all that is known of it."""
    encoded = memories.encode_memory(_ask(memory, lambda store: store.get(memory_id)))
    _print_fields({k: v for k, v in encoded.items() if k != "vector"}, encoded, as_json)


@app.command()
def stats(*, memory: Url = None, as_json: JsonFlag = False) -> None:
    """Print how many memories a store has, by kind and project."""
    found = {k: to_json(v) for k, v in _ask(memory, lambda s: s.stats())._asdict().items()}
    _print_fields({k: v for k, v in found.items() if v is not None}, found, as_json)


def _print_fields(shown: dict[str, Json], whole: Json, as_json: bool) -> None:
    if as_json:
        print_json(whole)
        return
    table = table_of("field", "value", header=False)
    for name, value in shown.items():
        table.add_row(name.replace("_", " "), one_line(readable(value)))
    people().print(table)


@app.command()
def forget(
    *,
    memory_ids: Annotated[list[str], typer.Argument(metavar="ID", help="The memories' ids.")],
    memory: Url = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove memories from the store."""
    gone = _ask(memory, lambda store: store.forget(memory_ids))
    unknown = [one for one in dict.fromkeys(memory_ids) if one not in gone]
    if not gone:
        raise UnknownMemoryError(unknown[0])
    for one in unknown:
        print_note(f"There is no memory {one!r}.")
    if as_json:
        print_json({"forgotten": [*gone], "unknown": unknown})
    else:
        people().print(f"{counted(len(gone), 'memory', 'memories')} forgotten.")


@app.command("import")
def import_(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines; - reads stdin.")],
    memory: Url = None,
    embedder: Embedder = None,
    as_json: JsonFlag = False,
) -> None:
    """Remember every memory of a file, or none."""

    async def keep() -> list[Any]:
        async with _opened(memory, creates=True) as store, _embedder(embedder) as embed:
            keeper = memories.MemoryAssembler(store, embed=embed)
            if file != _STANDARD:
                return list(await memories.import_memories(keeper, file))
            import io

            return list(await memories.import_memories(keeper, io.BytesIO(read_content(file))))

    done = asyncio.run(keep())
    outcomes = ("added", "replaced", "duplicate")
    numbers = {name: sum(one.outcome == name for one in done) for name in outcomes}
    if as_json:
        print_json({**numbers, "ids": [one.id for one in done]})
        return
    text = ", ".join(f"{count:,} {name}" for name, count in numbers.items())
    read = counted(len(done), "memory", "memories")
    people().print(printable(f"{read} read from {file}: {text}."))


@app.command("export")
def export(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines; - is stdout.")],
    memory: Url = None,
    kind: Kinds = None,
    namespace: Namespace = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the memories of a store to a file, or leave the file as it was."""
    target: Any = sys.stdout.buffer if file == _STANDARD else file
    filters = _filters(kind, namespace)
    written = _ask(memory, lambda s: memories.export_memories(s, target, filters=filters))
    if file == _STANDARD:
        print_note(f"{counted(written, 'memory', 'memories')} written.")
    elif as_json:
        print_json({"written": written, "file": str(file)})
    else:
        text = counted(written, "memory", "memories")
        people().print(printable(f"{text} written to {file}."))


@app.command("fade")
def fade(
    *,
    memory: Url = None,
    kind: Kinds = None,
    namespace: Namespace = None,
    half_life_days: Annotated[
        float | None, _option("--half-life-days", "DAYS", "Time unused that halves the worth.")
    ] = None,
    below: Annotated[
        float | None, _option("--below", "WORTH", "What is worth less is forgotten.")
    ] = None,
    is_dry_run: Annotated[bool, typer.Option("--dry-run", help="Forget nothing.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Forget what is worth too little: its importance, halved for each half-life unused."""
    settings, now = _settings(), datetime.now(UTC)
    days = settings.fades_half_life_days if half_life_days is None else half_life_days
    if days is None:
        remedy = "Pass --half-life-days 30, or set [memory] fades_half_life_days."
        raise ConfigurationError("No half-life is given.", remedy=remedy)
    least = settings.fades_below if below is None else below

    async def work(store: Any) -> list[Any]:
        faded = await memories.find_faded(
            store,
            half_life_days=days,
            now=now,
            least_worth=least,
            filters=_filters(kind, namespace),
        )
        if faded and not is_dry_run:
            gone = set(await store.forget([record.id for record in faded]))
            return [record for record in faded if record.id in gone]
        return list(faded)

    gone = _ask(memory, work)
    if as_json:
        ids: list[Json] = [record.id for record in gone]
        print_json({"forgotten": [], "would_forget": ids} if is_dry_run else {"forgotten": ids})
        return
    number = counted(len(gone), "memory", "memories")
    people().print(f"{number} {'would be ' if is_dry_run else ''}forgotten.")
    for record in gone if is_dry_run else ():
        people().print(f"  {one_line(record.id, max_chars=40)}: {one_line(record.text)[:60]}")


@app.command("eval")
def evaluate(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Questions with evidence, JSONL.")],
    memory: Url = None,
    kind: Kinds = None,
    budget: Annotated[list[int] | None, _option("--budget", "TOKENS", "Repeatable.")] = None,
    preset: Preset = None,
    embedder: Embedder = "none",
    category: Annotated[list[str] | None, _option("--category", "NAME", "Repeatable.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure how much of the evidence that questions need is recalled within a budget."""
    questions = memories.read_questions(read_text(file).splitlines(), name=str(file))
    questions = [one for one in questions if not category or one.category in category]
    if not questions:
        raise ConfigurationError(f"{file} has no such question.", remedy="Name another file.")
    budgets: dict[str, Any] = {"budgets_tokens": tuple(dict.fromkeys(budget))} if budget else {}

    async def run() -> Any:
        async with (
            _opened(memory) as store,
            _embedder(embedder) as embed,
            memories.MemoryAssembler(store, preset=preset or "general", embed=embed) as assembler,
        ):
            return await memories.evaluate_recall(
                assembler, questions, context_types=kind or None, **budgets
            )

    result = asyncio.run(run())
    if as_json:
        print_json(
            {
                "overall": _grade_as_json(result.overall),
                "by_category": {k: _grade_as_json(v) for k, v in result.by_category.items()},
                "missed": [question.id for question in result.missed],
            }
        )
        return
    figures = [f"whole @{tokens:,}" for tokens in result.overall.whole]
    figures += [f"r@{depth}" for depth in result.overall.recall_at]
    table = table_of("questions", "n", *figures, "MRR", right=("n", *figures, "MRR"))
    for name, grade in {**result.by_category, "all": result.overall}.items():
        shares = [*grade.whole.values(), *grade.recall_at.values()]
        numbers = [f"{share:.1%}" for share in shares]
        table.add_row(one_line(name), f"{grade.questions:,}", *numbers, f"{grade.mrr:.3f}")
    people().print(table)
    if result.missed:
        missed = counted(len(result.missed), "question")
        heading(people(), f"Not wholly recalled: {missed}")
        for question in result.missed[:10]:
            people().print(f"  {one_line(question.question, max_chars=90)}")


def _grade_as_json(grade: Any) -> dict[str, Json]:
    return {
        "questions": grade.questions,
        "whole_evidence": {str(budget): share for budget, share in grade.whole.items()},
        "evidence_recalled": {str(budget): share for budget, share in grade.recalled.items()},
        "recall_at": {str(depth): share for depth, share in grade.recall_at.items()},
        "mrr": grade.mrr,
    }
