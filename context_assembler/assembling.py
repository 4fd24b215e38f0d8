"""Assembling as the facade offers it: gather, load, build, hold against the true count, keep."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from context_assembler.cache import AssemblyCache
from context_assembler.continuing import find_step, keep_step, leave_step
from context_assembler.errors import ConfigurationError, ContextOverflowError
from context_assembler.gathered import Gathered
from context_assembler.gathered_before import GatheredBefore
from context_assembler.gathering import Gathering
from context_assembler.history import KeptCounts
from context_assembler.last_sent import outlook_of
from context_assembler.pipeline import ContextPipeline
from context_assembler.ports import SessionStore
from context_assembler.providers import other_protocols
from context_assembler.sessions import CountsAtRest, KeptEvents
from context_assembler.shaped import Made
from context_assembler.stages.forecast_cache import CacheOutlook
from context_assembler.tokens import CountingMode
from context_assembler.values.answered_calls import answered_calls
from context_assembler.values.changing import changed
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import SessionEvent
from context_assembler.values.factors import TokenFactors
from context_assembler.values.given import check_type
from context_assembler.values.readers import has_spoken
from context_assembler.values.report import CompactionCheck, Report
from context_assembler.values.summaries import is_sealed

if TYPE_CHECKING:
    from context_assembler.respelling.remade import Remake
    from context_assembler.tokens import RemoteCounter
    from context_assembler.values.simulations import CutPolicy, Simulation

# From here on building takes longer than other tasks of the event loop should wait.
_LONG_HISTORY: Final = 200


class Assembling:
    """Makes contexts, each at most once while nothing that it depends on changes."""

    def __init__(
        self,
        *,
        sessions: SessionStore,
        gathering: Gathering,
        pipeline: ContextPipeline,
        cache: AssemblyCache[AssembledContext],
        max_kept_bytes: int,
        remote: "RemoteCounter | None" = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._sessions = sessions
        self._kept = KeptEvents(sessions, max_bytes=max_kept_bytes)
        self.load_log = self._kept.load
        self._counts = CountsAtRest(sessions)
        self._gathering = gathering
        self._before = GatheredBefore(sessions, gathering)
        self._pipeline = pipeline
        self._cache = cache
        self._remote = remote
        self._now = now or partial(datetime.now, UTC)

    async def assemble(
        self,
        session_id: str,
        agent_id: str | None,
        options: Mapping[str, Any],
        *,
        uses_cache: bool = True,
    ) -> AssembledContext:
        """Return the next request of a session; see `ContextAssembler.assemble`."""
        started = time.perf_counter()
        gathered = await self._before.gather(session_id, agent_id, options)
        gathered_at = time.perf_counter()

        async def make() -> AssembledContext:
            loaded, events = await self._load(gathered)
            context = await self._make(loaded, events)
            await self._counts.leave(
                gathered.session_id,
                counter=gathered.counter,
                derived=loaded.derived or {},
                incarnation=gathered.incarnation,
            )
            return context

        if uses_cache and gathered.incarnation and not gathered.settled.options.fresh:
            context, was_hit = await self._cache.get_or_load(gathered.key, make)
        else:
            context, was_hit = await make(), False
        done = time.perf_counter()
        timings = {"gather": (gathered_at - started) * 1e3, "build": (done - gathered_at) * 1e3}
        return changed(
            context,
            metadata=changed(
                context.metadata, assembly_ms=(done - started) * 1e3, cache_hit=was_hit
            ),
            report=changed(_at(context.report, self._now()), timings_ms=timings),
        )

    async def check(
        self,
        session_id: str,
        agent_id: str | None,
        options: Mapping[str, Any],
        *,
        is_explicit: bool,
    ) -> CompactionCheck:
        """Return whether a session should be compacted before its next call."""
        gathered, events = await self._load(
            await self._before.gather(session_id, agent_id, options)
        )
        gathered = self._gathering.name_tools(gathered, events)
        return self._pipeline.check_compaction(gathered, events, is_explicit=is_explicit)

    async def simulate(
        self,
        session_id: str,
        agent_id: str | None,
        options: Mapping[str, Any],
        *,
        policies: "Iterable[CutPolicy] | None",
    ) -> "Simulation":
        """Return what every call of a session would have cost, under each policy."""
        gathered, events = await self._load(
            await self._before.gather(session_id, agent_id, options)
        )
        gathered = self._gathering.name_tools(gathered, events)
        from context_assembler.simulation import checked_policies, simulate  # noqa: PLC0415 - no request needs it

        given = checked_policies(policies)
        return await asyncio.to_thread(simulate, self._pipeline, gathered, events, given)

    async def _make(self, gathered: Gathered, events: Sequence[SessionEvent]) -> AssembledContext:
        if (context := self._go_on(gathered, events)) is not None:
            return context
        asked, gathered = gathered, self._gathering.name_tools(gathered, events)

        async def build(factor: float) -> AssembledContext:
            build_it = partial(self._build, gathered, events, factor, asked=asked)
            return build_it() if len(events) < _LONG_HISTORY else await asyncio.to_thread(build_it)

        if not gathered.settled.options.exact:
            return await build(1.0)
        if self._remote is None:
            raise ConfigurationError(
                "Counting exactly needs a client of the provider's SDK.",
                remedy="Pass clients=[anthropic.Anthropic()] or the like, or leave out exact=True.",
            )
        from context_assembler.tokens import fit_exactly  # noqa: PLC0415 - only with clients

        fit = await fit_exactly(build, remote=self._remote)
        context = fit.context
        counted = None if fit.counted is None else fit.counted.tokens
        ledger = changed(context.metadata.ledger, counted_tokens=counted)
        return changed(
            context,
            metadata=changed(context.metadata, ledger=ledger),
            report=changed(
                context.report,
                ledger=ledger,
                warnings=(*context.report.warnings, *fit.warnings),
            ),
        )

    def _go_on(self, gathered: Gathered, events: Sequence[SessionEvent]) -> AssembledContext | None:
        """Return the last context of the session with what is new behind it, if that is all."""
        last = None if gathered.settled.options.exact else find_step(gathered)
        if last is None:
            return None
        from context_assembler.continuing import go_on  # noqa: PLC0415 - a first step needs none

        if (step := go_on(last, gathered, events, pipeline=self._pipeline)) is None:
            return None
        leave_step(gathered, step)
        return self._finish(
            step.context,
            outlook=outlook_of(step.made, step.message_tokens, step.calls, pipeline=self._pipeline),
            corrections=(TokenFactors(), step.factors),
            remake=partial(self._remake, gathered, events, 1.0) if step.is_sealed else None,
        )

    def _build(
        self, gathered: Gathered, events: Sequence[SessionEvent], factor: float, *, asked: Gathered
    ) -> AssembledContext:
        """Return the context, with those for the model's other protocols that the session has spoken.

        Another protocol takes back what the usual one cannot; so it is counted and cut by itself.

        Args:
            asked: What was gathered before any event was read.
        """
        spoken = [one for one in other_protocols(gathered.limits) if has_spoken(one, events)]
        made = gathered.scaled(factor).make_room(partial(self._pipeline.make, events=events))
        step = None
        if not spoken and not gathered.settled.options.exact:
            step = keep_step(made, asked=asked, events=events, pipeline=self._pipeline)
        leave_step(asked, step)
        others: dict[str, AssembledContext] = {}
        warnings = list(made.context.report.warnings)
        for protocol in spoken:
            other = self._gathering.over(gathered, protocol).scaled(factor)
            try:
                others[protocol] = self._build_other(other, events)
            except ContextOverflowError as error:
                warnings.append(f"Over {protocol} no reasoning is sent either: {error.problem}")
        context = made.context
        remakes = partial(self._remake, asked, events, factor)
        return self._finish(
            changed(
                context,
                report=changed(context.report, warnings=tuple(warnings)),
                others=others,
            ),
            outlook=self._outlook_over(made, events),
            corrections=(TokenFactors(current=factor), gathered.factors(events)),
            remake=remakes if is_sealed(context.messages) else None,
        )

    def _remake(
        self, asked: Gathered, events: Sequence[SessionEvent], factor: float, protocol: str
    ) -> AssembledContext:
        """Return the context for a provider that is sent what only another one could read."""
        named = self._gathering.name_tools(changed(asked, derived=None), events)
        gathered = self._gathering.over(named, protocol).scaled(factor)
        return gathered.make_room(partial(self._pipeline.make, events=events)).context

    def _build_other(self, gathered: Gathered, events: Sequence[SessionEvent]) -> AssembledContext:
        made = gathered.make_room(partial(self._pipeline.make, events=events))
        outlook = self._outlook_over(made, events)
        return changed(made.context, report=changed(made.context.report, outlook=outlook))

    def _finish(
        self,
        context: AssembledContext,
        *,
        outlook: CacheOutlook,
        corrections: tuple[TokenFactors, TokenFactors],
        remake: "Remake | None",
    ) -> AssembledContext:
        spell = partial(_respell, mode=self._gathering.counting_mode, corrections=corrections)
        report = changed(context.report, outlook=outlook)
        context = changed(context, report=report, respell=spell)
        if remake is None:
            return context
        from context_assembler.respelling.remade import Remade  # noqa: PLC0415 - seldom needed

        return changed(context, respell=Remade(context.provider, spell=spell, remake=remake))

    def _outlook_over(self, made: Made, events: Sequence[SessionEvent]) -> CacheOutlook:
        tokens = tuple(map(made.way.counter.count_message, made.context.messages))
        return outlook_of(made, tokens, answered_calls(events), pipeline=self._pipeline)

    def forget(self, session_id: str | None) -> int:
        """Let go of what is kept of a session, or of all; see `ContextAssembler.invalidate_cache`."""
        such_as = "the session's id, or nothing"
        check_type("session_id", session_id, str, type(None), such_as=such_as)
        self._kept.forget(session_id)
        if session_id is None:
            self._gathering.forget_files()
        return self._cache.invalidate(session_id)

    async def _load(self, gathered: Gathered) -> tuple[Gathered, Sequence[SessionEvent]]:
        """Return the events up to the one that was last when gathering began, and what they made."""
        log = await self._kept.load(gathered.session_id, until_seq=gathered.last_seq)
        await self._counts.fetch(
            gathered.session_id,
            counter=gathered.counter,
            derived=log.derived,
            events=log.events,
        )
        counter = KeptCounts(gathered.counter, derived=log.derived, event_count=len(log.events))
        return changed(gathered, counter=counter, derived=log.derived), log.events


def _respell(
    context: AssembledContext,
    provider: str,
    *,
    mode: CountingMode,
    corrections: Sequence[TokenFactors],
) -> AssembledContext:
    # Most contexts are spelled for the model's own provider alone.
    from context_assembler.respelling import respell  # noqa: PLC0415

    return respell(context, provider, mode=mode, corrections=corrections)


def _at(report: Report, now: datetime) -> Report:
    """Return the report of a call that is made at this time."""
    return report if report.outlook is None else changed(report, outlook=report.outlook.at(now))
