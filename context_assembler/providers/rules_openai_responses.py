"""The rules of Responses: what it refuses, and what merely harms."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Final

from context_assembler.events import Json, JsonObject
from context_assembler.models import ModelLimits
from context_assembler.providers.openai import MAX_FILE_CHARS, MAX_IMAGE_CHARS
from context_assembler.providers.openai_responses import (
    ID_RULE,
    MIN_OUTPUT_TOKENS,
    NAME_RULE,
    answered_id,
    kind_of,
)
from context_assembler.providers.rules_openai import ALWAYS_REASON, DATE, Check
from context_assembler.providers.wire import (
    as_list,
    as_object,
    as_text,
    objects_in,
    parse_object,
)
from context_assembler.report import Violation

_SPEC: Final = "https://github.com/openai/openai-openapi, CreateResponse"
_GUIDES: Final = "https://developers.openai.com/api/docs/guides"

SOURCES: Final[Mapping[str, str]] = {
    "R0": f"{_SPEC}.input",
    "R1": "https://github.com/openai/openai-support-agent-demo/issues/12",
    "R2": "https://github.com/openai/openai-agents-python/issues/1611",
    "R4": "https://github.com/vercel/ai/issues/12869",
    "R5": f"{_SPEC}.previous_response_id",
    "R6": f"{_SPEC}.input, limits of lengths",
    "R7": f"{_SPEC}.tools, FunctionTool",
    "R8": f"{_SPEC}.max_output_tokens",
    "R9": f"{_SPEC}.context_management",
    "R10": f"{_GUIDES}/latest-model",
    "R11": f"{_SPEC}.metadata, .text.format",
    "R12": f"{_GUIDES}/images-vision, {_GUIDES}/file-inputs",
    "R13": f"{_GUIDES}/reasoning",
    "R14": f"{_GUIDES}/deep-research",
    "R15": f"{_GUIDES}/migrate-to-responses",
    "R16": f"{_SPEC}.tool_choice",
    "R17": f"{_GUIDES}/prompt-caching",
    "R18": f"{_GUIDES}/structured-outputs, strict mode",
    "R19": "https://developers.openai.com/api/docs/deprecations",
}
"""Rule → where it is written."""

UNCHECKED: Final[Mapping[str, str]] = {
    "R2": "Whether an item whose id the server gave had reasoning before it is known to the server "
    "alone; requests are rendered with both, or with neither.",
    "R3": "Encrypted content does not show which organization, route and model it is bound to; what "
    "was made elsewhere is left out by its recorded origin.",
    "R3b": "What stood before a reasoning item when it was made is not in the payload; prefix hashes "
    "are recorded with each reply and compared before a request is rendered.",
    "R5": "The id of a compaction's result looks like that of any response.",
    "R11": "How many items a conversation is given at once concerns another endpoint.",
}
"""Rule → what of it a look at a payload cannot find."""

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
_CURRENT_TURN_ONLY: Final = re.compile(r"o[134](-.*)?")
_CHAT_ONLY: Final = re.compile(r".*-search-(api|preview).*")
# Of these a stored reasoning item is only taken together with the stored item that followed it.
_CHECKS_NEIGHBOURS: Final = re.compile(r"gpt-([6-9]|5)([.-].*)?")

_ANSWERED_BY_CLIENT: Final = ("function_call", "custom_tool_call")
_MAY_BE_ANSWERED: Final = ("shell_call", "apply_patch_call", "computer_call")
_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
_ROLES: Final = ("user", "assistant", "system", "developer")
_OF_ASSISTANT: Final = ("output_text", "refusal")
_OF_OTHERS: Final = ("input_audio", "input_file", "input_image", "input_text")
_OF_MODEL: Final = ("reasoning", "mcp_list_tools", "mcp_approval_request", "compaction")
_MAX_TEXT_CHARS: Final = 10_485_760
_MOST_CHARS: Final[Mapping[str, int]] = {
    "output": _MAX_TEXT_CHARS,
    "content": _MAX_TEXT_CHARS,
    "text": _MAX_TEXT_CHARS,
    "encrypted_content": 20 * 1024 * 1024,
    "image_url": MAX_IMAGE_CHARS,
    "file_data": MAX_FILE_CHARS,
}


def check(
    payload: JsonObject,
    *,
    limits: ModelLimits | None = None,
    today: date | None = None,
    start: int = 0,
) -> list[Violation]:
    """Return the rules of Responses that a payload, or any other JSON, breaks.

    Args:
        limits: The model's row; without it, rules that depend on the model are left out.
        today: The day that models are shut down against; `None`: none is.
        start: The first item that was not checked before; if it is not 0, only items are.
    """
    checked = _Check(payload, limits, today, start)
    if not start:
        checked.check_head()
    checked.check_items()
    return checked.found


def _is_of_model(item: JsonObject, kind: str) -> bool:
    if kind == "message":
        return item.get("role") == "assistant"
    is_found = kind.endswith("_output") and item.get("execution") == "server"
    return is_found or kind.endswith("_call") or kind in (*_OF_MODEL, "program")


class _Check(Check):
    sources, key, prefix = SOURCES, "input", "(azure/|openai/)?"
    always_reasons = rf"{ALWAYS_REASON}|gpt-5\.\d-(pro|chat-latest){DATE}"
    rules: Mapping[str, str] = {
        "shape": "R0",
        "retired": "R19",
        "metadata": "R11",
        "cache": "R17",
        "sampling": "R10",
        "name": "R7",
        "schema": "R7",
        "strict": "R18",
        "tools": "R7",
        "media": "R12",
    }

    def __init__(
        self, payload: JsonObject, limits: ModelLimits | None, today: date | None, start: int
    ) -> None:
        super().__init__(payload, limits, today, start)
        given = self.body.get("input")
        if isinstance(given, str):
            self.messages = [{"role": "user", "content": given}]
        self.items = [as_object(item) for item in self.messages]
        # Whether the server knows of items that are not in the payload.
        self.has_state = bool(
            self.body.get("previous_response_id") or self.body.get("conversation")
        )
        self.is_stored = self.body.get("store") is not False

    def check_head(self) -> None:
        """Check everything but the items, and what depends on all of them."""
        body, limits, given = self.body, self.limits, self.body.get("input")
        self.check_settings()
        if not as_text(body.get("model")) and not body.get("prompt"):
            self.say("R0", "model", "a model id belongs here", False)
        sources = ("prompt", "previous_response_id", "conversation", "instructions")
        if given is not None and not isinstance(given, str | list | tuple):
            self.say("R0", "input", "must be text or a list of items")
        elif not given and not any(map(body.get, sources)):
            self.say("R0", "input", "text or items are required")
        for name in _OF_CHAT if self.is_own else ():
            if body.get(name) is not None:
                self.say("R15", name, "is a parameter of Chat Completions")
        if _CHAT_ONLY.fullmatch(self.model):
            self.say("R15", "model", "is not taken here, only by Chat Completions")
        if self.body.get("previous_response_id") and self.body.get("conversation"):
            self.say("R5", "conversation", "excludes previous_response_id")
        self._check_tools()
        self._check_reasoning()
        value = self.number("max_output_tokens")
        most = limits.output_tokens if limits is not None else None
        if value is not None and value < MIN_OUTPUT_TOKENS:
            self.say(
                "R8", "max_output_tokens", f"must be at least {MIN_OUTPUT_TOKENS}", self.is_own
            )
        elif value is not None and most is not None and value > most and self.is_own:
            self.say("R8", "max_output_tokens", f"the model's most is {most:,}")
        for at, edit in enumerate(objects_in(body.get("context_management"))):
            threshold = edit.get("compact_threshold")
            if isinstance(threshold, int | float) and threshold < 1000:
                where = f"context_management[{at}].compact_threshold"
                self.say("R9", where, "must be at least 1000")
        if body.get("truncation") == "auto":
            self.say("R8", "truncation", "leaves out the oldest items without a word", False)
        asked = as_object(as_object(body.get("text")).get("format"))
        self.check_strict(asked.get("strict"), asked.get("schema"), "text.format.schema")
        if asked.get("type") == "json_object" and self.is_own and not self.has_state:
            texts = str([item.get("content") or item.get("output") for item in self.items])
            if "json" not in texts.lower():
                self.say("R11", "text.format", "the word 'json' must stand in an input message")
        pieces = (piece for item in self.items for _, piece in _pieces(item, ""))
        self.check_pieces(pieces, "input_image")

    def _check_tools(self) -> None:
        placed = [(f"tools[{at}]", tool) for at, tool in enumerate(self.tools)]
        for at, item in enumerate(self.items):
            if kind_of(item) == "additional_tools":
                added = enumerate(objects_in(item.get("tools")))
                placed += [(f"input[{at}].tools[{i}]", tool) for i, tool in added]
        self.check_tool_count(len(placed))
        functions = [(where, tool) for where, tool in placed if tool.get("type") == "function"]
        self.check_tools(functions, NAME_RULE.pattern)
        for where, tool in placed:
            if not as_text(tool.get("type")):
                self.say("R7", f"{where}.type", "is missing")
            if tool.get("type") == "file_search" and not as_list(tool.get("vector_store_ids")):
                self.say("R7", f"{where}.vector_store_ids", "is required")
        for where, tool in functions:
            if as_object(tool.get("function")):
                self.say("R7", f"{where}.function", "name and parameters stand beside the type")
            if "strict" not in tool:
                self.say("R18", f"{where}.strict", "is tried if it is not said; say it", False)
        kinds = [as_text(tool.get("type")) for tool in self.tools]
        researches = any(kind.startswith(("web_search", "mcp", "file_search")) for kind in kinds)
        if "-deep-research" in self.model and not researches:
            self.say("R14", "tools", "deep research needs web search, MCP or file search")
        self._check_choice(
            [*self.tools, *(t for i in self.items for t in objects_in(i.get("tools")))]
        )

    def _check_choice(self, tools: list[JsonObject]) -> None:
        choice = self.body.get("tool_choice")
        if choice == "required" and not tools and not self.has_state and self.is_own:
            self.say("R16", "tool_choice", "a call is required, but no tool is offered")
        fields = as_object(choice)
        chosen = [("tool_choice", fields)] * (fields.get("type") in ("function", "custom"))
        if fields.get("type") == "allowed_tools":
            listed = enumerate(objects_in(fields.get("tools")))
            chosen = [(f"tool_choice.tools[{at}]", tool) for at, tool in listed]
        for where, one in chosen:
            kind, name = one.get("type"), one.get("name")
            if not any(t.get("type") == kind and name in (None, t.get("name")) for t in tools):
                self.say("R16", where, f"tool {name!r} is not offered")

    def _check_reasoning(self) -> None:
        asked, limits = as_object(self.body.get("reasoning")), self.limits
        effort = as_text(asked.get("effort"))
        levels = limits.thinking.levels if limits is not None else ()
        if limits is None:
            never = self.is_own and _NEVER_REASONS.fullmatch(self.model) is not None
        else:
            never = self.is_own and not limits.thinking.kinds
        if effort and never:
            self.say("R13", "reasoning.effort", "the model does not reason")
        elif effort and levels and effort not in levels:
            self.say("R13", "reasoning.effort", f"not a level of the model: {effort!r}")
        elif effort == "none" and self.is_own and re.fullmatch(self.always_reasons, self.model):
            self.say("R13", "reasoning.effort", "the model always reasons")
        if asked.get("context") == "all_turns" and _CURRENT_TURN_ONLY.fullmatch(self.model):
            message = "is auto or current_turn with this model"
            self.say("R13", "reasoning.context", message)
        if "reasoning.encrypted_content" in as_list(self.body.get("include")) and never:
            self.say("R4", "include", "the model does not reason", False)
        takes_none = self.is_own and _NO_SAMPLING.fullmatch(self.model) is not None
        if takes_none or (self.is_own and self.reasons(effort)):
            if not takes_none:
                self.check_sampling()
            for name in ("temperature", "top_p") if takes_none else ():
                if self.number(name) is not None:
                    self.say("R10", name, "is not taken by this model, the default neither")
            if self.number("top_logprobs"):
                self.say("R10", "top_logprobs", "is not taken while the model reasons")

    def check_items(self) -> None:
        """Check the new items, with the calls that they answer."""
        items, begin = self.items, self.start
        kinds = [kind_of(item) for item in items[:0]]
        # Outputs follow the calls of one reply directly.
        while begin and kind_of(items[begin - 1]).endswith("_output"):
            begin -= 1
        while begin and _is_of_model(items[begin - 1], kind_of(items[begin - 1])):
            begin -= 1
        kinds = [kind_of(item) for item in items[begin:]]
        self._check_pairs(kinds, begin)
        self._check_replies(kinds, begin)
        for at in range(self.start, len(items)):
            item, kind, where = items[at], kinds[at - begin], f"input[{at}]"
            self._check_item(item, kind, where)
            for place, piece in _pieces(item, where):
                self._check_piece(item, kind, piece, place)
            if kind == "compaction_trigger" and at < len(items) - 1:
                self.say("R9", where, "must be the last item")
        if items and items[-1].get("role") == "assistant":
            where = f"input[{len(items) - 1}]"
            self.say("R0", where, "the assistant should not speak last", False)

    def _check_pairs(self, kinds: list[str], begin: int) -> None:
        """R1: every call is answered once, after it, and nothing else is answered."""
        waiting: dict[str, tuple[int, str]] = {}
        open_calls: set[str] = set()
        answered: set[str] = set()
        seen: set[str] = set()
        knows_more = self.has_state or "item_reference" in kinds
        refused = self.model.startswith("deepseek")
        for at, kind in enumerate(kinds, begin):
            item, where = self.items[at], f"input[{at}]"
            call_id = answered_id(item)
            is_client_call = kind in _ANSWERED_BY_CLIENT
            if is_client_call and call_id in seen:
                self.say("R7", f"{where}.call_id", "is used before", False)
            if is_client_call:
                seen.add(call_id)
                if item.get("async") is not True:
                    open_calls.add(call_id)
            if (kind.endswith("_call") or kind == "program") and call_id:
                waiting[call_id] = at, kind
            elif kind.endswith("_output"):
                open_calls.discard(call_id)
                if waiting.pop(call_id, None) is not None:
                    answered.add(call_id)
                elif call_id in answered:
                    self.say("R1", where, f"call {call_id!r} is answered twice", False)
                elif call_id and not knows_more and not self._is_called(call_id, begin):
                    is_refused = kind != "tool_search_output"
                    self.say("R1", where, f"call {call_id!r} does not stand before it", is_refused)
            elif kind == "message" and open_calls:
                self.say("R1", where, "stands between a call and its output", refused)
                open_calls = set()
        for call_id, (at, kind) in waiting.items():
            may_stay = self.items[at].get("async") is True
            if (kind in _ANSWERED_BY_CLIENT and not may_stay) or kind in _MAY_BE_ANSWERED:
                is_refused = kind in _ANSWERED_BY_CLIENT
                self.say("R1", f"input[{at}]", f"call {call_id!r} is not answered", is_refused)

    def _is_called(self, call_id: str, end: int) -> bool:
        """Whether a call is among the items that were checked before."""
        earlier = (item for item in self.items[:end] if answered_id(item) == call_id)
        return any(not kind_of(item).endswith("_output") for item in earlier)

    def _check_replies(self, kinds: list[str], begin: int) -> None:
        """R2, R4: reasoning is complete, readable without the server's store, and led to something."""
        can_reason = self.limits is None or bool(self.limits.thinking.kinds)
        effort = as_object(self.body.get("reasoning")).get("effort")
        told = self.limits is not None and self.is_own and not self.has_state and effort != "none"
        led_to = False  # whether anything led to what follows in this reply
        for at, kind in enumerate(kinds, begin):
            item, where = self.items[at], f"input[{at}]"
            is_of_model = _is_of_model(item, kind)
            led_to = is_of_model and (led_to or kind in ("reasoning", "compaction"))
            if is_of_model and not led_to and as_text(item.get("id")).startswith("fc_"):
                run = range(at + 1, begin + len(kinds))
                rest = ((kinds[i - begin], self.items[i]) for i in run)
                for next_kind, next_item in rest:
                    if not _is_of_model(next_item, next_kind):
                        break
                    led_to = led_to or next_kind in ("reasoning", "compaction")
                if told and can_reason and not led_to and at >= self.start:
                    message = "keeps the server's id without the reasoning that led to it"
                    self.say("R2", f"{where}.id", message, False)
            if kind != "reasoning" or at < self.start:
                continue
            after = self.items[at + 1] if at + 1 < len(self.items) else {}
            is_lost = self.is_own and self.is_stored and _CHECKS_NEIGHBOURS.fullmatch(self.model)
            if not _is_of_model(after, kind_of(after)):
                self.say("R2", where, "must be followed by the item that it led to")
            elif is_lost and item.get("id") and not after.get("id"):
                message = "must be followed by that item with its id, or go without an id"
                self.say("R2", where, message)
            if not isinstance(item.get("summary"), list | tuple):
                self.say("R0", f"{where}.summary", "is required, even if empty", self.is_own)
            if "status" in item:
                message = "is unknown to some versions of the API; leave it out"
                self.say("R2", f"{where}.status", message, False)
            if not as_text(item.get("encrypted_content")) and not self.is_stored:
                place = f"{where}.encrypted_content"
                self.say("R4", place, "is required, since nothing is stored", self.is_own)
            if not can_reason:
                self.say("R2", where, "the model does not reason", False)

    def _check_item(self, item: JsonObject, kind: str, where: str) -> None:
        call_id, role = answered_id(item), as_text(item.get("role"))
        if not kind:
            self.say("R0", where, "must be an object with a type or a role")
        if len(call_id) > ID_RULE.max_chars:
            message = f"has {len(call_id)} characters, at most {ID_RULE.max_chars} are taken"
            self.say("R6", f"{where}.call_id", message)
        if kind in (*_ANSWERED_BY_CLIENT, *_OUTPUTS) and not call_id:
            self.say("R6", f"{where}.call_id", "is missing")
        if kind == "message":
            if role not in _ROLES:
                self.say("R0", f"{where}.role", f"unknown role {role!r}")
            has_pieces = role == "assistant" and bool(as_list(item.get("content")))
            missing = [key for key in ("id", "status") if has_pieces and not item.get(key)]
            if missing:
                names = " and ".join(missing)
                message = f"pieces of a reply stand beside id and status; {names} is missing"
                self.say("R0", where, message, False)
            if not isinstance(item.get("content"), str | list | tuple):
                self.say("R0", f"{where}.content", "must be text or a list of pieces")
        elif kind in _ANSWERED_BY_CLIENT:
            if not NAME_RULE.pattern.fullmatch(as_text(item.get("name"))):
                message = f"must match {NAME_RULE.pattern.pattern}"
                self.say("R7", f"{where}.name", message, self.is_own)
            key = "arguments" if kind == "function_call" else "input"
            if not isinstance(item.get(key), str):
                self.say("R7", f"{where}.{key}", "must be text", self.is_own)
            elif key == "arguments" and parse_object(item[key]) is None:
                self.say("R7", f"{where}.{key}", "is no JSON object", False)
        elif kind in _OUTPUTS and not isinstance(item.get("output"), str | list | tuple):
            self.say("R0", f"{where}.output", "must be text or a list of pieces")
        elif kind == "item_reference" and not self.is_stored and not self.has_state:
            self.say("R4", where, "refers to an item that is not stored", False)
        elif kind == "compaction" and not as_text(item.get("encrypted_content")):
            self.say("R9", where, "encrypted_content is required")
        self._check_lengths(item, where, ("output", "content", "encrypted_content"))

    def _check_lengths(self, fields: JsonObject, where: str, keys: tuple[str, ...]) -> None:
        for key in keys:
            if len(as_text(fields.get(key))) > _MOST_CHARS[key]:
                message = f"at most {_MOST_CHARS[key]:,} characters are taken"
                self.say("R6", f"{where}.{key}", message)

    def _check_piece(self, item: JsonObject, kind: str, piece: JsonObject, where: str) -> None:
        piece_type = as_text(piece.get("type"))
        taken = _OF_ASSISTANT if item.get("role") == "assistant" else _OF_OTHERS
        if kind in ("message", *_OUTPUTS) and piece_type not in taken:
            known = (*_OF_ASSISTANT, *_OF_OTHERS, "text", "image_url", "file")
            message = f"{piece_type!r} is not taken here, only {', '.join(taken)}"
            is_refused = self.is_own and piece_type in known
            told = ("is missing", True) if not piece_type else (message, is_refused)
            self.say("R0", f"{where}.type", *told)
        self._check_lengths(piece, where, ("text", "image_url", "file_data"))
        if piece_type == "input_image":
            url = as_text(piece.get("image_url"))
            if not url and not as_text(piece.get("file_id")):
                self.say("R12", where, "image_url, as text, or file_id is required")
            elif url:
                self.check_address(url, f"{where}.image_url")
            if self.limits is not None and self.limits.features.get("vision") is False:
                self.say("R12", where, "the model takes no images")
            if piece.get("detail") is None:
                message = "should be told: auto, low, high or original"
                self.say("R12", f"{where}.detail", message, False)
        elif piece_type == "input_file":
            encoded, url = as_text(piece.get("file_data")), as_text(piece.get("file_url"))
            if not encoded and not url and not as_text(piece.get("file_id")):
                self.say("R12", where, "file_data, file_url or file_id is required")
            if url:
                self.check_address(url, f"{where}.file_url")
            if encoded.startswith("data:"):
                self.check_address(encoded, f"{where}.file_data")
            declared = re.match(r"data:((?:audio|video)/[^;,]*)", encoded, re.ASCII)
            if declared is not None:
                message = f"files of type {declared[1]} are refused"
                self.say("R12", f"{where}.file_data", message)


def _pieces(item: JsonObject, where: str) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the pieces of a message's content, or of an output, with their places."""
    key = "output" if kind_of(item).endswith("_output") else "content"
    for at, piece in enumerate(as_list(item.get(key))):
        yield f"{where}.{key}[{at}]", as_object(piece)
