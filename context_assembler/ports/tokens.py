"""The socket of token counters."""

from collections.abc import Sequence
from typing import Protocol

from context_assembler.values.messages import Message
from context_assembler.values.tools import ToolChoice, ToolSpec


class TokenCounter(Protocol):
    """Counts tokens as one model family does.

    The count of a value depends on the value alone, so that it can be kept.
    """

    name: str
    is_exact: bool
    request_overhead_tokens: int

    def count_text(self, text: str) -> int:
        """Return the tokens of the text; any string is accepted."""
        ...

    def count_message(self, message: Message) -> int:
        """Return the tokens of the message with its own overhead."""
        ...

    def count_system(self, text: str) -> int:
        """Return the tokens of a system prompt; 0 when there is none."""
        ...

    def count_tool(self, tool: ToolSpec) -> int:
        """Return the tokens of one tool's definition."""
        ...

    def count_tools_overhead(
        self,
        tools: Sequence[ToolSpec],
        *,
        has_system: bool = False,
        choice: ToolChoice | None = None,
    ) -> int:
        """Return what having tools, and the choice, costs beside their definitions; 0 without."""
        ...
