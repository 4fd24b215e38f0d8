"""The rules of the Messages API: what it refuses."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.events import Json, JsonObject, is_plain
from context_assembler.models import ModelLimits
from context_assembler.providers import anthropic, wire
from context_assembler.providers.anthropic import THINKING_TYPES
from context_assembler.providers.schemas import ROOT_UNIONS, walk_schemas
from context_assembler.providers.wire import as_list, as_object, as_text, peek
from context_assembler.report import Violation

_DOCS: Final = "https://platform.claude.com/docs/en"
_BUILD: Final = f"{_DOCS}/build-with-claude"
_TOOLS: Final = f"{_DOCS}/agents-and-tools/tool-use"
_GITHUB: Final = "https://github.com"
_CODE: Final = f"{_GITHUB}/anthropics/claude-code/issues"

SOURCES: Final = wire.sources_of(f"""
A0: {_DOCS}/api/messages/create | A1 A2: {_TOOLS}/handle-tool-calls | A3: {_CODE}/13460 |
A4: {_TOOLS}/server-tools | A5: {_GITHUB}/langchain-ai/langchain/issues/37756 |
A6: {_TOOLS}/define-tools | A7: {_CODE}/40075 | A8: {_TOOLS}/strict-tool-use | A9: {_CODE}/59812 |
A10: {_BUILD}/prefill-claudes-response | A11: {_DOCS}/about-claude/models/whats-new-claude-4-6 |
A13: {_BUILD}/mid-conversation-system-messages | A14: {_DOCS}/api/versioning (2026-10-21) |
A15: {_BUILD}/extended-thinking | A16: {_BUILD}/thinking | A19: {_BUILD}/prompt-caching |
A18: {_DOCS}/about-claude/models/whats-new-opus-5-5 | A20: {_TOOLS}/tool-search-tool |
A21: {_BUILD}/vision; {_GITHUB}/BerriAI/litellm/issues/24900 | A23: {_BUILD}/context-windows |
A22: {_DOCS}/api/errors; {_CODE}/5174 | A27: {_BUILD}/effort | A29: {_BUILD}/compaction |
A28: {_GITHUB}/BerriAI/litellm/issues/3286 | A32: {_CODE}/4668 |
A12: {_DOCS}/api/messages/create | A24: {_BUILD}/prompt-caching | A25: {_BUILD}/compaction |
A26: {_BUILD}/context-editing | A33: {_GITHUB}/Dokploy/mcp/issues/74 |
A34: {_TOOLS}/programmatic-tool-calling | A35: {_CODE}/473 |
A36: {_BUILD}/compaction-threshold | A37: {_BUILD}/compaction-on-demand; {_BUILD}/context-editing
""")
"""Rule → where it is written."""

# Whether it is broken, the rule, where, what is wrong.
Row: TypeAlias = tuple[Any, str, str, str]
_NO_SAMPLING: Final = "2026-10-21"  # the API version since which none is taken
_PAIRED: Final = ("tool_use", "tool_result")
_SERVER_CALLS: Final = ("server_tool_use", "mcp_tool_use")
_ROLES: Final = ("user", "assistant", "system")
_OF_OTHERS: Final = {"name", "tool_calls", "tool_call_id", "reasoning_content", "refusal"}
_TYPES_OF_OTHERS: Final = (
    "input_text output_text image_url input_image input_file input_audio refusal tool_call "
    "function_call toolCall"
).split()
_EITHER: Final = re.compile(r"claude-\w+-4-[5-9].*")  # takes temperature or top_p
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")


class _Block(NamedTuple):
    """A block or a tool; `role` is that of its message, empty inside another block."""

    holder: str
    at: int  # -1 if the holder is text
    kind: str
    body: dict[str, Json]
    role: str = ""

    @property
    def where(self) -> str:
        return self.holder if self.at < 0 else f"{self.holder}[{self.at}]"

    def text(self, key: str) -> str:
        return as_text(self.body.get(key))


class _Turn(NamedTuple):
    """Neighbouring messages of one role, which the API reads as one."""

    where: str = ""
    role: str = ""
    blocks: Sequence[_Block] = ()

    @property
    def waits(self) -> bool:
        """Whether a server tool's result is outstanding: such a turn is sent back as it is."""
        asked = {block.text("id") for block in self.blocks if block.kind in _SERVER_CALLS}
        return bool(asked - {block.text("tool_use_id") for block in self.blocks if asked})


class _Sent:
    """A payload as the API sees it: `extra_body` merged in, messages joined to turns.

    `unusual` are the blocks, with those inside them, that are more than plain text, a call or a
    result: most rules are about these alone.
    """

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
        managed = as_object(self.body.get("context_management"))
        self.edits = wire.objects_in(managed.get("edits")) if managed else []
        compacts = (e for e in self.edits if as_text(e.get("type")).startswith("compact_"))
        self.threshold = next(compacts, dict[str, Json]())
        self.thinks = as_text(as_object(self.body.get("thinking")).get("type"))
        self.tools = _blocks_of(self.body.get("tools"), "tools")
        self.system = _blocks_of(self.body.get("system"), "system")
        messages = peek(self.body.get("messages"))
        self.count, self.first = len(messages), start
        replies = 0  # new messages belong to the calls before them, at most two replies back
        while self.first > 0 and replies < 2:
            self.first -= 1
            role = as_object(messages[self.first]).get("role")
            before = as_object(messages[self.first - 1]).get("role") if self.first else None
            replies += role == "assistant" != before
        self.earlier = messages[: self.first]
        self.messages = list(enumerate(map(as_object, messages[self.first :]), self.first))
        self.turns: list[_Turn] = []
        self.unusual: list[_Block] = []
        blocks: list[_Block] = []
        for index, message in self.messages:
            role, where = as_text(message.get("role")), f"messages[{index}].content"
            if not self.turns or self.turns[-1].role != role:
                blocks = []
                self.turns.append(_Turn(f"messages[{index}]", role, blocks))
            found = _blocks_of(message.get("content"), where, role)
            blocks += found
            self._note_unusual(found)

    def _note_unusual(self, blocks: list[_Block]) -> None:
        for block in blocks:
            kind, body = block.kind, block.body
            if kind == "text" and len(body) == 2 and is_plain(block.text("text")):
                continue
            if kind not in _PAIRED or "cache_control" in body:
                self.unusual.append(block)
            if kind != "tool_use" and (inner := anthropic.content_of(body)):
                self._note_unusual(_blocks_of(inner, f"{block.where}.content"))

    def asks(self, call_id: str) -> bool:
        """Whether an earlier message, which was checked before, holds the call."""
        holders = map(as_object, self.earlier)
        blocks = (block for one in holders for block in wire.objects_in(one.get("content")))
        return any(block.get("id") == call_id for block in blocks)

    def lacks(self, feature: str) -> bool:
        """Whether the model is known to lack the feature."""
        return self.limits is not None and self.limits.features.get(feature) is False


def _blocks_of(entries: Json, holder: str, role: str = "") -> list[_Block]:
    if isinstance(entries, str):  # stands for a block of text
        block = _Block(holder, -1, "text", {"type": "text", "text": entries}, role)
        return [block] if entries else []
    listed = map(as_object, entries if entries.__class__ is list else peek(entries))
    return [_Block(holder, at, as_text(b.get("type")), b, role) for at, b in enumerate(listed)]


def check(
    payload: JsonObject, limits: ModelLimits | None, today: date | None, start: int
) -> list[Violation]:
    """Return the rules that are broken, in their order; `today` decides about the API's version."""
    sent = _Sent(payload, limits, today, start)
    rules = _MESSAGE_RULES if start else (*_HEAD_RULES, *_MESSAGE_RULES)
    return wire.violations((row[1:] for rows in rules for row in rows(sent) if row[0]), SOURCES)


# ---- parameters and tools ----


def _settings(s: _Sent) -> Iterator[Row]:
    body, most = s.body, s.most
    longest = (s.limits.output_tokens if s.limits is not None and not s.betas else None) or inf
    yield not as_text(body.get("model")), "A0", "model", "a model id is required"
    yield not most >= 0, "A0", "max_tokens", "a number of tokens is required"
    yield most % 1 > 0, "A0", "max_tokens", "must be a whole number"
    asked = as_object(body.get("output_config")).get("format")
    forces = as_object(body.get("tool_choice")).get("type") in ("any", "tool")
    excluded = ("output_config.format", asked), ("tool_choice", forces)
    if most == 0:
        thinks = s.thinks in ("enabled", "adaptive", "between_tools")
        for name, given in (*excluded, ("stream", body.get("stream")), ("thinking", thinks)):
            yield given, "A24", name, "is not taken with max_tokens 0"
    kinds, where = [as_text(one.get("type")) for one in s.edits], "context_management.edits"
    used = {f"edit {kind}" for kind in kinds}
    if body.get("compaction"):
        used.add("edit on demand")
        others = ((name, body.get(name)) for name in ("context_management", "stop_sequences"))
        for name, given in (*excluded, *others):
            yield given, "A25", name, "is not taken next to a compaction on demand"
    is_late = any(kind.startswith("clear_thinking") for kind in kinds[1:])
    yield is_late, "A26", where, "clear_thinking must come first"
    is_low = wire.as_number(as_object(s.threshold.get("trigger")).get("value")) < 50_000
    yield is_low, "A36", where, "a compaction starts at 50,000 tokens or more"
    for beta in anthropic.betas_for(used):
        yield beta not in s.betas, "A37", "extra_headers", f"the beta {beta} is missing"
    yield not s.count, "A0", "messages", "one is required"
    yield most > longest, "A23", "max_tokens", f"the model's most is {longest:,}"
    for at, stop in enumerate(as_list(body.get("stop_sequences"))):
        yield not as_text(stop).strip(), "A28", f"stop_sequences[{at}]", "must not be blank"


def _thinking(s: _Sent) -> Iterator[Row]:
    budget = wire.as_number(as_object(s.body.get("thinking")).get("budget_tokens"))
    level, where = as_object(s.body.get("output_config")).get("effort"), "thinking.budget_tokens"
    if s.thinks == "enabled":
        yield not budget >= 1024, "A15", where, "must be at least 1,024"
        yield budget >= s.most and not s.betas, "A15", where, "must be less than max_tokens"
        is_odd = not anthropic.opens_with_thinking([message for _, message in s.messages])
        yield is_odd, "A15", "messages", "the calls in flight must begin with a thinking block"
    if s.limits is None:
        return
    rule, off, is_highest = s.limits.thinking, s.limits.thinking.disable, level in ("xhigh", "max")
    refused = {
        "enabled": "budget" not in rule.kinds,
        "adaptive": "adaptive" not in rule.kinds,
        "disabled": off in ("no", "between_tools") or (off == "effort_up_to_high" and is_highest),
        "between_tools": off != "between_tools" or is_highest,
    }
    is_odd = bool(rule.kinds) and refused.get(s.thinks, bool(s.thinks))
    yield is_odd, "A15", "thinking.type", f"the model refuses {s.thinks!r}"
    is_odd = isinstance(level, str) and level not in rule.levels
    is_odd = is_odd and (bool(rule.levels) or s.limits.provider == "anthropic")
    yield is_odd, "A27", "output_config.effort", f"not a level: {level!r}"


def _sampling(s: _Sent) -> Iterator[Row]:
    rule, given = s.limits, 0
    for name, most in (("temperature", anthropic.MAX_TEMPERATURE), ("top_p", 1), ("top_k", inf)):
        if s.body.get(name) is None:
            continue
        value, given = wire.as_number(s.body[name]), given + (name != "top_k")
        is_default = s.is_newest or (value == 1 and name != "top_k")
        is_fixed = rule is not None and rule.parameters.temperature == "never"
        has_budget = s.thinks == "enabled" and name != "top_p"
        is_odd = not s.is_newest and (not 0 <= value <= most or (name == "top_k" and value % 1 > 0))
        yield s.is_newest, "A14", name, f"not taken since API version {_NO_SAMPLING}"
        yield is_fixed and not is_default, "A14", name, "the model takes default sampling only"
        yield has_budget and not is_default, "A14", name, "not taken while the model thinks"
        yield is_odd, "A14", name, "must be a number" + f" between 0 and {most:g}" * (most < inf)
    top_p = wire.as_number(s.body.get("top_p") or 1)
    is_odd = not s.is_newest and s.thinks == "enabled" and 0 <= top_p < 0.95
    yield is_odd, "A14", "top_p", "must be between 0.95 and 1 while the model thinks"
    is_either = rule is not None and _EITHER.fullmatch(rule.id) and not s.is_newest
    yield is_either and given > 1, "A14", "top_p", "is not taken next to temperature"


def _tools(s: _Sent) -> Iterator[Row]:
    names, strict = set[str](), list[Json]()
    for tool in s.tools:
        where, name, schema = tool.where, tool.text("name"), tool.body.get("input_schema")
        yield from _definition(tool.body, where)
        yield name in names, "A6", f"{where}.name", f"{name!r} is taken by another tool"
        names |= {name} - {""}
        if tool.body.get("strict") is True:
            strict.append(schema)
            is_odd = not anthropic.suits_strict(schema, anthropic.BOUNDS)
            yield is_odd, "A8", f"{where}.input_schema", "has what strict mode does not take"
    is_hidden = s.tools and all(tool.body.get("defer_loading") is True for tool in s.tools)
    yield is_hidden, "A20", "tools", "at least one tool must not be deferred"
    yield (excess := anthropic.strict_excess(strict)), "A8", "tools", str(excess)
    choice, where = as_object(s.body.get("tool_choice")), "tool_choice"
    kind, wanted = choice.get("type"), choice.get("name")
    offers, forces = names or s.body.get("mcp_servers"), kind in ("any", "tool")
    is_odd = bool(choice) and kind not in ("auto", "any", "tool", "none")
    yield is_odd, "A6", f"{where}.type", "must be auto, any, tool or none"
    is_lost = kind == "tool" and as_text(wanted) not in names
    has_budget = forces and s.thinks == "enabled"
    yield forces and not offers, "A6", where, "a call is forced, but no tool is offered"
    yield is_lost and offers, "A6", f"{where}.name", f"tool {wanted!r} is not offered"
    yield forces and s.lacks("forced_tools"), "A18", where, "the model takes no forced tool choice"
    yield has_budget, "A18", where, "no forced tool choice with a thinking budget"


def _definition(tool: JsonObject, where: str) -> Iterator[Row]:
    schema, takes = as_object(tool.get("input_schema")), anthropic.NAME_RULE.pattern.fullmatch
    is_odd = "name" in tool and not takes(as_text(tool["name"]))
    yield is_odd, "A6", f"{where}.name", "must match [a-zA-Z0-9_-]{1,64}"
    is_odd, has_one = tool.get("type") in (None, "custom"), "input_schema" in tool
    where = f"{where}.input_schema"
    yield is_odd and not has_one, "A7", where, "a schema is required"
    yield has_one and schema.get("type") != "object", "A7", f"{where}.type", "must be 'object'"
    for union in ROOT_UNIONS:
        yield union in schema, "A7", f"{where}.{union}", "no union at the root of a schema"
    for one in walk_schemas(schema):
        bounds = one.get("exclusiveMinimum"), one.get("exclusiveMaximum")
        is_odd = any(isinstance(bound, bool) for bound in bounds)
        yield is_odd, "A33", where, "exclusive bounds are numbers, as in the draft of 2020"
        is_odd = isinstance(one.get("items"), list)
        yield is_odd, "A33", where, "items by position are 'prefixItems', as in the draft of 2020"
    for name in as_object(schema.get("properties")):
        is_odd = not anthropic.PARAMETER_NAME.fullmatch(name)
        yield is_odd, "A32", f"{where}.properties[{name[:60]!r}]", "must match [a-zA-Z0-9_.-]{1,64}"


# ---- messages ----


def _order(s: _Sent) -> Iterator[Row]:
    for block in s.turns[0].blocks[:1] if s.turns and not s.first else ():
        is_odd = block.role == "assistant" and block.kind != "compaction"
        yield is_odd, "A12?", "messages[0]", "the first message should be the user's"
    for at, message in s.messages:
        role, content, where = message.get("role"), message.get("content"), f"messages[{at}]"
        for name in _OF_OTHERS & message.keys():
            yield True, "A0", f"{where}.{name}", "is not a field of a message"
        if content and isinstance(content, str | list | tuple) and role in _ROLES:
            continue
        is_text = isinstance(content, str | list | tuple)
        is_empty = is_text and not content and (role != "assistant" or at < s.count - 1)
        yield role not in _ROLES, "A0", f"{where}.role", f"must be one of {', '.join(_ROLES)}"
        yield not is_text, "A0", f"{where}.content", "must be text or a list of blocks"
        yield is_empty, "A9", f"{where}.content", "must not be empty, except in a last reply"
    before = _Turn()
    for turn in s.turns:
        where, role, follows = turn.where, turn.role, before.role
        is_odd = role == "system" and not follows and not s.first
        yield is_odd, "A13", where, "a system message must not come first"
        if role == "system":
            is_odd = follows == "assistant" and not any(map(_is_answer, before.blocks[-1:]))
            yield is_odd, "A13", where, "must not stand right after an assistant message"
        elif role == "user" and follows == "system":
            yield True, "A13", before.where, "must not stand right before a user message"
        elif role == "user" and before.waits:
            for block in (block for block in turn.blocks if block.kind != "tool_result"):
                yield True, "A4", block.where, "a server tool is pending: only results are taken"
        before = turn
    if before.role == "assistant":
        yield s.lacks("prefill") and not before.waits, "A11", before.where, "must not be last"
        for block in before.blocks[-1:]:
            is_odd = block.kind == "text" and block.text("text")[-1:].isspace()
            yield is_odd, "A10", block.where, "the final text must not end in whitespace"
        on_demand = s.limits is not None and "budget" in s.limits.thinking.kinds
        is_idle = s.thinks == "disabled" or (not s.thinks and on_demand)
        for block in (b for b in before.blocks if is_idle and b.kind in THINKING_TYPES):
            yield True, "A16", block.where, "no thinking in a last reply while thinking is off"


def _is_answer(block: _Block) -> bool:
    return block.kind.endswith("_tool_result") and bool(block.text("tool_use_id"))


def _calls(s: _Sent) -> Iterator[Row]:
    """Calls are answered once, in the very next user message, results first."""
    server_calls: set[str] = set()
    calls: dict[str, _Block] = {}
    for at, turn in enumerate([*s.turns, _Turn()]):
        answered, own = set[str](), dict[str, _Block]()
        is_user, is_late = turn.role == "user", False
        is_signed = any(block.kind in THINKING_TYPES for block in turn.blocks)
        for block in turn.blocks:
            kind, body = block.kind, block.body
            if kind == "tool_result":
                call_id = as_text(body.get("tool_use_id"))
                if is_late or not is_user or call_id not in calls or call_id in answered:
                    where, told = block.where, f"call {call_id!r}"
                    is_lost = is_user and call_id not in calls and (at or not s.first)
                    is_again = is_user and call_id in answered and not is_lost
                    yield not is_user, "A3", where, "a tool result belongs into a user message"
                    yield is_lost, "A3", where, f"there is no {told} in the message before"
                    yield is_again, "A3", where, f"{told} is answered twice"
                    yield is_late and is_user, "A2", where, "results come first in their message"
                answered.add(call_id)
                continue
            is_odd = kind == "text" and bool(own) and turn.role == "assistant" and not is_signed
            yield is_odd, "A35?", block.where, "text stands in front of the calls of its turn"
            is_late = True
            if kind == "tool_use":
                call_id = as_text(body.get("id"))
                yield from _call(block, is_twice=call_id in own)
                own[call_id] = block
                program = as_text(as_object(body.get("caller")).get("tool_id"))
                is_odd = bool(program) and program not in server_calls and not s.asks(program)
                yield is_odd, "A34", f"{block.where}.caller", f"there is no call {program!r}"
            elif kind in _SERVER_CALLS:
                server_calls.add(block.text("id"))
            elif kind != "text" and _is_answer(block):
                call_id = block.text("tool_use_id")
                is_lost = call_id not in server_calls and not s.asks(call_id)
                yield is_lost, "A4", block.where, "its server_tool_use does not stand before it"
        for call_id in (call_id for call_id in calls if call_id not in answered):
            yield True, "A1", calls[call_id].where, f"call {call_id!r} is not answered next"
        calls = own if turn.role == "assistant" or at == len(s.turns) - 1 else {}


def _call(block: _Block, *, is_twice: bool) -> Iterator[Row]:
    where, name, given = block.where, block.text("name"), block.body.get("input")
    id_is_odd = not _CALL_ID.fullmatch(block.text("id"))
    yield block.role != "assistant", "A0", where, "only the assistant calls tools"
    # https://github.com/anthropics/claude-code/issues/2673 (read 2026-11-28)
    yield not 0 < len(name) <= 200, "A6", f"{where}.name", "must be the name of a tool"
    yield not isinstance(given, dict), "A0", f"{where}.input", "must be an object"
    yield id_is_odd, "A5", f"{where}.id", "only letters, digits, _ and - are taken"
    yield is_twice, "A5", f"{where}.id", "is used twice in one message"


def _contents(s: _Sent) -> Iterator[Row]:
    signed = 0
    for block in (*s.system, *s.unusual):
        where, kind, body, role = block.where, block.kind, block.body, block.role
        is_thought, is_summary = kind in THINKING_TYPES, kind == "compaction"
        rule = "A16" if is_thought else "A29" if is_summary else "A9" if kind == "text" else "A0"
        flaw = anthropic.find_flaw(body) if kind not in _PAIRED and (kind or role) else None
        is_odd = (is_thought or is_summary) and role != "assistant"
        yield flaw, rule, where, f"would be refused: {flaw}"
        yield kind in _TYPES_OF_OTHERS, "A0", f"{where}.type", f"unknown type {kind!r}"
        yield is_odd, rule, where, "only the assistant thinks and compacts"
        if s.is_newest:
            is_odd = kind == "text" and role == "user" and bool(body.get("citations"))
            yield is_odd, "A14", where, "no citations in a user's text"
            is_odd = kind == "document" and role == "assistant"
            yield is_odd, "A14", where, "no documents in an assistant message"
        if is_summary and body.get("signature"):
            is_late = signed or s.first or block not in s.turns[0].blocks[:1]
            yield is_late, "A29", where, "a signed compaction stands before everything else"
            yield s.threshold, "A36", where, "no threshold next to a compaction that is signed"
            signed += 1
        for beta in anthropic.betas_for(anthropic.features_of(body)) if is_summary else ():
            yield beta not in s.betas, "A37", where, f"the beta {beta} is missing"


def _references(s: _Sent) -> Iterator[Row]:
    offered = {tool.text("name") for tool in s.tools}
    is_open = s.first or s.body.get("mcp_servers") or any(t.kind.startswith("mcp") for t in s.tools)
    for block in s.unusual:
        held = block.body if block.kind == "tool_reference" else as_object(block.body.get("tool"))
        if definition := as_object(held.get("definition")):
            yield from _definition(definition, f"{block.where}.tool.definition")
            offered.add(as_text(definition.get("name")))
        named = [held] if held.get("type") == "tool_reference" else []
        named += wire.objects_in(as_object(block.body.get("content")).get("tool_references"))
        for name in (as_text(one.get("tool_name") or one.get("name")) for one in named):
            is_lost = not is_open and name not in offered
            yield is_lost, "A20", block.where, f"tool {name!r} is not declared"


def _media(s: _Sent) -> Iterator[Row]:
    most = anthropic.MAX_REQUEST_CHARS
    is_long = not s.first and anthropic.count_bytes(s.body, most + 1) > most
    yield is_long, "A22", "messages", "a request has at most 32 MB"
    shown = [block for block in s.unusual if block.kind in ("image", "document")]
    images = [block for block in shown if block.kind == "image"]
    if not shown:
        return
    from context_assembler.providers import media

    rules = anthropic.media_rules(s.limits)
    most = rules.max_images or 0
    yield len(images) > most, "A21", "messages", f"at most {most} images are taken"
    if len(images) > anthropic.CROWD_IMAGES:
        rules = rules._replace(max_side_px=anthropic.CROWD_SIDE_PX)
    for block in shown:
        rule = "A21" if block.kind == "image" else "A22"
        part = None if anthropic.find_flaw(block.body) else anthropic.as_media(block.body)
        if part is None:
            continue
        _, why = media.find_objection(part, rules, s.limits, is_sent=True) or ("", "")
        yield why, rule, f"{block.where}.source", f"would be refused: {why}"


def _cache_marks(s: _Sent) -> Iterator[Row]:
    marked = [block for block in (*s.tools, *s.system, *s.unusual) if _mark(block.body)]
    for block in s.turns[-1].blocks[-1:] if s.turns and _mark(s.body) else ():
        is_odd = _mark(block.body) not in ("", _mark(s.body))
        yield is_odd, "A19", block.where, "differs in ttl from the automatic breakpoint"
    ttls = [ttl for holder in (*(block.body for block in marked), s.body) if (ttl := _mark(holder))]
    yield len(ttls) > 4, "A19", "messages", f"{len(ttls)} breakpoints, at most 4 are taken"
    is_odd = "5m" in ttls and "1h" in ttls[ttls.index("5m") :]
    yield is_odd, "A19", "messages", "1h breakpoints stand before 5m ones"
    for block in marked:
        is_odd = block.kind in THINKING_TYPES or block.body.get("defer_loading") is True
        yield is_odd, "A19", block.where, "no breakpoint on thinking or a deferred tool"


def _mark(holder: JsonObject) -> str:
    """Return how long the cache is to keep what stands before an object; empty: it has no mark."""
    mark = holder.get("cache_control")
    return as_text(as_object(mark).get("ttl")) or "5m" if isinstance(mark, Mapping) else ""


_Rules = tuple[Callable[[_Sent], Iterator[Row]], ...]
_HEAD_RULES: Final[_Rules] = (_settings, _thinking, _sampling, _tools)
_MESSAGE_RULES: Final[_Rules] = (_order, _calls, _contents, _references, _media, _cache_marks)
