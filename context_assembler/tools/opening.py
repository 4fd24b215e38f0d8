"""Opens what is given as tools: each kind of it as a source of its own."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from context_assembler.errors import ConfigurationError
from context_assembler.errors.base import with_article
from context_assembler.on_demand import RowsOnDemand
from context_assembler.ports import ToolSource
from context_assembler.tools.executor import ExecutorTools
from context_assembler.tools.functions import FunctionTools
from context_assembler.tools.listed import ListedTools
from context_assembler.tools.mcp_servers import SERVERS_KEYS
from context_assembler.values.json_shapes import is_object
from context_assembler.values.tools import ToolSpec

if TYPE_CHECKING:
    from context_assembler.tools.mcp import McpTools


def _load_mcp() -> "type[McpTools]":
    from context_assembler.tools.mcp import McpTools  # noqa: PLC0415 - few have MCP servers

    return McpTools


TOOL_SOURCES: Final[Mapping[str, Callable[[Any], ToolSource]]] = RowsOnDemand(
    {
        "functions": lambda: FunctionTools,
        "executor": lambda: ExecutorTools,
        "mcp": _load_mcp,
        "listed": lambda: ListedTools,
    }
)


_OWN: Final = (ExecutorTools, FunctionTools, ListedTools)


def open_entries(entries: Iterable[Any], *, starts_servers: bool) -> list[ToolSource]:
    """Open functions, specs, executors and sources, in whatever order; see `open_tool_sources`."""
    members: dict[str, list[Any]] = {name: [] for name in TOOL_SOURCES}
    for entry in entries:
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


def _open_servers(entries: Iterable[Any], *, starts_servers: bool) -> "list[McpTools]":
    servers: list[McpTools] = []
    for entry in entries:
        if _is_server(entry):
            servers.append(entry)
        elif starts_servers:
            servers += _load_mcp().from_config(entry)
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


def _member_of(entry: Any) -> str:
    if _is_server(entry) or _is_mcp_config(entry):
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
        f"{with_article(type(entry).__name__, begins_sentence=True)} is no source of tools: {str(entry)[:80]!r}.",
        remedy="Pass functions, tool specs, an object with list_tools(), or a list of these.",
    )


def _is_server(entry: object) -> "TypeGuard[McpTools]":
    return getattr(type(entry), "kind", None) == "mcp" and isinstance(entry, _load_mcp())


def _is_mcp_config(entry: Any) -> bool:
    """Whether the entry names servers; Gemini's own tool of that name holds a list."""
    return is_object(entry) and any(is_object(entry.get(key)) for key in SERVERS_KEYS)
