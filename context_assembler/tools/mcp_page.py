"""A page of the tools that an MCP server lists."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json


class Page(NamedTuple):
    """Tools as the server spells them, the names of those that MCP forbids, the next cursor."""

    tools: list[Json]
    forbidden: list[str]
    cursor: str | None


def page_of(raw: Sequence[Json], page: Any) -> Page:
    """Return the page; a tool that the SDK leaves out may not be offered.

    Source:
        https://modelcontextprotocol.io/specification/2026-07-28/server/tools (x-mcp-header)
        (as mcp 2.3 speaks it)
    """
    taken = {tool.name for tool in page.tools}
    names = [tool.get("name") if is_object(tool) else None for tool in raw]
    forbidden = [name for name in names if isinstance(name, str) and name not in taken]
    tools = [tool for tool, name in zip(raw, names, strict=True) if name not in forbidden]
    return Page(tools, forbidden, page.next_cursor)
