"""Gemini contents as events."""

from typing import Final

from context_assembler.transcripts.gemini_spelling import MADE_UP_ID
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.message_lists import user_events
from context_assembler.transcripts.parsing import left_over
from context_assembler.values.events import (
    AssistantBody,
    SessionEvent,
    SystemBody,
    UserBody,
)
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.gemini_arguments import join_calls
from context_assembler.values.native.gemini_fields import snake_fields
from context_assembler.values.native.gemini_parts import (
    PROVIDER,
    nested_extras,
    read_media,
    read_part,
    read_response,
    readable_text,
)
from context_assembler.values.parts import (
    Json,
    JsonObject,
    Opaque,
    Part,
    ResultPart,
    Text,
    ToolCall,
    ToolResult,
)
from context_assembler.values.reading import as_array, as_text

ROLES: Final = frozenset({"user", "model", "function"})
_KNOWN_FIELDS: Final = frozenset({"role", "parts"})
_READ_OF_RESPONSES: Final = frozenset({"id", "name", "response", "parts"})
_RESPONSE: Final = "function_response"


class ContentReader:
    """Reads contents in order: calls often come without ids, and are told by their places.

    A response without an id answers the oldest open call of its name, or the oldest open call.
    """

    def __init__(self, log: IssueLog) -> None:
        self._log = log
        self._open_calls: list[ToolCall] = []
        self._made_up = 0

    def read(self, content: Json, spot: Spot) -> list[SessionEvent]:
        """Return the events of one content; none where it cannot be read, which is reported."""
        if isinstance(content, str):
            return [SessionEvent(body=UserBody(parts=(Text(content),)))]
        if not is_object(content):
            self._log.note(spot, f"is no content ({content!r:.40}); left out")
            return []
        role = content.get("role") or "user"
        if not isinstance(role, str) or role not in ROLES:
            self._log.note(spot.key("role"), f"{role!r:.40} is unknown; the content is left out")
            return []
        parts = self.read_parts(content.get("parts"), spot.key("parts"))
        kept = left_over(content, _KNOWN_FIELDS)
        metadata: JsonObject = {PROVIDER: kept} if kept else {}
        if role == "model":
            body = AssistantBody(parts=parts)
            return [SessionEvent(body=body, origin="model", metadata=metadata)]
        return user_events(parts, metadata=metadata)

    def read_instructions(self, value: Json, spot: Spot) -> SessionEvent:
        """Return the system instruction – text, parts, or a content – as an event."""
        is_content = is_object(value) and "parts" in value
        parts = self.read_parts(value["parts"] if is_content else value, spot)
        return SessionEvent(body=SystemBody(parts=parts), origin="developer")

    def read_parts(self, value: Json, spot: Spot) -> tuple[Part, ...]:
        """Return parts; a lone one, or text, stands for a list of itself."""
        if value is None:
            return ()
        entries = [value] if is_object(value) or isinstance(value, str) else value
        if not is_array(entries):
            self._log.note(spot, f"are no parts ({value!r:.40}); left out")
            return ()
        found = [self._read_entry(entry, spot.index(at)) for at, entry in join_calls(entries)]
        parts = tuple(part for part in found if part is not None)
        calls = [part for part in parts if isinstance(part, ToolCall)]
        self._open_calls = calls or self._open_calls
        return parts

    def _read_entry(self, entry: Json, spot: Spot) -> Part | None:
        if isinstance(entry, str):
            return Text(entry)
        if not is_object(entry):
            self._log.note(spot, f"is no part ({entry!r:.40}); left out")
            return None
        fields = snake_fields(entry)
        if is_object(fields.get(_RESPONSE)):
            return self._read_result(entry)
        part = read_part(entry, call_id=MADE_UP_ID.format(self._made_up + 1))
        if isinstance(part, ToolCall):
            self._made_up += not as_text(snake_fields(fields.get("function_call")).get("id"))
        return part

    def _read_result(self, entry: JsonObject) -> ToolResult:
        fields = snake_fields(snake_fields(entry).get(_RESPONSE))
        name = as_text(fields.get("name"))
        call = self._answered_call(as_text(fields.get("id")), name)
        call_id = as_text(fields.get("id")) or (call.call_id if call else "")
        if not call_id:
            self._made_up += 1
            call_id = MADE_UP_ID.format(self._made_up)
        texts, is_error = read_response(fields.get("response"))
        inner = as_array(fields.get("parts"))
        return ToolResult(
            call_id=call_id,
            content=(*texts, *(_result_part(part) for part in inner if is_object(part))),
            is_error=is_error,
            tool_name=None if call and call.name == name else name or None,
            extras=nested_extras(
                entry, _RESPONSE, known=frozenset({_RESPONSE}), known_inside=_READ_OF_RESPONSES
            ),
        )

    def _answered_call(self, call_id: str, name: str) -> ToolCall | None:
        """Take the call that a response answers out of the open ones."""
        candidates = [call for call in self._open_calls if call_id in ("", call.call_id)]
        named = [call for call in candidates if call.name == name]
        found = next(iter(named or candidates), None)
        if found is not None:
            self._open_calls = [call for call in self._open_calls if call is not found]
        return found


def _result_part(block: JsonObject) -> ResultPart:
    media = read_media(block)
    return media or Opaque(provider=PROVIDER, block=dict(block), text=readable_text(block))
