"""Turn an agent's session into one valid model request that fits, keeps what matters and grows."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from context_assembler.assembler import ContextAssembler, create_context_assembler
    from context_assembler.cache import AssemblyCache, CacheStats
    from context_assembler.config import AssemblerConfig
    from context_assembler.errors import (
        AssemblyError,
        ConcurrentAppendError,
        ConfigurationError,
        ContentError,
        ContextOverflowError,
        DuplicateEventError,
        EmptySessionError,
        EventFormatError,
        InvalidParameterError,
        InvalidToolError,
        McpServerError,
        MissingExtraError,
        MissingModelError,
        PayloadWarning,
        RegistryError,
        ReplyError,
        StoreError,
        StoreUnavailableError,
        TemplateError,
        ToolConflictError,
        TranscriptError,
        UnknownModelError,
        UnknownOptionError,
        UnknownSessionError,
        UnknownStoreSchemeError,
        UnsafePathError,
        UnsupportedRequestError,
    )
    from context_assembler.limits import (
        ModelRegistry,
        get_model_limits,
        register_model,
        supports_feature,
    )
    from context_assembler.sessions import InMemoryStore, SqliteStore, open_store
    from context_assembler.skills.folder import FolderSkills
    from context_assembler.stages.build_system_prompt import SystemPromptBuilder
    from context_assembler.stages.collect_tools import ToolCollector
    from context_assembler.stages.detect_compaction import CompactionDetector
    from context_assembler.stages.load_bootstrap import BootstrapLoader
    from context_assembler.stages.resolve_defaults import DefaultsResolver
    from context_assembler.stages.transform_messages import MessageTransformer
    from context_assembler.tokens import TokenCounter
    from context_assembler.tools import McpTools, call_mcp_tool, tool
    from context_assembler.transcripts import read_transcript
    from context_assembler.truncation import Truncator
    from context_assembler.values.context import AssembledContext
    from context_assembler.values.events import (
        Provenance,
        Session,
        SessionEvent,
        assistant_event,
        system_event,
        tool_result_event,
        user_event,
    )
    from context_assembler.values.limits import ModelLimits
    from context_assembler.values.messages import Message
    from context_assembler.values.options import AssembleOptions
    from context_assembler.values.parts import (
        Base64Source,
        Document,
        FileIdSource,
        Image,
        Opaque,
        Text,
        Thinking,
        ToolCall,
        ToolResult,
        UrlSource,
    )
    from context_assembler.values.prompt import PromptSection
    from context_assembler.values.report import CompactionCheck, Report, ReportEntry, Violation
    from context_assembler.values.tools import ToolChoice, ToolSpec

# Where each public name lives. Loaded on first use, so that importing the package costs nothing.
_HOMES: Final = {
    "assembler": ("ContextAssembler", "create_context_assembler"),
    "cache": ("AssemblyCache", "CacheStats"),
    "config": ("AssemblerConfig",),
    "errors": (
        "AssemblyError",
        "ConcurrentAppendError",
        "ConfigurationError",
        "ContentError",
        "ContextOverflowError",
        "DuplicateEventError",
        "EmptySessionError",
        "EventFormatError",
        "InvalidParameterError",
        "InvalidToolError",
        "McpServerError",
        "MissingExtraError",
        "MissingModelError",
        "PayloadWarning",
        "RegistryError",
        "ReplyError",
        "StoreError",
        "StoreUnavailableError",
        "TemplateError",
        "ToolConflictError",
        "TranscriptError",
        "UnknownModelError",
        "UnknownOptionError",
        "UnknownSessionError",
        "UnknownStoreSchemeError",
        "UnsafePathError",
        "UnsupportedRequestError",
    ),
    "limits": ("ModelRegistry", "get_model_limits", "register_model", "supports_feature"),
    "sessions": ("InMemoryStore", "SqliteStore", "open_store"),
    "skills.folder": ("FolderSkills",),
    "stages.build_system_prompt": ("SystemPromptBuilder",),
    "stages.collect_tools": ("ToolCollector",),
    "stages.detect_compaction": ("CompactionDetector",),
    "stages.load_bootstrap": ("BootstrapLoader",),
    "stages.resolve_defaults": ("DefaultsResolver",),
    "stages.transform_messages": ("MessageTransformer",),
    "tokens": ("TokenCounter",),
    "tools": ("McpTools", "call_mcp_tool", "tool"),
    "transcripts": ("read_transcript",),
    "truncation": ("Truncator",),
    "values.context": ("AssembledContext",),
    "values.events": (
        "Provenance",
        "Session",
        "SessionEvent",
        "assistant_event",
        "system_event",
        "tool_result_event",
        "user_event",
    ),
    "values.limits": ("ModelLimits",),
    "values.messages": ("Message",),
    "values.options": ("AssembleOptions",),
    "values.parts": (
        "Base64Source",
        "Document",
        "FileIdSource",
        "Image",
        "Opaque",
        "Text",
        "Thinking",
        "ToolCall",
        "ToolResult",
        "UrlSource",
    ),
    "values.prompt": ("PromptSection",),
    "values.report": ("CompactionCheck", "Report", "ReportEntry", "Violation"),
    "values.tools": ("ToolChoice", "ToolSpec"),
}
_HOME_BY_NAME: Final = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "AssembleOptions",
    "AssembledContext",
    "AssemblerConfig",
    "AssemblyCache",
    "AssemblyError",
    "Base64Source",
    "BootstrapLoader",
    "CacheStats",
    "CompactionCheck",
    "CompactionDetector",
    "ConcurrentAppendError",
    "ConfigurationError",
    "ContentError",
    "ContextAssembler",
    "ContextOverflowError",
    "DefaultsResolver",
    "Document",
    "DuplicateEventError",
    "EmptySessionError",
    "EventFormatError",
    "FileIdSource",
    "FolderSkills",
    "Image",
    "InMemoryStore",
    "InvalidParameterError",
    "InvalidToolError",
    "McpServerError",
    "McpTools",
    "Message",
    "MessageTransformer",
    "MissingExtraError",
    "MissingModelError",
    "ModelLimits",
    "ModelRegistry",
    "Opaque",
    "PayloadWarning",
    "PromptSection",
    "Provenance",
    "RegistryError",
    "ReplyError",
    "Report",
    "ReportEntry",
    "Session",
    "SessionEvent",
    "SqliteStore",
    "StoreError",
    "StoreUnavailableError",
    "SystemPromptBuilder",
    "TemplateError",
    "Text",
    "Thinking",
    "TokenCounter",
    "ToolCall",
    "ToolChoice",
    "ToolCollector",
    "ToolConflictError",
    "ToolResult",
    "ToolSpec",
    "TranscriptError",
    "Truncator",
    "UnknownModelError",
    "UnknownOptionError",
    "UnknownSessionError",
    "UnknownStoreSchemeError",
    "UnsafePathError",
    "UnsupportedRequestError",
    "UrlSource",
    "Violation",
    "assistant_event",
    "call_mcp_tool",
    "create_context_assembler",
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


def __getattr__(name: str) -> Any:
    if name not in _HOME_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_BY_NAME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
