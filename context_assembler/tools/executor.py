"""An object that runs tools, and lists them, as a source of tools."""

from collections.abc import Iterable, Sequence
from inspect import isawaitable
from typing import Any, Protocol

from context_assembler.errors import InvalidToolError
from context_assembler.tools.entries import ReadEntries, read_entries
from context_assembler.values.tools import ToolSpec


class Executor(Protocol):
    """Whatever has `list_tools()`; entries may be specs of any shape, functions or SDK objects."""

    def list_tools(self) -> Any:
        """Return the tools or an object that carries them as `tools`, at once or awaited."""
        ...


class ExecutorTools:
    """The tools of an executor, asked for anew each time.

    Attributes:
        problems: What could not be offered of the last list.
        notes: What of the last list is not carried over.
    """

    def __init__(self, executor: Executor, *, name: str | None = None) -> None:
        own = getattr(executor, "name", None)
        self.name = name or (own if isinstance(own, str) and own else "executor")
        self._executor = executor
        self._read = ReadEntries()

    @property
    def problems(self) -> Sequence[InvalidToolError]:
        """What could not be offered of the last list."""
        return self._read.problems

    @property
    def notes(self) -> Sequence[str]:
        """What of the last list is not carried over."""
        return self._read.notes

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools offered at this moment."""
        listed = self._executor.list_tools()
        if isawaitable(listed):
            listed = await listed
        entries: Iterable[Any] = getattr(listed, "tools", listed)
        self._read = read_entries(entries)
        return self._read.specs
