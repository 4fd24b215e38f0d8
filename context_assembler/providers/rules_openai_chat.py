"""The rules of Chat Completions: what it refuses, and what merely harms."""

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from context_assembler.events import Json, JsonObject
from context_assembler.models import ModelLimits
from context_assembler.providers import openai_chat, wire
from context_assembler.providers.openai_chat import ID_RULE, MAX_CALLS, NAME_RULE, REASONING_FIELDS
from context_assembler.providers.rules_openai import DATE, Check, Row
from context_assembler.providers.wire import as_list, as_object, as_text

_SPEC: Final = "https://github.com/openai/openai-openapi, CreateChatCompletionRequest"
_GUIDES: Final = "https://developers.openai.com/api/docs/guides"

SOURCES: Final = wire.sources_of(f"""
C0: {_SPEC} | C4: {_SPEC}.max_tokens | C6: {_SPEC}.tools | C7: {_SPEC}, FunctionObject |
C1: https://github.com/agno-agi/agno/issues/4345 | C3: {_GUIDES}/latest-model |
C2: https://github.com/danny-avila/LibreChat/issues/14231 | C8: {_GUIDES}/function-calling |
C5: {_SPEC}, developer message | C9: {_SPEC}.response_format, .stop |
C10: {_SPEC}, assistant message, content | C11: {_SPEC}, tool message, content |
C12: {_GUIDES}/structured-outputs | C13: {_GUIDES}/reasoning | C14: {_GUIDES}/images-vision |
C17: https://developers.openai.com/api/docs/deprecations |
C16: https://docs.mistral.ai/api (chat completions, order of roles) |
C18: https://api-docs.deepseek.com/guides/thinking_mode, and the sources in the model's row
""")
"""Rule → where it is written."""

_ROLES: Final = ("developer", "system", "user", "assistant", "tool", "function")
_INSTRUCTIONS: Final = ("developer", "system")
_ANYWHERE: Final = ("user", "assistant", "tool")  # roles of which text breaks no rule
# What the id alone decides. Each was refused in so many words: "'messages[0].role' does not support
# 'developer' with this model.", "Web search options not supported with this model." …
_WITHOUT_STOP: Final = re.compile(rf"(o1(-mini|-preview)?|o3(-pro)?|o4-mini|gpt-5(-\w+)?){DATE}")
_WITHOUT_DEVELOPER: Final = re.compile(rf"o1-(mini|preview){DATE}")
_WITHOUT_JSON_SCHEMA: Final = re.compile(
    r"gpt-4(-\d{4})?|gpt-4-turbo.*|gpt-3\.5-turbo.*|gpt-4o-2024-05-13"
)
_MISTRAL_ID: Final = re.compile(r"(.*/)?(open-)?[a-z]*tral.*")
_ALTERNATING_ID: Final = re.compile(rf"(.*/)?sonar.*|{_MISTRAL_ID.pattern}")


# How servers are asked not to think: in `thinking`, in `reasoning`, or by itself.
_UNTHINKING: Final = (
    *(("type", "disabled"), ("enabled", False)),
    *(("enable_thinking", False), ("reasoning_effort", "none")),
)


class _Chat(Check):
    sources, key = SOURCES, "messages"
    lengths = ("max_completion_tokens", 1), ("max_tokens", 1)
    rules: ClassVar[Mapping[str, str]] = wire.sources_of(
        "shape: C0 | retired: C17 | sampling: C3 | name: C7 | schema strict: C8 | "
        "tools choice: C6 | media: C14 | length: C9"
    )

    @property
    def thinks(self) -> bool:
        """Whether the request does not switch thinking off."""
        body = self.body
        asked = {**as_object(body.get("thinking")), **as_object(body.get("reasoning")), **body}
        return all(asked.get(key) != off for key, off in _UNTHINKING)

    def check_head(self) -> None:
        """Check everything but the messages, and what depends on all of them."""
        body, limits, own = self.body, self.limits, self.is_own
        effort, routed = body.get("reasoning_effort"), as_object(body.get("reasoning"))
        reasons = own and self.reasons(effort)
        if reasons:
            self.hold(self.sampling_rows())
        if limits is not None:
            self.hold(self._reasoning_rows(limits, effort, routed))
        self.hold(self._tool_rows())
        chosen = as_object(body.get("response_format"))
        place = "response_format.json_schema.schema"
        wants_schema = chosen.get("type") == "json_schema"
        has_none = wants_schema and _WITHOUT_JSON_SCHEMA.fullmatch(self.model)
        can_search = "search" in self.model or body.get("web_search_options") is None
        has_old = own and body.get("max_tokens") is not None
        stops = own and _WITHOUT_STOP.fullmatch(self.model) and body.get("stop")
        most_stops = openai_chat.MAX_STOP_SEQUENCES
        told = "is not taken while the model reasons"
        many_stops = own and len(as_list(body.get("stop"))) > most_stops
        rows: list[Row] = [
            (not self.asked, "C0", "model", "a model id belongs here", False),
            (not self.messages, "C0", "messages", "at least one message is required"),
            (reasons and body.get("logprobs") is True, "C3", "logprobs", told),
            (has_old, "C4", "max_tokens", "use max_completion_tokens", reasons or self.can_reason),
            (stops, "C3", "stop", "is not taken by this model"),
            (self.lacks_json(chosen), "C9", "response_format", "a message must say 'json'"),
            (has_none, "C12", "response_format.type", "json_schema is not taken by this model"),
            (own and not can_search, "C12", "web_search_options", "is not taken by this model"),
            (many_stops, "C9", "stop", f"at most {most_stops} are taken"),
            self.strict_row(as_object(chosen.get("json_schema")), "schema", place),
        ]
        for name in ("presence_penalty", "frequency_penalty"):
            rows += [(reasons and self.number(name) != 0 and name in body, "C3", name, told)]
        self.hold(rows)

    def _reasoning_rows(
        self, limits: ModelLimits, effort: Json, routed: JsonObject
    ) -> Iterable[Row]:
        levels = limits.thinking.levels
        for where, level in (("_effort", effort), (".effort", routed.get("effort"))):
            is_odd = isinstance(level, str) and levels and level not in levels
            told = f"not a level of the model ({', '.join(levels)}): {level!r}"
            yield is_odd, "C13", f"reasoning{where}", told
        is_off = routed.get("enabled") is False and levels and "none" not in levels
        is_off = is_off and limits.thinking.disable == "no"
        yield is_off, "C13", "reasoning.enabled", "the model always reasons"
        is_bound = self.tools and limits.features.get("chat_tools_with_reasoning") is False
        is_open = effort is None and "none" in levels
        message = "the model takes function tools in the Responses API only"
        if "none" in levels:
            message = "function tools are taken with the effort 'none', or in the Responses API"
        is_broken = is_bound and not is_open and effort != "none"
        yield is_broken, "C2", "reasoning_effort", message, self.is_own

    def _tool_rows(self) -> Iterable[Row]:
        body, placed = self.body, list[tuple[str, JsonObject]]()
        for at, tool in enumerate(self.tools):
            if (kind := as_text(tool.get("type"))) in ("function", "custom"):
                placed.append((f"tools[{at}].{kind}", as_object(tool.get(kind))))
        yield from self.tool_rows(placed, NAME_RULE.pattern)
        has_none = self.is_own and not self.tools and not body.get("functions")
        for name in ("tool_choice", "parallel_tool_calls"):
            yield has_none and body.get(name) is not None, "C6", name, "is only taken with tools"
        yield from self.choice_rows(self.tools)

    def check_messages(self) -> None:
        """Check the new messages, with the calls that they answer."""
        begin = self.start
        while begin and self.messages[begin - 1].get("role") == "tool":
            begin -= 1
        waiting, answered, before = dict[str, str](), set[str](), ""
        for at in range(max(begin - 1, 0), len(self.messages)):
            where, message = f"messages[{at}]", self.messages[at]
            role, calls = as_text(message.get("role")), as_list(message.get("tool_calls"))
            if role == "tool":
                call_id = as_text(message.get("tool_call_id"))
                is_lost = waiting.pop(call_id, None) is None
                what = "is answered twice" if call_id in answered else "does not stand before it"
                answered.add(call_id)
                self.hold([(is_lost, "C1", where, f"call {call_id!r} {what}")])
            else:
                self._check_answered(waiting)
                ids = [as_text(as_object(call).get("id")) for call in calls]
                places = (f"{where}.tool_calls[{index}]" for index in range(len(ids)))
                waiting, answered = dict(zip(ids, places, strict=True)), set[str]()
            content = message.get("content")
            is_plain = role in _ANYWHERE and content.__class__ is str and content
            if at >= self.start and (not is_plain or "tool_calls" in message):
                self.hold(self._message_rows(message, role, before), where)
                self.hold(self._call_rows(message, role, calls), f"{where}.tool_calls")
                for index, part in enumerate(as_list(content)):
                    self.hold(self._part_rows(part, role), f"{where}.content[{index}]")
            before = role
        self._check_answered(waiting)

    def _check_answered(self, waiting: Mapping[str, str]) -> None:
        for call_id, where in waiting.items():
            self.hold([(True, "C1", where, f"call {call_id!r} is not answered next")])

    def _message_rows(self, message: JsonObject, role: str, before: str) -> Iterable[Row]:
        content, is_reply, limits = message.get("content"), role == "assistant", self.limits
        has_calls = message.get("tool_calls") or message.get("function_call")
        is_silent = not has_calls and not message.get("audio") and not message.get("refusal")
        is_odd = content is not None and not isinstance(content, str | list | tuple)
        is_missing = content is None or content == []
        is_late = role in _INSTRUCTIONS and before and before not in _INSTRUCTIONS
        is_strict = _ALTERNATING_ID.fullmatch(self.asked)
        takes = self.is_own if limits is None else openai_chat.takes_late_instructions(limits)
        no_developer = role == "developer" and _WITHOUT_DEVELOPER.fullmatch(self.model)
        is_lost = is_reply and content is None and is_silent
        back = limits.thinking.back if limits is not None and message.get("tool_calls") else None
        thinks = back and not any(map(message.get, REASONING_FIELDS)) and self.thinks
        thinks = thinks and "<think>" not in as_text(content)  # as MiniMax says it
        yield role not in _ROLES, "C0", ".role", f"unknown role {role!r}"
        yield no_developer, "C5", ".role", "developer is not taken by this model"
        yield is_late and is_strict, "C16", "", "instructions stand in front only"
        yield is_late and not is_strict and not takes, "C16", "", "too late for some servers", False
        yield is_odd, "C0", ".content", "must be text or a list of parts"
        yield is_lost, "C10", ".content", "neither content nor calls", self.is_own
        yield is_missing and not is_reply, "C10", ".content", "is missing"
        told = "the model wants its reasoning back next to its calls"
        must = limits is not None and limits.supports("reasoning_back")
        yield thinks, "C18", f".{REASONING_FIELDS[0]}", told, must

    def _part_rows(self, part: Json, role: str) -> Iterable[Row]:
        fields, is_text = as_object(part), isinstance(part, str)
        kind, own = as_text(fields.get("type")), self.is_own
        yield is_text, "C0", "", "must be an object, not text", "mistral" in self.model
        yield not kind and not is_text, "C0", ".type", "is missing"
        is_unknown = kind and kind not in openai_chat.PART_TYPES
        yield is_unknown, "C0", ".type", f"unknown type {kind!r}", own
        is_file = kind in ("file", "input_audio") and role == "tool"
        yield is_file, "C11", "", "a tool message takes text only"
        is_deaf = kind == "input_audio" and own and not openai_chat.takes_audio(self.model)
        yield is_deaf, "C14", "", "the model takes no sound"
        if kind == "image_url":
            image = fields.get("image_url")
            url = as_text(image) or as_text(as_object(image).get("url"))
            # https://docs.mistral.ai/api: a tool's message takes what a user's does.
            is_taken = role == "user" or (role == "tool" and _MISTRAL_ID.fullmatch(self.asked))
            yield not is_taken, "C11", "", "images are taken from the user only", own
            yield self.is_blind, "C14", "", "the model takes no images"
            yield not url.strip(), "C14", ".image_url.url", "a URL or data URL is required"
            yield from self.address_rows(url.strip(), ".image_url.url")
        elif kind == "file" and own and not is_file:
            file = as_object(fields.get("file"))
            for key in file.keys() - {"file_data", "file_id", "filename"}:
                yield True, "C14", f".file.{key}", "unknown field"
            yield from self.address_rows(as_text(file.get("file_data")), ".file.file_data")

    def _call_rows(self, message: JsonObject, role: str, calls: Json) -> Iterable[Row]:
        own, seen, most = self.is_own, set[str](), ID_RULE.max_chars
        given = message.get("tool_calls")
        yield calls and role != "assistant", "C1", "", "only the assistant calls tools"
        is_empty = own and "tool_calls" in message and not calls
        yield is_empty, "C7", "", "must not be empty", given == []
        yield len(calls) > MAX_CALLS, "C6", "", f"at most {MAX_CALLS} are taken"
        for index, one in enumerate(calls):
            call, place = as_object(one), f"[{index}]"
            call_id, function = as_text(call.get("id")), as_object(call.get("function"))
            yield call_id in seen, "C7", f"{place}.id", "is used twice in one message"
            seen.add(call_id)
            yield not call_id, "C7", f"{place}.id", "is missing"
            message_ = f"has {len(call_id)} characters, at most {most} are taken"
            yield len(call_id) > most, "C6", f"{place}.id", message_, own
            if call.get("type") != "custom":
                place = f"{place}.function"
                yield from self.call_rows(function, "arguments", NAME_RULE.pattern, place)


check: Final = _Chat.run
