"""Gemini: what `google.genai.Client().models.generate_content` takes and returns.

Google writes its fields in two ways, `functionCall` on the wire and `function_call` in the SDK, and
real requests mix them. Both are read; payloads have the SDK's names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

from context_assembler.context import Request
from context_assembler.errors import ReplyError
from context_assembler.events import Json, JsonObject, compact_json
from context_assembler.models import ModelLimits
from context_assembler.ports import ChangeForms, Payload, ToolSpec, Turn
from context_assembler.providers import wire
from context_assembler.providers.schemas import root_object_schema, target_of, walk_schemas
from context_assembler.providers.wire import (
    Change,
    LentList,
    as_list,
    as_object,
    as_text,
    fresh_json,
    text_part,
)
from context_assembler.report import ReportEntry, Rule
from context_assembler.texts import clean_text

if TYPE_CHECKING:
    from context_assembler.providers.media import MediaRules

NAME: Final = "gemini"

# Docstring of `google.genai.types.FunctionDeclaration.name`, google-genai 3.6 (read 2026-11-27)
NAME_RULE: Final = wire.NameRule(
    re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}"), max_chars=64, opening="_"
)
# Ids are free; each stands for one call, and a response carries that of its call.
ID_RULE: Final = wire.NameRule(re.compile(r"[!-~]{1,128}"), max_chars=64)

# Base64 of the text that the documentation names for calls whose signature nobody has.
# https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
PLACEHOLDER: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="

# What a part holds next to marks; exactly one of these.
KINDS: Final = frozenset(
    "text inline_data file_data function_call function_response executable_code "
    "code_execution_result tool_call tool_response".split()
)
# What may be next to it; the SDK refuses other fields, and its own default version of the API a
# resolution. Docstring of `google.genai.types.Part`, google-genai 3.6 (read 2026-11-27)
MARKS: Final = frozenset(
    "thought thought_signature video_metadata part_metadata audio_transcription media_processing "
    "speech_metadata document_metadata spreadsheet_metadata audio_metadata".split()
)
# What media need to be found.
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "inline_data": ("mime_type", "data"),
    "file_data": ("file_uri",),
    "function_call": ("",),  # any that can be read is not kept as a part
    "function_response": ("",),
}
# What the SDK refuses to send to Vertex AI: `_Part_to_vertex` in google-genai 3.6.
NOT_ON_VERTEX: Final = frozenset({"tool_call", "tool_response", "part_metadata"})
_FREE_FORM: Final = frozenset({"args", "response", "part_metadata"})  # keys are somebody else's
BASE64: Final = re.compile(r"[A-Za-z0-9+/_=\s-]*")
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])[A-Z]")

# From here on calls must be signed, thinking has levels, and functions may return media.
# https://ai.google.dev/gemini-api/docs/thought-signatures, /thinking, /function-calling (2026-11-27)
SIGNED: Final = (3, 0)
# The generation before takes signatures, and requests for retired models are served by newer ones.
# https://ai.google.dev/gemini-api/docs/deprecations (read 2026-11-27)
_KNOWS_SIGNATURES: Final = (2, 5)

# https://ai.google.dev/gemini-api/docs/image-understanding (read 2026-11-27)
IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
# Docstrings of `google.genai.types.FunctionResponsePart`, google-genai 3.6 (read 2026-11-27)
RESPONSE_TYPES: Final = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")
_TYPES_BY_ENDING: Final[Mapping[str, str]] = {
    "jpg": "image/jpeg",
    "pdf": "application/pdf",
    **{kind.partition("/")[2]: kind for kind in IMAGE_TYPES},
}

MAX_INLINE_CHARS: Final = 100 * 1024 * 1024  # of base64, in one request
# https://ai.google.dev/api/generate-content, GenerationConfig.stopSequences (read 2026-11-27)
MAX_STOP_SEQUENCES: Final = 5


def snake_key(key: str) -> str:
    """Return a field's name as the SDK writes it."""
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key)


def snake_fields(value: Json) -> dict[str, Json]:
    """Return an object's fields that hold something, by the SDK's names; none of anything else."""
    held = as_object(value).items()
    return {k if k.islower() else snake_key(k): one for k, one in held if one is not None}


def snake_block(value: Json) -> Json:
    """Return a part, or anything inside one, with the SDK's names at every depth."""
    if isinstance(value, list | tuple):
        return [snake_block(entry) for entry in as_list(value)]
    if not isinstance(value, Mapping):
        return value
    fields = snake_fields(value).items()
    return {key: held if key in _FREE_FORM else snake_block(held) for key, held in fields}


def generation_of(model: str) -> tuple[int, int] | None:
    """Return a model's generation, `(2, 5)` for `gemini-2.5-flash`; `None`: the id has none."""
    found = re.search(r"gemini-(\d+)(?:\.(\d+))?", model)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def find_flaw(block: JsonObject) -> str | None:
    """Return why a part would be refused, in half a sentence; `None`: nothing is known.

    What a reply says about itself holds no kind of part, and is left out elsewhere.
    Types of google-genai 3.6, `google.genai.types.Part` (read 2026-11-27)
    """
    fields = snake_fields(block)
    kinds = sorted(KINDS & fields.keys())
    if len(kinds) > 1:
        return f"it holds more than one thing: {', '.join(kinds)}"
    signature = fields.get("thought_signature", "")
    if not isinstance(signature, str) or not BASE64.fullmatch(signature):
        return "its thought_signature is amiss"
    for kind in kinds:
        inner = snake_fields(fields[kind])
        needed = _NEEDED.get(kind, ())
        is_sound = isinstance(fields[kind], str) if kind == "text" else bool(inner)
        is_sound = is_sound and all(as_text(inner.get(name)).strip() for name in needed)
        if not is_sound or not BASE64.fullmatch(as_text(inner.get("data"))):
            return f"its {kind} is amiss"
    return None


def readable_text(block: JsonObject) -> str:
    """Return what another model can read of a part that we do not interpret."""
    fields = snake_fields(block)
    if code := snake_fields(fields.get("executable_code")):
        return f"```{as_text(code.get('language')).lower()}\n{as_text(code.get('code'))}\n```"
    if ran := snake_fields(fields.get("code_execution_result")):
        return f"{as_text(ran.get('outcome'))}: {as_text(ran.get('output'))}"
    if media := snake_fields(fields.get("inline_data") or fields.get("file_data")):
        named = as_text(media.get("file_uri")) or as_text(media.get("display_name"))
        return f"[{' '.join(filter(None, (as_text(media.get('mime_type')), named)))}]"
    return as_text(fields.get("text"))


# ---- images, documents and responses ----


def media_rules(limits: ModelLimits | None) -> "MediaRules":
    """Return what the model takes of images and documents.

    Vertex AI takes seven megabytes of one inline image. Every image is scaled to that, wherever it
    goes: it costs the same tokens, and fewer bytes of the whole request.

    Source:
        https://ai.google.dev/gemini-api/docs/image-understanding
        https://ai.google.dev/gemini-api/docs/document-processing
        https://ai.google.dev/gemini-api/docs/files (read 2026-11-27)
    """
    from context_assembler.providers.media import MediaRules

    is_vertex = limits is not None and limits.host == "vertex_ai"
    return MediaRules(
        api="generate_content",
        file_owner=NAME,
        image_types=IMAGE_TYPES,
        image_words="PNG, JPEG, WebP, HEIC and HEIF",
        document_types=("application/pdf", "audio/", "video/"),
        document_words="PDF, plain text, audio and video",
        schemes=("https", "http", "gs"),
        takes_from_assistant=True,
        fit_image_chars=7_000_000 // 3 * 4,
        max_image_chars=7_000_000 // 3 * 4 if is_vertex else None,
        max_pdf_pages=1_000,
        type_at=fetched_type,
    )


def fetched_type(source: JsonObject) -> str:
    """Return the media type at an address, as declared or as its ending says; empty: unknown."""
    ending = re.search(r"\.(\w+)(?:[?#].*)?$", source["url"])
    return source.get("media_type") or _TYPES_BY_ENDING.get(ending[1].lower() if ending else "", "")


def _response_object(texts: Sequence[str], *, is_error: bool) -> dict[str, Json]:
    """Return what a function answered as the object that the API takes.

    Text that is the compact JSON of an object is sent as that object; several texts are a list.
    Docstring of `google.genai.types.FunctionResponse`, google-genai 3.6 (read 2026-11-27): `output`
    and `error` are the keys to use; any other object is the output as a whole.
    """
    said: Json = list(texts) if len(texts) > 1 else "".join(texts)
    parsed = wire.parse_object(said) if isinstance(said, str) and said[:1] == "{" else None
    is_same = parsed is not None and compact_json(parsed) == said
    parsed = wire.clean_json(parsed) if is_same else None
    if is_error:
        return {"error": said if parsed is None else parsed}
    return {"output": said} if not parsed or parsed.keys() in ({"output"}, {"error"}) else parsed


# ---- tools ----


def _sayable(schema: Any) -> Any:
    """Return the schema, changed so that only what begins with `$` is next to a reference.

    Docstring of `google.genai.types.GenerateContentConfig.response_json_schema`, google-genai 3.6
    """
    for one in walk_schemas(schema):
        if isinstance(one, dict) and "$ref" in one and len(one) > 1 and "anyOf" not in one:
            one["anyOf"] = [{"$ref": one.pop("$ref")}]
    return schema


def _declare(tool: ToolSpec, name: str, entries: list[ReportEntry]) -> dict[str, Json] | None:
    """Return one function; its schema in the field that takes JSON Schema as it is.

    Docstring of `google.genai.types.FunctionDeclaration`, google-genai 3.6 (read 2026-11-27): there
    is no strict mode.
    """
    schema = root_object_schema(tool.input_schema)
    references = [as_text(one.get("$ref")) for one in walk_schemas(schema)]
    if lost := next((r for r in references if r and target_of(schema, r) is None), None):
        reason = f"The API cannot take its schema: {lost!r} points to nothing inside it."
        entries.append(wire.tool_entry(tool, "tool.schema", reason))
        return None
    _sayable(schema)
    if tool.is_strict:
        reason = "It is offered without strict mode: the API has no strict mode."
        entries.append(wire.tool_entry(tool, "tool.strict", reason, "repaired"))
    told = {"description": words} if (words := wire.said(tool.description)) else {}
    return {"name": name, **told, "parameters_json_schema": schema}


def change_forms(limits: ModelLimits) -> ChangeForms:
    """Return how the model can learn of changed tools next to the history: which it may call.

    Docstring of `google.genai.types.FunctionCallingConfigMode`, google-genai 3.6 (2026-11-27)
    """
    is_own = limits.provider == "google" and limits.host in (None, "vertex_ai")
    return ChangeForms(withdraws="choice") if is_own else ChangeForms()


tool_search = wire.no_tool_search


# ---- contents ----


class Wire(wire.GrownWire):
    """The contents of one request, grown turn by turn.

    All responses of one set of calls are one content, directly after the calls and alone; whatever
    the functions returned next to text, and everything else that the user said, is the next one.
    https://github.com/google-gemini/gemini-cli/issues/5443, /issues/11814
    https://github.com/crewAIInc/crewAI/pull/6973 (read 2026-11-27)
    """

    name = NAME

    def __init__(self, request: Request) -> None:
        super().__init__(request, NAME_RULE, ID_RULE)
        limits = request.limits
        generation = generation_of(limits.id)
        self.is_newer = generation is None or generation >= SIGNED
        self.is_vertex = limits.host == "vertex_ai"
        self.system = wire.said(request.system)
        declared = self.declared_tools(self.entries)
        made = {
            tool.name: function
            for tool in declared
            if not tool.native_specs
            and (function := _declare(tool, self.names[tool.name], self.entries))
        }
        self.functions = frozenset(made)
        self.tools: list[dict[str, Json]] = [
            wire.plain_json(tool.native_specs[NAME]) for tool in declared if tool.native_specs
        ]
        if made:
            self.tools.insert(0, {"function_declarations": [*made.values()]})
        self._signs = generation is None or generation >= _KNOWS_SIGNATURES
        self._called: dict[str, str] = {}  # ids of calls on the wire → names of their functions

    def _head(self) -> Json:
        return [NAME, self.system, self.tools]

    def _text_piece(self, text: str) -> dict[str, Json]:
        return {"text": text}

    def _own_piece(self, block: JsonObject) -> dict[str, Json]:
        return as_object(wire.plain_json(snake_block(block)))

    def _media_piece(self, part: JsonObject) -> dict[str, Json]:
        """Return bytes inline, or where the provider finds them; it knows the type of its own files.

        Docstring of `google.genai.types.Part.from_uri`, google-genai 3.6 (read 2026-11-27)
        """
        source = part["source"]
        if source["type"] == "base64":
            from context_assembler.providers.media import media_type_of, plain_base64

            data = plain_base64(source["data"])
            return {"inline_data": {"mime_type": media_type_of(source), "data": data}}
        if source["type"] == "file":
            return {"file_data": {"file_uri": clean_text(source["file_id"])}}
        fetched = {"file_uri": clean_text(source["url"])}
        if media_type := fetched_type(source):
            fetched["mime_type"] = media_type
        return {"file_data": fetched}

    def _add_reply(self, turn: Turn) -> None:
        parts = wire.settle_parts(turn, self._settle, self.entries)
        self._say("model", self._reply_parts(turn, parts))

    def _add_results(self, turn: Turn) -> None:
        """Append the responses of functions, and the content after them."""
        responses: list[dict[str, Json]] = []
        attached: list[dict[str, Json]] = []
        for result in wire.settle_results(turn, self._settle, self.entries):
            call_id = self._ids.of_result(result["call_id"])
            name = self._called.get(call_id) or self.names[result.get("tool_name") or "unknown"]
            responses.append(self._response(result, call_id, name, attached))
        self._units.append(["responses", responses])
        self.messages.append({"role": "user", "parts": responses})
        self._say("user", attached)

    def _say(self, role: str, parts: list[dict[str, Json]]) -> None:
        """Append parts: neighbours of one role become one content, except after responses."""
        if not parts:
            return
        counted = [wire.without(p, "thought_signature") for p in parts if not _is_thought(p)]
        self._units.append([role, counted])
        messages, last = self.messages, self.messages[-1] if self.messages else None
        if last and last["role"] == role and "function_response" not in last["parts"][0]:
            parts = [*last["parts"], *parts]
            del messages[-1]
        messages.append({"role": role, "parts": self._signed(parts) if role == "model" else parts})

    def _signed(self, parts: list[dict[str, Json]]) -> list[dict[str, Json]]:
        """Return the parts with a signature on the first call: its own, or the placeholder.

        Calls in parallel are signed on the first alone. Only the turn in progress is checked, but
        every turn gets its placeholder, so that what was sent once never changes.
        https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
        """
        at = next((at for at, part in enumerate(parts) if "function_call" in part), None)
        if at is None or not self._signs or "thought_signature" in parts[at]:
            return parts
        return [*parts[:at], {**parts[at], "thought_signature": PLACEHOLDER}, *parts[at + 1 :]]

    def _reply_parts(self, turn: Turn, parts: Sequence[JsonObject]) -> list[dict[str, Json]]:
        calls = [part["call_id"] for part in parts if part["type"] == "tool_call"]
        ids = iter(self._ids.of_calls(calls) if calls else ())
        made_by = turn.get("made_by")
        is_own = made_by is None or made_by.get("provider") == NAME
        said: list[dict[str, Json]] = []
        for part in parts:
            if part["type"] == "tool_call":
                call_id, name = next(ids), self.names[part["name"]]
                self._called[call_id] = name
                given = wire.clean_json(part.get("arguments", {}))
                call = {"id": call_id, "name": name, "args": given}
                made: list[dict[str, Json]] = [{"function_call": call}]
            elif part["type"] == "thinking":
                block, is_sent = part.get("block"), part.get("provider") == NAME
                is_sent = is_sent and block is not None and find_flaw(block) is None
                made = [wire.plain_json(snake_block(block))] if is_sent else []
            else:
                made = self._pieces(part)
            if made and is_own and (signature := part.get("signature")):
                made[-1]["thought_signature"] = clean_text(signature)
            said += made
        return said

    def _response(
        self, result: JsonObject, call_id: str, name: str, attached: list[dict[str, Json]]
    ) -> dict[str, Json]:
        """Return what a function answered; media inside if the model takes it there.

        Args:
            attached: Gets the media that goes into the content after it.
        """
        texts: list[str] = []
        media: list[dict[str, Json]] = []
        is_error = bool(result.get("is_error"))
        for part in result.get("content", ()):
            pieces = self._pieces(part)
            inside = [one for one in pieces if self.is_newer and self._stands_inside(part, one)]
            if wire.is_attachment(part) and not inside:
                kind = part["type"]
                texts.append(f"[{kind} attached in the next user message]")
                attached.append({"text": f"{kind.capitalize()} returned by {name} ({call_id}):"})
                attached += pieces
            else:
                media += inside
                told = (piece for piece in pieces if piece not in inside)
                texts += [as_text(piece.get("text", part.get("text"))) for piece in told]
        texts = [text for text in texts if text.strip()]
        if is_error and not texts:
            texts = ["The tool failed without saying why."]
        response = _response_object(texts, is_error=is_error)
        fields: dict[str, Json] = {"id": call_id, "name": name, "response": response}
        if media:
            fields["parts"] = media
        return {"function_response": fields}

    def _stands_inside(self, part: JsonObject, piece: JsonObject) -> bool:
        """Whether an image or a document can be a part of a function's response.

        Of ours only inline bytes: what is fetched from an address goes into the content after it.
        https://ai.google.dev/gemini-api/docs/function-calling (read 2026-11-27)
        """
        kinds = ("inline_data",) if wire.is_attachment(part) else ("inline_data", "file_data")
        return any(as_object(piece.get(k)).get("mime_type") in RESPONSE_TYPES for k in kinds)

    def _media_rules(self) -> "MediaRules":
        return media_rules(self.request.limits)

    def _flaw_of(self, block: JsonObject, _role: str) -> str | None:
        if self.is_vertex and (foreign := NOT_ON_VERTEX & snake_fields(block).keys()):
            return f"Vertex AI takes no {min(foreign)}"
        return find_flaw(block)

    def _adapt(self, part: JsonObject, changes: list[Change]) -> list[JsonObject]:
        """Return a sound part without what the SDK does not know: it forbids other fields."""
        fields = snake_fields(part["block"])
        lost, is_sent = (
            fields.keys() - KINDS - MARKS,
            (KINDS | {"thought_signature"}) & fields.keys(),
        )
        if lost or not is_sent:
            reason = f"These fields are not sent: {', '.join(sorted(lost or fields))}."
            changes.append(Change("repaired" if is_sent else "dropped", "content.fields", reason))
            part = {**part, "block": {k: held for k, held in fields.items() if k not in lost}}
        return [part] if is_sent else []

    # -- the payload --

    def write(self, request: Request) -> Payload:
        """Return keyword arguments for `generate_content`; bytes are base64 text."""
        given = request.parameters
        self.leave_history(request, *wire.MANAGED)
        config: dict[str, Json] = {
            "system_instruction": self.system,
            "tools": LentList(self.tools),
            "tool_config": self._tool_config(request),
            # The SDK would call functions by itself; the loop is the caller's.
            "automatic_function_calling": {"disable": True} if self.tools else None,
            "max_output_tokens": given.max_tokens,
            "thinking_config": self._thinking(request),
            "stop_sequences": self.stops(request, most=MAX_STOP_SEQUENCES),
        }
        if (form := given.response_format) is not None:
            config["response_mime_type"] = "application/json"
            config["response_json_schema"] = _sayable(fresh_json(form.schema))
        config = {key: held for key, held in config.items() if held}
        ignores = request.limits.parameters.temperature in ("ignored", "never")
        for name in ("temperature", "top_p", "top_k"):
            value, rule = getattr(given, name), cast("Rule", f"parameter.{name}")
            if value is not None and ignores:
                # https://ai.google.dev/gemini-api/docs/gemini-4 (read 2026-11-27)
                self.report(name, "The model does not heed it.", rule)
            elif value is not None:
                config[name] = value
        return {
            "model": request.limits.wire_id,
            "contents": LentList(self.messages),
            "config": config,
        }

    def _tool_config(self, request: Request) -> dict[str, Json]:
        """Return the tool choice, and that server tools may be next to functions.

        https://ai.google.dev/gemini-api/docs/function-calling (read 2026-11-27)
        https://github.com/ag2ai/ag2/pull/3145 (read 2026-11-27): functions and server tools together
        need the flag, which Vertex AI does not know.
        """
        choice, functions = request.parameters.tool_choice, self.functions
        is_mixed = len(self.tools) > 1 and bool(functions)
        needs_flag = is_mixed and self.is_newer and not self.is_vertex
        if choice is not None:
            if choice.allows_parallel is not None:
                reason = "The API has no switch for parallel calls."
                self.report("parallel_tool_calls", reason, "parameter.parallel_tool_calls")
            if choice.mode in ("any", "tool"):
                self.check_forced(request, functions)
        mode, word = choice.mode if choice is not None else "auto", ""
        names = wire.allowed_names(request, NAME) if mode in ("auto", "any") else None
        if allowed := [self.names[name] for name in names or () if name in functions]:
            # Docstring of `google.genai.types.FunctionCallingConfigMode`, google-genai 3.6
            word = "ANY" if mode == "any" else "VALIDATED"
        elif choice is not None and functions and not (needs_flag and mode == "auto"):
            # Next to server tools the API decides by itself; AUTO is not among what it takes then.
            word = {"auto": "AUTO", "none": "NONE"}.get(mode, "ANY")
            allowed = [self.names[choice.name]] if choice.name is not None else []
        made: dict[str, Json] = {}
        if word:
            only = {"allowed_function_names": allowed} if allowed else {}
            made["function_calling_config"] = {"mode": word, **only}
        if needs_flag:
            made["include_server_side_tool_invocations"] = True
        return made

    def _thinking(self, request: Request) -> dict[str, Json]:
        """Return how to think; levels and budgets exclude each other.

        Summaries of thoughts are asked for wherever there are thoughts: they cost nothing, and a session
        keeps them for people to read. https://ai.google.dev/gemini-api/docs/thinking (read 2026-11-27)
        """
        rule, given = request.limits.thinking, request.parameters
        level, budget = given.thinking_level, given.thinking_budget
        if (level == "none" or budget == 0) and rule.kinds:
            if rule.disable != "yes" or "budget" not in rule.kinds:
                raise self.unthinking_refusal()
            return {"thinking_budget": 0}
        if level in rule.levels and "effort" in rule.kinds:
            return {"thinking_level": str(level).upper(), "include_thoughts": True}
        if budget and "budget" in rule.kinds:
            return {"thinking_budget": budget, "include_thoughts": True}
        return {}


def _is_thought(part: JsonObject) -> bool:
    """Whether a part is a thought, or nothing but a signature: no prefix hash counts it."""
    is_thought = part.get("thought") is True and "function_call" not in part
    is_bare = "thought_signature" in part and not part.keys() - {"thought_signature", "text"}
    return is_thought or (is_bare and not str(part.get("text", "")).strip())


# ---- replies ----

_GOOD_ENDS: Final = ("", "STOP", "FINISH_REASON_UNSPECIFIED", "MAX_TOKENS")
_ABOUT_THE_TEXT: Final = ("grounding_metadata", "citation_metadata", "url_context_metadata")
_MEDIA_FIELDS: Final = frozenset({"mime_type", "data", "file_uri"})
# The prompt with its cached part, the answer with its thoughts. What server tools put into the prompt
# on the way was never sent, and is not counted. Docstring of
# `google.genai.types.GenerateContentResponseUsageMetadata`, google-genai 3.6 (read 2026-11-27)
_USAGE: Final = {
    "input_tokens": "prompt_token_count",
    "output_tokens": "candidates_token_count thoughts_token_count",
    "cache_read_tokens": "cached_content_token_count",
    "reasoning_tokens": "thoughts_token_count",
}
_OWN_STORAGE: Final = re.compile(r"gs://|https?://generativelanguage\.googleapis\.com/")


def read_reply(reply: Any, request: Request | None = None) -> wire.Reply:
    """Return the first candidate's parts in order: thoughts, text, calls, and what else.

    The SDK does not join the chunks of a stream; a list of them is read as one reply. Calls without
    an id get one that depends on the reply alone.

    Raises:
        ReplyError: The reply is none of this API's.
    """
    warnings: list[str] = []
    pieces: Any = reply if issubclass(type(reply), list | tuple) else [reply]
    chunks = list(map(snake_fields, wire.read_stream(pieces)))  # one, but for a stream
    if not chunks:
        raise ReplyError(reply, reason="it is neither a dict nor an SDK object")
    if not all(map(_is_chunk, chunks)):
        raise ReplyError(reply, reason="it has neither candidates nor feedback on the prompt")
    names = wire.own_names(request, NAME_RULE, NAME)
    whole: dict[str, Json] = {}
    parts: list[JsonObject] = []
    cut_off: list[JsonObject] = []
    for chunk in chunks:
        # Of several candidates the first is read.
        found = map(snake_fields, as_list(chunk.get("candidates")))
        candidate = next((one for one in found if not one.get("index")), dict[str, Json]())
        whole |= {**chunk, **candidate}
        blocks = wire.objects_in(snake_fields(candidate.get("content")).get("parts"))
        for at, block in enumerate(blocks):
            call = snake_fields(snake_fields(block).get("function_call"))
            seed = f"{as_text(whole.get('response_id'))}\0{len(parts)}\0{compact_json(call)}"
            call_id = f"call_{sha256(clean_text(seed).encode()).hexdigest()[:16]}"
            part = read_part(block, call_id, "", lambda _where, what: warnings.append(what))
            if part["type"] == "tool_call":
                part = {**part, "name": names.get(part["name"], part["name"])}
            joined = _join(parts[-1], part) if at == 0 and parts else None
            parts[-1:] = [joined] if joined else [*parts[-1:], part]
            # Types of google-genai 3.6, FunctionCall.partial_args (read 2026-11-30)
            is_piece = call.get("will_continue") is True or call.get("partial_args")
            cut_off += parts[-1:] if is_piece else []
    blocked = as_text(snake_fields(whole.get("prompt_feedback")).get("block_reason"))
    stop_reason = as_text(whole.get("finish_reason")) or blocked or None
    cut_off += parts[-1:] if stop_reason == "MAX_TOKENS" else []
    unfinished = tuple(part["call_id"] for part in cut_off if part["type"] == "tool_call")
    parts += [_metadata(key, whole[key]) for key in _ABOUT_THE_TEXT if whole.get(key)]
    parts = [part for part in parts if part != text_part("")]
    told = (*warnings, *_warn(chunks, whole), *map(wire.say_unfinished, unfinished))
    model, usage = as_text(whole.get("model_version")), snake_fields(whole.get("usage_metadata"))
    made = unfinished, as_text(whole.get("response_id")) or None, stop_reason
    return wire.Reply(NAME, model, parts, *made, wire.read_usage(usage, **_USAGE), warnings=told)


def _is_chunk(chunk: JsonObject) -> bool:
    candidates = chunk.get("candidates")
    if candidates is None:
        return "prompt_feedback" in chunk or "usage_metadata" in chunk
    listed = as_list(candidates)
    return isinstance(candidates, list) and len(wire.objects_in(listed)) == len(listed)


def _warn(chunks: Sequence[JsonObject], whole: JsonObject) -> Iterator[str]:
    count = max(len(as_list(chunk.get("candidates"))) for chunk in chunks)
    if count > 1:
        yield f"Only the first of {count} candidates was read."
    feedback = snake_fields(whole.get("prompt_feedback"))
    if blocked := as_text(feedback.get("block_reason")):
        why = as_text(feedback.get("block_reason_message"))
        yield f"The prompt was blocked: {blocked}{f' ({why})' if why else ''}."
    elif count == 0:
        yield "The reply has no candidate."
    ended, why = as_text(whole.get("finish_reason")), as_text(whole.get("finish_message"))
    if ended not in _GOOD_ENDS:
        yield f"The reply ended with {ended}{f': {why}' if why else ''}."


def _join(before: JsonObject, part: JsonObject) -> JsonObject | None:
    """Return two pieces of a stream as one part; `None`: they are two. Signed ones stay apart."""
    is_text = part["type"] == before["type"] and part["type"] in ("text", "thinking")
    if not is_text or {"signature", "block"} & {*before, *part}:
        return None
    return {**before, "text": before.get("text", "") + part.get("text", "")}


def _metadata(key: str, held: Json) -> JsonObject:
    """Return what a reply says about itself, with the sources that it names as text."""
    part: dict[str, Json] = {"type": "opaque", "provider": NAME, "block": {key: held}}
    chunks = wire.objects_in(snake_fields(held).get("grounding_chunks"))
    webs = [as_object(chunk.get("web")) for chunk in chunks]
    lines = [f"{as_text(web.get('title'))} {as_text(web.get('uri'))}".strip() for web in webs]
    if named := "\n".join(dict.fromkeys(filter(None, lines))):
        part["text"] = f"Sources:\n{named}"
    return part


# ---- parts of contents, in replies and requests ----


def read_part(block: JsonObject, call_id: str, where: str, note: wire.Note) -> JsonObject:
    """Return a part of a content as a stored part; one that we do not interpret stays verbatim.

    Text that is signed but blank, and thoughts, are thinking: a signature is never lost with the
    text that it belongs to.

    Args:
        call_id: The id of a call that came without one.
    """
    fields = snake_fields(block)
    kinds = fields.keys() & KINDS
    signature, text = as_text(fields.get("thought_signature")), as_text(fields.get("text"))
    signed = {"signature": signature} if signature else {}
    call = snake_fields(fields.get("function_call"))
    if kinds == {"function_call"} and (name := as_text(call.get("name"))):
        given_id = as_text(call.get("id")) or call_id
        return {**wire.read_call(given_id, name, call.get("args"), where, note), **signed}
    if fields.get("thought") is True or (signature and kinds <= {"text"} and not text.strip()):
        part = {"type": "thinking", "provider": NAME, **({"text": text} if text else {})}
        return part | ({"block": dict(block)} if signature else {})
    if kinds == {"text"} and fields.keys() <= {"text", "thought", "thought_signature"}:
        return {**text_part(text), **signed}
    return read_media(block) or _opaque(block)


def _opaque(block: JsonObject) -> JsonObject:
    return wire.opaque_part(NAME, block, readable_text(block))


def read_media(block: JsonObject) -> JsonObject | None:
    """Return inline or fetched bytes as an image or a document; `None` for anything else.

    Recordings, films and files in Google's own storage are nobody else's to understand.
    """
    from context_assembler.providers.media import media_of

    fields = snake_fields(block)
    held = snake_fields(fields.get("inline_data") or fields.get("file_data"))
    is_known = as_text(held.get("mime_type")).startswith(("image/", "text/", "application/pdf"))
    uri = as_text(held.get("file_uri"))
    is_own = len(fields) > 1 or held.keys() - _MEDIA_FIELDS or _OWN_STORAGE.match(uri)
    return media_of(block, NAME) if is_known and not is_own else None


def read_messages(
    contents: Json, note: wire.Note = lambda _where, _what: None
) -> list[tuple[str, dict[str, Json]]]:
    """Return the events of a list of contents, or of a request: type and stored body.

    Calls often come without ids: a response without one answers the oldest open call of its name,
    or the oldest open call. The system instruction of a request comes first.

    Args:
        note: Gets the place and half a sentence for everything that is not kept as it came.
    """
    events: list[tuple[str, dict[str, Json]]] = []
    reader = ContentReader(note)
    if isinstance(contents, Mapping) and "parts" not in contents:
        fields = snake_fields(contents)
        config = snake_fields(fields.get("config"))
        system = fields.get("system_instruction", config.get("system_instruction"))
        contents = fields.get("contents")
        if system is not None:
            given = as_object(system).get("parts", system)
            events.append(("system", {"parts": reader.parts(given, "systemInstruction")}))
    is_listed = isinstance(contents, list | tuple | None)
    for at, content in enumerate(as_list(contents if is_listed else [contents])):
        events += reader.read(content, f"contents[{at}]")
    return events


_READ_INSIDE: Final = {
    "function_call": ("id", "name", "args"),
    "function_response": ("id", "name", "response", "parts"),
}


class ContentReader:
    """Reads contents in order: a response without an id answers the oldest open call of its name."""

    def __init__(self, note: wire.Note) -> None:
        self._note = note
        self._open: list[JsonObject] = []
        self._role: Json = None  # of the content before
        self._made_up = 0

    def read(self, content: Json, where: str) -> Iterator[tuple[str, dict[str, Json]]]:
        fields = {"parts": content} if isinstance(content, str) else as_object(content)
        role = fields.get("role") or ("user" if fields else None)
        if role not in ("user", "model", "function"):
            self._note(where, f"has no known role ({role!r:.40}); left out")
            return
        earlier = self._open if role == self._role == "model" else []  # one set of calls
        parts, self._role = self.parts(fields.get("parts"), f"{where}.parts"), role
        self._open = [*(call for call in earlier if call not in self._open), *self._open]
        kept = {key: held for key, held in fields.items() if key not in ("role", "parts")}
        rest: dict[str, Json] = {"metadata": {NAME: kept}} if kept else {}
        if role == "model":
            yield "assistant", {"parts": parts, **rest}
            return
        results = [part for part in parts if part["type"] == "tool_result"]
        for result in results:
            yield "tool_result", {"parts": [result]}
        said = [part for part in parts if part["type"] != "tool_result"]
        if said or rest or not results:
            yield "user", {"parts": said, **rest}

    def parts(self, value: Json, where: str) -> list[JsonObject]:
        """Return parts; a lone one, or text, stands for a list of itself."""
        listed: Json = [value] if isinstance(value, Mapping) else value
        parts = wire.read_content(listed, where, self._note, self._part)
        self._open = [part for part in parts if part["type"] == "tool_call"] or self._open
        return parts

    def _part(self, entry: JsonObject, where: str) -> JsonObject:
        fields = snake_fields(entry)
        for kind, read in _READ_INSIDE.items():
            if held := snake_fields(fields.get(kind)):
                wire.note_rest(fields, (kind, "thought", "thought_signature"), where, self._note)
                wire.note_rest(held, read, f"{where}.{kind}", self._note)
        if "function_response" in fields:
            return self._result(snake_fields(fields["function_response"]))
        part = read_part(entry, f"gemini_call_{self._made_up + 1}", where, self._note)
        call = snake_fields(fields.get("function_call"))
        self._made_up += part["type"] == "tool_call" and not as_text(call.get("id"))
        return part

    def _result(self, fields: JsonObject) -> JsonObject:
        name, call_id = as_text(fields.get("name")), as_text(fields.get("id"))
        found = [call for call in self._open if call_id in ("", call["call_id"])]
        call = next(iter([one for one in found if one["name"] == name] or found), None)
        if call is not None:
            self._open = [one for one in self._open if one is not call]
            call_id = call["call_id"]
        elif not call_id:
            self._made_up += 1
            call_id = f"gemini_call_{self._made_up}"
        texts, is_error = _read_response(fields.get("response"))
        inner = wire.objects_in(fields.get("parts"))
        content = [*map(text_part, texts), *(read_media(one) or _opaque(one) for one in inner)]
        is_named = name and (call is None or call["name"] != name)
        part: dict[str, Json] = {"type": "tool_result", "call_id": call_id, "content": content}
        part |= {"is_error": is_error, "tool_name": name if is_named else ""}
        return {key: held for key, held in part.items() if held or key == "call_id"}


def _read_response(response: Json) -> tuple[list[str], bool]:
    """Return the texts of a function's response, and whether it is an error."""
    is_error, fields = False, as_object(response)
    key = next(iter(fields), "output")
    if isinstance(response, Mapping) and len(fields) < 2 and key in ("error", "output"):
        is_error, response = key == "error", fields.get(key)
    if response in (None, ""):
        return [], is_error
    texts = [entry for entry in as_list(response) if isinstance(entry, str)]
    if len(texts) < 2 or len(texts) != len(as_list(response)):
        texts = [response if isinstance(response, str) else compact_json(response)]
    return texts, is_error
