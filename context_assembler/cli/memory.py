"""`memory`: keeping memories, finding them, and measuring how well they are found."""

import asyncio
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from context_assembler.cli.memory_adding import add
from context_assembler.cli.memory_eval import evaluate_file
from context_assembler.cli.memory_eval_remarks import EvalSettings
from context_assembler.cli.memory_fading import forget_faded_memories
from context_assembler.cli.memory_files import export_file, import_file
from context_assembler.cli.memory_options import (
    NO_EMBEDDER,
    Embedder,
    Kinds,
    MemoryUrl,
    Namespace,
    memory_settings,
    opened_embedder,
    opened_memory,
)
from context_assembler.cli.memory_view import (
    check_answered,
    context_as_json,
    explanations_text,
    record_table,
    search_notes,
    stats_as_json,
    stats_table,
)
from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import counted, people, print_json, print_note, printable
from context_assembler.errors import UnknownMemoryError
from context_assembler.memory_assembler import MAX_LIMIT, MemoryAssembler
from context_assembler.memory_assembler.arguments import (
    check_number,
    checked_kinds,
)
from context_assembler.values.memories.codec import encode_memory
from context_assembler.values.memories.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryRecord,
    MemoryStats,
)
from context_assembler.values.recall import FormattedContext
from context_assembler.values.recall_settings import recall_preset

app: Final = typer.Typer(add_completion=False)

MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="The most that the answer takes.")
]


@app.callback(invoke_without_command=True)
def overview(
    context: typer.Context, *, memory: MemoryUrl = None, as_json: JsonFlag = False
) -> None:
    """Keep memories, find them again, and measure how well they are found.

    Without a command: `stats`.
    """
    if context.invoked_subcommand is None:
        stats(memory=memory, as_json=as_json)
        return
    given = {"memory": memory, "as_json": as_json or None}
    # `memory --json stats` is `memory stats --json`
    context.default_map = {
        context.invoked_subcommand: {name: value for name, value in given.items() if value}
    }


app.command("add")(add)


@app.command()
def search(
    *,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for; any text.")],
    memory: MemoryUrl = None,
    kind: Kinds = None,
    namespace: Namespace = None,
    limit: Annotated[int | None, typer.Option("--limit", help="The most memories.")] = None,
    max_tokens: MaxTokens = None,
    preset: Annotated[str | None, typer.Option("--preset", help="The kind of agent.")] = None,
    embedder: Embedder = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say of every candidate why it is in or not.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print what fits a query, as a model would see it.

    Where an option is not given, the settings' own holds, as in a request.
    """
    settled = memory_settings()
    given: dict[str, Any] = {"limit": limit, "max_tokens": max_tokens, "context_types": kind}
    if namespace is not None:
        given["filters"] = MemoryFilters(namespaces=(namespace,))
    options = settled.filled({name: value for name, value in given.items() if value is not None})
    # What is wrong with the call comes before what is wrong with the store.
    checked_kinds(kind, NO_FILTERS)
    check_number("limit", options["limit"], most=MAX_LIMIT)
    check_number("max_tokens", options["max_tokens"])
    settings = settled.recall if preset is None else recall_preset(preset)

    async def recall() -> FormattedContext:
        async with (
            opened_memory(memory) as store,
            opened_embedder(embedder) as embed,
            MemoryAssembler(store, settings=settings, embed=embed) as assembler,
        ):
            return await assembler.assemble_context(query, **options)

    context = asyncio.run(recall())
    check_answered(context)
    if as_json:
        print_json(context_as_json(context, with_explanations=explain))
        return
    if context.markdown:
        people().print(printable(context.markdown), soft_wrap=True)
    for note in search_notes(context, max_tokens=options["max_tokens"]):
        print_note(note)
    if explain:
        people().print()
        people().print(printable(explanations_text(context.explanations)), soft_wrap=True)


@app.command()
def show(
    *,
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="The memory's id.")],
    memory: MemoryUrl = None,
    as_json: JsonFlag = False,
) -> None:
    """Print one memory with all that is known of it."""

    async def get() -> MemoryRecord:
        async with opened_memory(memory) as store:
            return await store.get(memory_id)

    record = asyncio.run(get())
    encoded = encode_memory(record)
    if as_json:
        print_json(encoded)
        return
    people().print(record_table(encoded))


@app.command()
def forget(
    *,
    memory_ids: Annotated[list[str], typer.Argument(metavar="ID", help="The memories' ids.")],
    memory: MemoryUrl = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove memories from the store."""

    async def remove() -> list[str]:
        async with opened_memory(memory) as store:
            return await store.forget(memory_ids)

    gone = asyncio.run(remove())
    unknown = [memory_id for memory_id in dict.fromkeys(memory_ids) if memory_id not in gone]
    if not gone:
        raise UnknownMemoryError(unknown[0])
    for memory_id in unknown:
        print_note(f"There is no memory {memory_id!r}.")
    if as_json:
        print_json({"forgotten": [*gone], "unknown": [*unknown]})
        return
    people().print(f"{counted(len(gone), 'memory', 'memories')} forgotten.")


app.command("import")(import_file)
app.command("export")(export_file)
app.command("fade")(forget_faded_memories)


@app.command()
def stats(*, memory: MemoryUrl = None, as_json: JsonFlag = False) -> None:
    """Say what a store holds."""

    async def read() -> MemoryStats:
        async with opened_memory(memory) as store:
            return await store.stats()

    found = asyncio.run(read())
    if as_json:
        print_json(stats_as_json(found))
        return
    people().print(stats_table(found))


@app.command("eval")
def evaluate(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Questions with their evidence, JSON Lines; or LoCoMo's file."
        ),
    ],
    memory: MemoryUrl = None,
    kind: Kinds = None,
    budget: Annotated[
        list[int] | None,
        typer.Option("--budget", metavar="TOKENS", help="A budget; may be repeated."),
    ] = None,
    preset: Annotated[str, typer.Option("--preset", help="The kind of agent.")] = "general",
    embedder: Annotated[
        str, typer.Option("--embedder", metavar="NAME", help="none, bundled, minilm, openai:MODEL.")
    ] = NO_EMBEDDER,
    facts: Annotated[
        bool, typer.Option("--facts", help="Search the file's observations, too.")
    ] = False,
    category: Annotated[
        list[str] | None,
        typer.Option("--category", metavar="NAME", help="Of the questions; may be repeated."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure how much of the evidence that questions need is recalled within a budget."""
    checked_kinds(kind, NO_FILTERS)
    for tokens in budget or ():
        check_number("budget", tokens)
    settings = EvalSettings(
        kinds=kind or (),
        budgets=budget or (),
        preset=preset,
        embedder=embedder,
        with_facts=facts,
        categories=category or (),
    )
    asyncio.run(
        evaluate_file(
            file, open_store=lambda: opened_memory(memory), settings=settings, as_json=as_json
        )
    )
