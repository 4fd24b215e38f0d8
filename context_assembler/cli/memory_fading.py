"""`memory fade`: letting go of what was not important, and was not used for long."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from context_assembler.cli.memory_options import (
    Kinds,
    MemoryUrl,
    Namespace,
    memory_settings,
    opened_memory,
)
from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import counted, one_line, people, print_json
from context_assembler.errors import ConfigurationError
from context_assembler.memory import find_faded
from context_assembler.memory.fading import worth_of
from context_assembler.ports import MemoryStore
from context_assembler.values.memories.kinds import check_kind
from context_assembler.values.memories.records import MemoryFilters, MemoryRecord
from context_assembler.values.parts import Json


def forget_faded_memories(
    *,
    memory: MemoryUrl = None,
    kind: Kinds = None,
    namespace: Namespace = None,
    half_life_days: Annotated[
        float | None,
        typer.Option(
            "--half-life-days",
            metavar="DAYS",
            help="After how long unused a memory is worth half; the settings' own by default.",
        ),
    ] = None,
    below: Annotated[
        float | None,
        typer.Option(
            "--below",
            metavar="WORTH",
            min=0,
            max=1,
            help="What is worth less is forgotten; the settings' own by default.",
        ),
    ] = None,
    is_dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be forgotten, and forget nothing."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Forget what is worth too little: its importance, halved for each half-life unused."""
    settings = memory_settings()
    days = settings.fades_half_life_days if half_life_days is None else half_life_days
    if days is None:
        raise ConfigurationError(
            "Nobody says how fast memories fade.",
            remedy="Pass --half-life-days 30, or set [memory] fades_half_life_days.",
        )
    least_worth = settings.fades_below if below is None else below
    filters = MemoryFilters(
        kinds=tuple(check_kind(name) for name in kind or ()),
        namespaces=() if namespace is None else (namespace,),
    )

    now = datetime.now(UTC)

    async def forget() -> list[MemoryRecord]:
        async with opened_memory(memory) as store:
            faded = await find_faded(
                store, half_life_days=days, now=now, least_worth=least_worth, filters=filters
            )
            gone = faded if is_dry_run else await _forget(store, faded)
            return list(gone)

    gone = asyncio.run(forget())
    if as_json:
        ids: list[Json] = [record.id for record in gone]
        print_json({"forgotten": [], "would_forget": ids} if is_dry_run else {"forgotten": ids})
        return
    if is_dry_run:
        _show(gone, half_life_days=days, now=now)
        return
    people().print(f"{counted(len(gone), 'memory', 'memories')} forgotten.")


async def _forget(store: MemoryStore, faded: Sequence[MemoryRecord]) -> list[MemoryRecord]:
    forgotten = set(await store.forget([record.id for record in faded])) if faded else set[str]()
    return [record for record in faded if record.id in forgotten]


def _show(faded: Sequence[MemoryRecord], *, half_life_days: float, now: datetime) -> None:
    console = people()
    console.print(f"{counted(len(faded), 'memory', 'memories')} would be forgotten.")
    for record in faded:
        worth = worth_of(record, half_life_days=half_life_days, now=now)
        text = one_line(record.text, max_chars=60)
        console.print(
            f"  {one_line(record.id, max_chars=40)}  worth {worth:.3f}  {record.kind}: {text}"
        )
