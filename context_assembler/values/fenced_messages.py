"""Messages whose role a protocol does not have, as text of the user."""

from collections.abc import Iterable
from typing import Final

from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque, Text
from context_assembler.values.texts.fences import SUMMARY_TAG, fence

OPENING: Final = "(The conversation starts with the assistant.)"
"""What the user says in front of a history that the assistant opens."""


def text_of_system(message: Message) -> str:
    """Return what a system message says: its texts that are not blank, a line each."""
    return text_of_parts(part for part in message.parts if isinstance(part, Text | Opaque))


def text_of_parts(parts: Iterable[Text | Opaque]) -> str:
    """Return the texts that are not blank, joined by line breaks."""
    return "\n".join(part.text for part in parts if part.text.strip())


def fence_summary(message: Message) -> str:
    """Return a summary between tags; of a provider's own that has no text beside it, its words."""
    opaque = (part.text for part in message.parts if isinstance(part, Opaque))
    return fence(SUMMARY_TAG, message.text or "\n".join(filter(None, opaque)))
