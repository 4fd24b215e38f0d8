"""What is known of a memory beside its text, one value for each kind."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class FactMetadata:
    """What is known of something worth remembering."""

    category: str | None = None
    source: str | None = None
    confidence: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeMetadata:
    """Where code stands; lines count from 1, both ends included."""

    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    symbol: str | None = None
    language: str | None = None
    repository: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceMetadata:
    """What was tried, what was expected, and what came of it.

    Attributes:
        surprise: How far the outcome was from the prediction, from 0 to 1.
        succeeded: `None` where nobody said.
    """

    goal: str | None = None
    hypothesis: str | None = None
    action: str | None = None
    prediction: str | None = None
    outcome: str | None = None
    surprise: float | None = None
    lesson: str | None = None
    root_cause: str | None = None
    domain: str | None = None
    strategy: str | None = None
    axis: str | None = None
    succeeded: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueMetadata:
    """What speaks for a principle."""

    name: str | None = None
    domain: str | None = None
    axis: str | None = None
    reason: str | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """A commit beside its message."""

    sha: str | None = None
    branch: str | None = None
    repository: str | None = None
    paths: tuple[str, ...] = ()
    insertions: int | None = None
    deletions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMetadata:
    """What happened, as a session's event tells it."""

    event_type: str | None = None
    event_id: str | None = None
    tool_name: str | None = None
    is_error: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkMetadata:
    """Which piece of which document; `parent_id` of the record is the document."""

    source: str | None = None
    heading: str | None = None
    position: int | None = None
    start_line: int | None = None
    end_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityMetadata:
    """A person, place, project or thing."""

    name: str | None = None
    entity_type: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationMetadata:
    """What connects two entities; `source_id` and `target_id` are ids of records."""

    source_id: str | None = None
    target_id: str | None = None
    relation: str | None = None
    weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternMetadata:
    """Something that came up again and again."""

    name: str | None = None
    domain: str | None = None
    occurrences: int | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMetadata:
    """The session that a summary tells of."""

    title: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str | None = None
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFunctionMetadata:
    """A function that was changed."""

    name: str | None = None
    path: str | None = None
    change: Literal["added", "modified", "deleted"] | None = None
    start_line: int | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningMetadata:
    """How far a learning can be relied on, from 0 to 1, and where it holds."""

    confidence: float | None = None
    domain: str | None = None
    source: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationMetadata:
    """What an observation was made of; `parent_id` of the record is what it was read from."""

    observation_type: str | None = None
    tool_name: str | None = None
    confidence: float | None = None
    paths: tuple[str, ...] = ()


Metadata: TypeAlias = (
    FactMetadata
    | CodeMetadata
    | ExperienceMetadata
    | ValueMetadata
    | CommitMetadata
    | EventMetadata
    | ChunkMetadata
    | EntityMetadata
    | RelationMetadata
    | PatternMetadata
    | SessionMetadata
    | ChangedFunctionMetadata
    | LearningMetadata
    | ObservationMetadata
)
