"""`memory add`: keeping one text."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from context_assembler.cli.memory_options import (
    Embedder,
    MemoryUrl,
    Namespace,
    memory_settings,
    opened_embedder,
    opened_memory,
)
from context_assembler.cli.opening import read_text
from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import people, print_json, print_note, printable
from context_assembler.memory_assembler import MemoryAssembler
from context_assembler.memory_assembler.arguments import check_likeness, check_words
from context_assembler.memory_assembler.projects import remember_within
from context_assembler.values.memories.kinds import check_kind
from context_assembler.values.memories.records import USUAL_IMPORTANCE, MemoryRecord, Remembered


def add(
    *,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember; - reads stdin.")],
    memory: MemoryUrl = None,
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="What it is.")] = "memories",
    namespace: Namespace = None,
    author: Annotated[str | None, typer.Option("--author", help="Who said it.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Where it was said.")] = None,
    importance: Annotated[float, typer.Option("--importance", help="From 0 to 1.")] = (
        USUAL_IMPORTANCE
    ),
    merge_alike: Annotated[
        float | None,
        typer.Option(
            "--merge-alike",
            metavar="LIKENESS",
            help="From where on it counts as a duplicate, such as 0.9; the settings' own by default.",
        ),
    ] = None,
    embedder: Embedder = None,
    as_json: JsonFlag = False,
) -> None:
    """Remember one text."""
    said = read_text(Path("-")).rstrip("\n") if text == "-" else text
    check_words("TEXT", said)
    record = MemoryRecord(
        text=said,
        kind=check_kind(kind),
        namespace=namespace or "",
        author=author,
        session_id=session,
        importance=importance,
    )
    settled = memory_settings()
    likeness = settled.merges_alike if merge_alike is None else merge_alike
    outcome = asyncio.run(
        _remember(
            memory,
            record,
            embedder=embedder,
            merges_alike=likeness,
            namespaces=settled.namespaces,
        )
    )
    for notice in outcome.notices:
        print_note(notice)
    if as_json:
        print_json({"id": outcome.id, "outcome": outcome.outcome, "notices": [*outcome.notices]})
        return
    people().print(printable(f"{outcome.id} ({outcome.outcome})"))


async def _remember(
    url: str | None,
    record: MemoryRecord,
    *,
    embedder: str | None,
    merges_alike: float | None,
    namespaces: Sequence[str],
) -> Remembered:
    if merges_alike is not None:
        check_likeness("merge_alike", merges_alike)
    async with opened_memory(url, creates=True) as store, opened_embedder(embedder) as embed:
        assembler = MemoryAssembler(store, embed=embed, merges_alike=merges_alike)
        [outcome] = await remember_within(assembler, record, namespaces)
    return outcome
