"""The rules of `generate_content`: what it refuses, and what merely harms.

Keyword arguments of the SDK are read, and bodies of requests, whose model is in the URL.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final, NamedTuple

from context_assembler.events import Json, JsonObject
from context_assembler.models import ModelLimits
from context_assembler.providers import gemini, media, wire
from context_assembler.providers.gemini import KINDS, snake_fields
from context_assembler.providers.lent import peek
from context_assembler.providers.schemas import target_of, walk_schemas
from context_assembler.providers.wire import as_list, as_object, as_text
from context_assembler.report import Violation

_DOCS: Final = "https://ai.google.dev/gemini-api/docs"
_API: Final = "https://ai.google.dev/api/generate-content"
_SDK: Final = "docstrings of google.genai.types, google-genai 3.6"

SOURCES: Final = wire.sources_of(f"""
G0: {_API}, {_SDK}: Part, Content | G2: https://github.com/google-gemini/gemini-cli/issues/5443 |
G1: {_SDK}: Content.role; https://github.com/crewAIInc/crewAI/pull/6973 | G12: {_DOCS}/files |
G3: https://github.com/google-gemini/gemini-cli/issues/26956 | G4 G5: {_DOCS}/thought-signatures |
G6: {_SDK}: FunctionResponse | G8: {_SDK}: Schema, FunctionDeclaration.parameters_json_schema |
G7: {_SDK}: FunctionDeclaration; https://github.com/kaitranntt/ccs/issues/25 |
G9: https://github.com/BerriAI/litellm/issues/17304 | G11: {_DOCS}/media-resolution |
G10: {_DOCS}/thinking, {_API}#GenerationConfig | G13: {_API}, {_SDK}: Content.parts |
G14: {_DOCS}/structured-output | G16: https://github.com/ag2ai/ag2/pull/3145 |
G15: {_DOCS}/function-calling; https://github.com/UKGovernmentBEIS/inspect_ai/issues/2462
""")
"""Rule → where it is written."""

UNCHECKED: Final[Mapping[str, str]] = {
    "G4": "Which model, key and route a signature was made with: it does not show.",
    "G5": "Whether signed parts go back as they came: only who has the reply can tell.",
    "G9": "Whether the cached content still exists, and was made for this model.",
    "G12": "The size, type and pages of what is at an address.",
}
"""Rule → what of it a look at a payload cannot find."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_MAX_ADVISABLE_CHARS: Final = 20 * 1024 * 1024
# Announced with implicit caching alone: its page of the models, and that of caching (2026-11-27).
_WITHOUT_CACHES: Final = re.compile(r"(models/)?gemini-4-argon(-.*)?")
# Docstring of `google.genai.types.FunctionDeclaration.parameters`, google-genai 3.6 (2026-11-27)
_PARAMETER_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
# What a schema in `parameters` may say: the OpenAPI subset, by the SDK's names.
_SCHEMA_FIELDS: Final = frozenset(
    "type format title description nullable enum items max_items min_items properties required "
    "min_properties max_properties minimum maximum min_length max_length pattern example any_of "
    "property_ordering default".split()
)
_VERTEX_FIELDS: Final = frozenset({"additional_properties", "ref", "defs"})


class _Part(NamedTuple):
    """A part, its fields by the SDK's names."""

    where: str
    fields: dict[str, Json]

    def of(self, key: str) -> dict[str, Json]:
        """Return its call or response; empty: it has none."""
        return snake_fields(self.fields.get(key))


class _Content(NamedTuple):
    where: str
    role: str
    parts: list[_Part]

    @property
    def calls(self) -> list[_Part]:
        return [part for part in self.parts if "function_call" in part.fields]

    @property
    def responses(self) -> list[_Part]:
        return [part for part in self.parts if "function_response" in part.fields]


def _listed(value: Json) -> list[Json]:
    """Return a list's entries; a lone object or text is a list of itself."""
    return [value] if isinstance(value, Mapping | str) else peek(value)


class _Sent:
    """A payload: contents, and everything else flat in `config`, however it was nested."""

    def __init__(
        self, payload: JsonObject, limits: ModelLimits | None, today: date | None, start: int
    ) -> None:
        fields = snake_fields(payload)
        self.is_sdk = "config" in fields or fields.keys() == {"model", "contents"}
        apart = ("model", "contents", "config", "generation_config")
        rest = {key: held for key, held in fields.items() if key not in apart}
        nested = (snake_fields(fields.get(key)) for key in ("config", "generation_config"))
        own, generation_config = nested
        self.config = {**own, **rest, **generation_config}
        self.given_model = as_text(fields.get("model"))
        self.limits = limits
        self.model = limits.id if limits is not None else self.given_model
        retires = limits.retires_on if limits is not None else None
        is_retired = today is not None and retires is not None and today >= retires
        self.generation = None if is_retired else gemini.generation_of(self.model)
        self.is_vertex = limits is not None and limits.host == "vertex_ai"
        self.contents = list(self._contents(fields.get("contents"), start))
        self.tools = [
            (f"{self.place('tools')}[{at}]", snake_fields(tool))
            for at, tool in enumerate(_listed(self.config.get("tools")))
        ]
        self.functions = [
            (f"{where}.function_declarations[{at}]", snake_fields(function))
            for where, tool in self.tools
            for at, function in enumerate(_listed(tool.get("function_declarations")))
        ]

    @property
    def is_unsigned(self) -> bool:
        """Whether the model is known to be older than signed calls and levels of thinking."""
        return self.generation is not None and self.generation < gemini.SIGNED

    @property
    def is_signed(self) -> bool:
        """Whether the model is known to insist on signed calls, and to think by levels."""
        return self.generation is not None and self.generation >= gemini.SIGNED

    def place(self, key: str) -> str:
        """Return the place of a setting."""
        return f"config.{key}" if self.is_sdk else key

    def _contents(self, value: Json, start: int) -> Iterator[_Content]:
        entries = _listed(value)
        is_bare = not any(isinstance(e, Mapping) and {"parts", "role"} & e.keys() for e in entries)
        if entries and is_bare:  # parts without contents: one content of the user
            yield _Content("contents", "user", _parts("contents", value))
            return
        first = max(0, start - 2)  # new responses belong to the calls before them
        while first and as_object(entries[first]).get("role") != "model":
            first -= 1
        self.first = first
        for at, entry in enumerate(entries[first:], first):
            fields, where = snake_fields(entry), f"contents[{at}]"
            parts = _parts(f"{where}.parts", fields.get("parts"))
            yield _Content(where, as_text(fields.get("role", "user")), parts)

    first = 0


def _parts(where: str, value: Json) -> list[_Part]:
    return [
        _Part(f"{where}[{at}]", {"text": part} if isinstance(part, str) else snake_fields(part))
        for at, part in enumerate(_listed(value))
    ]


def check(
    payload: JsonObject, limits: ModelLimits | None, today: date | None, start: int
) -> list[Violation]:
    """Return the rules that are broken, in their order.

    From the day on that a model retires another one answers for it, and rules of its generation are
    left out.
    """
    sent = _Sent(payload, limits, today, start)
    rules = _CONTENT_RULES if start else (*_CONTENT_RULES, *_HEAD_RULES)
    return wire.violations((found for find in rules for found in find(sent)), SOURCES)


# ---- contents ----


def _shape(s: _Sent) -> Iterator[wire.Found]:
    if not s.contents:
        yield "G0", "contents", "at least one content is required"
    for content in s.contents:
        if not content.parts:
            yield "G13", f"{content.where}.parts", "at least one part is required"
        for where, fields in content.parts:
            kinds = sorted(KINDS & fields.keys())
            text, signature = fields.get("text", ""), fields.get("thought_signature", "")
            for name in sorted(fields.keys() - KINDS - gemini.MARKS):
                yield "G0", f"{where}.{name:.40}", "unknown field: neither SDK nor API takes it"
            if not kinds and not signature:
                yield "G0", where, "holds none of the things that a part can hold"
            if len(kinds) > 1:
                yield "G0", where, f"holds more than one thing: {', '.join(kinds)}"
            if not isinstance(text, str):
                yield "G0", f"{where}.text", "must be text"
            elif "text" in fields and not text.strip() and not signature:
                yield "G13?", f"{where}.text", "is blank"
            if not isinstance(signature, str) or not _BASE64.fullmatch(signature):
                yield "G5", f"{where}.thought_signature", "must be base64, as it came"


def _roles(s: _Sent) -> Iterator[wire.Found]:
    for where, role, _ in s.contents:
        if role == "function":
            yield "G1?", f"{where}.role", "responses of functions belong to the user"
        elif role not in ("user", "model"):
            yield "G1", f"{where}.role", f"{role!r} is none of user and model"
    if s.contents and s.contents[0].role == "model" and not s.first:
        yield "G1?", s.contents[0].where, "the user should speak first"
    if s.contents and s.contents[-1].role == "model":
        yield "G1?", s.contents[-1].where, "the model should not speak last"


def _pairs(s: _Sent) -> Iterator[wire.Found]:
    for at, content in enumerate(s.contents):
        if content.role != "model" or not (calls := content.calls):
            continue
        answers: list[_Content] = []
        for answer in s.contents[at + 1 :]:
            if answer.role == "model" or not answer.responses:
                break
            answers.append(answer)
        responses = [part for answer in answers for part in answer.responses]
        if len(responses) != len(calls):
            message = f"{len(calls)} call(s), but {len(responses)} response(s) after them"
            yield "G2", content.where, message
            continue
        if len(answers) > 1:
            # Recorded requests to gemini-2.5-flash with one content per response were accepted.
            message = "responses of one set of calls belong into one content"
            yield "G2" if s.is_signed else "G2?", answers[1].where, message
        called = [_key(part.of("function_call")) for part in calls]
        answered = [_key(part.of("function_response")) for part in responses]
        if not all(call_id for call_id, _ in (*called, *answered)):  # then by name alone
            called, answered = ([("", name) for _, name in keys] for keys in (called, answered))
        is_known = Counter(called) == Counter(answered)
        message = "is not in the order of the calls" if is_known else "answers none of the calls"
        for call, key, part in zip(called, answered, responses, strict=True):
            if call != key:
                yield "G2?", f"{part.where}.function_response", message
        for answer in answers:
            if len(answer.responses) < len(answer.parts):
                yield "G2?", answer.where, "responses should stand alone in their content"


def _key(fields: JsonObject) -> tuple[str, str]:
    return as_text(fields.get("id")), as_text(fields.get("name"))


def _order(s: _Sent) -> Iterator[wire.Found]:
    before: _Content | None = None
    for content in s.contents:
        calls, responses = content.calls, content.responses
        if content.role == "model":
            if calls and before is None and not s.first:
                yield "G3", content.where, "a history cannot begin with a call"
            elif calls and before is not None and before.role == "model":
                yield "G3", content.where, "calls follow the user or a response, not the model"
            for part in responses:
                yield "G3", part.where, "the model answers no calls"
        else:
            if responses and not (before is not None and (before.calls or before.responses)):
                yield "G3", content.where, "responses stand directly after their calls"
            for part in calls:
                yield "G3", part.where, "only the model calls"
        before = content


def _signatures(s: _Sent) -> Iterator[wire.Found]:
    """In the turn in progress, the first call of each step carries its signature."""
    begin = 0
    for at, content in enumerate(s.contents):
        if content.role != "model" and len(content.responses) < len(content.parts):
            begin = at
    for content in s.contents[begin:] if s.is_signed else ():
        first = content.calls[:1] if content.role == "model" else ()
        for where, fields in first:
            if not fields.get("thought_signature"):
                message = "the first call of a step needs its thought signature"
                yield "G4", f"{where}.thought_signature", message


def _calls(s: _Sent) -> Iterator[wire.Found]:
    for part in (part for content in s.contents for part in content.parts):
        call, response = part.of("function_call"), part.of("function_response")
        if "function_call" in part.fields:
            if not as_text(call.get("name")):
                yield "G7", f"{part.where}.function_call.name", "is missing"
            if call.get("args") is not None and not isinstance(call["args"], Mapping):
                yield "G6", f"{part.where}.function_call.args", "must be an object"
        if "function_response" in part.fields:
            where = f"{part.where}.function_response"
            if not as_text(response.get("name")):
                yield "G6", f"{where}.name", "is missing"
            if not isinstance(response.get("response"), Mapping):
                yield "G6", f"{where}.response", "must be an object"
            if as_list(response.get("parts")) and s.is_unsigned:
                yield "G6", f"{where}.parts", "the model takes no media in a response"
            for at, inner in enumerate(as_list(response.get("parts"))):
                inline = snake_fields(snake_fields(inner).get("inline_data"))
                kind = as_text(inline.get("mime_type"))
                if kind and kind not in gemini.RESPONSE_TYPES:
                    message = f"{kind} is none of {', '.join(gemini.RESPONSE_TYPES)}"
                    yield "G6?", f"{where}.parts[{at}]", message


def _media(s: _Sent) -> Iterator[wire.Found]:
    inline_chars = images = 0
    parts = [part for content in s.contents for part in content.parts]
    for part in list(parts):
        inner = part.of("function_response").get("parts")
        parts += _parts(f"{part.where}.function_response.parts", inner)
    for where, fields in parts:
        inline = snake_fields(fields.get("inline_data"))
        inline_chars += len(as_text(inline.get("data")))
        images += as_text(inline.get("mime_type")).startswith("image/")
        if "inline_data" in fields:
            yield from _inline(s, inline, f"{where}.inline_data")
        if "file_data" in fields:
            address = as_text(snake_fields(fields["file_data"]).get("file_uri"))
            scheme, place = media.scheme_of(address), f"{where}.file_data.file_uri"
            if not address:
                yield "G12", place, "an address is required"
            elif scheme not in (*media.WEB_SCHEMES, "gs"):
                message = f"cannot be fetched: {scheme or 'no'} scheme, only https and gs"
                yield "G12" if scheme else "G12?", place, message
        if "media_resolution" in fields and not s.is_vertex and not _is_preview(s):
            place = where.partition(".function_response.parts")[0]
            message = "needs http_options with api_version v1beta"
            yield "G11", f"{place}.media_resolution", message
    if inline_chars > _MAX_ADVISABLE_CHARS:
        message = f"{inline_chars:,} characters of base64; upload the files"
        yield "G12" if inline_chars > gemini.MAX_INLINE_CHARS else "G12?", "contents", message
    most = gemini.media_rules(s.limits).max_images or 0
    if images > most:
        yield "G12?", "contents", f"{images:,} images, at most {most:,} are taken"


def _is_preview(s: _Sent) -> bool:
    options = snake_fields(s.config.get("http_options"))
    return options.get("api_version") in ("v1beta", "v1alpha")


def _inline(s: _Sent, inline: JsonObject, where: str) -> Iterator[wire.Found]:
    kind, data = as_text(inline.get("mime_type")), inline.get("data")
    rules = gemini.media_rules(s.limits)
    if not kind:
        yield "G12", f"{where}.mime_type", "a media type is required"
    if kind.startswith("image/"):
        if kind not in gemini.IMAGE_TYPES:
            message = f"{kind} is none of {', '.join(gemini.IMAGE_TYPES)}"
            yield "G12?", f"{where}.mime_type", message
        if s.limits is not None and s.limits.features.get("vision") is False:
            yield "G12", where, "the model takes no images"
    if not isinstance(data, str) or not data:
        yield "G12", f"{where}.data", "bytes are required, as base64"
    elif not _BASE64.fullmatch(data):
        yield "G12", f"{where}.data", "must be base64 without a data: prefix"
    else:
        if kind and (objection := media.objection_to_bytes(kind, data)):
            yield "G12?", f"{where}.data", objection
        most_chars = rules.max_image_chars or len(data)
        if kind.startswith("image/") and len(data) > most_chars:
            message = f"{len(data):,} characters of base64, Vertex AI takes {most_chars:,}"
            yield "G12?", f"{where}.data", message
        pages = media.pdf_facts(data)[0] or 0 if kind == "application/pdf" else 0
        if pages > (most_pages := rules.max_pdf_pages or 0):
            message = f"{pages:,} pages, at most {most_pages:,} are taken"
            yield "G12?", f"{where}.data", message


# ---- tools and parameters ----


def _functions(s: _Sent) -> Iterator[wire.Found]:
    if not s.given_model:
        yield "G0?", "model", "a model id belongs here, unless the URL names it"
    names: set[str] = set()
    for where, function in s.functions:
        name = as_text(function.get("name"))
        if not gemini.NAME_RULE.pattern.fullmatch(name):
            message = "must begin with a letter or _ and go on with up to 127 of a-zA-Z0-9_.:-"
            yield "G7", f"{where}.name", message
        if name in names:
            yield "G7?", f"{where}.name", f"{name!r} is taken"
        names.add(name)
        own, plain = function.get("parameters"), function.get("parameters_json_schema")
        place = f"{where}.parameters_json_schema"
        if own is not None and plain is not None:
            message = "parameters and parameters_json_schema exclude each other"
            yield "G8", f"{where}.parameters", message
        if plain is not None and as_object(plain).get("type", "object") != "object":
            yield "G8", f"{place}.type", "must be 'object'"
        for found in walk_schemas(as_object(plain)):
            lost = as_text(found.get("$ref"))
            if lost and target_of(as_object(plain), lost) is None:
                yield "G8?", place, f"{lost!r:.80} points to nothing inside the schema"
                break
        for schema in walk_schemas(own):
            yield from _schema(s, schema, f"{where}.parameters")
        for schema in walk_schemas([own, plain]):
            for name in as_object(schema.get("properties")):
                if not _PARAMETER_NAME.fullmatch(name):
                    message = "should be up to 64 of a-zA-Z0-9_, and begin with no digit"
                    yield "G7?", f"{where}.parameters", f"{name!r:.80} {message}"


def _schema(s: _Sent, schema: JsonObject, where: str) -> Iterator[wire.Found]:
    known = _SCHEMA_FIELDS | _VERTEX_FIELDS if s.is_vertex else _SCHEMA_FIELDS
    for key in schema:
        if gemini.snake_key(key) not in known:
            yield "G8", where, f"{key!r} is not known here; use parameters_json_schema"
    kind = schema.get("type")
    if isinstance(kind, list):
        yield "G8", where, "a type is one word; use nullable or any_of"
    if as_text(kind).lower() == "array" and not schema.get("items"):
        yield "G8", where, "an array needs items"
    if not all(isinstance(value, str) for value in as_list(schema.get("enum"))):
        yield "G8", where, "an enum holds text only"


def _tool_choice(s: _Sent) -> Iterator[wire.Found]:
    tool_config = snake_fields(s.config.get("tool_config"))
    choice = snake_fields(tool_config.get("function_calling_config"))
    if not choice:
        return
    where = f"{s.place('tool_config')}.function_calling_config"
    mode = as_text(choice.get("mode")).upper()
    if mode and mode not in ("AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"):
        yield "G15", f"{where}.mode", f"{mode!r} is none of AUTO, ANY, NONE, VALIDATED"
    if not s.functions:
        # Without any tool it was accepted, and Vertex AI takes it always.
        is_open = tool_config.get("include_server_side_tool_invocations") or s.is_vertex
        rule = "G15" if s.config.get("tools") and not is_open else "G15?"
        yield rule, where, "is only taken next to function declarations"
    allowed = as_list(choice.get("allowed_function_names"))
    if allowed and mode not in ("ANY", "VALIDATED"):
        yield "G15", f"{where}.allowed_function_names", "only with mode ANY or VALIDATED"
    declared = {as_text(function.get("name")) for _, function in s.functions}
    for name in allowed:
        if name not in declared:
            yield "G15", f"{where}.allowed_function_names", f"{name!r} is not declared"


def _mixed_tools(s: _Sent) -> Iterator[wire.Found]:
    others = sorted({key for _, tool in s.tools for key in tool} - {"function_declarations"})
    tool_config = snake_fields(s.config.get("tool_config"))
    if not s.functions:
        return
    if others and s.is_unsigned and not s.is_vertex:
        message = f"the model takes no {', '.join(others)} next to functions"
        yield "G16", s.place("tools"), message
    is_flagged = tool_config.get("include_server_side_tool_invocations") or s.is_vertex
    if others and s.is_signed and not is_flagged:
        message = "include_server_side_tool_invocations must be set next to server tools"
        yield "G16", s.place("tool_config"), message
    if s.config.get("response_mime_type") == "application/json" and s.is_unsigned:
        message = "the model gives no JSON replies next to functions"
        yield "G14", s.place("response_mime_type"), message
    calling = snake_fields(s.config.get("automatic_function_calling"))
    if s.is_sdk and calling.get("disable") is not True:
        message = "should be disabled: the SDK would call functions by itself"
        yield "G15?", s.place("automatic_function_calling"), message


def _settings(s: _Sent) -> Iterator[wire.Found]:
    limits, config = s.limits, s.config
    if config.get("cached_content"):
        if _WITHOUT_CACHES.fullmatch(s.model):
            yield "G9", s.place("cached_content"), "the model has no explicit caches"
        for key in ("system_instruction", "tools", "tool_config"):
            if config.get(key):
                yield "G9", s.place(key), "belongs into the cached content"
    thinking, where = snake_fields(config.get("thinking_config")), s.place("thinking_config")
    level, budget = thinking.get("thinking_level"), wire.as_number(thinking.get("thinking_budget"))
    if level is not None and budget is not None:
        yield "G10", where, "a level and a budget exclude each other"
    if level is not None and s.is_unsigned:
        yield "G10", f"{where}.thinking_level", "the model takes a budget, no level"
    if budget is not None and s.is_signed:
        yield "G10?", f"{where}.thinking_budget", "the model thinks by levels"
    rule = limits.thinking if limits is not None else None
    levels = rule.levels if rule is not None else ()
    if levels and isinstance(level, str) and level.lower() not in levels:
        yield "G10", f"{where}.thinking_level", f"not a level of the model: {level!r}"
    if rule is not None and budget == 0 and rule.kinds and rule.disable == "no":
        number = "G10" if "budget" in rule.kinds else "G10?"
        yield number, f"{where}.thinking_budget", "the model always thinks"
    heat = wire.as_number(config.get("temperature"))
    most = wire.as_number(config.get("max_output_tokens"))
    if heat is not None and not 0 <= heat <= 2:
        yield "G10", s.place("temperature"), "must be between 0 and 2"
    is_ignored = limits is not None and limits.parameters.temperature == "ignored"
    for key in ("temperature", "top_p", "top_k"):
        if is_ignored and config.get(key) is not None:
            yield "G10?", s.place(key), "is ignored by the model"
    if most is not None and most < 1:
        yield "G10", s.place("max_output_tokens"), "must be at least 1"
    longest = limits.output_tokens if limits is not None else None
    if most is not None and longest is not None and most > longest:
        message = f"the model's longest reply has {longest:,} tokens"
        yield "G10", s.place("max_output_tokens"), message
    stops = as_list(config.get("stop_sequences"))
    if len(stops) > gemini.MAX_STOP_SEQUENCES:
        message = f"{len(stops)} sequences, at most {gemini.MAX_STOP_SEQUENCES} are taken"
        yield "G10", s.place("stop_sequences"), message
    is_alias = s.is_sdk and re.fullmatch(r"(models/)?gemini-.*-latest", s.given_model)
    if is_alias and not s.is_vertex and not _is_preview(s):
        yield "G11", "model", "this alias needs http_options with api_version v1beta"


_CONTENT_RULES: Final[tuple[Any, ...]] = (
    _shape,
    _roles,
    _pairs,
    _order,
    _signatures,
    _calls,
    _media,
)
_HEAD_RULES: Final[tuple[Any, ...]] = (_functions, _tool_choice, _mixed_tools, _settings)
