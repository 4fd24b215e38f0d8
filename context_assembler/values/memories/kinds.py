"""The kinds of memory, and what each is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeGuard

from context_assembler.errors import InvalidContextTypeError
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
    Metadata,
    ObservationMetadata,
    PatternMetadata,
    RelationMetadata,
    SessionMetadata,
    ValueMetadata,
)

MemoryKind: TypeAlias = Literal[
    "memories",
    "code",
    "experiences",
    "values",
    "commits",
    "events",
    "chunks",
    "entities",
    "relations",
    "patterns",
    "sessions",
    "changed_functions",
    "learnings",
    "observations",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSpec:
    """What holds for all records of one kind.

    Attributes:
        metadata: The type of their metadata.
        follows: What they stand in a row in, so that a record has neighbours: those of its
            session, or those of its parent.
        is_turn_like: Whether a record is only understood with its neighbours, is found by their
            words too, and may say the same as another.
        identity: The fields of the metadata in which two records of one text must agree to be
            duplicates.
    """

    metadata: type[Metadata]
    follows: Literal["session", "parent"] = "session"
    is_turn_like: bool = False
    identity: tuple[str, ...] = ()


KINDS: Final[Mapping[MemoryKind, KindSpec]] = {
    "memories": KindSpec(metadata=FactMetadata),
    "code": KindSpec(metadata=CodeMetadata, follows="parent", identity=("path", "symbol")),
    "experiences": KindSpec(metadata=ExperienceMetadata),
    "values": KindSpec(metadata=ValueMetadata),
    "commits": KindSpec(metadata=CommitMetadata, identity=("sha",)),
    "events": KindSpec(metadata=EventMetadata, is_turn_like=True),
    "chunks": KindSpec(metadata=ChunkMetadata, follows="parent", is_turn_like=True),
    "entities": KindSpec(metadata=EntityMetadata, identity=("name", "entity_type")),
    "relations": KindSpec(
        metadata=RelationMetadata, identity=("source_id", "target_id", "relation")
    ),
    "patterns": KindSpec(metadata=PatternMetadata),
    "sessions": KindSpec(metadata=SessionMetadata, identity=("title", "started_at")),
    "changed_functions": KindSpec(metadata=ChangedFunctionMetadata, identity=("path", "name")),
    "learnings": KindSpec(metadata=LearningMetadata),
    "observations": KindSpec(metadata=ObservationMetadata),
}
"""One row for each kind; how each is shown is the business of recall."""


def check_kind(kind: object) -> MemoryKind:
    """Return the kind.

    Raises:
        InvalidContextTypeError: There is none of that name.
    """
    if is_kind(kind):
        return kind
    raise InvalidContextTypeError(kind, known=KINDS)


def is_kind(kind: object) -> TypeGuard[MemoryKind]:
    """Whether there is a kind of that name."""
    return isinstance(kind, str) and kind in KINDS
