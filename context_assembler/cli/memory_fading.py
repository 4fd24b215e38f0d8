"""`memory fade`: letting go of what was not important, and was not used for long."""

import asyncio
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
from context_assembler.cli.screen import people, print_json
from context_assembler.errors import ConfigurationError
from context_assembler.memory import forget_faded
from context_assembler.values.memories.kinds import check_kind
from context_assembler.values.memories.records import MemoryFilters


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

    async def forget() -> list[str]:
        async with opened_memory(memory) as store:
            return await forget_faded(
                store,
                half_life_days=days,
                now=datetime.now(UTC),
                least_worth=least_worth,
                filters=filters,
            )

    gone = asyncio.run(forget())
    if as_json:
        print_json({"forgotten": [*gone]})
        return
    people().print(f"{len(gone):,} memories forgotten.")
