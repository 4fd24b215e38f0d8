"""Where the settings below the session's own come from: a file, the environment, or nobody."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from context_assembler.config import AssemblerConfig
from context_assembler.config.sources import read_sources
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json
from context_assembler.values.report import ResolvedParameter

_DEFAULT: Final = "default"
# Options that settings outside of [defaults] give as well.
_PLACES: Final[Mapping[str, Sequence[str]]] = {
    "truncation_strategy": ("truncation", "strategy"),
    "window_turns": ("truncation", "window_turns"),
    "cache_stable": ("truncation", "cache_stable"),
    "on_overflow": ("truncation", "on_overflow"),
    "unknown_model": ("unknown_model",),
}


def setting_origins(
    parameters: Iterable[ResolvedParameter], *, folder: Path | None, agent_id: str | None
) -> dict[str, str]:
    """Return for each parameter what gave its value, in words.

    `environment` or a file's name where the configuration has it (with `agent` where it is one
    agent's), `default` where nobody set it, else the layer.

    Args:
        folder: Where the configuration files lie; `None` stands for the configured one.
    """
    sources = read_sources(AssemblerConfig, {"folder": folder} if folder else {})
    given: dict[str, Json] = {source.name: source.settings for source in sources}
    return {one.name: _origin(one, given, agent_id=agent_id or "") for one in parameters}


def _origin(parameter: ResolvedParameter, given: Mapping[str, Json], *, agent_id: str) -> str:
    name, layer = parameter.name, parameter.layer
    match layer:
        case "system":
            places: list[Sequence[str]] = [("defaults", name)]
            places += [_PLACES[name]] if name in _PLACES else []
            return next(filter(None, (_find(given, path) for path in places)), _DEFAULT)
        case "agent":
            found = _find(given, ("agents", agent_id, name))
            return f"{layer}, {found}" if found else layer
        case _:
            return layer


def _find(given: Mapping[str, Json], path: Sequence[str]) -> str | None:
    """Return the name of the highest source that has a value at a path."""
    return next((name for name, settings in given.items() if _has(settings, path)), None)


def _has(settings: Json, path: Sequence[str]) -> bool:
    for key in path:
        if not is_object(settings) or settings.get(key) is None:
            return False
        settings = settings[key]
    return True
