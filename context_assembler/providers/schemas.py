"""JSON Schemas of tools: made canonical, with one object at the root, and checked for strict mode.

Canonical means: as the draft of 2020 has it, keys sorted wherever they stand, `required` sorted. Only
a function's parameters keep their order, in which models write arguments: the order of keys in JSON
says nothing, and a server may give another one each time.
"""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from sys import float_info
from typing import Final, NamedTuple

from context_assembler.errors import InvalidToolError, brief
from context_assembler.events import Json, JsonObject, compact_json
from context_assembler.providers.wire import (
    as_list,
    as_object,
    as_text,
    fresh_json,
    objects_in,
    plain_json,
)

_words = str.split
ROOT_UNIONS: Final = ("anyOf", "oneOf", "allOf")
BY_NAME: Final = frozenset(
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]
)
LISTS: Final = frozenset({*ROOT_UNIONS, "prefixItems"})
ONE_SCHEMA: Final = frozenset(
    _words(
        "items additionalProperties additionalItems contains not if then else propertyNames "
        "unevaluatedProperties unevaluatedItems"
    )
)
_VALUES: Final = frozenset({"enum", "const", "default", "examples"})  # no schemas in these
_TYPES: Final = frozenset(["object", "array", "string", "number", "integer", "boolean", "null"])
_OTHER_TYPES: Final = dict(
    pair.split(":")
    for pair in _words(
        "dict:object map:object list:array tuple:array str:string float:number double:number "
        "int:integer long:integer bool:boolean none:null any: type_unspecified:"
    )
)
# What keywords must hold for a schema to pass: https://json-schema.org/draft/2020-12/meta/validation
_HOLDS: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(_words("minLength maxLength minItems maxItems minProperties"), (int, float)),
    **dict.fromkeys(_words("maxProperties minContains maxContains"), (int, float)),
    **dict.fromkeys(_words("minimum maximum multipleOf"), (int, float)),
    **dict.fromkeys(_words("exclusiveMinimum exclusiveMaximum"), (int, float, bool)),
    **dict.fromkeys(_words("uniqueItems deprecated readOnly writeOnly"), (bool,)),
    **dict.fromkeys(_words("description title pattern format $id $schema $ref $comment"), (str,)),
    **dict.fromkeys(_words("enum examples required anyOf oneOf allOf prefixItems"), (list,)),
}


_MAX_CHARS: Final = 1_000_000  # of a tool's definition
_CHARS_OF_A_VALUE: Final = 10
_MAX_LEVELS: Final = 150  # the checkers refuse requests of more than 200
_MAX_NUMBER: Final = float_info.max
_MAX_BRANCHES: Final = 10_000


class CanonicalSchema(NamedTuple):
    """A canonical schema, and what was repaired in it, a sentence each."""

    schema: JsonObject
    repairs: tuple[str, ...] = ()


class UnusableSchemaError(ValueError):
    """Where and why a schema is beyond repair."""


def walk_schemas(schema: Json) -> Iterator[JsonObject]:
    """Yield the schema and every schema inside it; names of properties are no keywords."""
    waiting: list[Json] = [schema]
    while waiting:
        current = waiting.pop()
        waiting.extend(as_list(current))
        if isinstance(current, Mapping):
            yield (fields := as_object(current))
            for key, value in fields.items():
                if key in BY_NAME:
                    waiting.extend(as_object(value).values())
                elif key not in _VALUES:
                    waiting.append(value)


# ---- canonical ----


def refuse_unsayable(given: Json, *, tool: str) -> None:
    """Refuse what is very large or deep, or what JSON cannot say, before anything else reads it.

    Raises:
        InvalidToolError: It is so, or holds something that is.
    """
    left, level = _MAX_CHARS, [given]
    for _ in range(_MAX_LEVELS + 1):
        inner: list[Json] = []
        left -= _CHARS_OF_A_VALUE * len(level)
        for held in level:
            if isinstance(held, str):
                left -= len(held)
            elif isinstance(held, dict | Mapping):
                inner += (*held, *held.values())
            elif isinstance(held, list | tuple):
                inner += held
            elif not (held is None or (isinstance(held, int | float) and abs(held) <= _MAX_NUMBER)):
                said = f"its definition holds {brief(held)}, which no request can carry"
                raise InvalidToolError(tool, reason=said)
        if left < 0:
            said = f"its definition has more than {_MAX_CHARS:,} characters"
            raise InvalidToolError(tool, reason=said)
        if not inner:
            return
        level = inner
    raise InvalidToolError(tool, reason="its definition is nested too deeply")


def canonical_schema(schema: Json, *, tool: str, is_ordered: bool = False) -> CanonicalSchema:
    """Return the schema of a tool's arguments, sound and canonical; `None` means no arguments.

    Args:
        is_ordered: Whether the order of properties is the author's, as in a function's signature.

    Raises:
        InvalidToolError: It describes no object, or breaks the grammar of JSON Schema.
    """
    repairs: dict[str, None] = {}
    refuse_unsayable(schema, tool=tool)
    try:
        flat = _sound_object(schema, repairs, is_ordered=is_ordered)
    except (UnusableSchemaError, RecursionError) as error:
        reason = str(error) if isinstance(error, UnusableSchemaError) else "it is nested too deeply"
        raise InvalidToolError(tool, reason=f"in its schema, {reason}") from None
    return CanonicalSchema(dict(sorted(flat.items())), tuple(repairs))


def _sound_object(schema: Json, repairs: dict[str, None], *, is_ordered: bool) -> dict[str, Json]:
    """Return the schema with an object at its root; `repairs` gets a sentence for each repair."""
    plain = plain_json({} if schema is None else schema)
    if plain != schema and schema is not None:
        repairs["characters that no request can carry were replaced"] = None
    sound = _canonical(plain, "", repairs, is_ordered)
    kind = sound.get("type")
    if "object" not in (kind if isinstance(kind, list) else [kind or "object"]):
        raise UnusableSchemaError(f"the root's type is {kind!r}, not 'object'")
    if sound and (kind != "object" or any(key in sound for key in (*ROOT_UNIONS, "$ref"))):
        repairs["its root is written as one object"] = None
    flat = root_object_schema(sound)
    if not is_ordered:
        flat["properties"] = dict(sorted(as_object(flat["properties"]).items()))
    for one in walk_schemas(flat):
        reference = as_text(one.get("$ref"))
        if reference.startswith("#/") and target_of(flat, reference) is None:
            raise UnusableSchemaError(f"{reference!r} points to nothing")
    return flat


def _canonical(
    given: Json, where: str, repairs: dict[str, None], is_ordered: bool
) -> dict[str, Json]:
    """Return a schema and all inside it canonical."""
    if not isinstance(given, Mapping):
        raise UnusableSchemaError(f"{where or 'the root'} is {brief(given)}, not a schema")

    def inner(value: Json, place: str) -> Json:
        return value if isinstance(value, bool) else _canonical(value, place, repairs, is_ordered)

    made: dict[str, Json] = {}
    for key, value in sorted(as_object(given).items()):
        place, kinds = f"{where}.{key}".strip("."), _HOLDS.get(key, ())
        if value is None and key not in ("default", "const"):
            continue
        is_flag = isinstance(value, bool) and bool not in kinds
        if kinds and (is_flag or not isinstance(value, kinds) or (key in LISTS and not value)):
            repairs[f"{key!r} was left out: it cannot be {brief(value)[:40]}"] = None
        elif key == "type":
            types = dict.fromkeys(_type(one, place, repairs) for one in as_list(value) or [value])
            if "" not in types:
                made[key] = list(types) if isinstance(value, list) else next(iter(types))
        elif key == "required":
            made[key] = sorted({name for name in as_list(value) if isinstance(name, str)})
        elif key in BY_NAME:
            if not isinstance(value, Mapping):
                raise UnusableSchemaError(f"{place} is {brief(value)}, not an object")
            held = as_object(value)
            names = held if is_ordered and key == "properties" else sorted(held)
            made[key] = {name: inner(held[name], f"{place}.{name}") for name in names}
        elif key in LISTS or (key == "items" and isinstance(value, list)):
            made[key] = [inner(one, f"{place}[{at}]") for at, one in enumerate(as_list(value))]
        else:
            made[key] = inner(value, place) if key in ONE_SCHEMA else _sorted(value)
    _modernise(made, repairs)
    return dict(sorted(made.items()))


def _type(value: Json, where: str, repairs: dict[str, None]) -> str:
    """Return the type that a name means; empty: any. Gemini's are in capitals."""
    lowered = as_text(value).lower()
    meant = lowered if lowered in _TYPES else _OTHER_TYPES.get(lowered)
    if meant is None:
        raise UnusableSchemaError(f"{where} is {brief(value)}, which is not a type of JSON Schema")
    if meant != value:
        did = f"was read as {meant!r}" if meant else "was left out: anything goes"
        repairs[f"type {value!r} {did}"] = None
    return meant


def _modernise(schema: dict[str, Json], repairs: dict[str, None]) -> None:
    """Write what older drafts have otherwise, and what servers refuse, as they take it.

    Source:
        https://github.com/Dokploy/mcp/issues/74: Anthropic on `exclusiveMinimum: true`
        https://github.com/spacelift-io/spacectl/issues/402: OpenAI on an array without items
        https://github.com/BerriAI/litellm/pull/40485: OpenAI compiles patterns as Python does
        (read 2026-11-29)
    """
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(flag), bool):
            if schema.pop(flag) and bound in schema:
                schema[flag] = schema.pop(bound)
            repairs[f"{flag!r} was written as a number, not as a flag"] = None
    if isinstance(schema.get("items"), list):
        schema.setdefault("prefixItems", schema.pop("items"))
        if "additionalItems" in schema:
            schema["items"] = schema.pop("additionalItems")
        repairs["items by position were written as 'prefixItems'"] = None
    if not compiles(pattern := schema.get("pattern", "")):
        del schema["pattern"]
        told = f"{as_text(schema.get('description'))}\nIt matches the pattern {pattern}"
        schema["description"] = told.strip()
        repairs[f"the pattern {pattern[:80]!r} is in its description"] = None
    kind = schema.get("type")
    if kind == "array" or (isinstance(kind, list) and "array" in kind):
        schema.setdefault("items", {})


def _sorted(value: Json) -> Json:
    """Return any other JSON value, the keys of its objects sorted."""
    if fields := as_object(value):
        return {key: _sorted(fields[key]) for key in sorted(fields)}
    return list(map(_sorted, as_list(value))) or value


def compiles(pattern: str) -> bool:
    """Whether Python takes a pattern, which is not too long to be tried."""
    try:
        return len(pattern) <= 2_000 and bool(re.compile(pattern))
    except (re.error, RecursionError, OverflowError):
        return False


# ---- one object at the root ----


def root_object_schema(schema: JsonObject) -> dict[str, Json]:
    """Return a copy with an object at its root, and neither a union nor a reference there.

    Providers refuse a union at the root. Its branches are laid over each other: every property of
    any branch is allowed, and what all branches of a choice require is required. What a reference
    leads to is joined with what stands next to it, which wins.

    Source:
        https://github.com/anthropics/claude-code/issues/40075 (read 2026-11-27)
    """
    root = as_object(fresh_json(as_object(schema)))
    if not any(key in root for key in (*ROOT_UNIONS, "$ref")):
        root["type"] = "object"
        root["properties"] = as_object(root.get("properties"))
        return root
    flat = _flatten(root, root, frozenset(), [_MAX_BRANCHES])
    without = {key: held for key, held in flat.items() if key not in ("$defs", "definitions")}
    return flat if any("$ref" in one for one in walk_schemas(without)) else without


def _flatten(
    schema: JsonObject, root: JsonObject, followed: frozenset[str], left: list[int]
) -> dict[str, Json]:
    left[0] -= 1
    if left[0] < 0:
        raise UnusableSchemaError(f"its root leads to more than {_MAX_BRANCHES:,} schemas")
    flat = {key: held for key, held in schema.items() if key not in (*ROOT_UNIONS, "$ref")}
    own, required = as_object(flat.get("properties")), {*as_list(flat.get("required"))}
    unions = [(key, objects_in(schema[key])) for key in ROOT_UNIONS if key in schema]
    reference = as_text(schema.get("$ref"))
    if reference and reference not in followed:
        followed |= {reference}
        target = as_object(target_of(root, reference))
        flat = {**_flatten(target, root, followed, left), **flat}
        unions.insert(0, ("allOf", [target]))
    for key, given in unions:
        branches = [_flatten(branch, root, followed, left) for branch in given]
        joint = "allOf" if key == "allOf" else "anyOf"
        variants: dict[str, dict[str, Json]] = {}
        for branch in branches:
            for name, one in branch["properties"].items():
                variants.setdefault(name, {}).setdefault(repr(one), one)
        laid = {name: [*several.values()] for name, several in variants.items()}
        own = {n: one[0] if len(one) == 1 else {joint: one} for n, one in laid.items()} | own
        demands = [set(as_list(branch.get("required"))) for branch in branches] or [set[Json]()]
        merge = set[Json].union if key == "allOf" else set[Json].intersection
        required |= merge(*demands)
    flat |= {"type": "object", "properties": own}
    return flat | ({"required": sorted(required)} if required else {})


def target_of(root: JsonObject, reference: str) -> JsonObject | None:
    """Return what a pointer within the schema leads to; `None`: nothing."""
    found: Json = root if reference.startswith("#") else None
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        fields, listed = as_object(found), as_list(found)
        if name in fields:
            found = fields[name]
        elif name.isdecimal() and int(name) < len(listed):
            found = listed[int(name)]
        else:
            return None
    return as_object(found)


# ---- what is enforced ----


def closed_schema(
    schema: JsonObject, *, requires_all: bool = False, unsaid: AbstractSet[str] = frozenset()
) -> dict[str, Json]:
    """Return a copy whose objects take no other properties than they name.

    Args:
        requires_all: Require what may be null or has a default as well: a reply can still say that
            there is nothing. Other properties stay optional: to require them would say another thing.
        unsaid: Keywords that stand in the description instead.
    """
    made = as_object(fresh_json(schema))
    for one in walk_schemas(made):
        assert isinstance(one, dict), "a copy is plain"
        if "object" in (as_list(one.get("type")) or [one.get("type")]):
            one.setdefault("additionalProperties", False)
            if requires_all:
                held, named = as_object(one.get("properties")), as_list(one.get("required"))
                wanted = (key for key in held if key in named or _may_lack(held[key]))
                one["required"] = [*wanted, *(key for key in named if key not in held)]
        if lost := {key: one.pop(key) for key in sorted(unsaid & one.keys())}:
            said = f"{as_text(one.get('description'))}\n{compact_json(lost)}"
            one["description"] = said.strip()
    return made


def _may_lack(schema: Json) -> bool:
    """Whether a value may be null, or has a default."""
    fields = as_object(schema)
    is_null = "null" in (as_list(fields.get("type")) or [fields.get("type")])
    return is_null or "default" in fields or any(map(_may_lack, as_list(fields.get("anyOf"))))


# ---- OpenAI's strict mode ----

_UNSUPPORTED: Final = _words(
    "allOf oneOf not if then else dependentRequired dependentSchemas prefixItems "
    "uniqueItems contains minContains maxContains unevaluatedItems unevaluatedProperties "
    "patternProperties propertyNames minProperties maxProperties"
)
_FORMATS: Final = _words("date-time time date duration email hostname ipv4 ipv6 uuid")
_LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")


def objection_to_strict(schema: Json) -> str | None:
    """Return why OpenAI's strict mode refuses a schema, in half a sentence; `None` if it takes it.

    Source:
        https://developers.openai.com/api/docs/guides/structured-outputs (read 2026-11-27); recorded
        refusals of api.openai.com: "'additionalProperties' is required to be supplied and to be
        false", "'required' is required to be supplied and to be an array including every key in
        properties"; recorded requests that it took, with defaults
        https://github.com/1jehuang/jcode/issues/711, /pull/551: what has no type, formats
        https://github.com/vercel/ai/pull/21037: lookaround
        `_ensure_strict_json_schema` in the openai package 3.57: what stands beside a reference
        (read 2026-11-29)
    """
    schemas = list(walk_schemas(schema))
    if not schemas or schemas[0].get("type") != "object":
        return "its root is not an object"
    return next((reason for one in schemas for reason in _objections(one)), None)


def _objections(schema: JsonObject) -> Iterator[str]:
    for keyword in _UNSUPPORTED:
        if keyword in schema:
            yield f"it has {keyword!r}"
    properties = as_object(schema.get("properties"))
    if "$ref" in schema and schema.keys() - {"$ref", "$defs", "definitions"}:
        yield "something stands next to a reference in it"
    inner = (schema.get("items"), *properties.values(), *as_list(schema.get("anyOf")))
    has_flags = any(isinstance(one, bool) for one in inner)
    if has_flags or not schema.keys() & {"type", "anyOf", "$ref"}:
        yield "something in it has no type"
    if "format" in schema and schema["format"] not in _FORMATS:
        yield f"it has the format {schema['format']!r}"
    if _LOOKAROUND.search(as_text(schema.get("pattern"))):
        yield "a pattern in it looks around"
    kind = schema.get("type")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        if schema.get("additionalProperties") is not False:
            yield "an object in it is not closed by additionalProperties: false"
        required = as_list(schema.get("required"))
        yield from (f"its property {n!r} is not required" for n in properties if n not in required)
        yield from (
            f"it requires {n!r}, a property it lacks" for n in required if n not in properties
        )
