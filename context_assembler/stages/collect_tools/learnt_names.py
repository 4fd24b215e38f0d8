"""Whose the names are that a model has learnt: a name means one tool, whoever comes and goes.

Within an epoch a tool keeps the name that it was first offered by, and the name of a tool that went is
given to no other one. What the epoch knows says whose a name is, so that neither the order of the
sources nor another process changes anything. What an application offers itself is one owner's: a tool
of its functions that goes may come back as a literal spec, or as an executor's.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from context_assembler.stages.collect_tools.tool_memo import ToolOffer, told_text
from context_assembler.values.tools import ToolSpec

OWN_KINDS: Final = frozenset({"functions", "executor", "listed"})
"""The kinds of sources that are the application itself; a source without a name is called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A tool that may be offered, the name of its source, and whether the application is that."""

    offer: ToolOffer
    source: str
    is_own: bool = False

    @property
    def name(self) -> str:
        """What its source calls it."""
        return self.offer.spec.name


class LearntNames:
    """The names that a model knows tools by.

    Args:
        tools: What it was told of in this epoch, each as it was told last; those that went as well.
        stays: Whether a tool is its source's for good, or may move within the application.
    """

    def __init__(
        self,
        tools: Iterable[ToolSpec] = (),
        *,
        stays: Callable[[ToolSpec], bool] = lambda _: True,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._told = {name: told_text(tool) for name, tool in self._tools.items()}
        self._names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._moving: defaultdict[str, list[str]] = defaultdict(list)
        for name, tool in sorted(self._tools.items()):
            self._names[tool.source, tool.own_name or tool.name].append(name)
            if not stays(tool):
                self._moving[tool.own_name or tool.name].append(name)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def owner_of(self, name: str) -> str | None:
        """Return the source of the tool that the name belongs to; `None`: the name is free."""
        return self._tools[name].source if name in self._tools else None

    def assign(self, candidates: Sequence[Candidate]) -> dict[int, str]:
        """Return the names that candidates are known by already, by the index of the candidate.

        A tool is its source's of that name. Where a source offers several under one name, the one
        that reads as before is the one that was. The same tool of another source, which no model
        could tell apart, takes the place of one that went.
        """
        assigned: dict[int, str] = {}
        free = set(self._tools)
        for find in (self._find_unchanged, self._find_own, self._find_equal, self._find_moved):
            for at, candidate in enumerate(candidates):
                name = None if at in assigned else find(candidate, free)
                if name is not None:
                    assigned[at] = name
                    free.remove(name)
        return assigned

    def _find_unchanged(self, candidate: Candidate, free: set[str]) -> str | None:
        names = self._own(candidate, free)
        return next((name for name in names if self._told[name] == candidate.offer.told), None)

    def _find_own(self, candidate: Candidate, free: set[str]) -> str | None:
        return next(iter(self._own(candidate, free)), None)

    def _find_equal(self, candidate: Candidate, free: set[str]) -> str | None:
        name = candidate.name
        return name if name in free and self._told[name] == candidate.offer.told else None

    def _find_moved(self, candidate: Candidate, free: set[str]) -> str | None:
        """Return the name of a tool that the application offers in another way by now.

        Two executors that have names of their own are two owners.
        """
        if not candidate.is_own:
            return None
        is_unnamed = candidate.source in OWN_KINDS
        return next(
            (
                name
                for name in self._moving.get(candidate.name, ())
                if name in free and (is_unnamed or self._tools[name].source in OWN_KINDS)
            ),
            None,
        )

    def _own(self, candidate: Candidate, free: set[str]) -> list[str]:
        names = self._names.get((candidate.source, candidate.name), ())
        return [name for name in names if name in free]
