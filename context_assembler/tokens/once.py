"""Counts each message of one call once, however many steps ask."""

from context_assembler.ports import TokenCounter
from context_assembler.values.messages import Message


class CountOnce:
    """A counter for the length of one call: it keeps the messages it was asked about alive.

    Of a counter that keeps its counts on the messages (`counts_key`) nothing is kept here.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self.name = counter.name
        self.is_exact = counter.is_exact
        self.request_overhead_tokens = counter.request_overhead_tokens
        self.counts_key: object | None = getattr(counter, "counts_key", None)
        self.count_text = counter.count_text
        self.count_system = counter.count_system
        self.count_tool = counter.count_tool
        self.count_tools_overhead = counter.count_tools_overhead
        keeps_none = self.counts_key is not None
        self.count_message = counter.count_message if keeps_none else self._count_once
        self._alive: list[Message] = []  # so that none of them can be taken for another
        self._counted: dict[int, int] = {}
        self._known = self._counted.get

    def _count_once(self, message: Message) -> int:
        tokens = self._known(id(message))
        if tokens is None:
            tokens = self._counter.count_message(message)
            self._alive.append(message)
            self._counted[id(message)] = tokens
        return tokens
