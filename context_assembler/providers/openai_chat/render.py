"""A draft as keyword arguments of Chat Completions."""

from typing import Final

from context_assembler.errors import EmptySessionError
from context_assembler.providers.openai_chat.adapt import adapt
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
from context_assembler.values.fingerprints import rolling_fingerprints
from context_assembler.values.parts import Json
from context_assembler.values.texts.cleaning import clean_text

RENDER_VERSION: Final = 1


def render(draft: Draft) -> Payload:
    """Return keyword arguments for `chat.completions.create`; plain JSON, nothing that is `None`.

    Raises:
        UnsupportedRequestError: Chat Completions cannot express the request for this model.
        EmptySessionError: No message has anything to send.
    """
    draft, _ = adapt(draft)
    dialect = dialect_of(draft.limits)
    names = tool_names(draft)
    tools = render_tools(draft, names)
    conversation = join_units(render_units(draft, names), merges_users=dialect.merges_users)
    if not conversation:
        raise EmptySessionError(draft.session_id)
    if conversation[0]["role"] == "assistant":
        conversation.insert(0, {"role": "user", "content": OPENING})
    payload: Payload = {"model": draft.limits.wire_id}
    payload |= render_parameters(draft, dialect)
    if tools:
        payload["tools"] = tools
    payload |= render_tool_choice(draft, names, tools=tools)
    payload["messages"] = [*_system(draft, dialect), *conversation]
    return payload


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
    return rolling_fingerprints(head, map(_identity, render_units(draft, names)))


def _identity(unit: Unit) -> Json:
    sent = [list(unit.answers), list(unit.attachments), list(unit.messages)]
    return sent if any(sent) else None
