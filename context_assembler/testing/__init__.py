"""Doubles for tests of agents: a clock set by hand, exact counts, builders, a local provider."""

from context_assembler.testing.builders import conversation, event_log
from context_assembler.testing.clock import ManualClock
from context_assembler.testing.script import ScriptedError, ScriptedReply
from context_assembler.testing.server import ProviderServer, serve_providers
from context_assembler.testing.session_stores import check_session_store
from context_assembler.testing.stand_in import stand_in_for_providers
from context_assembler.testing.traffic import SeenRequest
from context_assembler.testing.word_counter import WordCounter

__all__ = [
    "ManualClock",
    "ProviderServer",
    "ScriptedError",
    "ScriptedReply",
    "SeenRequest",
    "WordCounter",
    "check_session_store",
    "conversation",
    "event_log",
    "serve_providers",
    "stand_in_for_providers",
]
