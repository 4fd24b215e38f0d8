"""Where each rule of Gemini is written, and payloads as the rules look at them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from context_assembler.providers.gemini.generations import SIGNED, generation_of
from context_assembler.values.breaches import RuleBook
from context_assembler.values.json_shapes import is_object
from context_assembler.values.limits import ModelLimits
from context_assembler.values.native.gemini_fields import snake_fields
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_text

_DOCS: Final = "https://ai.google.dev/gemini-api/docs"
_API: Final = "https://ai.google.dev/api/generate-content"
_SDK: Final = "docstrings of google.genai.types, google-genai 3.6"

# Rule → where it is written. All were read on 2026-11-27.
SOURCES: Final[Mapping[str, str]] = {
    "G0": f"{_API}, {_SDK}: Part, Content",
    "G1": f"{_SDK}: Content.role; https://github.com/crewAIInc/crewAI/pull/6973",
    "G2": "https://github.com/google-gemini/gemini-cli/issues/5443",
    "G3": "https://github.com/google-gemini/gemini-cli/issues/26956",
    "G4": f"{_DOCS}/thought-signatures",
    "G5": f"{_DOCS}/thought-signatures",
    "G6": f"{_SDK}: FunctionResponse",
    "G7": f"{_SDK}: FunctionDeclaration; https://github.com/kaitranntt/ccs/issues/25",
    "G8": f"{_SDK}: Schema, FunctionDeclaration.parameters_json_schema",
    "G9": "https://github.com/BerriAI/litellm/issues/17304",
    "G10": f"{_DOCS}/thinking, {_API}#GenerationConfig",
    "G11": f"{_DOCS}/media-resolution",
    "G12": f"{_DOCS}/files",
    "G13": f"{_API}, {_SDK}: Content.parts",
    "G14": f"{_DOCS}/structured-output",
    "G15": f"{_DOCS}/function-calling; https://github.com/UKGovernmentBEIS/inspect_ai/issues/2462",
    "G16": "https://github.com/ag2ai/ag2/pull/3145",
}

# What no look at a payload can find, by the rule that it belongs to.
UNCHECKED: Final[Mapping[str, str]] = {
    "G4": "Which model, key and route a signature was made with: it does not show. The assembler sends "
    "none but those whose reply is known to come from the same.",
    "G5": "Whether signed parts go back as they came: only who has the reply can tell. The assembler "
    "sends them verbatim.",
    "G9": "Whether the cached content still exists, and was made for this model.",
    "G12": "The size, type and pages of what lies behind an address.",
}

breach: Final = RuleBook(sources=SOURCES, read_on="2026-11-27").breach


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPart:
    """A part and where it stands, its fields by their names in the SDK."""

    where: str
    fields: dict[str, Json]

    @property
    def call(self) -> dict[str, Json]:
        """The function call in it; empty without one."""
        return snake_fields(self.fields.get("function_call"))

    @property
    def response(self) -> dict[str, Json]:
        """The function's response in it; empty without one."""
        return snake_fields(self.fields.get("function_response"))

    @property
    def is_call(self) -> bool:
        return "function_call" in self.fields

    @property
    def is_response(self) -> bool:
        return "function_response" in self.fields


@dataclass(frozen=True, slots=True, kw_only=True)
class SentContent:
    """A content and where it stands."""

    where: str
    role: str
    parts: tuple[SentPart, ...]

    @property
    def calls(self) -> list[SentPart]:
        return [part for part in self.parts if part.is_call]

    @property
    def responses(self) -> list[SentPart]:
        return [part for part in self.parts if part.is_response]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A payload with what the rules need to know beside it.

    Attributes:
        contents: A lone text or object stands for one content, as the API and the SDK read it.
        config: Everything but model and contents, flat, whichever way it was nested.
        is_sdk: Whether these are arguments of the SDK, not the body of a request.
        model: The id of the model; empty where nobody says.
        generation: `None` where the id tells none, or its model has retired and another answers.
    """

    payload: JsonObject
    contents: tuple[SentContent, ...]
    config: dict[str, Json]
    is_sdk: bool
    limits: ModelLimits | None
    model: str
    generation: tuple[int, int] | None

    @property
    def is_unsigned(self) -> bool:
        """Whether the model is known to be older than signed calls and levels of thinking."""
        return self.generation is not None and self.generation < SIGNED

    @property
    def is_signed(self) -> bool:
        """Whether the model is known to insist on signed calls, and to think by levels."""
        return self.generation is not None and self.generation >= SIGNED

    def where(self, key: str) -> str:
        """Return the place of a setting."""
        return f"config.{key}" if self.is_sdk else key

    def tools(self) -> Iterator[tuple[str, dict[str, Json]]]:
        """Yield the tools with their places."""
        for index, tool in _listed(self.config.get("tools")):
            yield f"{self.where('tools')}[{index}]", snake_fields(tool)

    def functions(self) -> Iterator[tuple[str, dict[str, Json]]]:
        """Yield the declared functions with their places."""
        for where, tool in self.tools():
            for index, function in _listed(tool.get("function_declarations")):
                yield f"{where}.function_declarations[{index}]", snake_fields(function)


def open_payload(
    payload: JsonObject, *, limits: ModelLimits | None, today: date | None = None
) -> Sent:
    """Return keyword arguments of the SDK, or the body of a request, as the rules see them."""
    fields = snake_fields(payload)
    own = snake_fields(fields.get("config"))
    is_sdk = "config" in fields or fields.keys() == {"model", "contents"}
    generation = snake_fields(fields.get("generation_config"))
    rest = {key: held for key, held in fields.items() if key not in _NOT_SETTINGS}
    asked = limits.id if limits is not None else as_text(fields.get("model"))
    retires_on = None if limits is None else limits.retires_on
    is_retired = today is not None and retires_on is not None and today >= retires_on
    return Sent(
        payload=fields,
        contents=tuple(_contents(fields.get("contents"))),
        config=own | rest | generation,
        is_sdk=is_sdk,
        limits=limits,
        model=asked,
        generation=None if is_retired else generation_of(asked),
    )


_NOT_SETTINGS: Final = frozenset({"model", "contents", "config", "generation_config"})


def _contents(value: Json) -> Iterator[SentContent]:
    entries = list(_listed(value))
    if entries and not any(is_object(entry) and _has_parts(entry) for _, entry in entries):
        # Parts without contents around them: one user content, as the SDK reads it.
        parts = tuple(_parts("contents", value))
        yield SentContent(where="contents", role="user", parts=parts)
        return
    for index, entry in entries:
        fields, where = snake_fields(entry), f"contents[{index}]"
        role = fields.get("role", "user")
        parts = tuple(_parts(f"{where}.parts", fields.get("parts")))
        yield SentContent(where=where, role=as_text(role), parts=parts)


def _has_parts(entry: JsonObject) -> bool:
    return "parts" in entry or "role" in entry


def _parts(where: str, value: Json) -> Iterator[SentPart]:
    for index, part in _listed(value):
        fields = {"text": part} if isinstance(part, str) else snake_fields(part)
        yield SentPart(where=f"{where}[{index}]", fields=fields)


def _listed(value: Json) -> Iterator[tuple[int, Json]]:
    """Yield the entries of a list; a lone object or text stands for a list of itself."""
    yield from enumerate([value] if is_object(value) or isinstance(value, str) else as_array(value))
