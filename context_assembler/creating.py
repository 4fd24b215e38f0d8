"""`create_context_assembler`: the facade from parts by name."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from context_assembler.assembler import ContextAssembler
from context_assembler.limits import ModelRegistry
from context_assembler.ports import SessionStore
from context_assembler.recollection import MemoryArgument
from context_assembler.values.prompt import PromptSection

if TYPE_CHECKING:
    from context_assembler.config import AssemblerConfig
    from context_assembler.stages.load_bootstrap import BootstrapLoader


class AssemblerParts(TypedDict, total=False):
    """What a `ContextAssembler` is made of."""

    sessions: str | Path | SessionStore
    bootstrap: "str | Path | BootstrapLoader | None"
    tools: Any
    skills: Any
    memory: MemoryArgument
    config: "AssemblerConfig | None"
    prompt_sections: Iterable[PromptSection]
    registry: ModelRegistry | None
    clients: Mapping[str, Any] | Iterable[Any] | None
    now: Callable[[], datetime] | None


def create_context_assembler(**dependencies: Unpack[AssemblerParts]) -> ContextAssembler:
    """Return a `ContextAssembler`; the arguments are the same."""
    return ContextAssembler(**dependencies)
