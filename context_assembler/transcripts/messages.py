"""The message formats of the four APIs: how they are recognised, read and written.

Plain messages – roles and text – could be anybody's, and are read as OpenAI Chat.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

from context_assembler.context import Request
from context_assembler.events import Body, Json, JsonObject, Opaque, SessionEvent, ToolResult
from context_assembler.history import MessageTransformer
from context_assembler.models import ModelLimits, ThinkingRule
from context_assembler.options import Parameters
from context_assembler.ports import ToolSpec
from context_assembler.providers import PROVIDERS
from context_assembler.providers.gemini import KINDS, MARKS, snake_key
from context_assembler.providers.wire import as_list, as_object, as_text, objects_in, without_nulls
from context_assembler.transcripts.source import Format, Reading, Rows, listed

_CHAT_ROLES: Final = tuple("user assistant system developer tool function".split())
# Fields of messages in other programs' formats, which may be plain otherwise.
_OF_OTHERS: Final = frozenset("parts blocks additional_kwargs toolInvocations".split())
# What a message, or a piece of one, must hold, by role or type. Types of the openai package 3.57,
# ChatCompletionContentPartParam (read 2026-11-27); other servers take more addresses than `image_url`.
_CHAT_PIECES: Final[Mapping[str, type]] = {
    **dict.fromkeys(("text", "refusal"), str),
    **dict.fromkeys(("file", "input_audio"), dict),
    "thinking": list,  # Mistral's
}
_CHAT_SAID: Final = frozenset(
    "content tool_calls function_call refusal audio reasoning_content reasoning "
    "reasoning_details".split()
)
# Types of the anthropic package 2.14, BetaContentBlockParam (read 2026-11-28)
_BLOCKS: Final = (
    {"text": "text", "thinking": "thinking", "redacted_thinking": "data", "compaction": "content"}
    | {"search_result": "source", "container_upload": "file_id", "tool_reference": "tool_name"}
    | {"tool_addition": "tool", "tool_removal": "tool"}
    | {"fallback": "type", "mcp_tool_listing": "type"}
)
# Types of the openai package 3.57, ResponseInputItemParam (read 2026-11-30)
_ITEMS: Final = (
    {"function_call": "call_id name", "item_reference": "id", "compaction": "encrypted_content"}
    | {"mcp_list_tools": "tools", "mcp_approval_request": "name", "program": "call_id"}
    | {"mcp_approval_response": "approve", "additional_tools": "tools"}
    | {"configuration_update": "type", "compaction_trigger": "type"}
)
_PIECES: Final = "input_text input_image input_file output_text refusal".split()
_READ: Final = frozenset(
    "tools functions system instructions systemInstruction system_instruction".split()
)
# tau-bench; checkpoints that Gemini CLI saves
_OTHER_KEYS: Final = {"traj": "messages", "history": "contents"}
_ELSEWHERE: Final[Mapping[str, str]] = {
    "previous_response_id": "names turns that the provider keeps; they are not in this transcript",
    "conversation": "names turns that the provider keeps; they are not in this transcript",
    "container": "belongs to the next call; it is in the metadata alone",
    "mcp_servers": "belongs to the next call; it is in the metadata alone",
}


def _is_said(message: JsonObject, roles: Any, is_piece: Callable[[JsonObject], bool]) -> bool:
    """Whether an object is a message of these roles, of text or such pieces."""
    content = message.get("content")
    return (
        message.get("role") in roles
        and _OF_OTHERS.isdisjoint(message)
        and (content is None or isinstance(content, (str, list)))
        and not ("created" in message and isinstance(content, list))  # goose's
        and all(isinstance(one, str) or is_piece(as_object(one)) for one in as_list(content))
    )


def _is_chat(message: JsonObject) -> bool:
    """Whether an object is a Chat message; a plain message of any other format is one as well."""
    calls = [as_object(call) for call in as_list(message.get("tool_calls"))]
    return (
        "type" not in message
        and _is_said(message, _CHAT_ROLES, _is_chat_piece)
        and (bool(message.keys() & _CHAT_SAID) or message == {"role": "assistant"})
        and all("function" in call or "custom" in call or "arguments" in call for call in calls)
    )


def _is_chat_piece(piece: JsonObject) -> bool:
    kind = as_text(piece.get("type"))
    held = piece.get(kind)
    return isinstance(held, object if kind.endswith("_url") else _CHAT_PIECES.get(kind, ()))


def _is_anthropic(message: JsonObject) -> bool:
    return (
        ("type" not in message or ("model" in message and message["type"] == "message"))
        and message.get("content") is not None
        and "tool_calls" not in message
        and _is_said(message, _CHAT_ROLES[:3], _is_block)
    )


def _is_block(block: JsonObject) -> bool:
    kind = as_text(block.get("type"))
    if kind.endswith("tool_use"):
        return "id" in block and "name" in block
    if kind.endswith("tool_result"):
        return "tool_use_id" in block
    if kind in ("image", "document"):
        return isinstance(block.get("source"), dict)
    return kind in _BLOCKS and _BLOCKS[kind] in block


def _anthropic_head(rows: Rows) -> bool | None:
    head = rows.head
    is_for_claude = "max_tokens" in head and as_text(head.get("model")).startswith("claude")
    has_tools = any("input_schema" in tool for tool in objects_in(head.get("tools")))
    return (rows.key == "messages" and ("system" in head or has_tools or is_for_claude)) or None


def _is_item(item: JsonObject) -> bool:
    kind, content = as_text(item.get("type")), item.get("content")
    if "provider_data" in item or item.get("id") == "__fake_id__":  # of the Agents SDK
        return False
    if kind in ("", "message"):
        are_objects = not any(isinstance(one, str) for one in as_list(content))
        is_whole = content is not None and "tool_calls" not in item and are_objects
        return is_whole and _is_said(item, _CHAT_ROLES[:4], _is_piece)
    if kind == "reasoning":
        return "summary" in item or "encrypted_content" in item
    if kind in _ITEMS:
        return all(name in item for name in _ITEMS[kind].split())
    return kind.endswith(("_call", "_output")) and bool({"id", "call_id"} & item.keys())


def _is_piece(piece: JsonObject) -> bool:
    return piece.get("type") in _PIECES


def _is_content(content: JsonObject) -> bool:
    given = content.get("parts")
    return (
        content.get("role") in ("user", "model", "function", None)
        and isinstance(given, list | dict)
        and not content.keys() & {"content", "kind"}
        and all(isinstance(part, str) or _is_part(as_object(part)) for part in listed(given))
    )


def _is_part(part: JsonObject) -> bool:
    keys = set(map(snake_key, part))
    return bool(keys) and keys <= KINDS | MARKS | {"media_resolution"}


# ---- reading ----


def _reader(provider: str) -> Callable[[Reading], None]:
    def read(reading: Reading) -> None:
        def note(where: str, what: str) -> None:
            found = re.match(r"(?:messages|contents|input)\[(\d+)\](.*)", where)
            at = int(found[1]) if found else len(reading.rows)
            if at >= len(reading.rows):
                reading.issues.note(where, what)
            elif found and not found[2]:  # the place is a whole message: it is left out
                reading.leave(reading.rows[at], where, what, is_known=False)
            else:
                reading.issues.note(where, what, reading.rows[at].line)

        module = import_module(f"context_assembler.providers.{provider}")
        source: Json = [row.value for row in reading.rows]
        if reading.key:
            key = _OTHER_KEYS.get(reading.key, reading.key)
            source = {**reading.head, key: source}
        read_events: list[tuple[str, Body]] = module.read_messages(source, note)
        if read_events:
            reading.use(*reading.rows)
        for event_type, body in read_events:
            metadata = body.pop("metadata", {})
            if kept := without_nulls(as_object(metadata.get(provider))):
                body["metadata"] = {provider: kept}
            reading.add(None, event_type, body, time=kept.get("timestamp"))
        reading.tools = tools_of(reading.head, note)
        rest = without_nulls(reading.head).items()
        reading.metadata |= {key: held for key, held in rest if key not in _READ}
        for name in reading.metadata.keys() & _ELSEWHERE.keys():
            note(name, _ELSEWHERE[name])

    return read


def tools_of(request: JsonObject, note: Callable[[str, str], None]) -> tuple[ToolSpec, ...]:
    specs = request.get("tools") or request.get("functions")
    specs = specs or as_object(request.get("config")).get("tools")
    if not specs or not isinstance(specs, list | dict):  # Gemini takes one by itself
        return ()
    from context_assembler.tools import ListedTools

    source = ListedTools(listed(specs), name="transcript", kind="transcript")
    tools = tuple(source.list_now())
    for problem in source.problems:
        note("tools", f"{problem.problem}; left out")
    return tools


def _has_more(message: JsonObject) -> bool:
    """Whether a message is more than roles and text."""
    return "type" in message or not _is_chat(message)


def _is_not_claudes(rows: Rows) -> bool | None:
    return False if _anthropic_head(rows) else None


def _has_its_list(rows: Rows) -> bool | None:
    """Whether the rows stand in a list that no other format has."""
    return rows.key in ("input", "output", "contents") or None


# ---- writing ----

_VENDORS: Final = {"anthropic": "anthropic", "gemini": "google"}
_FEATURES: Final = ("tools", "vision", "pdf", "mid_conversation_system", "prefill", "audio")
_HEADS: Final = {"anthropic": ("system", "messages"), "gemini": ("systemInstruction", "contents")}


def _write(events: Iterable[SessionEvent], provider: str) -> str:
    """Return the history of the events as JSON: a list, or an object with the system prompt.

    It is the history that a call would be made from: active, paired, repaired. Fields that an event
    kept next to a message (`name` …) come back. Calls that are still in flight have no results.
    """
    given = list(events)
    event_by_seq = {event.seq or number: event for number, event in enumerate(given, 1)}
    transformer = MessageTransformer(
        takes_leading_system=provider in _HEADS,
        reads=lambda body: as_object(body.get("made_by")).get("provider") == provider,
    )
    made = transformer.transform(given)
    last = made.turns[-1].get("kind") if made.turns else None
    wire = _wire_for(provider, given)
    for turn in made.turns[:-1] if last == "synthetic" else made.turns:
        before = len(wire.messages)
        wire.add(turn)
        event = event_by_seq.get(turn.get("seq", 0))
        kept = event.metadata.get(provider) if event else None
        if isinstance(kept, dict) and len(wire.messages) == before + 1:
            wire.messages[-1] = {**kept, **wire.messages[-1]}
    document: Any = list(wire.messages)
    if provider in _HEADS:
        name, key = _HEADS[provider]
        parts = [{"text": text} for text in made.leading_system]
        system: Any = [{"type": "text", **part} for part in parts]
        head = {name: system if name == "system" else {"parts": parts}} if parts else {}
        document = {**head, key: document}
    text = json.dumps(document, ensure_ascii=False, indent=2)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate
        text = json.dumps(document, indent=2)
    return text + "\n"


def _wire_for(provider: str, events: Iterable[SessionEvent]) -> Any:
    """Return an empty wire of a provider for a model that takes everything.

    It offers the tools that results refer to: what is written is for reading, not for sending.
    """
    pieces = [p for e in events for r in e.parts if isinstance(r, ToolResult) for p in r.content]
    blocks = [piece.block for piece in pieces if isinstance(piece, Opaque)]
    names = {str(block["tool_name"]) for block in blocks if "tool_name" in block}
    limits = ModelLimits(
        id="any",
        provider=_VENDORS.get(provider, "openai"),
        window_tokens=1 << 40,
        features=dict.fromkeys(_FEATURES, True),
        thinking=ThinkingRule(kinds=("effort",) if provider == "openai_responses" else ()),
        protocol=provider,
    )
    parameters, tools = Parameters(max_tokens=1), tuple(ToolSpec(name=n) for n in sorted(names))
    request = Request(limits=limits, parameters=parameters, tools=tools, cache="off")
    return PROVIDERS[provider].Wire(request)


API_FORMATS: Final[Mapping[str, Format]] = {
    name: Format(takes, marks, _reader(name), keys, head, partial(_write, provider=name))
    for name, takes, marks, keys, head in (
        ("openai_responses", _is_item, _has_more, ("input", "output"), _has_its_list),
        ("gemini", _is_content, bool, ("contents", "history"), _has_its_list),
        ("anthropic", _is_anthropic, _has_more, ("messages",), _anthropic_head),
        ("openai_chat", _is_chat, bool, ("messages", "traj"), _is_not_claudes),
    )
}
