"""Counts each message of one call once, however many steps ask."""

from collections.abc import Sequence

from context_assembler.ports import TokenCounter
from context_assembler.values.messages import Message
from context_assembler.values.tools import ToolSpec


class CountOnce:
    """A counter for the length of one call: it keeps the messages it was asked about alive."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self.name = counter.name
        self.is_exact = counter.is_exact
        self.request_overhead_tokens = counter.request_overhead_tokens
        self._counted: dict[int, tuple[int, Message]] = {}

    def count_text(self, text: str) -> int:
        """Return the tokens of the text."""
        return self._counter.count_text(text)

    def count_message(self, message: Message) -> int:
        """Return the tokens of the message with its own overhead."""
        counted = self._counted.get(id(message))
        if counted is None:
            counted = self._counter.count_message(message), message
            self._counted[id(message)] = counted
        return counted[0]

    def count_system(self, text: str) -> int:
        """Return the tokens of a system prompt; 0 when there is none."""
        return self._counter.count_system(text)

    def count_tool(self, tool: ToolSpec) -> int:
        """Return the tokens of one tool's definition."""
        return self._counter.count_tool(tool)

    def count_tools_overhead(self, tools: Sequence[ToolSpec]) -> int:
        """Return what having tools costs beside their definitions."""
        return self._counter.count_tools_overhead(tools)
