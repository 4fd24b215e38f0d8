"""The rules of the Messages API: what it refuses, and what merely harms."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.events import Json, JsonObject
from context_assembler.models import ModelLimits
from context_assembler.providers.anthropic import (
    CHANGE_TYPES,
    CROWD_IMAGES,
    CROWD_SIDE_PX,
    MAX_REQUEST_CHARS,
    MAX_TEMPERATURE,
    NAME_RULE,
    PARAMETER_NAME,
    SERVER_ID,
    STRICT_BOUNDS,
    THINKING_TYPES,
    StrictLoad,
    betas_for,
    features_of_blocks,
    media_rules,
    suits_strict,
)
from context_assembler.providers.lent import peek
from context_assembler.providers.media import (
    WEB_SCHEMES,
    measure_base64,
    objection_to_bytes,
    pdf_facts,
    scheme_of,
)
from context_assembler.providers.schemas import ROOT_UNIONS, walk_schemas
from context_assembler.providers.wire import as_list, as_object, as_text
from context_assembler.report import Violation

_DOCS: Final = "https://platform.claude.com/docs/en"
READ_ON: Final = "2026-11-27"

SOURCES: Final[Mapping[str, str]] = {
    "A0": f"{_DOCS}/api/messages/create",
    "A1": f"{_DOCS}/agents-and-tools/tool-use/handle-tool-calls",
    "A2": f"{_DOCS}/agents-and-tools/tool-use/handle-tool-calls",
    "A3": "https://github.com/anthropics/claude-code/issues/13460",
    "A4": f"{_DOCS}/agents-and-tools/tool-use/server-tools",
    "A5": "https://github.com/langchain-ai/langchain/issues/37756",
    "A6": f"{_DOCS}/agents-and-tools/tool-use/define-tools",
    "A7": "https://github.com/anthropics/claude-code/issues/40075",
    "A8": f"{_DOCS}/agents-and-tools/tool-use/strict-tool-use",
    "A9": "https://github.com/anthropics/claude-code/issues/59812",
    "A10": f"{_DOCS}/build-with-claude/prefill-claudes-response",
    "A11": f"{_DOCS}/about-claude/models/whats-new-claude-4-6",
    "A12": f"{_DOCS}/api/messages/create",
    "A13": f"{_DOCS}/build-with-claude/mid-conversation-system-messages",
    "A14": f"{_DOCS}/api/versioning (2026-10-21)",
    "A15": f"{_DOCS}/build-with-claude/extended-thinking",
    "A16": f"{_DOCS}/build-with-claude/thinking",
    "A18": f"{_DOCS}/about-claude/models/whats-new-opus-5-5",
    "A19": f"{_DOCS}/build-with-claude/prompt-caching",
    "A20": f"{_DOCS}/agents-and-tools/tool-use/tool-search-tool",
    "A21": f"{_DOCS}/build-with-claude/vision",
    "A22": f"{_DOCS}/api/errors",
    "A23": f"{_DOCS}/build-with-claude/context-windows",
    "A24": f"{_DOCS}/build-with-claude/prompt-caching#pre-warming-the-cache",
    "A25": f"{_DOCS}/build-with-claude/compaction",
    "A26": f"{_DOCS}/build-with-claude/context-editing",
    "A27": f"{_DOCS}/build-with-claude/effort",
    "A28": "https://github.com/BerriAI/litellm/issues/3286",
    "A29": f"{_DOCS}/build-with-claude/compaction",
    "A30": f"{_DOCS}/build-with-claude/preserved-thinking",
    "A31": f"{_DOCS}/cli-sdks-libraries/sdks/python#long-requests",
    "A32": "https://github.com/anthropics/claude-code/issues/4668",
    "A33": "https://github.com/Dokploy/mcp/issues/74",
}
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

_Found: TypeAlias = tuple[str, str, str] | tuple[str, str, str, str]  # rule, where, message, level

_AVOID: Final = "avoid"
_LAST_SAMPLING: Final = date(2026, 10, 20)  # the API version of 2026-10-21 takes none
_VERSIONS: Final = ("2023-06-01", "2026-10-21")
_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_NULL_SAFE: Final = frozenset(
    ["model", "max_tokens", "messages", "betas", "extra_headers", "extra_query", "timeout"]
)
_FORCED: Final = ("any", "tool")
_MAX_WHOLE_TOKENS: Final = 21_333  # `_calculate_nonstreaming_timeout`, the anthropic package 2.14


class _Block(NamedTuple):
    where: str
    kind: str
    body: dict[str, Json]


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
        body = dict(as_object(payload))
        extra = as_object(body.pop("extra_body", None))
        self.body: dict[str, Json] = {**body, **extra}
        self.limits = limits
        headers = as_object(body.get("extra_headers"))
        default = _VERSIONS[today is None or today > _LAST_SAMPLING]
        self.version = as_text(headers.get("anthropic-version")) or default
        asked = [*as_text(headers.get("anthropic-beta")).split(","), *as_list(body.get("betas"))]
        self.betas = {name.strip() for name in map(as_text, asked)} - {""}
        self.config = as_object(self.body.get("output_config"))
        self.thinking = as_text(as_object(self.body.get("thinking")).get("type"))
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
        self.messages = list(enumerate(messages[self.first :], self.first))
        self.turns: list[_Turn] = []
        for index, message in self.messages:
            role = as_text(as_object(message).get("role"))
            if not self.turns or self.turns[-1].role != role:
                self.turns.append(_Turn(f"messages[{index}]", role, []))
            content = as_object(message).get("content")
            if isinstance(content, str):
                body = {"type": "text", "text": content}
                self.turns[-1].blocks.append(_Block(f"messages[{index}].content", "text", body))
            self.turns[-1].blocks.extend(_placed(content, f"messages[{index}].content"))
        self.blocks = [block for turn in self.turns for block in turn.blocks]
        self.all_blocks = list(_with_nested(self.blocks))
        self.system = _placed(self.body.get("system"), "system")

    def lacks(self, feature: str) -> bool:
        """Whether the model is known to lack the feature."""
        return self.limits is not None and self.limits.features.get(feature) is False


def _placed(entries: Json, where: str) -> list[_Block]:
    found = ((f"{where}[{at}]", as_object(entry)) for at, entry in enumerate(as_list(entries)))
    return [_Block(place, as_text(body.get("type")), body) for place, body in found]


def _with_nested(blocks: Iterable[_Block]) -> Iterator[_Block]:
    for block in blocks:
        yield block
        if block.kind in ("tool_result", "search_result"):
            yield from _with_nested(_placed(block.body.get("content"), f"{block.where}.content"))
        elif block.kind == "document":
            inner = as_object(block.body.get("source")).get("content")
            yield from _with_nested(_placed(inner, f"{block.where}.source.content"))


def check(
    payload: JsonObject,
    *,
    limits: ModelLimits | None = None,
    today: date | None = None,
    start: int = 0,
) -> list[Violation]:
    """Return the rules that a payload, or any other JSON, breaks, in the order of the rules.

    `refused` marks what the API answers with an error.

    Args:
        limits: The model's row; without it, rules that depend on the model are left out.
        today: Decides about the API version of a payload that names none; `None`: the newest.
        start: The first message that was not checked before; the messages alone are checked then.
    """
    sent = _Sent(payload, limits, today, start)
    return [
        Violation(
            rule=rule,
            level="avoid" if level else "refused",
            where=where,
            message=message,
            source=f"{SOURCES[rule]} (read {READ_ON})",
        )
        for rules in (_MESSAGE_RULES if start else (*_HEAD_RULES, *_MESSAGE_RULES))
        for rule, where, message, *level in rules(sent)
    ]


# ---- tools and parameters ----


def _shape(s: _Sent) -> Iterator[_Found]:
    if not as_text(s.body.get("model")):
        yield "A0", "model", "a model id is required"
    most = s.body.get("max_tokens")
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        yield "A0", "max_tokens", "a number of tokens is required"
    for name, value in s.body.items():
        if value is None and name not in _NULL_SAFE:
            yield "A0", name, "is sent as null; leave it out", _AVOID
    if not s.count:
        yield "A0", "messages", "at least one message is required"
    if s.count > 100_000:
        yield "A22", "messages", "at most 100,000 messages are taken"


def _tools(s: _Sent) -> Iterator[_Found]:
    names: set[str] = set()
    load = StrictLoad()
    for where, _, tool in s.tools:
        name, schema = as_text(tool.get("name")), tool.get("input_schema")
        yield from _definition(tool, where)
        if name and name in names:
            yield "A6", f"{where}.name", f"{name!r} is taken by another tool"
        names.add(name)
        if tool.get("strict") is True:
            load = load.plus(schema)
            if refusal := _refuse_strict(schema):
                yield "A8", f"{where}.input_schema", refusal
            elif not suits_strict(schema):
                message = "strict mode may not take its references, patterns or lengths of lists"
                yield "A8", f"{where}.input_schema", message, _AVOID
    if excess := load.excess():
        yield "A8", "tools", excess
    if s.tools and all(tool.get("defer_loading") is True for _, _, tool in s.tools):
        yield "A20", "tools", "at least one tool must not be deferred"


def _definition(tool: JsonObject, where: str) -> Iterator[_Found]:
    if "name" in tool and not NAME_RULE.pattern.fullmatch(as_text(tool["name"])):
        yield "A6", f"{where}.name", "must match [a-zA-Z0-9_-]{1,64}"
    place = f"{where}.input_schema"
    if "input_schema" not in tool:
        if tool.get("type") in (None, "custom"):
            yield "A7", place, "a schema is required"
        return
    schema = as_object(tool["input_schema"])
    if schema.get("type") != "object":
        yield "A7", f"{place}.type", "must be 'object'"
    for union in ROOT_UNIONS:
        if union in schema:
            yield "A7", f"{place}.{union}", "no union at the root of a schema"
    for one in walk_schemas(schema):
        if isinstance(one.get("items"), list):
            yield "A33", place, "in the draft of 2020, items by position are 'prefixItems'"
        for key in ("exclusiveMinimum", "exclusiveMaximum"):
            if isinstance(one.get(key), bool):
                yield "A33", place, f"in the draft of 2020, {key!r} is a number"
    for name in as_object(schema.get("properties")):
        if not PARAMETER_NAME.fullmatch(name):
            message = "a parameter's name must match [a-zA-Z0-9_.-]{1,64}"
            yield "A32", f"{place}.properties[{name[:60]!r}]", message


def _refuse_strict(schema: Json) -> str | None:
    """Return what of the schema strict mode is documented to refuse."""
    for found in walk_schemas(schema):
        if bound := next((name for name in STRICT_BOUNDS if name in found), None):
            return f"strict mode does not take {bound!r}"
        if found.get("type") == "object" and found.get("additionalProperties") is not False:
            return "strict mode needs additionalProperties: false in every object"
    return None


def _tool_choice(s: _Sent) -> Iterator[_Found]:
    choice = as_object(s.body.get("tool_choice"))
    name = as_text(choice.get("name"))
    if choice.get("type") not in _FORCED:
        return
    if not s.tools and not s.body.get("mcp_servers"):
        yield "A6", "tool_choice", "a call is forced, but no tool is offered"
    elif choice["type"] == "tool" and all(tool.get("name") != name for _, _, tool in s.tools):
        yield "A6", "tool_choice.name", f"tool {name!r} is not offered"
    if s.lacks("forced_tools"):
        yield "A18", "tool_choice", "the model takes no forced tool choice"
    if s.thinking == "enabled":
        yield "A18", "tool_choice", "no forced tool choice with a thinking budget"


def _sampling(s: _Sent) -> Iterator[_Found]:
    given = {
        name: s.body[name]
        for name in ("temperature", "top_p", "top_k")
        if s.body.get(name) is not None
    }
    if s.version >= _VERSIONS[1]:
        for name in given:
            yield "A14", name, f"not taken since API version {_VERSIONS[1]}"
        return
    heat = _number(given.get("temperature"))
    if heat is not None and not 0 <= heat <= MAX_TEMPERATURE:
        yield "A14", "temperature", "must be between 0 and 1"
    rule = s.limits.parameters if s.limits is not None else None
    for name, value in given.items():
        is_default = name != "top_k" and value == 1
        if rule is not None and rule.temperature == "never" and not is_default:
            yield "A14", name, "the model takes default sampling only"
        elif s.thinking == "enabled" and name != "top_p" and not is_default:
            yield "A14", name, "not taken while the model thinks"
    takes_both = rule is None or rule.accepts_top_p_with_temperature
    if {"temperature", "top_p"} <= given.keys() and not takes_both:
        yield "A14", "top_p", "not taken together with temperature", _AVOID


def _thinking(s: _Sent) -> Iterator[_Found]:
    if s.thinking == "enabled":
        where, most = "thinking.budget_tokens", _number(s.body.get("max_tokens"))
        budget = s.body["thinking"].get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            yield "A15", where, "must be at least 1,024"
        elif most is not None and budget >= most and not s.betas:
            yield "A15", where, "must be less than max_tokens"
    rule = s.limits.thinking if s.limits is not None else None
    if not s.thinking or rule is None or not rule.kinds:
        return
    is_highest = s.config.get("effort") in ("xhigh", "max")
    refused = {
        "enabled": "budget" not in rule.kinds,
        "adaptive": "adaptive" not in rule.kinds,
        "disabled": rule.disable in ("no", "between_tools")
        or (rule.disable == "effort_up_to_high" and is_highest),
        "between_tools": rule.disable != "between_tools" or is_highest,
    }
    if refused.get(s.thinking):
        yield "A15", "thinking.type", f"the model refuses {s.thinking!r}"


def _reply_settings(s: _Sent) -> Iterator[_Found]:
    limits, most = s.limits, _number(s.body.get("max_tokens"))
    longest = limits.output_tokens if limits is not None and not s.betas else None
    if longest is not None and most is not None and most > longest:
        yield "A23", "max_tokens", f"the model's most is {longest:,}"
    is_whole = not s.body.get("stream") and s.body.get("timeout") is None
    if is_whole and most is not None and most > _MAX_WHOLE_TOKENS:
        message = f"above {_MAX_WHOLE_TOKENS:,} messages.create needs stream or a timeout"
        yield "A31", "max_tokens", message, _AVOID
    effort = s.config.get("effort")
    levels = limits.thinking.levels if limits is not None else None
    if levels is not None and isinstance(effort, str) and effort not in levels:
        level = () if levels else (_AVOID,)
        yield "A27", "output_config.effort", f"not a level: {effort!r}", *level
    for at, stop in enumerate(as_list(s.body.get("stop_sequences"))):
        if not as_text(stop).strip():
            yield "A28", f"stop_sequences[{at}]", "must not be blank"
    if most == 0:
        for is_set, where in (
            (s.body.get("stream") is True, "stream"),
            (s.thinking == "enabled", "thinking"),
            (bool(s.config.get("format")), "output_config.format"),
            (as_object(s.body.get("tool_choice")).get("type") in _FORCED, "tool_choice"),
        ):
            if is_set:
                yield "A24", where, "not taken with max_tokens 0"


def _context_editing(s: _Sent) -> Iterator[_Found]:
    edits = _placed(
        as_object(s.body.get("context_management")).get("edits"), "context_management.edits"
    )
    compacts = s.body.get("compaction")
    if compacts and s.body.get("context_management"):
        yield "A25", "compaction", "not taken together with context_management"
    budget = as_object(s.config.get("task_budget")).get("remaining")
    if budget is not None and (compacts or any(e.kind.startswith("compact_") for e in edits)):
        yield "A25", "output_config.task_budget.remaining", "not taken together with compaction"
    for edit in edits[1:]:
        if edit.kind.startswith("clear_thinking"):
            yield "A26", edit.where, "clear_thinking comes first"


def _number(value: Json) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


# ---- messages ----


def _message_shape(s: _Sent) -> Iterator[_Found]:
    for at, message in s.messages:
        fields, where = as_object(message), f"messages[{at}]"
        role, content = fields.get("role"), fields.get("content")
        if role not in ("user", "assistant", "system"):
            yield "A0", f"{where}.role", "must be user, assistant or system"
        if not isinstance(content, str | list | tuple):
            yield "A0", f"{where}.content", "must be text or a list of blocks"
        elif not content and not (role == "assistant" and at == s.count - 1):
            yield "A9", f"{where}.content", "must not be empty, except in a last reply"
    for block in s.blocks:
        if not block.kind:
            yield "A0", block.where, "must be an object with a type"


def _order(s: _Sent) -> Iterator[_Found]:
    first, last = (s.turns[0], s.turns[-1]) if s.turns else (None, None)
    if first is None or last is None:
        return
    is_compacted = any(block.kind == "compaction" for block in first.blocks)
    if first.role == "assistant" and not s.first and not is_compacted:
        yield "A12", first.where, "the user should speak first", _AVOID
    if last.role != "assistant":
        return
    if s.lacks("prefill") and not _waits_for_server(last):
        yield "A11", last.where, "the model continues no assistant message"
    text = as_text(last.blocks[-1].body.get("text")) if last.blocks else ""
    if text != text.rstrip() and last.blocks[-1].kind == "text":
        yield "A10", last.blocks[-1].where, "the final text must not end in whitespace"
    on_demand = s.limits is not None and "budget" in s.limits.thinking.kinds
    if s.thinking == "disabled" or (not s.thinking and on_demand):
        for block in last.blocks:
            if block.kind in THINKING_TYPES:
                yield "A16", block.where, "no thinking in a last reply while thinking is off"


def _waits_for_server(turn: _Turn) -> bool:
    """Whether a server tool's result is outstanding: such a turn is sent back as it is."""
    asked = {as_text(b.body.get("id")) for b in turn.blocks if b.kind in _SERVER_CALLS}
    return bool(asked - {as_text(b.body.get("tool_use_id")) for b in turn.blocks})


def _is_server_result(block: _Block) -> bool:
    return block.kind.endswith("_tool_result") and bool(as_text(block.body.get("tool_use_id")))


def _system_turns(s: _Sent) -> Iterator[_Found]:
    for at, turn in enumerate(s.turns):
        if turn.role != "system":
            continue
        before = s.turns[at - 1] if at else None
        if before is None and not s.first:
            yield "A13", turn.where, "a system message must not come first"
        elif (
            before is not None
            and before.role == "assistant"
            and not (before.blocks and _is_server_result(before.blocks[-1]))
        ):
            yield "A13", turn.where, "must not stand right after an assistant message"
        if at + 1 < len(s.turns) and s.turns[at + 1].role == "user":
            yield "A13", turn.where, "must not stand right before a user message"
        if s.lacks("mid_conversation_system"):
            message = "the model is not documented to take system messages here"
            yield "A13", turn.where, message, _AVOID


def _pairs(s: _Sent) -> Iterator[_Found]:
    calls: dict[str, _Block] = {}
    for at, turn in enumerate(s.turns):
        answered: set[str] = set()
        is_past_results = False
        for block in turn.blocks:
            if block.kind != "tool_result":
                is_past_results = True
                continue
            call_id = as_text(block.body.get("tool_use_id"))
            if turn.role != "user":
                yield "A3", block.where, "a tool result belongs into a user message"
            elif call_id not in calls and (at or not s.first):
                yield "A3", block.where, f"there is no call {call_id!r} in the message before"
            elif call_id in answered:
                yield "A3", block.where, f"call {call_id!r} is answered twice"
            if turn.role == "user" and is_past_results:
                yield "A2", block.where, "tool results come first in their message"
            answered.add(call_id)
        yield from _unanswered(calls, answered)
        own = (block for block in turn.blocks if block.kind == "tool_use")
        calls = {as_text(block.body.get("id")): block for block in own}
        if at < len(s.turns) - 1 and turn.role != "assistant":
            calls = {}
    yield from _unanswered(calls, set())


def _unanswered(calls: dict[str, _Block], answered: set[str]) -> Iterator[_Found]:
    for call_id, block in calls.items():
        if call_id not in answered:
            yield "A1", block.where, f"call {call_id!r} is not answered in the next message"


def _server_tools(s: _Sent) -> Iterator[_Found]:
    seen: set[str] = set()
    for block in s.blocks:
        if block.kind in _SERVER_CALLS:
            call_id = as_text(block.body.get("id"))
            if block.kind == "server_tool_use" and not SERVER_ID.fullmatch(call_id):
                yield "A5", f"{block.where}.id", "a server tool's id begins with srvtoolu_"
            seen.add(call_id)
        elif _is_server_result(block) and block.body["tool_use_id"] not in seen:
            yield "A4", block.where, "its server_tool_use does not stand before it"
    for before, turn in pairwise(s.turns):
        if before.role == "assistant" and turn.role == "user" and _waits_for_server(before):
            for block in turn.blocks:
                if block.kind != "tool_result":
                    yield "A4", block.where, "a server tool is pending: only results are taken"


def _calls(s: _Sent) -> Iterator[_Found]:
    seen: set[str] = set()
    for turn in s.turns:
        own: set[str] = set()
        for where, kind, body in turn.blocks:
            if kind != "tool_use":
                continue
            call_id, name = as_text(body.get("id")), as_text(body.get("name"))
            if turn.role != "assistant":
                yield "A0", where, "only the assistant calls tools"
            if not re.fullmatch(r"[a-zA-Z0-9_-]+", call_id):
                yield "A5", f"{where}.id", "only letters, digits, _ and - are taken"
            if call_id in own:
                yield "A5", f"{where}.id", "is used twice in one message"
            elif call_id in seen:
                yield "A5", f"{where}.id", "is used before", _AVOID
            # https://github.com/anthropics/claude-code/issues/2673 (read 2026-11-28)
            if len(name) > 200:
                yield "A6", f"{where}.name", f"has {len(name)} characters, 200 are taken"
            elif not NAME_RULE.pattern.fullmatch(name):
                message = "must match [a-zA-Z0-9_-]{1,64}, as the names of tools do"
                yield "A6", f"{where}.name", message, _AVOID
            if not isinstance(body.get("input"), dict):
                yield "A0", f"{where}.input", "must be an object"
            own.add(call_id)
        seen |= own


def _contents(s: _Sent) -> Iterator[_Found]:
    for where, kind, body in (*s.system, *s.all_blocks):
        text = body.get("text")
        if kind == "text" and not (where.endswith(".content") and text == ""):
            if not isinstance(text, str):
                yield "A0", where, "a text block holds text"
            elif not text.strip():
                yield "A9", where, "text must not be blank"
    for turn in s.turns:
        for where, kind, body in turn.blocks:
            if kind in THINKING_TYPES:
                proof = "signature" if kind == "thinking" else "data"
                if not as_text(body.get(proof)):
                    yield "A16", where, f"thinking without {proof} is invalid"
                if turn.role != "assistant":
                    yield "A16", where, "only the assistant thinks"
            if s.version >= _VERSIONS[1]:
                if turn.role == "assistant" and kind == "document":
                    yield "A14", where, "no documents in an assistant message"
                if turn.role == "user" and kind == "text" and body.get("citations"):
                    yield "A14", where, "no citations in a user's text"
            if kind == "compaction":
                if turn.role != "assistant":
                    yield "A29", where, "only the assistant compacts"
                if body.get("content") == "":
                    yield "A29", f"{where}.content", "a summary must not be empty"


def _loop(s: _Sent) -> Iterator[_Found]:
    """With a budget, the reply that opened the tool loop in flight begins with thinking."""
    opening: _Turn | None = None
    for turn in s.turns if s.thinking == "enabled" and not s.first else ():
        if turn.role == "assistant":
            opening = opening or turn
        elif any(block.kind != "tool_result" for block in turn.blocks):
            opening = None
    if opening is not None and any(block.kind == "tool_use" for block in opening.blocks):
        first = next(block for block in opening.blocks if block.kind != "compaction")
        if first.kind not in THINKING_TYPES:
            yield "A15", first.where, "must begin with a thinking block"


def _signed_compactions(s: _Sent) -> Iterator[_Found]:
    signed = [b for b in s.blocks if b.kind == "compaction" and b.body.get("signature")]
    for block in signed[1:]:
        yield "A29", block.where, "there is one signed compaction at most"
    if signed and (s.first or s.blocks[0] is not signed[0]):
        yield "A29", signed[0].where, "a signed compaction stands before everything else"


def _references(s: _Sent) -> Iterator[_Found]:
    offered = {as_text(tool.get("name")) for _, _, tool in s.tools}
    is_open = s.body.get("mcp_servers") or any(t.kind.startswith("mcp") for t in s.tools)
    for where, kind, body in s.blocks:
        change = as_object(body.get("tool"))
        definition = as_object(change.get("definition"))
        if kind == "tool_addition" and definition:
            yield from _definition(definition, f"{where}.tool.definition")
            offered.add(as_text(definition.get("name")))
        elif (kind in CHANGE_TYPES or kind == "tool_result") and not is_open and not s.first:
            for found in (*_objects(body.get("content")), change):
                name = as_text(found.get("tool_name") or found.get("name"))
                if found.get("type") == "tool_reference" and name not in offered:
                    yield "A20", where, f"tool {name!r} is not declared"


def _objects(value: Json) -> Iterator[JsonObject]:
    waiting: list[Json] = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, Mapping):
            yield current
            waiting.extend(current.values())
        else:
            waiting.extend(as_list(current))


def _images(s: _Sent) -> Iterator[_Found]:
    images = [block for block in s.all_blocks if block.kind == "image"]
    if not images:
        return
    rules = media_rules(s.limits)
    most = rules.max_images or 0
    if len(images) > most:
        yield "A21", images[most].where, f"at most {most} images are taken"
    most_px = CROWD_SIDE_PX if len(images) > CROWD_IMAGES else rules.max_side_px or 0
    when = f" if there are more than {CROWD_IMAGES}" if len(images) > CROWD_IMAGES else ""
    for block in images:
        if s.lacks("vision"):
            yield "A21", block.where, "the model takes no images"
        source, where = as_object(block.body.get("source")), f"{block.where}.source"
        if source.get("type") == "url":
            yield from _address(source, "A21", where)
        elif source.get("type") not in ("base64", "file"):
            yield "A21", where, "must be base64, url or file"
        if source.get("type") != "base64":
            continue
        data = as_text(source.get("data"))
        if source.get("media_type") not in rules.image_types:
            yield "A21", f"{where}.media_type", "must be JPEG, PNG, GIF or WebP"
        if objection := _objection(source):
            yield "A21", f"{where}.data", objection
        if len(data) > (rules.max_image_chars or 0):
            message = f"an image has at most {(rules.max_image_chars or 0) >> 20} MB"
            yield "A21", f"{where}.data", message
        if max(measure_base64(data) or (0,)) > most_px:
            yield "A21", f"{where}.data", f"an image has at most {most_px:,} pixels a side{when}"


def _documents(s: _Sent) -> Iterator[_Found]:
    most, total = media_rules(s.limits).max_pdf_pages or 0, 0
    for block in s.all_blocks:
        source, where = as_object(block.body.get("source")), f"{block.where}.source"
        if block.kind != "document":
            continue
        if source.get("type") == "url":
            yield from _address(source, "A22", where)
        if source.get("type") != "base64":
            continue
        if source.get("media_type") != "application/pdf":
            yield "A22", f"{where}.media_type", "must be application/pdf"
            continue
        if objection := _objection(source):
            yield "A22", f"{where}.data", objection
        pages, is_locked = pdf_facts(as_text(source.get("data")))
        total += pages or 0
        if is_locked:
            yield "A22", f"{where}.data", "an encrypted PDF is not taken"
        if (pages or 0) > most:
            yield "A22", f"{where}.data", f"a PDF has at most {most} pages"
        elif total > most:
            message = f"the PDFs of a request have at most {most} pages together"
            yield "A22", f"{where}.data", message, _AVOID
    if not s.first and _count_chars(s.body) > MAX_REQUEST_CHARS:
        yield "A22", "messages", "a request has at most 32 MB"


def _objection(source: JsonObject) -> str | None:
    # https://github.com/BerriAI/litellm/issues/24900: an image of another type than it says
    # https://github.com/anthropics/claude-code/issues/5174: "The PDF specified was not valid."
    data = as_text(source.get("data"))
    objection = objection_to_bytes(as_text(source.get("media_type")), data)
    if not data or objection == "its bytes are no base64":
        return "must be base64 without a data: prefix"
    return objection


def _address(source: JsonObject, rule: str, where: str) -> Iterator[_Found]:
    url = as_text(source.get("url"))
    scheme = scheme_of(url)
    if not url.strip():
        yield rule, f"{where}.url", "a URL is required"
    elif scheme == "data":
        yield rule, f"{where}.url", "bytes are sent as base64, not as a data: URL"
    elif scheme not in WEB_SCHEMES:
        message = f"cannot be fetched: {scheme or 'no'} scheme, only https"
        yield rule, f"{where}.url", message


def _count_chars(value: Json) -> int:
    total, waiting = 0, [value]
    while waiting:
        held = waiting.pop()
        if isinstance(held, str):
            total += len(held)
        elif isinstance(held, Mapping):
            waiting.extend(held.values())
        else:
            waiting.extend(peek(held))
    return total


def _cache_marks(s: _Sent) -> Iterator[_Found]:
    marked = [
        block
        for block in (*s.tools, *s.system, *s.all_blocks)
        if isinstance(block.body.get("cache_control"), Mapping)
    ]
    automatic = s.body.get("cache_control")
    marks = [(block.where, block.body["cache_control"]) for block in marked]
    if isinstance(automatic, Mapping):
        marks.append(("cache_control", automatic))
    if len(marks) > 4:
        yield "A19", marks[4][0], f"{len(marks)} breakpoints, at most 4 are taken"
    is_short = False
    for where, mark in marks:
        if _ttl(mark) == "1h" and is_short:
            yield "A19", where, "1h breakpoints stand before 5m ones"
        is_short = is_short or _ttl(mark) != "1h"
    for where, kind, body in marked:
        if kind in THINKING_TYPES:
            yield "A19", where, "no breakpoint on thinking"
        if kind == "text" and not as_text(body.get("text")):
            yield "A19", where, "no breakpoint on empty text"
        if body.get("defer_loading") is True:
            yield "A19", where, "no breakpoint on a deferred tool"
    last = s.turns[-1].blocks[-1] if s.turns and s.turns[-1].blocks else None
    own = last.body.get("cache_control") if last is not None else None
    if last is not None and own and isinstance(automatic, Mapping) and _ttl(own) != _ttl(automatic):
        yield "A19", last.where, "differs in ttl from the automatic breakpoint"


def _ttl(mark: Json) -> str:
    return as_text(as_object(mark).get("ttl")) or "5m"


def _betas(s: _Sent) -> Iterator[_Found]:
    features = {f"parameter {name}" for name, value in s.body.items() if value is not None}
    for outer in ("thinking", "output_config", "container"):
        inner = as_object(s.body.get(outer))
        features |= {f"{outer} {name}" for name, value in inner.items() if value is not None}
    edits = as_object(s.body.get("context_management")).get("edits")
    features |= {f"edit {edit.kind}" for edit in _placed(edits, "")}
    features |= {f"tool {tool.kind}" for tool in s.tools}
    for _, message in s.messages:
        fields = as_object(message)
        if fields.get("role") == "system":
            features |= {f"message {name}" for name, value in fields.items() if value is not None}
        features |= set(features_of_blocks(fields.get("content")))
    for beta in betas_for(features):
        if beta not in s.betas:
            message = f"the beta {beta} is not asked for"
            yield "A30", "extra_headers.anthropic-beta", message, _AVOID


_Rules: TypeAlias = Callable[[_Sent], Iterable[Any]]
_HEAD_RULES: Final[tuple[_Rules, ...]] = (
    _shape,
    _tools,
    _tool_choice,
    _sampling,
    _thinking,
    _reply_settings,
    _context_editing,
)
_MESSAGE_RULES: Final[tuple[_Rules, ...]] = (
    _message_shape,
    _order,
    _system_turns,
    _pairs,
    _server_tools,
    _calls,
    _contents,
    _loop,
    _signed_compactions,
    _references,
    _images,
    _documents,
    _cache_marks,
    _betas,
)
