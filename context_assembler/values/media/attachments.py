"""Results of calls where a result is text: what becomes of the rest, and how it is named."""

from typing import assert_never

from context_assembler.values.media.document_texts import tell_text
from context_assembler.values.parts import Document, Image, Opaque, ResultPart, Text
from context_assembler.values.texts.cleaning import clean_text


def is_attachment(part: ResultPart) -> bool:
    """Whether the part cannot be told in text."""
    return isinstance(part, Image) or (isinstance(part, Document) and part.text is None)


def tell_in_result(part: ResultPart) -> str:
    """Return what the text of a result says of a part: itself, or where it is attached."""
    match part:
        case Text(text):
            return clean_text(text)
        case Image():
            return "[image attached in the next user message]"
        case Document(text=None):
            return "[document attached in the next user message]"
        case Document():
            return tell_text(part)
        case Opaque():
            return clean_text(part.text)
        case _:
            assert_never(part)


def name_attachment(part: ResultPart, *, tool: str, call_id: str) -> str:
    """Return the line in front of what a tool returned beside its text."""
    kind = "Image" if isinstance(part, Image) else "Document"
    return f"{kind} returned by {tool} ({call_id}):"
