"""Content as callers give it, as parts."""

import json

from context_assembler.errors import ContentError
from context_assembler.values.json_shapes import is_array
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
    """Return what a tool answered as parts; a JSON value becomes its text.

    Raises:
        ContentError: The value cannot be said in JSON.
    """
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, RESULT_PART_TYPES):
        return (content,)
    if content == ():
        return ()
    if is_array(content) and content and all(isinstance(p, RESULT_PART_TYPES) for p in content):
        return tuple(content)
    try:
        return (Text(json.dumps(content, ensure_ascii=False)),)
    except (TypeError, ValueError, RecursionError) as error:
        raise ContentError(content) from error
