"""Turn an agent's session into one valid model request that fits, keeps what matters and grows."""

from typing import TYPE_CHECKING, Final

from context_assembler.on_demand import names_on_demand

if TYPE_CHECKING:
    from context_assembler.assembler import ContextAssembler
    from context_assembler.cache import AssemblyCache, CacheStats
    from context_assembler.config import AssemblerConfig
    from context_assembler.creating import create_context_assembler
    from context_assembler.errors import (
        AssemblyError,
        ConcurrentAppendError,
        ConfigurationError,
        ContentError,
        ContextOverflowError,
        DuplicateEventError,
        EmptySessionError,
        EventFormatError,
        InvalidContextTypeError,
        InvalidParameterError,
        InvalidToolError,
        McpServerError,
        MissingExtraError,
        MissingModelError,
        NotJsonError,
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
    from context_assembler.memory import SqliteMemoryStore, open_memory
    from context_assembler.memory_assembler import MemoryAssembler
    from context_assembler.memory_assembler.evaluation import evaluate_recall, read_questions
    from context_assembler.memory_assembler.stack_files import load_stack, save_stack
    from context_assembler.recall.premortem import PremortemContext
    from context_assembler.sessions import InMemoryStore, SqliteStore, open_store
    from context_assembler.simulation.charts import draw_costs
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
    from context_assembler.values.forecasts import CacheForecast
    from context_assembler.values.given_options import GivenOptions
    from context_assembler.values.limits import ModelLimits
    from context_assembler.values.memories.metadata import (
        ChangedFunctionMetadata,
        ChunkMetadata,
        CodeMetadata,
        CommitMetadata,
        EntityMetadata,
        EventMetadata,
        ExperienceMetadata,
        FactMetadata,
        LearningMetadata,
        ObservationMetadata,
        PatternMetadata,
        RelationMetadata,
        SessionMetadata,
        ValueMetadata,
    )
    from context_assembler.values.memories.records import MemoryFilters, MemoryRecord
    from context_assembler.values.messages import Message
    from context_assembler.values.options import AssembleOptions
    from context_assembler.values.own_summaries import compaction_event
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
    from context_assembler.values.recall import FormattedContext
    from context_assembler.values.recall_settings import RecallSettings
    from context_assembler.values.report import CompactionCheck, Report, ReportEntry, Violation
    from context_assembler.values.simulations import CutPolicy, Simulation
    from context_assembler.values.task_stack import TaskStack
    from context_assembler.values.tools import ToolChoice, ToolSpec

# Where each public name lives. Loaded on first use, so that importing the package costs nothing.
_HOMES: Final = {
    "assembler": "ContextAssembler",
    "cache": "AssemblyCache CacheStats",
    "config": "AssemblerConfig",
    "creating": "create_context_assembler",
    "errors": (
        "AssemblyError ConcurrentAppendError ConfigurationError ContentError ContextOverflowError "
        "DuplicateEventError EmptySessionError EventFormatError InvalidContextTypeError "
        "InvalidParameterError InvalidToolError McpServerError MissingExtraError MissingModelError "
        "NotJsonError PayloadWarning RegistryError ReplyError StoreError StoreUnavailableError "
        "TemplateError ToolConflictError TranscriptError UnknownModelError UnknownOptionError "
        "UnknownSessionError UnknownStoreSchemeError UnsafePathError UnsupportedRequestError"
    ),
    "limits": "ModelRegistry get_model_limits register_model supports_feature",
    "memory": "SqliteMemoryStore open_memory",
    "memory_assembler": "MemoryAssembler",
    "memory_assembler.evaluation": "evaluate_recall read_questions",
    "memory_assembler.stack_files": "load_stack save_stack",
    "recall.premortem": "PremortemContext",
    "sessions": "InMemoryStore SqliteStore open_store",
    "simulation.charts": "draw_costs",
    "skills.folder": "FolderSkills",
    "stages.build_system_prompt": "SystemPromptBuilder",
    "stages.collect_tools": "ToolCollector",
    "stages.detect_compaction": "CompactionDetector",
    "stages.load_bootstrap": "BootstrapLoader",
    "stages.resolve_defaults": "DefaultsResolver",
    "stages.transform_messages": "MessageTransformer",
    "tokens": "TokenCounter",
    "tools": "McpTools call_mcp_tool tool",
    "transcripts": "read_transcript",
    "truncation": "Truncator",
    "values.context": "AssembledContext",
    "values.events": "Provenance Session SessionEvent assistant_event system_event tool_result_event user_event",
    "values.forecasts": "CacheForecast",
    "values.given_options": "GivenOptions",
    "values.limits": "ModelLimits",
    "values.memories.metadata": (
        "ChangedFunctionMetadata ChunkMetadata CodeMetadata CommitMetadata EntityMetadata "
        "EventMetadata ExperienceMetadata FactMetadata LearningMetadata ObservationMetadata "
        "PatternMetadata RelationMetadata SessionMetadata ValueMetadata"
    ),
    "values.memories.records": "MemoryFilters MemoryRecord",
    "values.messages": "Message",
    "values.options": "AssembleOptions",
    "values.own_summaries": "compaction_event",
    "values.parts": "Base64Source Document FileIdSource Image Opaque Text Thinking ToolCall ToolResult UrlSource",
    "values.prompt": "PromptSection",
    "values.recall": "FormattedContext",
    "values.recall_settings": "RecallSettings",
    "values.report": "CompactionCheck Report ReportEntry Violation",
    "values.simulations": "CutPolicy Simulation",
    "values.task_stack": "TaskStack",
    "values.tools": "ToolChoice ToolSpec",
}

__version__ = "0.1.0"
__all__ = [
    "AssembleOptions",
    "AssembledContext",
    "AssemblerConfig",
    "AssemblyCache",
    "AssemblyError",
    "Base64Source",
    "BootstrapLoader",
    "CacheForecast",
    "CacheStats",
    "ChangedFunctionMetadata",
    "ChunkMetadata",
    "CodeMetadata",
    "CommitMetadata",
    "CompactionCheck",
    "CompactionDetector",
    "ConcurrentAppendError",
    "ConfigurationError",
    "ContentError",
    "ContextAssembler",
    "ContextOverflowError",
    "CutPolicy",
    "DefaultsResolver",
    "Document",
    "DuplicateEventError",
    "EmptySessionError",
    "EntityMetadata",
    "EventFormatError",
    "EventMetadata",
    "ExperienceMetadata",
    "FactMetadata",
    "FileIdSource",
    "FolderSkills",
    "FormattedContext",
    "GivenOptions",
    "Image",
    "InMemoryStore",
    "InvalidContextTypeError",
    "InvalidParameterError",
    "InvalidToolError",
    "LearningMetadata",
    "McpServerError",
    "McpTools",
    "MemoryAssembler",
    "MemoryFilters",
    "MemoryRecord",
    "Message",
    "MessageTransformer",
    "MissingExtraError",
    "MissingModelError",
    "ModelLimits",
    "ModelRegistry",
    "NotJsonError",
    "ObservationMetadata",
    "Opaque",
    "PatternMetadata",
    "PayloadWarning",
    "PremortemContext",
    "PromptSection",
    "Provenance",
    "RecallSettings",
    "RegistryError",
    "RelationMetadata",
    "ReplyError",
    "Report",
    "ReportEntry",
    "Session",
    "SessionEvent",
    "SessionMetadata",
    "Simulation",
    "SqliteMemoryStore",
    "SqliteStore",
    "StoreError",
    "StoreUnavailableError",
    "SystemPromptBuilder",
    "TaskStack",
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
    "ValueMetadata",
    "Violation",
    "assistant_event",
    "call_mcp_tool",
    "compaction_event",
    "create_context_assembler",
    "draw_costs",
    "evaluate_recall",
    "get_model_limits",
    "load_stack",
    "open_memory",
    "open_store",
    "read_questions",
    "read_transcript",
    "register_model",
    "save_stack",
    "supports_feature",
    "system_event",
    "tool",
    "tool_result_event",
    "user_event",
]

__getattr__ = names_on_demand(__name__, _HOMES)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
