"""Calls of OpenAI's own tools that the client runs, and of custom ones: beside functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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
        argument_key: The field that says what to do: an object, which is the call's arguments, or
            text, which is an argument of that name.
        is_text: Whether it is text.
        output_kind: The type of the item that answers it.
        spell_output: Spells text as that item's fields; `None`: no text can answer it.
    """

    kind: str
    name: str
    argument_key: str
    is_text: bool = False
    output_kind: str
    spell_output: Callable[[str, bool], dict[str, Json]] | None = None

    def fits(self, entry: JsonObject) -> bool:
        """Whether the item says what to do in the shape that this kind of call has."""
        given = entry.get(self.argument_key)
        return isinstance(given, str) if self.is_text else is_object(given)

    def read_arguments(self, entry: JsonObject) -> dict[str, Json]:
        """Return what the item asks for, as arguments."""
        given = entry[self.argument_key]
        return {self.argument_key: given} if self.is_text else as_object(given)

    def write_call(
        self, call: ToolCall, *, call_id: str, name: str, kept: JsonObject
    ) -> dict[str, Json]:
        """Return the item of a call; `kept` are its other fields."""
        arguments = plain_json(call.arguments)
        if not self.is_text:
            return {"type": self.kind, "call_id": call_id, self.argument_key: arguments, **kept}
        given = arguments.get(self.argument_key)
        if not isinstance(given, str):
            given = compact_json(arguments)
        own = {"type": self.kind, "call_id": call_id, "name": name, self.argument_key: given}
        return {**own, **kept}

    def write_output(self, text: str, *, call_id: str, is_error: bool) -> dict[str, Json]:
        """Return the item that answers a call with text."""
        if self.spell_output is None:
            return {"type": "function_call_output", "call_id": call_id, "output": text}
        return {
            "type": self.output_kind,
            "call_id": call_id,
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
        argument_key="input",
        is_text=True,
        output_kind="custom_tool_call_output",
        spell_output=_plain_output,
    ),
    NativeCall(
        kind="tool_search_call",
        name="tool_search",
        argument_key="arguments",
        output_kind="tool_search_output",
    ),
    NativeCall(
        kind="shell_call",
        name="shell",
        argument_key="action",
        output_kind="shell_call_output",
        spell_output=_shell_output,
    ),
    NativeCall(
        kind="apply_patch_call",
        name="apply_patch",
        argument_key="operation",
        output_kind="apply_patch_call_output",
        spell_output=_patch_output,
    ),
)
"""By the type of their items.

Source:
    types of the openai package 3.57, ResponseInputItemParam (read 2026-11-27); a recorded request
    answered a client-run tool_search_call with a function_call_output.
"""


def is_left_to_client(entry: JsonObject) -> bool:
    """Whether the item is a call that the client is to run: of a known kind, not run by a server."""
    native = NATIVE_CALLS.get(as_text(entry.get("type")))
    if native is None or not native.fits(entry) or not as_text(entry.get("call_id")):
        return False
    environment = as_text(as_object(entry.get("environment")).get("type"))
    return environment not in _HOSTED and entry.get("execution") != "server"


def answered_ids(items: Sequence[JsonObject]) -> frozenset[str]:
    """Return the ids of the calls that have their output among the items."""
    return frozenset(
        as_text(entry.get("call_id"))
        for entry in items
        if as_text(entry.get("type")).endswith("_output")
    )
