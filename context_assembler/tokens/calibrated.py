"""A counter whose counts are corrected by what providers reported."""

from collections.abc import Sequence

from context_assembler.ports import TokenCounter
from context_assembler.values.factors import TokenFactors
from context_assembler.values.messages import Message
from context_assembler.values.tools import ToolChoice, ToolSpec


class CalibratedCounter:
    """Corrects each message by its own factor, and all that has no place in the history by the first.

    The count of a message is a function of the message and of the history up to the reply that read
    it first: whatever is learned later, it stays.
    """

    def __init__(self, counter: TokenCounter, factors: TokenFactors) -> None:
        self._counter = counter
        self._factors = factors
        self.name = counter.name
        self.is_exact = counter.is_exact
        self.request_overhead_tokens = counter.request_overhead_tokens

    def count_text(self, text: str) -> int:
        """Return the tokens of the text."""
        return _scaled(self._counter.count_text(text), self._factors.first)

    def count_message(self, message: Message) -> int:
        """Return the tokens of the message with its own overhead."""
        return _scaled(self._counter.count_message(message), self._factors.of(message))

    def count_system(self, text: str) -> int:
        """Return the tokens of a system prompt; 0 when there is none."""
        return _scaled(self._counter.count_system(text), self._factors.first)

    def count_tool(self, tool: ToolSpec) -> int:
        """Return the tokens of one tool's definition."""
        return _scaled(self._counter.count_tool(tool), self._factors.first)

    def count_tools_overhead(
        self,
        tools: Sequence[ToolSpec],
        *,
        has_system: bool = False,
        choice: ToolChoice | None = None,
    ) -> int:
        """Return what having tools costs beside their definitions."""
        return _scaled(
            self._counter.count_tools_overhead(tools, has_system=has_system, choice=choice),
            self._factors.first,
        )


def calibrate(counter: TokenCounter, factors: TokenFactors) -> TokenCounter:
    """Return the corrected counter; the counter itself where there is nothing to correct."""
    return counter if factors.is_neutral else CalibratedCounter(counter, factors)


def _scaled(tokens: int, factor: float) -> int:
    """Return the corrected count, rounded up: in thousandths, as factors are kept."""
    return -(-tokens * round(factor * 1_000) // 1_000)
