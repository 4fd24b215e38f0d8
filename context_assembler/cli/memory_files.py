"""`memory import` and `memory export`: memories from and to files."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from context_assembler.cli.memory_options import (
    Embedder,
    Kinds,
    MemoryUrl,
    Namespace,
    opened_embedder,
    opened_memory,
)
from context_assembler.cli.opening import standard_input
from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import counted, notes, people, print_json, print_note, printable
from context_assembler.errors import ConfigurationError
from context_assembler.memory.files import export_memories, import_memories
from context_assembler.memory_assembler import MemoryAssembler
from context_assembler.values.memories.kinds import check_kind
from context_assembler.values.memories.records import MemoryFilters, Remembered

_STANDARD = Path("-")


def import_file(
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON Lines, as export writes; - reads stdin.")
    ],
    memory: MemoryUrl = None,
    embedder: Embedder = None,
    as_json: JsonFlag = False,
) -> None:
    """Remember every memory of a file, or none."""

    async def keep() -> list[Remembered]:
        async with (
            opened_memory(memory, creates=True) as store,
            opened_embedder(embedder) as embed,
        ):
            keeper = MemoryAssembler(store, embed=embed)
            with notes().status("Remembering …"):
                return await import_memories(
                    keeper, standard_input() if file == _STANDARD else file
                )

    outcomes = asyncio.run(keep())
    by_outcome = {
        name: sum(outcome.outcome == name for outcome in outcomes)
        for name in ("added", "replaced", "duplicate")
    }
    if as_json:
        print_json({**by_outcome, "ids": [outcome.id for outcome in outcomes]})
        return
    told = ", ".join(f"{count:,} {name}" for name, count in by_outcome.items())
    read_from = "stdin" if file == _STANDARD else file
    people().print(printable(f"{_memories(len(outcomes))} read from {read_from}: {told}."))


def export_file(
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write JSON Lines; - is stdout.")
    ],
    memory: MemoryUrl = None,
    kind: Kinds = None,
    namespace: Namespace = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the memories of a store to a file, or leave the file as it was."""
    if as_json and file == _STANDARD:
        raise ConfigurationError(
            "--json and - would both write to stdout.",
            remedy="Leave out --json: what is exported is JSON already. Or name a file.",
        )
    filters = MemoryFilters(
        kinds=tuple(check_kind(name) for name in kind or ()),
        namespaces=() if namespace is None else (namespace,),
    )

    async def write() -> int:
        async with opened_memory(memory) as store:
            with notes().status("Writing …"):
                return await export_memories(
                    store, sys.stdout.buffer if file == _STANDARD else file, filters=filters
                )

    written = asyncio.run(write())
    if as_json:
        print_json({"written": written, "file": str(file)})
        return
    if file == _STANDARD:
        print_note(f"{_memories(written)} written.")
        return
    people().print(printable(f"{_memories(written)} written to {file}."))


def _memories(count: int) -> str:
    return counted(count, "memory", "memories")
