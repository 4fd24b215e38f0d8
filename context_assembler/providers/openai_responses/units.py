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
from context_assembler.providers.openai_responses.dialect import NAME_RULE, instruction_role
from context_assembler.providers.openai_responses.forms import CallForm, call_forms
from context_assembler.providers.openai_responses.items import Spelling, reply_items
from context_assembler.providers.openai_responses.outputs import output_entry
from context_assembler.providers.openai_responses.tool_changes import added_tools
from context_assembler.values.draft import Draft
from context_assembler.values.exchanges import stands_in
from context_assembler.values.fenced_messages import fence_summary, text_of_parts
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.names import with_call_ids
from context_assembler.values.native.response_items import (
    PROVIDER,
    Entry,
    is_sealed_compaction,
    sendable,
)
from context_assembler.values.offered_tools import known_tools, wire_names
from context_assembler.values.parts import (
    NO_SYSTEM_AUTHORITY,
    Document,
    Image,
    Opaque,
    Part,
    Text,
    ToolCall,
    ToolResult,
)
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.texts.fences import REMINDER_TAG, fence

# Items that refer to others, are referred to, or change what tools there are.
REFERRING: Final = frozenset(
    {
        "program",
        "program_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "additional_tools",
        "item_reference",
        "compaction",
    }
)

UnitRole: TypeAlias = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One canonical message, rendered by itself; `answers` are the outputs of its results."""

    role: UnitRole
    items: tuple[Entry, ...] = ()
    answers: tuple[Entry, ...] = ()

    @property
    def speaker(self) -> str:
        """`model` or `user`; empty where nothing is sent."""
        if not (self.items or self.answers):
            return ""
        return "model" if self.role == "assistant" else "user"

    @property
    def stands_alone(self) -> bool:
        """Whether it is what it is, whatever stands around it: no item refers to another, but by id."""
        return not any(
            entry.get("type") in REFERRING or "caller" in entry
            for entry in (*self.items, *self.answers)
        )


def tool_names(draft: Draft) -> dict[str, str]:
    """Return every tool's name with the one that goes over the wire, one to one."""
    native = {
        tool.name: name
        for tool in known_tools(draft)
        if (name := as_text(as_object(tool.native_specs.get(PROVIDER)).get("name")))
    }
    return wire_names(draft, rule=NAME_RULE, native_names=native)


def render_units(
    messages: Sequence[Message],
    ids: Sequence[tuple[str, ...]],
    *,
    draft: Draft,
    names: Mapping[str, str],
    sends_reasoning: bool = True,
) -> list[Unit]:
    """Return one unit for each of these messages of the draft, in order.

    Args:
        ids: Those of their calls and results, as they are sent.
        names: Those of `tool_names`.
    """
    spelling = Spelling(
        limits=draft.limits,
        names=names,
        forms=call_forms(messages, ids, limits=draft.limits, sends_reasoning=sends_reasoning),
        sends_reasoning=sends_reasoning,
    )
    return [
        _unit(message, own_ids, spelling, tuple(added_tools(message, draft, names)))
        for message, own_ids in zip(messages, ids, strict=True)
    ]


def _unit(
    message: Message, own_ids: tuple[str, ...], spelling: Spelling, added: tuple[Entry, ...]
) -> Unit:
    if added:
        return Unit(role="system", items=added)
    if message.kind == "summary":
        return Unit(role="user", items=tuple(_summary(message)))
    if message.role == "system":
        return _system_unit(message, spelling.limits)
    paired = list(with_call_ids(message, own_ids))
    answers = tuple(_answers(paired, spelling))
    if message.role == "assistant":
        call_ids = [call_id for part, call_id in paired if isinstance(part, ToolCall)]
        items = tuple(reply_items(message, call_ids, spelling))
        return Unit(role="assistant", items=items, answers=answers)
    return Unit(role="user", items=tuple(_user_items(message.parts)), answers=answers)


def _summary(message: Message) -> Iterator[Entry]:
    """Yield OpenAI's own compaction where there is one, in place of the text that says the same.

    One that was asked for stands behind the user's messages, and goes back with them.

    Source:
        https://developers.openai.com/api/docs/guides/compaction
        types of the openai package 3.57, CompactedResponse (read 2026-11-27)
    """
    own = [
        sendable(part.block)
        for part in message.parts
        if isinstance(part, Opaque) and part.provider == PROVIDER
    ]
    if any(map(is_sealed_compaction, own)):
        yield from own
        return
    yield from _say("user", [text_piece(fence_summary(message))])


def _answers(
    paired: Iterable[tuple[ToolCall | ToolResult, str]], spelling: Spelling
) -> Iterator[Entry]:
    """Yield the outputs of results; a call that may stay unanswered needs none made up for it."""
    for part, call_id in paired:
        form = spelling.forms.get(call_id, CallForm())
        if isinstance(part, ToolResult) and not (form.is_open and stands_in(part)):
            yield output_entry(part, call_id, form)


def _user_items(parts: Iterable[Part]) -> Iterator[Entry]:
    """Yield what the user said, and between it the items that a client adds by itself."""
    said: list[Piece] = []
    for part in parts:
        if isinstance(part, Opaque) and _is_own_entry(part):
            yield from _say("user", said)
            said = []
            yield sendable(part.block)
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
    has_authority = message.origin not in NO_SYSTEM_AUTHORITY
    own = [part for part in message.parts if has_authority and _is_own_entry(part)]
    text = text_of_parts(
        part for part in message.parts if isinstance(part, Text | Opaque) and part not in own
    )
    media = [
        piece
        for part in message.parts
        if isinstance(part, Image | Document)
        for piece in pieces_of(part)
    ]
    items = [sendable(part.block) for part in own if isinstance(part, Opaque)]
    if not has_authority or media:
        reminder = [text_piece(fence(REMINDER_TAG, text))] if text else []
        said = list(_say("user", [*reminder, *media]))
        return Unit(role="user", items=(*said, *items))
    said = list(_say(instruction_role(limits), [text_piece(text)] if text else []))
    return Unit(role="system", items=(*said, *items))


def _is_own_entry(part: Part) -> bool:
    return isinstance(part, Opaque) and part.provider == PROVIDER and not is_content(part)
