"""Tools of a request as tool specs."""

from typing import Final

from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.tools import ToolSpec

_SOURCE: Final = "transcript"


def function_spec(name: str, fields: JsonObject, *, schema: Json) -> ToolSpec:
    """Return the spec of a function; what is not of the type it should be counts as missing.

    Args:
        fields: Where its description is, and whether it is strict.
        schema: That of its arguments, under whichever name the format has it.
    """
    strict = fields.get("strict")
    return ToolSpec(
        name=name,
        description=as_text(fields.get("description")),
        input_schema=as_object(schema),
        is_strict=strict if isinstance(strict, bool) else None,
        source=_SOURCE,
    )


def native_spec(name: str, spec: JsonObject, *, provider: str) -> ToolSpec:
    """Return the spec of a tool that only this provider understands, kept verbatim."""
    return ToolSpec(name=name, source=_SOURCE, native_specs={provider: dict(spec)})
