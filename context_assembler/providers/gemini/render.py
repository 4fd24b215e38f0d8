"""A draft as keyword arguments of `generate_content`."""

from typing import Final

from context_assembler.errors import EmptySessionError
from context_assembler.providers.gemini.adapt import adapt
from context_assembler.providers.gemini.generations import is_on_vertex, takes_signatures
from context_assembler.providers.gemini.joining import join_units
from context_assembler.providers.gemini.settings import (
    PREVIEW_VERSION,
    needs_preview,
    render_config,
    render_tools,
)
from context_assembler.providers.gemini.units import Unit, render_units, tool_names
from context_assembler.values.context import Payload
from context_assembler.values.draft import Draft
from context_assembler.values.fingerprints import rolling_fingerprints
from context_assembler.values.native.gemini_parts import PROVIDER
from context_assembler.values.parts import Json
from context_assembler.values.texts.cleaning import clean_text

RENDER_VERSION: Final = 1


def render(draft: Draft) -> Payload:
    """Return keyword arguments for `client.models.generate_content`.

    Plain JSON with the SDK's field names, bytes as base64 text, and nothing that is `None`.

    Raises:
        UnsupportedRequestError: The API cannot express the request for this model.
        EmptySessionError: No message has anything to send.
    """
    draft, _ = adapt(draft)
    names = tool_names(draft)
    tools = render_tools(draft, names)
    contents = join_units(render_units(draft, names), signs_calls=takes_signatures(draft.limits.id))
    if not contents:
        raise EmptySessionError(draft.session_id)
    config = render_config(draft, names, tools=tools)
    if needs_preview(contents) and not is_on_vertex(draft.limits):
        config["http_options"] = {"api_version": PREVIEW_VERSION}
    return {
        "model": draft.limits.wire_id,
        "contents": contents,
        "config": config,
    }


def fingerprints(draft: Draft) -> tuple[str, ...]:
    """Return one fingerprint per message boundary: element *i* is what precedes message *i*.

    Instructions, tools and earlier messages count; thoughts and signatures do not. Signatures are
    not bound to what stands before them; the cache is.

    Source:
        https://ai.google.dev/gemini-api/docs/thought-signatures
        https://ai.google.dev/gemini-api/docs/caching (read 2026-11-27)
    """
    draft, _ = adapt(draft)
    names = tool_names(draft)
    system = clean_text(draft.system.text)
    head = [PROVIDER, RENDER_VERSION, system if system.strip() else "", render_tools(draft, names)]
    return rolling_fingerprints(head, map(_identity, render_units(draft, names)))


def _identity(unit: Unit) -> Json:
    said = [_unsigned(part) for part in unit.parts if not _is_thought(part)]
    sent = [list(unit.responses), list(unit.attachments), said]
    return [unit.role, *sent] if any(sent) else None


def _is_thought(part: dict[str, Json]) -> bool:
    """Whether a part is a thought, or nothing but a signature."""
    is_signature = "thought_signature" in part and not part.keys() - {"thought_signature", "text"}
    is_thought = part.get("thought") is True and "function_call" not in part
    return is_thought or (is_signature and not str(part.get("text", "")).strip())


def _unsigned(part: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in part.items() if key != "thought_signature"}
