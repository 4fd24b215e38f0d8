"""Reads what an MCP server answered to a call, as the parts of a tool result."""

import json
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import (
    Base64Source,
    Document,
    Image,
    Json,
    JsonObject,
    ResultPart,
    Text,
    ToolResult,
)
from context_assembler.values.texts.cleaning import clean_text

_TEXT_LIKE: Final = ("text/", "application/json", "application/xml", "application/yaml")


def read_call_result(result: JsonObject, *, tool_name: str, call_id: str) -> ToolResult:
    """Return the answer of `tools/call` as a tool result.

    What no model can be shown (sound, a binary file) is said in words. Structured content is added
    as JSON text, unless a text says the same already, as servers are asked to do for older clients.

    Source:
        https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result
        (read 2026-11-28)
    """
    blocks = result.get("content")
    content = [_part_of(block) for block in blocks] if is_array(blocks) else []
    structured = result.get("structuredContent")
    if structured is not None and not any(_says(part, structured) for part in content):
        content.append(_text(json.dumps(structured, ensure_ascii=False)))
    return ToolResult(
        call_id=call_id,
        content=tuple(content),
        is_error=result.get("isError") is True,
        tool_name=tool_name,
    )


def _says(part: ResultPart, structured: Json) -> bool:
    """Whether a text is the structured content, or what the official SDK wraps as its result."""
    if not isinstance(part, Text):
        return False
    wrapped = structured.get("result") if is_object(structured) and len(structured) == 1 else None
    return part.text == wrapped or _parsed(part.text) in (structured, wrapped)


def _parsed(text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _part_of(block: Json) -> ResultPart:
    if not is_object(block):
        return _text(json.dumps(block, ensure_ascii=False, default=repr))
    match block.get("type"):
        case "text":
            return _text(str(block.get("text", "")))
        case "image":
            return Image(source=_source_of(block, "data"))
        case "audio":
            return _in_words("sound", block, "data")
        case "resource_link":
            return _link(block)
        case "resource" if is_object(resource := block.get("resource")):
            return _resource(resource)
        case _:
            return _text(json.dumps(block, ensure_ascii=False, default=repr))


def _text(text: str) -> Text:
    return Text(clean_text(text))


def _source_of(block: JsonObject, key: str) -> Base64Source:
    return Base64Source(media_type=_media_type(block), data=str(block.get(key, "")))


def _media_type(block: JsonObject) -> str:
    return str(block.get("mimeType") or "application/octet-stream")


def _in_words(what: str, block: JsonObject, key: str) -> Text:
    size_bytes = len(str(block.get(key, ""))) * 3 // 4
    place = f" {block['uri']}" if block.get("uri") else ""
    return _text(f"[{what}{place}: {_media_type(block)}, {size_bytes:,} bytes; it is not shown]")


def _link(block: JsonObject) -> Text:
    title = block.get("title") or block.get("name") or "resource"
    lines = [f"[{title}]({block.get('uri', '')})"]
    if block.get("mimeType"):
        lines[0] += f" ({block['mimeType']})"
    if block.get("description"):
        lines.append(str(block["description"]))
    return _text("\n".join(lines))


def _resource(resource: JsonObject) -> ResultPart:
    uri, kind = str(resource.get("uri", "")), _media_type(resource)
    if isinstance(text := resource.get("text"), str):
        return _text(f"{uri}\n{text}" if uri else text)
    if kind.startswith("image/"):
        return Image(source=_source_of(resource, "blob"))
    if kind == "application/pdf" or kind.startswith(_TEXT_LIKE):
        return Document(source=_source_of(resource, "blob"), title=uri or None)
    return _in_words("file", resource, "blob")
