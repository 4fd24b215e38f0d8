"""What was kept, cut and repaired, and why: computed when somebody reads it."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

PieceKind: TypeAlias = Literal["file", "section", "skill", "tool", "memory", "message", "note"]
Decision: TypeAlias = Literal["kept", "shortened", "cleared", "dropped", "blocked", "repaired"]


class ReportEntry(NamedTuple):
    """What became of one piece.

    `id` names the piece within its kind (a path, a section's or tool's name, an event id); `rule`
    is a short stable word for the rule applied, `reason` the sentence for people.
    """

    kind: PieceKind
    id: str
    decision: Decision
    tokens_before: int = 0
    tokens_after: int = 0
    reason: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A provider's rule that a payload breaks.

    Attributes:
        rule: Short id, as in docs/reference/provider-rules.md (`A1`, `C1` …).
        level: `refused` if the provider answers with an error, `avoid` if it merely harms.
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
