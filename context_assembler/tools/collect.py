"""`ToolCollector`: ask every source, filter, check each schema, merge by name, sort.

Precedence if two tools claim one name that nobody has yet: those of the request, then functions,
executors, skills, MCP servers, any other source, and literal specs last. Within one kind the source's
name and the tool's own text decide, so the order in which sources were connected never matters. A
name that the model has learnt stays with its tool, whatever the precedence.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import count
from json import dumps
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from weakref import ref

from context_assembler.errors import AssemblyError, InvalidToolError, ToolConflictError, nearest
from context_assembler.options import AssembleOptions
from context_assembler.ports import ToolSource, ToolSpec
from context_assembler.providers.schemas import canonical_schema
from context_assembler.report import Decision, ReportEntry
from context_assembler.tools.sources import attribute, open_tool_sources, tell_problem

ConflictPolicy: TypeAlias = Literal["rename", "error"]
BeginsAnew: TypeAlias = Callable[[Sequence[ToolSpec]], bool]

PRECEDENCE: Final = ("additional", "functions", "executor", "skills", "mcp", "", "listed")
# Sources of the application itself; a source without a name is called so.
_OWN_KINDS: Final = ("functions", "executor", "listed")
_MOST_OFFERS: Final = 4_096


class CollectedTools(NamedTuple):
    """The tools to offer, sorted by name; an entry for every tool considered; what went wrong."""

    tools: tuple[ToolSpec, ...]
    entries: tuple[ReportEntry, ...]
    warnings: tuple[str, ...]


class _Offer(NamedTuple):
    """A tool as its source gives it, with its canonical schema.

    `raw` sorts tools that share a name; `told` is the same for two tools exactly if a model cannot
    tell them apart, their names aside.
    """

    spec: ToolSpec
    raw: str
    told: str = ""
    repairs: tuple[str, ...] = ()
    problem: InvalidToolError | None = None


class _Answer(NamedTuple):
    """What one source offered; `kind` is its place in `PRECEDENCE`."""

    kind: str
    source: str
    own_kind: str
    offers: tuple[_Offer, ...] = ()
    problems: tuple[InvalidToolError, ...] = ()
    warnings: tuple[str, ...] = ()
    has_failed: bool = False

    @property
    def is_own(self) -> bool:
        return (self.own_kind or self.kind) in _OWN_KINDS

    @property
    def rank(self) -> tuple[int, str, list[str]]:
        return PRECEDENCE.index(self.kind), self.source, sorted(offer.raw for offer in self.offers)


class _Sieve(NamedTuple):
    """Decides which tools may be offered at all."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    permissions: tuple[str, ...] | None = None
    sandbox: bool = False
    disabled: tuple[str, ...] = ()

    def objection(self, spec: ToolSpec) -> tuple[Decision, str, str] | None:
        """Return decision, rule and reason if the tool may not be offered."""
        if self.include and not _matches(spec.name, self.include):
            return "dropped", "excluded", "its name matches no included pattern"
        if _matches(spec.name, self.exclude):
            return "dropped", "excluded", "its name matches an excluded pattern"
        if spec.name in self.disabled:
            return "dropped", "disabled", "disabled_tools names it"
        permission = spec.permission or spec.name
        if self.permissions is not None and not _matches(permission, self.permissions):
            return "blocked", "permission", f"no permission pattern allows {permission!r}"
        if self.sandbox and spec.is_safe is not True:
            return "blocked", "sandbox", "it is not marked safe, and sandbox mode is on"
        return None


def _matches(name: str, patterns: Iterable[str]) -> bool:
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
    """

    def __init__(
        self,
        sources: Any = (),
        *,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        on_conflict: ConflictPolicy = "rename",
        timeout_seconds: float = 30.0,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self.sources = tuple(open_tool_sources(sources))
        self._sieve = _Sieve(tuple(include), tuple(exclude))
        self._on_conflict: ConflictPolicy = on_conflict
        self._timeout_seconds = timeout_seconds
        self._now = now or _utc_now
        self._last: dict[int, tuple[ref[Any], _Answer, datetime]] = {}
        self.is_constant = all(_is_constant(source) for source in self.sources)
        self._offered: OfferedTools | None = None  # the last time, if that holds for good

    @property
    def is_sync(self) -> bool:
        """Whether every source can be asked without an event loop, as `collect_now` does."""
        return all(getattr(source, "list_now", None) is not None for source in self.sources)

    async def collect(
        self,
        options: AssembleOptions | None = None,
        *,
        additional: Any = (),
        skills: Iterable[ToolSource] = (),
        learnt: Iterable[ToolSpec] = (),
    ) -> CollectedTools:
        """Return the tools to offer, sorted by name, and what became of every tool.

        A source that fails is a warning, and what it listed last is offered; a tool whose schema is
        unusable is left out by name.

        Args:
            options: Of these `permissions`, `sandbox_mode` and `disabled_tools` count.
            additional: The request's own, in any form that `sources` takes.
            skills: The sources of active skills.
            learnt: The tools that the model knows; they keep their names.

        Raises:
            ToolConflictError: Two tools differ under one name, and `on_conflict` is `error`.
        """
        offered = await self.ask(options, additional=additional, skills=skills)
        return offered.merge(learnt)

    def collect_now(
        self,
        options: AssembleOptions | None = None,
        *,
        additional: Any = (),
        skills: Iterable[ToolSource] = (),
        learnt: Iterable[ToolSpec] = (),
    ) -> CollectedTools:
        """Return the same as `collect`, without an event loop; a source that is awaited is a failure."""
        return self.ask_now(options, additional=additional, skills=skills).merge(learnt)

    async def ask(
        self,
        options: AssembleOptions | None = None,
        *,
        additional: Any = (),
        skills: Iterable[ToolSource] = (),
    ) -> "OfferedTools":
        """Return what all sources offer, before it is merged; the arguments are those of `collect`."""
        asked = self._asked(additional, skills)
        if known := self._known(asked, options):
            return known
        import asyncio

        answers = await asyncio.gather(*(self._ask(source, kind) for source, kind in asked))
        return self._offer(asked, answers, options)

    def ask_now(
        self,
        options: AssembleOptions | None = None,
        *,
        additional: Any = (),
        skills: Iterable[ToolSource] = (),
    ) -> "OfferedTools":
        """Return the same as `ask`, without an event loop."""
        asked = self._asked(additional, skills)
        if known := self._known(asked, options):
            return known
        answers = []
        for source, kind in asked:
            try:
                list_now = source.list_now  # a source without it is awaited, in `collect`
                answers.append(self._keep(source, _answer(source, kind, list_now())))
            except Exception as error:  # foreign code: the rest goes on
                answers.append(self._stand_in(source, kind, f"failed: {_said_by(error)}"))
        return self._offer(asked, answers, options)

    async def close(self) -> None:
        """Close the connections of sources; they connect again when asked again."""
        for source in self.sources:
            if (close := getattr(source, "close", None)) is not None:
                await close()

    def _asked(self, additional: Any, skills: Iterable[ToolSource]) -> list[tuple[Any, str]]:
        own = open_tool_sources(additional, starts_servers=False)
        asked = [(source, "additional") for source in own]
        return asked + [(source, _kind_of(source)) for source in (*self.sources, *skills)]

    def _known(
        self, asked: Sequence[Any], options: AssembleOptions | None
    ) -> "OfferedTools | None":
        last = self._offered if len(asked) == len(self.sources) else None
        if last is None:
            return None
        sieve = self._sieve_for(options)
        return last if last.sieve == sieve else self._offer(asked, last.answers, options)

    def _sieve_for(self, options: AssembleOptions | None) -> _Sieve:
        if options is None:
            return self._sieve
        return self._sieve._replace(
            permissions=options.permissions,
            sandbox=bool(options.sandbox_mode),
            disabled=options.disabled_tools or (),
        )

    def _offer(
        self,
        asked: Sequence[Any],
        answers: Sequence[_Answer],
        options: AssembleOptions | None,
    ) -> "OfferedTools":
        offered = OfferedTools(answers, self._sieve_for(options), self._on_conflict)
        is_constant = self.is_constant and len(asked) == len(self.sources)
        if is_constant and not any(answer.has_failed for answer in answers):
            self._offered = offered
        return offered

    async def _ask(self, source: Any, kind: str) -> _Answer:
        import asyncio

        limit = asyncio.timeout(self._timeout_seconds)
        try:
            async with limit:
                return self._keep(source, _answer(source, kind, await source.list_tools()))
        except (Exception, asyncio.CancelledError) as error:  # foreign code: the rest goes on
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            late = f"did not answer within {self._timeout_seconds:g} s"
            return self._stand_in(
                source, kind, late if limit.expired() else f"failed: {_said_by(error)}"
            )

    def _keep(self, source: Any, answer: _Answer) -> _Answer:
        """Keep an answer for the calls in which the source fails, for as long as it exists.

        A list that goes if its source fails once, and comes back, would be sent again both times.
        """
        owner = attribute(source, "stands_for") or source
        if type(owner).__weakrefoffset__:
            key, kept = id(owner), self._last
            self._last[key] = ref(owner, lambda _: kept.pop(key, None)), answer, self._now()
        return answer

    def _stand_in(self, source: Any, kind: str, happened: str) -> _Answer:
        """Return what a source that failed answered last; nothing if it never did."""
        failed = _answer(source, kind, ())._replace(has_failed=True)
        lost = f"Tool source {failed.source!r} {happened.removesuffix('.')}."
        owner = attribute(source, "stands_for") or source
        kept = self._last.get(id(owner))
        if kept is None or kept[0]() is not owner:
            return failed._replace(problems=(), warnings=(lost,))
        # A moment, not an age: a warning that differs each time would make every call another one.
        when = f"{kept[2].astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        lost = f"{lost} What it listed last, at {when}, is still offered."
        return failed._replace(
            offers=kept[1].offers, problems=kept[1].problems, warnings=(lost, *kept[1].warnings)
        )


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _is_constant(source: Any) -> bool:
    """Whether a source says that it always lists the same; a subclass that lists otherwise does not."""
    for defined in map(vars, type(source).__mro__):
        if "is_constant" in defined:
            return attribute(source, "is_constant") is True
        if "list_tools" in defined:
            return False
    return False


def _kind_of(source: Any) -> str:
    kind = attribute(source, "kind")
    return kind if isinstance(kind, str) and kind in PRECEDENCE[1:] else ""


def _said_by(error: BaseException) -> str:
    return str(error) if isinstance(error, AssemblyError) else tell_problem(error)


def _answer(source: Any, kind: str, specs: Iterable[ToolSpec]) -> _Answer:
    name = attribute(source, "name")
    return _Answer(
        kind=kind,
        source=str(name) if name else type(source).__name__,
        own_kind=_kind_of(source),
        offers=tuple(map(_offer_of, specs)),
        problems=tuple(getattr(source, "problems", ())),
        warnings=tuple(getattr(source, "notes", ())),
    )


# Of this process: most sources list the same tools every time. Both keep alive whose id they use.
_by_id: dict[int, tuple[ToolSpec, _Offer]] = {}
_by_text: dict[str, _Offer] = {}
_forms: dict[tuple[int, str, str | None, str], tuple[ToolSpec, ToolSpec]] = {}


def _offer_of(spec: ToolSpec) -> _Offer:
    known = _by_id.get(id(spec))
    if known is not None and known[0] is spec:
        return known[1]
    if max(len(_by_id), len(_by_text), len(_forms)) >= _MOST_OFFERS:
        for kept in (_by_id, _by_text, _forms):
            kept.clear()
    raw = repr(spec)
    offer = _by_text.get(raw)
    if offer is None:
        try:
            schema, repairs = canonical_schema(spec.input_schema, tool=spec.name)
            sound = replace(spec, input_schema=schema)
            offer = _Offer(sound, raw, _told(sound), repairs)
        except InvalidToolError as problem:
            offer = _Offer(replace(spec, name=problem.name), raw, problem=problem)
        _by_text[raw] = offer
    _by_id[id(spec)] = spec, offer
    return offer


def _told(spec: ToolSpec) -> str:
    """Return what a model gets of a tool besides its name, as one text to compare."""
    told = [spec.description, spec.input_schema, spec.is_strict, spec.native_specs]
    return dumps(told, sort_keys=True, default=repr)


def _form(spec: ToolSpec, name: str, own_name: str | None, source: str) -> ToolSpec:
    """Return the tool with other names; the same object each time, so that its counts stay."""
    if (spec.name, spec.own_name, spec.source) == (name, own_name, source):
        return spec
    key = id(spec), name, own_name, source
    known = _forms.get(key)
    if known is None or known[0] is not spec:
        form = replace(spec, name=name, own_name=own_name, source=source)
        known = _forms[key] = spec, form
    return known[1]


class OfferedTools:
    """What all sources offered for one call, before it is settled what each tool is called."""

    def __init__(
        self, answers: Sequence[_Answer], sieve: _Sieve, on_conflict: ConflictPolicy = "rename"
    ) -> None:
        self.answers = sorted(answers, key=lambda answer: answer.rank)
        self.sieve = sieve
        self._on_conflict: ConflictPolicy = on_conflict
        self._fresh: CollectedTools | None = None

    @property
    def key(self) -> object:
        """What the merged tools depend on, besides the names that were learnt and the options."""
        return [(one.rank, one.own_kind, one.problems, one.warnings) for one in self.answers]

    def merge(
        self, learnt: Iterable[ToolSpec] = (), *, begins_anew: BeginsAnew = lambda _: False
    ) -> CollectedTools:
        """Return the tools to offer, sorted by name, and what became of every tool.

        Args:
            learnt: The tools that the model knows in this epoch. Each of them keeps its name as long
                as its source offers it, and no other tool gets one of these names.
            begins_anew: Whether tools can only be declared again: then the names of those that went
                are free, because nothing is left that they could be mistaken for.

        Raises:
            ToolConflictError: Two tools differ under one name, and `on_conflict` is `error`.
        """
        known = list(learnt)
        if not known:
            self._fresh = self._fresh or self._merge([])
            return self._fresh
        collected = self._merge(known)
        names = [tool.name for tool in collected.tools]
        left = [tool for tool in known if tool.name in names]
        if len(left) == len(known):
            return collected
        freed = self._merge(left)
        is_same = [tool.name for tool in freed.tools] == names
        if is_same or not (begins_anew(collected.tools) and begins_anew(freed.tools)):
            return collected
        return freed

    def _merge(self, learnt: Sequence[ToolSpec]) -> CollectedTools:
        return _Merging(self.answers, self.sieve, self._on_conflict, learnt).collected()


class _Candidate(NamedTuple):
    offer: _Offer
    source: str
    is_own: bool

    @property
    def name(self) -> str:
        return self.offer.spec.name


class _Merging:
    """The tools accepted so far, by final name, and the entries and warnings of the report."""

    def __init__(
        self,
        answers: Sequence[_Answer],
        sieve: _Sieve,
        on_conflict: ConflictPolicy,
        learnt: Sequence[ToolSpec],
    ) -> None:
        self._answers, self._sieve, self._on_conflict = answers, sieve, on_conflict
        self._learnt = {tool.name: tool for tool in learnt}
        self._specs: dict[str, ToolSpec] = {}
        self._told: dict[str, str] = {}
        self._own_names: dict[str, ToolSpec] = {}
        self._entries: list[ReportEntry] = []
        self._warnings: list[str] = []

    def collected(self) -> CollectedTools:
        candidates = [one for answer in self._answers for one in self._sift(answer)]
        assigned = self._assign(candidates) if self._learnt else {}
        for at, name in sorted(assigned.items()):
            self._accept_as(name, candidates[at])
        for at, candidate in enumerate(candidates):
            if at not in assigned:
                self._accept_new(candidate)
        known = {offer.spec.name for answer in self._answers for offer in answer.offers}
        known |= self._specs.keys() | self._learnt.keys()
        for name in self._sieve.disabled:
            if name not in known:
                hint = "".join(f" Did you mean {near!r}?" for near in nearest(name, known, count=1))
                unknown = f"disabled_tools names {name!r}, which no source offers.{hint}"
                self._warnings.append(unknown)
        return CollectedTools(
            tools=tuple(self._specs[name] for name in sorted(self._specs)),
            entries=tuple(sorted(self._entries, key=lambda entry: entry.id)),
            warnings=tuple(self._warnings),
        )

    def _sift(self, answer: _Answer) -> Iterator[_Candidate]:
        """Yield the tools that may be offered, with an entry for every other one."""
        self._warnings += answer.warnings
        for problem in answer.problems:
            self._leave_out(problem, answer.source)
        for offer in sorted(answer.offers, key=lambda offer: (offer.spec.name, offer.raw)):
            if objection := self._sieve.objection(offer.spec):
                self._report(offer.spec.name, *objection)
            elif offer.problem is not None:
                self._leave_out(offer.problem, answer.source)
            else:
                yield _Candidate(offer, answer.source, answer.is_own)

    def _assign(self, candidates: Sequence[_Candidate]) -> dict[int, str]:
        """Return the names that candidates are known by already, by the index of the candidate.

        A tool is its source's of that name. If a source offers several under one name, the one that
        reads as before is the one that was. The same tool of another source, which no model could
        tell apart, takes the place of one that went. What an application offers itself is one
        owner's: a function that goes may come back as a literal spec, or as an executor's.
        """
        told = {name: _told(tool) for name, tool in self._learnt.items()}
        by_source: dict[tuple[str, str], list[str]] = {}
        moving: dict[str, list[str]] = {}
        for name, tool in sorted(self._learnt.items()):
            own_name = tool.own_name or name
            by_source.setdefault((tool.source, own_name), []).append(name)
            if not self._stays(tool, own_name):
                moving.setdefault(own_name, []).append(name)

        def unchanged(one: _Candidate) -> Iterable[str]:
            return (name for name in own(one) if told[name] == one.offer.told)

        def own(one: _Candidate) -> Iterable[str]:
            return by_source.get((one.source, one.name), ())

        def equal(one: _Candidate) -> Iterable[str]:
            return [one.name] if told.get(one.name) == one.offer.told else ()

        def moved(one: _Candidate) -> Iterable[str]:
            # Two executors that have names of their own are two owners.
            return (
                name
                for name in (moving.get(one.name, ()) if one.is_own else ())
                if one.source in _OWN_KINDS or self._learnt[name].source in _OWN_KINDS
            )

        assigned: dict[int, str] = {}
        free = set(self._learnt)
        for find in (unchanged, own, equal, moved):
            for at, one in enumerate(candidates):
                found = next((name for name in find(one) if name in free), None)
                if at not in assigned and found is not None:
                    assigned[at] = found
                    free.remove(found)
        return assigned

    def _stays(self, tool: ToolSpec, own_name: str) -> bool:
        """Whether a learnt tool is its source's for good.

        It may move within the application if the source that had it is there without it, or is one
        of those that need no name and is not there at all.
        """
        same = [answer for answer in self._answers if answer.source == tool.source]
        if not same:
            return tool.source not in _OWN_KINDS
        return any(
            not one.is_own
            or one.has_failed
            or any(offer.spec.name == own_name for offer in one.offers)
            or any(problem.name == own_name for problem in one.problems)
            for one in same
        )

    def _accept_as(self, name: str, candidate: _Candidate) -> None:
        """Offer a tool by the name that the model knows it by."""
        if name == candidate.name:
            self._accept(name, candidate)
            return
        owner = self._learnt.get(candidate.name)
        why = "this is the name that the model knows it by"
        if owner is not None:
            why = f"{candidate.name!r} is the name of a different tool of {owner.source}"
        self._accept_renamed(name, candidate, why)

    def _accept_new(self, candidate: _Candidate) -> None:
        """Offer a tool that the model does not know, by its own name unless that is another's."""
        name = candidate.name
        holder = self._specs.get(name)
        owner = holder or self._learnt.get(name)
        if owner is None:
            self._accept(name, candidate)
            return
        if holder is not None and self._told[name] == candidate.offer.told:
            self._report(name, "dropped", "duplicate", f"{owner.source} offers the same tool")
            return
        prefix = re.sub(r"[^A-Za-z0-9_-]+", "_", candidate.source).strip("_") or "other"
        for number in count(1):
            other = f"{prefix}_{name}" if number == 1 else f"{prefix}_{name}_{number}"
            if self._told.get(other) == candidate.offer.told:
                reason = f"{self._specs[other].source} offers it too"
                self._report(other, "dropped", "duplicate", reason)
                return
            if other not in self._specs and other not in self._learnt:
                why = f"{name!r} is the name of a different tool of {owner.source}"
                self._accept_renamed(other, candidate, why)
                return

    def _accept_renamed(self, name: str, candidate: _Candidate, why: str) -> None:
        if name in self._sieve.disabled:
            self._report(name, "dropped", "disabled", "disabled_tools names it")
            return
        self._accept(name, candidate, "name_conflict", why)
        offered = f"Tool {candidate.name!r} of {candidate.source} is offered as {name!r}."
        self._warnings.append(offered)

    def _accept(self, name: str, candidate: _Candidate, rule: str = "", reason: str = "") -> None:
        offer, source = candidate.offer, candidate.source
        other = self._own_names.get(candidate.name) if self._on_conflict == "error" else None
        if other is not None and self._told[other.name] != offer.told:
            raise ToolConflictError(candidate.name, sources=(other.source, source))
        if not rule and offer.repairs:
            rule, reason = "schema", "; ".join(offer.repairs)
        own_name = None if name == candidate.name else candidate.name
        spec = _form(offer.spec, name, own_name, source)
        self._specs[name] = self._own_names[candidate.name] = spec
        self._told[name] = offer.told
        self._report(name, "repaired" if rule else "kept", rule, reason)

    def _report(self, name: str, decision: Decision, rule: str = "", reason: str = "") -> None:
        self._entries.append(ReportEntry("tool", name, decision, reason=reason, rule=rule))

    def _leave_out(self, problem: InvalidToolError, source: str) -> None:
        self._report(problem.name, "dropped", "schema", problem.reason)
        self._warnings.append(f"{problem} (source: {source})")
