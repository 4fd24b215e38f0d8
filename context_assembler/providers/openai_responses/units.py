"""Canonical messages as items, one unit per message."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from context_assembler.providers.openai_responses.content import (
    Piece,
    is_content,
    pieces_of,
    plain_text,
    text_piece,
)
from context_assembler.providers.openai_responses.dialect import (
    ID_RULE,
    NAME_RULE,
    instruction_role,
)
from context_assembler.providers.openai_responses.items import Entry, Spelling, reply_items
from context_assembler.providers.openai_responses.outputs import Answered, output_entry
from context_assembler.values.draft import Draft
from context_assembler.values.fences import fence
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.names import respell_names, spell_call_ids
from context_assembler.values.parts import (
    Document,
    Image,
    JsonObject,
    Opaque,
    Part,
    Text,
    ToolCall,
    ToolResult,
)
from context_assembler.values.reading import as_text
from context_assembler.values.response_items import PROVIDER, own_extras
from context_assembler.values.wire import plain_json

UnitRole: TypeAlias = Literal["user", "assistant", "system"]

_NO_SYSTEM_AUTHORITY: Final = frozenset({"memory", "tool", "file"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One canonical message, rendered by itself; `answers` are the outputs of its results."""

    role: UnitRole
    items: tuple[Entry, ...] = ()
    answers: tuple[Entry, ...] = ()


def tool_names(draft: Draft) -> dict[str, str]:
    """Return every tool's name with the one that goes over the wire, one to one."""
    native = {
        tool.name: name
        for tool in draft.tools
        if (spec := tool.native_specs.get(PROVIDER)) is not None and (name := _native_name(spec))
    }
    called = (call.name for message in draft.messages for call in message.tool_calls)
    plain = {*(tool.name for tool in draft.tools), *called} - native.keys()
    return respell_names(plain, rule=NAME_RULE) | native


def _native_name(spec: JsonObject) -> str:
    return as_text(spec.get("name"))


def render_units(
    draft: Draft, names: Mapping[str, str], *, sends_reasoning: bool = True
) -> list[Unit]:
    """Return one unit per message, in order; `names` are those of `tool_names`."""
    ids = spell_call_ids(draft.messages, rule=ID_RULE)
    kinds = {
        call_id: as_text(own_extras(call).get("type"))
        for message, own_ids in zip(draft.messages, ids, strict=True)
        for call, call_id in _with_ids(message, own_ids)
        if isinstance(call, ToolCall)
    }
    spelling = Spelling(
        limits=draft.limits, names=names, kinds_by_call=kinds, sends_reasoning=sends_reasoning
    )
    return [
        _unit(message, own_ids, spelling)
        for message, own_ids in zip(draft.messages, ids, strict=True)
    ]


def _unit(message: Message, own_ids: tuple[str, ...], spelling: Spelling) -> Unit:
    if message.kind == "summary":
        return Unit(role="user", items=tuple(_say("user", [text_piece(_summary(message))])))
    if message.role == "system":
        return _system_unit(message, spelling.limits)
    paired = list(_with_ids(message, own_ids))
    answers = tuple(
        output_entry(
            part,
            Answered(call_id=call_id, kind=spelling.kinds_by_call.get(call_id, "")),
        )
        for part, call_id in paired
        if isinstance(part, ToolResult)
    )
    if message.role == "assistant":
        call_ids = [call_id for part, call_id in paired if isinstance(part, ToolCall)]
        items = tuple(reply_items(message, call_ids, spelling))
        return Unit(role="assistant", items=items, answers=answers)
    return Unit(role="user", items=tuple(_user_items(message.parts)), answers=answers)


def _summary(message: Message) -> str:
    return fence("summary", message.text)


def _with_ids(
    message: Message, own_ids: tuple[str, ...]
) -> Iterator[tuple[ToolCall | ToolResult, str]]:
    parts = (part for part in message.parts if isinstance(part, ToolCall | ToolResult))
    yield from zip(parts, own_ids, strict=True)


def _user_items(parts: Iterable[Part]) -> Iterator[Entry]:
    """Yield what the user said, and between it the items that a client adds by itself."""
    said: list[Piece] = []
    for part in parts:
        is_entry = isinstance(part, Opaque) and part.provider == PROVIDER and not is_content(part)
        if isinstance(part, Opaque) and is_entry:
            yield from _say("user", said)
            said = []
            yield plain_json(part.block)
        else:
            said.extend(pieces_of(part))
    yield from _say("user", said)


def _say(role: str, pieces: Sequence[Piece]) -> Iterator[Entry]:
    """Yield a message, a lone text as a plain string; none without content."""
    if not pieces:
        return
    lone = plain_text(list(pieces)) if len(pieces) == 1 else None
    yield {"type": "message", "role": role, "content": list(pieces) if lone is None else lone}


def _system_unit(message: Message, limits: ModelLimits) -> Unit:
    """Return instructions given late under their role, or fenced where they have no authority."""
    own = [part for part in message.parts if isinstance(part, Opaque) and part.provider == PROVIDER]
    text = "\n".join(
        part.text
        for part in message.parts
        if isinstance(part, Text | Opaque) and part not in own and part.text.strip()
    )
    has_authority = message.origin not in _NO_SYSTEM_AUTHORITY
    media = [
        piece
        for part in message.parts
        if isinstance(part, Image | Document)
        for piece in pieces_of(part)
    ]
    items = [plain_json(part.block) for part in own if has_authority and not is_content(part)]
    if not has_authority or media:
        reminder = [text_piece(fence("system-reminder", text))] if text else []
        said = list(_say("user", [*reminder, *media]))
        return Unit(role="user", items=(*said, *items))
    said = list(_say(instruction_role(limits), [text_piece(text)] if text else []))
    return Unit(role="system", items=(*said, *items))
