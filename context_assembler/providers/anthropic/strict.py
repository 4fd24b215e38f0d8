"""What strict mode takes of schemas, one by one and together."""

import re
from dataclasses import dataclass
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text, walk_objects
from context_assembler.values.wire import walk_schemas

# https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use
# https://platform.claude.com/docs/en/build-with-claude/structured-outputs (read 2026-11-27)
MAX_STRICT_TOOLS: Final = 20
MAX_OPTIONAL: Final = 24
MAX_UNIONS: Final = 16

# Of these the documentation says that the API answers with an error; the rest is best left out.
_BOUNDS: Final = ("minimum", "maximum", "minLength", "maxLength", "multipleOf")
_REFUSED: Final = frozenset(
    {"minimum", "maximum", "minLength", "maxLength", "multipleOf", "minItems", "maxItems", "$ref"}
)
# Looks around, at ends of words, or back. That these, and values that are lists or objects, are
# refused was not read anywhere, nor tried: a tool without strict mode costs less than a refusal.
_PATTERN: Final = re.compile(r"\(\?<?[=!]|\\[bB1-9]")


def suits_strict(schema: Json) -> bool:
    """Whether strict mode takes the schema: closed objects, no bounds, no references, plain values."""
    return not any(
        _REFUSED & found.keys()
        or _PATTERN.search(as_text(found.get("pattern")))
        or any(is_array(one) or is_object(one) for one in as_array(found.get("enum")))
        or (found.get("type") == "object" and found.get("additionalProperties") is not False)
        for found in walk_schemas(schema)
    )


def refuse_strict(schema: Json) -> str | None:
    """Return what of the schema strict mode is documented to refuse; `None` where nothing is."""
    for found in walk_schemas(schema):
        bound = next((name for name in _BOUNDS if name in found), None)
        if bound is not None:
            return f"strict mode does not take {bound!r}"
        if found.get("type") == "object" and found.get("additionalProperties") is not False:
            return "strict mode needs additionalProperties: false in every object"
    return "strict mode does not take a schema that holds itself" if _recurs(schema) else None


def _recurs(schema: Json) -> bool:
    """Whether a named schema refers to itself, over others or directly, or to the root."""
    fields = as_object(schema)
    named = {
        f"#/{group}/{name}": held
        for group in ("$defs", "definitions")
        for name, held in as_object(fields.get(group)).items()
    }
    uses = {name: _references(held) for name, held in named.items()}
    for start, used in uses.items():
        seen: set[str] = set()
        waiting = [*used]
        while waiting:
            name = waiting.pop()
            if name == start:
                return True
            if name not in seen:
                seen.add(name)
                waiting.extend(uses.get(name, ()))
    return "#" in _references(schema)


def _references(schema: Json) -> set[str]:
    found = {as_text(entry.get("$ref")) for entry in walk_objects(schema)}
    return found - {""}


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictLoad:
    """How many strict tools there are, with how many optional and union parameters together."""

    tools: int = 0
    optional: int = 0
    unions: int = 0

    def __add__(self, other: "StrictLoad") -> "StrictLoad":
        return StrictLoad(
            tools=self.tools + other.tools,
            optional=self.optional + other.optional,
            unions=self.unions + other.unions,
        )

    def excess(self) -> str | None:
        """Return which limit is passed; `None` where none is."""
        if self.tools > MAX_STRICT_TOOLS:
            return f"at most {MAX_STRICT_TOOLS} strict tools are taken"
        if self.optional > MAX_OPTIONAL:
            return f"strict tools may have {MAX_OPTIONAL} optional parameters together"
        if self.unions > MAX_UNIONS:
            return f"strict tools may have {MAX_UNIONS} parameters of several types together"
        return None


def load_of(schema: Json) -> StrictLoad:
    """Return what one strict tool adds."""
    found = list(walk_schemas(schema))
    return StrictLoad(
        tools=1, optional=sum(map(_count_optional, found)), unions=sum(map(_is_union, found))
    )


def _count_optional(schema: JsonObject) -> int:
    required = set(map(str, as_array(schema.get("required"))))
    return len(as_object(schema.get("properties")).keys() - required)


def _is_union(schema: JsonObject) -> bool:
    return "anyOf" in schema or is_array(schema.get("type"))


class StrictGate:
    """Lets strict tools through as long as their number and parameters are not too many."""

    def __init__(self) -> None:
        self._load = StrictLoad()

    def object_to(self, schema: Json) -> str | None:
        """Return why the next tool cannot be strict; `None` where it can, and then it counts."""
        if not suits_strict(schema):
            return "its schema has what strict mode refuses"
        load = self._load + load_of(schema)
        objection = load.excess()
        if objection is None:
            self._load = load
        return objection
