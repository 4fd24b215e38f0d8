"""A draft as keyword arguments of `generate_content`."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from context_assembler.errors import EmptySessionError
from context_assembler.providers.gemini.adapt import adapt
from context_assembler.providers.gemini.generations import is_on_vertex, takes_signatures
from context_assembler.providers.gemini.joining import (
    closing_for,
    join_units,
    opening_for,
    said_by_user,
)
from context_assembler.providers.gemini.settings import (
    PREVIEW_VERSION,
    needs_preview,
    render_config,
    render_tools,
)
from context_assembler.providers.gemini.units import ID_RULE, Unit, render_units, tool_names
from context_assembler.values.context import Payload
from context_assembler.values.draft import Draft
from context_assembler.values.fenced_messages import OPENING
from context_assembler.values.native.gemini_parts import PROVIDER
from context_assembler.values.parts import Json
from context_assembler.values.spelled import Spelled, Speller, spell_history
from context_assembler.values.spelled_prints import fingerprints_of
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.vouching import SpelledPayload
from context_assembler.values.wire import fresh_json

RENDER_VERSION: Final = 1


def render(draft: Draft) -> Payload:
    """Return keyword arguments for `client.models.generate_content`.

    Plain JSON with the SDK's field names, bytes as base64 text, and nothing that is `None`.

    Raises:
        UnsupportedRequestError: The API cannot express the request for this model.
        EmptySessionError: No message has anything to send.
    """
    return spell(draft).payload


def spell(draft: Draft) -> SpelledPayload:
    """Return the payload with what of it was kept of an earlier one; raises as `render` does."""
    draft, _ = adapt(draft)
    names = tool_names(draft)
    tools = render_tools(draft, names)
    spelled = spell_history(draft.messages, _speller(draft, names), draft.spelled)
    conversation = [*map(fresh_json, spelled.settled), *spelled.rest]
    if not conversation:
        raise EmptySessionError(draft.session_id)
    before = opening_for(conversation)
    contents = [*before, *conversation, *closing_for(conversation)]
    config = render_config(draft, names, tools=tools)
    if _needs_preview(spelled, draft) and not is_on_vertex(draft.limits):
        config["http_options"] = {"api_version": PREVIEW_VERSION}
    payload = {
        "model": draft.limits.wire_id,
        "contents": contents,
        "config": config,
    }
    return SpelledPayload(
        payload=payload,
        key="contents",
        before=len(before),
        settled=spelled.settled,
        opening=said_by_user(OPENING),
    )


def _needs_preview(spelled: Spelled[dict[str, Json]], draft: Draft) -> bool:
    """Whether any content does; what is settled was looked through before."""
    if needs_preview(spelled.rest):
        return True
    kept = draft.spelled
    return kept is not None and bool(
        kept.features_of(
            "gemini preview",
            spelled.settled,
            lambda contents: ("preview",) if needs_preview(contents) else (),
        )
    )


def _speller(draft: Draft, names: Mapping[str, str]) -> Speller[Unit, dict[str, Json]]:
    model = draft.limits.id
    return Speller(
        name=PROVIDER,
        surroundings=(names, model),
        id_rule=ID_RULE,
        spell=partial(render_units, limits=draft.limits, names=names),
        add=lambda _, units: join_units(units, signs_calls=takes_signatures(model)),
    )


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
    speller = _speller(draft, names)
    return fingerprints_of(draft.messages, speller, draft.spelled, head=head, identity=_identity)


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
