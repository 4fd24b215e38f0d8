"""Canonical messages as chat messages, one unit per message."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from context_assembler.providers.openai_chat.content import (
    PROVIDER,
    text_part,
    text_parts,
    user_content,
)
from context_assembler.providers.openai_chat.dialect import NAME_RULE, Dialect
from context_assembler.values.draft import Draft
from context_assembler.values.fenced_messages import fence_summary, text_of_system
from context_assembler.values.media.attachments import (
    is_attachment,
    name_attachment,
    tell_in_result,
)
from context_assembler.values.messages import Message
from context_assembler.values.names import with_call_ids
from context_assembler.values.native.chat_calls import write_custom
from context_assembler.values.offered_tools import known_tools, wire_names
from context_assembler.values.openai.outputs import NO_OUTPUT, mark_failure
from context_assembler.values.parts import (
    NO_SYSTEM_AUTHORITY,
    Document,
    Image,
    Json,
    Opaque,
    Part,
    Text,
    ToolCall,
    ToolResult,
)
from context_assembler.values.reading import as_object
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.fences import REMINDER_TAG, fence
from context_assembler.values.wire import compact_json, parse_json_object, plain_json

UnitRole: TypeAlias = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One canonical message, rendered by itself.

    `answers` are the tool messages of its results, `attachments` the images and files that those
    results returned, `messages` the rest.
    """

    role: UnitRole
    messages: tuple[dict[str, Json], ...] = ()
    answers: tuple[dict[str, Json], ...] = ()
    attachments: tuple[dict[str, Json], ...] = ()

    @property
    def speaker(self) -> str:
        """`model` or `user`; empty where nothing is sent."""
        if not (self.messages or self.answers):
            return ""
        return "model" if self.role == "assistant" else "user"

    @property
    def stands_alone(self) -> bool:
        """Whether it is what it is, whatever stands around it: a reply without words is not."""
        return self.role != "assistant" or bool(self.messages) or not self.answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """What the messages of a draft need to know beside themselves."""

    dialect: Dialect
    names: Mapping[str, str]
    tools_by_call: Mapping[str, str]


def tool_names(draft: Draft) -> dict[str, str]:
    """Return every tool's name with the one that goes over the wire, one to one."""
    native = {
        tool.name: name
        for tool in known_tools(draft)
        if (spec := tool.native_specs.get(PROVIDER)) is not None
        and isinstance(name := _native_name(spec), str)
    }
    return wire_names(draft, rule=NAME_RULE, native_names=native)


def _native_name(spec: Mapping[str, Json]) -> Json:
    inner = as_object(spec.get(str(spec.get("type"))))
    return inner.get("name", spec.get("name"))


def render_units(
    messages: Sequence[Message],
    ids: Sequence[tuple[str, ...]],
    *,
    dialect: Dialect,
    names: Mapping[str, str],
) -> list[Unit]:
    """Return one unit per message, in order.

    Args:
        ids: Those of their calls and results, as they are sent.
        names: Those of `tool_names`.
    """
    tools_by_call = {
        call_id: call.name
        for message, own_ids in zip(messages, ids, strict=True)
        for call, call_id in with_call_ids(message, own_ids)
        if isinstance(call, ToolCall)
    }
    spelling = Spelling(dialect=dialect, names=names, tools_by_call=tools_by_call)
    return [
        _unit(message, own_ids, spelling) for message, own_ids in zip(messages, ids, strict=True)
    ]


def _unit(message: Message, own_ids: tuple[str, ...], spelling: Spelling) -> Unit:
    if message.kind == "summary":
        return Unit(role="user", messages=tuple(_say("user", fence_summary(message))))
    if message.role == "system":
        return _system_unit(message, spelling)
    is_reply = message.role == "assistant"
    said = (
        _assistant(message, own_ids, spelling)
        if is_reply
        else _say("user", _user_parts(message.parts))
    )
    results = [
        (part, call_id)
        for part, call_id in with_call_ids(message, own_ids)
        if isinstance(part, ToolResult)
    ]
    return Unit(
        role="assistant" if is_reply else "user",
        messages=tuple(said),
        answers=tuple(_answer(part, call_id) for part, call_id in results),
        attachments=tuple(_attachments(results, spelling)),
    )


def _user_parts(parts: Iterable[Part]) -> list[dict[str, Json]]:
    return [content for part in parts for content in user_content(part)]


def _say(role: str, content: str | list[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    """Yield a message, a lone text as a plain string; none without content."""
    if isinstance(content, list) and len(content) == 1 and content[0].get("type") == "text":
        content = str(content[0]["text"])
    if content:
        yield {
            "role": role,
            "content": clean_text(content) if isinstance(content, str) else content,
        }


def _system_unit(message: Message, spelling: Spelling) -> Unit:
    """Return a system message under its role, or fenced for a server that takes none so late."""
    text = text_of_system(message)
    media = _user_parts(part for part in message.parts if isinstance(part, Image | Document))
    takes_role = spelling.dialect.takes_late_instructions
    if takes_role and not media and message.origin not in NO_SYSTEM_AUTHORITY:
        said = _say(spelling.dialect.instruction_role, text)
        return Unit(role="system", messages=tuple(said))
    reminder = [text_part(fence(REMINDER_TAG, text))] if text else []
    return Unit(role="user", messages=tuple(_say("user", [*reminder, *media])))


def _assistant(
    message: Message, own_ids: tuple[str, ...], spelling: Spelling
) -> Iterator[dict[str, Json]]:
    """Yield an assistant message; one of calls alone has no content, an empty one vanishes."""
    content = _assistant_content(message.parts)
    calls = [
        _call(part, call_id, spelling)
        for part, call_id in with_call_ids(message, own_ids)
        if isinstance(part, ToolCall)
    ]
    rendered: dict[str, Json] = {"role": "assistant"}
    if content:
        rendered["content"] = content
    if calls:
        rendered["tool_calls"] = calls
    if content or calls:
        yield rendered


def _assistant_content(parts: Iterable[Part]) -> str | list[dict[str, Json]]:
    """Return the text as a string, or as parts where a refusal stands beside it."""
    rendered: list[dict[str, Json]] = []
    for part in parts:
        match part:
            case Opaque(provider="openai_chat", block={"type": "refusal"}):
                rendered.append(plain_json(part.block))
            case Text(text=text) | Opaque(text=text):
                rendered.extend(text_parts(text))
            case _:
                pass  # calls stand beside the content; reasoning cannot be sent back
    if any(content["type"] == "refusal" for content in rendered):
        return rendered
    return "\n".join(content["text"] for content in rendered)


def _call(call: ToolCall, call_id: str, spelling: Spelling) -> dict[str, Json]:
    """Return a call, with the model's own spelling of the arguments where they are an object."""
    name = spelling.names.get(call.name, call.name)
    custom = write_custom(call, call_id=call_id, name=name)
    if custom is not None:
        return custom
    spelled = call.arguments_json
    if spelled is None or parse_json_object(spelled) is None:
        spelled = compact_json(plain_json(call.arguments))
    function = {"name": name, "arguments": clean_text(spelled)}
    return {"id": call_id, "type": "function", "function": function}


def _answer(result: ToolResult, call_id: str) -> dict[str, Json]:
    """Return a tool message: text only, an error marked in words as there is no flag."""
    text = "\n".join(filter(str.strip, map(tell_in_result, result.content)))
    if result.is_error:
        text = mark_failure(text)
    return {"role": "tool", "tool_call_id": call_id, "content": text or NO_OUTPUT}


def _attachments(
    results: Iterable[tuple[ToolResult, str]], spelling: Spelling
) -> Iterator[dict[str, Json]]:
    for result, call_id in results:
        for part in filter(is_attachment, result.content):
            name = result.tool_name or spelling.tools_by_call.get(call_id, "a tool")
            tool = spelling.names.get(name, name)
            yield text_part(name_attachment(part, tool=tool, call_id=call_id))
            yield from user_content(part)
