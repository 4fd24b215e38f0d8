"""Rules on functions, their schemas and the choice among them."""

import re
from collections.abc import Iterator
from typing import Final

from context_assembler.providers.gemini.generations import is_on_vertex
from context_assembler.providers.gemini.rule_book import Sent, breach
from context_assembler.providers.gemini.schemas import dangling_reference
from context_assembler.providers.gemini.units import NAME_RULE
from context_assembler.values.breaches import level_if
from context_assembler.values.json_shapes import is_array
from context_assembler.values.native.gemini_fields import snake_fields, snake_key
from context_assembler.values.parts import JsonObject
from context_assembler.values.reading import as_array, as_object, as_text
from context_assembler.values.report import Violation
from context_assembler.values.wire import walk_schemas

# Docstring of `google.genai.types.FunctionDeclaration.parameters`, google-genai 3.6 (read 2026-11-27)
_PARAMETER_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")

_MODES: Final = frozenset({"AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"})

# What a schema in `parameters` may say: the OpenAPI subset, by the SDK's names.
_SCHEMA_FIELDS: Final = frozenset(
    {
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "items",
        "max_items",
        "min_items",
        "properties",
        "required",
        "min_properties",
        "max_properties",
        "minimum",
        "maximum",
        "min_length",
        "max_length",
        "pattern",
        "example",
        "any_of",
        "property_ordering",
        "default",
    }
)
# Vertex AI alone knows these.
_VERTEX_FIELDS: Final = frozenset({"additional_properties", "ref", "defs"})


def check_functions(sent: Sent) -> Iterator[Violation]:
    """G7, G8: names and schemas."""
    names: set[str] = set()
    for where, function in sent.functions():
        name = as_text(function.get("name"))
        if not NAME_RULE.allows(name):
            message = "must begin with a letter or _ and go on with up to 127 of a-zA-Z0-9_.:-"
            yield breach("G7", f"{where}.name", message)
        if name in names:
            yield breach("G7", f"{where}.name", f"{name!r} is taken", level="avoid")
        names.add(name)
        yield from _check_schemas(sent, function, where=where)


def _check_schemas(sent: Sent, function: JsonObject, *, where: str) -> Iterator[Violation]:
    own, plain = function.get("parameters"), function.get("parameters_json_schema")
    if own is not None and plain is not None:
        message = "parameters and parameters_json_schema exclude each other"
        yield breach("G8", f"{where}.parameters", message)
    if plain is not None and as_object(plain).get("type", "object") != "object":
        yield breach("G8", f"{where}.parameters_json_schema.type", "must be 'object'")
    lost = dangling_reference(as_object(plain))
    if lost is not None:
        message = f"{lost!r:.80} points to nothing inside the schema"
        yield breach("G8", f"{where}.parameters_json_schema", message, level="avoid")
    for schema in walk_schemas(own):
        yield from _check_schema(sent, schema, where=f"{where}.parameters")
    for schema in walk_schemas([own, plain]):
        for name in as_object(schema.get("properties")):
            if not _PARAMETER_NAME.fullmatch(name):
                message = f"{name!r:.80} should be up to 64 of a-zA-Z0-9_, and begin with no digit"
                yield breach("G7", f"{where}.parameters", message, level="avoid")


def _check_schema(sent: Sent, schema: JsonObject, *, where: str) -> Iterator[Violation]:
    known = _SCHEMA_FIELDS | _VERTEX_FIELDS if is_on_vertex(sent.limits) else _SCHEMA_FIELDS
    for key in schema:
        if snake_key(key) not in known:
            message = f"{key!r} is not known here; use parameters_json_schema"
            yield breach("G8", where, message)
    kind = schema.get("type")
    if is_array(kind):
        yield breach("G8", where, "a type is one word; use nullable or any_of")
    if as_text(kind).lower() == "array" and not schema.get("items"):
        yield breach("G8", where, "an array needs items")
    if any(not isinstance(value, str) for value in as_array(schema.get("enum"))):
        yield breach("G8", where, "an enum holds text only")


def check_tool_choice(sent: Sent) -> Iterator[Violation]:
    """G15: a known mode, beside functions, naming some of them."""
    tool_config = snake_fields(sent.config.get("tool_config"))
    choice = snake_fields(tool_config.get("function_calling_config"))
    if not choice:
        return
    where = f"{sent.where('tool_config')}.function_calling_config"
    mode = as_text(choice.get("mode")).upper()
    if mode and mode not in _MODES:
        yield breach("G15", f"{where}.mode", f"{mode!r} is none of AUTO, ANY, NONE, VALIDATED")
    declared = {as_text(function.get("name")) for _, function in sent.functions()}
    if not declared:
        # Without any tool it was accepted, and Vertex AI takes it always.
        is_tolerated = tool_config.get("include_server_side_tool_invocations") or is_on_vertex(
            sent.limits
        )
        level = level_if(bool(sent.config.get("tools")) and not is_tolerated)
        yield breach("G15", where, "is only taken beside function declarations", level=level)
    allowed = as_array(choice.get("allowed_function_names"))
    if allowed and mode not in ("ANY", "VALIDATED"):
        yield breach("G15", f"{where}.allowed_function_names", "only with mode ANY or VALIDATED")
    for name in allowed:
        if name not in declared:
            yield breach("G15", f"{where}.allowed_function_names", f"{name!r} is not declared")


def check_mixed_tools(sent: Sent) -> Iterator[Violation]:
    """G14, G16: what functions can stand beside; who calls them."""
    functions = list(sent.functions())
    if not functions:
        return
    where = sent.where("tools")
    server_tools = sorted(
        {key for _, tool in sent.tools() for key in tool if key != "function_declarations"}
    )
    tool_config = snake_fields(sent.config.get("tool_config"))
    if server_tools and not is_on_vertex(sent.limits):
        if sent.is_unsigned:
            message = f"the model takes no {', '.join(server_tools)} beside functions"
            yield breach("G16", where, message)
        elif sent.is_signed and not tool_config.get("include_server_side_tool_invocations"):
            message = "include_server_side_tool_invocations must be set beside server tools"
            yield breach("G16", f"{sent.where('tool_config')}", message)
    if sent.config.get("response_mime_type") == "application/json" and sent.is_unsigned:
        message = "the model gives no JSON replies beside functions"
        yield breach("G14", sent.where("response_mime_type"), message)
    calling = snake_fields(sent.config.get("automatic_function_calling"))
    if sent.is_sdk and calling.get("disable") is not True:
        message = "should be disabled: the SDK would call functions by itself"
        yield breach("G15", sent.where("automatic_function_calling"), message, level="avoid")
