from context_assembler.testing.fakes import ManualClock, WordCounter, check_session_store, event_log
from context_assembler.testing.server import (
    ProviderServer,
    SeenRequest,
    serve_providers,
    stand_in_for_providers,
)
from context_assembler.testing.wires import ScriptedError, ScriptedReply

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
