"""What the checkers of OpenAI's two protocols share: a payload as the server sees it, and rules."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from math import inf
from typing import Any, ClassVar, Final, TypeAlias

from context_assembler.events import Json, JsonObject, broken_bound
from context_assembler.models import ModelLimits
from context_assembler.providers import openai, schemas, wire
from context_assembler.providers.wire import as_list, as_object, as_text, objects_in, peek
from context_assembler.report import Violation

# Whether it is broken, rule, place, what is wrong; and whether the server is sure to refuse it.
Row: TypeAlias = tuple[Any, str, str, str] | tuple[Any, str, str, str, Any]

DATE: Final = r"(-\d{4}-\d{2}-\d{2})?"
# The ids of models that reason whatever effort is asked for.
ALWAYS_REASON: Final = rf"(o[134]|gpt-5)(-(mini|nano|pro|preview))?{DATE}|.*codex.*"
_OWN_ID: Final = r"(gpt-(?!oss)|chatgpt-|codex-|o[134](-|$)).*"  # everybody serves open weights
_PREFIX: Final = r"(azure[-/])?(openai/)?"  # what gateways put before OpenAI's ids
# https://github.com/openai/openai-openapi, CreateModelResponseProperties (read 2026-11-29)
_RANGES: Final = (
    *(("temperature", 0, 2), ("top_p", 0, 1)),
    *(("presence_penalty", -2, 2), ("frequency_penalty", -2, 2)),
)


class Check:
    """One payload, `extra_body` merged in, held against the rules.

    The rules of OpenAI's own server hold if the row, or without one the model's id, says so.
    """

    sources: ClassVar[Mapping[str, str]]
    always_reasons: ClassVar[str] = ALWAYS_REASON
    rules: ClassVar[Mapping[str, str]]  # the protocol's numbers of the rules that both have
    key: ClassVar[str]  # of the messages
    lengths: ClassVar[tuple[tuple[str, int], ...]]  # parameters that bound a reply, and their least
    check_head: Callable[[], None]  # everything but the messages, and what depends on all of them
    check_messages: Callable[[], None]  # the new messages, with the calls that they answer

    def __init__(
        self, payload: JsonObject, limits: ModelLimits | None, today: date | None, start: int
    ) -> None:
        body = dict(as_object(payload))
        extra = as_object(body.pop("extra_body", None))
        self.body, self.found = {**body, **extra}, list[Violation]()
        self.limits, self.today, self.start = limits, today, start
        self.asked = as_text(self.body.get("model"))
        self.model = re.sub(f"^{_PREFIX}", "", self.asked)
        own_id = limits is None and re.fullmatch(_PREFIX + _OWN_ID, self.asked)
        self.is_own = bool(own_id) if limits is None else openai.is_own_api(limits)
        self.can_reason = limits is not None and bool(limits.thinking.kinds)
        self.is_blind = limits is not None and limits.features.get("vision") is False
        given = as_list(peek(self.body.get(self.key)))
        self.messages: Any = given if start else list(map(as_object, given))
        self.tools = objects_in(peek(self.body.get("tools")))

    @classmethod
    def run(
        cls, payload: JsonObject, limits: ModelLimits | None, today: date | None, start: int
    ) -> list[Violation]:
        """Return the rules that are broken; `today` is the day that models are shut down against."""
        checked = cls(payload, limits, today, start)
        if not start:
            checked.hold(checked.common_rows())
            checked.check_head()
        checked.check_messages()
        return checked.found

    def hold(self, rows: Iterable[Row], inside: str = "") -> None:
        """Note the rows that are broken; their places are inside another one."""
        for row in rows:
            if row[0]:
                _, rule, place, message, *sure = row
                harms = "?" if sure and not sure[0] else ""
                found = f"{rule}{harms}", f"{inside}{place}".strip("."), message
                self.found += wire.violations([found], self.sources)

    def number(self, name: str) -> float:
        """Return a parameter that is a number; NaN, which compares to nothing, for others."""
        return wire.as_number(self.body.get(name))

    def reasons(self, effort: Json) -> bool:
        """Whether the model reasons: by its id, or by its row and the effort asked for.

        Models that take every temperature are not held to the rules for reasoning.
        """
        if re.fullmatch(self.always_reasons, self.model):
            return True
        if self.limits is None or not self.can_reason:
            return False
        settled = effort or self.limits.thinking.default_level
        return self.limits.parameters.temperature != "always" and settled not in (None, "none")

    def common_rows(self) -> Iterable[Row]:
        """Yield what both protocols have: JSON, dates, sampling, number of tools."""
        rules, body = self.rules, self.body
        broken = broken_bound({**body, self.key: self.messages})
        gone = self.limits.retires_on if self.limits is not None else None
        is_gone = self.is_own and gone and self.today and gone <= self.today
        yield broken, rules["shape"], "", f"cannot be sent as JSON: {broken}"
        yield is_gone, rules["retired"], "model", f"was shut down on {gone}"
        for name, low, high in _RANGES:
            is_low, is_high = self.number(name) < low, self.number(name) > high
            told = f"must be between {low} and {high}"
            yield is_low or is_high, rules["sampling"], name, told, self.is_own or is_low
        most = (self.limits.output_tokens if self.limits and self.is_own else None) or inf
        for name, least in self.lengths:
            is_odd = self.number(name) < least or self.number(name) > most
            told = f"must be between {least} and {most:,}"
            yield is_odd, rules["length"], name, told, self.is_own or self.number(name) < 1
        is_many = len(self.tools) > openai.MAX_TOOLS and self.is_own
        yield is_many, rules["tools"], "tools", f"at most {openai.MAX_TOOLS} are taken"

    def lacks_json(self, asked: JsonObject) -> bool:
        """Whether JSON is asked for without a schema, and no message says the word."""
        given = self.body.get(self.key)
        said = [given] if isinstance(given, str) else []
        said += [one.get("content") or one.get("output") for one in self.messages]
        is_asked = self.is_own and asked.get("type") == "json_object"
        return is_asked and not any("json" in str(text).lower() for text in said)

    def choice_rows(self, offered: Iterable[JsonObject]) -> Iterable[Row]:
        """Yield what the choice of a tool names that is not offered."""
        fields = as_object(self.body.get("tool_choice"))
        listed = fields.get("tools") or as_object(fields.get("allowed_tools")).get("tools")
        chosen = [(f"tool_choice[{at}]", one) for at, one in enumerate(objects_in(listed))]
        chosen += [("tool_choice", fields)] * (fields.get("type") in ("function", "custom"))
        known = {(as_text(tool.get("type")), wire.tool_name(tool)) for tool in offered}
        known |= {(kind, "") for kind, _ in known}
        for where, one in chosen:
            name = wire.tool_name(one)
            is_odd = (as_text(one.get("type")), name) not in known
            yield is_odd, self.rules["choice"], where, f"tool {name!r} is not offered"

    def sampling_rows(self) -> Iterable[Row]:
        """Yield what of the sampling a model does not take while it reasons."""
        message = "only the default of 1 is taken while the model reasons"
        for name in ("temperature", "top_p"):
            value = self.number(name)
            yield value < 1 or value > 1, self.rules["sampling"], name, message

    def tool_rows(self, placed: Iterable[tuple[str, JsonObject]], pattern: Any) -> Iterable[Row]:
        """Yield what is wrong with names and schemas of functions, given with their places.

        Source:
            https://developers.openai.com/api/docs/guides/function-calling (read 2026-11-27)
            https://github.com/spacelift-io/spacectl/issues/402
            https://github.com/BerriAI/litellm/pull/40485 (read 2026-11-29)
        """
        rules, is_own = self.rules, self.is_own
        for where, function in placed:
            name, schema = as_text(function.get("name")), function.get("parameters")
            place, root = f"{where}.parameters", as_object(schema)
            is_odd = not pattern.fullmatch(name)
            yield is_odd, rules["name"], f"{where}.name", f"must match {pattern.pattern}"
            is_other = root and root.get("type") != "object"
            yield is_other, rules["schema"], f"{place}.type", "must be 'object'", is_own
            for key in schemas.ROOT_UNIONS:
                yield key in root, rules["schema"], f"{place}.{key}", "no union at the root", is_own
            for one in schemas.walk_schemas(schema):
                is_bare = one.get("type") == "array" and "items" not in one
                yield is_bare, rules["schema"], place, "an array needs items", is_own
                is_odd = not schemas.compiles(as_text(one.get("pattern")))
                yield is_odd, rules["schema"], place, "Python refuses a pattern", is_own
            yield self.strict_row(function, "parameters", place)

    def call_rows(self, call: JsonObject, key: str, pattern: Any, place: str = "") -> Iterable[Row]:
        """Yield what is wrong with a call's name, and with its arguments or input: the key."""
        rule, own, given = self.rules["name"], self.is_own, call.get(key)
        is_odd, is_text = not pattern.fullmatch(as_text(call.get("name"))), isinstance(given, str)
        yield is_odd, rule, f"{place}.name", f"must match {pattern.pattern}", own
        told = "must be JSON text" if key == "arguments" else "must be text"
        yield not is_text, rule, f"{place}.{key}", told, own
        is_odd = key == "arguments" and is_text and wire.parse_object(str(given)) is None
        yield is_odd, rule, f"{place}.{key}", "is not a JSON object", False

    def strict_row(self, holder: JsonObject, key: str, where: str) -> Row:
        """Return whether strict mode, if it is asked for, does not take a schema."""
        is_strict = holder.get("strict") is True
        objection = schemas.objection_to_strict(holder.get(key)) if is_strict else None
        message = f"strict mode does not take this schema: {objection}"
        return objection, self.rules["strict"], where, message, self.is_own

    def address_rows(self, url: str, where: str) -> Iterable[Row]:
        """Yield whether an address cannot be fetched."""
        if not url:
            return
        from context_assembler.providers import media

        rule, scheme = self.rules["media"], media.scheme_of(url)
        message = f"cannot be fetched: {scheme or 'no'} scheme, only https"
        yield scheme not in (*media.WEB_SCHEMES, "data"), rule, where, message, self.is_own
