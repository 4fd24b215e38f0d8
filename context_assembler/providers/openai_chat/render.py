"""A draft as keyword arguments of Chat Completions."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from context_assembler.errors import EmptySessionError
from context_assembler.providers.openai_chat.adapt import adapt
from context_assembler.providers.openai_chat.content import PROVIDER
from context_assembler.providers.openai_chat.dialect import Dialect, dialect_of
from context_assembler.providers.openai_chat.joining import join_units
from context_assembler.providers.openai_chat.settings import (
    render_parameters,
    render_tool_choice,
    render_tools,
)
from context_assembler.providers.openai_chat.units import Unit, render_units, tool_names
from context_assembler.values.context import Payload
from context_assembler.values.draft import Draft
from context_assembler.values.fenced_messages import OPENING
from context_assembler.values.parts import Json
from context_assembler.values.spelled import Speller, spell_history
from context_assembler.values.spelled_prints import fingerprints_of
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.vouching import SpelledPayload
from context_assembler.values.wire import fresh_json

RENDER_VERSION: Final = 1


def render(draft: Draft) -> Payload:
    """Return keyword arguments for `chat.completions.create`; plain JSON, nothing that is `None`.

    Raises:
        UnsupportedRequestError: Chat Completions cannot express the request for this model.
        EmptySessionError: No message has anything to send.
    """
    return spell(draft).payload


def spell(draft: Draft) -> SpelledPayload:
    """Return the payload with what of it was kept of an earlier one; raises as `render` does."""
    draft, _ = adapt(draft)
    dialect = dialect_of(draft.limits)
    names = tool_names(draft)
    tools = render_tools(draft, names)
    spelled = spell_history(draft.messages, _speller(dialect, names), draft.spelled)
    conversation = [*map(fresh_json, spelled.settled), *spelled.rest]
    if not conversation:
        raise EmptySessionError(draft.session_id)
    opening: dict[str, Json] = {"role": "user", "content": OPENING}
    before = _system(draft, dialect)
    if conversation[0]["role"] == "assistant":
        before.append(dict(opening))
    payload: Payload = {"model": draft.limits.wire_id}
    payload |= render_parameters(draft, dialect)
    if tools:
        payload["tools"] = tools
    payload |= render_tool_choice(draft, names, tools=tools)
    payload["messages"] = [*before, *conversation]
    return SpelledPayload(
        payload=payload,
        key="messages",
        before=len(before),
        settled=spelled.settled,
        opening=opening,
    )


def _speller(dialect: Dialect, names: Mapping[str, str]) -> Speller[Unit, dict[str, Json]]:
    return Speller(
        name=PROVIDER,
        surroundings=(dialect, names),
        id_rule=dialect.id_rule,
        spell=partial(render_units, dialect=dialect, names=names),
        add=lambda _, units: join_units(units, merges_users=dialect.merges_users),
    )


def _system(draft: Draft, dialect: Dialect) -> list[dict[str, Json]]:
    text = clean_text(draft.system.text)
    return [{"role": dialect.instruction_role, "content": text}] if text.strip() else []


def fingerprints(draft: Draft) -> tuple[str, ...]:
    """Return one fingerprint per message boundary: element *i* is what precedes message *i*.

    System prompt, tools and earlier messages count; thinking is not part of a chat message.
    """
    draft, _ = adapt(draft)
    dialect = dialect_of(draft.limits)
    names = tool_names(draft)
    tools = render_tools(draft, names)
    head = ["openai_chat", RENDER_VERSION, _system(draft, dialect), tools]
    speller = _speller(dialect, names)
    return fingerprints_of(draft.messages, speller, draft.spelled, head=head, identity=_identity)


def _identity(unit: Unit) -> Json:
    sent = [list(unit.answers), list(unit.attachments), list(unit.messages)]
    return sent if any(sent) else None
