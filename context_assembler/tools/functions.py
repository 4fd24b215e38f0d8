"""Plain Python functions as a source of tools."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from context_assembler.errors import InvalidToolError
from context_assembler.tools.entries import ReadEntries, read_entries
from context_assembler.values.tools import ToolSpec


class FunctionTools:
    """Functions, methods and other callables; schemas come from signature and docstring.

    They are read when the tools are first asked for, since that loads pydantic.

    Attributes:
        problems: The functions that cannot be offered.
        notes: The functions that say nothing of themselves.
    """

    kind: Final = "functions"

    def __init__(self, functions: Iterable[Callable[..., Any]], *, name: str = "functions") -> None:
        self.name = name
        self._functions = tuple(functions)
        self._read: ReadEntries | None = None

    @property
    def problems(self) -> Sequence[InvalidToolError]:
        """The functions that cannot be offered."""
        return self._entries().problems

    @property
    def notes(self) -> Sequence[str]:
        """A sentence for each function that does not say what it does."""
        return self._entries().notes

    @property
    def is_constant(self) -> bool:
        """That the same tools are listed for good."""
        return True

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return one tool per function, in the order given."""
        return self._entries().specs

    def _entries(self) -> ReadEntries:
        if self._read is None:
            self._read = read_entries(self._functions)
        return self._read
