"""What the checkers of OpenAI's two protocols share: a payload as the server sees it, and rules."""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, ClassVar, Final

from context_assembler.events import Json, JsonObject
from context_assembler.models import ModelLimits
from context_assembler.providers.lent import peek
from context_assembler.providers.media import WEB_SCHEMES, objection_to_data_url, scheme_of
from context_assembler.providers.openai import (
    MAX_CACHE_KEY_CHARS,
    MAX_IMAGES,
    MAX_TOOLS,
    is_own_api,
)
from context_assembler.providers.schemas import (
    ROOT_UNIONS,
    compiles,
    objection_to_strict,
    walk_schemas,
)
from context_assembler.providers.wire import as_list, as_object, as_text, broken_bound
from context_assembler.report import Violation

READ_ON: Final = "2026-11-27"
DATE: Final = r"(-\d{4}-\d{2}-\d{2})?"
# The ids of models that reason whatever effort is asked for.
ALWAYS_REASON: Final = rf"(o[134]|gpt-5)(-(mini|nano|pro|preview))?{DATE}"
_OWN_ID: Final = r"(gpt-(?!oss)|chatgpt-|o[134](-|$)).*"  # everybody else serves open weights
_ONE_RETENTION: Final = re.compile(r"gpt-(5\.[5-9]|[6-9]).*")


class Check:
    """One payload, `extra_body` merged in, held against the rules.

    The rules of OpenAI's own server hold if the row, or without one the model's id, says so.
    """

    sources: ClassVar[Mapping[str, str]]
    prefix: ClassVar[str]  # what gateways put before OpenAI's ids
    always_reasons: ClassVar[str] = ALWAYS_REASON
    rules: ClassVar[Mapping[str, str]]  # the protocol's numbers of the rules that both have
    key: ClassVar[str]  # of the messages

    def __init__(
        self, payload: JsonObject, limits: ModelLimits | None, today: date | None, start: int
    ) -> None:
        body = dict(as_object(payload))
        self.body = {**body, **as_object(body.pop("extra_body", None))}
        self.limits, self.today, self.start = limits, today, start
        asked = as_text(self.body.get("model"))
        self.model = re.sub(f"^{self.prefix}", "", asked)
        own_id = re.fullmatch(self.prefix + _OWN_ID, asked) is not None
        self.is_own = own_id if limits is None else is_own_api(limits)
        self.messages: list[Json] = list(as_list(peek(self.body.get(self.key))))
        self.tools = [t for t in as_list(peek(self.body.get("tools"))) if isinstance(t, dict)]
        self.found: list[Violation] = []

    def say(self, rule: str, where: str, message: str, is_refused: Any = True) -> None:
        """Note a violation: `avoid` if it is not sure that the server refuses."""
        source = f"{self.sources[rule]} (read {READ_ON})"
        level: Any = "refused" if is_refused else "avoid"
        where = where.strip(".")
        violation = Violation(rule=rule, level=level, where=where, message=message, source=source)
        self.found.append(violation)

    def number(self, name: str) -> float | None:
        """Return a parameter that is a number."""
        value = self.body.get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return value if is_number else None

    def reasons(self, effort: Json) -> bool:
        """Whether the model reasons: by its id, or by its row and the effort asked for.

        Models that take every temperature are not held to the rules for reasoning.
        """
        if re.fullmatch(self.always_reasons, self.model):
            return True
        if self.limits is None or not self.limits.thinking.kinds:
            return False
        settled = effort or self.limits.thinking.default_level
        return self.limits.parameters.temperature != "always" and settled not in (None, "none")

    def check_settings(self) -> None:
        """Check what both protocols have: dates, metadata, cache, and that it is JSON."""
        rules, body = self.rules, self.body
        if (broken := broken_bound({**body, self.key: self.messages})) is not None:
            self.say(rules["shape"], "", f"cannot be sent as JSON: {broken}")
        gone = self.limits.retires_on if self.limits is not None else None
        if self.is_own and gone is not None and self.today is not None and gone <= self.today:
            self.say(rules["retired"], "model", f"was shut down on {gone}")
        metadata = as_object(body.get("metadata"))
        if len(metadata) > 16:
            self.say(rules["metadata"], "metadata", "at most 16 keys are taken")
        for key, value in metadata.items():
            if len(key) > 64 or len(as_text(value)) > 512:
                message = "a key has at most 64 characters, a value 512"
                self.say(rules["metadata"], f"metadata.{key:.20}", message)
        if len(as_text(body.get("prompt_cache_key"))) > MAX_CACHE_KEY_CHARS:
            message = f"at most {MAX_CACHE_KEY_CHARS} characters"
            self.say(rules["cache"], "prompt_cache_key", message)
        is_short = body.get("prompt_cache_retention") == "in_memory"
        if is_short and self.is_own and _ONE_RETENTION.fullmatch(self.model):
            self.say(rules["cache"], "prompt_cache_retention", "is '24h' with this model")

    def check_sampling(self) -> None:
        """Check what of the sampling a model does not take while it reasons."""
        for name in ("temperature", "top_p"):
            if self.number(name) not in (None, 1):
                message = "only the default of 1 is taken while the model reasons"
                self.say(self.rules["sampling"], name, message)

    def check_tools(self, placed: Iterable[tuple[str, JsonObject]], pattern: Any) -> None:
        """Check the names and schemas of functions, with their places.

        Source:
            https://developers.openai.com/api/docs/guides/function-calling (read 2026-11-27)
            https://github.com/spacelift-io/spacectl/issues/402
            https://github.com/BerriAI/litellm/pull/40485 (read 2026-11-29)
        """
        names: set[str] = set()
        for where, function in placed:
            name, schema = as_text(function.get("name")), function.get("parameters")
            if not pattern.fullmatch(name):
                self.say(self.rules["name"], f"{where}.name", f"must match {pattern.pattern}")
            if name in names:
                self.say(self.rules["name"], f"{where}.name", f"{name!r} is taken", False)
            names.add(name)
            place, root = f"{where}.parameters", as_object(schema)
            flaws = [(".type", "must be 'object'")] * bool(root and root.get("type") != "object")
            flaws += [(f".{key}", "no union at the root") for key in ROOT_UNIONS if key in root]
            for one in walk_schemas(schema):
                if one.get("type") == "array" and "items" not in one:
                    flaws.append(("", "an array needs items"))
                if not compiles(as_text(one.get("pattern"))):
                    flaws.append(("", "a pattern is written as Python takes it"))
            for inside, message in flaws:
                self.say(self.rules["schema"], place + inside, message, self.is_own)
            self.check_strict(function.get("strict"), schema, place)

    def check_tool_count(self, count: int) -> None:
        """Check that there are not too many tools."""
        if count > MAX_TOOLS and self.is_own:
            message = f"{count} tools, at most {MAX_TOOLS} are taken"
            self.say(self.rules["tools"], "tools", message)

    def check_strict(self, is_strict: Json, schema: Json, where: str) -> None:
        """Check that strict mode, if it is asked for, takes a schema."""
        objection = objection_to_strict(schema) if is_strict is True else None
        if objection is not None:
            message = f"strict mode does not take this schema: {objection}"
            self.say(self.rules["strict"], where, message, self.is_own)

    def check_address(self, url: str, where: str) -> None:
        """Check that an address can be fetched, or that a data URL holds what it says."""
        rule, scheme = self.rules["media"], scheme_of(url)
        if (objection := objection_to_data_url(url)) is not None:
            self.say(rule, where, objection, False)
        elif scheme != "data" and scheme not in WEB_SCHEMES:
            message = f"cannot be fetched: {scheme or 'no'} scheme, only https"
            self.say(rule, where, message, self.is_own)

    def check_pieces(self, pieces: Iterable[JsonObject], image_type: str) -> None:
        """Check how many images and cache marks there are in all content."""
        images = marks = 0
        for piece in pieces:
            images += piece.get("type") == image_type
            marks += "prompt_cache_breakpoint" in piece
        if images > MAX_IMAGES:
            message = f"{images} images; some versions take {MAX_IMAGES}"
            self.say(self.rules["media"], self.key, message, False)
        if marks > 4:
            message = f"of {marks} marks the latest 4 are written"
            self.say(self.rules["cache"], self.key, message, False)
