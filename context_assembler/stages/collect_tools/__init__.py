"""`ToolCollector`: ask every source, filter, check each schema, merge by name, sort.

Precedence where two tools claim one name: those of the request, then functions, executors, skills,
MCP servers, any other source, and literal specs last. A source tells its kind by an attribute
`kind`, whatever it is called. Within one kind the source's name and the tool's own text decide, so
the order in which sources were connected never matters.
"""

import asyncio
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, TypeAlias

from context_assembler.errors import (
    AssemblyError,
    InvalidToolError,
    ToolConflictError,
    nearest,
)
from context_assembler.ports import ToolSource
from context_assembler.stages.collect_tools.tool_memo import ToolMemo, ToolOffer
from context_assembler.values.options import AssembleOptions
from context_assembler.values.report import Decision, ReportEntry
from context_assembler.values.tools import ToolSpec

ConflictPolicy: TypeAlias = Literal["rename", "error"]

PRECEDENCE: Final = ("additional", "functions", "executor", "skills", "mcp", "", "listed")


class CollectedTools(NamedTuple):
    """The tools to offer, sorted by name; a row for every tool considered; what went wrong."""

    tools: tuple[ToolSpec, ...]
    entries: tuple[ReportEntry, ...]
    warnings: tuple[str, ...]


class ToolCollector:
    """Collects the tools of one request from all sources.

    Args:
        sources: Where tools come from.
        include: Globs over names; only matching tools are considered. Empty means all.
        exclude: Globs over names; matching tools are left out.
        on_conflict: `rename` gives the weaker of two different tools with one name its source's
            name in front; `error` refuses.
        timeout_seconds: How long one source may take.
    """

    def __init__(
        self,
        sources: Iterable[ToolSource] = (),
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        on_conflict: ConflictPolicy = "rename",
        timeout_seconds: float = 30.0,
    ) -> None:
        self._sources = tuple(sources)
        self._include = tuple(include)
        self._exclude = tuple(exclude)
        self._on_conflict: ConflictPolicy = on_conflict
        self._timeout_seconds = timeout_seconds
        self._memo = ToolMemo()

    async def collect(
        self,
        options: AssembleOptions | None = None,
        *,
        additional: Iterable[ToolSource] = (),
        skills: Iterable[ToolSource] = (),
    ) -> CollectedTools:
        """Return the tools to offer, sorted by name, and what became of every tool.

        A source that fails is a warning; a tool whose schema is unusable is left out by name.

        Args:
            options: Of these `permissions`, `sandbox_mode` and `disabled_tools` count.
            additional: The request's own sources.
            skills: The sources of active skills.

        Raises:
            ToolConflictError: Two tools differ under one name, and `on_conflict` is `error`.
        """
        asked = [(source, "additional") for source in additional]
        asked += [(source, "") for source in (*self._sources, *skills)]
        answers = await asyncio.gather(*(self._ask(source, kind=kind) for source, kind in asked))
        sieve = _Sieve(
            options=options or AssembleOptions(), include=self._include, exclude=self._exclude
        )
        return _collect(answers, sieve=sieve, on_conflict=self._on_conflict)

    async def close(self) -> None:
        """Let the sources that hold connections go of them; they connect again when asked again."""
        closes = [getattr(source, "close", None) for source in self._sources]
        await asyncio.gather(*(close() for close in closes if close is not None))

    async def _ask(self, source: ToolSource, *, kind: str) -> "_Answer":
        kind, name = kind or _kind_of(source), _name_of(source)
        limit = asyncio.timeout(self._timeout_seconds)
        try:
            async with limit:
                specs = await source.list_tools()
            return _Answer(
                kind=kind,
                source=name,
                offers=tuple(map(self._memo.offer_of, specs)),
                problems=tuple(getattr(source, "problems", ())),
                warnings=tuple(getattr(source, "notes", ())),
            )
        except (Exception, asyncio.CancelledError) as error:  # foreign code: the rest goes on
            if _is_being_cancelled():
                raise
            happened = (
                f"did not answer within {self._timeout_seconds:g} s"
                if limit.expired()
                else f"failed: {_said_by(error)}"
            )
        lost = f"Tool source {name!r} {happened.removesuffix('.')}."
        return _Answer(kind=kind, source=name, warnings=(lost,))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What one source offered, in order; `kind` is its place in `PRECEDENCE`."""

    kind: str
    source: str
    offers: tuple[ToolOffer, ...] = ()
    problems: tuple[InvalidToolError, ...] = ()
    warnings: tuple[str, ...] = ()


def _is_being_cancelled() -> bool:
    """Whether somebody cancels this very task, rather than that a source raised on its own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _said_by(error: BaseException) -> str:
    if isinstance(error, AssemblyError):
        return str(error)  # which says by itself what it is
    return f"{type(error).__name__}{f': {error}' if str(error) else ''}"


def _name_of(source: ToolSource) -> str:
    try:
        return str(source.name)
    except Exception:  # noqa: BLE001 - a foreign property: whatever it raises, there is no name
        return type(source).__name__


def _kind_of(source: ToolSource) -> str:
    kind: object = getattr(source, "kind", "")
    return kind if isinstance(kind, str) and kind in PRECEDENCE[1:] else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sieve:
    """Decides which tools may be offered at all."""

    options: AssembleOptions
    include: tuple[str, ...]
    exclude: tuple[str, ...]

    def objection(self, spec: ToolSpec) -> tuple[Decision, str, str] | None:
        """Return decision, rule and reason if the tool may not be offered."""
        options = self.options
        if self.include and not _matches(spec.name, self.include):
            return "dropped", "excluded", "its name matches no included pattern"
        if _matches(spec.name, self.exclude):
            return "dropped", "excluded", "its name matches an excluded pattern"
        if spec.name in (options.disabled_tools or ()):
            return "dropped", "disabled", "disabled_tools names it"
        permission = spec.permission or spec.name
        if options.permissions is not None and not _matches(permission, options.permissions):
            return "blocked", "permission", f"no permission pattern allows {permission!r}"
        if options.sandbox_mode and not spec.is_safe:
            return "blocked", "sandbox", "it is not marked safe, and sandbox mode is on"
        return None


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(slots=True)
class _Table:
    """The tools accepted so far, by final name, and the rows and warnings of the report."""

    specs: dict[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    told: dict[str, str] = field(default_factory=dict[str, str])
    entries: list[ReportEntry] = field(default_factory=list[ReportEntry])
    warnings: list[str] = field(default_factory=list[str])

    def report(self, name: str, decision: Decision, rule: str = "", reason: str = "") -> None:
        row = ReportEntry(kind="tool", id=name, decision=decision, rule=rule, reason=reason)
        self.entries.append(row)


def _collect(
    answers: Sequence[_Answer], *, sieve: _Sieve, on_conflict: ConflictPolicy
) -> CollectedTools:
    table = _Table()
    known: set[str] = set()
    for answer in sorted(answers, key=_rank):
        table.warnings += answer.warnings
        for problem in answer.problems:
            _leave_out(table, problem, source=answer.source)
        for offer in sorted(answer.offers, key=lambda offer: (offer.spec.name, offer.raw)):
            known.add(offer.spec.name)
            _consider(table, offer, source=answer.source, sieve=sieve, on_conflict=on_conflict)
    known |= table.specs.keys()
    _warn_of_unknown(table, sieve.options.disabled_tools or (), known=known)
    return CollectedTools(
        tools=tuple(table.specs[name] for name in sorted(table.specs)),
        entries=tuple(sorted(table.entries, key=lambda entry: entry.id)),
        warnings=tuple(table.warnings),
    )


def _rank(answer: _Answer) -> tuple[int, str, list[str]]:
    raw = sorted(offer.raw for offer in answer.offers)
    return PRECEDENCE.index(answer.kind), answer.source, raw


def _leave_out(table: _Table, problem: InvalidToolError, *, source: str) -> None:
    table.report(problem.name, "dropped", "schema", problem.reason)
    table.warnings.append(f"{problem} (source: {source})")


def _consider(
    table: _Table, offer: ToolOffer, *, source: str, sieve: _Sieve, on_conflict: ConflictPolicy
) -> None:
    name = offer.spec.name
    if objection := sieve.objection(offer.spec):
        table.report(name, *objection)
        return
    if offer.problem is not None:
        _leave_out(table, offer.problem, source=source)
        return
    spec = replace(offer.spec, source=source)
    holder = table.specs.get(name)
    if holder is None:
        reason = "; ".join(offer.repairs)
        _accept(table, spec, told=offer.told, rule="schema" if reason else "", reason=reason)
    elif table.told[name] == offer.told:
        table.report(name, "dropped", "duplicate", f"{holder.source} offers the same tool")
    elif on_conflict == "error":
        raise ToolConflictError(name, sources=(holder.source, source))
    else:
        _accept_renamed(table, spec, told=offer.told, sieve=sieve)


def _accept(table: _Table, spec: ToolSpec, *, told: str, rule: str, reason: str) -> None:
    table.specs[spec.name] = spec
    table.told[spec.name] = told
    table.report(spec.name, "repaired" if rule else "kept", rule, reason)


def _accept_renamed(table: _Table, spec: ToolSpec, *, told: str, sieve: _Sieve) -> None:
    """Offer the weaker of two tools under another name, unless that one is taken by its equal."""
    other = table.specs[spec.name].source
    for name in _names_for(spec):  # pragma: no branch - it never ends
        if table.told.get(name) == told:
            table.report(name, "dropped", "duplicate", f"{table.specs[name].source} offers it too")
            return
        if name in table.specs:
            continue
        if name in (sieve.options.disabled_tools or ()):
            table.report(name, "dropped", "disabled", "disabled_tools names it")
            return
        reason = f"{spec.name!r} is the name of a different tool of {other}"
        renamed = replace(spec, name=name, own_name=spec.name)
        _accept(table, renamed, told=told, rule="name_conflict", reason=reason)
        table.warnings.append(f"Tool {spec.name!r} of {spec.source} is offered as {name!r}.")
        return


def _names_for(spec: ToolSpec) -> Iterable[str]:
    prefix = re.sub(r"[^A-Za-z0-9_-]+", "_", spec.source).strip("_") or "other"
    yield f"{prefix}_{spec.name}"
    number = 2
    while True:
        yield f"{prefix}_{spec.name}_{number}"
        number += 1


def _warn_of_unknown(table: _Table, disabled: Iterable[str], *, known: Collection[str]) -> None:
    for name in disabled:
        if name not in known:
            near = nearest(name, known, count=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            table.warnings.append(f"disabled_tools names {name!r}, which no source offers.{hint}")
