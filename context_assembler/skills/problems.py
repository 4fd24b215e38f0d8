"""A skill that could not be used."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillProblem:
    """Where a skill lies that was left out, and why; `rule` is the report's word for it."""

    path: str
    reason: str
    rule: str = "broken"

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
