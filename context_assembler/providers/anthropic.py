"""Anthropic Messages: what `anthropic.Anthropic().messages.create` takes and returns."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_assembler.context import Request
from context_assembler.errors import EmptySessionError, ReplyError, UnsupportedRequestError
from context_assembler.events import Json, JsonObject, Usage, compact_json, dump_json, is_plain
from context_assembler.models import ModelLimits
from context_assembler.ports import ChangeForms, Payload, ToolSearch, ToolSpec, Turn, read_change
from context_assembler.providers.lent import LentList
from context_assembler.providers.schemas import root_object_schema, walk_schemas
from context_assembler.providers.wire import (
    NO_SYSTEM_AUTHORITY,
    OPENING,
    CallIds,
    Change,
    NameRule,
    Reply,
    WireNames,
    as_list,
    as_object,
    as_text,
    count_of,
    declared_tools,
    is_held_back,
    known_tools,
    objects_in,
    own_extras,
    parse_object,
    plain_json,
    plan_of,
    read_call,
    read_object,
    read_stream,
    say_unfinished,
    settle_opaque,
    settle_parts,
    summary_text,
    text_of,
    tool_entry,
    turn_entries,
)
from context_assembler.report import Decision, ReportEntry
from context_assembler.texts import REMINDER_TAG, clean_text, fence

if TYPE_CHECKING:
    from context_assembler.providers.media import MediaRules

NAME: Final = "anthropic"

# https://github.com/langchain-ai/langchain/issues/37756 (read 2026-11-27)
ID_RULE: Final = NameRule(re.compile(r"[a-zA-Z0-9_-]{1,128}"), max_chars=64)
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (read 2026-11-27)
NAME_RULE: Final = NameRule(re.compile(r"[a-zA-Z0-9_-]{1,64}"), max_chars=64)
# A name of a parameter that does not match makes the API refuse the whole request.
# https://github.com/anthropics/claude-code/issues/4668 (read 2026-11-29)
SERVER_ID: Final = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
PARAMETER_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")

THINKING_TYPES: Final = frozenset({"thinking", "redacted_thinking"})
CHANGE_TYPES: Final = frozenset({"tool_addition", "tool_removal"})
# The tools that search for deferred tools, by name: for words first, then for patterns.
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool (2026-11-27)
SEARCH_TOOLS: Final[Mapping[str, str]] = {
    "tool_search_tool_bm25": "tool_search_tool_bm25_20251119",
    "tool_search_tool_regex": "tool_search_tool_regex_20251119",
}
SAMPLING_VERSION: Final = "2023-06-01"
MAX_TEMPERATURE: Final = 1.0
_LOOKBACK_BLOCKS: Final = 20
_HASHED_UNITS: Final = 256  # at a time: encoding each by itself takes twice as long


# ---- blocks that are sent back as they came ----


def is_filled(value: Json) -> bool:
    """Whether the value is text that says something."""
    return isinstance(value, str) and bool(value.strip())


def _is_server_id(value: Json) -> bool:
    # A provider gives the ids of its own calls and refuses any other form; MCP ids begin otherwise.
    return isinstance(value, str) and SERVER_ID.fullmatch(value) is not None


def _is_content(value: Json) -> bool:
    held = value if isinstance(value, list | tuple) else (value,)
    return all(isinstance(one, str | Mapping) for one in held)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_object(value: Json) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Json) -> bool:
    return isinstance(value, list | tuple)


_ANSWER: Final = {"tool_use_id": _is_server_id, "content": _is_content}
# The fields that a block of each type must have; about other types nothing is known.
# Types of the anthropic package 2.14, BetaContentBlockParam (read 2026-11-28)
_REQUIRED: Final[Mapping[str, Mapping[str, Any]]] = {
    "text": {"text": _is_text},
    "image": {"source": _is_object},
    "document": {"source": _is_object},
    "search_result": {"content": _is_list, "source": _is_text, "title": _is_text},
    "thinking": {"thinking": _is_text, "signature": is_filled},
    "redacted_thinking": {"data": is_filled},
    "server_tool_use": {"id": _is_server_id, "name": is_filled, "input": _is_object},
    "mcp_tool_use": {
        "id": is_filled,
        "name": is_filled,
        "input": _is_object,
        "server_name": is_filled,
    },
    "mcp_tool_result": {"tool_use_id": is_filled},
    "container_upload": {"file_id": is_filled},
    "compaction": {"content": lambda value: value is None or isinstance(value, str)},
    "tool_reference": {"tool_name": is_filled},
    "tool_addition": {"tool": _is_object},
    "tool_removal": {"tool": _is_object},
    "web_search_tool_result": _ANSWER,
    "web_fetch_tool_result": _ANSWER,
    "advisor_tool_result": _ANSWER,
    "code_execution_tool_result": _ANSWER,
    "bash_code_execution_tool_result": _ANSWER,
    "text_editor_code_execution_tool_result": _ANSWER,
    "tool_search_tool_result": _ANSWER,
}
_SOURCES: Final[Mapping[str, Mapping[str, Any]]] = {
    "base64": {"media_type": is_filled, "data": is_filled},
    "text": {"data": _is_text},
    "url": {"url": is_filled},
    "file": {"file_id": is_filled},
    "content": {"content": _is_content},
}
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_\s-]*+={0,2}\s*+")


def find_flaw(block: Json) -> str | None:
    """Return why the API would refuse a block, in half a sentence; `None`: nothing is known."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(kind, str) or not kind:
        return "it has no type"
    if kind in ("tool_use", "tool_result"):  # any that can be read is not kept as a block
        return "it lacks what its type requires"
    if flaw := _missing(block, _REQUIRED.get(kind, {})):
        return flaw
    source = as_object(block.get("source"))
    if kind in ("image", "document"):
        inside = as_text(source.get("type"))
        if inside not in _SOURCES:
            return "its source is of no known type"
        if flaw := _missing(source, _SOURCES[inside], "source's "):
            return flaw
        if inside == "base64" and not _BASE64.fullmatch(source["data"]):
            return "its source's data is no base64"
    if kind in CHANGE_TYPES and not any(
        map(block["tool"].get, ("name", "definition", "tool_name"))
    ):
        return "its tool has no name"
    inner = block.get("content") if kind == "search_result" else source.get("content")
    for held in as_list(inner):  # text stands for a block of it
        if not isinstance(held, str) and (flaw := find_flaw(held)):
            return f"in a block inside, {flaw}"
    return None


def _missing(fields: JsonObject, required: Mapping[str, Any], of: str = "") -> str | None:
    for name, suits in required.items():
        if not suits(fields.get(name)):
            return f"its {of}{name} is {'amiss' if name in fields else 'missing'}"
    return None


def pair_id(block: JsonObject) -> str:
    """Return the id that connects a server tool's call and its result; empty for other blocks."""
    kind = as_text(block.get("type"))
    if kind.endswith("_tool_use"):
        return as_text(block.get("id"))
    return as_text(block.get("tool_use_id")) if kind.endswith("_tool_result") else ""


def without_blanks(block: Json) -> Json:
    """Return a block without blank text, which the API returns and then refuses; `None`: none left.

    https://github.com/anthropics/claude-code/issues/59812 (read 2026-11-27); of a compaction: types
    of the anthropic package 2.14, BetaCompactionBlockParam: "Empty string content is not allowed"
    """
    if not isinstance(block, Mapping):
        return None if isinstance(block, str) and not block.strip() else block
    kind, source = block.get("type"), as_object(block.get("source"))
    if kind == "text":
        return block if is_filled(block.get("text")) else None
    if kind == "compaction":
        return (
            None if block.get("content") is not None and not is_filled(block["content"]) else block
        )
    if kind not in ("document", "search_result"):
        return block
    holder = source if source.get("type") == "content" else block
    if "content" not in holder:
        return block
    inner = holder["content"]
    if isinstance(inner, list | tuple):
        inner = [one for one in map(without_blanks, inner) if one is not None]
    if without_blanks(inner) in (None, []):
        return None
    if holder is source:
        return {**block, "source": {**source, "content": inner}}
    return {**block, "content": inner}


def verbatim(block: JsonObject) -> dict[str, Json]:
    """Return the API's own block without the cache marks that it may have carried."""
    copied = {key: plain_json(held) for key, held in block.items() if key != "cache_control"}
    if isinstance(content := copied.get("content"), list):
        copied["content"] = [
            verbatim(one) if isinstance(one, Mapping) and isinstance(one.get("type"), str) else one
            for one in content
        ]
    return copied


def compaction_place(blocks: Sequence[JsonObject]) -> int | None:
    """Return the place of the latest compaction that holds something; `None`: there is none.

    A compaction without content has failed, and the server ignores it.
    Types of the anthropic package 2.14, BetaCompactionBlock (read 2026-11-27)
    """
    for place in range(len(blocks) - 1, -1, -1):
        if blocks[place]["type"] == "compaction" and is_filled(blocks[place].get("content")):
            return place
    return None


_READABLE: Final = [
    "text",
    "stdout",
    "stderr",
    "title",
    "context",
    "url",
    "source",
    "name",
    "query",
    "file_id",
    "tool_name",
    "error_code",
    "error_message",
]


def describe_block(block: JsonObject) -> str:
    """Return the text that stands for a block elsewhere; empty if it holds no text."""
    if as_text(block.get("type")).endswith("_tool_use"):
        asked = compact_json(plain_json(block.get("input")))
        return f"[{as_text(block.get('name')) or 'tool'}: {asked}]"
    return _readable(block)


def _readable(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        texts = [_readable(held) for held in value if not isinstance(held, str)]
    elif isinstance(value, Mapping):
        source = as_object(value.get("source"))
        texts = [as_text(value.get(name)) for name in _READABLE]
        texts += [line for line in as_list(value.get("lines")) if isinstance(line, str)]
        texts += [_readable(value.get("content")), _readable(source.get("content"))]
        texts += [as_text(source.get("data"))] if source.get("type") == "text" else []
    else:
        return ""
    return "\n".join(filter(None, texts))


# ---- images and documents ----

MAX_REQUEST_CHARS: Final = 32 * 1024 * 1024
CROWD_IMAGES: Final = 20
CROWD_SIDE_PX: Final = 2_000
_TEXT_ROOM_CHARS: Final = 6 * 1024 * 1024  # of a request, for everything that is not media
_MAX_MEDIA_CHARS: Final = MAX_REQUEST_CHARS - _TEXT_ROOM_CHARS


def media_rules(limits: ModelLimits | None) -> "MediaRules":
    """Return what the model takes of images and documents.

    Every image is scaled to what is taken next to more than twenty others, however few there are:
    an image that was sent once can then stay as it is.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/vision
        https://platform.claude.com/docs/en/build-with-claude/pdf-support
        https://platform.claude.com/docs/en/api/errors (read 2026-11-27)
    """
    from context_assembler.providers.media import MediaRules

    window, megabyte = (limits.window_tokens if limits else 1_000_000), 1024 * 1024
    is_cloud = limits is not None and limits.host in ("bedrock", "vertex_ai")
    return MediaRules(
        api="the Messages API",
        file_owner=NAME,
        image_types=("image/jpeg", "image/png", "image/gif", "image/webp"),
        image_words="JPEG, PNG, GIF and WebP",
        max_image_chars=(5 if is_cloud else 10) * megabyte,
        max_side_px=8_000,
        fit_side_px=CROWD_SIDE_PX,
        max_pdf_pages=100 if window < 1_000_000 else 600,
        takes_locked_pdfs=False,
        max_images=100 if window <= 200_000 else 600,
        crowd_images=CROWD_IMAGES,
        crowd_side_px=CROWD_SIDE_PX,
        max_media_chars=_MAX_MEDIA_CHARS,
    )


def _make_way(wire: "Wire", messages: list[dict[str, Any]]) -> None:
    """Replace the oldest images and documents by a line, until the rest is not too much together."""
    from context_assembler.providers.media import find_surplus, left_out

    def blocks_of(content: Sequence[JsonObject]) -> Iterator[JsonObject]:
        for block in content:
            if block["type"] == "tool_result":
                yield from blocks_of(block.get("content", ()))
            elif block["type"] == "image" or _is_file(block):
                yield block

    media = [block for message in messages for block in blocks_of(message["content"])]
    surplus = find_surplus(media, media_rules(wire.request.limits))
    if not surplus:
        return
    lines: dict[int, str] = {}
    for place, (rule, reason) in surplus.items():
        block = media[place]
        named = {**block, "source": {"provider": NAME, **block["source"]}}
        lines[id(block)] = left_out(named, reason)
        _report(wire, "media", "shortened", f"{reason[0].upper()}{reason[1:]}.", rule)

    def settled(block: dict[str, Any]) -> dict[str, Any]:
        if block["type"] == "tool_result" and block.get("content"):
            return {**block, "content": [settled(inner) for inner in block["content"]]}
        line = lines.get(id(block))
        return block if line is None else {"type": "text", "text": line}

    # Thinking may be bound to what makes way; without thinking nothing is refused.
    binds = wire.request.limits.thinking.is_prefix_bound
    for at, message in enumerate(messages):
        content = [settled(b) for b in message["content"]]
        if binds:
            content = [b for b in content if b["type"] not in THINKING_TYPES] or content
        messages[at] = {**message, "content": content}


def _is_file(block: JsonObject) -> bool:
    """Whether a block is a document that is sent as bytes or by address."""
    return block["type"] == "document" and block["source"]["type"] in ("base64", "url", "file")


# ---- betas ----

BETAS: Final[Mapping[str, str]] = {
    # https://platform.claude.com/docs/en/build-with-claude/compaction (read 2026-11-27)
    "edit compact_20260112": "compact-2026-01-12",
    "block compaction": "compact-2026-01-12",
    "parameter compaction": "compact-2026-09-04",
    "signed block compaction": "compact-2026-09-04",
    # https://platform.claude.com/docs/en/build-with-claude/context-editing (read 2026-11-27)
    "edit clear_tool_uses_20250919": "context-management-2025-06-27",
    "edit clear_thinking_20251015": "context-management-2025-06-27",
    # https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
    "block tool_addition": "mid-conversation-tool-changes-2026-07-01",
    "block tool_removal": "mid-conversation-tool-changes-2026-07-01",
    "message clear_at": "mid-conversation-system-clear-at-2026-08-21",
    "message output_config": "mid-conversation-output-config-2026-07-01",
    "thinking block_binding": "thinking-binding-controls-2026-08-01",
    # The anthropic package 2.14, docstrings of BetaRequestToolAdditionBlockParam,
    # BetaToolChangeToolDefinitionParam, BetaFallbackParam, MessageCreateParams (read 2026-11-27)
    "added tool_definition": "inline-tools-2026-09-15",
    "added mcp_toolset": "mcp-client-2026-09-15",
    "block mcp_tool_listing": "mcp-client-2026-09-15",
    "parameter fallbacks": "server-side-fallback-2026-07-01",
    "block fallback": "server-side-fallback-2026-07-01",
    "parameter speed": "fast-mode-2026-02-01",
    # The anthropic package 2.14, types of its beta methods alone, each with the beta of its name in
    # AnthropicBetaParam (read 2026-11-27)
    "parameter mcp_servers": "mcp-client-2025-11-20",
    "tool mcp_toolset": "mcp-client-2025-11-20",
    "block mcp_tool_use": "mcp-client-2025-11-20",
    "block mcp_tool_result": "mcp-client-2025-11-20",
    "source file": "files-api-2025-04-14",
    "block container_upload": "files-api-2025-04-14",
    "output_config task_budget": "task-budgets-2026-03-13",
    "parameter thread": "message-threads-2026-08-12",
    "container skills": "skills-2025-10-02",
    "tool advisor_20260301": "advisor-tool-2026-03-01",
    "block advisor_tool_result": "advisor-tool-2026-03-01",
    "tool computer_20241022": "computer-use-2024-10-22",
    "tool computer_20250124": "computer-use-2025-01-24",
    "tool computer_20251124": "computer-use-2025-11-24",
}
"""What a request uses, as `features_of` and `features_of_blocks` name it → the beta that it needs."""


def features_of_blocks(content: Json) -> Iterator[str]:
    """Yield what blocks use, including those inside results and documents."""
    waiting: list[Json] = [content]
    while waiting:
        for block in objects_in(waiting.pop()):
            kind, source = as_text(block.get("type")), as_object(block.get("source"))
            is_signed = kind == "compaction" and block.get("signature")
            yield f"signed block {kind}" if is_signed else f"block {kind}"
            yield f"source {as_text(source.get('type'))}"
            if kind == "tool_addition":
                added = as_object(block.get("tool"))
                yield f"added {as_text(added.get('type'))}"
                yield f"added {as_text(as_object(added.get('definition')).get('type'))}"
            waiting += [block.get("content"), source.get("content")]


# ---- tools ----

# What strict mode takes of schemas. The API is documented to answer bounds with an error; that
# references, lookarounds and composed enum values are refused was not tried: without strict mode a
# tool costs less than a refusal.
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use
# https://platform.claude.com/docs/en/build-with-claude/structured-outputs (read 2026-11-27)
STRICT_BOUNDS: Final = ("minimum", "maximum", "minLength", "maxLength", "multipleOf")
_UNSTRICT: Final = frozenset({*STRICT_BOUNDS, "minItems", "maxItems", "$ref"})
_UNSTRICT_PATTERN: Final = re.compile(r"\(\?<?[=!]|\\[bB1-9]")


def suits_strict(schema: Json) -> bool:
    """Whether strict mode takes the schema: closed objects, no bounds, no references."""
    return not any(
        _UNSTRICT & found.keys()
        or _UNSTRICT_PATTERN.search(as_text(found.get("pattern")))
        or any(isinstance(one, list | Mapping) for one in as_list(found.get("enum")))
        or (found.get("type") == "object" and found.get("additionalProperties") is not False)
        for found in walk_schemas(schema)
    )


class StrictLoad(NamedTuple):
    """How many strict tools there are, and their optional and union parameters together."""

    tools: int = 0
    optional: int = 0
    unions: int = 0

    def plus(self, schema: Json) -> "StrictLoad":
        """Return the load with one more strict tool."""
        optional = unions = 0
        for found in walk_schemas(schema):
            required = as_list(found.get("required"))
            optional += len(as_object(found.get("properties")).keys() - required)
            unions += "anyOf" in found or isinstance(found.get("type"), list)
        return StrictLoad(self.tools + 1, self.optional + optional, self.unions + unions)

    def excess(self) -> str | None:
        """Return which limit is passed; `None`: none is."""
        # https://platform.claude.com/docs/en/build-with-claude/structured-outputs (2026-11-27)
        if self.tools > 20:
            return "at most 20 strict tools are taken"
        if self.optional > 24:
            return "strict tools may have 24 optional parameters together"
        if self.unions > 16:
            return "strict tools may have 16 parameters of several types together"
        return None


def _fit_parameters(tool: ToolSpec, schema: dict[str, Json]) -> tuple[str, dict[str, Json], str]:
    """Return description and schema with parameters that can be named, and the names that cannot.

    The description tells of the others. The model passes them all the same, since the schema stays
    open for them.
    """
    properties = as_object(schema.get("properties"))
    refused = [name for name in properties if not PARAMETER_NAME.fullmatch(name)]
    if not refused:
        return clean_text(tool.description), schema, ""
    required = as_list(schema.get("required"))
    shown = {name: properties[name] for name in refused}
    words = f"It takes further parameters, by exactly these names: {compact_json(shown)}"
    if missed := [name for name in refused if name in required]:
        words += f"\nOf these are required: {compact_json(missed)}"
    kept = {k: v for k, v in schema.items() if k not in ("required", "additionalProperties")}
    kept["properties"] = {k: v for k, v in properties.items() if k not in refused}
    if still := [name for name in required if name not in refused]:
        kept["required"] = still
    description = clean_text(f"{tool.description}\n\n{words}".strip())
    return description, dict(sorted(kept.items())), ", ".join(map(repr, refused))


def _client_tool(tool: ToolSpec, name: str, entries: list[ReportEntry]) -> dict[str, Json]:
    description, schema, refused = _fit_parameters(tool, root_object_schema(tool.input_schema))
    if refused:
        reason = f"Its description tells of {refused}: the API refuses such names."
        entries.append(tool_entry(tool, "tool.schema", reason, "repaired"))
    made: dict[str, Json] = {"name": name}
    if description.strip():
        made["description"] = description
    return {**made, "input_schema": schema}


def _render_tools(
    request: Request, names: Mapping[str, str], entries: list[ReportEntry]
) -> list[dict[str, Json]]:
    """Return the tools in their order; if some are deferred, a tool that searches comes first."""
    searches = tool_search(request.limits) is not None
    load, tools, holds_back = StrictLoad(), list[dict[str, Json]](), False
    for tool in declared_tools(request, NAME, entries):
        if tool.native_specs:
            tools.append(verbatim(tool.native_specs[NAME]))
            continue
        made = _client_tool(tool, names[tool.name], entries)
        if tool.is_strict:
            more = load.plus(made["input_schema"])
            objection = more.excess()
            if not suits_strict(made["input_schema"]):
                objection = "its schema has what strict mode refuses"
            if objection is None:
                load, made["strict"] = more, True
            else:
                reason = f"It is offered without strict mode: {objection}."
                entries.append(tool_entry(tool, "tool.strict", reason, "repaired"))
        if searches and is_held_back(tool):
            made["defer_loading"] = holds_back = True
        tools.append(made)
    if holds_back and not any(str(t.get("type")).startswith("tool_search_tool") for t in tools):
        # The tool that searches is never deferred: a request of deferred tools alone is refused.
        # https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
        taken = {tool.get("name") for tool in tools}
        name, kind = next(pair for pair in SEARCH_TOOLS.items() if pair[0] not in taken)
        tools.insert(0, {"type": kind, "name": name})
    return tools


def _is_own(limits: ModelLimits) -> bool:
    return limits.provider == "anthropic" and limits.host is None


def tool_search(limits: ModelLimits) -> ToolSearch | None:
    """Return how the model searches for tools; `None`: it cannot, or another API answers."""
    return ToolSearch() if _is_own(limits) and limits.supports("tool_search") else None


def change_forms(limits: ModelLimits) -> ChangeForms:
    """Return how the model can learn of changed tools after the history.

    That takes a system message there. Strict tools are not added: all together are limited in number.
    https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
    Types of the anthropic package 2.14, BetaRequestToolAdditionBlockParam (read 2026-11-27)
    """
    if _is_own(limits) and limits.supports("mid_conversation_system"):
        return ChangeForms(adds=True, redefines=True, withdraws="note")
    return ChangeForms()


def _told(tool: ToolSpec) -> tuple[Json, ...]:
    return (tool.name, tool.description, tool.input_schema, tool.is_strict, tool.native_specs)


# ---- messages ----


class _Unit(NamedTuple):
    """One turn as blocks; `fenced`: a system turn as text of the user, if its role is not taken."""

    role: str  # user, assistant, system
    blocks: Sequence[dict[str, Json]]
    fenced: Sequence[dict[str, Json]] = ()
    may_speak: bool = False  # as the system, in a message of its own
    id: str = ""


def text_blocks(text: str) -> list[dict[str, Json]]:
    """Return the text as a block; none for a blank one, which is refused."""
    text = clean_text(text)
    return [{"type": "text", "text": text}] if text.strip() else []


class Wire:
    """The messages of one request, grown turn by turn."""

    def __init__(self, request: Request) -> None:
        limits = request.limits
        self.request = request
        self.messages: list[dict[str, Any]] = []
        self.entries: list[ReportEntry] = []
        plan = plan_of(request, NAME)
        native = {
            tool.name: spec["name"]
            for tool in known_tools(request)
            if (spec := tool.native_specs.get(NAME)) and isinstance(spec.get("name"), str)
        }
        self.names = WireNames(request, NAME_RULE, native)
        self.tools = _render_tools(request, self.names, self.entries)
        self.system = text_blocks(request.system)
        self.features: frozenset[str] = frozenset()
        self.container: JsonObject | None = None
        self.media = 0, 0  # how many images and documents, with how many characters of base64
        self._known = {tool.name: tool for tool in request.tools}  # as notes of changes name them
        offered = (*request.tools, *(plan.added if plan else ()))
        self._declared = {self.names[tool.name] for tool in offered}
        self._ids = CallIds(ID_RULE)
        self._toolsets: dict[str, Json] = {}
        self._takes_system = limits.supports("mid_conversation_system")
        self._trims_end = limits.supports("prefill")
        self._units: list[_Unit] = []
        self._start = self._run = 0  # where the open message begins, in messages and in units
        self._fenced: frozenset[int] = frozenset()  # units with an entry about their place
        self._hash: Any = None
        self._head: Any = None
        self._hashed = 0

    def add(self, turn: Turn) -> None:
        """Append a turn; see `providers.Wire`."""
        role = turn["role"]
        blocks = None
        if role != "system" and turn.get("kind") != "summary":
            blocks = self._plain_blocks(turn["parts"], role == "assistant")
        if blocks is None:
            unit = self._unusual(turn)
        else:
            unit = _Unit("assistant" if role == "assistant" else "user", blocks)
        if unit.role == "assistant":
            if self._trims_end and unit.blocks and unit.blocks[-1]["type"] == "text":
                unit = _without_end_space(unit)
            made_by = turn.get("made_by")
            if made_by and made_by.get("container") and made_by.get("provider") == NAME:
                self.container = made_by["container"]
        if unit.blocks or unit.fenced:
            self._units.append(unit)
            self._join(unit)

    def _plain_blocks(
        self, parts: Sequence[JsonObject], is_assistant: bool
    ) -> list[dict[str, Json]] | None:
        """Return parts as blocks, shared as far as possible; `None`: some must be looked into."""
        blocks: list[Any] = []
        calls: list[JsonObject] = []
        for part in parts:
            kind = part["type"]
            if kind == "text":
                if len(part) > 2 or not is_plain(part["text"]):
                    return None
                blocks.append(part)
            elif kind == "tool_result":
                content = part.get("content", ())
                if is_assistant or not content or "extras" in part:
                    return None
                for inner in content:
                    if inner["type"] != "text" or len(inner) > 2 or not is_plain(inner["text"]):
                        return None
                answer: dict[str, Json] = {"type": "tool_result", "tool_use_id": ""}
                if part.get("is_error"):
                    answer["is_error"] = True
                answer["content"] = content
                blocks.append(answer)
                calls.append(part)
            elif not is_assistant:
                return None
            elif kind == "tool_call":
                if "extras" in part or not _is_clean(part.get("arguments")):
                    return None
                name = self.names[part["name"]]
                given = part.get("arguments") or {}
                blocks.append({"type": "tool_use", "id": "", "name": name, "input": given})
                calls.append(part)
            elif kind == "thinking":
                block = part.get("block")
                if block is not None and part.get("provider") == NAME:
                    if find_flaw(block) or "cache_control" in block or not _is_clean(block):
                        return None
                    blocks.append(block)
            else:
                return None
        if calls:
            self._number(blocks, calls, is_assistant)
        return blocks

    def _number(
        self, blocks: Iterable[dict[str, Json]], calls: Sequence[JsonObject], is_assistant: bool
    ) -> None:
        """Give calls their ids, and results those of their calls."""
        if is_assistant:
            ids = iter(self._ids.of_calls([call["call_id"] for call in calls]))
            self._toolsets = {}
        else:
            ids = iter([self._ids.of_result(call["call_id"]) for call in calls])
        for block in blocks:
            if block["type"] == "tool_use":
                block["id"] = next(ids)
                if name := block.get("toolset_name"):
                    self._toolsets[block["id"]] = name
            elif block["type"] == "tool_result":
                block["tool_use_id"] = sent = next(ids)
                # Types of the anthropic package 2.14, ToolResultBlockParam (read 2026-11-27)
                if sent in self._toolsets:
                    block["toolset_name"] = self._toolsets[sent]

    def _join(self, unit: _Unit) -> None:
        """Put a unit into the messages: neighbours of one role become one message."""
        messages = self.messages
        if unit.role == "assistant":
            if messages and messages[-1]["role"] == "assistant":
                content = [*messages[-1]["content"], *unit.blocks]
                messages[-1] = {"role": "assistant", "content": content}
            else:
                self._start = len(messages)
                messages.append({"role": "assistant", "content": unit.blocks})
            self._run = len(self._units)
            return
        if self._run == len(self._units) - 1:
            self._start = len(messages)
            if unit.role == "user":
                messages.append({"role": "user", "content": unit.blocks})
                return
        self._close_turn()

    def _close_turn(self) -> None:
        """Rebuild what follows the last reply: a user message, then a system message.

        Results come first in a user message, or the request is refused. System turns close it, as
        a message of their own if the model takes one there, else fenced in its text.
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
        https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
        (read 2026-11-27)
        """
        run, messages = self._units[self._run :], self.messages
        del messages[self._start :]
        closing = len(run)
        while closing and self._takes_system and run[closing - 1].may_speak:
            closing -= 1
        before = messages[-1]["content"][-1]["type"] if messages else ""
        if not closing and not before.endswith("_tool_result"):
            closing = len(run)
        content: list[dict[str, Json]] = []
        for at, unit in enumerate(run[:closing], self._run):
            content += unit.fenced if unit.role == "system" else unit.blocks
            if unit.may_speak and self._takes_system and at not in self._fenced:
                self._fenced |= {at}
                self.entries.append(
                    ReportEntry("note", unit.id, "kept", reason=_FENCED, rule="system.fenced")
                )
        content.sort(key=lambda block: block["type"] != "tool_result")
        if content:
            messages.append({"role": "user", "content": content})
        if own := [block for unit in run[closing:] for block in unit.blocks]:
            messages.append({"role": "system", "content": own})

    def mark(self) -> object:
        """Return what `reset` goes back to."""
        return (
            self._start,
            self.messages[self._start :],
            self._run,
            len(self._units),
            len(self.entries),
            self._fenced,
            self.features,
            self.container,
            self.media,
            (dict(self._known), set(self._declared), dict(self._toolsets)),
            self._ids.mark(),
            (self._hashed, self._hash.copy() if self._hash else None),
        )

    def reset(self, mark: Any) -> None:
        """Forget the turns that were added after the mark."""
        self._start, tail, self._run, units, entries = mark[:5]
        self._fenced, self.features, self.container, self.media = mark[5:9]
        self._known, self._declared, self._toolsets = (held.copy() for held in mark[9])
        self.messages[self._start :] = tail
        del self._units[units:]
        del self.entries[entries:]
        self._ids.reset(mark[10])
        if self._hashed > units:
            self._hashed, kept = mark[11]
            self._hash = kept.copy() if kept else None

    def prefix(self) -> str:
        """Return the hash of system prompt, tools and turns, without thinking and cache marks.

        It restarts at a compaction, as the prefix that thinking is bound to does.
        https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (2026-11-27)
        """
        if self._head is None:
            self._head = blake2b(dump_json([NAME, self.system, self.tools]), digest_size=16)
        if self._hash is None:
            self._hash = self._head.copy()
        while self._hashed < len(self._units):
            units = self._units[self._hashed : self._hashed + _HASHED_UNITS]
            self._hashed += len(units)
            counted: list[Json] = []
            for unit in units:
                role, blocks, fenced = unit[:3]
                if role == "assistant":
                    if (place := compaction_place(blocks)) is not None:
                        self._hash, counted, blocks = self._head.copy(), [], blocks[place:]
                    blocks = [block for block in blocks if block["type"] not in THINKING_TYPES]
                if blocks or fenced:
                    counted += role, blocks, fenced
            self._hash.update(dump_json(counted)[1:-1] + b"," if counted else b"")
        digest: str = self._hash.hexdigest()
        return digest

    # ---- turns that hold more than text, calls and results ----

    def _unusual(self, turn: Turn) -> _Unit:
        role, kind = turn["role"], turn.get("kind", "said")
        lost = {pair_id(p["block"]) for p in turn["parts"] if _is_ours(p) and find_flaw(p["block"])}

        def settle(part: JsonObject, role: str, changes: list[Change]) -> list[JsonObject]:
            return self._settle(part, role, changes, lost)

        if kind == "summary" and text_of(p for p in turn["parts"] if p["type"] == "text"):
            own = [p for p in turn["parts"] if p["type"] != "opaque" or p["provider"] == NAME]
            if len(own) < len(turn["parts"]):
                change = Change("repaired", "compaction.twin", _TWIN)
                self.entries.extend(turn_entries(turn, [change]))
                turn = {**turn, "parts": own}
        parts = settle_parts(turn, settle, self.entries)
        if broken := sum(map(_is_broken_thought, parts)):
            reason = f"{broken} thinking part(s) are left out: they lack what a signature needs."
            change = Change("cleared", "content.malformed", reason)
            self.entries.extend(turn_entries(turn, [change]))
            parts = [part for part in parts if not _is_broken_thought(part)]
        if kind == "summary":
            # A compaction goes back as the assistant's, before everything that follows it.
            # https://platform.claude.com/docs/en/build-with-claude/compaction (read 2026-11-27)
            native = [verbatim(part["block"]) for part in parts if _is_ours(part)]
            said = native or text_blocks(summary_text({**turn, "parts": list(parts)}))
            unit = _Unit("assistant" if native else "user", said)
        elif role == "system":
            unit = self._system_unit(turn, parts)
        else:
            unit = _Unit("assistant" if role == "assistant" else "user", self._blocks(parts, role))
        self.features |= set(features_of_blocks([*unit.blocks, *unit.fenced]))
        return unit

    def _settle(
        self, part: JsonObject, role: str, changes: list[Change], lost: set[str]
    ) -> list[JsonObject]:
        """Return what is sent for a part of a message or a result."""
        if _is_ours(part):
            return self._settle_own(part, role, changes, lost)
        kind = part["type"]
        if kind == "opaque" and read_change(part) is None:
            return settle_opaque(part, role, changes, provider=NAME, flaw=None)
        if kind in ("image", "document"):
            from context_assembler.providers.media import settle_media

            limits = self.request.limits
            return settle_media(part, role, changes, rules=media_rules(limits), limits=limits)
        return [part]

    def _settle_own(
        self, part: JsonObject, role: str, changes: list[Change], lost: set[str]
    ) -> list[JsonObject]:
        block = part["block"]
        flaw = find_flaw(block)
        if flaw is None and pair_id(block) in lost - {""}:
            flaw = "the call or the result that it belongs to cannot be sent"
        if flaw is not None:
            return settle_opaque(part, role, changes, provider=NAME, flaw=flaw)
        kind = block["type"]
        if kind in CHANGE_TYPES:
            tool = block["tool"]
            if definition := as_object(tool.get("definition")):
                self._declared.add(as_text(definition.get("name")))
            # A reference names a declared tool, or one that was defined before; a server of the
            # provider may bring tools that nobody here knows.
            # Types of the anthropic package 2.14, BetaRequestToolAdditionBlockParam (2026-11-28)
            elif not any(str(t.get("type")).startswith("mcp") for t in self.tools):
                name = as_text(tool.get("tool_name") or tool.get("name"))
                if name not in self._declared:
                    changes.append(Change("repaired", "content.undeclared", _UNDECLARED))
                    words = part.get("text") or f"[{kind.replace('_', ' ')}: {name}]"
                    return [{"type": "text", "text": words}]
        kept = without_blanks(block)
        if kept == block:
            return [part]
        named = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} block"
        if kept is None:
            reason = f"{named.capitalize()} is left out: it is blank, which is refused."
            changes.append(Change("dropped", "content.blank", reason))
            return []
        reason = f"Blank text in {named} is left out: it is refused."
        changes.append(Change("repaired", "content.blank", reason))
        return [{**part, "block": kept}]

    def _system_unit(self, turn: Turn, parts: Sequence[JsonObject]) -> _Unit:
        own: list[dict[str, Json]] = []
        for part in parts:
            change = read_change(part)
            if change is not None and (plan := plan_of(self.request, NAME)) and plan.forms.adds:
                own += self._change_blocks(change)
            elif _is_ours(part):
                own.append(verbatim(part["block"]))
            elif part["type"] in ("text", "opaque"):
                own += text_blocks(part.get("text", ""))
        text = text_of(parts)
        media = self._blocks([p for p in parts if p["type"] in ("image", "document")], "user")
        reminder = text_blocks(fence(REMINDER_TAG, text)) if text else []
        may_speak = bool(own) and not media and turn.get("origin") not in NO_SYSTEM_AUTHORITY
        named = turn.get("id") or turn.get("note") or turn.get("kind", "said")
        return _Unit("system", own, [*reminder, *media], may_speak, named)

    def _change_blocks(self, change: Any) -> Iterator[dict[str, Json]]:
        """Yield the blocks of changed tools: a tool that was known before is named, others defined."""
        for name in change.removed:
            reference = {"type": "tool_reference", "name": self.names[name]}
            yield {"type": "tool_removal", "tool": reference}
        for tool in change.added:
            name, known = self.names[tool.name], self._known.get(tool.name)
            self._declared.add(name)
            if known is not None and _told(known) == _told(tool):
                added: dict[str, Json] = {"type": "tool_reference", "name": name}
            else:
                self._known[tool.name] = tool
                definition = _client_tool(tool, name, self.entries)
                if tool.is_strict:
                    definition["strict"] = True
                added = {"type": "tool_definition", "definition": definition}
            yield {"type": "tool_addition", "tool": added}

    def _blocks(self, parts: Iterable[JsonObject], role: str) -> list[dict[str, Json]]:
        """Return the blocks of settled parts."""
        blocks: list[dict[str, Json]] = []
        numbered: list[JsonObject] = []
        for part in parts:
            kind = part["type"]
            if kind == "tool_call" and role == "assistant":
                block = {"type": "tool_use", "id": "", "name": self.names[part["name"]]}
                block["input"] = plain_json(part.get("arguments", {}))
                blocks.append(block | plain_json(own_extras(part, NAME)))
                numbered.append(part)
            elif kind == "tool_call":
                blocks += text_blocks(f"[call of {part['name']}]")
            elif kind == "tool_result":
                blocks.append(self._result_block(part))
                numbered.append(part)
            elif kind == "thinking":
                if part.get("block") is not None and part.get("provider") == NAME:
                    blocks.append(verbatim(part["block"]))
            else:
                blocks += self._content_blocks(part)
        if numbered:
            self._number(blocks, numbered, role == "assistant")
        return blocks

    def _result_block(self, part: JsonObject) -> dict[str, Json]:
        """Return a result; an empty one has no content, a failed one always has some.

        https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls (2026-11-27)
        """
        content = [b for p in part.get("content", ()) for b in self._content_blocks(p)]
        block: dict[str, Json] = {"type": "tool_result", "tool_use_id": ""}
        block |= plain_json(own_extras(part, NAME))
        if part.get("is_error"):
            block["is_error"] = True
            content = content or [{"type": "text", "text": "The tool failed without saying why."}]
        return {**block, "content": content} if content else block

    def _content_blocks(self, part: JsonObject) -> list[dict[str, Json]]:
        kind, text = part["type"], part.get("text")
        if kind == "image" or (kind == "document" and text is None):
            count, chars = self.media
            self.media = count + 1, chars + len(part["source"].get("data", ""))
        if kind == "image":
            return [{"type": "image", "source": _source(part["source"])}]
        if kind == "document":
            source = _source(part["source"])
            if text is not None:
                source = {"type": "text", "media_type": "text/plain", "data": clean_text(text)}
            block: dict[str, Json] = {"type": "document", "source": source}
            if (part.get("title") or "").strip():
                block["title"] = clean_text(part["title"])
            return [block | plain_json(own_extras(part, NAME))]
        if not _is_ours(part):
            return text_blocks(part.get("text", ""))
        if part["block"]["type"] != "tool_reference":
            return [verbatim(part["block"])]
        # A reference to a tool that is not declared is refused.
        # https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
        name = str(part["block"].get("tool_name"))
        sent = self.names.get(name, name)
        if sent in self._declared:
            return [{**verbatim(part["block"]), "tool_name": sent}]
        return text_blocks(part.get("text") or f"[tool {name}]")


_FENCED: Final = (
    "Sent as fenced text of the user: the API takes a system message only after the user's and "
    "before a reply. If a call without a reply was made in between, this payload rewrites its end."
)
_TWIN: Final = "A compaction of another provider cannot be read here; its text stands in for it."
_UNDECLARED: Final = "A change of tools is sent as text: the tool that it names is not declared."


def _is_ours(part: JsonObject) -> bool:
    return bool(part["type"] == "opaque" and part["provider"] == NAME)


def _is_broken_thought(part: JsonObject) -> bool:
    if part["type"] != "thinking" or part.get("provider") != NAME:
        return False
    block = part.get("block")
    return block is not None and find_flaw(block) is not None


def _is_clean(value: Json) -> bool:
    """Whether JSON holds text that can be sent as it is."""
    if not value:
        return True
    raw = dump_json(value)
    if raw.isascii():
        return b"\\u0000" not in raw
    try:
        return "\\u0000" not in raw.decode()
    except UnicodeDecodeError:
        return False


def _without_end_space(unit: _Unit) -> _Unit:
    """Return a reply without space at its end, which a model that continues it refuses.

    The space goes wherever the reply is: it may be last in one call, and not in the next one.
    https://platform.claude.com/docs/en/build-with-claude/prefill-claudes-response (2026-11-27)
    """
    last = unit.blocks[-1]
    text = last["text"].rstrip()
    if len(text) == len(last["text"]):
        return unit
    return unit._replace(blocks=[*unit.blocks[:-1], {**last, "text": text}])


def _source(source: JsonObject) -> dict[str, Json]:
    kind = source["type"]
    if kind == "url":
        return {"type": "url", "url": clean_text(source["url"])}
    if kind == "file":
        return {"type": "file", "file_id": clean_text(source["file_id"])}
    from context_assembler.providers.media import media_type_of

    return {"type": "base64", "media_type": media_type_of(source), "data": source["data"]}


# ---- the payload ----


def payload(request: Request, wire: Wire) -> Payload:
    """Return keyword arguments for `messages.create`, which belong to the caller.

    Raises:
        UnsupportedRequestError: The Messages API cannot express the request for this model.
        EmptySessionError: No message has anything to send.
    """
    if not wire.messages:
        raise EmptySessionError(request.session_id)
    limits, messages = request.limits, list(wire.messages)
    first = messages[0]
    if first["role"] != "user" and first["content"][0]["type"] != "compaction":
        messages.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
    made: Payload = {"model": limits.wire_id, **_parameters(request, wire, messages)}
    if wire.media[0] > CROWD_IMAGES or wire.media[1] > _MAX_MEDIA_CHARS:
        _make_way(wire, messages)
    may_think = "budget" not in limits.thinking.kinds
    if asked := made.get("thinking"):
        may_think = asked["type"] != "disabled"
    last = messages[-1]
    if not may_think and last["role"] == "assistant":
        # A last reply may hold no thinking if the model does not think.
        # https://github.com/tailcallhq/forgecode/issues/1853 (read 2026-11-27)
        said = [block for block in last["content"] if block["type"] not in THINKING_TYPES]
        messages[-1] = {**last, "content": said or last["content"]}
    head = made["system"], made["tools"] = [dict(b) for b in wire.system], list(wire.tools)
    if not wire.system:
        del made["system"]
    if not wire.tools:
        del made["tools"]
    made |= _tool_choice(request, wire)
    if container := _container(request, wire):
        made["container"] = container
    made["messages"] = messages
    if request.cache == "auto" and limits.cache.mode == "explicit":
        _mark_cache(made, head, request)
    features = {*wire.features, *(f"tool {tool.get('type')}" for tool in wire.tools)}
    if betas := sorted({BETAS[feature] for feature in features & BETAS.keys()}):
        # `client.messages.create` takes the header, so that no beta method is needed.
        headers = made.get("extra_headers", {})
        made["extra_headers"] = {**headers, "anthropic-beta": ",".join(betas)}
    for key in ("tools", "messages"):
        if key in made:
            made[key] = LentList(made[key])
    return made


def _refuse(request: Request, problem: str, remedy: str) -> UnsupportedRequestError:
    model = request.limits.id
    return UnsupportedRequestError(problem, provider=NAME, model=model, remedy=remedy)


def _report(wire: Wire, name: str, decision: Decision, reason: str, rule: str) -> None:
    entry = ReportEntry("note", name, decision, reason=reason, rule=rule)
    if entry not in wire.entries:
        wire.entries.append(entry)


def _parameters(
    request: Request, wire: Wire, messages: Sequence[dict[str, Any]]
) -> dict[str, Json]:
    """Return the reply's length, thinking, stop sequences and sampling."""
    given, rule = request.parameters, request.limits.thinking
    made: dict[str, Json] = {"max_tokens": given.max_tokens}
    level, budget = given.thinking_level, given.thinking_budget
    if budget and "budget" in rule.kinds and not _opens_with_thinking(messages):
        reason = "The tool calls in flight began without thinking, so the model goes on without."
        _report(wire, "thinking_budget", "dropped", reason, "parameter.thinking_budget")
        budget = None
    # https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
    # https://platform.claude.com/docs/en/build-with-claude/effort (read 2026-11-27)
    if level == "none" or budget == 0:
        if rule.kinds and rule.disable == "no":
            remedy = "Leave thinking_level and thinking_budget out, or use the lowest level."
            raise _refuse(request, "its thinking cannot be switched off", remedy)
        if rule.kinds:
            off = "between_tools" if rule.disable == "between_tools" else "disabled"
            made["thinking"] = {"type": off}
    elif budget is not None and "budget" in rule.kinds:
        made["thinking"] = {"type": "enabled", "budget_tokens": budget}
    elif level is not None and "adaptive" in rule.kinds:
        made["thinking"] = {"type": "adaptive"}
    if level != "none" and level in rule.levels:
        made["output_config"] = {"effort": level}
    if given.stop_sequences:
        # https://github.com/BerriAI/litellm/issues/3286 (read 2026-11-27)
        if not all(map(str.strip, given.stop_sequences)):
            remedy = "Give every stop sequence a character that is not whitespace."
            raise _refuse(request, "a stop sequence is blank", remedy)
        made["stop_sequences"] = list(map(clean_text, given.stop_sequences))
    sampling = {"temperature": given.temperature, "top_p": given.top_p, "top_k": given.top_k}
    heat = given.temperature
    if heat is not None and heat > MAX_TEMPERATURE:
        # Others go up to 2. https://platform.claude.com/docs/en/api/messages/create (2026-11-27)
        reason = f"The Messages API takes {MAX_TEMPERATURE:g} at most; {heat:g} is sent as that."
        _report(wire, "temperature", "repaired", reason, "parameter.temperature")
        sampling["temperature"] = MAX_TEMPERATURE
    if sampling := {name: value for name, value in sampling.items() if value is not None}:
        # Only the older version of the API takes these.
        # https://platform.claude.com/docs/en/api/versioning (2026-10-21; read 2026-11-27)
        made["extra_headers"] = {"anthropic-version": SAMPLING_VERSION}
        made["extra_body"] = sampling
    return made


def _opens_with_thinking(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether the tool loop in flight, if there is one, began with thinking.

    With a thinking budget the API insists on it; a loop that began without goes on without.
    https://github.com/mastra-ai/mastra/issues/7799 (read 2026-11-27)
    """
    opening: list[dict[str, Json]] = []
    for message in reversed(messages):
        if message["role"] == "assistant":
            opening = message["content"]
        elif any(block["type"] != "tool_result" for block in message["content"]):
            break
    if not any(block["type"] == "tool_use" for block in opening):
        return True
    kinds = (block["type"] for block in opening if block["type"] != "compaction")
    return next(kinds) in THINKING_TYPES


def _tool_choice(request: Request, wire: Wire) -> dict[str, Json]:
    """Return the tool choice, which is only taken next to tools.

    https://platform.claude.com/docs/en/about-claude/models/whats-new-opus-5-5
    https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (read 2026-11-27)
    """
    given, limits = request.parameters, request.limits
    choice = given.tool_choice
    if choice is None:
        return {}
    if choice.allowed is not None:
        reason = "The Messages API cannot be told which of the tools alone may be called."
        _report(wire, "allowed_tools", "dropped", reason, "parameter.allowed_tools")
    if choice.mode in ("any", "tool"):
        offered = {tool.get("name") for tool in wire.tools}
        if choice.name is not None and wire.names.get(choice.name) not in offered:
            problem = f"tool_choice names {choice.name!r}, which is not offered"
            raise _refuse(request, problem, "Name one of the tools, or use mode 'auto'.")
        if not wire.tools:
            raise _refuse(request, "a call is forced, but no tool is offered", "Add a tool.")
        has_budget = given.thinking_budget and "budget" in limits.thinking.kinds
        if limits.features.get("forced_tools") is False or has_budget:
            remedy = "Use tool_choice mode 'auto', or another model without a thinking budget."
            raise _refuse(request, "it takes no forced tool choice", remedy)
    if not wire.tools:
        return {}
    made: dict[str, Json] = {"type": choice.mode}
    if choice.name is not None:
        made["name"] = wire.names[choice.name]
    if choice.allows_parallel is not None and choice.mode != "none":
        made["disable_parallel_tool_use"] = not choice.allows_parallel
    return {"tool_choice": made}


def _container(request: Request, wire: Wire) -> str | None:
    """Return the container of the newest reply, next to server tools and until it expires.

    Tools that are bound to a container refuse a request without that of the turn before.
    The anthropic package 2.14, `ThreadState._adopt_container` (read 2026-11-27)
    """
    container_id = as_text((wire.container or {}).get("id"))
    if not container_id or not any(tool.get("type", "custom") != "custom" for tool in wire.tools):
        return None
    expires = as_text((wire.container or {}).get("expires_at"))
    if expires and request.newest_at is not None:
        from datetime import UTC, datetime

        moment = datetime.fromisoformat(expires)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if request.newest_at >= moment.timestamp():
            return None
    return container_id


def _mark_cache(made: Payload, head: Sequence[Any], request: Request) -> None:
    """Mark at most three breakpoints of the four allowed.

    The last system block (without one, the last tool) is kept for the long time to live, the tail
    by the automatic breakpoint. A breakpoint finds an older one at most 20 blocks back, so a longer
    step gets one in between. Less than the model's minimum is not marked.
    https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-27)
    """
    rule, messages = request.limits.cache, made["messages"]
    system, tools = head
    least = rule.least_bytes
    head_bytes = _count_bytes(head, least)
    if head_bytes >= least:
        marker = {"type": "ephemeral", "ttl": "1h"} if "1h" in rule.ttls else {"type": "ephemeral"}
        marked = system
        if not system:
            marked = tools
        loaded = [at for at, one in enumerate(marked) if one.get("defer_loading") is not True]
        if loaded:
            marked[loaded[-1]] = {**marked[loaded[-1]], "cache_control": marker}
    if head_bytes < least and head_bytes + _count_bytes(messages, least - head_bytes) < least:
        return
    made["cache_control"] = {"type": "ephemeral"}
    reply = len(messages) - 1
    while reply >= 0 and messages[reply]["role"] != "assistant":
        reply -= 1
    if reply < 0:
        return
    step = [(i, j) for i in range(reply, len(messages)) for j in range(len(messages[i]["content"]))]
    if len(step) >= _LOOKBACK_BLOCKS:
        for i, j in reversed(step[: _LOOKBACK_BLOCKS - 1]):
            content = list(messages[i]["content"])
            if content[j]["type"] not in THINKING_TYPES:
                content[j] = {**content[j], "cache_control": {"type": "ephemeral"}}
                messages[i] = {**messages[i], "content": content}
                return


def _count_bytes(value: Json, most: int) -> int:
    """Return the bytes of all text in the value, or any number of at least `most`."""
    total, waiting = 0, [value]
    while waiting and total < most:
        current = waiting.pop()
        if isinstance(current, str):
            total += len(current) if current.isascii() else len(current.encode())
        elif isinstance(current, Mapping):
            waiting.extend(current.values())
        elif isinstance(current, list | tuple):
            waiting.extend(current)
    return total


# ---- replies ----

_CUT_OFF: Final = frozenset({None, "max_tokens", "model_context_window_exceeded"})
_CALL_FIELDS: Final = frozenset({"type", "id", "name", "input"})


def matches_reply(reply: Any) -> bool:
    """Whether the reply is a message of this API: an SDK object, its dict, or a stream's events."""
    body = _body_of(reply, [])
    return (
        body is not None and body.get("type") == "message" and isinstance(body.get("content"), list)
    )


def read_reply(reply: Any, request: Request | None = None) -> Reply:
    """Return the parts of a reply in order; thinking and server tools' blocks stay verbatim.

    Raises:
        ReplyError: The reply is no message of this API.
    """
    warnings: list[str] = []
    body = _body_of(reply, warnings)
    if body is None:
        raise ReplyError(reply, reason="it is neither a dict nor an SDK object")
    content = body.get("content")
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        raise ReplyError(reply, reason="it has no list of content blocks")
    names = {} if request is None else Wire(request).names.own()
    parts = [part for block in content if (part := _read_block(block, names, warnings))]
    stop_reason = as_text(body.get("stop_reason")) or None
    unfinished: tuple[str, ...] = ()
    is_cut_off = stop_reason in _CUT_OFF and "stop_reason" in body
    if is_cut_off and parts and parts[-1]["type"] == "tool_call":
        unfinished = (parts[-1]["call_id"],)
    container = as_object(body.get("container"))
    return Reply(
        provider=NAME,
        model=as_text(body.get("model")),
        parts=parts,
        unfinished_calls=unfinished,
        response_id=as_text(body.get("id")) or None,
        stop_reason=stop_reason,
        usage=read_usage(body["usage"]) if as_object(body.get("usage")) else None,
        container=container if as_text(container.get("id")) else None,
        warnings=(*warnings, *map(say_unfinished, unfinished)),
    )


def read_usage(fields: JsonObject) -> Usage:
    """Return the usage with the whole prompt as input; the API reports the uncached rest.

    https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-27)
    """
    read = count_of(fields.get("cache_read_input_tokens"))
    written = count_of(fields.get("cache_creation_input_tokens"))
    details = as_object(fields.get("output_tokens_details"))
    return Usage(
        input_tokens=count_of(fields.get("input_tokens")) + read + written,
        output_tokens=count_of(fields.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count_of(details.get("thinking_tokens")),
    )


def _read_block(
    block: dict[str, Json], names: Mapping[str, str], warnings: list[str]
) -> JsonObject | None:
    kind, text = block.get("type"), block.get("text")
    if kind == "tool_use":
        name = as_text(block.get("name"))
        extras = {k: v for k, v in block.items() if k not in _CALL_FIELDS and v is not None}
        return read_call(
            as_text(block.get("id")),
            names.get(name, name),
            block.get("input") or None,
            warnings,
            extras={NAME: extras} if extras else None,
        )
    if kind == "text" and isinstance(text, str) and not block.get("citations"):
        return {"type": "text", "text": text} if text else None
    if kind in THINKING_TYPES:
        part: dict[str, Json] = {"type": "thinking", "provider": NAME}
        if said := as_text(block.get("thinking")):
            part["text"] = said
        if block.get("signature") or block.get("data"):
            part["block"] = block
        return part
    own = {key: held for key, held in block.items() if key != "parsed_output"}  # the SDK's
    part = {"type": "opaque", "provider": NAME, "block": own}
    if described := describe_block(own):
        part["text"] = described
    return part


def _body_of(reply: Any, warnings: list[str]) -> dict[str, Json] | None:
    if isinstance(reply, list | tuple):
        return _join_events(read_stream(reply, warnings))
    return read_object(reply, warnings)


def _join_events(events: Iterable[dict[str, Json]]) -> dict[str, Json] | None:
    """Return the message as far as it came; `None` if the events do not begin one.

    Events that the SDK adds are ignored.
    https://platform.claude.com/docs/en/build-with-claude/streaming (read 2026-11-28)
    """
    message: dict[str, Json] | None = None
    blocks: dict[int, dict[str, Json]] = {}
    for event in events:
        place, kind = event.get("index"), event.get("type")
        if kind == "message_start":
            message = dict(as_object(event.get("message")))
        elif kind == "content_block_start":
            blocks[count_of(place)] = dict(as_object(event.get("content_block")))
        elif kind == "content_block_delta" and place in blocks:
            block = blocks[place]
            for key, said in as_object(event.get("delta")).items():
                before = block.get(key)
                if key == "citation":
                    block["citations"] = [*as_list(block.get("citations")), said]
                elif key != "type":
                    is_more = isinstance(before, str) and isinstance(said, str)
                    block[key] = f"{before}{said}" if is_more else said
        elif kind == "message_delta" and message is not None:
            usage = {**as_object(message.get("usage")), **as_object(event.get("usage"))}
            message |= {**as_object(event.get("delta")), "usage": usage}
    if message is None:
        return None
    return {**message, "content": [_finish(block) for _, block in sorted(blocks.items())]}


def _finish(block: dict[str, Json]) -> dict[str, Json]:
    """Return a streamed block with its input; if a call's is no object, with the text of it."""
    written = as_text(block.pop("partial_json", ""))
    if not written:
        return block
    given = parse_object(written)
    if given is None and block.get("type") == "tool_use":
        return {**block, "input": written}
    return {**block, "input": given or {}}
