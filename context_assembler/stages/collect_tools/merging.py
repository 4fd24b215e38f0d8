"""What all sources offer, merged by name: one tool for every name, the weaker of two renamed.

Precedence where two tools claim one name that nobody has yet: those of the request, then functions,
executors, skills, MCP servers, any other source, and literal specs last. Within one kind the source's
name and the tool's own text decide, so the order in which sources were connected never matters. A name
that the model has learnt stays with its tool, whatever the precedence.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from context_assembler.errors import InvalidToolError, ToolConflictError, nearest
from context_assembler.stages.collect_tools.learnt_names import (
    OWN_KINDS,
    Candidate,
    LearntNames,
)
from context_assembler.stages.collect_tools.tool_memo import ToolOffer
from context_assembler.stages.collect_tools.tool_sieve import ToolSieve
from context_assembler.values.given import listed
from context_assembler.values.report import Decision, ReportEntry
from context_assembler.values.tool_forms import form_of
from context_assembler.values.tools import ToolSpec

ConflictPolicy: TypeAlias = Literal["rename", "error"]

BeginsAnew: TypeAlias = Callable[[Sequence[ToolSpec]], bool]

PRECEDENCE: Final = ("additional", "functions", "executor", "skills", "mcp", "", "listed")


class CollectedTools(NamedTuple):
    """The tools to offer, sorted by name; a row for every tool considered; what went wrong."""

    tools: tuple[ToolSpec, ...]
    entries: tuple[ReportEntry, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """What one source offered, in order.

    Attributes:
        kind: Its place in `PRECEDENCE`.
        own_kind: What it is besides, where it is one of the request's own.
        has_failed: Whether it could not be asked, so that no more is known of its tools than what it
            offered before.
    """

    kind: str
    source: str
    own_kind: str = ""
    has_failed: bool = False
    offers: tuple[ToolOffer, ...] = ()
    problems: tuple[InvalidToolError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_own(self) -> bool:
        """Whether the application offers these tools itself."""
        return (self.own_kind or self.kind) in OWN_KINDS

    @property
    def names(self) -> set[str]:
        """What the source calls its tools, those included that cannot be offered."""
        offered = {offer.spec.name for offer in self.offers}
        return offered | {problem.name for problem in self.problems}

    @property
    def rank(self) -> tuple[int, str, list[str]]:
        """What sorts answers, whatever their order was."""
        raw = sorted(offer.raw for offer in self.offers)
        return PRECEDENCE.index(self.kind), self.source, raw


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTools:
    """What all sources offered for one call, before it is settled what each tool is called."""

    answers: tuple[SourceAnswer, ...] = ()
    sieve: ToolSieve = field(default_factory=ToolSieve)
    on_conflict: ConflictPolicy = "rename"
    _anew: CollectedTools | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def key(self) -> object:
        """What the merged tools depend on, besides the names that were learnt and the options."""
        return [
            (one.rank, one.own_kind, one.problems, one.warnings) for one in _ranked(self.answers)
        ]

    def merge(
        self, learnt: Iterable[ToolSpec] = (), *, begins_anew: BeginsAnew = lambda _: False
    ) -> CollectedTools:
        """Return the tools to offer, sorted by name, and what became of every tool.

        Args:
            learnt: The tools that the model was told of in this epoch. Each of them keeps its name as
                long as its source offers it, and no other tool is given one of these names.
            begins_anew: Whether tools can only be declared anew: then the names of those that went
                are free, for there is nothing left that they could be mistaken for.

        Raises:
            ToolConflictError: Two tools differ under one name, and `on_conflict` is `error`.
        """
        known = listed("learnt", learnt, ToolSpec, such_as="[ToolSpec(…), …]")
        if not known:
            return self._merge_anew()
        collected = self._merge(known)
        there = {tool.name for tool in collected.tools}
        left = [tool for tool in known if tool.name in there]
        if len(left) == len(known):
            return collected
        freed = self._merge(left)
        names = [tool.name for tool in freed.tools]
        if names == [tool.name for tool in collected.tools]:
            return collected
        are_anew = begins_anew(collected.tools) and begins_anew(freed.tools)
        return freed if are_anew else collected

    def _merge_anew(self) -> CollectedTools:
        """Return what is offered where nothing was learnt; worked out once."""
        collected = self._anew or self._merge(())
        object.__setattr__(self, "_anew", collected)
        return collected

    def _merge(self, learnt: Iterable[ToolSpec]) -> CollectedTools:
        merging = _Merging(
            sieve=self.sieve,
            on_conflict=self.on_conflict,
            learnt=LearntNames(learnt, stays=self._stays),
        )
        return merging.merge(_ranked(self.answers))

    def _stays(self, tool: ToolSpec) -> bool:
        """Whether a tool that was learnt is its source's for good.

        It may move within the application when the source that had it is there without it, or is
        one of those that need no name and is not there at all.
        """
        same = [answer for answer in self.answers if answer.source == tool.source]
        if not same:
            return tool.source not in OWN_KINDS
        own_name = tool.own_name or tool.name
        return any(
            not answer.is_own or answer.has_failed or own_name in answer.names for answer in same
        )


def _ranked(answers: Iterable[SourceAnswer]) -> list[SourceAnswer]:
    return sorted(answers, key=lambda answer: answer.rank)


@dataclass(slots=True, kw_only=True)
class _Merging:
    """The tools accepted so far, by final name, and the rows and warnings of the report."""

    sieve: ToolSieve
    on_conflict: ConflictPolicy
    learnt: LearntNames
    specs: dict[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    told: dict[str, str] = field(default_factory=dict[str, str])
    own_names: dict[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    entries: list[ReportEntry] = field(default_factory=list[ReportEntry])
    warnings: list[str] = field(default_factory=list[str])

    def merge(self, answers: Sequence[SourceAnswer]) -> CollectedTools:
        candidates = [one for answer in answers for one in self._sift(answer)]
        assigned = self.learnt.assign(candidates)
        for at, name in sorted(assigned.items()):
            self._accept_as(name, candidates[at])
        for at, candidate in enumerate(candidates):
            if at not in assigned:
                self._accept_new(candidate)
        offered = {offer.spec.name for answer in answers for offer in answer.offers}
        self._warn_of_unknown(known={*offered, *self.specs, *self.learnt})
        return CollectedTools(
            tools=tuple(self.specs[name] for name in sorted(self.specs)),
            entries=tuple(sorted(self.entries, key=lambda entry: entry.id)),
            warnings=tuple(self.warnings),
        )

    def _sift(self, answer: SourceAnswer) -> Iterator[Candidate]:
        """Yield the tools that may be offered, with a row for every other one."""
        self.warnings += answer.warnings
        for problem in answer.problems:
            self._leave_out(problem, source=answer.source)
        for offer in sorted(answer.offers, key=lambda offer: (offer.spec.name, offer.raw)):
            if objection := self.sieve.objection(offer.spec):
                self._report(offer.spec.name, *objection)
            elif offer.problem is not None:
                self._leave_out(offer.problem, source=answer.source)
            else:
                yield Candidate(offer=offer, source=answer.source, is_own=answer.is_own)

    def _accept_as(self, name: str, candidate: Candidate) -> None:
        """Offer a tool by the name that the model knows it by."""
        if name == candidate.name:
            self._accept(name, candidate)
            return
        owner = self.learnt.owner_of(candidate.name)
        why = (
            "this is the name that the model knows it by"
            if owner is None
            else f"{candidate.name!r} is the name of a different tool of {owner}"
        )
        self._accept_renamed(name, candidate, why=why)

    def _accept_new(self, candidate: Candidate) -> None:
        """Offer a tool that the model does not know, by its own name unless that is another's."""
        name = candidate.name
        holder = self.specs.get(name)
        owner = self.learnt.owner_of(name) if holder is None else holder.source
        if owner is None:
            self._accept(name, candidate)
        elif holder is not None and self.told[name] == candidate.offer.told:
            self._report(name, "dropped", "duplicate", f"{owner} offers the same tool")
        else:
            why = f"{name!r} is the name of a different tool of {owner}"
            self._accept_otherwise(candidate, why=why)

    def _accept_otherwise(self, candidate: Candidate, *, why: str) -> None:
        """Offer a tool under another name, unless that one is taken by its equal."""
        for name in _names_for(candidate):  # pragma: no branch - it never ends
            if self.told.get(name) == candidate.offer.told:
                reason = f"{self.specs[name].source} offers it too"
                self._report(name, "dropped", "duplicate", reason)
                return
            if name not in self.specs and name not in self.learnt:
                self._accept_renamed(name, candidate, why=why)
                return

    def _accept_renamed(self, name: str, candidate: Candidate, *, why: str) -> None:
        if name in self.sieve.disabled:
            self._report(name, "dropped", "disabled", "disabled_tools names it")
            return
        self._accept(name, candidate, rule="name_conflict", reason=why)
        self.warnings.append(
            f"Tool {candidate.name!r} of {candidate.source} is offered as {name!r}."
        )

    def _accept(self, name: str, candidate: Candidate, *, rule: str = "", reason: str = "") -> None:
        self._refuse_conflict(candidate)
        offer, source = candidate.offer, candidate.source
        own_name = None if name == candidate.name else candidate.name
        spec = form_of(offer.spec, name=name, own_name=own_name, source=source)
        if not rule and offer.repairs:
            rule, reason = "schema", "; ".join(offer.repairs)
        self.specs[name] = self.own_names[candidate.name] = spec
        self.told[name] = offer.told
        self._report(name, "repaired" if rule else "kept", rule, reason)

    def _refuse_conflict(self, candidate: Candidate) -> None:
        """Refuse two different tools that their sources call the same, where that is an error."""
        other = self.own_names.get(candidate.name)
        if self.on_conflict != "error" or other is None:
            return
        if self.told[other.name] != candidate.offer.told:
            raise ToolConflictError(candidate.name, sources=(other.source, candidate.source))

    def _report(self, name: str, decision: Decision, rule: str = "", reason: str = "") -> None:
        row = ReportEntry(kind="tool", id=name, decision=decision, rule=rule, reason=reason)
        self.entries.append(row)

    def _leave_out(self, problem: InvalidToolError, *, source: str) -> None:
        self._report(problem.name, "dropped", "schema", problem.reason)
        self.warnings.append(f"{problem} (source: {source})")

    def _warn_of_unknown(self, *, known: Collection[str]) -> None:
        for name in self.sieve.disabled:
            if name not in known:
                near = nearest(name, known, count=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                self.warnings.append(
                    f"disabled_tools names {name!r}, which no source offers.{hint}"
                )


def _names_for(candidate: Candidate) -> Iterator[str]:
    prefix = re.sub(r"[^A-Za-z0-9_-]+", "_", candidate.source).strip("_") or "other"
    yield f"{prefix}_{candidate.name}"
    number = 2
    while True:
        yield f"{prefix}_{candidate.name}_{number}"
        number += 1
