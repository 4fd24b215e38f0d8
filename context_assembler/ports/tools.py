"""The socket of tools."""

from collections.abc import Sequence
from typing import Protocol

from context_assembler.values.tools import ToolSpec


class ToolSource(Protocol):
    """Somewhere tools come from.

    A class whose objects list the same tools for good may say so with `is_constant = True`: then a
    call that changes nothing else is answered without asking them.
    """

    name: str

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools offered at this moment."""
        ...
