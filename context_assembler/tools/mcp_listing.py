"""Reads the tools that an MCP server lists."""

from collections.abc import Sequence
from typing import Final

from context_assembler.tools.entries import ReadEntries, read_entries
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.texts.fences import REMINDER_TAG, SUMMARY_TAG, escape_tag

_TAGS: Final = (REMINDER_TAG, SUMMARY_TAG)
_MAX_DEPTH: Final = 64


def read_listing(
    tools: Sequence[Json], *, server: str, max_tools: int, trusts_hints: bool = True
) -> ReadEntries:
    """Return the tools as specs; one that cannot be read does not harm the rest.

    Of more than `max_tools` the first by name are kept, and a note says so. A tool without a
    description is described by its title. What reads as one of the tags that this library speaks
    to the model in is escaped, since a server is not the developer.

    Args:
        trusts_hints: Whether a tool is safe because its server says that it only reads.
    """
    notes: list[str] = []
    plain: list[Json] = []
    for tool in sorted(tools, key=_name_of)[:max_tools]:
        escaped = _escaped(tool, depth=0)
        plain.append(_settle(escaped, trusts_hints=trusts_hints))
        if escaped != tool:
            notes.append(
                f"Tool {_name_of(tool)!r} of MCP server {server!r}: its text has tags that only the "
                "assembler uses; they were escaped."
            )
    if len(tools) > max_tools:
        notes.append(
            f"MCP server {server!r} lists {len(tools):,} tools; only the first {max_tools:,} by "
            "name are offered. Raise max_tools, or have the server list fewer."
        )
    read = read_entries(plain)
    return ReadEntries(specs=read.specs, problems=read.problems, notes=(*read.notes, *notes))


def _name_of(tool: Json) -> str:
    name = tool.get("name") if is_object(tool) else None
    return name if isinstance(name, str) else ""


def _settle(tool: Json, *, trusts_hints: bool) -> Json:
    """Return the tool with what counts here alone, so that no other key can change its shape."""
    if not is_object(tool):
        return {"name": "", "inputSchema": None}
    return {
        "name": tool.get("name"),
        "description": tool.get("description") or _title_of(tool),
        "inputSchema": tool.get("inputSchema"),
        "annotations": tool.get("annotations") if trusts_hints else None,
    }


def _title_of(tool: JsonObject) -> str:
    hints = tool.get("annotations")
    title = tool.get("title") or (hints.get("title") if is_object(hints) else None)
    return title if isinstance(title, str) else ""


def _escaped(value: Json, *, depth: int) -> Json:
    if depth > _MAX_DEPTH:
        return value  # such a schema is refused later
    if is_object(value):
        return {
            key: _escape(inner)
            if key in {"description", "title"} and isinstance(inner, str)
            else _escaped(inner, depth=depth + 1)
            for key, inner in value.items()
        }
    return [_escaped(one, depth=depth + 1) for one in value] if is_array(value) else value


def _escape(text: str) -> str:
    for tag in _TAGS:
        text = escape_tag(tag, text)
    return text
