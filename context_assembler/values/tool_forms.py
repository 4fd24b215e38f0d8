"""What is made of a tool, once for each: other forms of it, on which its counts stay, its schema."""

from dataclasses import replace
from typing import Final, TypeAlias

from context_assembler.values.parts import Json
from context_assembler.values.schemas.root_objects import root_object_schema
from context_assembler.values.tools import ToolSpec
from context_assembler.values.wire import fresh_json

_Key: TypeAlias = tuple[int, tuple[tuple[str, str | bool | None], ...]]

_MAX_FORMS: Final = 8_192
# Both keep alive whose id they go by.
_forms: dict[_Key, tuple[ToolSpec, ToolSpec]] = {}
_schemas: dict[int, tuple[ToolSpec, dict[str, Json]]] = {}


def form_of(tool: ToolSpec, **fields: str | bool | None) -> ToolSpec:
    """Return the tool with other fields; the tool itself where it has them already."""
    if all(getattr(tool, name) is value for name, value in fields.items()):
        return tool
    key = id(tool), tuple(fields.items())
    known = _forms.get(key)
    if known is not None and known[0] is tool:
        return known[1]
    form: ToolSpec = replace(tool, **fields)  # type: ignore[arg-type]  # each field has its own type
    if len(_forms) >= _MAX_FORMS:
        _forms.clear()
    _forms[key] = tool, form
    return form


def root_schema_of(tool: ToolSpec) -> dict[str, Json]:
    """Return the tool's schema as `root_object_schema` makes it: a copy that is the caller's own."""
    known = _schemas.get(id(tool))
    if known is None or known[0] is not tool:
        if len(_schemas) >= _MAX_FORMS:
            _schemas.clear()
        known = _schemas[id(tool)] = tool, root_object_schema(tool.input_schema)
    schema: dict[str, Json] = fresh_json(known[1])
    return schema
