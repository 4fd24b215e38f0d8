"""Reads a tool's literal spec in any provider's shape."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from context_assembler.errors import InvalidToolError
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.schemas.tool_schemas import canonical_schema
from context_assembler.values.tools import ToolSpec

_VERSIONED: Final = re.compile(r"_\d{8}$")  # Anthropic's own tools: web_search_20260209
_GEMINI_OWN: Final = frozenset(
    {"googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext", "fileSearch"}
    | {"googleMaps", "computerUse", "retrieval", "enterpriseWebSearch", "mcpServers"}
)
_SCHEMA_KEYS: Final = ("parameters", "parametersJsonSchema", "parameters_json_schema")
_DEFERRED: Final = "defer_loading"
# Nothing for the model in these, or (cache_control) a matter that the renderer settles itself.
_SILENT: Final = frozenset(
    {
        "type",
        _DEFERRED,
        "cache_control",
        "title",
        "outputSchema",
        "annotations",
        "_meta",
        "icons",
        "response",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShape:
    """The tools of one spec, and a sentence for each key that is not carried over."""

    specs: tuple[ToolSpec, ...]
    notes: tuple[str, ...] = ()


_Read: TypeAlias = Callable[[JsonObject], ReadShape]


def read_shape(spec: JsonObject) -> ReadShape:
    """Read a spec of OpenAI (chat, responses), Anthropic, MCP, Gemini or Bedrock.

    A provider's own tools (web search, code execution …) become specs for that provider alone.

    Raises:
        InvalidToolError: It has none of these shapes, or no name.
    """
    if not all(isinstance(key, str) for key in spec):  # pyright: ignore[reportUnnecessaryIsInstance] - hand-made dicts
        raise InvalidToolError("(unnamed)", reason="its keys are no text")
    for matches, read in _SHAPES:
        if matches(spec):
            return read(spec)
    raise InvalidToolError(
        _name_in(spec) or "(unnamed)",
        reason="it has none of the known shapes (OpenAI, Anthropic, MCP, Gemini, Bedrock)",
    )


def _name_in(spec: JsonObject) -> str:
    name = spec.get("name")
    return name if isinstance(name, str) else ""


def _function(
    spec: JsonObject, *, schema: Json, known: Collection[str], outer: JsonObject | None = None
) -> ReadShape:
    name = _name_in(spec)
    if not name.strip():
        raise InvalidToolError("(unnamed)", reason="its name is missing or empty")
    description, strict = spec.get("description"), spec.get("strict")
    if schema is not None and not is_object(schema):
        raise InvalidToolError(name, reason="its schema is no object")
    deferred = spec.get(_DEFERRED, (outer or {}).get(_DEFERRED))
    extra = [key for key in (*spec, *(outer or ())) if key not in known and key not in _SILENT]
    return ReadShape(
        specs=(
            ToolSpec(
                name=name,
                description=description if isinstance(description, str) else "",
                input_schema=schema or {},
                is_strict=strict if isinstance(strict, bool) else None,
                is_deferred=deferred if isinstance(deferred, bool) else None,
            ),
        ),
        notes=tuple(f"Tool {name!r}: {key!r} is not carried over." for key in extra),
    )


def _flat(spec: JsonObject) -> ReadShape:
    schema = next((spec[key] for key in _SCHEMA_KEYS if spec.get(key) is not None), None)
    known = {"name", "description", "strict", *_SCHEMA_KEYS}
    return _function(spec, schema=schema, known=known)


def _nested(spec: JsonObject) -> ReadShape:
    function: JsonObject = spec["function"]
    known = {"name", "description", "parameters", "strict", "function"}
    return _function(function, schema=function.get("parameters"), known=known, outer=spec)


def _anthropic(spec: JsonObject) -> ReadShape:
    known = {"name", "description", "input_schema", "strict"}
    return _function(spec, schema=spec["input_schema"], known=known)


def _mcp(spec: JsonObject) -> ReadShape:
    """Read a tool as an MCP server lists it; one that only reads, and destroys nothing, is safe.

    Source:
        https://modelcontextprotocol.io/specification/2025-06-18/schema#toolannotations
        (read 2026-11-27)
    """
    read = _function(spec, schema=spec["inputSchema"], known={"name", "description", "inputSchema"})
    hints = spec.get("annotations")
    known: JsonObject = hints if is_object(hints) else {}
    only_reads = known.get("readOnlyHint") is True and known.get("destructiveHint") is not True
    is_safe = True if only_reads else None
    return replace(read, specs=(replace(read.specs[0], is_safe=is_safe),))


def _bedrock(spec: JsonObject) -> ReadShape:
    inner: JsonObject = spec["toolSpec"]
    schema = inner.get("inputSchema")
    return _function(
        inner,
        schema=schema.get("json") if is_object(schema) else None,
        known={"name", "description", "inputSchema", "strict"},
    )


def _gemini(spec: JsonObject) -> ReadShape:
    """Read declarations; their types are spelt in capitals there, which is no mistake.

    Source:
        https://ai.google.dev/api/caching#Schema (read 2026-11-27)
    """
    specs: list[ToolSpec] = []
    notes: list[str] = []
    for key, value in spec.items():
        if key in {"functionDeclarations", "function_declarations"} and is_array(value):
            for declaration in value:
                read = _flat(declaration if is_object(declaration) else {})
                specs += [_in_small_letters(one) for one in read.specs]
                notes += read.notes
        elif value is not None:
            specs += _own("gemini", {key: value}, name=_snake(key)).specs
    return ReadShape(specs=tuple(specs), notes=tuple(notes))


def _in_small_letters(spec: ToolSpec) -> ToolSpec:
    return replace(spec, input_schema=canonical_schema(spec.input_schema, tool=spec.name).schema)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def _own(provider: str, spec: JsonObject, *, name: str = "") -> ReadShape:
    kind = spec.get("type")
    label = spec.get("server_label", spec.get("mcp_server_name"))
    found = name or _name_in(spec) or (label if isinstance(label, str) else "") or str(kind)
    native = ToolSpec(name=found, source="listed", native_specs={provider: spec})
    return ReadShape(specs=(native,))


def _own_chat(spec: JsonObject) -> ReadShape:
    custom = spec.get("custom")
    name = _name_in(custom) if is_object(custom) else str(spec["type"]).replace(":", "_")
    return _own("openai_chat", spec, name=name)


def _own_bedrock(spec: JsonObject) -> ReadShape:
    inner = spec["systemTool"]
    return _own("bedrock", spec, name=_name_in(inner) if is_object(inner) else "")


def _kind(spec: JsonObject) -> str:
    kind = spec.get("type")
    return kind if isinstance(kind, str) else ""


def _is_gemini(spec: JsonObject) -> bool:
    names = {_camel(key) for key in spec}
    return bool(names & (_GEMINI_OWN | {"functionDeclarations"})) and not _kind(spec)


def _is_flat(spec: JsonObject) -> bool:
    return bool(_name_in(spec)) and _kind(spec) in {"", "function"}


def _is_chat_own(spec: JsonObject) -> bool:
    return is_object(spec.get("custom")) or _kind(spec).startswith("openrouter:")


# The first that matches reads it; the more telling shapes come first.
_SHAPES: Final[tuple[tuple[Callable[[JsonObject], bool], _Read], ...]] = (
    (lambda spec: is_object(spec.get("function")), _nested),
    (lambda spec: is_object(spec.get("toolSpec")), _bedrock),
    (lambda spec: "systemTool" in spec, _own_bedrock),
    (_is_gemini, _gemini),
    (lambda spec: "input_schema" in spec, _anthropic),
    (lambda spec: "inputSchema" in spec, _mcp),
    (_is_flat, _flat),
    (lambda spec: _VERSIONED.search(_kind(spec)) is not None, lambda spec: _own("anthropic", spec)),
    (lambda spec: _kind(spec) == "mcp_toolset", lambda spec: _own("anthropic", spec)),
    (_is_chat_own, _own_chat),
    (
        lambda spec: _kind(spec) not in {"", "function"},
        lambda spec: _own("openai_responses", spec),
    ),
)
