"""Parameters whose names the Messages API refuses, told in the description of their tool.

Source:
    https://github.com/anthropics/claude-code/issues/4668
    https://github.com/beautyfree/appstore-connect-mcp/issues/2 (read 2026-11-29): one such name in
    `input_schema.properties` and the whole request is refused
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object
from context_assembler.values.report import ReportEntry
from context_assembler.values.schemas.listed_targets import name_targets
from context_assembler.values.schemas.references import property_in, references_in
from context_assembler.values.tool_forms import root_schema_of
from context_assembler.values.tools import ToolSpec
from context_assembler.values.wire import compact_json

_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def refused_names(schema: Json) -> list[str]:
    """Return the names of a schema's parameters that are refused, in their order."""
    names = as_object(as_object(schema).get("properties"))
    return [name for name in names if not _NAME.fullmatch(name)]


def fit_names(tools: Iterable[ToolSpec]) -> tuple[list[ToolSpec], list[ReportEntry]]:
    """Return the tools with parameters that can be named, and a row for each that was changed."""
    fitted: list[ToolSpec] = []
    rows: list[ReportEntry] = []
    for tool in tools:
        fitted.append(with_fitting_names(tool))
        if fitted[-1] is not tool:
            refused = ", ".join(map(repr, refused_names(tool.input_schema)))
            rows.append(
                ReportEntry(
                    kind="tool",
                    id=tool.name,
                    decision="repaired",
                    reason=f"Its description tells of {refused}: the API refuses such names.",
                    rule="tool.schema",
                )
            )
    return fitted, rows


def with_fitting_names(tool: ToolSpec) -> ToolSpec:
    """Return the tool with the parameters described that its schema may not name.

    The model passes them all the same, under their own names: the schema is left open for them.
    """
    refused = [] if tool.native_specs else refused_names(tool.input_schema)
    if not refused:
        return tool
    schema = dict(_without_references_to(refused, root_schema_of(tool)))
    told = {name: schema["properties"].pop(name) for name in refused}
    required = as_array(schema.pop("required", None))
    if kept := [name for name in required if name not in told]:
        schema["required"] = kept
    schema.pop("additionalProperties", None)
    missed = [name for name in refused if name in required]
    words = f"{tool.description}\n\n{_tell(told, missed)}".strip()
    return replace(tool, description=words, input_schema=_sorted(schema))


def _without_references_to(names: Collection[str], schema: JsonObject) -> JsonObject:
    """Return the schema with definitions for what is referred to by way of these parameters."""
    properties = as_object(schema["properties"])
    reached = {one for one in references_in(schema) if property_in(one, among=properties) in names}
    return name_targets(schema, sorted(reached)) if reached else schema


def _tell(told: JsonObject, required: list[str]) -> str:
    said = f"It takes further parameters, by exactly these names: {compact_json(told)}"
    return f"{said}\nOf these are required: {compact_json(required)}" if required else said


def _sorted(schema: JsonObject) -> JsonObject:
    return {key: schema[key] for key in sorted(schema)}
