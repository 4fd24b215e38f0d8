"""Where tools come from: one file per member, one row per member."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from context_assembler.errors import ConfigurationError
from context_assembler.on_demand import names_on_demand
from context_assembler.ports import ToolSource
from context_assembler.values.json_bounds import MAX_JSON_DEPTH
from context_assembler.values.json_shapes import is_array
from context_assembler.values.prompt import Skill

if TYPE_CHECKING:
    from context_assembler.tools.mcp import McpTools, call_mcp_tool
    from context_assembler.tools.opening import TOOL_SOURCES
    from context_assembler.tools.signatures import spec_from_function, tool
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "mcp": "McpTools call_mcp_tool",
            "opening": "TOOL_SOURCES",
            "signatures": "spec_from_function tool",
        },
    )

__all__ = [
    "TOOL_SOURCES",
    "McpTools",
    "call_mcp_tool",
    "open_skill_tools",
    "open_tool_sources",
    "spec_from_function",
    "tool",
]


def open_tool_sources(given: Any, *, starts_servers: bool = True) -> list[ToolSource]:
    """Open the short forms of tools: functions, specs, executors, sources, and lists that mix them.

    A mapping with `mcpServers` is what the configuration files of MCP clients hold.

    Args:
        starts_servers: Whether such a mapping is taken, for it starts programs.

    Returns:
        One source for all functions, one for all literal specs, one for each executor and for each
        MCP server; a list in which nothing is given is empty.

    Raises:
        ConfigurationError: Something is none of these, or two MCP servers have one name.
        MissingExtraError: MCP servers are named, and the MCP SDK is not installed.
    """
    entries = list(_flatten(given))
    if not entries:
        return []
    from context_assembler.tools.opening import open_entries  # noqa: PLC0415 - only with tools

    return open_entries(entries, starts_servers=starts_servers)


def open_skill_tools(skills: Iterable[Skill]) -> list[ToolSource]:
    """Open the tools that skills bring along, one source for each skill."""
    bringing = list(skills)
    if not bringing:
        return []
    from context_assembler.tools.listed import ListedTools  # noqa: PLC0415 - only with skills

    return [ListedTools(one.tools, name=f"skill {one.name}", kind="skills") for one in bringing]


def _flatten(given: Any, *, depth: int = 0) -> Iterable[Any]:
    if given is None:
        return
    if depth > MAX_JSON_DEPTH:
        raise ConfigurationError(
            f"The lists of tools are nested deeper than {MAX_JSON_DEPTH} levels.",
            remedy="Pass one list of all tools.",
        )
    if is_array(given):
        for entry in given:
            yield from _flatten(entry, depth=depth + 1)
    else:
        yield given
