"""Everything a context is made from besides the events, collected side by side."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_assembler.cache import CacheKey
from context_assembler.limits import ModelRegistry, lifecycle_warnings
from context_assembler.pipeline import Gathered
from context_assembler.skills import (
    choose_skills,
    describe_skills,
    list_skills,
    open_skill_providers,
)
from context_assembler.stages.collect_tools import ToolCollector
from context_assembler.stages.load_bootstrap import BootstrapLoader
from context_assembler.stages.resolve_defaults import (
    DefaultsResolver,
    validate_for_model,
    validate_tool_choice,
)
from context_assembler.tokens import counter_for
from context_assembler.tools import open_tool_sources
from context_assembler.values.draft import Parameters
from context_assembler.values.events import SessionHead
from context_assembler.values.limits import ModelLimits
from context_assembler.values.options import AssembleOptions, Settled
from context_assembler.values.parts import Json
from context_assembler.values.prompt import BootstrapFile

if TYPE_CHECKING:
    from context_assembler.config import AssemblerConfig


class Gathering:
    """Asks settings, registry, files, tools and skills what holds for one call."""

    def __init__(
        self,
        *,
        bootstrap: str | Path | BootstrapLoader | None,
        tools: Any,
        skills: Any,
        config: "AssemblerConfig",
        registry: ModelRegistry,
        now: Callable[[], datetime],
    ) -> None:
        self.loader = _open_loader(bootstrap, config)
        self._collector = ToolCollector(
            open_tool_sources(tools),
            include=config.tools.include,
            exclude=config.tools.exclude,
            on_conflict=config.on_tool_conflict,
        )
        self._skill_providers = open_skill_providers(skills)
        self._resolver = DefaultsResolver(_system_layer(config))
        self._config = config
        self._registry = registry
        self._now = now

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
        settled, limits, parameters = self._settle(head, agent_id, options)
        wanted = settled.options
        files, collected, listed = await asyncio.gather(
            self._load_files(agent_id),
            self._collector.collect(wanted, additional=open_tool_sources(wanted.additional_tools)),
            list_skills(self._skill_providers),
        )
        settled = validate_tool_choice(settled, collected.tools)
        skills = choose_skills(
            listed.skills, skip=bool(wanted.skip_skills), patterns=wanted.skill_filter
        )
        described = describe_skills(skills.skills, max_chars=self._config.prompt.skills_chars)
        today = self._now().date()
        return Gathered(
            session_id=head.session.id,
            incarnation=head.incarnation,
            last_seq=head.last_seq,
            agent_id=agent_id,
            settled=settled,
            parameters=replace(parameters, tool_choice=settled.options.tool_choice),
            limits=limits,
            counter=counter_for(limits, mode=self._config.token_counter),
            files=files,
            tools=collected.tools,
            skills=skills.skills,
            skills_text=described.text,
            entries=(*skills.entries, *described.entries, *collected.entries),
            warnings=(
                *lifecycle_warnings(limits, today),
                *listed.warnings,
                *skills.warnings,
                *collected.warnings,
                *_unused(wanted),
            ),
            today=today,
        )

    def _settle(
        self, head: SessionHead, agent_id: str | None, options: Mapping[str, Any]
    ) -> tuple[Settled, ModelLimits, Parameters]:
        settled = self._resolver.resolve(
            options,
            session=head.session.defaults,
            agent=self._config.agents.get(agent_id or ""),
        )
        wanted = settled.options
        limits = self._registry.get(wanted.model or "", unknown=wanted.unknown_model or "error")
        parameters, settled = validate_for_model(settled, limits)
        return settled, limits, parameters

    async def _load_files(self, agent_id: str | None) -> list[BootstrapFile]:
        return await self.loader.load(agent_id) if self.loader is not None else []


def _unused(options: AssembleOptions) -> list[str]:
    return ["query was given, but no memory is configured to recall from."] if options.query else []


def _open_loader(
    bootstrap: str | Path | BootstrapLoader | None, config: "AssemblerConfig"
) -> BootstrapLoader | None:
    """Return the loader; a folder in the settings counts where none is given here."""
    if isinstance(bootstrap, BootstrapLoader):
        return bootstrap
    settings = config.bootstrap
    if bootstrap is None and "folder" not in settings.model_fields_set:
        return None
    return BootstrapLoader(
        config.bootstrap_folder if bootstrap is None else bootstrap,
        agent_names=settings.agent_names,
        searches_upward=settings.searches_upward,
        max_file_chars=settings.max_file_chars,
        max_total_chars=settings.max_total_chars,
        ttl_seconds=settings.ttl_seconds,
    )


def _system_layer(config: "AssemblerConfig") -> AssembleOptions:
    """Return the lowest layer: the configured defaults over the settings of the parts."""
    parts: dict[str, Json] = {
        "truncation_strategy": config.truncation.strategy,
        "window_turns": config.truncation.window_turns,
        "cache_stable": config.truncation.cache_stable,
        "on_overflow": config.truncation.on_overflow,
        "unknown_model": config.unknown_model,
        "cache": "auto",
    }
    given = config.defaults
    return replace(given, **{k: v for k, v in parts.items() if getattr(given, k) is None})


def key_of(gathered: Gathered) -> CacheKey:
    """Return the key of everything the context depends on.

    A session's events are append-only, so the last sequence number stands for all of them; a session
    deleted and begun again is another incarnation.
    """
    made_from = (
        gathered.incarnation,
        gathered.settled,
        gathered.limits,
        [(file.path, file.state, file.fingerprint) for file in gathered.files],
        gathered.tools,
        gathered.skills_text,
        gathered.warnings,
        gathered.today,
    )
    fingerprint = blake2b(repr(made_from).encode("utf-8", "surrogatepass"), digest_size=16)
    return CacheKey(
        session_id=gathered.session_id,
        last_seq=gathered.last_seq,
        agent_id=gathered.agent_id,
        fingerprint=fingerprint.hexdigest(),
    )
