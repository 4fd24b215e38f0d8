"""Every error this library raises on purpose.

AssemblyError                     what went wrong, then what to do about it
├── ConfigurationError            a setting that cannot work             (ValueError)
│   ├── UnknownOptionError        an option, or a value from a closed set, that does not exist
│   ├── InvalidParameterError     a value that the model or the option rejects
│   ├── MissingModelError         no layer names a model
│   ├── UnknownStoreSchemeError   a store URL of an unknown kind
│   ├── RegistryError             a row of model_limits.yaml that breaks its schema
│   ├── InvalidContextTypeError   a kind of memory that does not exist
│   ├── ToolConflictError         two tools claim one name
│   ├── InvalidToolError          a tool that no model could be told of
│   └── UnsupportedRequestError   a provider's API cannot express this request
├── MissingExtraError             an optional package is not installed   (ImportError)
├── McpServerError                an MCP server that does not answer     (ConnectionError)
├── RemoteCountError              a provider's endpoint did not count    (OSError)
├── EmbeddingError                an embedding model that cannot be used (OSError)
├── UnknownSessionError           no such session                        (LookupError)
├── UnknownModelError             no row in model_limits.yaml            (LookupError)
├── UnknownMemoryError            no such memory                         (LookupError)
├── EmptySessionError             nothing to send                        (ValueError)
├── ContextOverflowError          what may not be dropped does not fit   (ValueError)
├── UnsafePathError               a name or path that leaves its folder  (ValueError)
├── TemplateError                 a bootstrap template that does not render (ValueError)
├── NotJsonError                  a number that no payload can carry     (ValueError)
├── ContentError                  content that is neither text nor parts (TypeError)
├── ReplyError                    a model reply that cannot be read      (ValueError)
├── TranscriptError               a transcript that cannot be read       (ValueError)
└── StoreError                    a store of sessions or memories refused
    ├── ConcurrentAppendError     somebody else appended first
    ├── DuplicateEventError       an event id that the session has already (ValueError)
    ├── StoreUnavailableError     not a database, locked, read-only …    (OSError)
    ├── EventFormatError          an event that cannot be stored, or decoded (ValueError)
    ├── MemoryUnavailableError    not a database, locked, read-only …    (OSError)
    ├── MemoryFormatError         a memory that cannot be stored, or decoded (ValueError)
    └── VectorModelError          vectors of two models                  (ValueError)

PayloadWarning                    a payload that its provider will refuse (UserWarning)
DamagedMemoryWarning              a memory that a search left out        (UserWarning)
"""

from context_assembler.errors.base import AssemblyError, ConfigurationError, is_misspelt, nearest
from context_assembler.errors.content import (
    ContentError,
    ContextOverflowError,
    EmptySessionError,
    NotJsonError,
    PayloadWarning,
    ReplyError,
    TemplateError,
    TranscriptError,
    UnsafePathError,
)
from context_assembler.errors.counting import RemoteCountError
from context_assembler.errors.embeddings import EmbeddingError
from context_assembler.errors.memories import (
    DamagedMemoryWarning,
    InvalidContextTypeError,
    MemoryFormatError,
    MemoryUnavailableError,
    UnknownMemoryError,
    VectorModelError,
)
from context_assembler.errors.servers import McpServerError
from context_assembler.errors.settings import (
    InvalidParameterError,
    InvalidToolError,
    MissingExtraError,
    MissingModelError,
    RegistryError,
    ToolConflictError,
    UnknownModelError,
    UnknownOptionError,
    UnknownStoreSchemeError,
    UnsupportedRequestError,
)
from context_assembler.errors.stores import (
    ConcurrentAppendError,
    DuplicateEventError,
    EventFormatError,
    StoreError,
    StoreUnavailableError,
    UnknownSessionError,
)

__all__ = [
    "AssemblyError",
    "ConcurrentAppendError",
    "ConfigurationError",
    "ContentError",
    "ContextOverflowError",
    "DamagedMemoryWarning",
    "DuplicateEventError",
    "EmbeddingError",
    "EmptySessionError",
    "EventFormatError",
    "InvalidContextTypeError",
    "InvalidParameterError",
    "InvalidToolError",
    "McpServerError",
    "MemoryFormatError",
    "MemoryUnavailableError",
    "MissingExtraError",
    "MissingModelError",
    "NotJsonError",
    "PayloadWarning",
    "RegistryError",
    "RemoteCountError",
    "ReplyError",
    "StoreError",
    "StoreUnavailableError",
    "TemplateError",
    "ToolConflictError",
    "TranscriptError",
    "UnknownMemoryError",
    "UnknownModelError",
    "UnknownOptionError",
    "UnknownSessionError",
    "UnknownStoreSchemeError",
    "UnsafePathError",
    "UnsupportedRequestError",
    "VectorModelError",
    "is_misspelt",
    "nearest",
]
