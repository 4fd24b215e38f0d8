"""Assembling as the facade offers it: gather, load, build, hold against the true count, keep."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from context_assembler.cache import AssemblyCache
from context_assembler.errors import ConfigurationError, ContextOverflowError
from context_assembler.gathered import Gathered
from context_assembler.gathering import Gathering
from context_assembler.history import KeptCounts
from context_assembler.pipeline import ContextPipeline
from context_assembler.ports import SessionStore
from context_assembler.providers import PROVIDERS, other_protocols
from context_assembler.respelling import respell
from context_assembler.sessions import KeptEvents
from context_assembler.simulation import simulate
from context_assembler.stages.forecast_cache import CacheOutlook, answered_calls
from context_assembler.tokens import RemoteCounter, fit_exactly
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import SessionEvent
from context_assembler.values.factors import TokenFactors
from context_assembler.values.readers import has_spoken, route_of
from context_assembler.values.report import CompactionCheck, Report
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
        remote: RemoteCounter | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._sessions = sessions
        self._kept = KeptEvents(sessions)
        self._gathering = gathering
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
        gathered = await self._gather(session_id, agent_id, options)
        gathered_at = time.perf_counter()

        async def make() -> AssembledContext:
            return await self._make(*await self._load(gathered))

        if uses_cache and gathered.incarnation and not gathered.settled.options.fresh:
            context, was_hit = await self._cache.get_or_load(gathered.key, make)
        else:
            context, was_hit = await make(), False
        done = time.perf_counter()
        timings = {"gather": (gathered_at - started) * 1e3, "build": (done - gathered_at) * 1e3}
        return replace(
            context,
            metadata=replace(
                context.metadata, assembly_ms=(done - started) * 1e3, cache_hit=was_hit
            ),
            report=replace(_at(context.report, self._now()), timings_ms=timings),
        )

    async def check_compaction(
        self,
        session_id: str,
        agent_id: str | None,
        options: Mapping[str, Any],
        *,
        is_explicit: bool,
    ) -> CompactionCheck:
        """Return whether a session should be compacted before its next call."""
        gathered, events = await self._load(await self._gather(session_id, agent_id, options))
        gathered = self._gathering.name_tools(gathered, events)
        return self._pipeline.check_compaction(gathered, events, is_explicit=is_explicit)

    async def simulate(
        self,
        session_id: str,
        agent_id: str | None,
        options: Mapping[str, Any],
        *,
        policies: Sequence[CutPolicy],
    ) -> Simulation:
        """Return what every call of a session would have cost, under each policy."""
        gathered, events = await self._load(await self._gather(session_id, agent_id, options))
        gathered = self._gathering.name_tools(gathered, events)
        return await asyncio.to_thread(simulate, self._pipeline, gathered, events, policies)

    async def _make(self, gathered: Gathered, events: Sequence[SessionEvent]) -> AssembledContext:
        gathered = self._gathering.name_tools(gathered, events)

        async def build(factor: float) -> AssembledContext:
            if len(events) < _LONG_HISTORY:
                return self._build(gathered, events, factor)
            return await asyncio.to_thread(self._build, gathered, events, factor)

        if not gathered.settled.options.exact:
            return await build(1.0)
        if self._remote is None:
            raise ConfigurationError(
                "Counting exactly needs a client of the provider's SDK.",
                remedy="Pass clients=[anthropic.Anthropic()] or the like, or leave out exact=True.",
            )
        fit = await fit_exactly(build, remote=self._remote)
        context = fit.context
        counted = None if fit.counted is None else fit.counted.tokens
        ledger = replace(context.metadata.ledger, counted_tokens=counted)
        return replace(
            context,
            metadata=replace(context.metadata, ledger=ledger),
            report=replace(
                context.report,
                ledger=ledger,
                warnings=(*context.report.warnings, *fit.warnings),
            ),
        )

    def _build(
        self, gathered: Gathered, events: Sequence[SessionEvent], factor: float
    ) -> AssembledContext:
        """Return the context, with those for the model's other protocols that the session has spoken.

        Another protocol takes back what the usual one cannot; so it is counted and cut by itself.
        """
        context = self._build_one(gathered.scaled(factor), events)
        others: dict[str, AssembledContext] = {}
        warnings = list(context.report.warnings)
        for protocol in other_protocols(gathered.limits):
            if not has_spoken(protocol, events):
                continue
            other = self._gathering.over(gathered, protocol).scaled(factor)
            try:
                others[protocol] = self._build_one(other, events)
            except ContextOverflowError as error:
                warnings.append(f"Over {protocol} no reasoning is sent either: {error.problem}")
        report = replace(context.report, warnings=tuple(warnings))
        respells = partial(
            respell,
            mode=self._gathering.counting_mode,
            corrections=(TokenFactors(current=factor), gathered.factors(events)),
        )
        return replace(context, report=report, others=others, respell=respells)

    def _build_one(self, gathered: Gathered, events: Sequence[SessionEvent]) -> AssembledContext:
        context = gathered.make_room(partial(self._pipeline.build, events=events))
        counter = gathered.following(events).counter
        outlook = CacheOutlook(
            draft=context.draft,
            protocol=context.provider,
            message_tokens=tuple(map(counter.count_message, context.messages)),
            total_tokens=context.report.ledger.used_tokens,
            fingerprints=PROVIDERS[context.provider].fingerprints,
            calls=answered_calls(events),
            account=route_of(gathered.limits, account=self._pipeline.account),
            epoch=context.epoch,
            epoch_before=context.epoch_before,
            entries=context.report.entries,
            today=gathered.today,
        )
        return replace(context, report=replace(context.report, outlook=outlook))

    async def _gather(
        self, session_id: str, agent_id: str | None, options: Mapping[str, Any]
    ) -> Gathered:
        head = await self._sessions.head(session_id)
        return await self._gathering.gather(head, agent_id=agent_id, options=options)

    def forget(self, session_id: str | None) -> None:
        """Let go of what is kept of the session's events, or of all."""
        self._kept.forget(session_id)

    async def _load(self, gathered: Gathered) -> tuple[Gathered, Sequence[SessionEvent]]:
        """Return the events up to the one that was last when gathering began, and what they made."""
        log = await self._kept.load(gathered.session_id, until_seq=gathered.last_seq)
        counter = KeptCounts(gathered.counter, derived=log.derived, event_count=len(log.events))
        return replace(gathered, counter=counter, derived=log.derived), log.events


def _at(report: Report, now: datetime) -> Report:
    """Return the report of a call that is made at this time."""
    return report if report.outlook is None else replace(report, outlook=report.outlook.at(now))
