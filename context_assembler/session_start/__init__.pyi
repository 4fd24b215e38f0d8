from context_assembler.session_start.code import Indexed, index_code
from context_assembler.session_start.feeds import Observed, learn, observe
from context_assembler.session_start.inject import find_project
from context_assembler.session_start.layers import (
    LAYERS,
    SessionStart,
    StartContext,
)
from context_assembler.session_start.rendered import keep_rendered

__all__ = [
    "LAYERS",
    "Indexed",
    "Observed",
    "SessionStart",
    "StartContext",
    "find_project",
    "index_code",
    "keep_rendered",
    "learn",
    "observe",
]
