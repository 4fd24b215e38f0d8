"""The sockets: what the assembler needs from the outside, and what each family offers."""

from typing import TYPE_CHECKING

from context_assembler.on_demand import names_on_demand

if TYPE_CHECKING:
    from context_assembler.ports.clock import Clock
    from context_assembler.ports.embeddings import Embed, EmbedPurpose
    from context_assembler.ports.memory import MemorySource, MemoryStore, OpenedMemoryStore
    from context_assembler.ports.offers import is_offered
    from context_assembler.ports.providers import (
        CheckPayload,
        Provider,
        no_change_forms,
        no_tool_search,
    )
    from context_assembler.ports.sessions import (
        BatchStore,
        BeginningStore,
        CalibrationStore,
        CountStore,
        MarkedStore,
        SessionStore,
    )
    from context_assembler.ports.skills import SkillProvider
    from context_assembler.ports.tokens import TokenCounter
    from context_assembler.ports.tools import ToolSource
    from context_assembler.ports.transcripts import ReadTranscript, Transcript, TranscriptIssue
    from context_assembler.ports.truncation import Truncate, Truncation
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "clock": "Clock",
            "embeddings": "Embed EmbedPurpose",
            "memory": "MemorySource MemoryStore OpenedMemoryStore",
            "offers": "is_offered",
            "providers": "CheckPayload Provider no_change_forms no_tool_search",
            "sessions": "BatchStore BeginningStore CalibrationStore CountStore MarkedStore SessionStore",
            "skills": "SkillProvider",
            "tokens": "TokenCounter",
            "tools": "ToolSource",
            "transcripts": "ReadTranscript Transcript TranscriptIssue",
            "truncation": "Truncate Truncation",
        },
    )

__all__ = [
    "BatchStore",
    "BeginningStore",
    "CalibrationStore",
    "CheckPayload",
    "Clock",
    "CountStore",
    "Embed",
    "EmbedPurpose",
    "MarkedStore",
    "MemorySource",
    "MemoryStore",
    "OpenedMemoryStore",
    "Provider",
    "ReadTranscript",
    "SessionStore",
    "SkillProvider",
    "TokenCounter",
    "ToolSource",
    "Transcript",
    "TranscriptIssue",
    "Truncate",
    "Truncation",
    "is_offered",
    "no_change_forms",
    "no_tool_search",
]
