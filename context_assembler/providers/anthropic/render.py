"""A draft as keyword arguments of the Messages API."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from context_assembler.errors import EmptySessionError
from context_assembler.providers.anthropic.adapt import adapt
from context_assembler.providers.anthropic.betas import add_beta_header, features_of_messages
from context_assembler.providers.anthropic.blocks import PROVIDER, THINKING_TYPES, place_compaction
from context_assembler.providers.anthropic.cache_marks import add_cache_marks
from context_assembler.providers.anthropic.containers import render_container
from context_assembler.providers.anthropic.joining import (
    join_turns,
    opening_for,
    strip_idle_thinking,
)
from context_assembler.providers.anthropic.settings import (
    render_parameters,
    render_tool_choice,
    render_tools,
    system_blocks,
)
from context_assembler.providers.anthropic.units import (
    ID_RULE,
    Unit,
    offered_names,
    spell_units,
    tool_names,
)
from context_assembler.values.context import Payload
from context_assembler.values.draft import Draft
from context_assembler.values.fenced_messages import OPENING
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import Json
from context_assembler.values.spelled import Speller, spell_history
from context_assembler.values.spelled_prints import fingerprints_of
from context_assembler.values.vouching import SpelledPayload
from context_assembler.values.wire import fresh_json

RENDER_VERSION: Final = 1


def render(draft: Draft) -> Payload:
    """Return keyword arguments for `messages.create`; plain JSON, and nothing that is `None`.

    Raises:
        UnsupportedRequestError: The Messages API cannot express the request for this model.
        EmptySessionError: No message has anything to send.
    """
    return spell(draft).payload


def spell(draft: Draft) -> SpelledPayload:
    """Return the payload with what of it was kept of an earlier one; raises as `render` does."""
    draft, _ = adapt(draft)
    names = tool_names(draft)
    tools = render_tools(draft, names)
    system = system_blocks(draft.system.text)
    spelled = spell_history(draft.messages, _speller(draft, names), draft.spelled)
    conversation = [*map(fresh_json, spelled.settled), *spelled.rest]
    if not conversation:
        raise EmptySessionError(draft.session_id)
    payload: Payload = {"model": draft.limits.wire_id}
    payload |= render_parameters(draft)
    before = opening_for(conversation)
    messages = [*before, *conversation]
    strip_idle_thinking(messages, may_think=_may_think(payload, draft.limits))
    if system:
        payload["system"] = system
    if tools:
        payload["tools"] = tools
    payload |= render_tool_choice(draft, names, tools=tools)
    payload |= render_container(draft, tools=tools)
    payload["messages"] = messages
    if draft.cache == "auto":
        add_cache_marks(payload, draft.limits.cache)
    kept, start = draft.spelled, len(before)
    known = (
        kept.features_of("anthropic betas", spelled.settled, features_of_messages) if kept else ()
    )
    places = slice(start, start + len(spelled.settled))
    add_beta_header(payload, known=frozenset(known), places=places)
    return SpelledPayload(
        payload=payload,
        key="messages",
        before=len(before),
        settled=spelled.settled,
        opening={"role": "user", "content": [{"type": "text", "text": OPENING}]},
    )


def _speller(draft: Draft, names: Mapping[str, str]) -> Speller[Unit, dict[str, Json]]:
    takes_system = draft.limits.supports("mid_conversation_system")
    return Speller(
        name=PROVIDER,
        surroundings=(names, offered_names(draft, names), takes_system),
        id_rule=ID_RULE,
        spell=partial(spell_units, draft=draft, names=names),
        add=lambda _, units: join_turns(units, takes_system=takes_system),
    )


def _may_think(payload: Payload, limits: ModelLimits) -> bool:
    """Whether the model may think: when asked to, and on models that do so unasked."""
    asked = payload.get("thinking", {}).get("type")
    return asked != "disabled" if asked else "budget" not in limits.thinking.kinds


def fingerprints(draft: Draft) -> tuple[str, ...]:
    """Return one fingerprint per message boundary: element *i* is what precedes message *i*.

    System prompt, tools and earlier messages count; cache markers and thinking do not, as they do
    not for the signatures of thinking blocks. Behind a compaction that the API wrote, what it stands
    for does not count either: the prefix begins with the latest one.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
    """
    draft, _ = adapt(draft)
    names = tool_names(draft)
    tools = render_tools(draft, names)
    head = ["anthropic", RENDER_VERSION, system_blocks(draft.system.text), tools]
    return fingerprints_of(
        draft.messages,
        _speller(draft, names),
        draft.spelled,
        head=head,
        identity=_identity,
        restarts=lambda unit: place_compaction(unit.blocks) is not None,
    )


def _identity(unit: Unit) -> Json:
    counting = unit.blocks[place_compaction(unit.blocks) or 0 :]
    blocks = [block for block in counting if block.get("type") not in THINKING_TYPES]
    return [unit.role, blocks, list(unit.fenced)] if blocks or unit.fenced else None
