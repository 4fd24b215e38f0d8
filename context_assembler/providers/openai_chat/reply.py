"""A reply of Chat Completions as parts."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from context_assembler.errors import ReplyError
from context_assembler.providers.openai_chat.content import PROVIDER
from context_assembler.providers.openai_chat.stream import join_chunks
from context_assembler.providers.openai_chat.units import tool_names
from context_assembler.values.arguments import parse_arguments
from context_assembler.values.draft import Draft, Reply
from context_assembler.values.json_bounds import keep_numbers_sound
from context_assembler.values.json_shapes import is_array
from context_assembler.values.native.chat_calls import is_custom, read_custom
from context_assembler.values.native.gathered_stream import pieces_of
from context_assembler.values.openai.usage import read_usage
from context_assembler.values.parts import (
    Json,
    JsonObject,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
)
from context_assembler.values.reading import as_array, as_object, as_text, objects_in
from context_assembler.values.unfinished import last_call_of, say_unfinished
from context_assembler.values.wire import object_of, parse_json_object

_CUT_OFF: Final = frozenset({None, "length", "content_filter"})


def matches_reply(reply: Any) -> bool:
    """Whether the reply is a chat completion: an SDK object, its dict, or a stream's chunks."""
    body = _body_of(reply)
    return (
        body is not None
        and body.get("object", "chat.completion") == "chat.completion"
        and isinstance(body.get("choices"), list)
    )


def read_reply(reply: Any, draft: Draft | None = None) -> Reply:
    """Return the first choice's parts: reasoning text, text, refusal, calls.

    Tools get back the names they have in the draft.

    Raises:
        ReplyError: The reply is no chat completion.
    """
    body = _body_of(reply)
    if body is None:
        raise ReplyError(reply, reason="it is neither a dict nor an SDK object")
    warnings: list[str] = []
    body = keep_numbers_sound(body, warnings)
    choices = as_array(body.get("choices"))
    if not choices:
        raise ReplyError(reply, reason="it has no choices")
    choice = as_object(choices[0])
    message = as_object(choice.get("message"))
    if not message:
        raise ReplyError(reply, reason="its first choice has no message")
    if len(choices) > 1:
        warnings.append(f"Only the first of {len(choices)} choices was read.")
    names = {} if draft is None else {sent: name for name, sent in tool_names(draft).items()}
    parts = tuple(_read_message(message, names, warnings))
    is_cut_off = (as_text(choice.get("finish_reason")) or None) in _CUT_OFF
    unfinished = last_call_of(parts) if is_cut_off and _ends_in_a_call(message) else ()
    warnings += map(say_unfinished, unfinished)
    return Reply(
        provider=PROVIDER,
        model=as_text(body.get("model")),
        parts=parts,
        unfinished_calls=unfinished,
        response_id=as_text(body.get("id")) or None,
        stop_reason=as_text(choice.get("finish_reason")) or None,
        usage=read_usage(body.get("usage"), asked="prompt", answered="completion"),
        warnings=tuple(warnings),
    )


def _body_of(reply: Any) -> dict[str, Json] | None:
    return join_chunks(pieces_of(reply)) if is_array(reply) else object_of(reply)


def _read_message(
    message: JsonObject, names: Mapping[str, str], warnings: list[str]
) -> Iterator[Part]:
    """Yield the parts; other servers put readable reasoning beside the content."""
    for key in ("reasoning_content", "reasoning"):
        thought = message.get(key)
        if isinstance(thought, str) and thought:
            yield Thinking(text=thought, provider=PROVIDER)
            break
    yield from _read_content(message, warnings)
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        yield Opaque(provider=PROVIDER, block={"type": "refusal", "refusal": refusal}, text=refusal)
    calls = as_array(message.get("tool_calls"))
    for call in calls:
        yield _read_call(as_object(call), names, warnings)
    legacy = as_object(message.get("function_call"))
    if legacy and not calls:
        yield _read_call({"id": "call_0", "function": legacy}, names, warnings)
    audio = as_object(message.get("audio"))
    if audio:
        warnings.append("Of the spoken answer only the words were recorded.")
        if spoken := as_text(audio.get("transcript")):
            yield Text(spoken)


def _ends_in_a_call(message: JsonObject) -> bool:
    """Whether the arguments of the last call do not spell an object: more of them was to come."""
    calls = [as_object(call) for call in as_array(message.get("tool_calls"))]
    target = as_object(calls[-1].get("function")) if calls else {}
    return bool(calls) and parse_json_object(as_text(target.get("arguments"))) is None


def _read_content(message: JsonObject, warnings: list[str]) -> Iterator[Part]:
    """Yield text; some servers answer with a list of parts, as in a request.

    Citations are kept beside the text, though no request takes them back.
    """
    content = message.get("content")
    if isinstance(content, str) and content:
        cited = as_array(message.get("annotations"))
        yield Text(content, extras={PROVIDER: {"annotations": cited}} if cited else None)
    for entry in as_array(content):
        part = as_object(entry)
        kind, text = part.get("type"), as_text(part.get("text"))
        if kind == "text":
            if text:
                yield Text(text)
        elif kind == "refusal":
            yield Opaque(provider=PROVIDER, block=part, text=as_text(part.get("refusal")))
        elif kind == "thinking":
            thoughts = [as_text(thought.get("text")) for _, thought in objects_in(part.get(kind))]
            yield Thinking(text="\n".join(thoughts), provider=PROVIDER)
        else:
            warnings.append(f"A part of the answer was not recorded: its type is {kind!r}.")


def _read_call(call: JsonObject, names: Mapping[str, str], warnings: list[str]) -> ToolCall:
    call_id = as_text(call.get("id"))
    target = as_object(call.get("function")) or as_object(call.get("custom"))
    sent_name = as_text(target.get("name"))
    name = names.get(sent_name, sent_name)
    if is_custom(call):
        return read_custom(call, name=name)
    given = target.get("arguments", target.get("input"))
    read = parse_arguments(given or None)
    if read.problem:
        warnings.append(f"The arguments of call {call_id!r} {read.problem}.")
    return ToolCall(
        call_id=call_id, name=name, arguments=read.arguments, arguments_json=read.spelled
    )
