"""What each option may hold, and which other spellings of it are read.

These rules hold for every model; those of one model are in `stages/resolve_defaults/`.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, get_args

from context_assembler.errors import ConfigurationError, InvalidParameterError, UnknownOptionError
from context_assembler.values.given import check_type
from context_assembler.values.json_bounds import MAX_JSON_DEPTH, nests_too_deeply
from context_assembler.values.json_shapes import is_array
from context_assembler.values.options import (
    OPTION_NAMES,
    AssembleOptions,
    CachePolicy,
    OverflowPolicy,
    TruncationStrategy,
    UnknownModelPolicy,
)
from context_assembler.values.parts import Json
from context_assembler.values.tool_choices import parse_tool_choice
from context_assembler.values.tools import ToolChoice

_Reader: TypeAlias = Callable[[str, Json], Json]

# What holds where a restriction cannot be read, which is no guess: nobody's memories, no tool.
_CLOSED: Final[Mapping[str, Mapping[str, Json]]] = {
    "recall_namespaces": {"recall_namespaces": ()},
    "sandbox_mode": {"sandbox_mode": True},
    "permissions": {"permissions": ()},
    "disabled_tools": {"permissions": ()},
}


def parse_options(given: Mapping[str, Json]) -> AssembleOptions:
    """Read options by name, as a caller or a settings file spells them.

    `None` means that an option is not given.

    Raises:
        UnknownOptionError: An option, or a value from a closed set, does not exist.
        InvalidParameterError: A value has the wrong type or is out of range.
    """
    check_type("options", given, Mapping, such_as="a mapping, such as {'model': '…'}")
    return AssembleOptions(
        **{name: parse_option(name, value) for name, value in given.items() if value is not None}
    )


def parse_options_leniently(given: Mapping[str, Json]) -> tuple[AssembleOptions, tuple[str, ...]]:
    """Read options that nobody can correct on the spot, such as those kept with a session.

    Returns:
        What could be read, and a sentence for every option that could not. Where that restricts
        what is told or offered, nothing is.
    """
    check_type("options", given, Mapping, such_as="a mapping, such as {'model': '…'}")
    values: dict[str, Json] = {}
    closed: dict[str, Json] = {}
    problems: list[str] = []
    for name, value in given.items():
        if value is None:
            continue
        try:
            values[name] = parse_option(name, value)
        except ConfigurationError as error:
            problems.append(str(error))
            closed |= _CLOSED.get(name, {})
    return AssembleOptions(**values | closed), tuple(problems)


def parse_option(name: str, value: Json) -> Json:
    """Return the value of one option in its own type.

    Raises:
        UnknownOptionError: The option, or a value from a closed set, does not exist.
        InvalidParameterError: The value has the wrong type or is out of range.
    """
    read = _READERS.get(name)
    if read is None:
        raise UnknownOptionError(name, kind="option", known=OPTION_NAMES)
    return read(name, value)


def given_options(options: AssembleOptions) -> dict[str, Json]:
    """Return the options that have a value, by name."""
    pairs = ((name, getattr(options, name)) for name in OPTION_NAMES)
    return {name: value for name, value in pairs if value is not None}


def _read_choice(name: str, value: Json) -> ToolChoice:  # noqa: ARG001 - the shape of a reader
    return parse_tool_choice(value)


def _number(low: float, high: float) -> _Reader:
    def read(name: str, value: Json) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise InvalidParameterError(
                name,
                value,
                rule=f"must be between {low:g} and {high:g}",
                remedy="Pass a number in that range, or leave it out.",
            )
        return float(value)

    return read


def _count(least: int) -> _Reader:
    def read(name: str, value: Json) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidParameterError(
                name,
                value,
                rule=f"must be a whole number of at least {least}",
                remedy="Pass such a number, or leave it out.",
            )
        return value

    return read


def _text(name: str, value: Json) -> str:
    if not isinstance(value, str):
        raise InvalidParameterError(
            name, value, rule="must be text", remedy="Pass a string, or leave it out."
        )
    return value


def _word(name: str, value: Json) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidParameterError(
            name, value, rule="must be non-empty text", remedy="Pass a string, or leave it out."
        )
    return value.strip()


def _flag(name: str, value: Json) -> bool:
    if not isinstance(value, bool):
        raise InvalidParameterError(
            name, value, rule="must be true or false", remedy="Pass a boolean, or leave it out."
        )
    return value


def _texts(name: str, value: Json) -> tuple[str, ...]:
    entries: Json = (value,) if isinstance(value, str) else value
    if not is_array(entries) or not all(isinstance(entry, str) and entry for entry in entries):
        raise InvalidParameterError(
            name,
            value,
            rule="must be a list of non-empty strings",
            remedy="Pass a list of strings; an empty list means none at all.",
        )
    return tuple(entries)


def _namespaces(name: str, value: Json) -> tuple[str, ...]:
    entries: Json = (value,) if isinstance(value, str) else value
    if not is_array(entries) or not all(isinstance(entry, str) for entry in entries):
        raise InvalidParameterError(
            name,
            value,
            rule="must be a list of namespaces",
            remedy="Pass a list of strings; '' is what belongs to nobody, an empty list means none.",
        )
    return tuple(entries)


def _tools(name: str, value: Json) -> tuple[Json, ...]:
    if nests_too_deeply(value):
        raise InvalidParameterError(
            name,
            value,
            rule=f"must not be nested deeper than {MAX_JSON_DEPTH} levels",
            remedy="Flatten the lists, or the schema of the tool.",
        )
    if is_array(value):
        return tuple(value)
    if isinstance(value, str | bytes | int | float):
        raise InvalidParameterError(
            name,
            value,
            rule="must be a list of tools",
            remedy="Pass functions, tool specs, or an object with list_tools().",
        )
    return (value,)


def _one_of(closed_set: object) -> _Reader:
    known: tuple[str, ...] = get_args(closed_set)

    def read(name: str, value: Json) -> str:
        if value not in known:
            raise UnknownOptionError(str(value), kind=name, known=known)
        return str(value)

    return read


_READERS: Final[Mapping[str, _Reader]] = {
    "model": _word,
    "temperature": _number(0, 2),
    "max_tokens": _count(1),
    "top_p": _number(0, 1),
    "top_k": _count(1),
    "stop_sequences": _texts,
    "thinking_level": _word,
    "thinking_budget": _count(0),
    "additional_system_prompt": _text,
    "additional_tools": _tools,
    "disabled_tools": _texts,
    "tool_choice": _read_choice,
    "max_context_tokens": _count(1),
    "reserve_tokens": _count(0),
    "truncation_strategy": _one_of(TruncationStrategy),
    "window_turns": _count(1),
    "cache_stable": _flag,
    "on_overflow": _one_of(OverflowPolicy),
    "skip_skills": _flag,
    "skill_filter": _texts,
    "active_skills": _texts,
    "sandbox_mode": _flag,
    "permissions": _texts,
    "query": _text,
    "recall_tokens": _count(1),
    "recall_namespaces": _namespaces,
    "cache": _one_of(CachePolicy),
    "exact": _flag,
    "fresh": _flag,
    "refresh": _flag,
    "unknown_model": _one_of(UnknownModelPolicy),
}

TEXT_OPTIONS: Final = frozenset(
    {"model", "thinking_level", "additional_system_prompt", "truncation_strategy", "on_overflow"}
    | {"query", "cache", "unknown_model"}
)
