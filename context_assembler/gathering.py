"""Everything a context is made from besides the events, collected side by side."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_assembler.cache import CacheKey
from context_assembler.errors import ConfigurationError
from context_assembler.limits import ModelRegistry, lifecycle_warnings
from context_assembler.ports import TokenCounter, ToolSource
from context_assembler.providers import provider_for
from context_assembler.skills import (
    ChosenSkills,
    SkillsText,
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
from context_assembler.tokens import CountOnce, counter_for
from context_assembler.tools import open_tool_sources
from context_assembler.values.draft import Parameters
from context_assembler.values.events import SessionHead
from context_assembler.values.limits import ModelLimits
from context_assembler.values.options import AssembleOptions, Settled
from context_assembler.values.parts import Json
from context_assembler.values.prompt import BootstrapFile, Skill
from context_assembler.values.report import ReportEntry
from context_assembler.values.tools import ToolSpec

if TYPE_CHECKING:
    from context_assembler.config import AssemblerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Everything a context is made from, besides the session's events."""

    session_id: str
    agent_id: str | None
    last_seq: int
    incarnation: str = ""
    settled: Settled
    parameters: Parameters
    limits: ModelLimits
    counter: TokenCounter
    files: Sequence[BootstrapFile] = ()
    tools: tuple[ToolSpec, ...] = ()
    skills: tuple[Skill, ...] = ()
    skills_text: str = ""
    active_skills: tuple[str, ...] = ()
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()
    today: date


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
            timeout_seconds=config.tools.timeout_seconds,
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
        settled, additional = _open_additional_tools(settled)
        wanted = settled.options
        counter = CountOnce(counter_for(limits, mode=self._config.token_counter))
        files, collected, listed = await asyncio.gather(
            self._load_files(agent_id, counter),
            self._collector.collect(wanted, additional=additional),
            list_skills(self._skill_providers),
        )
        settled = validate_tool_choice(settled, collected.tools, provider=provider_for(limits))
        skills, described = self._tell_of(listed.skills, settled, counter)
        today = self._now().date()
        return Gathered(
            session_id=head.session.id,
            incarnation=head.incarnation,
            last_seq=head.last_seq,
            agent_id=agent_id,
            settled=settled,
            parameters=replace(parameters, tool_choice=settled.options.tool_choice),
            limits=limits,
            counter=counter,
            files=files,
            tools=collected.tools,
            skills=skills.skills,
            skills_text=described.text,
            active_skills=described.active,
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
        assert wanted.model is not None, "the resolver insists on one"
        assert wanted.unknown_model is not None, "the system layer gives one"
        limits = self._registry.get(wanted.model, unknown=wanted.unknown_model)
        parameters, settled = validate_for_model(settled, limits)
        return settled, limits, parameters

    def _tell_of(
        self, skills: Iterable[Skill], settled: Settled, counter: TokenCounter
    ) -> tuple[ChosenSkills, SkillsText]:
        options = settled.options
        chosen = choose_skills(
            skills, skip=bool(options.skip_skills), patterns=options.skill_filter
        )
        described = describe_skills(
            chosen.skills,
            max_tokens=self._config.prompt.skills_tokens,
            count_text=counter.count_text,
            active=_named_by_request(settled),
        )
        return chosen, described

    async def _load_files(self, agent_id: str | None, counter: TokenCounter) -> list[BootstrapFile]:
        if self.loader is None:
            return []
        return await self.loader.load(agent_id, count_text=counter.count_text)


def _open_additional_tools(settled: Settled) -> tuple[Settled, list[ToolSource]]:
    """Open the call's own tools; what no caller gave just now is left out if it is none.

    Raises:
        ConfigurationError: The request gives something that is no source of tools.
    """
    try:
        return settled, open_tool_sources(settled.options.additional_tools)
    except ConfigurationError as error:
        layer = settled.layers["additional_tools"]
        if layer == "request":
            raise
        warning = f"additional_tools of the {layer} layer were left out: {error}"
        layers = {name: of for name, of in settled.layers.items() if name != "additional_tools"}
        options = replace(settled.options, additional_tools=None)
        warnings = (*settled.warnings, warning)
        return replace(settled, options=options, layers=layers, warnings=warnings), []


def _named_by_request(settled: Settled) -> tuple[str, ...]:
    """Return the skills that the call itself asks for by name."""
    is_asked = settled.layers.get("skill_filter") == "request"
    return settled.options.skill_filter or () if is_asked else ()


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
        max_file_tokens=settings.max_file_tokens,
        max_total_tokens=settings.max_total_tokens,
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
        gathered.entries,
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
