"""Calls of OpenAI's own tools that the client runs, and of custom ones: beside functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, assert_never

from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json, JsonObject, ToolCall
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.wire import compact_json, plain_json

_HOSTED: Final = frozenset({"container_reference", "container_auto"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCall:
    """One kind of call.

    Attributes:
        kind: The type of its item.
        name: The tool's name where its items have none.
        asks: The fields that say what to do; an item has one of them at least.
        shape: How they are the call's arguments: the first as the `object` that the arguments are,
            as `text` that is an argument of that name, or all as `fields`, arguments as they are.
        output_kind: The type of the item that answers it.
        answers_by: The field of that item which holds the id of the call.
        takes_picture: Whether a picture answers it, and nothing else.
        needs_id: Whether its item is not taken without the id that the server gave it.
        spell_output: Spells text as the answer's fields; `None`: no text can answer it.
    """

    kind: str
    name: str
    asks: tuple[str, ...]
    shape: Literal["object", "text", "fields"] = "object"
    output_kind: str
    answers_by: Literal["call_id", "id"] = "call_id"
    takes_picture: bool = False
    needs_id: bool = False
    spell_output: Callable[[str, bool], dict[str, Json]] | None = None

    def fits(self, entry: JsonObject) -> bool:
        """Whether the item says what to do in the shape that this kind of call has."""
        first = entry.get(self.asks[0])
        match self.shape:
            case "object":
                return is_object(first)
            case "text":
                return isinstance(first, str)
            case "fields":
                return any(entry.get(key) is not None for key in self.asks)
            case _:
                assert_never(self.shape)

    def read_arguments(self, entry: JsonObject) -> dict[str, Json]:
        """Return what the item asks for, as arguments."""
        if self.shape == "object":
            return as_object(entry[self.asks[0]])
        return {key: entry[key] for key in self.asks if entry.get(key) is not None}

    def write_call(
        self, call: ToolCall, *, call_id: str, name: str, kept: JsonObject
    ) -> dict[str, Json]:
        """Return the item of a call; `kept` are its other fields."""
        arguments = plain_json(call.arguments)
        own: dict[str, Json] = {"type": self.kind, "call_id": call_id}
        match self.shape:
            case "object":
                own[self.asks[0]] = arguments
            case "fields":
                own |= arguments
            case "text":
                given = arguments.get(self.asks[0])
                own["name"] = name
                own[self.asks[0]] = given if isinstance(given, str) else compact_json(arguments)
            case _:
                assert_never(self.shape)
        return {**own, **kept}

    def write_output(self, text: str, *, call_id: str, is_error: bool) -> dict[str, Json]:
        """Return the item that answers a call with text."""
        if self.spell_output is None:
            return {"type": "function_call_output", "call_id": call_id, "output": text}
        return {
            "type": self.output_kind,
            self.answers_by: call_id,
            **self.spell_output(text, is_error),
        }


def _plain_output(text: str, _is_error: bool) -> dict[str, Json]:
    return {"output": text}


def _shell_output(text: str, is_error: bool) -> dict[str, Json]:
    outcome = {"type": "exit", "exit_code": int(is_error)}
    return {"output": [{"stdout": text, "stderr": "", "outcome": outcome}]}


def _patch_output(text: str, is_error: bool) -> dict[str, Json]:
    return {"status": "failed" if is_error else "completed", "output": text}


def _kinds(*calls: NativeCall) -> dict[str, NativeCall]:
    return {call.kind: call for call in calls}


NATIVE_CALLS: Final[Mapping[str, NativeCall]] = _kinds(
    NativeCall(
        kind="custom_tool_call",
        name="custom",
        asks=("input",),
        shape="text",
        output_kind="custom_tool_call_output",
        spell_output=_plain_output,
    ),
    NativeCall(
        kind="tool_search_call",
        name="tool_search",
        asks=("arguments",),
        output_kind="tool_search_output",
    ),
    NativeCall(
        kind="shell_call",
        name="shell",
        asks=("action",),
        output_kind="shell_call_output",
        spell_output=_shell_output,
    ),
    NativeCall(
        kind="local_shell_call",
        name="local_shell",
        asks=("action",),
        output_kind="local_shell_call_output",
        answers_by="id",
        needs_id=True,
        spell_output=_plain_output,
    ),
    NativeCall(
        kind="apply_patch_call",
        name="apply_patch",
        asks=("operation",),
        output_kind="apply_patch_call_output",
        spell_output=_patch_output,
    ),
    NativeCall(
        kind="computer_call",
        name="computer",
        asks=("action", "actions"),
        shape="fields",
        output_kind="computer_call_output",
        takes_picture=True,
        needs_id=True,
    ),
)
"""By the type of their items.

Source:
    types of the openai package 3.57, ResponseInputItemParam (read 2026-11-27); a recorded request
    answered a client-run tool_search_call with a function_call_output.
"""

_ANSWERED_BY_ID: Final = frozenset(
    native.output_kind for native in NATIVE_CALLS.values() if native.answers_by == "id"
)


def is_left_to_client(entry: JsonObject) -> bool:
    """Whether the item is a call that the client is to run: of a known kind, not run by a server."""
    native = NATIVE_CALLS.get(as_text(entry.get("type")))
    if native is None or not native.fits(entry) or not as_text(entry.get("call_id")):
        return False
    environment = as_text(as_object(entry.get("environment")).get("type"))
    return environment not in _HOSTED and entry.get("execution") != "server"


def answered_id(entry: JsonObject) -> str:
    """Return the id of the call that an item answers; empty where it has none.

    Source:
        types of the openai package 3.57 (read 2026-11-27): the `id` of a local_shell_call_output is
        that of the call, and it has no other.
    """
    call_id = as_text(entry.get("call_id"))
    if not call_id and as_text(entry.get("type")) in _ANSWERED_BY_ID:
        return as_text(entry.get("id"))
    return call_id


def with_answered_id(entry: JsonObject, call_id: str) -> dict[str, Json]:
    """Return an item that answers a call with the call's id as it goes over the wire."""
    key = "id" if as_text(entry.get("type")) in _ANSWERED_BY_ID else "call_id"
    both = {"call_id": call_id} if "call_id" in entry else {}
    return {**entry, key: call_id, **both}


def answered_ids(items: Sequence[JsonObject]) -> frozenset[str]:
    """Return the ids of the calls that have their output among the items."""
    return frozenset(
        answered_id(entry) for entry in items if as_text(entry.get("type")).endswith("_output")
    )


def is_async(call: ToolCall) -> bool:
    """Whether the model goes on without the answer, so that the call may stay unanswered.

    Source:
        types of the openai package 3.57, ResponseFunctionToolCallParam.async (read 2026-11-27)
    """
    return any(is_object(own) and own.get("async") is True for own in (call.extras or {}).values())
