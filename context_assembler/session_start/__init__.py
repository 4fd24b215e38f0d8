"""What a coding agent's session starts with: project memory, its hook, and what fills it.

text = (await SessionStart(store).build("/src/shop")).text
"""

from context_assembler.session_start.inject import find_project
from context_assembler.session_start.layers import (
    LAYERS,
    SessionStart,
    SkippedLayer,
    StartContext,
)
from context_assembler.session_start.rendered import keep_rendered

__all__ = [
    "LAYERS",
    "SessionStart",
    "SkippedLayer",
    "StartContext",
    "find_project",
    "keep_rendered",
]
