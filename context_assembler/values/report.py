"""What was kept, cut, repaired, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from context_assembler.values.ledger import Ledger
from context_assembler.values.options import Layer
from context_assembler.values.parts import Json

PieceKind: TypeAlias = Literal["file", "section", "skill", "tool", "memory", "message", "note"]
Decision: TypeAlias = Literal["kept", "shortened", "cleared", "dropped", "blocked", "repaired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportEntry:
    """What became of one piece.

    `id` names the piece within its kind (a path, a section's or tool's name, an event id); `rule` is
    a short stable word for the rule applied, `reason` the sentence for people.
    """

    kind: PieceKind
    id: str
    decision: Decision
    tokens_before: int = 0
    tokens_after: int = 0
    reason: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedParameter:
    """A setting's value and the layer it came from."""

    name: str
    value: Json
    layer: Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that was considered for one payload, in order of appearance."""

    entries: tuple[ReportEntry, ...] = ()
    ledger: Ledger
    parameters: tuple[ResolvedParameter, ...] = ()
    warnings: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def changed(self) -> bool:
        """Whether anything of the history was changed or left out."""
        return any(e.kind == "message" and e.decision != "kept" for e in self.entries)

    def of(self, *decisions: Decision) -> tuple[ReportEntry, ...]:
        """Return the entries with one of these decisions."""
        return tuple(entry for entry in self.entries if entry.decision in decisions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A provider's rule that a payload breaks.

    Attributes:
        rule: Short id, as in docs (`A1`, `C1` …).
        level: `refused` when the provider answers with an error, `avoid` when it merely harms.
        where: Path into the payload, such as `messages[3].content[0]`.
        source: Where the rule is written.
    """

    rule: str
    level: Literal["refused", "avoid"]
    where: str
    message: str
    source: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.where}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionCheck:
    """Whether a session should be compacted.

    `reason` is `token_limit`, `price_step`, `message_count`, `tool_count` or `explicit`, `None` when
    not needed. `feasible` is false when the fixed part alone is over the threshold: `floor_tokens`
    is what no compaction can free, and `details` names who uses it.
    """

    needed: bool
    reason: str | None
    current_tokens: int
    threshold: int
    feasible: bool
    floor_tokens: int
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])
