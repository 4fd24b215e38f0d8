"""Pydantic's complaints about settings, in our own words."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from context_assembler.config.environment import ENV_PREFIX
from context_assembler.config.sources import Source
from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.errors.base import brief
from context_assembler.errors.credentials import without_credentials
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json

# What a setting is, by the type of pydantic's complaint; others are told in pydantic's words.
_KINDS: Final[Mapping[str, str]] = {
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "dataclass_type": "must be a table",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a valid number",
    "float_parsing": "must be a valid number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "string_unicode": "must be text in Unicode",
    "path_type": "must be a path",
}

_NOTHING: Final = object()


def readable(
    error: ValidationError,
    config: type[BaseModel],
    *,
    given: Mapping[str, Json],
    sources: Sequence[Source],
) -> ConfigurationError:
    """Return the first of pydantic's complaints in our own words, and how many more there are.

    Args:
        given: What code gave; it stands above the sources.
        sources: Highest first; the one that has the setting is named.
    """
    complaints = error.errors(include_url=False)
    first = complaints[0]
    more = f" ({len(complaints) - 1} more)" if len(complaints) > 1 else ""
    place = _place(_paths(first), given=given, sources=sources)
    is_json = place is not None and place in _variables(sources)
    told = _told(first, config, more=more, is_json=is_json)
    return told if place is None else _placed(told, place)


def _placed(error: ConfigurationError, place: str) -> ConfigurationError:
    """Return the error with a place before its words, in all of its facts."""
    error.args = (f"{place}: {error}",)
    error.problem = f"{place}: {error.problem}"
    return error


def _told(
    complaint: ErrorDetails, config: type[BaseModel], *, more: str, is_json: bool
) -> ConfigurationError:
    cause = complaint.get("ctx", {}).get("error")
    where = ".".join(str(step) for step in complaint["loc"])
    if isinstance(cause, ConfigurationError):
        return _placed(cause, f"In the setting {where!r}")
    if complaint["type"] == "extra_forbidden":
        return _unknown_key(complaint, config)
    pydantics = complaint["msg"].replace("Input should be", "must be", 1)
    reason = str(cause) if cause else _KINDS.get(complaint["type"], pydantics)
    given = "" if cause else f"; got {without_credentials(brief(complaint['input']))}"
    place = f"The setting {where!r}: " if where else ""
    remedy = _remedy(complaint, is_json=is_json)
    return ConfigurationError(f"{place}{reason}{given}{more}.", remedy=remedy)


def _paths(complaint: ErrorDetails) -> list[list[str]]:
    """Return where what is complained of may stand, most exactly first.

    An option's complaint is that of all options together.
    """
    steps = [str(step) for step in complaint["loc"]]
    cause = complaint.get("ctx", {}).get("error")
    inner = [getattr(cause, fact, None) for fact in ("name", "kind")]
    return [[*steps, fact] for fact in inner if isinstance(fact, str)] + [steps]


def _place(
    paths: Iterable[list[str]], *, given: Mapping[str, Json], sources: Sequence[Source]
) -> str | None:
    """Return what gave the setting, in words; `None` for code, and for a table of several hands."""
    code = Source(name="code", settings=dict(given))
    for path in paths:
        found = [(source, _found(source.settings, path)) for source in (code, *sources)]
        giving = [(source, value) for source, value in found if value is not _NOTHING]
        if giving:
            source, value = giving[0]
            is_shared = is_object(value) and any(is_object(other) for _, other in giving[1:])
            return None if source is code or is_shared else source.place or _variable(source, path)
    return None


def _found(settings: Json, path: Iterable[str]) -> Json:
    """Return what is at that path, or in its place: that hides what lower sources give."""
    for step in path:
        if not is_object(settings):
            return settings
        if step not in settings:
            return _NOTHING
        settings = settings[step]
    return settings


def _variable(source: Source, path: list[str]) -> str:
    """Return the variable that gives the setting or a table around it; of several, how they begin."""
    inside = [steps for steps in source.variables if list(steps[: len(path)]) == path]
    if len(inside) > 1:
        return f"{ENV_PREFIX}{'__'.join(path).upper()}…"
    around = (tuple(path[:length]) for length in range(len(path), 0, -1))
    return next(
        source.variables[steps] for steps in (*inside, *around) if steps in source.variables
    )


def _variables(sources: Iterable[Source]) -> set[str]:
    return {variable for source in sources for variable in source.variables.values()}


def _remedy(complaint: ErrorDetails, *, is_json: bool) -> str:
    given: object = complaint["input"]
    if complaint["type"] == "tuple_type" and isinstance(given, str):
        return f"Write a list: {json.dumps([given]) if is_json else repr([given])}."
    return "Correct that setting and try again."


def _unknown_key(complaint: ErrorDetails, config: type[BaseModel]) -> UnknownOptionError:
    *path, key = [str(step) for step in complaint["loc"]]
    model: type[BaseModel] = config
    for step in path:
        annotation = model.model_fields[step].annotation
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        model = annotation
    kind = f"setting in {'.'.join(path)}" if path else "setting"
    return UnknownOptionError(key, kind=kind, known=list(model.model_fields))
