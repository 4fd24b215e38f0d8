from context_assembler.assembler import ContextAssembler, create_context_assembler
from context_assembler.cache import AssemblyCache
from context_assembler.compaction import CompactionCheck, CompactionDetector
from context_assembler.context import AssembledContext
from context_assembler.errors import (
    AssemblyError,
    ConcurrentAppendError,
    ConfigurationError,
    ContextOverflowError,
    UnknownModelError,
    UnknownSessionError,
)
from context_assembler.events import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Opaque,
    Session,
    SessionEvent,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
    assistant_event,
    system_event,
    tool_result_event,
    user_event,
)
from context_assembler.fit import FittedMessages, fit_messages
from context_assembler.forecast import CutPolicy
from context_assembler.history import MessageTransformer
from context_assembler.memory import MemoryAssembler
from context_assembler.models import (
    ModelLimits,
    ModelRegistry,
    get_model_limits,
    register_model,
    supports_feature,
)
from context_assembler.options import AssembleOptions, AssemblerConfig, DefaultsResolver
from context_assembler.ports import PromptSection, Skill, ToolChoice, ToolSpec
from context_assembler.prompt import BootstrapLoader, FolderSkills, SystemPromptBuilder
from context_assembler.report import Report, ReportEntry
from context_assembler.sessions import InMemoryStore, SqliteStore, open_store
from context_assembler.tokens import TokenCounter
from context_assembler.tools import McpTools, ToolCollector, tool
from context_assembler.transcripts import read_transcript
from context_assembler.truncation import Truncator

__version__: str
__all__ = [
    "AssembleOptions",
    "AssembledContext",
    "AssemblerConfig",
    "AssemblyCache",
    "AssemblyError",
    "Base64Source",
    "BootstrapLoader",
    "CompactionCheck",
    "CompactionDetector",
    "ConcurrentAppendError",
    "ConfigurationError",
    "ContextAssembler",
    "ContextOverflowError",
    "CutPolicy",
    "DefaultsResolver",
    "Document",
    "FileIdSource",
    "FittedMessages",
    "FolderSkills",
    "Image",
    "InMemoryStore",
    "McpTools",
    "MemoryAssembler",
    "MessageTransformer",
    "ModelLimits",
    "ModelRegistry",
    "Opaque",
    "PromptSection",
    "Report",
    "ReportEntry",
    "Session",
    "SessionEvent",
    "Skill",
    "SqliteStore",
    "SystemPromptBuilder",
    "Text",
    "Thinking",
    "TokenCounter",
    "ToolCall",
    "ToolChoice",
    "ToolCollector",
    "ToolResult",
    "ToolSpec",
    "Truncator",
    "UnknownModelError",
    "UnknownSessionError",
    "UrlSource",
    "assistant_event",
    "create_context_assembler",
    "fit_messages",
    "get_model_limits",
    "open_store",
    "read_transcript",
    "register_model",
    "supports_feature",
    "system_event",
    "tool",
    "tool_result_event",
    "user_event",
]
