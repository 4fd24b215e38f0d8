"""Messages and tools of Chat Completions as events and tool specs."""

from typing import Final

from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.openai_parts import (
    PROVIDER,
    REASONING_DETAILS,
    read_content,
    readable_text,
)
from context_assembler.transcripts.parsing import (
    as_mapping,
    left_over,
    read_time,
)
from context_assembler.transcripts.tool_specs import function_spec, native_spec
from context_assembler.values.arguments import parse_arguments
from context_assembler.values.events import (
    AssistantBody,
    EventBody,
    SessionEvent,
    SystemBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.chat_calls import is_custom, read_custom
from context_assembler.values.parts import (
    Document,
    Image,
    JsonObject,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.tools import ToolSpec

_KNOWN_FIELDS: Final = frozenset(
    {"role", "content", "tool_calls", "function_call", "reasoning_content", REASONING_DETAILS}
)
_KNOWN_OF_RESULTS: Final = frozenset({"role", "content", "tool_call_id", "name"})
_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
ROLES: Final = frozenset({"user", "assistant", "tool", "function"}) | _SYSTEM_ROLES
_KNOWN_OF_SPECS: Final = frozenset({"type", "function"})
_KNOWN_OF_FUNCTIONS: Final = frozenset({"name", "description", "parameters", "strict", "type"})


def read_message(message: JsonObject, spot: Spot, log: IssueLog) -> list[SessionEvent]:
    """Return the event of one message; none where its role is unknown, which is reported."""
    role = message["role"]
    if role not in ROLES:
        log.note(spot.key("role"), f"{role!r:.40} is unknown; the message is left out")
        return []
    if role in {"tool", "function"}:
        return _read_result(message, spot, log)
    content = read_content(message.get("content"), spot.key("content"), log)
    if role == "assistant":
        parts = (*_read_reasoning(message), *content, *_read_calls(message, spot, log))
        return [_event(AssistantBody(parts=parts), "model", message, _KNOWN_FIELDS)]
    if message.get("tool_calls"):
        log.note(spot.key("tool_calls"), "of a user are not part of a session; kept as metadata")
    known = frozenset({"role", "content"})
    if role == "user":
        return [_event(UserBody(parts=content), "user", message, known)]
    return [_event(SystemBody(parts=content), "developer", message, known, role=role)]


def _event(
    body: EventBody, origin: Origin, message: JsonObject, known: frozenset[str], *, role: str = ""
) -> SessionEvent:
    kept = left_over(message, known)
    if role == "developer":
        kept["role"] = role
    return SessionEvent(
        body=body,
        origin=origin,
        created_at=read_time(message.get("timestamp")),
        metadata={PROVIDER: kept} if kept else {},
    )


def _read_reasoning(message: JsonObject) -> tuple[Thinking, ...]:
    details = message.get(REASONING_DETAILS)
    text = message.get("reasoning_content") or message.get("reasoning")
    kept = text if isinstance(text, str) else ""
    if is_array(details) and details:
        # May hold signatures and encrypted reasoning: goes back whole, or not at all.
        block = {REASONING_DETAILS: details}
        return (Thinking(text=kept or readable_text(details), provider=PROVIDER, block=block),)
    return (Thinking(text=kept, provider=PROVIDER),) if kept else ()


def _read_calls(message: JsonObject, spot: Spot, log: IssueLog) -> list[ToolCall]:
    calls: list[ToolCall] = []
    given = message.get("tool_calls")
    for number, call in enumerate(given if is_array(given) else ()):
        place = spot.key("tool_calls").index(number)
        read = _read_call(call, place, log) if is_object(call) else None
        if read is None:
            log.note(place, "is no tool call that can be read; left out")
        else:
            calls.append(read)
    if is_object(old := message.get("function_call")) and isinstance(old.get("name"), str):
        # The old form has no ids: its result names the function.
        log.count(spot, "function_call", "is kept as a tool call with the function's name as id")
        calls.append(_make_call(old["name"], old, spot.key("function_call"), log))
    return calls


def _read_call(call: JsonObject, spot: Spot, log: IssueLog) -> ToolCall | None:
    function = next(
        (held for key in ("function", "custom") if is_object(held := call.get(key))), call
    )
    if not isinstance(function.get("name"), str):
        return None
    known = frozenset({"id", "type", "function", "custom", "name", "arguments"})
    log.count_unplaced(spot, left_over(call, known), kind="tool_calls")
    call_id = call.get("id")
    if not isinstance(call_id, str):
        log.note(spot.key("id"), "is missing")
    if is_custom(call):
        return read_custom(call, name=function["name"])
    return _make_call(call_id if isinstance(call_id, str) else "", function, spot, log)


def _make_call(call_id: str, function: JsonObject, spot: Spot, log: IssueLog) -> ToolCall:
    name, given = function["name"], function.get("arguments", function.get("input"))
    read = parse_arguments(given)
    if read.problem:
        log.note(spot.key("arguments"), f"{read.problem}; kept as spelled, with empty arguments")
    return ToolCall(
        call_id=call_id, name=name, arguments=read.arguments, arguments_json=read.spelled
    )


def _read_result(message: JsonObject, spot: Spot, log: IssueLog) -> list[SessionEvent]:
    if message.get("requestor") == "user":
        log.count(spot, "results of the user's own calls", "are no part of a session; left out")
        return []
    name = message.get("name") if isinstance(message.get("name"), str) else None
    call_id = message.get("tool_call_id", message.get("id"))
    if not isinstance(call_id, str):
        call_id = name if message["role"] == "function" and name else ""
        if not call_id:
            log.note(spot.key("tool_call_id"), "is missing: nobody knows which call this answers")
    content = read_content(message.get("content"), spot.key("content"), log)
    result = ToolResult(
        call_id=call_id,
        content=tuple(
            part for part in content if isinstance(part, Text | Image | Document | Opaque)
        ),
        is_error=message.get("error") is True,
        tool_name=name,
    )
    return [_event(ToolResultBody(result=result), "tool", message, _KNOWN_OF_RESULTS)]


def read_tool(spec: JsonObject, spot: Spot, log: IssueLog) -> ToolSpec | None:
    """Return one tool; what only this provider understands is kept as its own."""
    is_flat = isinstance(spec.get("name"), str) and "parameters" in spec
    function = spec if is_flat else spec.get("function")
    if not is_object(function):
        return _read_native_tool(spec)
    if not isinstance(name := function.get("name"), str):
        return None
    around = {} if is_flat else left_over(spec, _KNOWN_OF_SPECS)
    unread = {**left_over(function, _KNOWN_OF_FUNCTIONS), **around}
    log.count_unplaced(spot, unread, kind="tools")
    return function_spec(name, function, schema=function.get("parameters"))


def _read_native_tool(spec: JsonObject) -> ToolSpec | None:
    """Return a tool that only this provider understands, named by itself or by its type."""
    kind = spec.get("type")
    if not isinstance(kind, str) or kind == "function":
        return None
    name = as_mapping(spec.get(kind)).get("name")
    return native_spec(name if isinstance(name, str) else kind, spec, provider=PROVIDER)
