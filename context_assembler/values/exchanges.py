"""Runs of messages that are kept or dropped together."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from context_assembler.values.messages import Message
from context_assembler.values.parts import ToolResult

NO_RESULT: Final = "No result was recorded for this call; it may or may not have run."

Exchange: TypeAlias = tuple[Message, ...]


def split_exchanges(messages: Sequence[Message]) -> list[Exchange]:
    """Group a repaired history into exchanges, oldest first.

    An assistant message with calls and the results behind it form one exchange, any other message
    one of its own. System messages and notes belong to the exchange they follow.
    """
    groups: list[list[Message]] = []
    for message in messages:
        belongs = message.role in ("tool", "system") or message.kind == "note"
        if belongs and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return [tuple(group) for group in groups]


def stands_in(result: ToolResult) -> bool:
    """Whether the result was made up for a call that nobody answered."""
    return result.is_error and result.text == NO_RESULT
