"""Schemas of functions as `parameters_json_schema` takes them.

Source:
    docstring of `google.genai.types.GenerateContentConfig.response_json_schema`, google-genai 3.6
    (read 2026-11-27): a reference to what it stands in may be used within properties that are not
    required only, and nothing but what begins with `$` may stand beside a reference.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text
from context_assembler.values.report import Decision, ReportEntry
from context_assembler.values.schemas.references import References
from context_assembler.values.schemas.root_objects import root_object_schema
from context_assembler.values.tools import ToolSpec
from context_assembler.values.wire import walk_schemas

_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_VALUES: Final = frozenset({"enum", "const", "default", "examples", "required"})


def fit_schemas(tools: Iterable[ToolSpec]) -> tuple[list[ToolSpec], list[ReportEntry]]:
    """Return the tools with schemas that the API can take, and a row for each that was changed.

    What leads back to itself is not required any more; a tool whose schema points out of itself is
    left out.
    """
    kept: list[ToolSpec] = []
    rows: list[ReportEntry] = []
    for tool in tools:
        schema = tool.input_schema
        lost = None if tool.native_specs else dangling_reference(schema)
        if lost is not None:
            reason = f"The API cannot take its schema: {lost!r} points to nothing inside it."
            rows.append(_row(tool, "dropped", reason))
            continue
        relaxed: list[str] = []
        inside = References(schema)
        fitted = schema if tool.native_specs else as_object(_relax(schema, inside, relaxed))
        kept.append(replace(tool, input_schema=fitted) if relaxed else tool)
        if relaxed:
            named = ", ".join(dict.fromkeys(relaxed))
            reason = f"What holds itself cannot be required: {named} may be left away."
            rows.append(_row(tool, "repaired", reason))
    return kept, rows


def _row(tool: ToolSpec, decision: Decision, reason: str) -> ReportEntry:
    return ReportEntry(
        kind="tool", id=tool.name, decision=decision, reason=reason, rule="tool.schema"
    )


def spell_schema(schema: JsonObject) -> Json:
    """Return a schema with an object at its root, and nothing beside a reference."""
    root = dict(schema)
    reference = as_text(root.pop("$ref", None))
    target = References(schema).target_of(reference) if reference else None
    return _lone_references(root_object_schema({**(target or {}), **root}))


def _lone_references(schema: Json) -> Json:
    """Return the schema with what stood beside a reference around it."""
    if is_array(schema):
        return [_lone_references(entry) for entry in schema]
    if not is_object(schema):
        return schema
    plain = {key: _spell_keyword(key, held) for key, held in schema.items()}
    beside = {key: held for key, held in plain.items() if not key.startswith("$")}
    if not isinstance(plain.get("$ref"), str) or not beside or "anyOf" in beside:
        return plain
    reference = plain.pop("$ref")
    return {**plain, "anyOf": [{"$ref": reference}]}


def _spell_keyword(key: str, held: Json) -> Json:
    if key in _BY_NAME:
        return {name: _lone_references(one) for name, one in as_object(held).items()}
    return held if key in _VALUES else _lone_references(held)


def dangling_reference(schema: JsonObject) -> str | None:
    """Return a reference that leads out of the schema; `None` where all stay inside."""
    inside = References(schema)
    return next((name for name in _references(schema) if inside.target_of(name) is None), None)


def _references(schema: Json) -> Iterator[str]:
    for one in walk_schemas(schema):
        if isinstance(one.get("$ref"), str):
            yield one["$ref"]


def _relax(schema: Json, inside: References, relaxed: list[str]) -> Json:
    """Return the schema without those of its required names that lead back to where they stand."""
    if is_array(schema):
        return [_relax(entry, inside, relaxed) for entry in schema]
    if not is_object(schema):
        return schema
    plain: dict[str, Json] = {}
    for key, held in schema.items():
        if key in _BY_NAME:
            named = as_object(held)
            plain[key] = {name: _relax(one, inside, relaxed) for name, one in named.items()}
        else:
            plain[key] = held if key in _VALUES else _relax(held, inside, relaxed)
    properties = as_object(schema.get("properties"))
    looping = [
        name
        for name in as_array(schema.get("required"))
        if name in properties and _leads_back(properties[name], to=schema, inside=inside)
    ]
    if looping:
        relaxed.extend(looping)
        plain["required"] = [name for name in schema["required"] if name not in looping]
    return plain


def _leads_back(schema: Json, *, to: JsonObject, inside: References) -> bool:
    """Whether references in a schema lead to one that holds the place where it stands."""
    waiting, seen = [schema], set[str]()
    while waiting:
        for reference in _references(waiting.pop()):
            target = inside.target_of(reference)
            if reference in seen or target is None:
                continue
            if any(one is to for one in walk_schemas(target)):
                return True
            seen.add(reference)
            waiting.append(target)
    return False
