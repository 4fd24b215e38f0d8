"""What an assembler of requests is given, made usable: files, tools, options, room to keep things."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_assembler.cache import AssemblyCache
from context_assembler.errors import ConfigurationError, is_misspelt, nearest
from context_assembler.limits import ModelRegistry, default_registry
from context_assembler.ports import ToolSource
from context_assembler.tools import open_tool_sources
from context_assembler.values.context import AssembledContext
from context_assembler.values.context_sizes import size_in_memory
from context_assembler.values.given import check_callable, check_type, listed
from context_assembler.values.options import AssembleOptions, Settled
from context_assembler.values.parts import Json
from context_assembler.values.prompt import PromptSection

if TYPE_CHECKING:
    from context_assembler.config import AssemblerConfig
    from context_assembler.config.tables import CacheSettings
    from context_assembler.stages.load_bootstrap import BootstrapLoader
    from context_assembler.tokens import RemoteCounter


def read_settings(given: "AssemblerConfig | None" = None) -> "AssemblerConfig":
    """Return what is given, or the settings of the environment and the configuration files.

    Raises:
        InvalidParameterError: What is given is no settings.
    """
    from context_assembler.config import AssemblerConfig  # noqa: PLC0415 - slow to import

    if given is None:
        return AssemblerConfig()
    check_type("config", given, AssemblerConfig, such_as="AssemblerConfig(…), or leave it out")
    return given


def open_registry(given: ModelRegistry | None) -> ModelRegistry:
    """Return what is known about models; the default registry where none is given.

    Raises:
        InvalidParameterError: What is given is no registry.
    """
    if given is None:
        return default_registry()
    check_type("registry", given, ModelRegistry, such_as="ModelRegistry(…), or leave it out")
    return given


def open_clock(given: Callable[[], datetime] | None) -> Callable[[], datetime]:
    """Return what tells the time; the system's clock where none is given.

    Raises:
        InvalidParameterError: What is given cannot be called.
    """
    if given is None:
        return partial(datetime.now, UTC)
    check_callable("now", given, such_as="a function that returns a datetime with a time zone")
    return given


def listed_sections(given: Iterable[PromptSection]) -> tuple[PromptSection, ...]:
    """Return the application's own sections of the system prompt.

    Raises:
        InvalidParameterError: Something among them is none.
    """
    such_as = "[PromptSection(name='…', content='…'), …]"
    return listed("prompt_sections", given, PromptSection, such_as=such_as)


def open_cache(settings: "CacheSettings") -> AssemblyCache[AssembledContext]:
    """Return the cache of finished contexts."""
    return AssemblyCache(
        max_entries=settings.max_entries,
        ttl_seconds=settings.ttl_seconds,
        max_bytes=settings.contexts_bytes,
        size_of=size_in_memory,
    )


def open_remote(clients: Mapping[str, Any] | Iterable[Any] | None) -> "RemoteCounter | None":
    """Return what asks these SDK clients for true counts; nothing where none are given."""
    if clients is None:
        return None
    from context_assembler.tokens import RemoteCounter  # noqa: PLC0415 - only with clients

    return RemoteCounter(clients)


def open_additional_tools(settled: Settled) -> tuple[Settled, list[ToolSource]]:
    """Open the call's own tools; what no caller gave just now is left out if it is none.

    Raises:
        ConfigurationError: The request gives something that is no source of tools.
    """
    try:
        given = settled.options.additional_tools
        return settled, open_tool_sources(given, starts_servers=False)
    except ConfigurationError as error:
        layer = settled.layers["additional_tools"]
        if layer == "request":
            raise
        warning = f"additional_tools of the {layer} layer were left out: {error}"
        layers = {name: of for name, of in settled.layers.items() if name != "additional_tools"}
        options = replace(settled.options, additional_tools=None)
        warnings = (*settled.warnings, warning)
        return replace(settled, options=options, layers=layers, warnings=warnings), []


def open_loader(
    bootstrap: "str | Path | BootstrapLoader | None", config: "AssemblerConfig"
) -> "BootstrapLoader | None":
    """Return the loader; a folder in the settings counts where none is given here."""
    settings = config.bootstrap
    if bootstrap is None and "folder" not in settings.model_fields_set:
        return None
    from context_assembler.stages.load_bootstrap import BootstrapLoader  # noqa: PLC0415 - only with files

    if isinstance(bootstrap, BootstrapLoader):
        return bootstrap
    return BootstrapLoader(
        config.bootstrap_folder if bootstrap is None else bootstrap,
        agent_names=settings.agent_names,
        searches_upward=settings.searches_upward,
        max_file_tokens=settings.max_file_tokens,
        max_total_tokens=settings.max_total_tokens,
        ttl_seconds=settings.ttl_seconds,
        masks_secrets="files" in config.safety.masks_secrets_in,
    )


def warner_of_settings(config: "AssemblerConfig") -> Callable[[str | None], Iterator[str]]:
    """Return what yields the warnings of the settings for a call of an agent."""
    of_all = (*_warn_of_folder(config), *_warn_of_variables(config))
    return lambda agent_id: chain(of_all, _warn_of_agent(config, agent_id))


def _warn_of_agent(config: "AssemblerConfig", agent_id: str | None) -> Iterator[str]:
    """Yield a warning if the agent's name is nearly that of one with settings, and has none."""
    known = config.agents.keys() | config.prompt.inherits.keys()
    if agent_id and is_misspelt(agent_id, known):
        yield (
            f"Nothing is set for the agent {agent_id!r}, so it is as free as one without settings. "
            f"Did you mean {nearest(agent_id, known, count=1)[0]!r}?"
        )


def _warn_of_folder(config: "AssemblerConfig") -> Iterator[str]:
    """Yield a warning if the folder that settings are to be read from is not there."""
    if "folder" in config.model_fields_set and not os.path.isdir(config.folder):  # noqa: PTH112 - `Path.is_dir` raises for some
        yield (
            f"No settings were read from files: {config.folder.absolute()} is no folder. "
            "Correct AssemblerConfig(folder=…) or CONTEXT_ASSEMBLER_FOLDER."
        )


def _warn_of_variables(config: "AssemblerConfig") -> Iterator[str]:
    """Yield a warning for each variable that is spelled like a setting's, and is none."""
    from context_assembler.config.environment import unread_variables  # noqa: PLC0415 - as above

    for variable in unread_variables(type(config)):
        yield (
            f"Nothing reads the environment variable {variable}. "
            f"Known settings: {', '.join(sorted(type(config).model_fields))}."
        )


def system_layer(config: "AssemblerConfig", *, has_memory: bool) -> AssembleOptions:
    """Return the lowest layer: the configured defaults over the settings of the parts."""
    parts: dict[str, Json] = {
        "truncation_strategy": config.truncation.strategy,
        "window_turns": config.truncation.window_turns,
        "cache_stable": config.truncation.cache_stable,
        "on_overflow": config.truncation.on_overflow,
        "unknown_model": config.unknown_model,
        "cache": "auto",
        "recall_tokens": config.memory.max_tokens if has_memory else None,
    }
    given = config.defaults
    return replace(given, **{k: v for k, v in parts.items() if getattr(given, k) is None})
