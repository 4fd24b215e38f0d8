"""The rules of the Messages API: what it refuses, and what merely harms."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from re import fullmatch
from typing import Final, NamedTuple

from context_assembler.events import Json, JsonObject
from context_assembler.models import ModelLimits
from context_assembler.providers import anthropic, media, wire
from context_assembler.providers.anthropic import THINKING_TYPES
from context_assembler.providers.lent import peek
from context_assembler.providers.schemas import ROOT_UNIONS, walk_schemas
from context_assembler.providers.wire import as_list, as_object, as_text
from context_assembler.report import Violation

_DOCS: Final = "https://platform.claude.com/docs/en"

SOURCES: Final = wire.sources_of(f"""
A0 A12: {_DOCS}/api/messages/create | A1 A2: {_DOCS}/agents-and-tools/tool-use/handle-tool-calls |
A3: https://github.com/anthropics/claude-code/issues/13460 |
A4: {_DOCS}/agents-and-tools/tool-use/server-tools | A14: {_DOCS}/api/versioning (2026-10-21) |
A5: https://github.com/langchain-ai/langchain/issues/37756 |
A6: {_DOCS}/agents-and-tools/tool-use/define-tools | A16: {_DOCS}/build-with-claude/thinking |
A7: https://github.com/anthropics/claude-code/issues/40075 |
A8: {_DOCS}/agents-and-tools/tool-use/strict-tool-use | A27: {_DOCS}/build-with-claude/effort |
A9: https://github.com/anthropics/claude-code/issues/59812 |
A10: {_DOCS}/build-with-claude/prefill-claudes-response |
A11: {_DOCS}/about-claude/models/whats-new-claude-4-6 |
A13: {_DOCS}/build-with-claude/mid-conversation-system-messages |
A15: {_DOCS}/build-with-claude/extended-thinking | A19: {_DOCS}/build-with-claude/prompt-caching |
A18: {_DOCS}/about-claude/models/whats-new-opus-5-5 |
A20: {_DOCS}/agents-and-tools/tool-use/tool-search-tool |
A21: {_DOCS}/build-with-claude/vision; https://github.com/BerriAI/litellm/issues/24900 |
A22: {_DOCS}/api/errors; https://github.com/anthropics/claude-code/issues/5174 |
A23: {_DOCS}/build-with-claude/context-windows | A25 A29: {_DOCS}/build-with-claude/compaction |
A24: {_DOCS}/build-with-claude/prompt-caching#pre-warming-the-cache |
A26: {_DOCS}/build-with-claude/context-editing | A33: https://github.com/Dokploy/mcp/issues/74 |
A28: https://github.com/BerriAI/litellm/issues/3286 |
A30: {_DOCS}/build-with-claude/preserved-thinking |
A31: {_DOCS}/cli-sdks-libraries/sdks/python#long-requests |
A32: https://github.com/anthropics/claude-code/issues/4668
""")
"""Rule → where it is written."""

UNCHECKED: Final[Mapping[str, str]] = {
    "A7": "Whether examples of input suit their schema.",
    "A16": "Whether thinking goes back unmodified and complete: only who has the reply can tell.",
    "A17": f"{_DOCS}/build-with-claude/preserved-thinking: what a signature is bound to.",
    "A21": "The type and size of an image at a URL or with a file id.",
    "A22": "Pages of a PDF at a URL or with a file id, and of an encrypted one.",
    "A23": "Whether the input fits the window: the ledger counts.",
    "A24": "Whether a request is part of a batch.",
    "A25": "Whether a payload is only counted, and which tools a compaction was made with.",
}
"""Rule → what of it a look at a payload cannot find."""

_NO_SAMPLING: Final = "2026-10-21"  # the API version since which none is taken
_SERVER_CALLS: Final = ("server_tool_use", "mcp_tool_use")
_NULL_SAFE: Final = "model max_tokens messages betas extra_headers extra_query timeout".split()


class _Block(NamedTuple):
    where: str
    kind: str
    body: dict[str, Json]

    def text(self, key: str) -> str:
        return as_text(self.body.get(key))


class _Turn(NamedTuple):
    """Neighbouring messages of one role, which the API reads as one."""

    where: str
    role: str
    blocks: list[_Block]


class _Sent:
    """A payload as the API sees it: `extra_body` merged in, messages joined to turns."""

    def __init__(
        self, payload: JsonObject, limits: ModelLimits | None, today: date | None, start: int
    ) -> None:
        given = dict(as_object(payload))
        self.body: dict[str, Json] = {**given, **as_object(given.pop("extra_body", None))}
        self.limits = limits
        headers = as_object(given.get("extra_headers"))
        is_older = today is not None and today.isoformat() < _NO_SAMPLING
        version = as_text(headers.get("anthropic-version"))
        self.is_newest = (version >= _NO_SAMPLING) if version else not is_older
        asked = [*as_text(headers.get("anthropic-beta")).split(","), *as_list(given.get("betas"))]
        self.betas = {as_text(name).strip() for name in asked} - {""}
        self.most = wire.as_number(self.body.get("max_tokens"))
        self.config = as_object(self.body.get("output_config"))
        self.thinks = as_text(as_object(self.body.get("thinking")).get("type"))
        self.forces = as_object(self.body.get("tool_choice")).get("type") in ("any", "tool")
        self.tools = _placed(self.body.get("tools"), "tools")
        messages = peek(self.body.get("messages"))
        self.count = len(messages)
        # New messages belong to the calls before them, which are at most two replies back.
        self.first, replies = start, 0
        while self.first > 0 and replies < 2:
            self.first -= 1
            role = as_object(messages[self.first]).get("role")
            before = as_object(messages[self.first - 1]).get("role") if self.first else None
            replies += role == "assistant" != before
        self.messages = list(enumerate(map(as_object, messages[self.first :]), self.first))
        self.turns: list[_Turn] = []
        for index, message in self.messages:
            role, content = as_text(message.get("role")), message.get("content")
            if not self.turns or self.turns[-1].role != role:
                self.turns.append(_Turn(f"messages[{index}]", role, []))
            blocks = _placed(content, f"messages[{index}].content")
            if isinstance(content, str):
                body = {"type": "text", "text": content}
                blocks = [_Block(f"messages[{index}].content", "text", body)]
            self.turns[-1].blocks.extend(blocks)
        self.blocks = [block for turn in self.turns for block in turn.blocks]
        self.all_blocks = list(_with_nested(self.blocks))
        self.system = _placed(self.body.get("system"), "system")

    def lacks(self, feature: str) -> bool:
        """Whether the model is known to lack the feature."""
        return self.limits is not None and self.limits.features.get(feature) is False


def _placed(entries: Json, where: str) -> list[_Block]:
    bodies = map(as_object, peek(entries))
    return [_Block(f"{where}[{i}]", as_text(b.get("type")), b) for i, b in enumerate(bodies)]


def _with_nested(blocks: Iterable[_Block]) -> Iterator[_Block]:
    for block in blocks:
        yield block
        if block.kind in ("tool_result", "search_result"):
            yield from _with_nested(_placed(block.body.get("content"), f"{block.where}.content"))
        elif block.kind == "document":
            inner = as_object(block.body.get("source")).get("content")
            yield from _with_nested(_placed(inner, f"{block.where}.source.content"))


def check(
    payload: JsonObject, limits: ModelLimits | None, today: date | None, start: int
) -> list[Violation]:
    """Return the rules that are broken, in their order; `today` decides about the API's version."""
    sent = _Sent(payload, limits, today, start)
    rules = _MESSAGE_RULES if start else (*_HEAD_RULES, *_MESSAGE_RULES)
    return wire.violations((found for find in rules for found in find(sent)), SOURCES)


# ---- parameters and tools ----


def _settings(s: _Sent) -> Iterator[wire.Found]:
    body, most, limits = s.body, s.most, s.limits
    if not as_text(body.get("model")):
        yield "A0", "model", "a model id is required"
    if not isinstance(most, int) or most < 0:
        yield "A0", "max_tokens", "a number of tokens is required"
    for name, value in body.items():
        if value is None and name not in _NULL_SAFE:
            yield "A0?", name, "is sent as null; leave it out"
    if not 0 < s.count <= 100_000:
        rule, what = ("A22", "at most 100,000 are taken") if s.count else ("A0", "one is required")
        yield rule, "messages", what
    longest = limits.output_tokens if limits is not None and not s.betas else None
    if most is not None and longest is not None and most > longest:
        yield "A23", "max_tokens", f"the model's most is {longest:,}"
    # `_calculate_nonstreaming_timeout` in the anthropic package 2.14
    is_whole = not body.get("stream") and body.get("timeout") is None
    if is_whole and most is not None and most > 21_333:
        yield "A31?", "max_tokens", "above 21,333 messages.create needs stream or a timeout"
    for at, stop in enumerate(as_list(body.get("stop_sequences"))):
        if not as_text(stop).strip():
            yield "A28", f"stop_sequences[{at}]", "must not be blank"
    pre_warming = {
        "stream": body.get("stream") is True,
        "thinking": s.thinks == "enabled",
        "output_config.format": s.config.get("format"),
        "tool_choice": s.forces,
    }
    for where in (where for where, is_set in pre_warming.items() if is_set and most == 0):
        yield "A24", where, "not taken with max_tokens 0"
    edits = _placed(as_object(body.get("context_management")).get("edits"), "")
    if body.get("compaction") and body.get("context_management"):
        yield "A25", "compaction", "not taken together with context_management"
    compacts = body.get("compaction") or any(e.kind.startswith("compact_") for e in edits)
    if compacts and as_object(s.config.get("task_budget")).get("remaining") is not None:
        yield "A25", "output_config.task_budget.remaining", "not taken together with compaction"
    for edit in edits[1:]:
        if edit.kind.startswith("clear_thinking"):
            yield "A26", f"context_management.edits{edit.where}", "clear_thinking comes first"


def _thinking(s: _Sent) -> Iterator[wire.Found]:
    rule, effort = s.limits.thinking if s.limits is not None else None, s.config.get("effort")
    if s.thinks == "enabled":
        budget = s.body["thinking"].get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            yield "A15", "thinking.budget_tokens", "must be at least 1,024"
        elif s.most is not None and budget >= s.most and not s.betas:
            yield "A15", "thinking.budget_tokens", "must be less than max_tokens"
    if rule is not None and isinstance(effort, str) and effort not in rule.levels:
        yield "A27" if rule.levels else "A27?", "output_config.effort", f"not a level: {effort!r}"
    if rule is None or not rule.kinds:
        return
    is_highest, off = effort in ("xhigh", "max"), rule.disable
    refused = {
        "enabled": "budget" not in rule.kinds,
        "adaptive": "adaptive" not in rule.kinds,
        "disabled": off in ("no", "between_tools") or (off == "effort_up_to_high" and is_highest),
        "between_tools": off != "between_tools" or is_highest,
    }
    if refused.get(s.thinks):
        yield "A15", "thinking.type", f"the model refuses {s.thinks!r}"


def _sampling(s: _Sent) -> Iterator[wire.Found]:
    given = {key: s.body.get(key) for key in ("temperature", "top_p", "top_k")}
    given = {key: value for key, value in given.items() if value is not None}
    rule = s.limits.parameters if s.limits is not None else None
    heat = wire.as_number(given.get("temperature"))
    for name, value in given.items():
        is_default = name != "top_k" and value == 1
        if s.is_newest:
            yield "A14", name, f"not taken since API version {_NO_SAMPLING}"
        elif rule is not None and rule.temperature == "never" and not is_default:
            yield "A14", name, "the model takes default sampling only"
        elif s.thinks == "enabled" and name != "top_p" and not is_default:
            yield "A14", name, "not taken while the model thinks"
    if not s.is_newest and heat is not None and not 0 <= heat <= anthropic.MAX_TEMPERATURE:
        yield "A14", "temperature", "must be between 0 and 1"
    takes_both = s.is_newest or rule is None or rule.accepts_top_p_with_temperature
    if {"temperature", "top_p"} <= given.keys() and not takes_both:
        yield "A14?", "top_p", "not taken together with temperature"


def _tools(s: _Sent) -> Iterator[wire.Found]:
    names: set[str] = set()
    load = anthropic.StrictLoad()
    for where, _, tool in s.tools:
        name, schema = as_text(tool.get("name")), tool.get("input_schema")
        yield from _definition(tool, where)
        if name and name in names:
            yield "A6", f"{where}.name", f"{name!r} is taken by another tool"
        names.add(name)
        if tool.get("strict") is True:
            load = load.plus(schema)
            if not anthropic.suits_strict(schema):
                rule = "A8" if anthropic.is_refused_strict(schema) else "A8?"
                yield rule, f"{where}.input_schema", "has what strict mode does not take"
    if excess := load.excess():
        yield "A8", "tools", excess
    if s.tools and all(tool.get("defer_loading") is True for _, _, tool in s.tools):
        yield "A20", "tools", "at least one tool must not be deferred"
    choice = as_object(s.body.get("tool_choice"))
    if s.forces and not names and not s.body.get("mcp_servers"):
        yield "A6", "tool_choice", "a call is forced, but no tool is offered"
    elif choice.get("type") == "tool" and as_text(choice.get("name")) not in names:
        yield "A6", "tool_choice.name", f"tool {choice.get('name')!r} is not offered"
    if s.forces and s.lacks("forced_tools"):
        yield "A18", "tool_choice", "the model takes no forced tool choice"
    if s.forces and s.thinks == "enabled":
        yield "A18", "tool_choice", "no forced tool choice with a thinking budget"


def _definition(tool: JsonObject, where: str) -> Iterator[wire.Found]:
    if "name" in tool and not anthropic.NAME_RULE.pattern.fullmatch(as_text(tool["name"])):
        yield "A6", f"{where}.name", "must match [a-zA-Z0-9_-]{1,64}"
    where, schema = f"{where}.input_schema", as_object(tool.get("input_schema"))
    if "input_schema" not in tool:
        if tool.get("type") in (None, "custom"):
            yield "A7", where, "a schema is required"
        return
    if schema.get("type") != "object":
        yield "A7", f"{where}.type", "must be 'object'"
    for union in (union for union in ROOT_UNIONS if union in schema):
        yield "A7", f"{where}.{union}", "no union at the root of a schema"
    for one in walk_schemas(schema):
        if isinstance(one.get("items"), list):
            yield "A33", where, "in the draft of 2020, items by position are 'prefixItems'"
        if any(isinstance(one.get(f"exclusive{end}"), bool) for end in ("Minimum", "Maximum")):
            yield "A33", where, "in the draft of 2020, exclusive bounds are numbers"
    for name in as_object(schema.get("properties")):
        if not anthropic.PARAMETER_NAME.fullmatch(name):
            where = f"{where}.properties[{name[:60]!r}]"
            yield "A32", where, "a parameter's name must match [a-zA-Z0-9_.-]{1,64}"


# ---- messages ----


def _message_shape(s: _Sent) -> Iterator[wire.Found]:
    for at, message in s.messages:
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant", "system"):
            yield "A0", f"messages[{at}].role", "must be user, assistant or system"
        if not isinstance(content, str | list | tuple):
            yield "A0", f"messages[{at}].content", "must be text or a list of blocks"
        elif not content and not (role == "assistant" and at == s.count - 1):
            yield "A9", f"messages[{at}].content", "must not be empty, except in a last reply"


def _order(s: _Sent) -> Iterator[wire.Found]:
    for before, turn, after in zip([None, *s.turns], s.turns, [*s.turns[1:], None], strict=False):
        if turn.role == "system":
            last = before.blocks[-1] if before is not None and before.blocks else None
            if before is None and not s.first:
                yield "A13", turn.where, "a system message must not come first"
            elif before is not None and before.role == "assistant" and not _is_answer(last):
                yield "A13", turn.where, "must not stand right after an assistant message"
            if after is not None and after.role == "user":
                yield "A13", turn.where, "must not stand right before a user message"
            if s.lacks("mid_conversation_system"):
                yield "A13?", turn.where, "the model is not documented to take system messages"
        is_compacted = any(block.kind == "compaction" for block in turn.blocks)
        if before is None and turn.role == "assistant" and not s.first and not is_compacted:
            yield "A12?", turn.where, "the user should speak first"
        waits = turn.role == "assistant" and _waits_for_server(turn)
        for block in after.blocks if waits and after is not None and after.role == "user" else ():
            if block.kind != "tool_result":
                yield "A4", block.where, "a server tool is pending: only results are taken"
        if after is None and turn.role == "assistant":
            if s.lacks("prefill") and not waits:
                yield "A11", turn.where, "the model continues no assistant message"
            for block in turn.blocks[-1:]:
                text = block.text("text")
                if block.kind == "text" and text != text.rstrip():
                    yield "A10", block.where, "the final text must not end in whitespace"
            on_demand = s.limits is not None and "budget" in s.limits.thinking.kinds
            for block in turn.blocks:
                is_idle = s.thinks == "disabled" or (not s.thinks and on_demand)
                if is_idle and block.kind in THINKING_TYPES:
                    yield "A16", block.where, "no thinking in a last reply while thinking is off"


def _is_answer(block: _Block | None) -> bool:
    is_result = block is not None and block.kind.endswith("_tool_result")
    return is_result and block is not None and bool(block.text("tool_use_id"))


def _waits_for_server(turn: _Turn) -> bool:
    """Whether a server tool's result is outstanding: such a turn is sent back as it is."""
    asked = {block.text("id") for block in turn.blocks if block.kind in _SERVER_CALLS}
    return bool(asked - {block.text("tool_use_id") for block in turn.blocks})


def _calls(s: _Sent) -> Iterator[wire.Found]:
    """Calls are answered once, in the very next user message, results first."""
    seen: set[str] = set()
    server_calls: set[str] = set()
    calls: dict[str, _Block] = {}
    for at, turn in enumerate([*s.turns, _Turn("", "", [])]):
        answered: set[str] = set()
        own: dict[str, _Block] = {}
        is_past_results = False
        for block in turn.blocks:
            where, kind, body = block
            if kind == "tool_result":
                call_id = block.text("tool_use_id")
                if turn.role != "user":
                    yield "A3", where, "a tool result belongs into a user message"
                elif call_id not in calls and (at or not s.first):
                    yield "A3", where, f"there is no call {call_id!r} in the message before"
                elif call_id in answered:
                    yield "A3", where, f"call {call_id!r} is answered twice"
                if turn.role == "user" and is_past_results:
                    yield "A2", where, "tool results come first in their message"
                answered.add(call_id)
                continue
            is_past_results = True
            call_id = block.text("id")
            if kind == "tool_use":
                yield from _call(block, turn)
                if call_id in own:
                    yield "A5", f"{where}.id", "is used twice in one message"
                elif call_id in seen:
                    yield "A5?", f"{where}.id", "is used before"
                own[call_id] = block
            elif kind in _SERVER_CALLS:
                server_calls.add(call_id)
                if kind == "server_tool_use" and not anthropic.SERVER_ID.fullmatch(call_id):
                    yield "A5", f"{where}.id", "a server tool's id begins with srvtoolu_"
            elif _is_answer(block) and body["tool_use_id"] not in server_calls:
                yield "A4", where, "its server_tool_use does not stand before it"
        for call_id, block in calls.items():
            if call_id not in answered:
                message = f"call {call_id!r} is not answered in the next message"
                yield "A1", block.where, message
        seen |= own.keys()
        calls = own if turn.role == "assistant" or at == len(s.turns) - 1 else {}


def _call(block: _Block, turn: _Turn) -> Iterator[wire.Found]:
    where, name = block.where, block.text("name")
    if turn.role != "assistant":
        yield "A0", where, "only the assistant calls tools"
    if not fullmatch(r"[a-zA-Z0-9_-]+", block.text("id")):
        yield "A5", f"{where}.id", "only letters, digits, _ and - are taken"
    if not anthropic.NAME_RULE.pattern.fullmatch(name):
        # https://github.com/anthropics/claude-code/issues/2673 (read 2026-11-28)
        yield "A6" if len(name) > 200 else "A6?", f"{where}.name", "must be the name of a tool"
    if not isinstance(block.body.get("input"), dict):
        yield "A0", f"{where}.input", "must be an object"


def _contents(s: _Sent) -> Iterator[wire.Found]:
    for where, kind, body in (*s.system, *s.all_blocks):
        text = body.get("text")
        if kind == "text" and not (where.endswith(".content") and text == ""):
            if not isinstance(text, str):
                yield "A0", where, "a text block holds text"
            elif not text.strip():
                yield "A9", where, "text must not be blank"
    for turn in s.turns:
        for where, kind, body in turn.blocks:
            if not kind:
                yield "A0", where, "must be an object with a type"
            proof = "signature" if kind == "thinking" else "data"
            if kind in THINKING_TYPES and not as_text(body.get(proof)):
                yield "A16", where, f"thinking without {proof} is invalid"
            if kind in (*THINKING_TYPES, "compaction") and turn.role != "assistant":
                rule = "A29" if kind == "compaction" else "A16"
                yield rule, where, "only the assistant thinks and compacts"
            if kind == "compaction" and body.get("content") == "":
                yield "A29", f"{where}.content", "a summary must not be empty"
            if s.is_newest and turn.role == "assistant" and kind == "document":
                yield "A14", where, "no documents in an assistant message"
            if s.is_newest and turn.role == "user" and kind == "text" and body.get("citations"):
                yield "A14", where, "no citations in a user's text"
    signed = [b for b in s.blocks if b.kind == "compaction" and b.body.get("signature")]
    for block in signed[1:]:
        yield "A29", block.where, "there is one signed compaction at most"
    if signed and (s.first or s.blocks[0] is not signed[0]):
        yield "A29", signed[0].where, "a signed compaction stands before everything else"


def _loop(s: _Sent) -> Iterator[wire.Found]:
    """With a budget, the reply that opened the tool loop in flight begins with thinking."""
    opening: list[_Block] = []
    for turn in s.turns if s.thinks == "enabled" and not s.first else ():
        if turn.role == "assistant":
            opening = opening or turn.blocks
        elif any(block.kind != "tool_result" for block in turn.blocks):
            opening = []
    said = [block for block in opening if block.kind != "compaction"]
    calls = any(block.kind == "tool_use" for block in said)
    if calls and said[0].kind not in THINKING_TYPES:
        yield "A15", said[0].where, "must begin with a thinking block"


def _references(s: _Sent) -> Iterator[wire.Found]:
    offered = {tool.text("name") for tool in s.tools}
    is_open = s.body.get("mcp_servers") or any(t.kind.startswith("mcp") for t in s.tools)
    for where, kind, body in s.blocks:
        change = as_object(body.get("tool"))
        definition = as_object(change.get("definition"))
        if kind == "tool_addition" and definition:
            yield from _definition(definition, f"{where}.tool.definition")
            offered.add(as_text(definition.get("name")))
        elif (kind in anthropic.CHANGE_TYPES or kind == "tool_result") and not is_open:
            inner = [block.body for block in _with_nested(_placed(body.get("content"), ""))]
            for found in (*inner, change) if not s.first else ():
                name = as_text(found.get("tool_name") or found.get("name"))
                if found.get("type") == "tool_reference" and name not in offered:
                    yield "A20", where, f"tool {name!r} is not declared"


def _media(s: _Sent) -> Iterator[wire.Found]:
    rules = anthropic.media_rules(s.limits)
    most_images, most_pages, total = rules.max_images or 0, rules.max_pdf_pages or 0, 0
    images = [block for block in s.all_blocks if block.kind == "image"]
    is_crowd = len(images) > anthropic.CROWD_IMAGES
    most_px = anthropic.CROWD_SIDE_PX if is_crowd else rules.max_side_px or 0
    if len(images) > most_images:
        yield "A21", images[most_images].where, f"at most {most_images} images are taken"
    for block in s.all_blocks:
        if block.kind not in ("image", "document"):
            continue
        is_image, rule = block.kind == "image", "A21" if block.kind == "image" else "A22"
        source, where = as_object(block.body.get("source")), f"{block.where}.source"
        form, kind, data = (as_text(source.get(key)) for key in ("type", "media_type", "data"))
        if is_image and s.lacks("vision"):
            yield rule, block.where, "the model takes no images"
        if form == "url":
            url = as_text(source.get("url"))
            if media.scheme_of(url) not in media.WEB_SCHEMES:
                yield rule, f"{where}.url", "must be an address that can be fetched: https"
        elif is_image and form not in ("base64", "file"):
            yield rule, where, "must be base64, url or file"
        if form != "base64":
            continue
        if kind not in (rules.image_types if is_image else ("application/pdf",)):
            what = rules.image_words if is_image else "application/pdf"
            yield rule, f"{where}.media_type", f"must be {what}"
            if not is_image:
                continue
        missing = "must be base64 without a data: prefix"
        if objection := media.objection_to_bytes(kind, data) if data else missing:
            yield rule, f"{where}.data", objection
        if is_image:
            if len(data) > (most := rules.max_image_chars or 0):
                yield rule, f"{where}.data", f"an image has at most {most >> 20} MB"
            if max(media.measure_base64(data) or (0,)) > most_px:
                yield rule, f"{where}.data", f"an image has at most {most_px:,} pixels a side"
            continue
        pages, is_locked = media.pdf_facts(data)
        total += pages or 0
        if is_locked:
            yield rule, f"{where}.data", "an encrypted PDF is not taken"
        if total > most_pages:  # together
            is_one = (pages or 0) > most_pages
            yield rule if is_one else "A22?", f"{where}.data", f"at most {most_pages} pages"
    most = anthropic.MAX_REQUEST_CHARS
    if not s.first and anthropic.count_bytes(s.body, most + 1) > most:
        yield "A22", "messages", "a request has at most 32 MB"


def _cache_marks(s: _Sent) -> Iterator[wire.Found]:
    every = (*s.tools, *s.system, *s.all_blocks)
    marked = [block for block in every if isinstance(block.body.get("cache_control"), Mapping)]
    automatic = s.body.get("cache_control")
    marks = [(block.where, _ttl(block.body["cache_control"])) for block in marked]
    if isinstance(automatic, Mapping):
        marks.append(("cache_control", _ttl(automatic)))
        own = s.turns[-1].blocks[-1].body.get("cache_control") if s.blocks else None
        if own and _ttl(own) != _ttl(automatic):
            yield "A19", s.blocks[-1].where, "differs in ttl from the automatic breakpoint"
    if len(marks) > 4:
        yield "A19", marks[4][0], f"{len(marks)} breakpoints, at most 4 are taken"
    for at, (where, ttl) in enumerate(marks):
        if ttl == "1h" and any(earlier != "1h" for _, earlier in marks[:at]):
            yield "A19", where, "1h breakpoints stand before 5m ones"
    for block in marked:
        is_empty = block.kind == "text" and not block.text("text")
        is_deferred = block.body.get("defer_loading") is True
        if block.kind in THINKING_TYPES or is_empty or is_deferred:
            yield "A19", block.where, "no breakpoint on thinking, empty text or a deferred tool"


def _ttl(mark: Json) -> str:
    return as_text(as_object(mark).get("ttl")) or "5m"


def _betas(s: _Sent) -> Iterator[wire.Found]:
    edits = as_object(s.body.get("context_management")).get("edits")
    features = {f"edit {edit.kind}" for edit in _placed(edits, "")}
    features |= {f"tool {tool.kind}" for tool in s.tools}
    fields = {"parameter": s.body, "output_config": s.config}
    fields |= {key: as_object(s.body.get(key)) for key in ("thinking", "container")}
    holders = [
        *fields.items(),
        *(("message", m) for _, m in s.messages if m.get("role") == "system"),
    ]
    features |= {f"{of} {key}" for of, held in holders for key, v in held.items() if v is not None}
    for _, message in s.messages:
        features |= set(anthropic.features_of_blocks(message.get("content")))
    for beta in anthropic.betas_for(features):
        if beta not in s.betas:
            yield "A30?", "extra_headers.anthropic-beta", f"the beta {beta} is not asked for"


_Rules = tuple[Callable[[_Sent], Iterable[wire.Found]], ...]
_HEAD_RULES: Final[_Rules] = (_settings, _thinking, _sampling, _tools)
_MESSAGE_RULES: Final[_Rules] = (
    *(_message_shape, _order, _calls, _contents, _loop),
    *(_references, _media, _cache_marks, _betas),
)
