"""Pydantic's complaints about settings, in our own words."""

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings

from context_assembler.errors import ConfigurationError, UnknownOptionError

# What a setting is, by the type of pydantic's complaint; others are told in pydantic's words.
_KINDS: Final[Mapping[str, str]] = {
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a valid number",
    "float_parsing": "must be a valid number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "path_type": "must be a path",
}


def readable(error: ValidationError, config: type[BaseSettings]) -> ConfigurationError:
    """Return the first of pydantic's complaints in our own words, and how many more there are."""
    complaints = error.errors(include_url=False)
    first = complaints[0]
    cause = first.get("ctx", {}).get("error")
    where = ".".join(str(step) for step in first["loc"])
    if isinstance(cause, ConfigurationError):
        cause.args = (f"In the setting {where!r}: {cause}",)
        return cause
    if first["type"] == "extra_forbidden":
        return _unknown_key(first, config)
    more = f" ({len(complaints) - 1} more)" if len(complaints) > 1 else ""
    reason = str(cause) if cause else _KINDS.get(first["type"], first["msg"])
    given = "" if cause else f"; got {first['input']!r}"
    place = f"The setting {where!r}: " if where else ""
    return ConfigurationError(f"{place}{reason}{given}{more}.", remedy=_remedy(first))


def _remedy(complaint: ErrorDetails) -> str:
    given: object = complaint["input"]
    if complaint["type"] == "tuple_type" and isinstance(given, str):
        return f"Write a list: {[given]!r}."
    return "Correct that setting and try again."


def _unknown_key(complaint: ErrorDetails, config: type[BaseSettings]) -> UnknownOptionError:
    *path, key = [str(step) for step in complaint["loc"]]
    model: type[BaseModel] = config
    for step in path:
        annotation = model.model_fields[step].annotation
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        model = annotation
    kind = f"setting in {'.'.join(path)}" if path else "setting"
    return UnknownOptionError(key, kind=kind, known=list(model.model_fields))
