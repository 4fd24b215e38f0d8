"""The rules of Chat Completions: what it refuses, and what merely harms."""

import re
from collections.abc import Mapping
from datetime import date
from typing import Final

from context_assembler.events import Json, JsonObject
from context_assembler.models import ModelLimits
from context_assembler.providers.openai import MAX_IMAGE_CHARS, tool_name
from context_assembler.providers.openai_chat import (
    ID_RULE,
    MAX_CALLS,
    MAX_STOP_SEQUENCES,
    NAME_RULE,
    PART_TYPES,
    WITHOUT_STOP,
    takes_late_instructions,
)
from context_assembler.providers.rules_openai import DATE, Check
from context_assembler.providers.wire import (
    as_list,
    as_object,
    as_text,
    objects_in,
    parse_object,
)
from context_assembler.report import Violation

_SPEC: Final = "https://github.com/openai/openai-openapi, CreateChatCompletionRequest"
_GUIDES: Final = "https://developers.openai.com/api/docs/guides"

SOURCES: Final[Mapping[str, str]] = {
    "C0": _SPEC,
    "C1": "https://github.com/agno-agi/agno/issues/4345",
    "C2": "https://github.com/danny-avila/LibreChat/issues/14231",
    "C3": f"{_GUIDES}/latest-model",
    "C4": f"{_SPEC}.max_tokens",
    "C5": f"{_SPEC}, ChatCompletionRequestDeveloperMessage",
    "C6": f"{_SPEC}.tools",
    "C7": f"{_SPEC}, FunctionObject",
    "C8": f"{_GUIDES}/function-calling",
    "C9": f"{_SPEC}.response_format, .stop, .metadata",
    "C10": f"{_SPEC}, ChatCompletionRequestAssistantMessage.content",
    "C11": f"{_SPEC}, ChatCompletionRequestToolMessage.content",
    "C12": f"{_GUIDES}/structured-outputs",
    "C13": f"{_GUIDES}/reasoning",
    "C14": f"{_GUIDES}/images-vision",
    "C15": f"{_GUIDES}/prompt-caching",
    "C16": "https://docs.mistral.ai/api (chat completions, order of roles)",
    "C17": "https://developers.openai.com/api/docs/deprecations",
}
"""Rule → where it is written."""

UNCHECKED: Final[Mapping[str, str]] = {
    "C2": "Without the model's row nobody knows whether it takes tools while it reasons in this API; "
    "some gateways lift the rule, and for them it is advice.",
    "C3": "Which models reason without being asked is known by their rows, and by the ids of those "
    "that always do.",
    "C14": "The type of an uploaded file, and what is at a URL, are known to the server alone.",
}
"""Rule → what of it a look at a payload cannot find."""

_ROLES: Final = ("developer", "system", "user", "assistant", "tool", "function")
_INSTRUCTIONS: Final = ("developer", "system")
# What the id alone decides. Each was refused in so many words: "'messages[0].role' does not support
# 'developer' with this model.", "Web search options not supported with this model." …
_WITHOUT_DEVELOPER: Final = re.compile(rf"o1-(mini|preview){DATE}")
_WITHOUT_JSON_SCHEMA: Final = re.compile(
    r"gpt-4(-\d{4})?|gpt-4-turbo.*|gpt-3\.5-turbo.*|gpt-4o-2024-05-13"
)
_ALTERNATING_ID: Final = re.compile(r"(.*/)?(sonar|(open-|codestral|magistral|mi[nx]?i?stral)).*")


def check(
    payload: JsonObject,
    *,
    limits: ModelLimits | None = None,
    today: date | None = None,
    start: int = 0,
) -> list[Violation]:
    """Return the rules of Chat Completions that a payload, or any other JSON, breaks.

    Args:
        limits: The model's row; without it, rules that depend on the model are left out.
        today: The day that models are shut down against; `None`: none is.
        start: The first message that was not checked before; if it is not 0, only messages are.
    """
    checked = _Check(payload, limits, today, start)
    if not start:
        checked.check_head()
    checked.check_messages()
    return checked.found


class _Check(Check):
    sources, key, prefix = SOURCES, "messages", "(azure-)?(openai/)?"
    rules: Mapping[str, str] = {
        "shape": "C0",
        "retired": "C17",
        "metadata": "C9",
        "cache": "C15",
        "sampling": "C3",
        "name": "C7",
        "schema": "C8",
        "strict": "C8",
        "tools": "C6",
        "media": "C14",
    }

    def check_head(self) -> None:
        """Check everything but the messages, and what depends on all of them."""
        body, limits = self.body, self.limits
        self.check_settings()
        if not as_text(body.get("model")):
            self.say("C0", "model", "a model id belongs here, unless the URL names it", False)
        if not self.messages:
            self.say("C0", "messages", "at least one message is required")
        self._check_tools()
        effort, routed = body.get("reasoning_effort"), as_object(body.get("reasoning"))
        if limits is not None:
            self._check_reasoning(limits, effort, routed)
        reasons = self.is_own and self.reasons(effort)
        if reasons:
            self.check_sampling()
            for name in ("presence_penalty", "frequency_penalty"):
                if self.number(name):
                    self.say("C3", name, "is not taken while the model reasons")
            if body.get("logprobs") is True:
                self.say("C3", "logprobs", "is not taken while the model reasons")
        if body.get("max_tokens") is not None and self.is_own:
            can_reason = limits is not None and bool(limits.thinking.kinds)
            self.say("C4", "max_tokens", "use max_completion_tokens", reasons or can_reason)
        if body.get("stop") and self.is_own and WITHOUT_STOP.fullmatch(self.model):
            self.say("C3", "stop", "is not taken by this model")
        chosen = as_object(body.get("response_format"))
        texts = str([as_object(message).get("content") for message in self.messages]).lower()
        if chosen.get("type") == "json_object" and self.is_own and "json" not in texts:
            self.say("C9", "response_format", "the word 'json' must stand in a message")
        if chosen.get("type") == "json_schema" and _WITHOUT_JSON_SCHEMA.fullmatch(self.model):
            self.say("C12", "response_format.type", "json_schema is not taken by this model")
        asked = as_object(chosen.get("json_schema"))
        place = "response_format.json_schema.schema"
        self.check_strict(asked.get("strict"), asked.get("schema"), place)
        if (
            body.get("web_search_options") is not None
            and self.is_own
            and "search" not in self.model
        ):
            self.say("C12", "web_search_options", "is not taken by this model")
        if len(as_list(body.get("stop"))) > MAX_STOP_SEQUENCES and self.is_own:
            self.say("C9", "stop", f"at most {MAX_STOP_SEQUENCES} are taken")
        most = limits.output_tokens if limits is not None else None
        for name in ("max_completion_tokens", "max_tokens"):
            value = self.number(name)
            if value is not None and value < 1:
                self.say("C9", name, "must be at least 1")
            elif value is not None and most is not None and value > most and self.is_own:
                self.say("C9", name, f"the model's most is {most:,}")
        roles = {as_object(message).get("role") for message in self.messages}
        if roles >= {*_INSTRUCTIONS}:
            self.say("C5", "messages", "developer and system should not be mixed", False)
        pieces = (p for m in self.messages for p in objects_in(as_object(m).get("content")))
        self.check_pieces(pieces, "image_url")

    def _check_reasoning(self, limits: ModelLimits, effort: Json, routed: JsonObject) -> None:
        levels = limits.thinking.levels
        asked = (("reasoning_effort", effort), ("reasoning.effort", routed.get("effort")))
        for where, level in asked:
            if isinstance(level, str) and levels and level not in levels:
                self.say("C13", where, f"not a level of the model: {level!r}")
        is_off = routed.get("enabled") is False and levels and "none" not in levels
        if is_off and limits.thinking.disable == "no":
            self.say("C13", "reasoning.enabled", "the model always reasons")
        if not self.tools or limits.features.get("chat_tools_with_reasoning") is not False:
            return
        if effort is None and "none" in levels:
            self.say("C2", "reasoning_effort", "should be 'none' with function tools", False)
        elif effort != "none":
            message = "function tools are taken without reasoning only; use the Responses API"
            self.say("C2", "reasoning_effort", message, self.is_own)

    def _check_tools(self) -> None:
        body = self.body
        self.check_tool_count(len(self.tools))
        placed = [
            (f"tools[{at}].{kind}", as_object(tool.get(kind)))
            for at, tool in enumerate(self.tools)
            if (kind := as_text(tool.get("type"))) in ("function", "custom")
        ]
        old = enumerate(objects_in(body.get("functions")))
        placed += [(f"functions[{at}]", function) for at, function in old]
        self.check_tools(placed, NAME_RULE.pattern)
        if not self.tools and self.is_own and not body.get("functions"):
            for name in ("tool_choice", "parallel_tool_calls"):
                if body.get(name) is not None:
                    self.say("C6", name, "is only taken with tools")
        chosen, offered = as_object(body.get("tool_choice")), set(map(tool_name, self.tools))
        allowed = as_object(chosen.get("allowed_tools")).get("tools")
        for at, tool in enumerate(objects_in(allowed)):
            if (name := tool_name(tool)) not in offered:
                where = f"tool_choice.allowed_tools.tools[{at}]"
                self.say("C6", where, f"tool {name!r} is not offered")
        target = as_object(chosen.get("function")) or as_object(chosen.get("custom"))
        if target and as_text(target.get("name")) not in offered:
            self.say("C6", "tool_choice", f"tool {target.get('name')!r} is not offered")

    def check_messages(self) -> None:
        """Check the new messages, with the calls that they answer."""
        begin = self.start
        while begin and as_object(self.messages[begin - 1]).get("role") == "tool":
            begin -= 1
        begin = max(begin - 1, 0) if begin else 0
        waiting: dict[str, str] = {}
        answered: set[str] = set()
        before = ""
        for at in range(begin, len(self.messages)):
            where, message = f"messages[{at}]", as_object(self.messages[at])
            role, calls = as_text(message.get("role")), as_list(message.get("tool_calls"))
            if role == "tool":
                call_id = as_text(message.get("tool_call_id"))
                if waiting.pop(call_id, None) is not None:
                    answered.add(call_id)
                else:
                    what = (
                        "is answered twice" if call_id in answered else "does not stand before it"
                    )
                    self.say("C1", where, f"call {call_id!r} {what}")
            else:
                self._check_answered(waiting)
                answered = set()
                waiting = {
                    as_text(as_object(call).get("id")): f"{where}.tool_calls[{index}]"
                    for index, call in enumerate(calls)
                }
            if at >= self.start:
                self._check_message(message, role, before, where)
                self._check_calls(message, role, calls, where)
            before = role
        self._check_answered(waiting)
        if self.messages and before == "assistant":
            where = f"messages[{len(self.messages) - 1}]"
            self.say("C16", where, "the assistant should not speak last", False)

    def _check_answered(self, waiting: Mapping[str, str]) -> None:
        for call_id, where in waiting.items():
            self.say("C1", where, f"call {call_id!r} is not answered by the next messages")

    def _check_message(self, message: JsonObject, role: str, before: str, where: str) -> None:
        content = message.get("content")
        if role not in _ROLES:
            self.say("C0", f"{where}.role", f"unknown role {role!r}")
        if role == "developer" and _WITHOUT_DEVELOPER.fullmatch(self.model):
            self.say("C5", f"{where}.role", "developer is not taken by this model")
        if role in _INSTRUCTIONS and before and before not in _INSTRUCTIONS:
            late = self.is_own if self.limits is None else takes_late_instructions(self.limits)
            if _ALTERNATING_ID.fullmatch(as_text(self.body.get("model"))):
                self.say("C16", where, "instructions stand in front only")
            elif not late:
                self.say("C16", where, "stands late for some servers", False)
        place = f"{where}.content"
        has_calls = bool(message.get("tool_calls") or message.get("function_call"))
        if content is not None and not isinstance(content, str | list | tuple):
            self.say("C0", place, "must be text or a list of parts")
        elif role == "assistant" and content is None:
            if not has_calls and not message.get("audio") and not message.get("refusal"):
                self.say("C10", place, "neither content nor calls", self.is_own)
        elif content in ("", []):
            told = "leave it out beside calls" if has_calls else "is empty"
            is_refused = content == [] and role != "assistant"
            self.say("C10", place, "is missing" if is_refused else told, is_refused)
        elif content is None:
            self.say("C10", place, "is missing")
        for index, part in enumerate(as_list(content)):
            self._check_part(part, role, f"{place}[{index}]")

    def _check_part(self, part: Json, role: str, where: str) -> None:
        if isinstance(part, str):
            self.say("C0", where, "must be an object, not text", "mistral" in self.model)
            return
        fields = as_object(part)
        kind = as_text(fields.get("type"))
        if not kind:
            self.say("C0", f"{where}.type", "is missing")
        elif kind not in PART_TYPES:
            self.say("C0", f"{where}.type", f"unknown type {kind!r}", self.is_own)
        elif kind == "text" and not as_text(fields.get("text")):
            self.say("C10", f"{where}.text", "is empty", False)
        elif kind == "image_url":
            image = fields.get("image_url")
            url = as_text(image) or as_text(as_object(image).get("url"))
            place = f"{where}.image_url.url"
            if role != "user":
                self.say("C11", where, "images are taken from the user only")
            if self.limits is not None and self.limits.features.get("vision") is False:
                self.say("C14", where, "the model takes no images")
            if not url.strip():
                self.say("C14", place, "a URL or data URL is required")
            else:
                self.check_address(url, place)
            if len(url) > MAX_IMAGE_CHARS:
                message = f"an image of more than {MAX_IMAGE_CHARS:,} characters"
                self.say("C14", "messages", message, False)
        elif role == "tool" and kind in ("file", "input_audio"):
            self.say("C11", where, "a tool message takes text only")
        elif kind == "file" and self.is_own:
            file = as_object(fields.get("file"))
            for key in file.keys() - {"file_data", "file_id", "filename"}:
                self.say("C14", f"{where}.file.{key}", "unknown field")
            if encoded := as_text(file.get("file_data")):
                self.check_address(encoded, f"{where}.file.file_data")

    def _check_calls(self, message: JsonObject, role: str, calls: Json, where: str) -> None:
        where = f"{where}.tool_calls"
        if calls and role != "assistant":
            self.say("C1", where, "only the assistant calls tools")
        if "tool_calls" in message and not calls and self.is_own:
            self.say("C7", where, "must not be empty", message["tool_calls"] == [])
        if len(calls) > MAX_CALLS:
            self.say("C6", where, f"at most {MAX_CALLS} are taken")
        seen: set[str] = set()
        for index, given in enumerate(calls):
            call, place = as_object(given), f"{where}[{index}]"
            call_id = as_text(call.get("id"))
            if call_id in seen:
                self.say("C7", f"{place}.id", "is used twice in one message")
            seen.add(call_id)
            if not call_id:
                self.say("C7", f"{place}.id", "is missing")
            elif len(call_id) > ID_RULE.max_chars:
                message_ = f"has {len(call_id)} characters, at most {ID_RULE.max_chars} are taken"
                self.say("C6", f"{place}.id", message_, self.is_own)
            if call.get("type") == "custom":
                continue
            function = as_object(call.get("function"))
            arguments = function.get("arguments")
            if not NAME_RULE.pattern.fullmatch(as_text(function.get("name"))):
                told = f"must match {NAME_RULE.pattern.pattern}"
                self.say("C7", f"{place}.function.name", told, self.is_own)
            if not isinstance(arguments, str):
                self.say("C7", f"{place}.function.arguments", "must be JSON text", self.is_own)
            elif parse_object(arguments) is None:
                self.say("C7", f"{place}.function.arguments", "is no JSON object", False)
