"""What flows through recall: signals, answers of sources, candidates, and the finished context."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Final, Literal, Protocol, TypeAlias

from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.memories.records import MemoryHit, MemoryRecord
from context_assembler.values.texts.fences import fence

RECALL_TAG: Final = "recalled-memory"
NOTHING_RELEVANT: Final = "Nothing relevant was found in memory."
NOTHING_IN_PART: Final = "Nothing relevant was found in what of memory answered."
NOTHING_ANSWERED: Final = "Memory could not be searched."
NOTHING_HAD_ROOM: Final = "What was found in memory had no room."

Intent: TypeAlias = Literal["question", "action", "fix", "explain"]
SourceState: TypeAlias = Literal["ok", "empty", "below_floor", "timed_out", "failed", "skipped"]
RecallOutcome: TypeAlias = Literal["kept", "shortened", "left_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DateMention:
    """A date that a query names; what it leaves open is `None`."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def matches(self, moment: datetime) -> bool:
        """Whether the moment lies in what is named."""
        return self._allows(moment.year, moment.month, moment.day)

    def matches_mention(self, other: "DateMention") -> bool:
        """Whether another date, however it is written, names what lies in this one."""
        return self._allows(other.year, other.month, other.day)

    def _allows(self, year: int | None, month: int | None, day: int | None) -> bool:
        pairs = ((self.year, year), (self.month, month), (self.day, day))
        return all(wanted is None or wanted == given for wanted, given in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What a query tells of what it looks for.

    Attributes:
        query: As it was given, cleaned.
        search_text: What sources are asked for: the query and other forms of its words.
        terms: Its different words that say something, lower-cased, in order.
        related: By term, other words that say it too, and how closely, from 0 to 1.
        entities: Names that it mentions, as written, in order.
        event_types: Kinds of events that it points to, such as `error`.
        wants_time: Whether it asks when something was.
    """

    query: str
    search_text: str
    terms: tuple[str, ...] = ()
    related: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict[str, Mapping[str, float]]
    )
    entities: tuple[str, ...] = ()
    intent: Intent = "action"
    event_types: tuple[str, ...] = ()
    dates: tuple[DateMention, ...] = ()
    wants_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A record that stands so many places before (negative) or behind another."""

    record: MemoryRecord
    distance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """What one source said of one kind.

    Attributes:
        source: The kind, with the source's name before it where there are several.
        hits: Best first; in the order of the source where nothing was asked for.
        neighbours: By the id of a hit, what stands around it.
        reason: Why there is no answer, or not all of it.
    """

    source: str
    kind: MemoryKind
    state: SourceState
    hits: tuple[MemoryHit, ...] = ()
    neighbours: Mapping[str, tuple[Neighbour, ...]] = field(
        default_factory=dict[str, tuple[Neighbour, ...]]
    )
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A record that may be shown.

    Attributes:
        score: From 0 to 1, comparable across sources.
        scores: What the score is made of, by name.
        found_in: Every source that had it or a duplicate, the best first.
        reason: How it came in.
        is_beginning: Whether its source keeps more of the text than the record has here.
    """

    record: MemoryRecord
    source: str
    order: int
    score: float
    scores: Mapping[str, float]
    found_in: tuple[str, ...]
    reason: str = "it fits the query"
    is_beginning: bool = False

    @property
    def rank(self) -> tuple[float, float, str, str, int, str]:
        """Sorts the best first, of equals the newest, and never leaves two in doubt."""
        made = self.record.created_at
        age = inf if made is None else -made.timestamp()
        return (-self.score, age, self.record.kind, self.source, self.order, self.record.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledMemory:
    """A record as it is shown.

    Attributes:
        text: Its text, shortened where it was too long.
        tokens: What it takes, without the headers above it.
        is_beginning: Whether its source keeps more of the text than the record has here.
    """

    record: MemoryRecord
    source: str
    score: float
    text: str
    tokens: int
    scores: Mapping[str, float]
    found_in: tuple[str, ...]
    is_truncated: bool = False
    is_beginning: bool = False

    @property
    def kind(self) -> MemoryKind:
        """The record's kind."""
        return self.record.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallExplanation:
    """Why one candidate is in the context, or not."""

    memory_id: str
    kind: MemoryKind
    source: str
    outcome: RecallOutcome
    reason: str
    score: float
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedContext:
    """Recalled memories as Markdown, and what came of every source and candidate.

    Attributes:
        markdown: Never more than the budget, by the counter it was made with.
        items: In the order of their rank, best first.
        source_status: What came of each source that was asked.
        source_notes: The reason where a source gave no answer, or not all of it.
        budget_exceeded: Whether something that fits the query was cut or left out for want of room.
        truncated_items: Ids of the records that are shown shortened.
        explanations: One for every candidate, in the order of their rank; after many updates, for
            the last thousand.
        task_path: Where an agent stands, as the Markdown tells it above what was recalled.
    """

    markdown: str
    items: tuple[RecalledMemory, ...] = ()
    token_count: int = 0
    sources_used: tuple[str, ...] = ()
    source_status: Mapping[str, SourceState] = field(default_factory=dict[str, SourceState])
    source_notes: Mapping[str, str] = field(default_factory=dict[str, str])
    budget_exceeded: bool = False
    truncated_items: tuple[str, ...] = ()
    explanations: tuple[RecallExplanation, ...] = ()
    signals: Signals | None = None
    task_path: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is shown: nothing relevant was found, or nothing had room."""
        return not self.items

    @property
    def fenced(self) -> str:
        """The Markdown between tags that nothing in it can close."""
        return fence(RECALL_TAG, self.markdown)


class WriteItems(Protocol):
    """Writes items as Markdown; where there are none, why: had there been more, or not."""

    def __call__(self, items: Sequence[RecalledMemory], /, *, had_more: bool = False) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How items are written; the functions agree with each other.

    Attributes:
        headers: The lines that stand above an item, the outermost first; shared by items alike.
        entry: The lines of an item, showing that text.
        write: All of the items as Markdown.
    """

    headers: Callable[[MemoryRecord], tuple[str, ...]]
    entry: Callable[[MemoryRecord, str], str]
    write: WriteItems
