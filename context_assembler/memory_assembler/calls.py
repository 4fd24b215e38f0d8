"""What the calls of a `MemoryAssembler` take by name, for those that pass it on."""

from collections.abc import Sequence
from typing import TypedDict

from context_assembler.ports import TokenCounter
from context_assembler.recall.compress import Condense
from context_assembler.values.memories.records import MemoryFilters
from context_assembler.values.recall_settings import RecallSettings


class Premortem(TypedDict, total=False):
    """Of `get_premortem_context`."""

    max_tokens: int
    filters: MemoryFilters


class Update(TypedDict, total=False):
    """Of `update_context`."""

    limit: int
    max_tokens: int


class Stack(TypedDict, total=False):
    """Of `assemble_stack`."""

    context_types: Sequence[str] | str | None
    limit: int
    max_tokens: int
    filters: MemoryFilters


class Recall(Stack, total=False):
    """Of `assemble_context`."""

    settings: RecallSettings | None
    counter: TokenCounter | None


class _Size(TypedDict):
    target_tokens: int


class Compress(_Size, total=False):
    """Of `compress`, which has to be told how small."""

    summarizer: Condense | None
