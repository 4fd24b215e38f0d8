"""Doubles for tests of agents: a clock set by hand, exact counts, builders, a local provider."""

from context_assembler.testing.builders import ManualClock, WordCounter, event_log
from context_assembler.testing.checks import check_session_store, find_type_errors
from context_assembler.testing.server import (
    ProviderServer,
    ScriptedError,
    SeenRequest,
    serve_providers,
    stand_in_for_providers,
)
from context_assembler.testing.wires import ScriptedReply

__all__ = [
    "ManualClock",
    "ProviderServer",
    "ScriptedError",
    "ScriptedReply",
    "SeenRequest",
    "WordCounter",
    "check_session_store",
    "event_log",
    "find_type_errors",
    "serve_providers",
    "stand_in_for_providers",
]
