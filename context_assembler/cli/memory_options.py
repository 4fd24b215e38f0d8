"""What the commands of `memory` share: their options, and the store that these name."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from context_assembler.cli.opening import check_memory_exists
from context_assembler.errors import ConfigurationError
from context_assembler.memory import open_memory
from context_assembler.ports import Embed, OpenedMemoryStore
from context_assembler.values.memories.kinds import KINDS

if TYPE_CHECKING:
    from context_assembler.config import MemorySettings

NO_EMBEDDER: Final = "none"

MemoryUrl = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="URL",
        envvar="CONTEXT_ASSEMBLER_MEMORY",
        help="The memory store, such as sqlite:memory.db; the settings' own by default.",
    ),
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", metavar="NAME", help="The project it belongs to.")
]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="KIND", help=f"{', '.join(KINDS)}; may be repeated."),
]

Embedder = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="NAME",
        help="none, bundled, minilm, openai:MODEL; the settings' own by default.",
    ),
]


@asynccontextmanager
async def opened_memory(
    url: str | None, *, creates: bool = False
) -> AsyncGenerator[OpenedMemoryStore, None]:
    """Open the memory store of that URL, or of the settings, and close it again.

    Args:
        creates: Whether the store may be a new one; else its file must be there.

    Raises:
        ConfigurationError: No store is named, or its file is not there.
    """
    named = url or memory_settings().store
    if not named:
        raise ConfigurationError(
            "No memory store is given.",
            remedy="Pass --memory sqlite:memory.db, or set CONTEXT_ASSEMBLER_MEMORY, or [memory] "
            "store in context-assembler.toml.",
        )
    if not creates:
        check_memory_exists(named)
    async with open_memory(named) as store:
        yield store


@asynccontextmanager
async def opened_embedder(name: str | None) -> AsyncGenerator[Embed | None, None]:
    """Open the embedder of that name, or of the settings, and close it again; `None` for none.

    Raises:
        UnknownOptionError: There is no such embedder.
    """
    named = memory_settings().embedder if name is None else name
    if named is None or named == NO_EMBEDDER:
        yield None
        return
    from context_assembler.embeddings import open_embedder  # noqa: PLC0415 - most calls need none

    embedder = open_embedder(named)
    try:
        yield embedder
    finally:
        await embedder.close()


def memory_settings() -> "MemorySettings":
    """Return what the settings say of memory."""
    # pydantic is slow to import, and most calls name their store.
    from context_assembler.config import AssemblerConfig  # noqa: PLC0415

    return AssemblerConfig().memory
