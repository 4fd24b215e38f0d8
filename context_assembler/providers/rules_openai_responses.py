"""The rules of Responses: what it refuses, and what merely harms."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from context_assembler.events import Json, JsonObject
from context_assembler.providers import openai_responses as items
from context_assembler.providers import wire
from context_assembler.providers.openai_responses import answered_id, kind_of
from context_assembler.providers.rules_openai import ALWAYS_REASON, DATE, Check, Row
from context_assembler.providers.wire import as_list, as_object, as_text, objects_in

_SPEC: Final = "https://github.com/openai/openai-openapi, CreateResponse"
_GUIDES: Final = "https://developers.openai.com/api/docs/guides"

SOURCES: Final = wire.sources_of(f"""
R0: {_SPEC}.input | R6: {_SPEC}.input, call_id | R5: {_SPEC}.previous_response_id |
R1: https://github.com/openai/openai-support-agent-demo/issues/12 | R8: {_SPEC}.max_output_tokens |
R2: https://github.com/openai/openai-agents-python/issues/1611 | R7: {_SPEC}.tools, FunctionTool |
R4: https://github.com/vercel/ai/issues/12869 | R9: {_SPEC}.context_management |
R11: {_SPEC}.text.format | R10: {_GUIDES}/latest-model | R13: {_GUIDES}/reasoning |
R12: {_GUIDES}/images-vision, {_GUIDES}/file-inputs | R14: {_GUIDES}/deep-research |
R15: {_GUIDES}/migrate-to-responses | R16: {_SPEC}.tool_choice |
R18: {_GUIDES}/structured-outputs, strict mode |
R19: https://developers.openai.com/api/docs/deprecations |
R20: https://github.com/earendil-works/pi/issues/9057, https://github.com/vercel/ai/pull/13383 |
R21: {_GUIDES}/tools-computer-use
""")
"""Rule → where it is written."""

# Parameters of Chat Completions: "In the Responses API, this parameter has moved to 'text.format'."
_OF_CHAT: Final = (
    *("messages", "functions", "function_call", "response_format", "reasoning_effort", "verbosity"),
    *("max_tokens", "max_completion_tokens", "stop", "n", "logit_bias", "logprobs", "seed"),
    *("presence_penalty", "frequency_penalty", "modalities", "audio", "web_search_options"),
)
# What the id alone decides. Each was refused in so many words: "Unsupported value: 'none' is not
# supported with the 'gpt-5-pro' model", "'reasoning.effort' is not supported with this model" …
_NO_SAMPLING: Final = re.compile(r"gpt-(6\.([2-9]|\d\d)|[7-9]).*")
_NEVER_REASONS: Final = re.compile(r"(gpt-4|gpt-3\.5|chatgpt-4o).*")
_HAS_MODES: Final = re.compile(r"gpt-(5\.([6-9]|\d\d)|[6-9]).*")
_CURRENT_TURN_ONLY: Final = re.compile(r"o[134](-.*)?")
# Of these a stored reasoning item is only taken together with the stored item that followed it.
_CHECKS_NEIGHBOURS: Final = re.compile(r"gpt-([6-9]|5)([.-].*)?")

_ROLES: Final = ("user", "assistant", "system", "developer")
_BY_CLIENT: Final = ("function_call", "custom_tool_call")  # calls that must be answered
_MAY_BE_ANSWERED: Final = ("shell_call", "apply_patch_call", "computer_call")
_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
_OF_ASSISTANT: Final = ("output_text", "refusal")
_OF_OTHERS: Final = ("input_audio", "input_file", "input_image", "input_text")
_LEADING: Final = ("reasoning", "compaction")  # what leads to a call, or stands for it


def _is_of_model(item: JsonObject) -> bool:
    kind = kind_of(item)
    if kind == "message":
        return bool(item.get("role") == "assistant")
    is_found = kind.endswith("_output") and item.get("execution") == "server"
    known = (*_LEADING, "mcp_list_tools", "mcp_approval_request", "program")
    return is_found or kind.endswith("_call") or kind in known


class _Responses(Check):
    sources, key = SOURCES, "input"
    lengths = (("max_output_tokens", items.MIN_OUTPUT_TOKENS),)
    always_reasons = rf"{ALWAYS_REASON}|gpt-5\.\d-(pro|chat-latest){DATE}"
    rules: ClassVar[Mapping[str, str]] = wire.sources_of(
        "shape: R0 | retired: R19 | sampling: R10 | name schema tools: R7 | "
        "strict: R18 | media: R12 | length: R8 | choice: R16"
    )

    @property
    def has_state(self) -> bool:
        """Whether the server knows of items that are not in the payload."""
        return bool(self.body.get("previous_response_id") or self.body.get("conversation"))

    def check_head(self) -> None:
        """Check everything but the items, and what depends on all of them."""
        body, own, given = self.body, self.is_own, self.body.get("input")
        sources = ("prompt", "previous_response_id", "conversation", "instructions")
        is_odd = given is not None and not isinstance(given, str | list | tuple)
        is_nothing = not given and not any(map(body.get, sources))
        asked = as_object(as_object(body.get("text")).get("format"))
        wants_json = not self.has_state and self.lacks_json(asked)
        is_chat_only = re.search("-search-(api|preview)", self.model)
        both = body.get("previous_response_id") and body.get("conversation")
        has_no_model = not self.asked and not body.get("prompt")
        rows: list[Row] = [
            (has_no_model, "R0", "model", "a model id belongs here", False),
            (is_odd, "R0", "input", "must be text or a list of items"),
            (is_nothing, "R0", "input", "text or items are required"),
            (is_chat_only, "R15", "model", "is not taken here, only by Chat Completions"),
            (both, "R5", "conversation", "excludes previous_response_id"),
            (wants_json, "R11", "text.format", "the word 'json' must stand in an input message"),
            self.strict_row(asked, "schema", "text.format.schema"),
        ]
        for one in objects_in(body.get("context_management")):
            is_low = wire.as_number(one.get("compact_threshold")) < 1_000
            rows.append((is_low, "R9", "context_management", "is at least 1,000 tokens"))
        given_of_chat = (name for name in _OF_CHAT if own and body.get(name) is not None)
        rows += [
            (True, "R15", name, "is a parameter of Chat Completions") for name in given_of_chat
        ]
        self.hold(rows)
        self.hold(self._tool_rows())
        self.hold(self._reasoning_rows())

    def _tool_rows(self) -> Iterable[Row]:
        placed = [(f"tools[{at}]", tool) for at, tool in enumerate(self.tools)]
        later = [(at, item) for at, item in enumerate(self.messages) if "tools" in item]
        for at, item in later:
            added = objects_in(item["tools"]) if kind_of(item) == "additional_tools" else ()
            placed += [(f"input[{at}].tools[{i}]", tool) for i, tool in enumerate(added)]
        functions = [(where, tool) for where, tool in placed if tool.get("type") == "function"]
        yield from self.tool_rows(functions, items.NAME_RULE.pattern)
        for where, tool in placed:
            kind = as_text(tool.get("type"))
            is_bare = kind == "file_search" and not as_list(tool.get("vector_store_ids"))
            yield not kind, "R7", f"{where}.type", "is missing"
            yield is_bare, "R7", f"{where}.vector_store_ids", "is required"
        research = ("web_search", "mcp", "file_search")
        has_any = any(as_text(tool.get("type")).startswith(research) for tool in self.tools)
        is_odd = "-deep-research" in self.model and not has_any
        yield is_odd, "R14", "tools", "deep research needs web search, MCP or file search"
        found = [tool for _, item in later for tool in objects_in(item["tools"])]
        offered, choice = [*self.tools, *found], self.body.get("tool_choice")
        is_odd = choice == "required" and not offered and not self.has_state and self.is_own
        yield is_odd, "R16", "tool_choice", "a call is required, but no tool is offered"
        yield from self.choice_rows(offered)

    def _reasoning_rows(self) -> Iterable[Row]:
        asked, model = as_object(self.body.get("reasoning")), self.model
        limits, own = self.limits, self.is_own
        effort, where = as_text(asked.get("effort")), "reasoning.effort"
        levels = limits.thinking.levels if limits is not None else ()
        never = own and (_NEVER_REASONS.fullmatch(model) if limits is None else not self.can_reason)
        is_odd = effort and not never and levels and effort not in levels
        always = own and effort == "none" and re.fullmatch(self.always_reasons, model)
        is_wide = asked.get("context") == "all_turns" and _CURRENT_TURN_ONLY.fullmatch(model)
        yield effort and never, "R13", where, "the model does not reason"
        yield is_odd, "R13", where, f"not a level of the model ({', '.join(levels)}): {effort!r}"
        yield always and not never and not is_odd, "R13", where, "the model always reasons"
        yield is_wide, "R13", "reasoning.context", "is auto or current_turn with this model"
        has_mode = own and asked.get("mode") is not None and not _HAS_MODES.fullmatch(model)
        yield has_mode, "R13", "reasoning.mode", "is not taken by this model"
        takes_none = own and _NO_SAMPLING.fullmatch(model) is not None
        reasons = takes_none or (own and self.reasons(effort))
        if reasons and not takes_none:
            yield from self.sampling_rows()
        for name in ("temperature", "top_p"):
            is_set = takes_none and self.number(name) == self.number(name)
            yield is_set, "R10", name, "is not taken by this model, the default neither"
        is_set = reasons and self.number("top_logprobs") > 0
        yield is_set, "R10", "top_logprobs", "is not taken while the model reasons"

    def check_messages(self) -> None:
        """Check the new items, with the calls that they answer."""
        items, begin = self.messages, self.start
        if isinstance(given := self.body.get("input"), str):
            items = self.messages = [{"role": "user", "content": given}]
        # Outputs follow the calls of one reply directly.
        while begin and kind_of(items[begin - 1]).endswith("_output"):
            begin -= 1
        while begin and _is_of_model(items[begin - 1]):
            begin -= 1
        kinds = list(map(kind_of, items[begin:]))
        self.hold(self._pair_rows(kinds, begin))
        for at in range(self.start, len(items)):
            item, kind, where = items[at], kinds[at - begin], f"input[{at}]"
            self.hold(self._item_rows(item, kind), where)
            if kind == "reasoning":
                after = items[at + 1] if at + 1 < len(items) else dict[str, Json]()
                self.hold(self._reasoning_item_rows(item, after), where)
            key = "output" if kind.endswith("_output") else "content"
            for number, piece in enumerate(as_list(item.get(key))):
                rows = self._piece_rows(item, kind, as_object(piece))
                self.hold(rows, f"{where}.{key}[{number}]")

    def _pair_rows(self, kinds: list[str], begin: int) -> Iterable[Row]:
        """R1: every call is answered once, after it, and nothing else is answered."""
        waiting, answered, seen, open_calls = dict[str, int](), set[str](), set[str](), set[str]()
        knows_more = self.has_state or "item_reference" in kinds
        ids = Counter(as_text(item.get("id")) for item in self.messages[begin:])
        for at, kind in enumerate(kinds, begin):
            item, where = self.messages[at], f"input[{at}]"
            if own_id := as_text(item.get("id")):
                yield ids[own_id] > 1, "R20", f"{where}.id", "is used twice"
            call_id = answered_id(item)
            if kind in _BY_CLIENT:
                yield call_id in seen, "R20", f"{where}.call_id", "is used before"
                seen.add(call_id)
                if item.get("async") is not True:
                    open_calls.add(call_id)
            if (kind.endswith("_call") or kind == "program") and call_id:
                waiting[call_id] = at
            elif kind.endswith("_output"):
                open_calls.discard(call_id)
                called = waiting.pop(call_id, None)
                if called is not None:
                    is_open = self.messages[called].get("pending_safety_checks")
                    is_open = is_open and not item.get("acknowledged_safety_checks")
                    yield is_open, "R21", where, "must acknowledge the safety checks of its call"
                elif call_id in answered:
                    yield call_id, "R20", where, f"call {call_id!r} is answered twice"
                elif call_id and not knows_more:
                    # It may stand among the items that were checked before.
                    earlier = [i for i in self.messages[:begin] if answered_id(i) == call_id]
                    is_lost = all(kind_of(one).endswith("_output") for one in earlier)
                    message = f"call {call_id!r} does not stand before it"
                    yield is_lost, "R1", where, message, kind != "tool_search_output"
                answered.add(call_id)
            elif kind == "message" and open_calls:
                # OpenAI itself writes messages behind calls; what others say there harms.
                is_strict, is_odd = "deepseek" in self.model, item.get("role") != "assistant"
                message = "stands between a call and its output"
                yield is_odd or is_strict, "R1", where, message, is_strict
                open_calls = set[str]()
        for call_id, at in waiting.items():
            kind, message = kinds[at - begin], f"call {call_id!r} is not answered"
            must = kind in _BY_CLIENT and self.messages[at].get("async") is not True
            yield must or kind in _MAY_BE_ANSWERED, "R1", f"input[{at}]", message, must

    def _reasoning_item_rows(self, item: JsonObject, after: JsonObject) -> Iterable[Row]:
        """R2, R4: reasoning is complete, readable without the server's store, and led to something."""
        own, is_stored = self.is_own, self.body.get("store") is not False
        is_last, is_bare = not _is_of_model(after), not as_text(item.get("encrypted_content"))
        looks = own and is_stored and _CHECKS_NEIGHBOURS.fullmatch(self.model) and not is_last
        # A call may come without its id: recorded for simonw/llm, whose requests were accepted.
        is_lost = looks and item.get("id") and kind_of(after) == "message" and not after.get("id")
        has_none = not isinstance(item.get("summary"), list | tuple)
        message = "must be followed by that item with its id, or go without an id"
        yield is_last, "R2", "", "must be followed by the item that it led to"
        yield is_lost, "R2", "", message
        yield has_none, "R0", ".summary", "is required, even if empty", own
        is_bare = is_bare and not is_stored
        yield is_bare, "R4", ".encrypted_content", "is required, since nothing is stored", own

    def _item_rows(self, item: JsonObject, kind: str) -> Iterable[Row]:
        call_id, most = answered_id(item), items.ID_RULE.max_chars
        yield not kind, "R0", "", "must be an object with a type or a role"
        if len(call_id) > most:
            message = f"has {len(call_id)} characters, at most {most} are taken"
            yield True, "R6", ".call_id", message
        if kind == "message":
            content, role = item.get("content"), as_text(item.get("role"))
            is_odd = not isinstance(content, (str, list, tuple))
            yield role not in _ROLES, "R0", ".role", f"unknown role {role!r}"
            yield is_odd, "R0", ".content", "must be text or a list of pieces"
            return
        yield not call_id and kind in (*_BY_CLIENT, *_OUTPUTS), "R6", ".call_id", "is missing"
        if kind in _BY_CLIENT:
            key = "arguments" if kind == "function_call" else "input"
            yield from self.call_rows(item, key, items.NAME_RULE.pattern)
        elif kind in _OUTPUTS:
            is_odd = not isinstance(item.get("output"), (str, list, tuple))
            yield is_odd, "R0", ".output", "must be text or a list of pieces"
        else:
            is_early = kind == "compaction_trigger" and item is not self.messages[-1]
            yield is_early, "R9", "", "must be the last item"
            is_bare = kind == "compaction" and not as_text(item.get("encrypted_content"))
            yield is_bare, "R9", "", "encrypted_content is required"

    def _piece_rows(self, item: JsonObject, kind: str, piece: JsonObject) -> Iterable[Row]:
        piece_type = as_text(piece.get("type"))
        taken = _OF_ASSISTANT if item.get("role") == "assistant" else _OF_OTHERS
        if piece_type not in taken and kind in ("message", *_OUTPUTS):
            message = f"{piece_type!r} is not taken here, only {', '.join(taken)}"
            yield not piece_type, "R0", ".type", "is missing"
            yield piece_type, "R0", ".type", message, self.is_own
        if piece_type == "input_image":
            url = as_text(piece.get("image_url"))
            is_bare = not url and not as_text(piece.get("file_id"))
            yield is_bare, "R12", "", "image_url, as text, or file_id is required"
            yield from self.address_rows(url, ".image_url")
            yield self.is_blind, "R12", "", "the model takes no images"
        elif piece_type == "input_file":
            encoded, url = as_text(piece.get("file_data")), as_text(piece.get("file_url"))
            is_bare = not encoded and not url and not as_text(piece.get("file_id"))
            yield is_bare, "R12", "", "file_data, file_url or file_id is required"
            yield from self.address_rows(url, ".file_url")
            if encoded.startswith("data:"):
                yield from self.address_rows(encoded, ".file_data")
            declared = re.match(r"data:((?:audio|video)/[^;,]*)", encoded, re.ASCII)
            message = f"files of type {declared[1] if declared else ''} are refused"
            yield declared, "R12", ".file_data", message


check: Final = _Responses.run
