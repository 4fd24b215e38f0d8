"""A draft as keyword arguments of Responses."""

from collections.abc import Mapping
from typing import Final

from context_assembler.errors import EmptySessionError
from context_assembler.providers.openai_responses.adapt import adapt
from context_assembler.providers.openai_responses.dialect import ID_RULE, instruction_role
from context_assembler.providers.openai_responses.joining import (
    join_units,
    opening_for,
    said_by_user,
)
from context_assembler.providers.openai_responses.references import settle_references
from context_assembler.providers.openai_responses.settings import (
    render_parameters,
    render_tool_choice,
    render_tools,
)
from context_assembler.providers.openai_responses.units import Unit, render_units, tool_names
from context_assembler.values.context import Payload
from context_assembler.values.draft import Draft
from context_assembler.values.fenced_messages import OPENING
from context_assembler.values.native.response_items import PROVIDER, Entry
from context_assembler.values.openai.parameters import effort_of
from context_assembler.values.parts import Json
from context_assembler.values.spelled import Speller, spell_history
from context_assembler.values.spelled_prints import fingerprints_of
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.vouching import SpelledPayload
from context_assembler.values.wire import fresh_json

RENDER_VERSION: Final = 1


def render(draft: Draft) -> Payload:
    """Return keyword arguments for `responses.create`; plain JSON, and no argument is `None`.

    Raises:
        UnsupportedRequestError: Responses cannot express the request for this model.
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
    before = [*_system(draft, is_marked=_is_worth_marking(draft)), *opening_for(conversation)]
    payload: Payload = {"model": draft.limits.wire_id}
    payload |= render_parameters(draft)
    if tools:
        payload["tools"] = tools
    payload |= render_tool_choice(draft, names, tools=tools)
    payload["input"] = [*before, *conversation]
    return SpelledPayload(
        payload=payload,
        key="input",
        before=len(before),
        settled=spelled.settled,
        opening=said_by_user(OPENING),
    )


def _speller(
    draft: Draft, names: Mapping[str, str], *, sends_reasoning: bool = True
) -> Speller[Unit, Entry]:
    return Speller(
        name=PROVIDER,
        surroundings=(names, draft.limits, sends_reasoning),
        id_rule=ID_RULE,
        spell=lambda messages, ids: settle_references(
            render_units(messages, ids, draft=draft, names=names, sends_reasoning=sends_reasoning)
        ),
        add=lambda _, units: join_units(units),
    )


def _system(draft: Draft, *, is_marked: bool) -> list[dict[str, Json]]:
    """Return the system prompt as the first message.

    Not as `instructions`: from gpt-6.2 on those hold for one turn, stand behind the input and are
    billed uncached; older models cache either.

    Source:
        https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (read 2026-11-27)
    """
    text = clean_text(draft.system.text)
    if not text.strip():
        return []
    content: Json = text
    if is_marked:
        mark = {"mode": "explicit"}
        content = [{"type": "input_text", "text": text, "prompt_cache_breakpoint": mark}]
    return [{"type": "message", "role": instruction_role(draft.limits), "content": content}]


def _is_worth_marking(draft: Draft) -> bool:
    """Whether the system prompt closes a prefix that is cached apart from the conversation.

    So that it is still found where the conversation behind it was cut.

    Source:
        https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-27)
    """
    if draft.cache != "auto" or not draft.limits.supports("cache_breakpoints"):
        return False
    text = draft.system.text.encode("utf-8", "surrogatepass")
    return len(text) >= draft.limits.cache.least_bytes


def fingerprints(draft: Draft) -> tuple[str, ...]:
    """Return one fingerprint per message boundary: element *i* is what precedes message *i*.

    System prompt, tools, reasoning effort and earlier messages count. Cache markers do not, nor
    does reasoning: which items of a history a model is sent again follows from these, so that what
    stood before a reasoning item when it was made is known without it. Behind OpenAI's own
    compaction what it stands for does not count either: reasoning behind it stays valid.

    Source:
        https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (read 2026-11-27)
    """
    draft, _ = adapt(draft)
    names = tool_names(draft)
    tools = render_tools(draft, names)
    system = _system(draft, is_marked=False)
    head = ["openai_responses", RENDER_VERSION, system, tools, effort_of(draft)]
    return fingerprints_of(
        draft.messages,
        _speller(draft, names, sends_reasoning=False),
        draft.spelled,
        head=head,
        identity=_identity,
        restarts=lambda unit: bool(_compactions(unit)),
    )


def _compactions(unit: Unit) -> list[int]:
    return [at for at, entry in enumerate(unit.items) if entry.get("type") == "compaction"]


def _identity(unit: Unit) -> Json:
    first = max(_compactions(unit), default=0)
    sent = [list(unit.answers), list(unit.items[first:])]
    return sent if any(sent) else None
