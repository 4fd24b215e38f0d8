"""Schemas of older drafts spelled as JSON Schema 2020-12, which APIs hold every tool's schema against.

One schema that does not pass makes them refuse the whole request.

Source:
    https://json-schema.org/draft/2020-12/meta/validation
    https://github.com/Dokploy/mcp/issues/74: Anthropic on `exclusiveMinimum: true`
    https://github.com/spacelift-io/spacectl/issues/402: OpenAI on an array without items
    https://github.com/BerriAI/litellm/pull/40485: OpenAI compiles patterns as Python does
    (read 2026-11-29)
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from context_assembler.values.json_bounds import shown
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.wire import walk_schemas

SCHEMAS_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
SCHEMA_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
ONE_SCHEMA: Final = frozenset(
    {"items", "additionalProperties", "additionalItems", "contains", "not", "if", "then", "else"}
    | {"propertyNames", "unevaluatedProperties", "unevaluatedItems"}
)
_MAX_PATTERN_CHARS: Final = 2_000
_ANCHOR: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")


def spell_as_2020(schema: JsonObject, note: Callable[[str], None]) -> JsonObject:
    """Return the schema as the draft of 2020 spells it, with items for every array.

    Args:
        schema: One whose keywords hold what kind of thing they should.
        note: Takes what was changed, a sentence each.
    """
    plain = {key: _inner(key, held, note) for key, held in schema.items()}
    for respell in (_exclusive_bounds, _positions, _identity, _pattern, _sound_keywords):
        respell(plain, note)
    kind = plain.get("type")
    if kind == "array" or (is_array(kind) and "array" in kind):
        plain.setdefault("items", {})
    return {key: plain[key] for key in sorted(plain)}


def lift_required(schema: JsonObject, note: Callable[[str], None]) -> JsonObject:
    """Return the schema with the names of properties that say of themselves whether they are required.

    Args:
        note: As for `spell_as_2020`.
    """
    properties = as_object(schema.get("properties"))
    flags = {
        name: one["required"]
        for name, one in properties.items()
        if is_object(one) and isinstance(one.get("required"), bool)
    }
    listed = schema.get("required")
    if not flags or not (listed is None or is_array(listed)):
        return schema
    note("'required' was spelled as a list of names, not as a flag")
    plain = {
        name: {key: held for key, held in one.items() if key != "required"}
        for name, one in properties.items()
        if name in flags
    }
    names = [*(listed or ()), *(name for name, is_required in flags.items() if is_required)]
    return {**schema, "properties": {**properties, **plain}, "required": names}


def older_keywords(schema: Json) -> Iterator[str]:
    """Yield what in a schema only older drafts spell so, in half a sentence."""
    for one in walk_schemas(schema):
        for key in ("exclusiveMinimum", "exclusiveMaximum"):
            if isinstance(one.get(key), bool):
                yield f"{key!r} is a number"
        if is_array(one.get("items")):
            yield "items by position are 'prefixItems'"


def _inner(key: str, held: Json, note: Callable[[str], None]) -> Json:
    if key in SCHEMAS_BY_NAME:
        return {name: _any(one, note) for name, one in as_object(held).items()}
    if key in SCHEMA_LISTS or (key == "items" and is_array(held)):
        return [_any(one, note) for one in held]
    return _any(held, note) if key in ONE_SCHEMA else held


def _any(schema: Json, note: Callable[[str], None]) -> Json:
    return spell_as_2020(schema, note) if is_object(schema) else schema


def _exclusive_bounds(schema: dict[str, Json], note: Callable[[str], None]) -> None:
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if not isinstance(schema.get(exclusive), bool):
            continue
        if schema.pop(exclusive) and bound in schema:
            schema[exclusive] = schema.pop(bound)
        note(f"{exclusive!r} was spelled as a number, not as a flag")


def _positions(schema: dict[str, Json], note: Callable[[str], None]) -> None:
    if not is_array(schema.get("items")):
        return
    listed = schema.pop("items")
    schema.setdefault("prefixItems", listed)
    if "additionalItems" in schema:
        schema["items"] = schema.pop("additionalItems")
    note("items by position were spelled as 'prefixItems'")


def _identity(schema: dict[str, Json], note: Callable[[str], None]) -> None:
    address, _, anchor = as_text(schema.get("$id")).partition("#")
    if not anchor:
        return
    del schema["$id"]
    if address:
        schema["$id"] = address
    elif _ANCHOR.fullmatch(anchor):
        schema.setdefault("$anchor", anchor)
    note("an '$id' with a fragment was spelled as the draft of 2020 does")


def _pattern(schema: dict[str, Json], note: Callable[[str], None]) -> None:
    """Tell a pattern that Python cannot compile in words: OpenAI refuses it, and models read it there."""
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not compiles(pattern):
        del schema["pattern"]
        words = as_text(schema.get("description"))
        schema["description"] = f"{words}\nIt matches the pattern {pattern}".strip()
        note(f"the pattern {shown(pattern, chars=80)} is told in its description")
    named = as_object(schema.get("patternProperties"))
    odd = [name for name in named if not compiles(name)]
    if odd:
        kept = {name: one for name, one in named.items() if name not in odd}
        schema["patternProperties"] = kept
        note(f"the pattern {shown(odd[0], chars=80)} of names was left out: it is no pattern here")


def compiles(pattern: str) -> bool:
    """Whether Python takes a pattern, which is not too long to be tried."""
    if len(pattern) > _MAX_PATTERN_CHARS:
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _sound_keywords(schema: dict[str, Json], note: Callable[[str], None]) -> None:
    for key, is_sound in _SOUND.items():
        if key in schema and not is_sound(schema[key]):
            note(f"{key!r} was left out: it cannot be {shown(schema.pop(key), chars=40)}")


def _is_count(value: Json) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_flag(value: Json) -> bool:
    return isinstance(value, bool)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_anchor(value: Json) -> bool:
    return isinstance(value, str) and _ANCHOR.fullmatch(value) is not None


def _are_names_by_name(value: Json) -> bool:
    return is_object(value) and all(map(_are_names, value.values()))


def _are_names(value: Json) -> bool:
    return is_array(value) and all(map(_is_text, value)) and len({*value}) == len(value)


_REFERENCES: Final = ("$dynamicRef", "$recursiveRef")
_CONTENT: Final = ("contentEncoding", "contentMediaType")
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties")
_SOUND: Final[Mapping[str, Callable[[Json], bool]]] = {
    **dict.fromkeys((*_COUNTS, "maxProperties", "minContains", "maxContains"), _is_count),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_flag),
    **dict.fromkeys((*_REFERENCES, "$comment", *_CONTENT), _is_text),
    **dict.fromkeys(("$anchor", "$dynamicAnchor", "$recursiveAnchor"), _is_anchor),
    **dict.fromkeys(("dependentRequired", "dependencies"), _are_names_by_name),
    **dict.fromkeys(SCHEMA_LISTS, bool),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "examples": is_array,
    "$vocabulary": lambda value: is_object(value) and all(map(_is_flag, value.values())),
}
"""What keywords must hold for a schema to pass; one that holds anything else is left out."""
