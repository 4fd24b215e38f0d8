"""Anthropic Messages: what `anthropic.Anthropic().messages.create` takes and returns."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from context_assembler.context import Request
from context_assembler.errors import ReplyError
from context_assembler.events import Json, JsonObject, compact_json, is_plain
from context_assembler.models import ModelLimits
from context_assembler.options import Parameters
from context_assembler.ports import (
    ChangeForms,
    Payload,
    ResponseFormat,
    ToolSearch,
    ToolSpec,
    Turn,
    read_change,
)
from context_assembler.providers import wire
from context_assembler.providers.schemas import closed_schema, root_object_schema, walk_schemas
from context_assembler.providers.wire import LentList, as_list, as_object, as_text, peek, plain_json
from context_assembler.texts import clean_text

if TYPE_CHECKING:
    from context_assembler.providers.media import MediaRules

NAME: Final = "anthropic"
Block = dict[str, Json]

# https://github.com/langchain-ai/langchain/issues/37756 (read 2026-11-27)
ID_RULE: Final = wire.NameRule(re.compile(r"[a-zA-Z0-9_-]{1,128}"), max_chars=64)
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (read 2026-11-27)
NAME_RULE: Final = wire.NameRule(re.compile(r"[a-zA-Z0-9_-]{1,64}"), max_chars=64)
# A parameter whose name does not match makes the API refuse the whole request.
# https://github.com/anthropics/claude-code/issues/4668 (read 2026-11-29)
PARAMETER_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
# A provider gives the ids of its own calls and refuses any other form; MCP ids begin otherwise.
SERVER_ID: Final = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")

THINKING_TYPES: Final = frozenset({"thinking", "redacted_thinking"})
_UNCOUNTED: Final = THINKING_TYPES | {"compaction"}
MAX_TEMPERATURE: Final = 1.0
_LOOKBACK_BLOCKS: Final = 20


# ---- blocks of the API's own ----

# The fields that must hold something, by type of block, and by the type of what an image or a
# document is made from; about other types nothing is known.
# Types of the anthropic package 2.14, BetaContentBlockParam (read 2026-11-28)
_REQUIRED: Final[Mapping[str, str]] = {
    "text": "text",
    "search_result": "content source title",
    "thinking": "signature",
    "redacted_thinking": "data",
    "server_tool_use": "id name input",
    "mcp_tool_use": "id name input server_name",
    "mcp_tool_result": "tool_use_id",
    "container_upload": "file_id",
    "tool_reference": "tool_name",
    "tool_addition": "tool",
    "tool_removal": "tool",
}
_SOURCES: Final[Mapping[str, str]] = {
    "base64": "media_type data",
    "text": "data",
    "url": "url",
    "file": "file_id",
    "content": "content",
}


def find_flaw(block: Json) -> str | None:
    """Return why the API would refuse a block, in half a sentence; `None`: nothing is known.

    Blank text is a flaw, wherever it stands: the API returns such blocks, and then refuses them.
    https://github.com/anthropics/claude-code/issues/59812 (read 2026-11-27)
    """
    fields, kind = as_object(block), as_text(as_object(block).get("type"))
    if not kind:
        return "it has no type"
    if kind in ("tool_use", "tool_result"):  # any that can be read is not kept as a block
        return "it lacks what its type requires"
    is_answer = kind.endswith("_tool_result") and kind not in _REQUIRED
    required = "tool_use_id content" if is_answer else _REQUIRED.get(kind, "")
    if kind in ("image", "document"):
        fields = as_object(fields.get("source"))
        required = _SOURCES.get(as_text(fields.get("type")), "")
        if not required:
            return "its source is amiss"
    for name in required.split():
        if not _suits(name, fields.get(name)):
            return f"its {name} is {'amiss' if name in fields else 'missing'}"
    pair_id = as_text(fields.get("tool_use_id" if is_answer else "id"))
    if (is_answer or kind == "server_tool_use") and not SERVER_ID.fullmatch(pair_id):
        return "its id is of another form"
    # Types of the anthropic package 2.14, BetaCompactionBlockParam: "Empty string content is not
    # allowed"
    if kind == "compaction" and fields.get("content") == "":
        return "its content is empty"
    for inner in as_list(fields.get("content")) if kind in ("document", "search_result") else ():
        flaw = find_flaw({"type": "text", "text": inner} if isinstance(inner, str) else inner)
        if flaw is not None:
            return f"in a block inside, {flaw}"
    return None


def _suits(name: str, value: Json) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and name not in ("input", "tool")
    return isinstance(value, Mapping | list) and name in ("input", "tool", "content")


def verbatim(block: JsonObject) -> Block:
    """Return the API's own block without the cache marks that it may have carried."""
    copied = {key: plain_json(held) for key, held in block.items() if key != "cache_control"}
    if content := as_list(copied.get("content")):
        copied["content"] = [verbatim(b) if as_object(b) else b for b in content]
    return copied


def content_of(block: JsonObject) -> Sequence[Json]:
    """Return the blocks inside a result, a search result or a document."""
    return as_list(block.get("content") or as_object(block.get("source")).get("content"))


_READABLE: Final = (
    "text stdout stderr title context url source name query file_id tool_name error_code "
    "error_message lines content".split()
)


def _pair_id(block: JsonObject) -> str:
    """Return the id that connects a server tool's call and its result; empty for other blocks."""
    return as_text(block.get("tool_use_id") or block.get("id"))


def describe_block(block: JsonObject) -> str:
    """Return the text that stands for a block elsewhere; empty if it holds no text."""
    if as_text(block.get("type")).endswith("_tool_use"):
        asked = compact_json(plain_json(block.get("input")))
        return f"[{as_text(block.get('name')) or 'tool'}: {asked}]"
    return _readable(block)


def _readable(value: Json) -> str:
    fields = as_object(value)
    names = [*_READABLE, "data"] if fields.get("type") == "text" else _READABLE
    inside = [fields[name] for name in names if name in fields] or as_list(value)
    return value if isinstance(value, str) else "\n".join(filter(None, map(_readable, inside)))


# ---- betas ----

# What of a request needs each beta: a type of block or tool, or where something comes from.
_NEEDS: Final[Mapping[str, str]] = {
    # https://platform.claude.com/docs/en/build-with-claude/compaction (read 2026-11-27)
    "compact-2026-01-12": "block compaction, edit compact_20260112",
    "compact-2026-09-04": "signed compaction, edit on demand",
    # https://platform.claude.com/docs/en/build-with-claude/context-editing (read 2026-11-30)
    "context-management-2025-06-27": "edit clear_tool_uses_20250919, edit clear_thinking_20251015",
    # https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
    "mid-conversation-tool-changes-2026-07-01": "block tool_addition, block tool_removal",
    # The anthropic package 2.14, docstrings of BetaRequestToolAdditionBlockParam,
    # BetaToolChangeToolDefinitionParam, BetaFallbackParam (read 2026-11-27)
    "inline-tools-2026-09-15": "added tool_definition",
    "mcp-client-2026-09-15": "added mcp_toolset, block mcp_tool_listing",
    "server-side-fallback-2026-07-01": "block fallback",
    # The anthropic package 2.14, types of its beta methods alone, each with the beta of its name in
    # AnthropicBetaParam (read 2026-11-27)
    "mcp-client-2025-11-20": "tool mcp_toolset, block mcp_tool_use, block mcp_tool_result",
    "files-api-2025-04-14": "source file, block container_upload",
    "advisor-tool-2026-03-01": "tool advisor_20260301, block advisor_tool_result",
    "computer-use-2024-10-22": "tool computer_20241022",
    "computer-use-2025-01-24": "tool computer_20250124",
    "computer-use-2025-11-24": "tool computer_20251124",
}


def betas_for(features: Iterable[str]) -> list[str]:
    """Return the betas without which the API refuses these features, sorted."""
    used = frozenset(features)
    return sorted(beta for beta, needs in _NEEDS.items() if used & set(needs.split(", ")))


def features_of(block: JsonObject) -> set[str]:
    """Return what a block itself uses, as `betas_for` names it."""
    kind, added = as_text(block.get("type")), as_object(block.get("tool"))
    used = {f"block {kind}", f"source {as_text(as_object(block.get('source')).get('type'))}"}
    if kind == "tool_addition":
        used |= {f"added {one.get('type')}" for one in (added, as_object(added.get("definition")))}
    return {"signed compaction"} if kind == "compaction" and block.get("signature") else used


# ---- images and documents ----

MAX_REQUEST_CHARS: Final = 32 * 1024 * 1024
CROWD_IMAGES: Final = 20
CROWD_SIDE_PX: Final = 2_000
_MAX_MEDIA_CHARS: Final = MAX_REQUEST_CHARS - 6 * 1024 * 1024


def media_rules(limits: ModelLimits | None) -> "MediaRules":
    """Return what the model takes of images and documents.

    Every image is scaled to what is taken next to more than twenty others, however few there are:
    an image that was sent once can then stay as it is.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/vision, /pdf-support
        https://platform.claude.com/docs/en/api/errors (read 2026-11-27)
    """
    from context_assembler.providers.media import MediaRules

    window = limits.window_tokens if limits is not None else 1_000_000
    is_cloud = limits is not None and limits.host in ("bedrock", "vertex_ai")
    return MediaRules(
        api="the Messages API",
        file_owner=NAME,
        max_image_chars=(5 if is_cloud else 10) * 1024 * 1024,
        max_side_px=8_000,
        fit_side_px=CROWD_SIDE_PX,
        max_pdf_pages=100 if window < 1_000_000 else 600,
        takes_locked_pdfs=False,
        max_images=100 if window <= 200_000 else 600,
        crowd_images=CROWD_IMAGES,
        crowd_side_px=CROWD_SIDE_PX,
        max_media_chars=_MAX_MEDIA_CHARS,
    )


def as_media(block: JsonObject) -> JsonObject | None:
    """Return an image, or a document that is sent as bytes or by address, as a stored part."""
    source = as_object(block.get("source"))
    is_file = block.get("type") == "document" and source.get("type") in ("base64", "url", "file")
    is_shown = is_file or block.get("type") == "image"
    return {**block, "source": {"provider": NAME, **source}} if is_shown else None


# ---- tools ----

# What strict mode refuses in schemas: bounds and open objects are documented. What else is left out
# was not tried: without strict mode a tool costs less than a refusal.
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use
# https://platform.claude.com/docs/en/build-with-claude/structured-outputs (read 2026-11-27)
BOUNDS: Final = frozenset({"minimum", "maximum", "minLength", "maxLength", "multipleOf"})
_UNBOUNDED: Final = BOUNDS | {"minItems", "maxItems", "exclusiveMinimum", "exclusiveMaximum"}
_UNSTRICT: Final = BOUNDS | {"minItems", "maxItems", "$ref"}


def suits_strict(schema: Json, refused: frozenset[str] = _UNSTRICT) -> bool:
    """Whether strict mode takes the schema: closed objects, and none of the keywords."""
    return not any(
        refused & one.keys()
        or (one.get("type") == "object" and one.get("additionalProperties") is not False)
        for one in walk_schemas(schema)
    )


def strict_excess(schemas: Sequence[Json]) -> str | None:
    """Return which limit the schemas of all strict tools pass together; `None`: none is."""
    found = [one for schema in schemas for one in walk_schemas(schema)]
    unions = sum("anyOf" in one or isinstance(one.get("type"), list) for one in found)
    listed = [(as_object(one.get("properties")), as_list(one.get("required"))) for one in found]
    optional = sum(name not in required for names, required in listed for name in names)
    counts = (len(schemas), 20, "tools"), (optional, 24, "optional parameters")
    for count, most, what in (*counts, (unions, 16, "parameters of several types")):
        if count > most:
            return f"at most {most} {what} are taken in strict mode"
    return None


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


# ---- messages ----

# Values that `mark` keeps: each is replaced, never changed.
_UNSIGNED: Final = "Thinking without a signature is left out: the API refuses it."
_STRAY: Final = wire.Change(
    "repaired", "content.caller", "A call is sent without its caller: that program is not sent."
)
_KEPT: Final = "_start _run features container _known _declared _waiting _added".split()

# One turn: role, blocks; of a system turn also the blocks as text of the user, and whether it may
# speak as the system.
Unit: TypeAlias = tuple[str, Sequence[Block], Sequence[Block], bool]


def _text_blocks(text: str) -> list[Block]:
    """Return the text as a block; none for a blank one, which is refused."""
    text = wire.said(text)
    return [{"type": "text", "text": text}] if text else []


class Wire(wire.GrownWire):
    """The messages of one request, grown turn by turn."""

    name = NAME

    def __init__(self, request: Request) -> None:
        super().__init__(request, NAME_RULE, ID_RULE)
        limits, plan = request.limits, wire.plan_of(request, NAME)
        self.system = _text_blocks(request.system)
        self.tools = self._render_tools()
        self.features: frozenset[str] = frozenset()  # what the messages use, for betas
        self.container: JsonObject = {}
        self.media, self.media_chars = 0, 0
        self._known = {tool.name: tool for tool in request.tools}  # as notes of changes name them
        offered = (*request.tools, *(plan.added if plan else ()))
        self._declared = frozenset(self.names[tool.name] for tool in offered)
        self._added = frozenset[Json]()  # names of tools that were defined after the history
        # Ids of server tools' calls: sent without a result so far, sent as text.
        self._waiting, self._broken = frozenset[str](), set[str]()
        self._takes_system = limits.supports("mid_conversation_system")
        self._trims_end = limits.supports("prefill")
        self._run: tuple[Unit, ...] = ()  # what follows the last reply
        self._start = 0  # where that begins in `messages`

    def _head(self) -> Json:
        return [NAME, self.system, self.tools]

    def mark(self) -> object:
        """Return what `reset` goes back to."""
        return super().mark(), self.messages[self._start :], [getattr(self, k) for k in _KEPT]

    def reset(self, mark: Any) -> None:
        """Forget the turns that were added after the mark."""
        grown, tail, kept = mark
        super().reset(grown)
        for key, value in zip(_KEPT, kept, strict=True):
            setattr(self, key, value)
        self.messages[self._start :] = tail

    def add(self, turn: Turn) -> None:
        """Append a turn; see `wire.GrownWire`."""
        if self._waiting and turn.get("kind") == "marker":
            why = "Only results may stand between a server tool's call and its result."
            self.report("marker", why, "note.waits")
            return
        parts: Any = turn["parts"]
        role = "assistant" if turn["role"] == "assistant" else "user"
        is_shared = len(parts) == 1 and _are_shared(parts)
        is_said = turn["role"] != "system" and turn.get("kind") != "summary"
        unit: Unit = role, parts, (), False
        if not is_said or not (is_shared or wire.are_plain(parts)):
            unit = self._unusual_unit(turn, role)
            for block in _with_nested((*unit[1], *unit[2])):
                self.features |= features_of(block)
        elif not is_shared:
            unit = role, self._blocks(parts, role), (), False
        if unit[0] == "assistant" and unit[1]:
            self._append_reply(turn, list(unit[1]))
        elif unit[1] or unit[2]:
            self._add_to_run(unit)

    def _append_reply(self, turn: Turn, blocks: list[Block]) -> None:
        last, made_by = blocks[-1], turn.get("made_by")
        if made_by and made_by.get("container") and made_by.get("provider") == NAME:
            self.container = made_by["container"]
        if self._trims_end and last["type"] == "text" and last["text"][-1:].isspace():
            # A model that continues a reply refuses space at its end. The space goes wherever the
            # reply is: it may be last in one call, and not in the next one.
            # https://platform.claude.com/docs/en/build-with-claude/prefill-claudes-response
            blocks[-1] = {**last, "text": last["text"].rstrip()}
        self._units.append(("assistant", self._counted(blocks), ()))
        messages = self.messages
        if messages and messages[-1]["role"] == "system":
            self._added = self._added.union(_added_in(messages[-1]["content"]))
        if messages and messages[-1]["role"] == "assistant":
            blocks = [*messages[-1]["content"], *blocks]
            messages[-1] = {"role": "assistant", "content": blocks}
        else:
            self._start = len(messages)
            messages.append({"role": "assistant", "content": blocks})
        self._run = ()

    def _counted(self, blocks: Iterable[Block]) -> list[Block]:
        """Return the blocks that thinking is bound to: those from the latest compaction on.

        One without content failed.
        https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
        """
        counted: list[Block] = []
        for block in blocks:
            if block["type"] == "compaction" and as_text(block.get("content")).strip():
                self._restart, counted = len(self._units), [block]
            elif block["type"] not in THINKING_TYPES:
                counted.append(block)
        return counted

    def _add_to_run(self, unit: Unit) -> None:
        """Rebuild what follows the last reply: a user message, then a system message.

        Results come first in a user message, or the request is refused. System turns close it, as
        a message of their own if the model takes one there, else fenced in its text.
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
        https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
        (read 2026-11-27)
        """
        messages = self.messages
        self._units.append(unit[:3])
        if not self._run:
            self._start, self._run = len(messages), (unit,)
            if unit[0] == "user":
                messages.append({"role": "user", "content": unit[1]})
                return
        else:
            self._run = (*self._run, unit)
        run = self._run
        del messages[self._start :]
        closing = len(run)
        while closing and self._takes_system and run[closing - 1][3]:
            closing -= 1
        before = messages[-1]["content"][-1]["type"] if messages else ""
        if not closing and not before.endswith("_tool_result"):
            closing = len(run)
        content: list[Block] = []
        for role, blocks, fenced, _ in run[:closing]:
            content += fenced if role == "system" else blocks
        content.sort(key=lambda block: block["type"] != "tool_result")
        if content:
            messages.append({"role": "user", "content": content})
        said = [block for unit in run[closing:] for block in unit[1]]
        # A tool that was told in words alone cannot be taken away.
        # https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool (2026-11-30)
        known = {*(tool.get("name") for tool in self.tools), *self._added, *_added_in(said)}
        own = [one for one in said if one["type"] != "tool_removal" or _tool_of(one) in known]
        if own:
            messages.append({"role": "system", "content": own})

    # -- turns as blocks --

    def _unusual_unit(self, turn: Turn, role: str) -> Unit:
        if turn.get("kind") == "summary":
            # A compaction goes back as the assistant's, before everything that follows it.
            # https://platform.claude.com/docs/en/build-with-claude/compaction (2026-11-27)
            own = [p["block"] for p in turn["parts"] if _is_ours(p) and not find_flaw(p["block"])]
            said = list(map(verbatim, own)) or _text_blocks(self.summary_text(turn))
            return "assistant" if own else "user", said, (), False
        # A server tool's call and its result go together: if one is broken, both are sent as text.
        # A cut may have parted them.
        waiting, self._broken = {*self._waiting}, set[str]()
        for block in (part["block"] for part in turn["parts"] if _is_ours(part)):
            pair_id, kind = _pair_id(block), as_text(block.get("type"))
            is_call, is_lost = kind.endswith("_tool_use"), pair_id not in waiting
            is_lost = is_lost if kind.endswith("_tool_result") else self._lacks_server(block)
            if pair_id and (find_flaw(block) or is_lost):
                self._broken.add(pair_id)
            (waiting.add if is_call else waiting.discard)(pair_id)
        self._waiting = frozenset(waiting - self._broken - {""})
        # So do a program and the calls that it makes.
        strays = [p for p in turn["parts"] if _program_of(p) not in (None, *self._waiting)]
        if strays:
            self.entries += wire.turn_entries(turn, [_STRAY] * len(strays))
            turn = {**turn, "parts": [_unbound(p) if p in strays else p for p in turn["parts"]]}
        settled = wire.settle_parts(turn, self._settle, self.entries)
        if turn["role"] == "system":
            return self._system_unit(turn, settled)
        return role, self._blocks(settled, role), (), False

    def _lacks_server(self, block: JsonObject) -> bool:
        """Whether a block is the call of an MCP server that no tool set of the request names.

        The anthropic package 2.14, BetaMCPToolsetParam (read 2026-11-30)
        """
        servers = [tool.get("mcp_server_name") for tool in self.tools]
        return block.get("type") == "mcp_tool_use" and block.get("server_name") not in servers

    def _media_rules(self) -> "MediaRules":
        return media_rules(self.request.limits)

    def _flaw_of(self, block: JsonObject, role: str) -> str | None:
        kind = as_text(block.get("type"))
        is_of_reply = kind in _UNCOUNTED or kind.endswith(("_tool_use", "_tool_result"))
        is_of_reply = is_of_reply or (kind == "text" and bool(block.get("citations")))
        if flaw := find_flaw(block):
            return flaw
        if _pair_id(block) in self._broken:
            return "the call or the result that it belongs to cannot be sent"
        return "it can stand in a reply only" if role != "assistant" and is_of_reply else None

    def _system_unit(self, turn: Turn, parts: Sequence[JsonObject]) -> Unit:
        plan, own = wire.plan_of(self.request, NAME), list[Block]()
        for part in parts:
            change = read_change(part) if plan is not None and plan.forms.adds else None
            if change is not None:
                own += self._change_blocks(change.added, change.removed)
            elif _is_ours(part):
                own += self._own_blocks(part)
            elif part["type"] in ("text", "opaque"):
                own += _text_blocks(part.get("text", ""))
        media = [b for p in parts if p["type"] in wire.MEDIA for b in self._content_blocks(p)]
        text = wire.text_of(parts)
        fenced = [*(_text_blocks(self.fenced(turn, text)) if text else ()), *media]
        may_speak = bool(own) and not media and turn.get("origin") not in wire.NO_SYSTEM_AUTHORITY
        return "system", own, fenced, may_speak

    def _change_blocks(self, added: Iterable[ToolSpec], removed: Iterable[str]) -> Iterator[Block]:
        """Yield the blocks of changed tools: a tool that was known before is named, others defined."""
        for name in removed:
            reference: Block = {"type": "tool_reference", "name": self.names[name]}
            yield {"type": "tool_removal", "tool": reference}
        for tool in added:
            told: Block = {"type": "tool_reference", "name": self.names[tool.name]}
            known = self._known.get(tool.name)
            if known is None or _told(known) != _told(tool):
                told = {"type": "tool_definition", "definition": self._client_tool(tool)}
            self._known = {**self._known, tool.name: tool}
            yield {"type": "tool_addition", "tool": told}

    def _blocks(self, parts: Sequence[JsonObject], role: str) -> list[Block]:
        """Return the blocks of settled parts, shared with the parts as far as possible."""
        blocks: list[Any] = []
        is_reply = role == "assistant"
        calls = [part["call_id"] for part in parts if part["type"] == "tool_call"]
        ids = iter(self._ids.of_calls(calls) if calls else ())
        for part in parts:
            kind, block = part["type"], part.get("block")
            if kind == "tool_call":
                call: Block = {"type": "tool_use", "id": next(ids)}
                call["name"] = self.names[part["name"]]
                call["input"] = wire.clean_json(part.get("arguments") or {})
                if "extras" in part:
                    call |= {**plain_json(wire.own_extras(part, NAME)), **call}
                blocks.append(call)
            elif kind == "tool_result":
                blocks.append(self._result(part))
            elif kind != "thinking":
                blocks += self._content_blocks(part)
            elif block is not None and part.get("provider") == NAME and not find_flaw(block):
                is_marked = "cache_control" in block
                blocks.append(verbatim(block) if is_marked else wire.clean_json(block))
            elif block is not None and part.get("provider") == NAME:
                self.report("thinking", _UNSIGNED, "reasoning.unsigned", "cleared")
        if not is_reply and len(blocks) > 1:
            blocks.sort(key=lambda block: block["type"] != "tool_result")
        elif calls and not any(block["type"] in THINKING_TYPES for block in blocks):
            # A turn ends with its calls, unless the API signed it as it is.
            # https://github.com/anthropics/claude-code/issues/473 (read 2026-11-30)
            first = next(at for at, block in enumerate(blocks) if block["type"] == "tool_use")
            blocks[first:] = sorted(blocks[first:], key=lambda block: block["type"] != "text")
        return blocks

    def _result(self, part: JsonObject) -> Block:
        """Return a result; an empty one has no content, a failed one always has some.

        https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls (2026-11-27)
        """
        content: Sequence[Block] = part.get("content", ())
        if not _are_shared(content):
            content = [block for inner in content for block in self._content_blocks(inner)]
        answer: Block = {"type": "tool_result", "tool_use_id": self._ids.of_result(part["call_id"])}
        if "extras" in part:
            answer |= plain_json(wire.own_extras(part, NAME))
        if part.get("is_error"):
            answer["is_error"] = True
            content = content or _text_blocks("The tool failed without saying why.")
        if content:
            answer["content"] = content
        return answer

    def _content_blocks(self, part: JsonObject) -> Sequence[Any]:
        kind, text = part["type"], part.get("text")
        if kind == "text":
            is_same = len(part) == 2 and is_plain(part["text"])
            return [part] if is_same else _text_blocks(part["text"])
        if _is_ours(part):
            return self._own_blocks(part)
        if kind == "opaque":
            return _text_blocks(text or "")
        block: Block = {"type": kind, "source": _source(part)}
        if block["source"]["type"] != "text":
            self.media += 1
            self.media_chars += len(part["source"].get("data", ""))
        if kind == "document" and (part.get("title") or "").strip():
            block["title"] = clean_text(part["title"])
        return [{**block, **plain_json(wire.own_extras(part, NAME))}]

    def _own_blocks(self, part: JsonObject) -> list[Block]:
        """Return a sound block of the API's own; one that names a tool not declared as text.

        A server of the provider may bring tools that nobody here knows.
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
        Types of the anthropic package 2.14, BetaRequestToolAdditionBlockParam (read 2026-11-28)
        """
        block = verbatim(part["block"])
        named = block if block["type"] == "tool_reference" else as_object(block.get("tool"))
        if definition := as_object(named.get("definition")):
            self._declared |= {as_text(definition.get("name"))}
        elif named.get("type") == "tool_reference" and not self._is_declared(named):
            reason = "It is sent as text: the tool is not declared."
            self.report(block["type"], reason, "content.undeclared", "repaired")
            told = block["type"].replace("_reference", "").replace("_", " ")
            name = named.get("tool_name", named.get("name"))
            return _text_blocks(part.get("text") or f"[{told} {name}]")
        found = as_object(block.get("content"))
        if references := wire.objects_in(found.get("tool_references")):
            known = [one for one in references if self._is_declared(one)]
            block["content"] = {**found, "tool_references": known}
            if len(known) < len(references):
                reason = "It is sent without the tools that are not declared."
                self.report(block["type"], reason, "content.undeclared", "repaired")
        return [block]

    def _is_declared(self, reference: Block) -> bool:
        """Whether the tool is declared; the reference gets the name that the tool is sent by."""
        key = "tool_name" if "tool_name" in reference else "name"
        name = as_text(reference.get(key))
        reference[key] = self.names.get(name, name)
        is_open = any(str(tool.get("type")).startswith("mcp") for tool in self.tools)
        return is_open or reference[key] in self._declared

    # -- tools --

    def _render_tools(self) -> list[Block]:
        """Return the tools in their order; if some are deferred, a tool that searches comes first."""
        searches = tool_search(self.request.limits) is not None
        tools, strict, holds_back = list[Block](), list[Json](), False
        for tool in self.declared_tools(self.entries):
            if tool.native_specs:
                tools.append(verbatim(tool.native_specs[NAME]))
                continue
            made = self._client_tool(tool)
            if tool.is_strict:
                schema = made["input_schema"]
                objection = strict_excess([*strict, schema])
                if not suits_strict(schema):
                    objection = "its schema has what strict mode refuses"
                if objection is None:
                    strict.append(schema)
                    made["strict"] = True
                else:
                    reason = f"It is offered without strict mode: {objection}."
                    self.entries.append(wire.tool_entry(tool, "tool.strict", reason, "repaired"))
            if searches and wire.is_held_back(tool):
                made["defer_loading"] = holds_back = True
            tools.append(made)
        if holds_back and not any(str(t.get("type")).startswith("tool_search") for t in tools):
            # The tool that searches is never deferred: a request of deferred tools alone is refused.
            # https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
            name = "tool_search_tool_bm25"
            tools.insert(0, {"type": f"{name}_20251119", "name": name})
        return tools

    def _client_tool(self, tool: ToolSpec) -> Block:
        """Return a tool; its description tells of parameters whose names the API refuses.

        The model passes them all the same, since the schema stays open for them.
        """
        schema, words = root_object_schema(tool.input_schema), tool.description
        properties, required = as_object(schema.get("properties")), as_list(schema.get("required"))
        if refused := [name for name in properties if not PARAMETER_NAME.fullmatch(name)]:
            shown = compact_json({name: properties.pop(name) for name in refused})
            words += f"\n\nIt takes further parameters, by exactly these names: {shown}"
            if missed := [name for name in refused if name in required]:
                words += f"\nOf these are required: {compact_json(missed)}"
                schema["required"] = [name for name in required if name not in refused]
            schema.pop("additionalProperties", None)
            reason = f"Its description names {', '.join(refused)}: the API refuses such names."
            self.entries.append(wire.tool_entry(tool, "tool.schema", reason, "repaired"))
        told = {"description": words} if (words := wire.said(words)) else {}
        made: Block = {"name": self.names[tool.name], **told, "input_schema": schema}
        if tool.allowed_callers:
            # https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling
            # (read 2026-11-29)
            made["allowed_callers"] = list(tool.allowed_callers)
        return made

    # -- the payload --

    def write(self, request: Request) -> Payload:
        """Return keyword arguments for `messages.create`."""
        if request.parameters.provider_compaction == "now":
            request = self._on_demand(request)
        limits, messages = request.limits, self._fitting_messages()
        last = messages[-1]
        made: Payload = {"model": limits.wire_id, **self._parameters(request, messages)}
        thinks = made.get("thinking", {}).get("type")
        is_idle = thinks == "disabled" if thinks else "budget" in limits.thinking.kinds
        if is_idle and last["role"] == "assistant":
            # A last reply may hold no thinking if the model does not think.
            # https://github.com/tailcallhq/forgecode/issues/1853 (read 2026-11-27)
            messages[-1] = {**last, "content": _without_thinking(last["content"])}
        if self.system:
            made["system"] = [dict(block) for block in self.system]
        if self.tools:
            made["tools"] = list(self.tools)
        made |= self._tool_choice(request)
        if container := self._container(request):
            made["container"] = container
        made["messages"] = messages
        if request.cache == "auto" and limits.cache.mode == "explicit":
            mark_cache(made, limits)
        managed, used = self._managed(request)
        if managed:  # `client.messages.create` has no argument for it
            made["extra_body"] = made.get("extra_body", {}) | managed
        used |= {*self.features, *(f"tool {t.get('type')}" for t in self.tools)}
        if betas := betas_for(used):
            # `client.messages.create` takes the header, so that no beta method is needed.
            header = {"anthropic-beta": ",".join(betas)}
            made["extra_headers"] = made.get("extra_headers", {}) | header
        for key in ("tools", "messages"):
            if key in made:
                made[key] = LentList(made[key])
        return made

    def _on_demand(self, request: Request) -> Request:
        """Return the request without what the API refuses next to a compaction on demand.

        https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand (read 2026-11-30)
        """
        given, empty = request.parameters, Parameters(request.parameters.max_tokens)
        for name in ("stop_sequences", "response_format", "context_edits", "tool_choice"):
            asked = getattr(given, name)
            if asked and getattr(asked, "mode", "any") not in ("auto", "none"):
                why = "It is not sent: a request for a compaction takes none."
                self.report(name, why, "parameter.provider_compaction")
                given = given._replace(**{name: getattr(empty, name)})
        return replace(request, parameters=given)

    def _managed(self, request: Request) -> tuple[Block, set[str]]:
        """Return what the provider does with the history, and what that needs of betas."""
        given = request.parameters
        asked = given.provider_compaction
        if not (asked or given.context_edits):
            return {}, set()
        if request.limits.provider != NAME:
            self.leave_history(request, *wire.MANAGED)
            return {}, set()
        if asked == "now":
            return {"compaction": {"type": "summarize"}}, {"edit on demand"}
        for edit in (edits := plain_json(given.context_edits)):
            for key, names in edit.items():  # its lists are names of tools
                if as_list(names):
                    edit[key] = [self.names.get(name, name) for name in names]
        if asked and "signed compaction" in self.features:
            # https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand (2026-11-30)
            why = "It waits: the API takes no threshold next to a compaction that it signed."
            self.report("provider_compaction", why, "parameter.provider_compaction")
        elif asked:
            trigger = {"type": "input_tokens", "value": asked}
            edits.append({"type": "compact_20260112", "trigger": trigger})
        kinds = {f"edit {one['type']}" for one in edits}
        return ({"context_management": {"edits": edits}} if edits else {}), kinds

    def _fitting_messages(self) -> list[dict[str, Json]]:
        """Return the messages; the oldest images and documents make way if they are too many."""
        messages = list(self.messages)
        if self.media <= CROWD_IMAGES and self.media_chars <= _MAX_MEDIA_CHARS:
            return messages
        from context_assembler.providers import media

        blocks = [block for one in messages for block in _with_nested(one["content"])]
        shown = [(block, part) for block in blocks if (part := as_media(block)) is not None]
        surplus = media.find_surplus([part for _, part in shown], self._media_rules())
        lines = (wire.text_part(media.left_out(shown[at][1], surplus[at][1])) for at in surplus)
        others = {id(shown[at][0]): line for at, line in zip(surplus, lines, strict=True)}
        for rule, reason in dict.fromkeys(surplus.values()):
            self.report("media", f"{reason[0].upper()}{reason[1:]}.", rule, "shortened")
        if surplus and self.request.limits.thinking.is_prefix_bound:
            # Thinking may be bound to what makes way; without thinking nothing is refused.
            messages = [{**one, "content": _without_thinking(one["content"])} for one in messages]
        made: list[dict[str, Json]] = media.put_instead(messages, others) if others else messages
        return made

    def _parameters(self, request: Request, messages: Sequence[dict[str, Json]]) -> Block:
        """Return the reply's length, thinking, stop sequences and sampling.

        https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking, /effort (2026-11-27)
        """
        given, rule = request.parameters, request.limits.thinking
        made: Block = {"max_tokens": given.max_tokens}
        level, budget = given.thinking_level, given.thinking_budget
        if budget and "budget" in rule.kinds and not opens_with_thinking(messages):
            why = "The tool calls in flight began without thinking, so the model goes on without."
            self.report("thinking_budget", why, "parameter.thinking_budget")
            budget = None
        if (level == "none" or budget == 0) and rule.kinds:
            if rule.disable == "no":
                raise self.unthinking_refusal()
            off = "between_tools" if rule.disable == "between_tools" else "disabled"
            made["thinking"] = {"type": off}
        elif budget and "budget" in rule.kinds:
            made["thinking"] = {"type": "enabled", "budget_tokens": budget}
        elif level is not None and "adaptive" in rule.kinds:
            made["thinking"] = {"type": "adaptive"}
        if level != "none" and level in rule.levels:
            made["output_config"] = {"effort": level}
        if (form := given.response_format) is not None:
            made["output_config"] = {**made.get("output_config", {}), "format": self._format(form)}
        if given.stop_sequences:
            # https://github.com/BerriAI/litellm/issues/3286 (read 2026-11-27)
            if not all(map(str.strip, given.stop_sequences)):
                remedy = "Give every stop sequence a character that is not whitespace."
                raise self.refusal("a stop sequence is blank", remedy)
            made["stop_sequences"] = list(map(clean_text, given.stop_sequences))
        heat = given.temperature
        if heat is not None and heat > MAX_TEMPERATURE:
            # Others go up to 2. https://platform.claude.com/docs/en/api/messages/create (2026-11-27)
            why = f"The Messages API takes {MAX_TEMPERATURE:g} at most; {heat:g} is sent as that."
            self.report("temperature", why, "parameter.temperature", "repaired")
            heat = MAX_TEMPERATURE
        sampling = {"temperature": heat, "top_p": given.top_p, "top_k": given.top_k}
        if sampling := wire.without_nulls(sampling):
            # Only the older version of the API takes these.
            # https://platform.claude.com/docs/en/api/versioning (2026-10-21; read 2026-11-27)
            made["extra_headers"] = {"anthropic-version": "2023-06-01"}
            made["extra_body"] = sampling
        return made

    def _format(self, given: ResponseFormat) -> Block:
        """Return the schema of the reply; bounds stand in descriptions, objects are closed.

        https://platform.claude.com/docs/en/build-with-claude/structured-outputs (read 2026-11-27)
        """
        if given.schema is None:
            raise self.refusal("it has no JSON mode", "Pass a schema as response_format.")
        schema = closed_schema(given.schema, unsaid=_UNBOUNDED)
        if not suits_strict(schema, _UNBOUNDED):
            remedy = "Name the properties of every object, or use a tool that is not strict."
            raise self.refusal("it takes no open object in response_format", remedy)
        if schema != closed_schema(given.schema):
            why = "Bounds stand in the descriptions, since the API enforces none."
            self.report("response_format", why, "parameter.response_format", "repaired")
        return {"type": "json_schema", "schema": schema}

    def _tool_choice(self, request: Request) -> Block:
        """Return the tool choice, which is only taken next to tools.

        https://platform.claude.com/docs/en/about-claude/models/whats-new-opus-5-5
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (2026-11-27)
        """
        given, limits = request.parameters, request.limits
        choice = given.tool_choice
        if choice is None:
            return {}
        if choice.allowed is not None:
            reason = "The Messages API cannot limit a call to some of the tools."
            self.report("allowed_tools", reason, "parameter.allowed_tools")
        if choice.mode in ("any", "tool"):
            self.check_forced(request, [tool.name for tool in self.declared_tools([])])
            has_budget = given.thinking_budget and "budget" in limits.thinking.kinds
            if limits.features.get("forced_tools") is False or has_budget:
                remedy = "Use tool_choice mode 'auto', or another model without a thinking budget."
                raise self.refusal("it takes no forced tool choice", remedy)
        if not self.tools:
            return {}
        made: Block = {"type": choice.mode}
        if choice.name is not None:
            made["name"] = self.names[choice.name]
        if choice.allows_parallel is not None and choice.mode != "none":
            made["disable_parallel_tool_use"] = not choice.allows_parallel
        return {"tool_choice": made}

    def _container(self, request: Request) -> str:
        """Return the container of the newest reply, next to server tools and until it expires.

        Tools that are bound to a container refuse a request without that of the turn before.
        The anthropic package 2.14, `ThreadState._adopt_container` (read 2026-11-27)
        """
        expires = as_text(self.container.get("expires_at"))
        if all(tool.get("type", "custom") == "custom" for tool in self.tools):
            return ""
        if expires and request.newest_at is not None:
            from datetime import UTC, datetime

            if datetime.fromtimestamp(request.newest_at, UTC).isoformat() >= expires:
                why = "It is not sent: it expired before the newest message."
                self.report("container", why, "parameter.expired")
                return ""
        return as_text(self.container.get("id"))


def _told(tool: ToolSpec) -> Json:
    """Return what a model reads of a tool."""
    read = tool.name, tool.description, tool.input_schema, tool.is_strict, tool.native_specs
    return *read, tuple(tool.allowed_callers)


def _is_ours(part: JsonObject) -> bool:
    return bool(part["type"] == "opaque" and part["provider"] == NAME)


def _tool_of(block: JsonObject) -> Json:
    """Return the name of the tool that comes or goes."""
    tool = as_object(block.get("tool"))
    return as_object(tool.get("definition")).get("name") or tool.get("name")


def _added_in(blocks: Iterable[JsonObject]) -> set[Json]:
    return {_tool_of(block) for block in blocks if block["type"] == "tool_addition"}


def _program_of(part: JsonObject) -> Json:
    """Return the id of the server call whose program makes a call; `None`: the model makes it."""
    is_call = part["type"] == "tool_call"
    return as_object(wire.own_extras(part, NAME).get("caller")).get("tool_id") if is_call else None


def _unbound(part: JsonObject) -> JsonObject:
    own = wire.without(wire.own_extras(part, NAME), "caller")
    return {**part, "extras": {**part["extras"], NAME: own}}


def _are_shared(parts: Sequence[JsonObject]) -> bool:
    """Whether parts are blocks as they are: plain text."""
    for part in parts:
        if part["type"] != "text" or len(part) > 2 or not is_plain(part["text"]):
            return False
    return True


def _with_nested(blocks: Iterable[JsonObject]) -> Iterator[JsonObject]:
    for block in blocks:
        yield block
        yield from _with_nested(wire.objects_in(content_of(block)))


def _without_thinking(blocks: list[Block]) -> list[Block]:
    return [block for block in blocks if block["type"] not in THINKING_TYPES] or blocks


def _source(part: JsonObject) -> Block:
    source, text = part["source"], part.get("text")
    if part["type"] == "document" and text is not None:
        return {"type": "text", "media_type": "text/plain", "data": clean_text(text)}
    if source["type"] == "base64":
        from context_assembler.providers.media import media_type_of

        return {"type": "base64", "media_type": media_type_of(source), "data": source["data"]}
    key = "url" if source["type"] == "url" else "file_id"
    return {"type": source["type"], key: clean_text(source[key])}


def opens_with_thinking(messages: Sequence[JsonObject]) -> bool:
    """Whether the tool loop in flight, if there is one, began with thinking.

    With a thinking budget the API insists on it; a loop that began without goes on without.
    https://github.com/mastra-ai/mastra/issues/7799 (read 2026-11-27)
    """
    opening: list[str] = []
    for message in reversed(messages):
        kinds = [as_text(block.get("type")) for block in wire.objects_in(message.get("content"))]
        if message.get("role") == "assistant":
            opening = kinds
        elif not kinds or any(kind != "tool_result" for kind in kinds):
            break
    said = [kind for kind in opening if kind != "compaction"]
    return "tool_use" not in said or said[0] in THINKING_TYPES


def mark_cache(made: Payload, limits: ModelLimits) -> None:
    """Mark at most three breakpoints of the four allowed.

    The last system block (without one, the last tool) is kept for the long time to live, the tail
    by the automatic breakpoint. A breakpoint finds an older one at most 20 blocks back, so a longer
    step gets one in between. Less than the model's minimum is not marked.
    https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-27)
    """
    messages, least = made["messages"], limits.cache.least_bytes
    head_bytes = count_bytes([made.get("tools", []), made.get("system", [])], least)
    if head_bytes >= least:
        marked = made.get("system") or made.get("tools", [])
        loaded = [at for at, one in enumerate(marked) if one.get("defer_loading") is not True]
        for at in loaded[-1:]:
            mark = {"type": "ephemeral"} | ({"ttl": "1h"} if "1h" in limits.cache.ttls else {})
            marked[at] = {**marked[at], "cache_control": mark}
    elif head_bytes + count_bytes(messages, least - head_bytes) < least:
        return
    made["cache_control"] = {"type": "ephemeral"}
    reply = len(messages) - 1
    while reply >= 0 and messages[reply]["role"] != "assistant":
        reply -= 1
    places = range(max(reply, 0), len(messages))
    blocks = {i: wire.as_list(messages[i]["content"]) or [{}] for i in places}
    step = [(i, j) for i in places for j in range(len(blocks[i]))]
    if reply < 0 or len(step) < _LOOKBACK_BLOCKS:
        return
    for i, j in reversed(step[: _LOOKBACK_BLOCKS - 1]):
        content = list(blocks[i])
        if content[j].get("type", "thinking") not in THINKING_TYPES:
            content[j] = {**content[j], "cache_control": {"type": "ephemeral"}}
            messages[i] = {**messages[i], "content": content}
            return


def count_bytes(value: Json, most: int) -> int:
    """Return the bytes of all text in the value, or any number of at least `most`."""
    total, waiting = 0, [value]
    while waiting and total < most:
        current = waiting.pop()
        kind = current.__class__
        if kind is str:
            total += len(current if current.isascii() else current.encode("utf-8", "surrogatepass"))
        elif kind is list:
            waiting += current
        else:
            waiting += current.values() if kind is dict else peek(current)
    return total


# ---- replies and messages, as parts ----

# The whole prompt is input; the API reports the uncached rest of it.
# https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-27)
_USAGE: Final = {
    "input_tokens": "input_tokens cache_read_input_tokens cache_creation_input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
    "reasoning_tokens": "output_tokens_details.thinking_tokens",
}
_CUT_OFF: Final = (None, "max_tokens", "model_context_window_exceeded")
_CALL_FIELDS: Final = ("type", "id", "name", "input", "cache_control")
_MEDIA_FIELDS: Final = ("type", "source", "title", "context", "citations")
_SOURCE_FIELDS: Final = ("type", "media_type", "data", "url", "file_id")
_RESULT_FIELDS: Final = ("type", "tool_use_id", "content", "is_error", "cache_control")


def read_reply(reply: Any, request: Request | None = None) -> wire.Reply:
    """Return the parts of a reply in order; thinking and server tools' blocks stay verbatim.

    Raises:
        ReplyError: The reply is no message of this API.
    """
    warnings: list[str] = []
    body = wire.read_body(reply, _join_events)
    content: list[Json] | None = body.get("content")
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        raise ReplyError(reply, reason="it has no list of content blocks")
    names = wire.own_names(request, NAME_RULE, NAME)
    parts = _read_content(content, "content", lambda _where, what: warnings.append(what), names)
    parts = [part for part in parts if part != wire.text_part("")]
    made = made_by(body)
    last = parts[-1:] if made["stop_reason"] in _CUT_OFF and "stop_reason" in body else ()
    unfinished = tuple(part["call_id"] for part in last if part["type"] == "tool_call")
    warnings += map(wire.say_unfinished, unfinished)
    edits = wire.objects_in(as_object(body.get("context_management")).get("applied_edits"))
    made |= {"unfinished_calls": unfinished, "warnings": (*warnings,), "edits": (*edits,)}
    return wire.Reply(NAME, parts=parts, **made)


def made_by(body: JsonObject) -> dict[str, Any]:
    """Return where a reply came from: the fields of `Provenance` that its message tells."""
    container = as_object(body.get("container"))
    return {
        "model": as_text(body.get("model")),
        "response_id": as_text(body.get("id")) or None,
        "stop_reason": as_text(body.get("stop_reason")) or None,
        "usage": wire.read_usage(_billed(as_object(body.get("usage"))), **_USAGE),
        "container": container if as_text(container.get("id")) else None,
    }


def _billed(usage: JsonObject) -> JsonObject:
    """Return all that is charged: the top level leaves out what a compaction took.

    Types of the anthropic package 2.14, BetaIterationsUsage (read 2026-11-30)
    """
    entries = wire.objects_in(usage.get("iterations"))
    whole = dict(usage)
    for one in (entry for entry in entries if entry.get("type") == "compaction"):
        keys = (key for key in one if key.endswith("_tokens"))
        whole |= {key: wire.count_of(whole.get(key)) + wire.count_of(one[key]) for key in keys}
    return whole


def _join_events(events: Iterable[Block]) -> Block | None:
    """Return the message as far as it came; `None` if the events do not begin one.

    Events that the SDK adds are ignored.
    https://platform.claude.com/docs/en/build-with-claude/streaming (read 2026-11-28)
    """
    message: Block | None = None
    blocks: list[tuple[int, Block]] = []
    for event in events:
        place, kind = wire.count_of(event.get("index")), event.get("type")
        if kind == "message":  # the whole reply, after its stream
            return event
        if kind == "message_start":
            message = dict(as_object(event.get("message")))
        elif kind == "content_block_start":
            blocks.append((place, dict(as_object(event.get("content_block")))))
        elif kind == "content_block_delta":
            # Of blocks with one index the newest goes on; without any index, the newest of all.
            found = (one for at, one in reversed(blocks) if at == event.get("index", at))
            block = next(found, Block())
            said = dict(as_object(event.get("delta")))
            said |= {"citations": [said.pop("citation")]} if "citation" in said else {}
            wire.grow(block, said)
        elif kind == "message_delta" and message is not None:
            usage = {**as_object(message.get("usage")), **as_object(event.get("usage"))}
            message |= {**as_object(event.get("delta")), "usage": usage}
            message |= {key: event[key] for key in ("context_management",) if event.get(key)}
    blocks.sort(key=itemgetter(0))
    for _, block in blocks:
        # A call's stays text if it is cut off.
        if written := as_text(block.pop("partial_json", "")):
            given = wire.parse_object(written)
            is_call = block.get("type") == "tool_use"
            block["input"] = written if given is None and is_call else given or {}
    content = [block for _, block in blocks]
    return None if message is None else {**message, "content": content}


def read_messages(
    source: Json, note: wire.Note = lambda _where, _what: None
) -> list[tuple[str, Block]]:
    """Return the events of a list of messages, or of a request: type and stored body.

    The system prompt of a request comes first.

    Args:
        note: Gets the place and half a sentence for everything that is not kept as it came.
    """
    events: list[tuple[str, Block]] = []
    if isinstance(source, Mapping) and "role" not in (given := as_object(source)):
        if given.get("system") is not None:
            events.append(("system", {"parts": _read_content(given["system"], "system", note)}))
        source = given.get("messages")
    for at, message in enumerate(as_list(source) if isinstance(source, list | tuple) else [source]):
        fields, where = as_object(message), f"messages[{at}]"
        role = fields.get("role")
        if role not in ("user", "assistant", "system"):
            note(where, f"has the unknown role {role!r:.40}; the message is left out")
            continue
        parts = _read_content(fields.get("content"), f"{where}.content", note)
        kept = {key: held for key, held in fields.items() if key not in ("role", "content")}
        body: Block = {}
        model = as_text(kept.get("model"))
        if role == "assistant" and model and not model.startswith("<"):  # <synthetic>: a client's
            from context_assembler.events import to_json

            body["made_by"] = to_json(wire.without_nulls({"provider": NAME, **made_by(fields)}))
            known = ("id", "type", "model", "stop_reason", "usage")
            kept = {key: held for key, held in kept.items() if key not in known}
        if kept:
            body["metadata"] = {NAME: kept}
        results = [part for part in parts if part["type"] == "tool_result" and role == "user"]
        events += (("tool_result", {"parts": [part]}) for part in results)
        said = [part for part in parts if part not in results] if results else parts
        if said or kept or not results:
            events.append((role, {"parts": said, **body}))
    return events


def _read_content(
    content: Json, where: str, note: wire.Note, names: Mapping[str, str] = {}
) -> list[JsonObject]:
    return wire.read_content(
        content, where, note, lambda block, at: _read_block(block, at, note, names)
    )


def _read_block(
    block: JsonObject, where: str, note: wire.Note, names: Mapping[str, str]
) -> JsonObject:
    """Return a block as a part; one that we do not interpret, or cannot read, stays verbatim."""
    kind, text = as_text(block.get("type")), block.get("text")
    if kind == "tool_result" and isinstance(block.get("tool_use_id"), str):
        return _read_result(block, where, note)
    if kind == "tool_use" and all(isinstance(block.get(key), str) for key in ("id", "name")):
        extras = {k: v for k, v in block.items() if k not in _CALL_FIELDS and v is not None}
        own, name = {NAME: extras} if extras else None, names.get(block["name"], block["name"])
        return wire.read_call(block["id"], name, block.get("input"), where, note, extras=own)
    if kind == "text" and isinstance(text, str) and not block.get("citations"):
        # An empty list of citations says nothing; `parsed_output` is the SDK's.
        wire.note_rest(block, ("type", "text", "citations", "parsed_output"), where, note)
        return wire.text_part(text)
    if kind in THINKING_TYPES:
        said = as_text(block.get("thinking"))
        part = {"type": "thinking", "provider": NAME} | ({"text": said} if said else {})
        return part if find_flaw(block) else part | {"block": block}
    flaw = find_flaw(block)
    if flaw is None and kind in wire.MEDIA and block["source"]["type"] != "content":
        wire.note_rest(block, _MEDIA_FIELDS, where, note)
        wire.note_rest(block["source"], _SOURCE_FIELDS, f"{where}.source", note)
        return _read_media(block)
    if flaw is not None:
        note(where, f"is kept verbatim: {flaw}")
    return _opaque(block)


def _opaque(block: JsonObject) -> JsonObject:
    own = wire.without(block, "parsed_output")  # the SDK's
    return wire.opaque_part(NAME, own, describe_block(own))


def _own(fields: JsonObject) -> dict[str, Json]:
    return {"extras": {NAME: dict(fields)}} if fields else {}


def _read_result(block: JsonObject, where: str, note: wire.Note) -> JsonObject:
    part: Block = {"type": "tool_result", "call_id": block["tool_use_id"]}
    if content := _read_content(block.get("content"), f"{where}.content", note):
        taken = (*wire.MEDIA, "text", "opaque")
        part["content"] = [p if p["type"] in taken else _opaque(block) for p in content]
    extras = {key: held for key, held in block.items() if key not in _RESULT_FIELDS}
    return part | ({"is_error": True} if block.get("is_error") is True else {}) | _own(extras)


def _read_media(block: JsonObject) -> JsonObject:
    from context_assembler.providers.media import media_of

    if (part := media_of(block, NAME)) is None:  # a document of text
        from base64 import b64encode

        text, title = block["source"]["data"], block.get("title")
        data = b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
        source = {"type": "base64", "media_type": "text/plain", "data": data}
        part = {"type": "document", "source": source, "text": text}
        part |= {"title": title} if isinstance(title, str) else {}
    own = {key: block[key] for key in ("context", "citations") if block.get(key)}
    return {**part, **(_own(own) if part["type"] == "document" else {})}
