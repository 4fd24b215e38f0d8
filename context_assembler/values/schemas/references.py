"""What the references within a schema lead to."""

from collections.abc import Iterator
from functools import cached_property
from typing import Final
from urllib.parse import unquote

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.wire import walk_schemas

_DEFINITIONS: Final = ("$defs", "definitions")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_MAX_INDEX_DIGITS: Final = 6
_ABSENT: Final = object()


class UnusableSchemaError(ValueError):
    """Where and why a schema is beyond repair."""


class References:
    """Follows the references of one schema: by place, by anchor, by the id of a schema inside."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root

    def target_of(self, reference: str) -> JsonObject | None:
        """Return what a reference leads to itself; `None` for one that leads out or nowhere.

        What is there without being an object, as the schema `true`, says nothing: it is empty.

        Source:
            https://json-schema.org/draft/2020-12/json-schema-core#section-8.2 (read 2026-11-27)
            RFC 6901, section 6: a pointer in a reference is percent-encoded
        """
        if reference != "#" and not reference.startswith("#/"):
            return self._named.get(reference)
        found = list(self._path(reference))[-1]
        if found is _ABSENT:
            return None
        return found if is_object(found) else {}

    def is_listed(self, reference: str) -> bool:
        """Whether a reference leads to something, and through a list."""
        *way, found = self._path(reference) if reference.startswith("#/") else [_ABSENT]
        return found is not _ABSENT and any(map(is_array, way))

    def _path(self, reference: str) -> Iterator[Json]:
        """Yield the root, what the first step of a pointer leads to, and so on."""
        found: Json = self._root
        yield found
        for step in reference.split("/")[1:]:
            found = _inside(found, step)
            yield found

    @cached_property
    def _named(self) -> dict[str, JsonObject]:
        named: dict[str, JsonObject] = {}
        for schema in walk_schemas(self._root):
            if anchor := as_text(schema.get("$anchor")):
                named.setdefault(f"#{anchor}", schema)
            if own_id := as_text(schema.get("$id")):
                named.setdefault(own_id, schema)
        return named


def _inside(found: Json, step: str) -> Json:
    """Return what stands there under that name or number; `_ABSENT` where nothing does."""
    if is_object(found):
        return found.get(_spelled(step, among=found), _ABSENT)
    is_index = step.isascii() and step.isdecimal() and len(step) <= _MAX_INDEX_DIGITS
    if is_array(found) and is_index and int(step) < len(found):
        return found[int(step)]
    return _ABSENT


def _spelled(step: str, *, among: JsonObject) -> str:
    """Return the name that a step of a pointer stands for; some writers forget to encode it."""
    plain = step.replace("~1", "/").replace("~0", "~")
    return plain if plain in among else unquote(step).replace("~1", "/").replace("~0", "~")


def property_in(reference: str, *, among: JsonObject) -> str | None:
    """Return the property at the root that a reference leads to or through; `None`: to none.

    Args:
        among: The properties.
    """
    container, name = f"{reference[2:]}/".split("/")[:2]
    is_one = reference.startswith("#/") and container == "properties"
    return _spelled(name, among=among) if is_one else None


def without_unused_definitions(schema: JsonObject) -> dict[str, Json]:
    """Return the schema without the definitions that nothing in it leads to.

    Where references go by name, all stay.
    """
    kept = {key: held for key, held in schema.items() if key not in _DEFINITIONS}
    defined = {key: as_object(schema[key]) for key in _DEFINITIONS if key in schema}
    used: set[tuple[str, str]] = set()
    waiting: list[Json] = [kept]
    while waiting:
        for reference in references_in(waiting.pop()):
            if not reference.startswith("#/"):
                return dict(schema)
            container, name = f"{reference[2:]}/".split("/")[:2]
            place = container, _spelled(name, among=defined.get(container, {}))
            if container in defined and place not in used:
                used.add(place)
                waiting.append(defined[container].get(place[1]))
    for key, named in defined.items():
        kept[key] = {name: one for name, one in named.items() if (key, name) in used}
    return {key: kept[key] for key in schema if kept[key] or key not in _DEFINITIONS}


def references_in(schema: Json) -> Iterator[str]:
    """Yield every reference in a schema."""
    for one in walk_schemas(schema):
        yield from (as_text(one[key]) for key in _REFERENCES if key in one)
