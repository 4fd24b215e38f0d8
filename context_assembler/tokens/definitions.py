"""Tool definitions as models read them: TypeScript (OpenAI), bare words (Gemini), or JSON."""

import json
from collections.abc import Iterator
from typing import Final

from context_assembler.events import Json, JsonObject, is_object
from context_assembler.ports import ToolSpec

_MAX_DEPTH: Final = 24
_MAX_EXPANSIONS: Final = 200  # of references; schemas may refer to themselves, many times
_SCALARS: Final = {name: name for name in ("string", "number", "boolean", "null")}

# What the vendors' own tools cost, whose definitions nobody sees, by the type without its date: what
# recorded requests were charged next to their text, the smallest figure of each
# (`python -m benchmarks.usage`). What such a tool finds while the model answers comes on top and
# cannot be known before.
# Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/bash-tool (245),
# …/text-editor-tool (700) (read 2026-11-27) for the two that are published.
_HOSTED_TOOLS: Final = (
    "bash 245 text_editor 730 computer 1300 memory 1060 web_search 1670 web_fetch 500"
    " code_execution 1700 advisor 1900 tool_search_tool_bm25 300 tool_search_tool_regex 300"
    " apply_patch 610 shell 240 code_interpreter 120 file_search 130 image_generation 1300"
)


def hosted_tool_tokens(spec: JsonObject) -> int:
    """Return the tokens of a vendor's own tool; 0 if no figure is known."""
    words = _HOSTED_TOOLS.split()
    kind = str(spec.get("type"))
    name, _, day = kind.rpartition("_")
    tokens: dict[str, int] = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    return tokens.get(name if day.isdigit() else kind, 0)


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
    body = _TypeWriter(root).body(root, 0)
    arguments = f"(_: {_described(root)}{{\n{body}\n}})" if body else "()"
    text = tool.description.strip()
    comment = _comment(text) if marks_lines or not text else f"// {text}\n"
    return f"{comment}type {tool.name} = {arguments} => any;\n\n"


def tool_as_words(tool: ToolSpec) -> tuple[list[str], int]:
    """Return the words of the definition, and of how many values it states the type.

    Words are names, descriptions, choices and what is required: what Gemini counts of a definition,
    neither punctuation nor keywords.
    """
    found = list(_words(tool.input_schema, 0))
    words = [tool.name, tool.description, *(word for word in found if word is not None)]
    return [word for word in words if word], found.count(None)


def words_of(value: Json) -> Iterator[str]:
    """Yield the names and values of a JSON value, without what is between them."""
    if is_object(value):
        for name, inner in value.items():
            yield name
            yield from words_of(inner)
    elif type(value) in (list, tuple):
        for inner in value:
            yield from words_of(inner)
    else:
        yield value if isinstance(value, str) else _json(value)


def _words(schema: Json, depth: int) -> Iterator[str | None]:
    """Yield each word; `None` for a type."""
    if not is_object(schema) or depth > _MAX_DEPTH:
        return
    if depth and schema.get("type"):
        yield None
    if depth and isinstance(description := schema.get("description"), str):
        yield description
    for listed in ("enum", "required"):
        yield from map(str, _listed(schema.get(listed)))
    if is_object(properties := schema.get("properties")):
        for name, inner in properties.items():
            yield name
            yield from _words(inner, depth + 1)
    for inner in (schema.get("items"), *_listed(schema.get("anyOf"))):
        yield from _words(inner, depth + 1)


class _TypeWriter:
    """Writes the types of one schema; what nests or repeats without end is `any`."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._expansions_left = _MAX_EXPANSIONS

    def body(self, schema: JsonObject, depth: int) -> str:
        properties, required = schema.get("properties"), _listed(schema.get("required"))
        lines: list[str] = []
        for name, value in properties.items() if is_object(properties) else ():
            inner = self._resolved(value)
            default, examples = inner.get("default"), _listed(inner.get("examples"))
            shown = "" if default is None else f" // default: {_json(default)}"
            listed = "".join(f"// - {_json(example)}\n" for example in examples)
            described = _described(inner) + (f"// Examples:\n{listed}" if listed else "")
            mark = "" if name in required else "?"
            lines.append(f"{described}{name}{mark}: {self._type(inner, depth + 1)},{shown}")
        return "\n".join(lines)

    def _type(self, schema: JsonObject, depth: int) -> str:
        if depth > _MAX_DEPTH:
            return "any"
        if branches := _listed(schema.get("anyOf")) or _listed(schema.get("oneOf")):
            return " | ".join(self._type(self._resolved(b), depth + 1) for b in branches)
        if values := _listed(schema.get("enum")):
            return " | ".join(map(_json, values))
        kind = schema.get("type")
        if kinds := _listed(kind):
            return " | ".join(self._type({**schema, "type": one}, depth + 1) for one in kinds)
        if kind == "array":
            return f"{self._type(self._resolved(schema.get('items')), depth + 1)}[]"
        if kind == "object":
            return f"{{\n{body}\n}}" if (body := self.body(schema, depth)) else "object"
        return "number" if kind == "integer" else _SCALARS.get(str(kind), "any")

    def _resolved(self, schema: Json) -> JsonObject:
        """Follow a reference within the schema; what is no schema means anything."""
        if not is_object(schema):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        self._expansions_left -= 1
        if self._expansions_left < 0:
            return schema
        target: Json = self._root
        for step in filter(None, reference[1:].split("/")):
            target = target.get(step) if is_object(target) else None
        return {**target, **schema} if is_object(target) else schema


def _comment(text: Json) -> str:
    lines = text.strip().splitlines() if isinstance(text, str) else ()
    return "".join(f"// {line}\n" for line in lines)


def _described(schema: JsonObject) -> str:
    """Return title and description; a line without text parts the two."""
    title, comment = schema.get("title"), _comment(schema.get("description"))
    title = f"// {title.strip()}\n" if isinstance(title, str) and title.strip() else ""
    return f"{title}//\n{comment}" if title and comment else title + comment


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _listed(value: Json) -> list[Json]:
    return list(value) if type(value) in (list, tuple) else []
