"""The sources of a memory assembler: given, or opened from a URL."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias, cast

from context_assembler.errors import ConfigurationError
from context_assembler.memory import open_memory
from context_assembler.ports import MemorySource, OpenedMemoryStore
from context_assembler.sync import close_all

SourceArgument: TypeAlias = str | Path | MemorySource
SourcesArgument: TypeAlias = (
    SourceArgument | Iterable[SourceArgument] | Mapping[str, SourceArgument]
)


class OpenSources:
    """Sources by their names; those that were opened here are closed here.

    Args:
        given: A source or its URL, several of both, or a mapping that names each.

    Raises:
        ConfigurationError: Something among it is neither.
    """

    def __init__(self, given: SourcesArgument) -> None:
        self._own: list[OpenedMemoryStore] = []
        self._unentered: list[OpenedMemoryStore] = []
        self.by_name: dict[str, MemorySource] = {}
        for name, source in _named(given):
            opened = self._opened(source)
            self.by_name[_free_name(name or opened.name, self.by_name)] = opened

    async def enter(self) -> None:
        """Let the stores that were opened here load what they need, which no deadline is to count.

        One that cannot fails again when it is asked, and its status says why.
        """
        waiting, self._unentered = self._unentered, []
        await asyncio.gather(*(store.__aenter__() for store in waiting), return_exceptions=True)

    async def close(self) -> None:
        """Close the stores that were opened from a URL; others are their owner's."""
        await close_all(*(source.close for source in self._own))

    def _opened(self, source: object) -> MemorySource:
        if isinstance(source, str | Path):
            store = open_memory(source)
            self._own.append(store)
            self._unentered.append(store)
            return store
        if not isinstance(source, MemorySource):
            raise ConfigurationError(
                f"{source!r} is no source of memories.",
                remedy="Pass a URL such as 'sqlite:memory.db', or an object with a name and search().",
            )
        return source


def _named(given: SourcesArgument) -> list[tuple[str, SourceArgument]]:
    if isinstance(given, Mapping):
        return list(cast("Mapping[str, SourceArgument]", given).items())
    if isinstance(given, Iterable) and not isinstance(given, str):
        return [("", source) for source in given]
    return [("", given)]


def _free_name(name: str, taken: Mapping[str, MemorySource]) -> str:
    """Return the name, with a number where it is there already."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free
