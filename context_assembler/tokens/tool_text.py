"""Tool definitions as models read them: TypeScript (OpenAI), bare words (Gemini), or JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.tools import ToolSpec

_MAX_DEPTH: Final = 24
_MAX_EXPANSIONS: Final = 200  # of references; schemas may refer to themselves, many times
_SCALARS: Final[Mapping[str, str]] = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def tool_as_typescript(tool: ToolSpec, *, marks_lines: bool = True) -> str:
    """Return the definition as a function type with its descriptions as comments.

    Args:
        marks_lines: Whether each line of the tool's description is marked as a comment, or the
            first alone, as models before GPT-5 read it.

    Source:
        https://github.com/openai/harmony, docs/format.md (read 2026-11-27); for earlier models the
        same form, as checked against recorded counts.
    """
    root = tool.input_schema
    body = _TypeWriter(root).body(root, depth=0)
    arguments = f"(_: {_described(root)}{{\n{body}\n}})" if body else "()"
    told = tool.description.strip()
    comment = _comment(told) if marks_lines or not told else f"// {told}\n"
    return f"{comment}type {tool.name} = {arguments} => any;\n\n"


def tool_as_words(tool: ToolSpec) -> tuple[list[str], int]:
    """Return the words of the definition, and of how many values it states the type.

    Words are names, descriptions, choices and what is required: what Gemini counts of a definition,
    neither punctuation nor keywords.
    """
    found = list(_words(tool.input_schema, depth=0))
    words = [tool.name, tool.description, *(word for word, _ in found)]
    types = sum(is_type for _, is_type in found)
    return [word for word in words if word], types


def words_of(value: Json) -> Iterator[str]:
    """Yield the names and values of a JSON value, without what stands between them."""
    if is_object(value):
        for name, inner in value.items():
            yield name
            yield from words_of(inner)
    elif is_array(value):
        for inner in value:
            yield from words_of(inner)
    else:
        yield value if isinstance(value, str) else _spelled(value)


def _words(schema: Json, *, depth: int) -> Iterator[tuple[str, bool]]:
    """Yield each word; an empty one, and true, for a type."""
    if not is_object(schema) or depth > _MAX_DEPTH:
        return
    if depth and schema.get("type"):
        yield "", True
    if depth and isinstance(description := schema.get("description"), str):
        yield description, False
    for listed in ("enum", "required"):
        yield from ((str(name), False) for name in _listed(schema.get(listed)))
    if is_object(properties := schema.get("properties")):
        for name, inner in properties.items():
            yield name, False
            yield from _words(inner, depth=depth + 1)
    for inner in (schema.get("items"), *_listed(schema.get("anyOf"))):
        yield from _words(inner, depth=depth + 1)


class _TypeWriter:
    """Writes the types of one schema; what nests or repeats without end is `any`."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._expansions_left = _MAX_EXPANSIONS

    def body(self, schema: JsonObject, *, depth: int) -> str:
        return "\n".join(self._properties(schema, depth=depth))

    def _properties(self, schema: JsonObject, *, depth: int) -> Iterator[str]:
        properties, required = schema.get("properties"), schema.get("required")
        if not is_object(properties):
            return
        for name, value in properties.items():
            inner = self._resolved(value)
            mark = "" if isinstance(required, Sequence) and name in required else "?"
            default = inner.get("default")
            shown = "" if default is None else f" // default: {_spelled(default)}"
            described = _described(inner) + _examples(inner.get("examples"))
            yield f"{described}{name}{mark}: {self._type(inner, depth=depth + 1)},{shown}"

    def _type(self, schema: JsonObject, *, depth: int) -> str:
        if depth > _MAX_DEPTH:
            return "any"
        if branches := _listed(schema.get("anyOf")) or _listed(schema.get("oneOf")):
            return " | ".join(self._type(self._resolved(b), depth=depth + 1) for b in branches)
        if values := _listed(schema.get("enum")):
            return " | ".join(map(_spelled, values))
        kind = schema.get("type")
        if kinds := _listed(kind):
            return " | ".join(self._type({**schema, "type": k}, depth=depth + 1) for k in kinds)
        if kind == "array":
            return f"{self._type(self._resolved(schema.get('items')), depth=depth + 1)}[]"
        if kind == "object":
            body = self.body(schema, depth=depth)
            return f"{{\n{body}\n}}" if body else "object"
        return _SCALARS.get(str(kind), "any")

    def _resolved(self, schema: Json) -> JsonObject:
        """Follow a reference within the schema; what is no schema means anything."""
        if not is_object(schema):
            return {}
        reference = schema.get("$ref")
        if (
            not isinstance(reference, str)
            or not reference.startswith("#")
            or not self._may_expand()
        ):
            return schema
        target: Json = self._root
        for step in filter(None, reference[1:].split("/")):
            target = target.get(step) if is_object(target) else None
        return {**target, **schema} if is_object(target) else schema

    def _may_expand(self) -> bool:
        self._expansions_left -= 1
        return self._expansions_left >= 0


def _comment(text: Json) -> str:
    if not isinstance(text, str) or not text.strip():
        return ""
    return "".join(f"// {line}\n" for line in text.strip().splitlines())


def _described(schema: JsonObject) -> str:
    """Return title and description; a line without text parts the two."""
    title, comment = _title(schema.get("title")), _comment(schema.get("description"))
    return f"{title}//\n{comment}" if title and comment else title + comment


def _title(text: Json) -> str:
    return f"// {text.strip()}\n" if isinstance(text, str) and text.strip() else ""


def _examples(values: Json) -> str:
    listed = "".join(f"// - {_spelled(value)}\n" for value in _listed(values))
    return f"// Examples:\n{listed}" if listed else ""


def _spelled(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _listed(value: Json) -> list[Json]:
    return list(value) if is_array(value) else []
