"""What OpenAI's two protocols have in common."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from context_assembler.context import Request
from context_assembler.events import Json, JsonObject, Usage
from context_assembler.models import ModelLimits
from context_assembler.ports import Payload, ToolSpec, Turn
from context_assembler.providers import wire
from context_assembler.providers.schemas import (
    closed_schema,
    objection_to_strict,
    root_object_schema,
)
from context_assembler.providers.wire import LentList, as_list, as_object, as_text
from context_assembler.texts import clean_text

if TYPE_CHECKING:
    from context_assembler.providers.media import MediaRules

Item: TypeAlias = dict[str, Json]  # an item, a message, or a piece of content

MAX_TOOLS: Final = 128  # https://github.com/openai/openai-openapi, tools (read 2026-11-27)
MAX_CACHE_KEY_CHARS: Final = 64
_MAX_FILE_CHARS: Final = 73_000_000  # of 73,400,320: the head of a URL counts
DETAILS: Final = ("low", "high", "auto", "original")


def is_own_api(limits: ModelLimits) -> bool:
    """Whether OpenAI's own API answers, or a cloud's that is the same; not one that imitates it."""
    is_open = limits.id.startswith("gpt-oss")  # open weights: everybody but OpenAI serves them
    return limits.provider == "openai" and limits.host in (None, "azure") and not is_open


def media_rules(limits: ModelLimits, **api: Any) -> "MediaRules":
    """Return what the server takes of images and documents; of its own API the published limits.

    Of two published limits the lower holds. No side is too long, since the server scales; but an
    image of more bytes than any picture that it looks at needs is scaled, so that a few of them do
    not fill a request.

    Source:
        https://developers.openai.com/api/docs/guides/images-vision, guides/file-inputs
        https://github.com/openai/openai-openapi, InputImageContent, InputFileContent
        (read 2026-11-27)
    """
    from context_assembler.providers.media import MediaRules

    if is_own_api(limits):
        api |= {"max_image_chars": 20_900_000, "fit_image_chars": 10 * 1024 * 1024}
        api["max_document_chars"] = _MAX_FILE_CHARS
    return MediaRules(file_owner="openai", takes_animations=False, **api)


def effort_of(request: Request) -> str | None:
    """Return the reasoning effort to ask for; `None` leaves it to the model."""
    parameters = request.parameters
    asked = "none" if parameters.thinking_budget == 0 else parameters.thinking_level
    return asked if asked in request.limits.thinking.levels else None


class OpenAIWire(wire.GrownWire):
    """The part of a `Wire` that both protocols have."""

    api: ClassVar[str]  # for people
    key: ClassVar[str]  # of the messages in the payload
    text_type: ClassVar[str]  # of a piece of text that the user says
    media: ClassVar[Mapping[str, Any]] = {}
    _names_files = True
    # What differs between the protocols; a choice may be empty.
    _parameters: Callable[[Request], Item]
    _choice_of: Callable[[str], Item]
    _choice_among: Callable[[str, tuple[str, ...]], Item]

    def __init__(
        self, request: Request, rules: tuple[wire.NameRule, wire.NameRule], role: str
    ) -> None:
        super().__init__(request, *rules)
        self.is_own = is_own_api(request.limits)
        self.role = role  # of instructions
        self.takes_late = True  # instructions in the middle of a conversation
        self.tools: list[ToolSpec] = []
        self.rendered_tools: list[Item] = []

    def _add_instructions(self, turn: Turn) -> None:
        """Append late instructions under their role, or fenced if they have no authority."""
        parts = wire.settle_parts(turn, self._settle, self.entries)
        has_authority = turn.get("origin") not in wire.NO_SYSTEM_AUTHORITY
        own = [p for p in parts if has_authority and self._is_own_item(p)]
        others = [part for part in parts if part not in own]
        has_media = any(part["type"] in wire.MEDIA for part in others)
        if has_authority and self.takes_late and not has_media:
            self._say(self.role, clean_text(wire.text_of(others)))
        else:
            self._add_fenced(turn, others)
        self._add_user(own)

    def _is_own_item(self, _part: JsonObject) -> bool:
        """Whether an opaque part is an item of its own, not a piece of content."""
        return False

    def has_expired(self, name: str, end: float) -> bool:
        """Whether the server forgot what it kept by that name when the newest message came."""
        is_gone = end <= (self.request.newest_at or 0)
        if is_gone:
            why = "The server no longer keeps it, so it is sent as words."
            self.report(name, why, "parameter.expired", "repaired")
        else:
            self.ends = min(self.ends, end)
        return is_gone

    def _media_rules(self) -> "MediaRules":
        return media_rules(self.request.limits, api=self.api, **self.media)

    def _text_piece(self, text: str) -> Item:
        return {"type": self.text_type, "text": text}

    def _media_piece(self, part: JsonObject) -> Item:
        """Return an image or a file.

        Source:
            https://developers.openai.com/api/docs/guides/images-vision, guides/file-inputs,
            guides/pdf-files (read 2026-11-27)
        """
        from context_assembler.providers import media

        source, is_chat = part["source"], self.text_type == "text"
        url = clean_text(source.get("url", ""))
        file: Item = {"file_url": url} if url else {"file_id": source.get("file_id")}
        if source["type"] == "base64":
            media_type = clean_text(media.media_type_of(source))
            usual = "document.pdf" if is_chat or media_type == media.PDF else "document.txt"
            url = f"data:{media_type};base64,{source['data']}"
            file = {"filename": clean_text(part.get("title") or usual), "file_data": url}
        if part["type"] == "document":
            return {"type": "file", "file": file} if is_chat else {"type": "input_file", **file}
        detail = part.get("detail")
        if is_chat:
            image = {"url": url} | ({"detail": detail} if detail else {})
            return {"type": "image_url", "image_url": image}
        place = {"image_url": url} if url else file
        return {"type": "input_image", "detail": detail or "auto", **place}

    # -- tools, system, parameters --

    def _offer(self, *, most: int) -> list[ToolSpec]:
        """Return the tools that are offered; how many other servers take is not known."""
        tools = self.declared_tools(self.entries)
        if self.is_own and len(tools) > most:
            choice = self.request.parameters.tool_choice
            forced = choice.name if choice is not None else None
            kept = sorted(tools, key=lambda tool: tool.name != forced)[:most]
            reason = f"{self.api} takes at most {most} tools, in their order."
            left_out = (tool for tool in tools if tool not in kept)
            self.entries += [wire.tool_entry(tool, "tool.count", reason) for tool in left_out]
            tools = [tool for tool in tools if tool in kept]
        return [self._settle_strict(tool) for tool in tools]

    def _settle_strict(self, tool: ToolSpec) -> ToolSpec:
        """Return the tool, without strict mode if its schema cannot be enforced."""
        if not tool.is_strict or tool.native_specs:
            return tool
        reason = objection_to_strict(root_object_schema(tool.input_schema))
        if reason is None:
            return tool
        told = f"It is offered without strict mode: {reason}."
        self.entries.append(wire.tool_entry(tool, "tool.strict", told, "repaired"))
        return replace(tool, is_strict=False)

    def _reply_format(self, request: Request) -> Item:
        """Return the form of the reply; without strict mode if its schema cannot be enforced.

        Strict mode wants all properties to be required; `to_strict_json_schema` of the openai package
        3.57 requires those with a default as well.
        """
        given = request.parameters.response_format
        if given is None or given.schema is None:
            return {} if given is None else {"type": "json_object"}
        schema = closed_schema(given.schema, requires_all=True)
        if given.is_strict and (reason := objection_to_strict(schema)):
            said = f"It is sent without strict mode: {reason}."
            self.report("response_format", said, "parameter.response_format", "repaired")
            given = given._replace(is_strict=False)
        schema = schema if given.is_strict else wire.plain_json(given.schema)
        form = {"name": given.name, "schema": schema, "strict": given.is_strict}
        return {"type": "json_schema", **form}

    def _native(self, tool: ToolSpec) -> Item:
        """Return the API's own form of a tool; empty if it has none."""
        form: Item = wire.plain_json(tool.native_specs.get(self.name, {}))
        return form

    def _function(self, tool: ToolSpec) -> Item:
        told = {"description": words} if (words := wire.said(tool.description)) else {}
        schema = root_object_schema(tool.input_schema)
        return {"name": self.names[tool.name], **told, "parameters": schema}

    def _system(self) -> list[Item]:
        """Return the system prompt as the first message."""
        text = wire.said(self.request.system)
        return [{"role": self.role, "content": text}] if text else []

    def write(self, request: Request) -> Payload:
        """Return keyword arguments for the SDK."""
        made: Payload = {"model": request.limits.wire_id, **self._parameters(request)}
        if self.rendered_tools:
            made["tools"] = LentList(self.rendered_tools)
        made |= self._tool_choice(request)
        made[self.key] = LentList([*self._system(), *self.messages])
        return made

    def _sampling(self, request: Request) -> Item:
        parameters = request.parameters
        made = {"temperature": parameters.temperature, "top_p": parameters.top_p}
        return wire.without_nulls(made)

    def _cache_key(self, request: Request) -> Item:
        """Return the key that routes a session's requests to one cache.

        Source:
            https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-27)
        """
        if not self.is_own or request.cache != "auto" or not request.session_id:
            return {}
        key = clean_text(request.session_id)
        is_short = len(key) <= MAX_CACHE_KEY_CHARS
        return {"prompt_cache_key": key if is_short else sha256(key.encode()).hexdigest()}

    def _tool_choice(self, request: Request) -> Item:
        """Return the choice, and whether calls may be parallel: both are taken with tools only.

        Source:
            types of the openai package 3.57, ChatCompletionAllowedToolsParam,
            ToolChoiceAllowedParam (read 2026-11-27)
        """
        choice = request.parameters.tool_choice
        mode = choice.mode if choice is not None else "auto"
        names = wire.allowed_names(request, self.name) if self.is_own else ()
        among: Item = {}
        if names and mode in ("auto", "any"):
            among = self._choice_among("required" if mode == "any" else mode, names)
        if choice is None:
            return {"tool_choice": among} if among else {}
        if choice.allowed is not None and not self.is_own:
            reason = "The server cannot limit a call to some of the tools."
            self.report("allowed_tools", reason, "parameter.allowed_tools")
        if mode in ("any", "tool"):
            self.check_forced(request, [tool.name for tool in self.tools])
        if not self.rendered_tools:
            return {}
        usual = among or ("required" if mode == "any" else mode)
        made: Item = {"tool_choice": self._choice_of(choice.name) if choice.name else usual}
        parallel = choice.allows_parallel
        if parallel is not None and request.limits.features.get("parallel_tools", True):
            made["parallel_tool_calls"] = parallel
        return made


# ---- reading ----


def read_usage(usage: Json, *, asked: str, answered: str) -> Usage | None:
    """Return the reported tokens; `asked` and `answered` are the protocol's words for both sides.

    Source:
        https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-27)
    """
    return wire.read_usage(
        usage,
        input_tokens=f"{asked}_tokens",
        output_tokens=f"{answered}_tokens",
        cache_read_tokens=f"{asked}_tokens_details.cached_tokens",
        cache_write_tokens=f"{asked}_tokens_details.cache_write_tokens",
        reasoning_tokens=f"{answered}_tokens_details.reasoning_tokens",
    )


def read_content(content: Json, where: str, note: wire.Note, *, provider: str) -> list[JsonObject]:
    """Return what a message or an output holds as stored parts."""
    return wire.read_content(
        content, where, note, lambda piece, at: _read_piece(piece, at, note, provider)
    )


_READ_OF_PIECES: Final = frozenset(
    "type text image_url url file detail file_id file_url file_data filename "
    "prompt_cache_breakpoint".split()
)


def _read_piece(piece: JsonObject, where: str, note: wire.Note, provider: str) -> JsonObject:
    kind = as_text(piece.get("type"))
    part: JsonObject | None = None
    if kind in ("text", "input_text") and isinstance(piece.get("text"), str):
        part = {"type": "text", "text": piece["text"]}
    elif kind in ("image_url", "input_image", "file", "input_file"):
        from context_assembler.providers.media import media_of

        part = media_of(piece, provider)
        detail = piece.get("detail", as_object(piece.get("image_url")).get("detail"))
        if part is not None and detail in DETAILS:
            part = {**part, "detail": detail}
        elif part is not None and detail is not None:
            note(f"{where}.detail", f"{detail!r:.40} is unknown; left out")
    if part is None:
        text = readable(piece) or f"[{piece.get('type')}]"
        return {"type": "opaque", "provider": provider, "block": dict(piece), "text": text}
    inner = as_object(piece.get("image_url")) | as_object(piece.get("file"))
    wire.note_rest({**inner, **piece}, _READ_OF_PIECES, where, note)
    return part


def readable(value: Json) -> str:
    """Return the text in a value: its own, or that of its parts."""
    if inside := as_list(value):
        return "\n".join(filter(None, map(readable, inside)))
    texts = map(as_object(value).get, ("text", "refusal", "summary", "transcript"))
    return as_text(value) or "\n".join(text for text in texts if isinstance(text, str))
