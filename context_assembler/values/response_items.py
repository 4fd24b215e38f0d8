"""Items of OpenAI Responses as parts, and calls as items."""

from collections.abc import Iterator, Mapping
from typing import Final

from context_assembler.values.arguments import parse_arguments
from context_assembler.values.native_calls import NATIVE_CALLS, is_left_to_client
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
from context_assembler.values.wire import compact_json, parse_json_object, plain_json

PROVIDER: Final = "openai_responses"

_COMPACTED: Final = (
    "[The conversation before this point was compacted by OpenAI; only it can read it.]"
)
_READ_OF_TEXTS: Final = frozenset({"type", "text"})
_READ_OF_MESSAGES: Final = frozenset({"type", "role", "content"})
_READ_OF_CALLS: Final = frozenset({"type", "call_id", "name", "arguments"})
_TOLD_OF_ITEMS: Final = (
    "name",
    "query",
    "queries",
    "code",
    "input",
    "arguments",
    "action",
    "output",
)
_MAX_TOLD_CHARS: Final = 500


def own_extras(part: Text | Thinking | ToolCall) -> dict[str, Json]:
    """Return the fields of the part's item that have no place in the part itself."""
    return as_object((part.extras or {}).get(PROVIDER))


def without_nulls(fields: JsonObject) -> dict[str, Json]:
    """Return the fields that hold something: a null in place of a field is refused or ignored."""
    return {key: value for key, value in fields.items() if value is not None}


def read_entry(
    entry: JsonObject, *, names: Mapping[str, str], warnings: list[str], is_answered: bool = False
) -> Iterator[Part]:
    """Yield the parts of one item that a model made.

    Args:
        names: Names as sent → the tools' own.
        warnings: Gets a sentence for everything that cannot be used as it came.
        is_answered: Whether the provider has run the call itself.
    """
    kind = as_text(entry.get("type")) or "message"
    if kind == "message":
        yield from _read_message(entry)
    elif kind == "reasoning":
        yield _read_reasoning(entry)
    elif kind == "function_call":
        yield _read_call(entry, names, warnings)
    elif not is_answered and is_left_to_client(entry):
        yield _read_native_call(entry, names)
    else:
        yield Opaque(provider=PROVIDER, block=dict(entry), text=describe_entry(entry))


def describe_entry(entry: JsonObject) -> str:
    """Return what of an item another model can read."""
    kind = as_text(entry.get("type"))
    if kind == "compaction":
        return _COMPACTED
    if kind in ("message", ""):
        return "\n".join(filter(None, map(_readable, _contents(entry))))
    told = [_told(entry[key]) for key in _TOLD_OF_ITEMS if entry.get(key)]
    return f"[{': '.join([kind, *told])}]"


def write_call(
    call: ToolCall, *, call_id: str, name: str, with_id: bool, as_came: bool = False
) -> dict[str, Json]:
    """Return a call as its item, of the kind it came as and with all its fields.

    Args:
        call_id: The id of the call as it goes over the wire; `name` likewise.
        with_id: Whether the item keeps the id that the server gave it.
        as_came: Whether arguments that are no JSON object stay so; `{}` stands in for them else.
    """
    kept = own_extras(call)
    if not with_id:
        kept.pop("id", None)
    native = NATIVE_CALLS.get(as_text(kept.pop("type", None)))
    if native is not None:
        return native.write_call(call, call_id=call_id, name=name, kept=kept)
    spelled = call.arguments_json
    if spelled is None or not (as_came or parse_json_object(spelled) is not None):
        spelled = compact_json(plain_json(call.arguments))
    own = {"type": "function_call", "call_id": call_id, "name": name, "arguments": spelled}
    return {**own, **kept}


def _read_message(entry: JsonObject) -> Iterator[Part]:
    """Yield one text per piece of a message; a message with anything else stays whole."""
    content = entry.get("content")
    beside = {key: value for key, value in entry.items() if key not in _READ_OF_MESSAGES}
    if isinstance(content, str):
        yield _text(content, beside)
        return
    pieces = [piece for _, piece in objects_in(content)]
    if all(_is_plain(piece) for piece in pieces):
        for piece in pieces:
            own = {key: value for key, value in piece.items() if key not in _READ_OF_TEXTS}
            yield _text(as_text(piece.get("text")), beside | {k: v for k, v in own.items() if v})
    else:
        yield Opaque(provider=PROVIDER, block=dict(entry), text=describe_entry(entry))


def _is_plain(piece: JsonObject) -> bool:
    return piece.get("type") in ("output_text", "input_text") and isinstance(piece.get("text"), str)


def _text(text: str, extras: JsonObject) -> Text:
    kept = without_nulls(extras)
    return Text(text, extras={PROVIDER: kept} if kept else None)


def _read_reasoning(entry: JsonObject) -> Thinking:
    """Return the reasoning; only an encrypted item can go back.

    Source:
        https://developers.openai.com/api/docs/guides/reasoning (read 2026-11-27)
    """
    thoughts = [*as_array(entry.get("summary")), *as_array(entry.get("content"))]
    text = "\n\n".join(filter(None, (as_text(as_object(one).get("text")) for one in thoughts)))
    if as_text(entry.get("encrypted_content")):
        return Thinking(text=text, provider=PROVIDER, block=without_nulls(entry))
    return Thinking(text=text, provider=PROVIDER, extras={PROVIDER: without_nulls(entry)})


def _read_call(entry: JsonObject, names: Mapping[str, str], warnings: list[str]) -> ToolCall:
    call_id, sent_name = as_text(entry.get("call_id")), as_text(entry.get("name"))
    read = parse_arguments(entry.get("arguments") or None)
    if read.problem:
        warnings.append(f"The arguments of call {call_id!r} {read.problem}.")
    kept = without_nulls({k: v for k, v in entry.items() if k not in _READ_OF_CALLS})
    return ToolCall(
        call_id=call_id,
        name=names.get(sent_name, sent_name),
        arguments=read.arguments,
        arguments_json=read.spelled,
        extras={PROVIDER: kept} if kept else None,
    )


def _read_native_call(entry: JsonObject, names: Mapping[str, str]) -> ToolCall:
    native = NATIVE_CALLS[as_text(entry.get("type"))]
    read = {"call_id", "name", native.argument_key}
    kept = without_nulls({key: value for key, value in entry.items() if key not in read})
    sent_name = as_text(entry.get("name")) or native.name
    return ToolCall(
        call_id=as_text(entry.get("call_id")),
        name=names.get(sent_name, sent_name),
        arguments=native.read_arguments(entry),
        extras={PROVIDER: kept},
    )


def _contents(entry: JsonObject) -> list[Json]:
    content = entry.get("content")
    return [content] if isinstance(content, str) else as_array(content)


def _readable(piece: Json) -> str:
    if isinstance(piece, str):
        return piece
    fields = as_object(piece)
    return as_text(fields.get("text")) or as_text(fields.get("refusal"))


def _told(value: Json) -> str:
    spelled = value if isinstance(value, str) else compact_json(value)
    return spelled if len(spelled) <= _MAX_TOLD_CHARS else f"{spelled[:_MAX_TOLD_CHARS]}…"
