"""Schemas whose references do not lead through lists.

What stands in a list has no name, and its place is gone once the alternatives at a root are told as
one object; not every provider counts the places of a list either.
"""

import re
from collections.abc import Sequence
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_object
from context_assembler.values.schemas.draft_2020 import SCHEMAS_BY_NAME
from context_assembler.values.schemas.references import (
    References,
    UnusableSchemaError,
    references_in,
)

MAX_LISTED: Final = 100

_VALUES: Final = frozenset({"enum", "const", "default", "examples"})
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9]+")


def name_listed_targets(schema: JsonObject) -> JsonObject:
    """Return the schema with a definition for all that references reach through a list.

    The schema itself comes back where there is nothing of the kind.

    Raises:
        UnusableSchemaError: There are too many, which would be told twice.
    """
    references = References(schema)
    listed = sorted({one for one in references_in(schema) if references.is_listed(one)})
    if not listed:
        return schema
    if len(listed) > MAX_LISTED:
        raise UnusableSchemaError(f"more than {MAX_LISTED} references lead through lists")
    return name_targets(schema, listed)


def name_targets(schema: JsonObject, reached: Sequence[str]) -> JsonObject:
    """Return the schema with a definition for what each of these references leads to."""
    defined = as_object(schema.get("$defs"))
    names: dict[str, str] = {}
    for reference in reached:
        names[reference] = _free_name(reference, taken={*defined, *names.values()})
    respelled = as_object(
        _respelled(schema, {one: f"#/$defs/{name}" for one, name in names.items()})
    )
    targets = References(respelled)
    added = {name: targets.target_of(reference) for reference, name in names.items()}
    return respelled | {"$defs": as_object(respelled.get("$defs")) | added}


def _free_name(reference: str, *, taken: set[str]) -> str:
    name = _UNNAMEABLE.sub("_", reference).strip("_")
    while name in taken:
        name += "_"
    return name


def _respelled(schema: Json, spellings: dict[str, str]) -> Json:
    if is_array(schema):
        return [_respelled(one, spellings) for one in schema]
    if not is_object(schema):
        return schema
    plain: dict[str, Json] = {}
    for key, held in schema.items():
        if key in SCHEMAS_BY_NAME:
            named = as_object(held)
            plain[key] = {name: _respelled(one, spellings) for name, one in named.items()}
        elif key == "$ref" and isinstance(held, str):
            plain[key] = spellings.get(held, held)
        else:
            plain[key] = held if key in _VALUES else _respelled(held, spellings)
    return plain
