"""The tools that a model may call: where they come from, which are offered, how changes are sent."""

from typing import TYPE_CHECKING, Any

from context_assembler.tools.changes import (
    SentTools,
    SettledTools,
    find_change,
    settle_tools,
    tool_entries,
    tools_rewrite_entry,
    withdrawn_note,
)
from context_assembler.tools.collect import CollectedTools, OfferedTools, ToolCollector
from context_assembler.tools.sources import (
    ExecutorTools,
    ListedTools,
    open_skill_tools,
    open_tool_sources,
    spec_from_function,
    tool,
)

if TYPE_CHECKING:
    from context_assembler.tools.mcp import McpTools, call_mcp_tool

__all__ = ["CollectedTools", "ExecutorTools", "ListedTools", "McpTools", "OfferedTools"]
__all__ += ["SentTools", "SettledTools", "ToolCollector", "call_mcp_tool", "find_change"]
__all__ += ["open_skill_tools", "open_tool_sources", "settle_tools", "spec_from_function", "tool"]
__all__ += ["tool_entries", "tools_rewrite_entry", "withdrawn_note"]


def __getattr__(name: str) -> Any:
    if name not in ("McpTools", "call_mcp_tool"):
        raise AttributeError(name)
    from context_assembler.tools import mcp  # takes a second to load

    return getattr(mcp, name)
