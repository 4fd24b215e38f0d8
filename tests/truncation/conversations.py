"""A counter and builders for histories of known sizes."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Document,
    Image,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.tools import ToolSpec


class WordCounter:
    """One token per word, rounded up for long words; two per message, three per call or result."""

    name = "words"
    is_exact = True
    request_overhead_tokens = 3

    def count_text(self, text: str) -> int:
        return sum(1 + len(word) // 12 for word in text.split())

    def count_message(self, message: Message) -> int:
        return 2 + sum(map(self._count_part, message.parts))

    def count_system(self, text: str) -> int:
        return self.count_text(text) + 2 if text else 0

    def count_tool(self, tool: ToolSpec) -> int:
        return 5 + self.count_text(tool.description) + len(json.dumps(dict(tool.input_schema))) // 4

    def count_tools_overhead(self, tools: Sequence[ToolSpec], **_: object) -> int:
        return 4 if tools else 0

    def _count_part(self, part: Part) -> int:
        match part:
            case Text(text) | Thinking(text=text) | Opaque(text=text):
                return self.count_text(text)
            case Image() | Document():
                return 85
            case ToolCall():
                spelled = part.arguments_json or json.dumps(
                    dict(part.arguments), ensure_ascii=False
                )
                return 3 + self.count_text(spelled)
            case ToolResult():
                return 3 + sum(map(self._count_part, part.content))


def words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


def user(text: str, *, is_pinned: bool = False) -> Message:
    return Message(role="user", parts=(Text(text),), is_pinned=is_pinned)


def assistant(text: str) -> Message:
    return Message(role="assistant", parts=(Text(text),), origin="model")


def summary(text: str) -> Message:
    return Message(role="user", parts=(Text(text),), kind="summary", origin="assembler")


def calling(*results_by_call: tuple[str, str], is_pinned: bool = False) -> list[Message]:
    """Return an assistant message with these calls, and the message of their results."""
    calls = tuple(ToolCall(call_id=call, name="read", arguments={}) for call, _ in results_by_call)
    results = tuple(
        ToolResult(call_id=call, content=(Text(text),)) for call, text in results_by_call
    )
    return [
        Message(role="assistant", parts=calls, origin="model", is_pinned=is_pinned),
        Message(role="tool", parts=results, origin="tool"),
    ]


def numbered(messages: Sequence[Message]) -> list[Message]:
    """Give the messages ids `m1`, `m2` … and sequence numbers."""
    return [replace(m, id=f"m{seq}", seq=seq) for seq, m in enumerate(messages, start=1)]


def total(messages: Sequence[Message], counter: WordCounter) -> int:
    return sum(map(counter.count_message, messages))


_SHAPES: Final = ("user", "user", "says", "calls", "calls", "calls", "parallel", "note", "pinned")


def _grown(opening: str, steps: list[tuple[str, int]]) -> list[Message]:
    talk = [summary(words(20))] if opening == "summary" else []
    talk.append(user(words(12)))
    for number, (shape, size) in enumerate(steps):
        match shape:
            case "user":
                talk.append(user(words(size)))
            case "pinned":
                talk += calling((f"c{number}", words(size)), is_pinned=size % 2 == 0)
            case "parallel":
                talk += calling(*((f"c{number}.{i}", words(size * i)) for i in range(3)))
            case "note":
                talk.append(
                    Message(role="system", parts=(Text(words(3)),), kind="note", note="clock")
                )
            case "calls":
                talk += calling((f"c{number % 5}", words(2 * size)))
            case _:
                talk.append(assistant(words(size)))
    return numbered(talk)


conversations: SearchStrategy[list[Message]] = st.builds(
    _grown,
    st.sampled_from(["task", "task", "summary"]),
    st.lists(st.tuples(st.sampled_from(_SHAPES), st.integers(1, 130)), max_size=24),
)
"""Histories with bulky results, parallel calls, repeated ids, notes, pins and one or many turns."""
