"""What is said of a document, where an API has no field for it."""

from typing import Final

from context_assembler.values.parts import Document
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.texts.cleaning import clean_text

_TELLS_CONTEXT: Final = "anthropic"


def tell_about(document: Document, *, has_title: bool = False) -> str:
    """Return the title and the context of a document, as text; empty where it has neither.

    Args:
        has_title: Whether the title is sent in a field of its own.

    Source:
        types of the anthropic package 2.14, DocumentBlockParam.context (read 2026-11-27)
    """
    title = "" if has_title else (document.title or "")
    context = as_text(as_object((document.extras or {}).get(_TELLS_CONTEXT)).get("context"))
    told = (clean_text(f"{title}:" if title.strip() else ""), clean_text(context))
    return "\n".join(text for text in told if text.strip())


def tell_text(document: Document) -> str:
    """Return a document of text as text: its title, its context, and what it says."""
    told = (tell_about(document), clean_text(document.text or ""))
    return "\n".join(text for text in told if text)
