"""The tools that a model may call: where they come from, which are offered, how changes are sent."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from context_assembler.tools.changes import (
        SentTools,
        SettledTools,
        find_change,
        settle_tools,
        tool_entries,
        tools_rewrite_entry,
    )
    from context_assembler.tools.collect import CollectedTools, OfferedTools, ToolCollector
    from context_assembler.tools.functions import spec_from_function, tool
    from context_assembler.tools.mcp import McpTools, call_mcp_tool
    from context_assembler.tools.sources import (
        ExecutorTools,
        ListedTools,
        open_skill_tools,
        open_tool_sources,
    )

__all__ = ["CollectedTools", "ExecutorTools", "ListedTools", "McpTools", "OfferedTools"]
__all__ += ["SentTools", "SettledTools", "ToolCollector", "call_mcp_tool", "find_change"]
__all__ += ["open_skill_tools", "open_tool_sources", "settle_tools", "spec_from_function", "tool"]
__all__ += ["tool_entries", "tools_rewrite_entry"]

# Loaded on first use: literal specs need no functions, and the MCP SDK takes a second to load.
_HOMES: Final = {
    "collect": ("CollectedTools", "OfferedTools", "ToolCollector"),
    "functions": ("spec_from_function", "tool"),
    "mcp": ("McpTools", "call_mcp_tool"),
    "sources": ("ExecutorTools", "ListedTools", "open_skill_tools", "open_tool_sources"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    home = next((home for home, names in _HOMES.items() if name in names), "changes")
    return getattr(import_module(f"{__name__}.{home}"), name)
