"""The sources that a reply cites beside its text, in words for those who take no citations."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from context_assembler.values.parts import Json, JsonObject, Opaque, ResultPart, Text
from context_assembler.values.reading import as_object, as_text, objects_in

_MAX_QUOTE_CHARS: Final = 120
_ANNOTATIONS: Final = "annotations"

# It gives citations beside its text and has no field to take them back in.
# Types of the openai package 3.57, ChatCompletionAssistantMessageParam (read 2026-11-27)
_TAKES_NONE_BACK: Final = frozenset({"openai_chat"})


def tell_sources(part: ResultPart, *, provider: str) -> Text | None:
    """Return the part as text that names what it cites; `None` where nothing would be lost.

    What the text itself names is not named again; long quotes are cut.

    Args:
        provider: Who it is sent to; what that one cited itself goes back to it untold.

    Source:
        types of the anthropic package 2.14, TextCitation; types of the openai package 3.57,
        ResponseOutputText.Annotation and ChatCompletionMessage.Annotation (read 2026-11-27)
    """
    match part:
        case Text(text, extras=extras):
            cited = [
                source
                for name, held in (extras or {}).items()
                if _is_lost(name, provider)
                for source in _sources(as_object(held))
            ]
            whole = Text(text, extras=_without(extras, provider), signature=part.signature)
        case Opaque(text=text, block=block) if part.provider != provider:
            cited, whole = list(_sources_in(block)), Text(text)
        case _:
            return None
    told = "; ".join(dict.fromkeys(_tell(one) for one in cited if not _is_named(one, text)))
    if not told:
        return None
    said = text.rstrip()
    return replace(whole, text=f"{said} [sources: {told}]{text[len(said) :]}")


def _is_lost(name: str, provider: str) -> bool:
    return name != provider or name in _TAKES_NONE_BACK


def _without(extras: JsonObject | None, provider: str) -> dict[str, Json] | None:
    """Return the fields that the text keeps: all but the annotations that are told."""
    kept: dict[str, Json] = {}
    for name, held in (extras or {}).items():
        fields = dict(as_object(held))
        if _is_lost(name, provider):
            fields.pop(_ANNOTATIONS, None)
        if fields:
            kept[name] = fields
    return kept or None


def _sources_in(block: JsonObject) -> Iterator[JsonObject]:
    """Yield what a block cites: a text of Anthropic's, or a message of OpenAI Responses."""
    kind = block.get("type")
    if kind == "text":
        for _, citation in objects_in(block.get("citations")):
            yield citation
    elif kind == "message":
        for _, piece in objects_in(block.get("content")):
            yield from _sources(piece)


def _sources(fields: JsonObject) -> Iterator[JsonObject]:
    """Yield annotations; Chat Completions has their fields one level further down."""
    for _, annotation in objects_in(fields.get(_ANNOTATIONS)):
        yield as_object(annotation.get(as_text(annotation.get("type")))) or annotation


def _address(source: JsonObject) -> str:
    keys = ("url", "source", "file_id")
    return next((found for key in keys if (found := as_text(source.get(key)).strip())), "")


def _title(source: JsonObject) -> str:
    keys = ("title", "document_title", "filename")
    return next((found for key in keys if (found := as_text(source.get(key)).strip())), "")


def _is_named(source: JsonObject, text: str) -> bool:
    named = _address(source) or _title(source)
    return bool(named) and named in text


def _tell(source: JsonObject) -> str:
    named = ", ".join(filter(None, (_title(source), _address(source))))
    quote = " ".join(as_text(source.get("cited_text")).split())
    if len(quote) > _MAX_QUOTE_CHARS:
        quote = f"{quote[:_MAX_QUOTE_CHARS].rstrip()}…"
    return ": ".join(filter(None, (named, f"“{quote}”" if quote else "")))
