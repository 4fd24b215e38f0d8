"""Literal specs as a source of tools."""

from collections.abc import Iterable, Sequence

from context_assembler.tools.entries import read_entries
from context_assembler.values.parts import JsonObject
from context_assembler.values.tools import ToolSpec


class ListedTools:
    """Specs written out, in the shape of any provider.

    Attributes:
        kind: Whose tools these are, for their precedence.
        problems: The specs that cannot be offered.
        notes: What of the specs is not carried over.
    """

    def __init__(
        self, specs: Iterable[ToolSpec | JsonObject], *, name: str = "listed", kind: str = "listed"
    ) -> None:
        read = read_entries(specs)
        self.name = name
        self.kind = kind
        self.problems = read.problems
        self.notes = read.notes
        self._specs = read.specs

    @property
    def is_constant(self) -> bool:
        """That the same tools are listed for good."""
        return True

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools in the order given."""
        return self._specs
