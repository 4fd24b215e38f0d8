"""Blocks of the Messages API that lack what their type promises, and would be refused."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from context_assembler.providers.anthropic.blocks import PROVIDER
from context_assembler.values.adapting import Judge
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.malformed import (
    RULE,
    Suits,
    is_content,
    is_filled,
    is_mapping,
    is_text,
    is_text_or_null,
    judge_malformed,
)
from context_assembler.values.media.media_claims import is_base64
from context_assembler.values.messages import Message, Role
from context_assembler.values.parts import Json, JsonObject, Opaque, Part, Thinking
from context_assembler.values.reading import as_array, as_object, as_text
from context_assembler.values.report import ReportEntry

_Fields = Mapping[str, Suits]

# Rule A5: a provider gives the ids of its own calls, and refuses those of any other form. All that
# recorded, accepted requests hold have this one; those of MCP servers begin otherwise.
_SERVER_ID: Final = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")


def _is_server_id(value: Json) -> bool:
    return isinstance(value, str) and _SERVER_ID.fullmatch(value) is not None


_ANSWER: Final[_Fields] = {"tool_use_id": _is_server_id, "content": is_content}
# Of each type the fields that it must have. Of others nothing is known.
# Types of the anthropic package 2.14, BetaContentBlockParam (read 2026-11-28)
_REQUIRED: Final[Mapping[str, _Fields]] = {
    "text": {"text": is_text},
    "image": {"source": is_mapping},
    "document": {"source": is_mapping},
    "search_result": {"content": is_array, "source": is_text, "title": is_text},
    "thinking": {"thinking": is_text, "signature": is_filled},
    "redacted_thinking": {"data": is_filled},
    "server_tool_use": {"id": _is_server_id, "name": is_filled, "input": is_mapping},
    "mcp_tool_use": {
        "id": is_filled,
        "name": is_filled,
        "input": is_mapping,
        "server_name": is_filled,
    },
    "mcp_tool_result": {"tool_use_id": is_filled},
    "container_upload": {"file_id": is_filled},
    "compaction": {"content": is_text_or_null},
    "tool_reference": {"tool_name": is_filled},
    "tool_addition": {"tool": is_mapping},
    "tool_removal": {"tool": is_mapping},
    "web_search_tool_result": _ANSWER,
    "web_fetch_tool_result": _ANSWER,
    "advisor_tool_result": _ANSWER,
    "code_execution_tool_result": _ANSWER,
    "bash_code_execution_tool_result": _ANSWER,
    "text_editor_code_execution_tool_result": _ANSWER,
    "tool_search_tool_result": _ANSWER,
}
# Whatever can be read of these is read, and does not stay a block.
_READ: Final = frozenset({"tool_use", "tool_result"})
_CHANGES: Final = frozenset({"tool_addition", "tool_removal"})
_SOURCES: Final[Mapping[str, _Fields]] = {
    "base64": {"media_type": is_filled, "data": is_filled},
    "text": {"data": is_text},
    "url": {"url": is_filled},
    "file": {"file_id": is_filled},
    "content": {"content": is_content},
}
_CALL, _RESULT = "_tool_use", "_tool_result"


def judge_own(messages: Sequence[Message]) -> Judge:
    """Return the judge of blocks that are malformed, or belong to one that is.

    A call without its result is refused, and so is a result without its call: both go together.

    Source:
        https://platform.claude.com/docs/en/api/messages/create
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools (read 2026-11-27)
    """
    lost = frozenset(_lost_ids(messages))

    def find(block: JsonObject, _role: Role) -> str | None:
        flaw = find_flaw(block)
        if flaw is None and pair_id(block) in lost:
            return "the call or the result that it belongs to cannot be sent"
        return flaw

    return judge_malformed(provider=PROVIDER, find_flaw=find)


def leave_thoughts(messages: Sequence[Message]) -> tuple[tuple[Message, ...], list[ReportEntry]]:
    """Return the messages without signed thinking that nobody could have signed, and a row for each."""
    kept: list[Message] = []
    rows: list[ReportEntry] = []
    for message in messages:
        parts = tuple(part for part in message.parts if not _is_broken_thought(part))
        if len(parts) == len(message.parts):
            kept.append(message)
            continue
        number = len(message.parts) - len(parts)
        rows.append(
            ReportEntry(
                kind="message",
                id=message.id or message.note or message.kind,
                decision="cleared",
                reason=f"{number} thinking part(s) are left out: they lack what a signature needs.",
                rule=RULE,
            )
        )
        kept.append(replace(message, parts=parts))
    return tuple(kept), rows


def _is_broken_thought(part: Part) -> bool:
    if not isinstance(part, Thinking) or part.block is None or part.provider != PROVIDER:
        return False
    return find_flaw(part.block) is not None


def _lost_ids(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if not isinstance(part, Opaque) or part.provider != PROVIDER:
                continue
            if find_flaw(part.block) and (lost := pair_id(part.block)):
                yield lost


def pair_id(block: JsonObject) -> str:
    """Return the id by which a call of a server tool and its result know each other; else nothing."""
    kind = as_text(block.get("type"))
    if kind.endswith(_CALL):
        return as_text(block.get("id"))
    return as_text(block.get("tool_use_id")) if kind.endswith(_RESULT) else ""


def find_flaw(block: JsonObject) -> str | None:
    """Return why a block would be refused, half a sentence; `None` where nothing is known against it."""
    kind = block.get("type")
    if not isinstance(kind, str) or not kind:
        return "it has no type"
    if kind in _READ:
        return "it lacks what its type requires"
    flaw = _object_to_fields(block, _REQUIRED.get(kind, {}))
    if flaw is not None:
        return flaw
    if kind in ("image", "document"):
        return _object_to_source(as_object(block.get("source")))
    if kind in _CHANGES and not any(map(block["tool"].get, ("name", "definition", "tool_name"))):
        return "its tool has no name"
    return _object_to_inner(block.get("content")) if kind == "search_result" else None


def _object_to_fields(fields: JsonObject, required: _Fields, *, of: str = "") -> str | None:
    for name, suits in required.items():
        if not suits(fields.get(name)):
            return (
                f"its {of}{name} is missing" if name not in fields else f"its {of}{name} is amiss"
            )
    return None


def _object_to_source(source: JsonObject) -> str | None:
    kind = as_text(source.get("type"))
    required = _SOURCES.get(kind)
    if required is None:
        return "its source is of no known type"
    flaw = _object_to_fields(source, required, of="source's ")
    if flaw is None and kind == "base64" and not is_base64(as_text(source.get("data"))):
        return "its source's data is no base64"
    return flaw or (_object_to_inner(source.get("content")) if kind == "content" else None)


def _object_to_inner(content: Json) -> str | None:
    """Return what is wrong with the blocks inside; text stands for a block of it."""
    for inner in as_array(content):
        if not isinstance(inner, str):
            flaw = find_flaw(inner) if is_object(inner) else "it is no block"
            if flaw is not None:
                return f"in a block inside, {flaw}"
    return None
