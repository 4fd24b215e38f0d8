"""Canonical messages as parts of Gemini contents, one unit per message."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from context_assembler.providers.gemini.content import (
    beside,
    content_parts,
    inside,
    response_part,
    text_part,
    told_beside,
)
from context_assembler.providers.gemini.generations import takes_media_in_responses
from context_assembler.values.draft import Draft
from context_assembler.values.fenced_messages import text_of_system
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media.attachments import (
    is_attachment,
    name_attachment,
    tell_in_result,
)
from context_assembler.values.messages import Message
from context_assembler.values.names import NameRule, with_call_ids
from context_assembler.values.native.gemini_fields import snake_block
from context_assembler.values.native.gemini_parts import PROVIDER, spell_response
from context_assembler.values.offered_tools import wire_names
from context_assembler.values.parts import (
    Document,
    Image,
    Json,
    Part,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.fences import REMINDER_TAG, SUMMARY_TAG, fence
from context_assembler.values.wire import plain_json

# Docstring of `google.genai.types.FunctionDeclaration.name`, google-genai 3.6 (read 2026-11-27)
NAME_RULE: Final = NameRule(
    pattern=re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}"), max_chars=64, opening="_"
)

# Ids are free; each stands for one call, and a response carries that of its call.
ID_RULE: Final = NameRule(pattern=re.compile(r"[!-~]{1,128}"), max_chars=64)

# Base64 of the text that the documentation names for calls whose signature nobody has: those of
# other models, and of imported histories.
# https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
PLACEHOLDER: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="

UnitRole: TypeAlias = Literal["user", "model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One canonical message, rendered by itself.

    `responses` are the responses of its functions, `attachments` what those returned that does not
    fit into them, `parts` the rest.
    """

    role: UnitRole
    parts: tuple[dict[str, Json], ...] = ()
    responses: tuple[dict[str, Json], ...] = ()
    attachments: tuple[dict[str, Json], ...] = ()

    @property
    def speaker(self) -> str:
        """`model` or `user`; empty where nothing is sent."""
        return self.role if self.parts or self.responses else ""

    @property
    def stands_alone(self) -> bool:
        """Whether it is what it is, whatever stands around it: a model's answers are not."""
        return self.role != "model" or not self.responses


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """What the messages of a draft need to know beside themselves.

    Attributes:
        names_by_call: The name of a call's function, by the call's id as it is sent.
        is_multimodal: Whether functions may return images and documents.
    """

    names: Mapping[str, str]
    names_by_call: Mapping[str, str]
    is_multimodal: bool


def tool_names(draft: Draft) -> dict[str, str]:
    """Return every tool's name with the one that goes over the wire, one to one."""
    return wire_names(draft, rule=NAME_RULE)


def render_units(
    messages: Sequence[Message],
    ids: Sequence[tuple[str, ...]],
    *,
    limits: ModelLimits,
    names: Mapping[str, str],
) -> list[Unit]:
    """Return one unit per message, in order.

    Args:
        ids: Those of their calls and results, as they are sent.
        names: Those of `tool_names`.
    """
    names_by_call = {
        call_id: call.name
        for message, own_ids in zip(messages, ids, strict=True)
        for call, call_id in with_call_ids(message, own_ids)
        if isinstance(call, ToolCall)
    }
    spelling = Spelling(
        names=names,
        names_by_call=names_by_call,
        is_multimodal=takes_media_in_responses(limits.id),
    )
    return [
        _unit(message, own_ids, spelling) for message, own_ids in zip(messages, ids, strict=True)
    ]


def _unit(message: Message, own_ids: tuple[str, ...], spelling: Spelling) -> Unit:
    if message.kind == "summary":
        return Unit(role="user", parts=(text_part(fence(SUMMARY_TAG, message.text)),))
    if message.role == "system":
        return Unit(role="user", parts=tuple(_reminder(message)))
    results = [
        (part, call_id)
        for part, call_id in with_call_ids(message, own_ids)
        if isinstance(part, ToolResult)
    ]
    is_reply = message.role == "assistant"
    said = (
        _model_parts(message, own_ids, spelling)
        if is_reply
        else (spelled for part in message.parts for spelled in content_parts(part))
    )
    return Unit(
        role="model" if is_reply else "user",
        parts=tuple(said),
        responses=tuple(_response(result, call_id, spelling) for result, call_id in results),
        attachments=tuple(_attachments(results, spelling)),
    )


def _reminder(message: Message) -> Iterator[dict[str, Json]]:
    """Yield instructions given on the way, fenced: contents know no role for them.

    Source:
        docstring of `google.genai.types.Content.role`, google-genai 3.6 (read 2026-11-27)
    """
    text = text_of_system(message)
    if text:
        yield text_part(fence(REMINDER_TAG, text))
    for part in message.parts:
        if isinstance(part, Image | Document):
            yield from content_parts(part)


def _model_parts(
    message: Message, own_ids: tuple[str, ...], spelling: Spelling
) -> Iterator[dict[str, Json]]:
    remaining_ids = iter(own_ids)
    is_own = message.made_by is None or message.made_by.provider == PROVIDER
    for part in message.parts:
        call_id = next(remaining_ids) if isinstance(part, ToolCall | ToolResult) else ""
        for spelled in _model_part(part, call_id, spelling):
            signature = part.signature if isinstance(part, Text | ToolCall) else None
            if signature and is_own:
                spelled["thought_signature"] = clean_text(signature)
            yield spelled


def _model_part(part: Part, call_id: str, spelling: Spelling) -> Iterator[dict[str, Json]]:
    match part:
        case ToolCall():
            name = spelling.names.get(part.name, part.name)
            arguments = plain_json(part.arguments)
            call: dict[str, Json] = {"id": call_id, "name": name, "args": arguments}
            yield {"function_call": call, **beside(part, "function_call")}
        case Thinking():
            if part.block is not None and part.provider == PROVIDER:
                yield plain_json(snake_block(part.block))
        case _:
            yield from content_parts(part)  # results stand in a content of their own


def _response(result: ToolResult, call_id: str, spelling: Spelling) -> dict[str, Json]:
    """Return what a function answered; media inside where the model takes it there."""
    placed = _place_media(result, spelling)
    texts = [
        tell_in_result(part) if within is None else told_beside(part) for part, within in placed
    ]
    texts = [text for text in texts if text.strip()]
    if result.is_error and not texts:
        texts = ["The tool failed without saying why."]
    fields: dict[str, Json] = {
        "id": call_id,
        "name": _function_name(result, call_id, spelling),
        "response": plain_json(spell_response(texts, is_error=result.is_error)),
    }
    media = [within for _, within in placed if within is not None]
    fields |= {"parts": media} if media else {}
    spelled = fields | inside(result, "function_response")
    return {"function_response": spelled, **beside(result, "function_response")}


def _place_media(
    result: ToolResult, spelling: Spelling
) -> list[tuple[ResultPart, dict[str, Json] | None]]:
    """Return the parts of a result, each with what it is inside the response, if it fits there."""
    if not spelling.is_multimodal:
        return [(part, None) for part in result.content]
    return [(part, response_part(part)) for part in result.content]


def _attachments(
    results: list[tuple[ToolResult, str]], spelling: Spelling
) -> Iterator[dict[str, Json]]:
    for result, call_id in results:
        for part, within in _place_media(result, spelling):
            if within is None and is_attachment(part):
                name = _function_name(result, call_id, spelling)
                yield text_part(name_attachment(part, tool=name, call_id=call_id))
                yield from content_parts(part)


def _function_name(result: ToolResult, call_id: str, spelling: Spelling) -> str:
    """Return the name that the response must carry: that of the call it answers."""
    name = spelling.names_by_call.get(call_id, result.tool_name or "unknown")
    return spelling.names.get(name) or NAME_RULE.respell(name)
