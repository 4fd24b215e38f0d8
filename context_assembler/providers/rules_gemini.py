"""The rules of `generate_content`: what it refuses, and what merely harms.

Keyword arguments of the SDK are read, and bodies of requests, whose model is in the URL.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from itertools import groupby, takewhile
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.events import Json, JsonObject
from context_assembler.models import ModelLimits
from context_assembler.providers import gemini, media, wire
from context_assembler.providers.gemini import KINDS, snake_fields
from context_assembler.providers.schemas import target_of, walk_schemas
from context_assembler.providers.wire import as_list, as_object, as_text, peek
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

# Whether it is broken, the rule – with `?` if it merely harms –, where, what is wrong.
Row: TypeAlias = tuple[Any, str, str, str]
_PAIRED: Final = frozenset({"function_call", "function_response"})
_MEDIA: Final = frozenset({"inline_data", "file_data"})
# What a schema in `parameters` may say: the OpenAPI subset, by the SDK's names.
_SCHEMA_FIELDS: Final = frozenset(
    "type format title description nullable enum items max_items min_items properties required "
    "min_properties max_properties minimum maximum min_length max_length pattern example any_of "
    "property_ordering default".split()
)
_VERTEX_FIELDS: Final = frozenset({"additional_properties", "ref", "defs"})
_PREVIEWS: Final = ("v1beta", "v1alpha")
_ON_VERTEX: Final = frozenset({"retrieval", "enterprise_web_search", "parallel_ai_search"})  # tools
# What is in a request, and in fields of these names: "Invalid JSON payload received. Unknown name",
# and the SDK forbids others. Types of google-genai 3.6 (read 2026-11-29)
_FIELDS: Final = wire.sources_of(f"""
config: http_options should_return_http_response system_instruction temperature top_p top_k seed
candidate_count max_output_tokens stop_sequences response_logprobs logprobs presence_penalty
frequency_penalty response_mime_type response_schema response_json_schema routing_config
model_selection_config safety_settings tools tool_config labels cached_content store
response_modalities media_resolution speech_config audio_timestamp service_tier image_config
automatic_function_calling thinking_config enable_enhanced_civic_answers response_format
model_armor_config audio_transcription_config continuation_token automatic_continuation
generation_output_config enable_affective_dialog translation_config |
tools: function_declarations computer_use file_search google_search google_maps code_execution
google_search_retrieval url_context mcp_servers exa_ai_search {" ".join(_ON_VERTEX)} |
function_declarations: name description parameters parameters_json_schema response
response_json_schema behavior | thinking_config: include_thoughts thinking_budget thinking_level |
tool_config: retrieval_config function_calling_config include_server_side_tool_invocations |
function_calling_config: allowed_function_names mode stream_function_call_arguments |
contents: parts role | parts: media_resolution {" ".join((*KINDS, *gemini.MARKS))} |
function_call: id args name partial_args will_continue |
function_response: id name response parts will_continue scheduling |
inline_data: data display_name mime_type | file_data: display_name file_uri mime_type
""")
# The generation that answers "Penalty is not enabled for this model".
# https://github.com/BerriAI/litellm, _supports_penalty_parameters (read 2026-11-29)
_WITHOUT_PENALTIES: Final = (2, 5)


class _Part(NamedTuple):
    """A part, its fields by the SDK's names; `inner` are those of its call or response."""

    holder: str
    at: int
    fields: dict[str, Json]
    inner: dict[str, Json]

    @property
    def where(self) -> str:
        return f"{self.holder}[{self.at}]"


class _Content(NamedTuple):
    where: str
    role: str
    given: dict[str, Json]
    parts: list[_Part]
    calls: list[_Part]
    responses: list[_Part]


def _listed(value: Json) -> list[Json]:
    """Return a list's entries; a lone object or text is a list of itself."""
    is_list = value.__class__ is list
    return peek(value) if is_list or not isinstance(value, Mapping | str) else [value]


class _Sent:
    """A payload: contents, and everything else flat in `config`, however it was nested.

    `unusual` are the parts, with those inside responses, that are more than plain text, a call or a
    response.
    """

    def __init__(
        self, payload: JsonObject, limits: ModelLimits | None, today: date | None, start: int
    ) -> None:
        fields = snake_fields(payload)
        self.is_sdk = "config" in fields or fields.keys() == {"model", "contents"}
        apart = ("model", "contents", "config", "generation_config")
        rest = {key: held for key, held in fields.items() if key not in apart}
        own, given = (snake_fields(fields.get(key)) for key in ("config", "generation_config"))
        self.config = {**own, **rest, **given}
        self.given_model = as_text(fields.get("model"))
        self.limits = limits
        self.model = limits.id if limits is not None else self.given_model
        retires = limits.retires_on if limits is not None else None
        is_retired = today is not None and retires is not None and today >= retires
        generation = None if is_retired else gemini.generation_of(self.model)
        # Whether the model is known to insist on signed calls and to think by levels, or known not to.
        self.is_signed = bool(generation and generation >= gemini.SIGNED)
        self.is_unsigned = bool(generation) and not self.is_signed
        self.generation = generation
        self.tools = list(map(snake_fields, _listed(self.config.get("tools"))))
        is_path = self.given_model.startswith(("projects/", "publishers/"))
        has_own = any(_ON_VERTEX & tool.keys() for tool in self.tools)
        self.is_vertex = is_path or has_own or (limits is not None and limits.host == "vertex_ai")
        options = snake_fields(self.config.get("http_options"))
        self.is_stable = not self.is_vertex and options.get("api_version") not in _PREVIEWS
        self.tool_config = snake_fields(self.config.get("tool_config"))
        mixes = self.tool_config.get("include_server_side_tool_invocations")
        self.may_mix = bool(mixes) or self.is_vertex
        self.functions = [
            (f"{self.place('tools')}[{index}].function_declarations[{at}]", snake_fields(function))
            for index, tool in enumerate(self.tools)
            for at, function in enumerate(_listed(tool.get("function_declarations")))
        ]
        entries = _listed(fields.get("contents"))
        if entries and not any({"parts", "role"} & as_object(entry).keys() for entry in entries):
            entries = [{"parts": entries}]  # parts without contents: one content of the user
        self.first = max(0, start - 2)  # new responses belong to the calls before them
        while self.first and as_object(entries[self.first]).get("role") != "model":
            self.first -= 1
        self.unusual: list[_Part] = []
        self.contents: list[_Content] = []
        for at, entry in enumerate(entries[self.first :], self.first):
            content, where = snake_fields(entry), f"contents[{at}]"
            parts = self._parts(f"{where}.parts", content.get("parts"))
            calls = [part for part in parts if "function_call" in part.fields]
            responses = [part for part in parts if "function_response" in part.fields]
            role = as_text(content.get("role", "user"))
            self.contents.append(_Content(where, role, content, parts, calls, responses))

    def _parts(self, holder: str, value: Json) -> list[_Part]:
        parts: list[_Part] = []
        for at, given in enumerate(_listed(value)):
            fields = {"text": given} if isinstance(given, str) else snake_fields(given)
            held = fields.get("function_call") or fields.get("function_response")
            inner = snake_fields(held) if held else {}
            parts.append(part := _Part(holder, at, fields, inner))
            signature = as_text(fields.get("thought_signature"))
            others = len(fields) - bool(signature and gemini.BASE64.fullmatch(signature))
            if others != 1 or not (inner or as_text(fields.get("text")).strip()):
                self.unusual.append(part)
            if "parts" in inner:
                self._parts(f"{part.where}.function_response.parts", inner["parts"])
        return parts

    def place(self, key: str) -> str:
        """Return the place of a setting."""
        return f"config.{key}" if self.is_sdk else key


def check(
    payload: JsonObject, limits: ModelLimits | None, today: date | None, start: int
) -> list[Violation]:
    """Return the rules that are broken, in their order.

    From the day on that a model retires another one answers for it, and rules of its generation are
    left out.
    """
    sent = _Sent(payload, limits, today, start)
    rules = _CONTENT_RULES if start else (*_CONTENT_RULES, *_HEAD_RULES)
    return wire.violations((row[1:] for rows in rules for row in rows(sent) if row[0]), SOURCES)


# ---- contents ----


def _shape(s: _Sent) -> Iterator[Row]:
    yield not s.contents, "G0", "contents", "at least one content is required"
    for content in s.contents:
        role, where = content.role, content.where
        is_odd = role not in ("user", "model", "function")
        yield is_odd, "G1", f"{where}.role", f"{role!r} is none of user and model"
        yield not content.parts, "G13", f"{where}.parts", "at least one part is required"
        yield from _unknown(where, "contents", content.given)
    for part in s.unusual:
        where, fields, kinds = part.where, part.fields, KINDS & part.fields.keys()
        signature = fields.get("thought_signature", "")
        yield not kinds and not signature, "G0", where, "holds nothing that a part can hold"
        rule = "G12" if kinds & _MEDIA else "G0"
        flaw = gemini.find_flaw(fields) if len(kinds) != 1 or not kinds & _PAIRED else None
        yield flaw, rule, where, f"would be refused: {flaw}"
        is_odd = not isinstance(signature, str) or not gemini.BASE64.fullmatch(signature)
        yield is_odd, "G5", f"{where}.thought_signature", "must be base64, as it came"


def _unknown(where: str, kind: str, value: Json) -> Iterator[Row]:
    """Yield what is named as no field of such an object, or of those in it, is named."""
    fields, known = snake_fields(value), _FIELDS[kind].split()
    for at, one in enumerate(as_list(value)):
        yield from _unknown(f"{where}[{at}]", kind, one)
    for name in sorted(fields):
        place = f"{where}.{name:.40}".strip(".")
        yield name not in known, "G0", place, "unknown field: neither SDK nor API takes it"
        if name in _FIELDS:
            yield from _unknown(place, name, fields[name])


def _calls_of_model(content: _Content) -> bool:
    return content.role == "model" and bool(content.calls)


def _pairs(s: _Sent) -> Iterator[Row]:
    """Calls are answered directly; those of neighbouring contents are one set of calls."""
    runs: list[tuple[bool, list[_Content]]] = []
    runs += ((calls, list(found)) for calls, found in groupby(s.contents, key=_calls_of_model))
    for at, (is_calling, run) in enumerate(runs):
        if not is_calling:
            continue
        after = runs[at + 1][1] if at + 1 < len(runs) else ()
        calls = [part for content in run for part in content.calls]
        answers = [*takewhile(lambda one: one.role != "model" and one.responses, after)]
        responses = [part for answer in answers for part in answer.responses]
        if len(responses) != len(calls):
            yield True, "G2", run[0].where, f"{len(calls)} call(s), {len(responses)} response(s)"
            continue
        for answer in answers[1:2]:
            # Recorded requests to gemini-2.5-flash with one content per response were accepted.
            yield s.is_signed, "G2", answer.where, "responses of one set of calls are one content"
        paired = list(zip(calls, responses, strict=True))
        have_ids = all(part.inner.get("id") for part in (*calls, *responses))
        for call, part in paired:  # by name alone, if not all have ids
            keys = ("id", "name") if have_ids else ("name",)
            is_odd = any(call.inner.get(key) != part.inner.get(key) for key in keys)
            yield is_odd, "G2?", part.where, "is not the response to the call in its place"


def _order(s: _Sent) -> Iterator[Row]:
    """Calls and responses in turn; in the turn in progress, the first call of each step is signed."""
    before, begin = None, 0
    for at, content in enumerate(s.contents):
        where, is_model = content.where, content.role == "model"
        if content.calls and is_model:
            yield before is None and not s.first, "G3", where, "a history cannot begin with a call"
            is_odd = before is not None and before.role == "model" and not before.calls
            yield is_odd, "G3", where, "calls must follow the user or a response, not text"
        elif content.responses and not is_model:
            is_odd = before is None or not (before.calls or before.responses)
            yield is_odd, "G3", where, "responses stand directly after their calls"
        for part in content.responses if is_model else content.calls:
            did = "answers no calls" if is_model else "is the only one that calls"
            yield True, "G3", part.where, f"the model {did}"
        if not is_model and len(content.responses) < len(content.parts):
            begin = at
        before = content
    for is_calling, run in groupby(s.contents[begin:] if s.is_signed else (), key=_calls_of_model):
        for part in next(run).calls[:1] if is_calling else ():
            message = "the first call of a step needs its thought signature"
            yield not part.fields.get("thought_signature"), "G4", part.where, message


def _calls(s: _Sent) -> Iterator[Row]:
    for content in s.contents:
        for part in content.calls:
            where, name, args = part.where, part.inner.get("name"), part.inner.get("args", {})
            yield not as_text(name), "G7", f"{where}.function_call.name", "is missing"
            yield not isinstance(args, Mapping), "G6", where, "its args must be an object"
        for part in content.responses:
            where, inner = f"{part.where}.function_response", part.inner
            yield not as_text(inner.get("name")), "G6", f"{where}.name", "is missing"
            is_odd = not isinstance(inner.get("response"), Mapping)
            yield is_odd, "G6", f"{where}.response", "must be an object"
            is_odd = s.is_unsigned and bool(inner.get("parts"))
            yield is_odd, "G6", f"{where}.parts", "the model takes no media in a response"


def _media(s: _Sent) -> Iterator[Row]:
    rules, chars = gemini.media_rules(s.limits), 0
    types = (*rules.document_types, "text/")
    rules = rules._replace(document_types=types, type_at=None)
    for part in s.unusual:
        where, fields = part.where, part.fields
        is_odd = s.is_stable and "media_resolution" in fields
        yield is_odd, "G11", where, "a resolution needs http_options with api_version v1beta"
        shown = None if gemini.find_flaw(fields) else media.media_of(fields, gemini.NAME)
        source: JsonObject = shown["source"] if shown is not None else {}
        chars += len(data := as_text(source.get("data")))
        if shown is None or not (data or media.scheme_of(as_text(source.get("url")))):
            continue  # a file of Google's is known by its name
        rule, why = media.find_objection(shown, rules, s.limits, is_sent=True) or ("", "")
        is_sure = rule in ("media.source", "media.unsupported")
        yield why, "G12" if is_sure else "G12?", where, f"would be refused: {why}"
    is_odd = chars > gemini.MAX_INLINE_CHARS
    yield is_odd, "G12", "contents", f"{chars:,} characters of base64; upload the files"


# ---- tools and parameters ----


def _functions(s: _Sent) -> Iterator[Row]:
    for place, function in s.functions:
        is_odd = not gemini.NAME_RULE.pattern.fullmatch(as_text(function.get("name")))
        message = "must begin with a letter or _ and go on with up to 127 of a-zA-Z0-9_.:-"
        yield is_odd, "G7", f"{place}.name", message
        own, plain = function.get("parameters"), function.get("parameters_json_schema")
        where, root = f"{place}.parameters", as_object(plain)
        is_both = own is not None and plain is not None
        yield is_both, "G8", where, "parameters and parameters_json_schema exclude each other"
        yield root.get("type", "object") != "object", "G8", where, "the type must be 'object'"
        for found in walk_schemas(root):
            lost = as_text(found.get("$ref"))
            is_odd = bool(lost) and target_of(root, lost) is None
            yield is_odd, "G8?", where, f"{lost!r:.80} points to nothing inside the schema"
        for schema in walk_schemas(own):
            yield from _schema(s, schema, where)


def _schema(s: _Sent, schema: JsonObject, where: str) -> Iterator[Row]:
    known = _SCHEMA_FIELDS | _VERTEX_FIELDS if s.is_vertex else _SCHEMA_FIELDS
    for key in (key for key in schema if gemini.snake_key(key) not in known):
        yield True, "G8", where, f"{key!r} is not known here; use parameters_json_schema"
    kind = schema.get("type")
    is_odd = as_text(kind).lower() == "array" and not schema.get("items")
    yield isinstance(kind, list), "G8", where, "a type is one word; use nullable or any_of"
    yield is_odd, "G8", where, "an array needs items"
    is_odd = not all(isinstance(value, str) for value in as_list(schema.get("enum")))
    yield is_odd, "G8", where, "an enum holds text only"


def _tool_choice(s: _Sent) -> Iterator[Row]:
    choice = snake_fields(s.tool_config.get("function_calling_config"))
    where, allowed = s.place("tool_config"), as_list(choice.get("allowed_function_names"))
    if choice:
        mode = as_text(choice.get("mode")).upper()
        is_odd = mode not in ("", "AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED")
        yield is_odd, "G15", where, f"{mode!r} is none of AUTO, ANY, NONE, VALIDATED"
        # Without any tool it was accepted, and Vertex AI takes it always.
        rule = "G15" if s.tools and not s.may_mix else "G15?"
        yield not s.functions, rule, where, "a mode is only taken next to function declarations"
        is_odd = len(allowed) > 0 and mode not in ("ANY", "VALIDATED")
        yield is_odd, "G15", where, "names are taken with mode ANY or VALIDATED only"
        declared = {as_text(function.get("name")) for _, function in s.functions}
        for name in (name for name in map(as_text, allowed) if name not in declared):
            yield True, "G15", where, f"{name!r} is not declared"
    if not s.functions:
        return
    is_mixed = {key for tool in s.tools for key in tool} > {"function_declarations"}
    is_odd = is_mixed and s.is_unsigned and not s.is_vertex
    yield is_odd, "G16", s.place("tools"), "the model takes no server tools next to functions"
    is_odd = is_mixed and s.is_signed and not s.may_mix
    yield is_odd, "G16", where, "server tools need include_server_side_tool_invocations"
    is_odd = s.is_unsigned and s.config.get("response_mime_type") == "application/json"
    yield is_odd, "G14", s.place("response_mime_type"), "no JSON replies next to functions"


def _settings(s: _Sent) -> Iterator[Row]:
    limits, config = s.limits, s.config
    yield from _unknown("config" if s.is_sdk else "", "config", config)
    cached = config.get("cached_content")
    for key in ("system_instruction", "tools", "tool_config"):
        yield cached and config.get(key), "G9", s.place(key), "belongs into the cached content"
    thinking, where = snake_fields(config.get("thinking_config")), s.place("thinking_config")
    level, budget = thinking.get("thinking_level"), wire.as_number(thinking.get("thinking_budget"))
    has_budget = thinking.get("thinking_budget") is not None
    yield level is not None and has_budget, "G10", where, "a level and a budget exclude each other"
    yield level is not None and s.is_unsigned, "G10", where, "the model takes a budget, no level"
    if limits is not None:
        rule = limits.thinking
        is_odd = isinstance(level, str) and rule.levels and level.lower() not in rule.levels
        told = f"not a level of the model ({', '.join(rule.levels)}): {level!r}"
        yield is_odd, "G10", where, told
        number = "G10" if "budget" in rule.kinds else "G10?"
        yield budget == 0 and rule.kinds and rule.disable == "no", number, where, "it always thinks"
    heat, most = (wire.as_number(config.get(key)) for key in ("temperature", "max_output_tokens"))
    longest = (limits.output_tokens if limits is not None else None) or inf
    place, stops = s.place("max_output_tokens"), as_list(config.get("stop_sequences"))
    for name in ("presence_penalty", "frequency_penalty"):
        is_odd = config.get(name) is not None and s.generation == _WITHOUT_PENALTIES
        yield is_odd, "G10", s.place(name), "the model takes no penalties"
    yield heat < 0 or heat > 2, "G10", s.place("temperature"), "must be between 0 and 2"
    yield most < 1, "G10", place, "must be at least 1"
    yield most > longest, "G10", place, f"the model's longest reply has {longest:,} tokens"
    most = gemini.MAX_STOP_SEQUENCES
    yield len(stops) > most, "G10", s.place("stop_sequences"), f"at most {most} are taken"
    is_alias = s.is_sdk and re.fullmatch(r"(models/)?gemini-.*-latest", s.given_model)
    yield is_alias and s.is_stable, "G11", "model", "this alias needs api_version v1beta"


_Rules: TypeAlias = tuple[Callable[[_Sent], Iterator[Row]], ...]
_CONTENT_RULES: Final[_Rules] = (_shape, _pairs, _order, _calls, _media)
_HEAD_RULES: Final[_Rules] = (_functions, _tool_choice, _settings)
