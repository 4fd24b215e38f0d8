"""Counts each message of one call once, however many steps ask."""

from collections.abc import Sequence

from context_assembler.ports import TokenCounter
from context_assembler.values.messages import Message
from context_assembler.values.tools import ToolChoice, ToolSpec


class CountOnce:
    """A counter for the length of one call: it keeps the messages it was asked about alive."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self.name = counter.name
        self.is_exact = counter.is_exact
        self.request_overhead_tokens = counter.request_overhead_tokens
        self._alive: list[Message] = []  # so that none of them can be taken for another
        self._counted: dict[int, int] = {}
        self._known = self._counted.get

    def count_text(self, text: str) -> int:
        """Return the tokens of the text."""
        return self._counter.count_text(text)

    def count_message(self, message: Message) -> int:
        """Return the tokens of the message with its own overhead."""
        tokens = self._known(id(message))
        if tokens is None:
            tokens = self._counter.count_message(message)
            self._alive.append(message)
            self._counted[id(message)] = tokens
        return tokens

    def count_system(self, text: str) -> int:
        """Return the tokens of a system prompt; 0 when there is none."""
        return self._counter.count_system(text)

    def count_tool(self, tool: ToolSpec) -> int:
        """Return the tokens of one tool's definition."""
        return self._counter.count_tool(tool)

    def count_tools_overhead(
        self,
        tools: Sequence[ToolSpec],
        *,
        has_system: bool = False,
        choice: ToolChoice | None = None,
    ) -> int:
        """Return what having tools costs beside their definitions."""
        return self._counter.count_tools_overhead(tools, has_system=has_system, choice=choice)
