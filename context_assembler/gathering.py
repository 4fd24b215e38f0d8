"""Everything a context is made from besides the events, collected side by side."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_assembler.gathered import Gathered
from context_assembler.limits import ModelRegistry, lifecycle_warnings
from context_assembler.opened_parts import (
    open_additional_tools,
    open_loader,
    system_layer,
    warner_of_settings,
)
from context_assembler.ports import CalibrationStore, TokenCounter, ToolSource
from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.recollection import MemoryArgument, Recollection
from context_assembler.skills import SkillTeller, ToldSkills, open_skill_providers
from context_assembler.stages.collect_tools import OfferedTools, ToolCollector
from context_assembler.stages.resolve_defaults import (
    DefaultsResolver,
    validate_for_model,
    validate_tool_choice,
)
from context_assembler.stages.resolve_defaults.settling import CallSettler
from context_assembler.stages.settle_tools import ToolSettler, learnt_tools
from context_assembler.sync import close_all
from context_assembler.tokens import CountingMode, counter_for
from context_assembler.tokens.bpe import load_early
from context_assembler.tools import open_skill_tools, open_tool_sources
from context_assembler.values.calibration import (
    Calibration,
    UsageObservation,
    counter_id,
    factor_for,
)
from context_assembler.values.events import SessionEvent, SessionHead
from context_assembler.values.limits import ModelLimits
from context_assembler.values.options import Settled
from context_assembler.values.prompt import BootstrapFile

if TYPE_CHECKING:
    from context_assembler.config import AssemblerConfig
    from context_assembler.stages.load_bootstrap import BootstrapLoader


class Gathering:
    """Asks settings, registry, files, tools and skills what holds for one call."""

    def __init__(
        self,
        *,
        bootstrap: "str | Path | BootstrapLoader | None",
        tools: Any,
        skills: Any,
        memory: MemoryArgument,
        config: "AssemblerConfig",
        registry: ModelRegistry,
        now: Callable[[], datetime],
        calibrations: CalibrationStore | None = None,
        section_names: Iterable[str] = (),
    ) -> None:
        self.loader = open_loader(bootstrap, config)
        self.recollection = Recollection(
            memory, config=config, now=now, section_names=section_names
        )
        self._collector = ToolCollector(
            open_tool_sources(tools),
            include=config.tools.include,
            exclude=config.tools.exclude,
            on_conflict=config.on_tool_conflict,
            timeout_seconds=config.tools.timeout_seconds,
            now=now,
        )
        self._skills = SkillTeller(
            open_skill_providers(config.skill_folders if skills is None else skills),
            max_tokens=config.prompt.skills_tokens,
            timeout_seconds=config.tools.timeout_seconds,
            masks_secrets="files" in config.safety.masks_secrets_in,
            now=now,
        )
        self._tool_settler = ToolSettler(
            policy=config.tools.changes, defers_above=config.tools.defers_above
        )
        has_memory = self.recollection.is_there
        self._resolver = DefaultsResolver(system_layer(config, has_memory=has_memory))
        self._config = config
        self._warn = warner_of_settings(config)
        self._settler = CallSettler(
            resolve=self._resolve, find_limits=registry.get, validate=validate_for_model
        )
        self._now = now
        self._calibrations = calibrations if config.calibrates_tokens else None

    async def gather(
        self, head: SessionHead, *, agent_id: str | None, options: Mapping[str, Any]
    ) -> Gathered:
        """Return what holds for the next call of a session.

        Raises:
            UnknownOptionError: An option does not exist.
            InvalidParameterError: The model rejects a value given in the request.
            UnknownModelError: Nothing is known about the model.
            UnsafePathError: The agent id is no plain name.
        """
        agent_id = agent_id or head.session.agent_id
        settled, limits, parameters = self._settler.settle(
            options, session=head.session.defaults, agent_id=agent_id
        )
        settled, additional = open_additional_tools(settled)
        counter = self._counter_for(limits)
        files, (told, offered), calibrations, recalled = await asyncio.gather(
            self._load_files(agent_id, counter),
            self._collect(settled, additional, agent_id=agent_id, counter=counter),
            self._load_calibrations(),
            self.recollection.note_for(settled.options, limits, parameters, counter=counter),
        )
        today = self._now().date()
        return Gathered(
            session_id=head.session.id,
            incarnation=head.incarnation,
            last_mark=head.last_mark,
            last_seq=head.last_seq,
            agent_id=agent_id,
            settled=settled,
            parameters=parameters,
            limits=limits,
            counter=counter,
            token_factor=_factor(calibrations, limits, counter, offered=offered),
            files=files,
            offered=offered,
            skills=told.skills,
            skills_text=told.text,
            active_skills=told.active,
            entries=(*told.entries, *recalled.entries),
            warnings=(
                *self._warn(agent_id),
                *lifecycle_warnings(limits, today),
                *told.warnings,
                *recalled.warnings,
            ),
            recalled=recalled.sections,
            today=today,
        )

    def still_holds(self, gathered: Gathered) -> bool:
        """Whether the same would be gathered again but for the session, told without asking.

        Only what is known to stay counts: files, skills, memories and servers have to be asked.
        """
        options = gathered.settled.options
        return (
            self.loader is None
            and self._collector.is_constant
            and self._skills.is_constant
            and options.query is None
            and not options.additional_tools
            and self._settler.still_knows(options, gathered.limits)
            and gathered.today == self._now().date()
        )

    async def further(self, gathered: Gathered, head: SessionHead) -> Gathered:
        """Return the same for a session that has grown, where all that was asked still holds."""
        factor = _factor(
            await self._load_calibrations(),
            gathered.limits,
            gathered.counter,
            offered=gathered.offered,
        )
        return gathered.further(head, token_factor=factor)

    def name_tools(self, gathered: Gathered, events: Sequence[SessionEvent]) -> Gathered:
        """Return the same with its tools, by the names that the model knows them by.

        Args:
            events: The session's, in the order of the store.

        Raises:
            InvalidParameterError: The request forces a tool, or any tool, that is not there.
            ToolConflictError: Two tools differ under one name, and the settings do not let one of
                them be renamed.
        """
        protocol = provider_for(gathered.limits)
        begins_anew = partial(
            self._tool_settler.begins_anew,
            events=events,
            provider=PROVIDERS[protocol],
            limits=gathered.limits,
            choice=gathered.parameters.tool_choice,
        )
        collected = gathered.offered.merge(learnt_tools(events), begins_anew=begins_anew)
        settled = validate_tool_choice(gathered.settled, collected.tools, provider=protocol)
        choice = settled.options.tool_choice
        return replace(
            gathered,
            settled=settled,
            parameters=replace(gathered.parameters, tool_choice=choice),
            tools=collected.tools,
            entries=(*gathered.entries, *collected.entries),
            warnings=(*gathered.warnings, *collected.warnings),
        )

    def over(self, gathered: Gathered, protocol: str) -> Gathered:
        """Return the same for a call over another of the model's protocols."""
        limits = replace(gathered.limits, protocol=protocol)
        return replace(gathered, limits=limits, counter=self._counter_for(limits))

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None, None]:
        """Watch the bootstrap folder while entered."""
        if self.loader is None:
            yield
            return
        from context_assembler.watch import FolderWatch  # noqa: PLC0415 - only with files

        async with FolderWatch(self.loader.watched_folders, self.loader.invalidate):
            yield

    def forget_files(self) -> None:
        """Let go of what was read of instruction files."""
        if self.loader is not None:
            self.loader.invalidate()

    async def close(self) -> None:
        """Let go of the sources' connections, and of memory that was opened here."""
        await close_all(self._collector.close, self.recollection.close)

    async def learn(self, observe: Callable[[CountingMode], UsageObservation | None]) -> None:
        """Learn from a call's usage, unless the settings say not to or it is not comparable."""
        if self._calibrations is not None and (seen := observe(self.counting_mode)):
            await self._calibrations.observe_usage(seen)

    @property
    def counting_mode(self) -> CountingMode:
        """How tokens are counted."""
        return self._config.token_counter

    def _counter_for(self, limits: ModelLimits) -> TokenCounter:
        mode = self.counting_mode
        counter = counter_for(limits, mode=mode, protocol=provider_for(limits))
        if counter.is_exact:
            load_early(counter.name)  # while the session is read
        return counter

    async def _load_calibrations(self) -> Sequence[Calibration]:
        return () if self._calibrations is None else await self._calibrations.calibrations()

    def _resolve(
        self,
        options: Mapping[str, Any],
        session: Mapping[str, Any] | None,
        agent_id: str | None,
    ) -> Settled:
        agent = self._config.agents.get(agent_id or "")
        return self._resolver.resolve(options, session=session, agent=agent)

    async def _collect(
        self,
        settled: Settled,
        additional: Sequence[ToolSource],
        *,
        agent_id: str | None,
        counter: TokenCounter,
    ) -> tuple[ToldSkills, OfferedTools]:
        """Ask for skills, then for tools, since active skills bring some."""
        has_skills = self._config.prompt.has_section("skills", agent_id=agent_id)
        reason = None if has_skills else f"the agent {agent_id!r} does not inherit them"
        told = await self._skills.tell(settled, counter=counter, skip_reason=reason)
        offered = await self._collector.ask(
            settled.options, additional=additional, skills=open_skill_tools(told.with_tools)
        )
        return told, offered

    async def _load_files(self, agent_id: str | None, counter: TokenCounter) -> list[BootstrapFile]:
        if self.loader is None:
            return []
        return await self.loader.load(agent_id, count_text=counter.count_text)


def _factor(
    calibrations: Sequence[Calibration],
    limits: ModelLimits,
    counter: TokenCounter,
    *,
    offered: OfferedTools,
) -> float:
    if not calibrations:
        return 1.0  # to merge the tools takes longer than all else that is gathered
    return factor_for(
        calibrations,
        provider=provider_for(limits),
        model=limits.id,
        shape="tools" if offered.merge().tools else "text",
        counter=counter_id(counter.name),
    )
