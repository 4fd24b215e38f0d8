"""Which tools may be offered at all, by settings and by the options of a call."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from context_assembler.values.options import AssembleOptions
from context_assembler.values.report import Decision
from context_assembler.values.tools import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSieve:
    """Decides which tools may be offered.

    Attributes:
        options: Of these `permissions`, `sandbox_mode` and `disabled_tools` count.
        include: Globs over names; only matching tools are considered. Empty means all.
        exclude: Globs over names; matching tools are left out.
    """

    options: AssembleOptions = field(default_factory=AssembleOptions)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def is_like(self, other: "ToolSieve") -> bool:
        """Whether the other one decides the same for every tool."""
        mine, theirs = self.options, other.options
        return (
            mine.permissions == theirs.permissions
            and mine.sandbox_mode == theirs.sandbox_mode
            and mine.disabled_tools == theirs.disabled_tools
            and (self.include, self.exclude) == (other.include, other.exclude)
        )

    @property
    def disabled(self) -> tuple[str, ...]:
        """The names that the call does not want."""
        return self.options.disabled_tools or ()

    def objection(self, spec: ToolSpec) -> tuple[Decision, str, str] | None:
        """Return decision, rule and reason if the tool may not be offered."""
        options = self.options
        if self.include and not _matches(spec.name, self.include):
            return "dropped", "excluded", "its name matches no included pattern"
        if _matches(spec.name, self.exclude):
            return "dropped", "excluded", "its name matches an excluded pattern"
        if spec.name in self.disabled:
            return "dropped", "disabled", "disabled_tools names it"
        permission = spec.permission or spec.name
        if options.permissions is not None and not _matches(permission, options.permissions):
            return "blocked", "permission", f"no permission pattern allows {permission!r}"
        if options.sandbox_mode and spec.is_safe is not True:
            return "blocked", "sandbox", "it is not marked safe, and sandbox mode is on"
        return None


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
