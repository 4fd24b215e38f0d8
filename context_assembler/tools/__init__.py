"""Where tools come from: one file per member, one row per member."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from context_assembler.errors import ConfigurationError
from context_assembler.ports import ToolSource
from context_assembler.tools.executor import ExecutorTools
from context_assembler.tools.functions import FunctionTools
from context_assembler.tools.listed import ListedTools
from context_assembler.tools.mcp import McpTools, call_mcp_tool
from context_assembler.tools.mcp_servers import SERVERS_KEYS
from context_assembler.tools.signatures import spec_from_function, tool
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.prompt import Skill
from context_assembler.values.tools import ToolSpec

__all__ = [
    "TOOL_SOURCES",
    "McpTools",
    "call_mcp_tool",
    "open_skill_tools",
    "open_tool_sources",
    "spec_from_function",
    "tool",
]

TOOL_SOURCES: Final[Mapping[str, Callable[[Any], ToolSource]]] = {
    "functions": FunctionTools,
    "executor": ExecutorTools,
    "mcp": McpTools,
    "listed": ListedTools,
}


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
    members: dict[str, list[Any]] = {"functions": [], "executor": [], "mcp": [], "listed": []}
    for entry in _flatten(given):
        members[_member_of(entry)].append(entry)
    sources: list[ToolSource] = []
    if members["functions"]:
        sources.append(FunctionTools(members["functions"]))
    sources += [
        entry if isinstance(entry, _OWN) else ExecutorTools(entry) for entry in members["executor"]
    ]
    sources += _open_servers(members["mcp"], starts_servers=starts_servers)
    if members["listed"]:
        sources.append(ListedTools(members["listed"]))
    return sources


def open_skill_tools(skills: Iterable[Skill]) -> list[ToolSource]:
    """Open the tools that skills bring along, one source for each skill."""
    return [ListedTools(one.tools, name=f"skill {one.name}", kind="skills") for one in skills]


_OWN: Final = (ExecutorTools, FunctionTools, ListedTools)


def _open_servers(entries: Iterable[Any], *, starts_servers: bool) -> list[McpTools]:
    servers: list[McpTools] = []
    for entry in entries:
        if isinstance(entry, McpTools):
            servers.append(entry)
        elif starts_servers:
            servers += McpTools.from_config(entry)
        else:
            raise ConfigurationError(
                "The tools of one call start no MCP servers.",
                remedy="Name the servers in ContextAssembler(tools=…), or pass McpTools objects.",
            )
    names = [server.name for server in servers]
    if len(twice := [name for name in names if names.count(name) > 1]) > 0:
        raise ConfigurationError(
            f"Two MCP servers are called {twice[0]!r}.",
            remedy="Give each a name of its own: it tells their tools apart.",
        )
    return servers


def _flatten(given: Any) -> Iterable[Any]:
    if given is None:
        return
    if is_array(given):
        for entry in given:
            yield from _flatten(entry)
    else:
        yield given


def _member_of(entry: Any) -> str:
    if isinstance(entry, McpTools) or _is_mcp_config(entry):
        return "mcp"
    if isinstance(entry, ToolSpec) or is_object(entry):
        return "listed"
    if callable(getattr(entry, "list_tools", None)):
        return "executor"
    if callable(entry):
        return "functions"
    if callable(getattr(entry, "model_dump", None)):
        return "listed"
    raise ConfigurationError(
        f"A {type(entry).__name__} is no source of tools: {str(entry)[:80]!r}.",
        remedy="Pass functions, tool specs, an object with list_tools(), or a list of these.",
    )


def _is_mcp_config(entry: Any) -> bool:
    """Whether the entry names servers; Gemini's own tool of that name holds a list."""
    return is_object(entry) and any(is_object(entry.get(key)) for key in SERVERS_KEYS)
