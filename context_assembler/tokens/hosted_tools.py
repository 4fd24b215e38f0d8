"""What the vendors' own tools cost, whose definitions nobody sees."""

from collections.abc import Mapping
from typing import Final

from context_assembler.values.parts import JsonObject

# By the type without its date: what recorded requests were charged beside their text, the smallest
# figure of each (`python -m benchmarks.usage`). What such a tool finds while the model answers comes
# on top and cannot be known before.
# Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/bash-tool (245),
# …/text-editor-tool (700) (read 2026-11-27) for the two that are published.
HOSTED_TOOL_TOKENS: Final[Mapping[str, int]] = {
    "bash": 245,
    "text_editor": 730,
    "computer": 1_300,
    "memory": 1_060,
    "web_search": 1_670,
    "web_fetch": 500,
    "code_execution": 1_700,
    "advisor": 1_900,
    "tool_search_tool_bm25": 300,
    "tool_search_tool_regex": 300,
    "apply_patch": 610,
    "shell": 240,
    "code_interpreter": 120,
    "file_search": 130,
    "image_generation": 1_300,
}

# By type, what a block is charged beside its own JSON, as recorded requests were.
BLOCK_TOKENS: Final[Mapping[str, int]] = {"additional_tools": 55, "custom": 6}


def hosted_tool_tokens(spec: JsonObject) -> int:
    """Return the tokens of the tool's hidden definition; 0 where no figure is known."""
    kind = spec.get("type")
    if not isinstance(kind, str):
        return 0
    name, _, date = kind.rpartition("_")
    return HOSTED_TOOL_TOKENS.get(name if date.isdigit() else kind, 0)
