"""The tools that a model may call: where they come from, which are offered, how changes are sent."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from context_assembler.tools.collect import (
        PRECEDENCE,
        CollectedTools,
        OfferedTools,
        ToolCollector,
    )
    from context_assembler.tools.functions import spec_from_function, tool
    from context_assembler.tools.mcp import McpTools, call_mcp_tool
    from context_assembler.tools.sources import (
        ExecutorTools,
        ListedTools,
        open_skill_tools,
        open_tool_sources,
    )
else:
    _NAMES: Final = {
        "collect": "PRECEDENCE CollectedTools OfferedTools ToolCollector",
        "functions": "spec_from_function tool",
        "mcp": "McpTools call_mcp_tool",
        "sources": "ExecutorTools ListedTools open_skill_tools open_tool_sources",
    }

    def __getattr__(name: str) -> Any:
        """Load a module when one of its names is first used."""
        for module, names in _NAMES.items():
            if name in names.split():
                value = getattr(import_module(f"{__name__}.{module}"), name)
                globals()[name] = value
                return value
        raise AttributeError(name)


__all__ = [
    "PRECEDENCE",
    "CollectedTools",
    "ExecutorTools",
    "ListedTools",
    "McpTools",
    "OfferedTools",
    "ToolCollector",
    "call_mcp_tool",
    "open_skill_tools",
    "open_tool_sources",
    "spec_from_function",
    "tool",
]
