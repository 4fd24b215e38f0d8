"""Doubles for tests of agents: a clock set by hand, exact counts, builders, a local provider."""

from context_assembler.testing.fakes import ManualClock, WordCounter, check_session_store, event_log
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
    "serve_providers",
    "stand_in_for_providers",
]
