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
from context_assembler.tools.mcp import McpTools
from context_assembler.tools.sources import (
    ExecutorTools,
    ListedTools,
    open_skill_tools,
    open_tool_sources,
)

__all__ = [
    "CollectedTools",
    "ExecutorTools",
    "ListedTools",
    "McpTools",
    "OfferedTools",
    "SentTools",
    "SettledTools",
    "ToolCollector",
    "find_change",
    "open_skill_tools",
    "open_tool_sources",
    "settle_tools",
    "spec_from_function",
    "tool",
    "tool_entries",
    "tools_rewrite_entry",
]
