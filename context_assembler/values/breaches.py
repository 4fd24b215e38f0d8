"""Violations of rules that are listed in a book."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from context_assembler.values.report import Violation

Level: TypeAlias = Literal["refused", "avoid"]


def level_if(is_refused: bool) -> Level:
    """Return `refused`, or `avoid` where it is not sure that the server refuses."""
    return "refused" if is_refused else "avoid"


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong at one place of a payload, by whichever rule of a provider."""

    where: str
    message: str
    level: Level = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBook:
    """Where each rule of one provider is written; all were read on one day."""

    sources: Mapping[str, str]
    read_on: str

    def breach(self, rule: str, where: str, message: str, *, level: Level = "refused") -> Violation:
        """Return the violation of a rule in the book."""
        source = f"{self.sources[rule]} (read {self.read_on})"
        return Violation(rule=rule, level=level, where=where, message=message, source=source)

    def breaches(self, rule: str, flaws: Iterable[Flaw]) -> Iterator[Violation]:
        """Yield the violation of a rule in the book by each flaw."""
        for flaw in flaws:
            yield self.breach(rule, flaw.where, flaw.message, level=flaw.level)
