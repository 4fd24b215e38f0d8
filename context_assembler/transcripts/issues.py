"""What a reader could not map, collected while it reads."""

from collections.abc import Iterable
from dataclasses import dataclass

from context_assembler.ports import TranscriptIssue


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A place in a transcript: the line of the file, where it has lines, and the path in the JSON."""

    line: int | None = None
    path: str = ""

    def key(self, name: str) -> "Spot":
        """Return the place of a field of the object here."""
        return Spot(line=self.line, path=f"{self.path}.{name}" if self.path else name)

    def index(self, number: int) -> "Spot":
        """Return the place of an element of the list here."""
        return Spot(line=self.line, path=f"{self.path}[{number}]")


@dataclass(slots=True)
class _Entry:
    line: int | None
    what: str
    reason: str
    count: int | None


class IssueLog:
    """Issues in order of first appearance; those of one kind are counted, not repeated."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._counted: dict[tuple[str, str], _Entry] = {}

    def note(self, spot: Spot, reason: str) -> None:
        """Report one place."""
        what = spot.path or "the transcript"
        self._entries.append(_Entry(spot.line, what, reason, None))

    def count(self, spot: Spot, what: str, reason: str) -> None:
        """Report one more of a kind; the issue names the line of the first and how many there are."""
        entry = self._counted.get((what, reason))
        if entry is None:
            entry = self._counted[what, reason] = _Entry(spot.line, what, reason, 0)
            self._entries.append(entry)
        entry.count = (entry.count or 0) + 1

    def count_unplaced(
        self, spot: Spot, fields: Iterable[str], *, kind: str, set_anew: str = ""
    ) -> None:
        """Report fields that a session does not keep, each by its name.

        Args:
            kind: What has them, for people.
            set_anew: The one that marks what is cached: a request gets its own.
        """
        for field in fields:
            if field == set_anew:
                self.count(spot, field, "is set anew when a request is rendered")
            else:
                self.count(spot, f"{kind}.{field}", "has no place in a session")

    def include(self, other: "IssueLog") -> None:
        """Take over what another log holds."""
        self._entries.extend(other._entries)  # noqa: SLF001 – of its own class
        self._counted |= other._counted  # noqa: SLF001 – of its own class

    def found(self) -> tuple[TranscriptIssue, ...]:
        """Return what was reported so far."""
        return tuple(
            TranscriptIssue(
                line=entry.line,
                what=entry.what if entry.count is None else f"{entry.what} ({entry.count}×)",
                reason=entry.reason,
            )
            for entry in self._entries
        )
