"""A token counter that a reader of a test can follow: one word is one token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Document,
    Image,
    Json,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.tools import ToolChoice, ToolSpec
from context_assembler.values.wire import compact_json


@dataclass(slots=True, kw_only=True, eq=False)  # not frozen: the port's attributes can be set
class WordCounter:
    """Counts words, exactly and without surprises.

    A call counts its tool's name and the words of its arguments, an image or a document
    `media_tokens`, any other part its words. The overheads are 0 unless they are given.
    """

    name: str = "words"
    is_exact: bool = True
    request_overhead_tokens: int = 0
    message_overhead_tokens: int = 0
    media_tokens: int = 100

    def count_text(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())

    def count_message(self, message: Message) -> int:
        """Return the words of all parts and the overhead."""
        return self.message_overhead_tokens + sum(map(self._count_part, message.parts))

    def count_system(self, text: str) -> int:
        """Return the number of words."""
        return self.count_text(text)

    def count_tool(self, tool: ToolSpec) -> int:
        """Return the words of name, description and schema."""
        schema = " ".join(_leaves(tool.input_schema))
        return self.count_text(f"{tool.name} {tool.description} {schema}")

    def count_tools_overhead(
        self,
        tools: Sequence[ToolSpec],  # noqa: ARG002 - the port
        *,
        has_system: bool = False,  # noqa: ARG002 - the port
        choice: ToolChoice | None = None,  # noqa: ARG002 - the port
    ) -> int:
        """Return 0: having tools costs nothing here."""
        return 0

    def _count_part(self, part: Part) -> int:
        match part:
            case Text():
                return self.count_text(part.text)
            case Thinking():
                return self.count_text(part.text)
            case Image() | Document():
                return self.media_tokens
            case ToolCall():
                return self.count_text(f"{part.name} {' '.join(_leaves(part.arguments))}")
            case ToolResult():
                return sum(map(self._count_part, part.content))
            case Opaque():
                return self.count_text(part.text or compact_json(part.block))
            case _:
                assert_never(part)


def _leaves(value: Json) -> Iterator[str]:
    """Yield keys and leaves, in order."""
    if is_object(value):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif is_array(value):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield str(value)
