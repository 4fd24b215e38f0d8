"""Items of OpenAI Responses as parts, and calls as items."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from context_assembler.values.arguments import parse_arguments
from context_assembler.values.native.native_calls import (
    NATIVE_CALLS,
    answered_id,
    is_left_to_client,
)
from context_assembler.values.native.response_texts import describe_entry
from context_assembler.values.parts import (
    Json,
    JsonObject,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.reading import as_array, as_object, as_text, objects_in
from context_assembler.values.wire import compact_json, parse_json_object, plain_json

PROVIDER: Final = "openai_responses"

_READ_OF_TEXTS: Final = frozenset({"type", "text"})
_READ_OF_MESSAGES: Final = frozenset({"type", "role", "content"})
_READ_OF_CALLS: Final = frozenset({"type", "call_id", "name", "arguments"})
# What the server tells of its own items and does not take back: no input type has these fields.
_TOLD_ONLY: Final[Mapping[str, frozenset[str]]] = {
    "custom_tool_call_output": frozenset({"created_by", "status"}),
}
_TOLD_OF_ALL: Final = frozenset({"created_by"})
_TOLD_OF_MESSAGES: Final = frozenset({"created_by", "id"})
_FREE_OF_IDS: Final = frozenset({"tool_search_call", "tool_search_output"})


TOLD_OF_OUTPUTS: Final = ("caller", "name", "namespace")

MARKS_OF_TEXT: Final = ("annotations", "logprobs")
"""What a piece of a reply's text says beside it."""

Entry: TypeAlias = dict[str, Json]
"""An item as it is written."""


def own_extras(part: Text | Thinking | ToolCall | ToolResult) -> dict[str, Json]:
    """Return the fields of the part's item that have no place in the part itself."""
    return as_object((part.extras or {}).get(PROVIDER))


def told_of_output(result: ToolResult) -> dict[str, Json]:
    """Return what the item of a result says of its call, beside the id."""
    own = own_extras(result)
    return {key: plain_json(own[key]) for key in TOLD_OF_OUTPUTS if own.get(key) is not None}


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


def sendable(entry: JsonObject) -> dict[str, Json]:
    """Return an item as it goes back: without the fields that only the server's own items have.

    Source:
        types of the openai package 3.57, ResponseOutputItem beside ResponseInputItemParam
        (read 2026-11-27)
    """
    kind = as_text(entry.get("type"))
    told = _TOLD_ONLY.get(kind, _TOLD_OF_ALL)
    if kind == "message" and entry.get("role") != "assistant":
        told = _TOLD_OF_MESSAGES
    return {key: value for key, value in as_object(plain_json(entry)).items() if key not in told}


def is_complete(entry: JsonObject) -> bool:
    """Whether an item has what its type requires: a call what it asks for, and the id to answer by."""
    kind = as_text(entry.get("type"))
    if kind in _FREE_OF_IDS:
        return True
    native = NATIVE_CALLS.get(kind)
    if native is not None and not native.fits(entry):
        return False
    needs_id = native is not None or kind.endswith("_output") or kind == "program"
    return bool(answered_id(entry)) or not needs_id


def is_sealed_compaction(entry: JsonObject) -> bool:
    """Whether the item is a compaction that its server can open."""
    return entry.get("type") == "compaction" and bool(as_text(entry.get("encrypted_content")))


def write_call(
    call: ToolCall, *, call_id: str, name: str, with_id: bool, as_function: bool = False
) -> dict[str, Json]:
    """Return a call as its item, of the kind it came as and with its own fields.

    Args:
        call_id: The id of the call as it goes over the wire; `name` likewise.
        with_id: Whether the item keeps the id that the server gave it.
        as_function: Whether a call of another kind is written as that of a function.
    """
    kept = sendable(own_extras(call))
    if not with_id:
        kept.pop("id", None)
    native = NATIVE_CALLS.get(as_text(kept.pop("type", None)))
    if native is not None and not as_function:
        return native.write_call(call, call_id=call_id, name=name, kept=kept)
    spelled = call.arguments_json
    if spelled is None or parse_json_object(spelled) is None:
        spelled = compact_json(plain_json(call.arguments))
    own = {"type": "function_call", "call_id": call_id, "name": name, "arguments": spelled}
    return own if native is not None else {**own, **kept}


def copy_call(call: ToolCall) -> dict[str, Json]:
    """Return a call as the item that it was read from, whatever its arguments are."""
    kept = own_extras(call)
    native = NATIVE_CALLS.get(as_text(kept.pop("type", None)))
    if native is not None:
        return native.write_call(call, call_id=call.call_id, name=call.name, kept=kept)
    spelled = call.arguments_json
    own: dict[str, Json] = {"type": "function_call", "call_id": call.call_id, "name": call.name}
    own["arguments"] = compact_json(plain_json(call.arguments)) if spelled is None else spelled
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
    read = {"call_id", "name", *native.asks}
    kept = without_nulls({key: value for key, value in entry.items() if key not in read})
    sent_name = as_text(entry.get("name")) or native.name
    return ToolCall(
        call_id=as_text(entry.get("call_id")),
        name=names.get(sent_name, sent_name),
        arguments=native.read_arguments(entry),
        extras={PROVIDER: kept},
    )
