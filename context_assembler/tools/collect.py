"""`ToolCollector`: ask every source, filter, check each schema, merge by name, sort.

Precedence if two tools claim one name that nobody has yet: those of the request, then functions,
executors, skills, MCP servers, any other source, and literal specs last. Within one kind the source's
name and the tool's own text decide, so the order in which sources were connected never matters. A
name that the model has learnt stays with its tool, whatever the precedence.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from context_assembler.errors import InvalidToolError, ToolConflictError, did_you_mean
from context_assembler.options import AssembleOptions
from context_assembler.ports import ToolSource, ToolSpec
from context_assembler.providers.schemas import canonical_schema, refuse_unsayable
from context_assembler.report import Decision, ReportEntry, Rule
from context_assembler.tools.sources import LastAnswers, Question, open_tool_sources, what_is_read

ConflictPolicy: TypeAlias = Literal["rename", "error"]
_Tools: TypeAlias = Iterable[ToolSpec]
_Names: TypeAlias = tuple[str, ...]
_Filters: TypeAlias = tuple[_Names, _Names, _Names | None, bool, _Names]

PRECEDENCE: Final = ("additional", "functions", "executor", "skills", "mcp", "", "listed")
_MOST_OFFERS: Final = 4_096
_FIELDS: Final = attrgetter(*ToolSpec.__dataclass_fields__)


class CollectedTools(NamedTuple):
    """The tools to offer, sorted by name; an entry for every tool considered; what went wrong."""

    tools: tuple[ToolSpec, ...]
    entries: tuple[ReportEntry, ...]
    warnings: tuple[str, ...]


class _Offer(NamedTuple):
    """A tool of a source, with its canonical schema.

    `raw` sorts tools that share a name; `read` is what a model reads besides the name.
    """

    spec: ToolSpec
    raw: str
    read: tuple[Any, ...] = ()
    repairs: tuple[str, ...] = ()
    problem: InvalidToolError | None = None


class _Answer(NamedTuple):
    """What one source offered; `kind` is its place in `PRECEDENCE`."""

    kind: str
    source: str
    offers: tuple[_Offer, ...] = ()
    problems: tuple[InvalidToolError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def rank(self) -> tuple[int, str, list[str]]:
        return PRECEDENCE.index(self.kind), self.source, sorted(offer.raw for offer in self.offers)


def _objection(spec: ToolSpec, filters: _Filters) -> tuple[Decision, Rule, str] | None:
    """Return decision, rule and reason if the tool may not be offered."""
    include, exclude, permissions, is_sandbox, disabled = filters
    permission = spec.permission or spec.name
    if _matches(spec.name, exclude) or (include and not _matches(spec.name, include)):
        return "dropped", "excluded", "the patterns to include and exclude leave it out"
    if spec.name in disabled:
        return "dropped", "disabled", "disabled_tools names it"
    if permissions is not None and not _matches(permission, permissions):
        return "blocked", "permission", f"no permission pattern allows {permission!r}"
    if is_sandbox and spec.is_safe is not True:
        return "blocked", "sandbox", "it is not marked safe, and sandbox mode is on"
    return None


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class ToolCollector:
    """Collects the tools of one request from all sources: `ToolCollector([search]).collect_now()`.

    Args:
        sources: Functions, specs in any provider's shape, objects with `list_tools()`, MCP servers.
        include: Globs over names; only matching tools are considered. Empty means all.
        exclude: Globs over names; matching tools are left out.
        on_conflict: `rename` puts the source's name before the weaker of two different tools with
            one name; `error` refuses.
        timeout_seconds: How long one source may take.
        now: The clock for the warning that a source fails and its last list is offered.

    Attributes:
        is_constant: Whether every source says of itself that it always lists the same tools.
        is_sync: Whether every source can be asked without an event loop, as `collect_now` does.
    """

    def __init__(
        self,
        sources: Any = (),
        *,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        on_conflict: ConflictPolicy = "rename",
        timeout_seconds: float = 30.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.sources = tuple(open_tool_sources(sources))
        self._patterns = tuple(include), tuple(exclude)
        self._on_conflict: ConflictPolicy = on_conflict
        self._answers = LastAnswers[_Answer](timeout_seconds=timeout_seconds, now=now)
        self.is_constant = all(getattr(one, "is_constant", False) is True for one in self.sources)
        self.is_sync = all(getattr(one, "list_now", None) is not None for one in self.sources)

    async def collect(
        self, options: AssembleOptions | None = None, *, learnt: _Tools = (), **sources: Any
    ) -> CollectedTools:
        """Return the tools to offer, sorted by name, and what became of every tool.

        A source that fails is a warning, and what it listed last is offered; a tool whose schema is
        unusable is left out by name.

        Args:
            options: Of these `permissions`, `sandbox_mode` and `disabled_tools` count.
            learnt: The tools that the model knows; they keep their names.
            sources: As for `ask`.

        Raises:
            ToolConflictError: Two tools differ under one name, and `on_conflict` is `error`.
        """
        return (await self.ask(options, **sources)).merge(learnt)

    def collect_now(
        self, options: AssembleOptions | None = None, *, learnt: _Tools = (), **sources: Any
    ) -> CollectedTools:
        """Return the same as `collect`, without an event loop; a source that is awaited is a failure."""
        return self.ask_now(options, **sources).merge(learnt)

    async def ask(self, options: AssembleOptions | None = None, **sources: Any) -> "OfferedTools":
        """Return what all sources offer, before it is merged.

        Args:
            options: As for `collect`.
            sources: `additional`, the request's own, in any form that the constructor takes; and
                `skills`, the sources of active skills.
        """
        empty, asked = self._asked("list_tools", **sources)
        return self._offer(empty, await self._answers.ask(asked), options)

    def ask_now(self, options: AssembleOptions | None = None, **sources: Any) -> "OfferedTools":
        """Return the same as `ask`, without an event loop."""
        empty, asked = self._asked("list_now", **sources)
        return self._offer(empty, self._answers.ask_now(asked), options)

    async def close(self) -> None:
        """Close the connections of sources; they connect again when asked again."""
        for source in self.sources:
            if (close := getattr(source, "close", None)) is not None:
                await close()

    def _asked(
        self, method: str, additional: Any = (), skills: Iterable[ToolSource] = ()
    ) -> tuple[list[_Answer], list[Question[_Answer]]]:
        """Return for each source an answer of nothing, and how it is asked."""
        kinds = [(one, "additional") for one in open_tool_sources(additional, starts_servers=False)]
        for source in (*self.sources, *skills):
            kind = getattr(source, "kind", "")
            kinds.append((source, kind if kind in PRECEDENCE[1:] else ""))
        empty, asked = list[_Answer](), list[Question[_Answer]]()
        for source, kind in kinds:
            name = str(getattr(source, "name", None) or type(source).__name__)
            empty.append(_Answer(kind, name))
            lists, take = partial(methodcaller(method), source), partial(_answer, source, empty[-1])
            asked.append((id(source) if source in self.sources else None, lists, take))
        return empty, asked

    def _offer(
        self,
        empty: Iterable[_Answer],
        answers: Iterable[tuple[_Answer | None, str]],
        options: AssembleOptions | None,
    ) -> "OfferedTools":
        given, told = options or AssembleOptions(), list[_Answer]()
        for nothing, (answer, happened) in zip(empty, answers, strict=True):
            one = answer or nothing
            lost = (f"Tool source {one.source!r} {happened}",) if happened else ()
            told.append(one._replace(warnings=(*lost, *one.warnings)))
        sandbox, disabled = bool(given.sandbox_mode), given.disabled_tools or ()
        filters: _Filters = (*self._patterns, given.permissions, sandbox, disabled)
        ranked = sorted(told, key=lambda answer: answer.rank)
        return OfferedTools(ranked, filters, self._on_conflict)


def _answer(source: Any, empty: _Answer, specs: _Tools) -> _Answer:
    offers = tuple(_offer_of(spec, empty.source) for spec in specs)
    problems, notes = getattr(source, "problems", ()), getattr(source, "notes", ())
    return _Answer(empty.kind, empty.source, offers, tuple(problems), tuple(notes))


# Of this process: most sources list the same tools every time.
_offers: dict[tuple[str, str], _Offer] = {}


def _offer_of(spec: ToolSpec, source: str) -> _Offer:
    is_ordered = spec.source == "functions"
    try:
        refuse_unsayable([spec.description, spec.input_schema, spec.native_specs], tool=spec.name)
        raw = repr(_FIELDS(spec))
        offer = _offers.get((raw, source))
        if offer is None:
            schema, repairs = canonical_schema(
                spec.input_schema, tool=spec.name, is_ordered=is_ordered
            )
            sound = replace(spec, input_schema=schema, source=source)
            # The order in which a source gives properties is not what sorts its tools.
            offer = _Offer(sound, repr(_FIELDS(sound)), what_is_read(sound), repairs)
            if len(_offers) >= _MOST_OFFERS:
                _offers.clear()
            _offers[raw, source] = offer
    except InvalidToolError as problem:
        return _Offer(replace(spec, source=source), spec.name, problem=problem)
    return offer


class OfferedTools(NamedTuple):
    """What all sources offered for one call, before it is settled what each tool is called."""

    answers: Sequence[_Answer]
    filters: _Filters
    on_conflict: ConflictPolicy

    @property
    def key(self) -> object:
        """What the merged tools depend on, besides the names that were learnt and the options."""
        return [(one.rank, one.problems, one.warnings) for one in self.answers]

    def merge(self, learnt: _Tools = ()) -> CollectedTools:
        """Return the tools to offer, sorted by name, and what became of every tool.

        Args:
            learnt: The tools that the model knows in this epoch. Each of them keeps its name as long
                as its source offers it, and no other tool gets one of these names.

        Raises:
            ToolConflictError: Two tools differ under one name, and `on_conflict` is `error`.
        """
        return _Merging(self, {tool.name: tool for tool in learnt}).collected()


class _Merging:
    """The tools accepted so far, by final name, and the entries and warnings of the report."""

    def __init__(self, offered: OfferedTools, learnt: Mapping[str, ToolSpec]) -> None:
        self._offered = offered
        *_, self._disabled = offered.filters
        self._learnt = learnt
        self._specs: dict[str, ToolSpec] = {}
        self._own_names: dict[str, ToolSpec] = {}
        self._entries: list[ReportEntry] = []
        self._warnings: list[str] = []

    def collected(self) -> CollectedTools:
        offers = [offer for answer in self._offered.answers for offer in self._sift(answer)]
        assigned = self._assign(offers) if self._learnt else {}
        for at, name in sorted(assigned.items()):
            self._accept(name, offers[at])
        for at, offer in enumerate(offers):
            if at not in assigned:
                self._accept_new(offer)
        known = {offer.spec.name for answer in self._offered.answers for offer in answer.offers}
        known |= self._specs.keys() | self._learnt.keys()
        for name in self._disabled:
            if name not in known:
                hint = did_you_mean(name, known, otherwise="")
                unknown = f"disabled_tools names {name!r}, which no source offers. {hint}"
                self._warnings.append(unknown.rstrip())
        return CollectedTools(
            tools=tuple(self._specs[name] for name in sorted(self._specs)),
            entries=tuple(sorted(self._entries, key=lambda entry: entry.id)),
            warnings=tuple(self._warnings),
        )

    def _sift(self, answer: _Answer) -> Iterator[_Offer]:
        """Yield the tools that may be offered, with an entry for every other one."""
        self._warnings += answer.warnings
        for problem in answer.problems:
            self._leave_out(problem, answer.source)
        for offer in sorted(answer.offers, key=lambda offer: (offer.spec.name, offer.raw)):
            if objection := _objection(offer.spec, self._offered.filters):
                self._report(offer.spec.name, *objection)
            elif offer.problem is not None:
                self._leave_out(offer.problem, answer.source)
            else:
                yield offer

    def _assign(self, offers: Sequence[_Offer]) -> dict[int, str]:
        """Return the names that tools are known by already, by the index of the offer.

        A tool keeps the name of its source's earlier tool, or else of the same tool elsewhere.
        """
        names: dict[tuple[str, str], list[str]] = {}
        for name, tool in sorted(self._learnt.items()):
            names.setdefault((tool.source, tool.own_name or name), []).append(name)
        known = ((at, names.get((one.spec.source, one.spec.name))) for at, one in enumerate(offers))
        assigned = {at: free.pop(0) for at, free in known if free}
        for at, one in enumerate(offers):
            same = self._learnt.get(name := one.spec.name)
            if at not in assigned and name not in assigned.values() and same is not None:
                assigned |= {at: name} if what_is_read(same) == one.read else {}
        return assigned

    def _accept_new(self, offer: _Offer) -> None:
        """Offer a tool that the model does not know, by its own name unless that is another's."""
        name, number = offer.spec.name, 1
        prefix = re.sub(r"[^A-Za-z0-9_-]+", "_", offer.spec.source).strip("_") or "other"
        while name in self._specs or name in self._learnt:
            if (holder := self._specs.get(name)) is not None and what_is_read(holder) == offer.read:
                self._report(name, "dropped", "duplicate", f"{holder.source} offers the same tool")
                return
            name = f"{prefix}_{offer.spec.name}" + (f"_{number}" if number > 1 else "")
            number += 1
        self._accept(name, offer)

    def _accept(self, name: str, offer: _Offer) -> None:
        """Offer a tool by this name; if that is not its own, say why."""
        spec, reason = offer.spec, "; ".join(offer.repairs)
        rule: Rule = "schema" if reason else ""
        is_strict, other = self._offered.on_conflict == "error", self._own_names.get(spec.name)
        if name != offer.spec.name:
            if name in self._disabled:
                self._report(name, "dropped", "disabled", "disabled_tools names it")
                return
            owner = self._specs.get(offer.spec.name) or self._learnt.get(offer.spec.name)
            rule, reason = "name_conflict", "this is the name that the model knows it by"
            if owner is not None:
                reason = f"{offer.spec.name!r} is the name of a different tool of {owner.source}"
            self._warnings.append(f"Tool {spec.name!r} of {spec.source} is offered as {name!r}.")
            spec = replace(spec, name=name, own_name=offer.spec.name)
        if is_strict and other is not None and what_is_read(other) != offer.read:
            raise ToolConflictError(offer.spec.name, sources=(other.source, spec.source))
        self._specs[name] = self._own_names[offer.spec.name] = spec
        self._report(name, "repaired" if rule else "kept", rule, reason)

    def _report(self, name: str, decision: Decision, rule: Rule = "", reason: str = "") -> None:
        self._entries.append(ReportEntry("tool", name, decision, reason=reason, rule=rule))

    def _leave_out(self, problem: InvalidToolError, source: str) -> None:
        self._report(problem.name, "dropped", "schema", problem.reason)
        self._warnings.append(f"{problem} (source: {source})")
