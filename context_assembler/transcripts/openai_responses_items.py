"""Items of Responses as events."""

from collections.abc import Iterator, Sequence
from typing import Final

from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.openai_responses_content import read_content
from context_assembler.transcripts.parsing import left_over
from context_assembler.transcripts.tool_specs import function_spec, native_spec
from context_assembler.values.events import (
    AssistantBody,
    EventBody,
    Provenance,
    SessionEvent,
    SystemBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.json_shapes import is_object
from context_assembler.values.native.native_calls import answered_id, is_left_to_client
from context_assembler.values.native.response_items import PROVIDER, TOLD_OF_OUTPUTS, read_entry
from context_assembler.values.native.response_texts import describe_entry, kind_of
from context_assembler.values.parts import Json, JsonObject, Opaque, Origin, Part, ToolResult
from context_assembler.values.reading import as_text
from context_assembler.values.tools import ToolSpec

ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
_KNOWN_OF_MESSAGES: Final = frozenset({"type", "role", "content"})
_KNOWN_OF_OUTPUTS: Final = frozenset({"type", "call_id", "output"})
_KNOWN_OF_FUNCTIONS: Final = frozenset({"type", "name", "description", "parameters", "strict"})
# What a client adds by itself, of the developer and of the user.
_OF_DEVELOPER: Final = frozenset({"additional_tools", "configuration_update"})
_OF_USER: Final = frozenset({"item_reference", "mcp_approval_response"})
_IN_WORDS: Final = frozenset({"function_call_output", "custom_tool_call_output"})


class EntryReader:
    """Turns items into events, one after the other: what a model made in a row is one reply."""

    def __init__(self, log: IssueLog, *, made_by: Provenance | None = None) -> None:
        self._log = log
        self._made_by = made_by
        self._reply: list[Part] = []
        self._is_replying = False
        self._server_calls: set[str] = set()

    def read(self, items: Sequence[tuple[Spot, Json]]) -> Iterator[SessionEvent]:
        """Yield the events; an item that cannot be read is reported."""
        for spot, entry in items:
            if not is_object(entry) or not kind_of(entry):
                self._log.note(spot, "is no item: it has neither a type nor a role; left out")
            elif self._is_made_by_model(entry):
                self._add_to_reply(entry, spot)
            else:
                yield from self._close_reply()
                yield from self._read_input(entry, spot)
        yield from self._close_reply()

    def _is_made_by_model(self, entry: JsonObject) -> bool:
        kind = kind_of(entry)
        if kind == "message":
            return entry.get("role") == "assistant"
        if kind.endswith("_output"):
            call_id = answered_id(entry)
            return kind not in _IN_WORDS and (not call_id or call_id in self._server_calls)
        return kind not in _OF_DEVELOPER | _OF_USER | {"compaction_trigger"}

    def _add_to_reply(self, entry: JsonObject, spot: Spot) -> None:
        warnings: list[str] = []
        self._reply.extend(read_entry(entry, names={}, warnings=warnings))
        self._is_replying = True
        if kind_of(entry) != "function_call" and not is_left_to_client(entry):
            self._server_calls.add(as_text(entry.get("call_id")))
        if warnings:
            reason = "are no JSON object; kept as spelled, with empty arguments"
            self._log.note(spot.key("arguments"), reason)

    def _close_reply(self) -> Iterator[SessionEvent]:
        if self._is_replying:
            body = AssistantBody(parts=tuple(self._reply), made_by=self._made_by)
            yield SessionEvent(body=body, origin="model")
        self._reply, self._is_replying = [], False

    def _read_input(self, entry: JsonObject, spot: Spot) -> Iterator[SessionEvent]:
        kind = kind_of(entry)
        if kind == "compaction_trigger":
            self._log.note(spot, "asks for one compaction, which is no part of a session; left out")
        elif kind == "message":
            yield from self._read_message(entry, spot)
        elif kind.endswith("_output"):
            yield self._read_output(entry, spot)
        elif kind in _OF_DEVELOPER:
            yield SessionEvent(body=SystemBody(parts=(_whole(entry),)), origin="developer")
        else:
            yield SessionEvent(body=UserBody(parts=(_whole(entry),)))

    def _read_message(self, entry: JsonObject, spot: Spot) -> Iterator[SessionEvent]:
        role = as_text(entry.get("role"))
        if role not in ROLES:
            self._log.note(spot.key("role"), f"{role!r:.40} is unknown; the message is left out")
            return
        content = read_content(entry.get("content"), spot.key("content"), self._log)
        kept = left_over(entry, _KNOWN_OF_MESSAGES)
        if role == "system":
            kept["role"] = role
        if role in _SYSTEM_ROLES:
            yield _event(SystemBody(parts=content), "developer", kept)
        else:
            yield _event(UserBody(parts=content), "user", kept)

    def _read_output(self, entry: JsonObject, spot: Spot) -> SessionEvent:
        kind, call_id = kind_of(entry), answered_id(entry)
        if not call_id:
            self._log.note(spot.key("call_id"), "is missing: nobody knows which call this answers")
        if kind not in _IN_WORDS:
            result = ToolResult(call_id=call_id, content=(_whole(entry),))
            return _event(ToolResultBody(result=result), "tool", {})
        kept = left_over(entry, _KNOWN_OF_OUTPUTS)
        if kind != "function_call_output":
            kept["type"] = kind
        told = {key: kept.pop(key) for key in TOLD_OF_OUTPUTS if key in kept}
        result = ToolResult(
            call_id=call_id,
            content=read_content(entry.get("output"), spot.key("output"), self._log),
            extras={PROVIDER: told} if told else None,
        )
        return _event(ToolResultBody(result=result), "tool", kept)


def _whole(entry: JsonObject) -> Opaque:
    return Opaque(provider=PROVIDER, block=dict(entry), text=describe_entry(entry))


def _event(body: EventBody, origin: Origin, kept: JsonObject) -> SessionEvent:
    return SessionEvent(body=body, origin=origin, metadata={PROVIDER: kept} if kept else {})


def read_tool(spec: JsonObject, spot: Spot, log: IssueLog) -> ToolSpec | None:
    """Return one tool; what only this provider understands is kept as its own."""
    kind, name = as_text(spec.get("type")), as_text(spec.get("name"))
    if kind != "function":
        known_as = name or as_text(spec.get("server_label")) or kind
        return native_spec(known_as, spec, provider=PROVIDER) if kind else None
    if not name:
        return None
    log.count_unplaced(spot, left_over(spec, _KNOWN_OF_FUNCTIONS), kind="tools")
    return function_spec(name, spec, schema=spec.get("parameters"))
