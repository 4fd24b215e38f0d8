"""What was kept, cut, repaired, and why."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from context_assembler.values.forecasts import CacheForecast, Outlook
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


OFFERED: Final[frozenset[Decision]] = frozenset({"kept", "shortened", "repaired"})
"""The decisions on a section or tool that the model has in the end."""


def find_bearers(entries: Iterable[ReportEntry]) -> dict[tuple[PieceKind, str], int]:
    """Return for each piece which of its entries tells what it is in the end, by index.

    Two sources may offer tools of one name: then one of them is offered, and the others are not.
    """
    bearers: dict[tuple[PieceKind, str], int] = {}
    offered: set[tuple[PieceKind, str]] = set()
    for at, entry in enumerate(entries):
        piece = entry.kind, entry.id
        if entry.decision in OFFERED and piece not in offered:
            offered.add(piece)
            bearers[piece] = at
        bearers.setdefault(piece, at)
    return bearers


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedParameter:
    """A setting's value and the layer it came from."""

    name: str
    value: Json
    layer: Layer


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that was considered for one payload, in order of appearance.

    `outlook` knows what the prompt cache will have of it: its `forecast` is worked out when asked for.
    """

    entries: Sequence[ReportEntry] = ()
    ledger: Ledger
    parameters: tuple[ResolvedParameter, ...] = ()
    warnings: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    outlook: Outlook | None = field(default=None, repr=False, compare=False)

    @property
    def forecast(self) -> CacheForecast | None:
        """What the provider will read from its cache, write to it, and charge; `None`: not known.

        It takes as long as rendering, each time.
        """
        return None if self.outlook is None else self.outlook.forecast()

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
