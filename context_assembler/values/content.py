"""Content as callers give it, as parts."""

import json
from typing import Any

from context_assembler.errors import ContentError
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import (
    PART_TYPES,
    RESULT_PART_TYPES,
    Json,
    Part,
    ResultPart,
    Text,
)


def as_parts(content: object) -> tuple[Part, ...]:
    """Return text, a part, or a sequence of parts as parts.

    Raises:
        ContentError: The content is none of these.
    """
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, PART_TYPES):
        return (content,)
    if not is_array(content):
        raise ContentError(content)
    parts = tuple(content)
    for part in parts:
        if not isinstance(part, PART_TYPES):
            raise ContentError(part)
    return parts


def as_result_parts(content: Json) -> tuple[ResultPart, ...]:
    """Return what a tool answered as parts; anything else becomes its JSON.

    Beside JSON's own values that is what functions often return: dates, decimals, enumerations,
    sets, dataclasses, pydantic models, rows of a database, arrays.

    Raises:
        ContentError: The value cannot be said in JSON.
    """
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, RESULT_PART_TYPES):
        return (content,)
    if isinstance(content, tuple) and not content:
        return ()
    if is_array(content) and content and all(isinstance(p, RESULT_PART_TYPES) for p in content):
        return tuple(content)
    return (Text(_as_json(content)),)


def _as_json(content: Json) -> str:
    try:
        return json.dumps(content, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return json.dumps(_plain(content, "the result"), ensure_ascii=False)
    except RecursionError as error:
        raise ContentError(content, place="the result") from error


def _plain(value: Any, place: str) -> Json:
    """Return the value as JSON's own ones; what cannot be is named with its place."""
    if is_object(value):
        return {_key(key): _plain(one, f"{place}[{key!r}]") for key, one in value.items()}
    if is_array(value) and not hasattr(value, "keys"):  # a row of SQLite's is a sequence as well
        return [_plain(one, f"{place}[{at}]") for at, one in enumerate(value)]
    if isinstance(value, PART_TYPES):  # as text nobody would see the picture, and its bytes cost
        raise ContentError(value, place=place)
    try:
        return _jsonable(value)
    except (TypeError, ValueError) as error:
        raise ContentError(value, place=place) from error


def _key(key: Json) -> Json:
    return key if isinstance(key, str | int | float | None) else next(iter(_jsonable({key: None})))


def _jsonable(value: Json) -> Any:
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - most results are plain

    return to_jsonable_python(value, fallback=_otherwise, inf_nan_mode="constants")


def _otherwise(value: Any) -> Json:
    """Return rows of a database and other mappings as objects, arrays of numbers as lists."""
    if hasattr(value, "__fspath__"):
        return str(value)
    if hasattr(value, "keys"):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(type(value).__name__)
