"""Tools told in another form: of one tool always the same object, so that its counts stay on it."""

from dataclasses import replace
from typing import Final, TypeAlias

from context_assembler.values.tools import ToolSpec

_Key: TypeAlias = tuple[int, tuple[tuple[str, str | bool | None], ...]]

_MAX_FORMS: Final = 8_192
_forms: dict[_Key, tuple[ToolSpec, ToolSpec]] = {}  # keeps alive whose id it goes by


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
