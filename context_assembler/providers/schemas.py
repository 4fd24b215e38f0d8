"""JSON Schemas of tools: made canonical, with one object at the root, and checked for strict mode.

Canonical means: as the draft of 2020 has it, keys sorted wherever they stand, `required` sorted. Only
the order of `properties` is the author's, since models write arguments in that order.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from context_assembler.errors import InvalidToolError, brief
from context_assembler.events import Json, JsonObject
from context_assembler.providers.lent import fresh_json
from context_assembler.providers.wire import as_list, as_object, as_text, objects_in, plain_json

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
_MAX_DEPTH: Final = 64
_MAX_UNFOLDED: Final = 2_000


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


def canonical_schema(schema: Json, *, tool: str) -> CanonicalSchema:
    """Return the schema of a tool's arguments, sound and canonical; `None` means no arguments.

    Raises:
        InvalidToolError: It describes no object, or breaks the grammar of JSON Schema.
    """
    repairs: dict[str, None] = {}
    try:
        plain = plain_json({} if schema is None else schema)
        if plain != schema and schema is not None:
            repairs["characters that no request can carry were replaced"] = None
        sound = _Canonical(repairs).schema(plain, where="", depth=0)
        _check_root_types(sound, repairs)
        union = next((key for key in ROOT_UNIONS if key in sound), None)
        if union or "$ref" in sound:
            repairs[f"the {union or 'reference'} at its root is written as one object"] = None
        flat = root_object_schema(sound)
        _check_references(flat)
    except (UnusableSchemaError, RecursionError) as error:
        reason = str(error) if isinstance(error, UnusableSchemaError) else "it is nested too deeply"
        raise InvalidToolError(tool, reason=f"in its schema, {reason}") from None
    return CanonicalSchema(dict(sorted(flat.items())), tuple(repairs))


def _check_root_types(schema: JsonObject, repairs: dict[str, None]) -> None:
    kind = schema.get("type")
    if isinstance(kind, list) and "object" in kind:
        repairs["the root's type was a list"] = None
    elif kind is None and schema and "$ref" not in schema:
        repairs["the root had no type"] = None
    elif kind not in (None, "object"):
        raise UnusableSchemaError(f"the root's type is {kind!r}, not 'object'")


def _check_references(schema: JsonObject) -> None:
    for one in walk_schemas(schema):
        reference = as_text(one.get("$ref"))
        if reference.startswith("#/") and target_of(schema, reference) is None:
            raise UnusableSchemaError(f"{reference!r} points to nothing")


class _Canonical:
    """One walk over a schema; `repairs` keeps each sentence once."""

    def __init__(self, repairs: dict[str, None]) -> None:
        self._repairs = repairs

    def schema(self, given: Json, *, where: str, depth: int) -> dict[str, Json]:
        if not isinstance(given, Mapping):
            raise UnusableSchemaError(f"{where or 'the root'} is {brief(given)}, not a schema")
        if depth > _MAX_DEPTH:
            raise UnusableSchemaError(f"it is nested more than {_MAX_DEPTH} levels deep")
        made: dict[str, Json] = {}
        for key, value in as_object(given).items():
            if value is None and key not in ("default", "const"):
                continue
            place = f"{where}.{key}" if where else key
            held = self._keyword(key, value, place, depth)
            is_sound = _SOUND.get(key)
            if held is not None and is_sound is not None and not is_sound(held):
                self._repairs[f"{key!r} was left out: it cannot be {brief(held)[:40]}"] = None
            elif held is not None or key in ("default", "const"):
                made[key] = held
        self._modernise(made)
        return {key: made[key] for key in sorted(made)}

    def _keyword(self, key: str, value: Json, where: str, depth: int) -> Json:
        if key == "type":
            return self._type(value, where)
        if key == "required" and isinstance(value, list):
            return sorted({name for name in as_list(value) if isinstance(name, str)})
        if key in BY_NAME:
            if not isinstance(value, Mapping):
                raise UnusableSchemaError(f"{where} is {brief(value)}, not an object")
            places = as_object(value).items()
            named = {n: self._inner(one, f"{where}.{n}", depth) for n, one in places}
            return named if key == "properties" else dict(sorted(named.items()))
        if key in LISTS or (key == "items" and isinstance(value, list)):
            return [
                self._inner(one, f"{where}[{at}]", depth) for at, one in enumerate(as_list(value))
            ]
        return self._inner(value, where, depth) if key in ONE_SCHEMA else _sorted(value)

    def _inner(self, value: Json, where: str, depth: int) -> Json:
        is_flag = isinstance(value, bool)
        return value if is_flag else self.schema(value, where=where, depth=depth + 1)

    def _type(self, value: Json, where: str) -> Json:
        if isinstance(value, list):
            names = [self._type(one, where) for one in as_list(value)]
            return None if None in names or not names else list(dict.fromkeys(names))
        if isinstance(value, str) and value in _TYPES:
            return value
        lowered = as_text(value).lower()
        meant = lowered if lowered in _TYPES else _OTHER_TYPES.get(lowered)
        if meant is None:
            raise UnusableSchemaError(f"{where} is {brief(value)}, which is no type of JSON Schema")
        did = f"was read as {meant!r}" if meant else "was left out: anything goes"
        self._repairs[f"type {value!r} {did}"] = None
        return meant or None

    def _modernise(self, schema: dict[str, Json]) -> None:
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
                self._repairs[f"{flag!r} was written as a number, not as a flag"] = None
        if isinstance(schema.get("items"), list):
            schema.setdefault("prefixItems", schema.pop("items"))
            if "additionalItems" in schema:
                schema["items"] = schema.pop("additionalItems")
            self._repairs["items by position were written as 'prefixItems'"] = None
        pattern = schema.get("pattern")
        if pattern is not None and not compiles(pattern):
            words = as_text(schema.get("description"))
            told = f"{words}\nIt matches the pattern {schema.pop('pattern')}"
            schema["description"] = told.strip()
            self._repairs[f"the pattern {pattern[:80]!r} is in its description"] = None
        for name in [*as_object(schema.get("patternProperties"))]:
            if not compiles(name):
                del schema["patternProperties"][name]
                self._repairs[f"the pattern {name[:80]!r} of names was left out"] = None
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


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in as_list(value))


def _each(keys: str, suits: Callable[[Json], bool]) -> dict[str, Callable[[Json], bool]]:
    return dict.fromkeys(keys.split(), suits)


# What keywords must hold for a schema to pass: https://json-schema.org/draft/2020-12/meta/validation
_SOUND: Final[Mapping[str, Callable[[Json], bool]]] = {
    **_each(
        "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains",
        lambda value: _is_number(value) and value >= 0 and value == int(value),
    ),
    **_each("minimum maximum", _is_number),
    **_each(
        "exclusiveMinimum exclusiveMaximum",
        lambda value: _is_number(value) or isinstance(value, bool),
    ),
    **_each("uniqueItems deprecated readOnly writeOnly", lambda value: isinstance(value, bool)),
    **_each(
        "description title pattern format $id $schema $ref $comment contentEncoding",
        lambda value: isinstance(value, str),
    ),
    **_each("anyOf oneOf allOf prefixItems", lambda value: bool(as_list(value))),
    **_each("enum examples", lambda value: isinstance(value, list)),
    "required": _are_names,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "dependentRequired": lambda value: (
        isinstance(value, dict) and all(map(_are_names, as_object(value).values()))
    ),
}


# ---- one object at the root ----


def root_object_schema(schema: JsonObject) -> dict[str, Json]:
    """Return a copy with an object at its root, and neither a union nor a reference there.

    Providers refuse a union at the root. Its branches are laid over each other: every property of
    any branch is allowed, and what all branches of a choice require is required. What a reference
    leads to is joined with what stands next to it, which wins.

    Raises:
        UnusableSchemaError: References and unions unfold to too much.

    Source:
        https://github.com/anthropics/claude-code/issues/40075 (read 2026-11-27)
    """
    root = as_object(fresh_json(as_object(schema)))
    if not any(key in root for key in (*ROOT_UNIONS, "$ref")):
        root["type"] = "object"
        root["properties"] = as_object(root.get("properties"))
        return root
    flat = _flatten(root, root, frozenset(), [0])
    defs = {"$defs", "definitions"} & flat.keys()
    without = {key: held for key, held in flat.items() if key not in defs}
    return flat if any("$ref" in one for one in walk_schemas(without)) else without


def _flatten(
    schema: JsonObject, root: JsonObject, followed: frozenset[str], unfolded: list[int]
) -> dict[str, Json]:
    unfolded[0] += 1
    if unfolded[0] > _MAX_UNFOLDED or len(followed) > _MAX_DEPTH:
        raise UnusableSchemaError("its references and unions unfold to too much")
    plain = dict(schema)
    reference = as_text(plain.pop("$ref", None))
    if reference and reference not in followed:
        followed |= {reference}
        target = _flatten(target_of(root, reference) or {}, root, followed, unfolded)
        joined = {**target, **plain}
        for key in BY_NAME & target.keys() & plain.keys():
            joined[key] = {**as_object(target[key]), **as_object(plain[key])}
        if required := {*as_list(target.get("required")), *as_list(plain.get("required"))}:
            joined["required"] = sorted(required)
        plain = joined
    unions = {key: plain.pop(key) for key in ROOT_UNIONS if key in plain}
    plain["type"] = "object"
    own = plain["properties"] = as_object(plain.get("properties"))
    for key, given in unions.items():
        branches = [_flatten(branch, root, followed, unfolded) for branch in objects_in(given)]
        joint = "allOf" if key == "allOf" else "anyOf"
        variants: dict[str, list[Json]] = {}
        for branch in branches:
            for name, one in branch["properties"].items():
                seen = variants.setdefault(name, [])
                told = one[joint] if list(as_object(one)) == [joint] else [one]
                seen += [variant for variant in told if variant not in seen]
        laid = {
            name: {joint: all_} if len(all_) > 1 else all_[0] for name, all_ in variants.items()
        }
        own = plain["properties"] = {**laid, **own}
        demands = [set(as_list(branch.get("required"))) for branch in branches] or [set[Json]()]
        merge = set[Json].union if key == "allOf" else set[Json].intersection
        if required := {*as_list(plain.get("required")), *merge(*demands)}:
            plain["required"] = sorted(required)
    return plain


def target_of(root: JsonObject, reference: str) -> JsonObject | None:
    """Return what a pointer or an anchor within the schema leads to; `None`: nothing."""
    if reference != "#" and not reference.startswith("#/"):
        named = (one for one in walk_schemas(root) if f"#{one.get('$anchor')}" == reference)
        return next(named, None)
    found: Json = root
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
        return "its root is no object"
    return next((reason for one in schemas for reason in _objections(one)), _too_much(schemas))


def _objections(schema: JsonObject) -> Iterator[str]:
    for keyword in _UNSUPPORTED:
        if keyword in schema:
            yield f"it has {keyword!r}"
    properties = as_object(schema.get("properties"))
    if "$ref" in schema and schema.keys() - {"$ref", "$defs", "definitions"}:
        yield "something stands beside a reference in it"
    inner = (schema.get("items"), *properties.values(), *as_list(schema.get("anyOf")))
    has_flags = any(isinstance(one, bool) for one in inner)
    if has_flags or not schema.keys() & {"type", "anyOf", "$ref"}:
        yield "something in it has no type"
    if "format" in schema and schema["format"] not in _FORMATS:
        yield f"it has the format {schema['format']!r}"
    if _LOOKAROUND.search(as_text(schema.get("pattern"))):
        yield "a pattern in it looks around"
    if _is_object(schema):
        if schema.get("additionalProperties") is not False:
            yield "an object in it is not closed by additionalProperties: false"
        required = as_list(schema.get("required"))
        yield from (f"its property {n!r} is not required" for n in properties if n not in required)


def _is_object(schema: JsonObject) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _too_much(schemas: list[JsonObject]) -> str | None:
    """Return which of the published limits a schema exceeds."""
    properties = sum(len(as_object(one.get("properties"))) for one in schemas)
    enums = [[v for v in as_list(one.get("enum")) if isinstance(v, str)] for one in schemas]
    values = sum(len(as_list(one.get("enum"))) for one in schemas)
    names = [
        n for one in schemas for key in ("properties", "$defs") for n in as_object(one.get(key))
    ]
    chars = sum(map(len, names)) + sum(len(value) for listed in enums for value in listed)
    chars += sum(len(as_text(one.get("const"))) for one in schemas)
    if properties > 5_000:
        return f"it has {properties:,} properties, more than 5,000"
    if values > 1_000:
        return f"it lists {values:,} values, more than 1,000"
    if chars > 120_000:
        return "its names and values have more than 120,000 characters"
    if any(len(listed) > 250 and sum(map(len, listed)) > 15_000 for listed in enums):
        return "values of one property have more than 15,000 characters"
    return "its objects are nested more than 10 levels deep" if _levels(schemas[0]) > 10 else None


def _levels(schema: Json) -> int:
    """Return how many objects lie in each other, the root among them."""
    if listed := as_list(schema):
        return max(map(_levels, listed))
    fields = as_object(schema)
    inner = [
        *as_object(fields.get("properties")).values(),
        fields.get("items"),
        fields.get("anyOf"),
    ]
    return _is_object(fields) + max(map(_levels, filter(None, inner)), default=0)
