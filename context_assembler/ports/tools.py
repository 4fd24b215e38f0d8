"""The socket of tools."""

from collections.abc import Sequence
from typing import Protocol

from context_assembler.values.tools import ToolSpec


class ToolSource(Protocol):
    """Somewhere tools come from."""

    name: str

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools offered at this moment."""
        ...
