"""Text that any provider can take: no NULs, no lone surrogates.

Every function returns the object it was given when there was nothing to clean.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json, JsonObject


def clean_text(text: str) -> str:
    """Return the text without NULs, with surrogate pairs joined and lone ones as U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "")
    if text.isascii() or not _has_surrogates(text):
        return text
    # UTF-16 is the encoding surrogates come from: a round trip joins the pairs among them.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_object(value: JsonObject) -> JsonObject:
    """Return the JSON object with every key and string in it cleaned."""
    return value if is_clean(value) else _clean_mapping(value)


def is_clean(*values: Json) -> bool:
    """Whether no key and no string in the values needs cleaning, at any depth."""
    waiting: list[Iterable[Json]] = [values]
    while waiting:
        for held in waiting.pop():
            if isinstance(held, str):
                if clean_text(held) is not held:
                    return False
            elif is_object(held):
                waiting += [held.keys(), held.values()]
            elif _is_sequence(held):
                waiting.append(held)
    return True


def _clean_mapping(value: JsonObject) -> dict[str, Json]:
    cleaned: dict[str, Json] = {}
    for key, inner in value.items():
        cleaned[_free_key(clean_text(key), taken=cleaned)] = _clean_value(inner)
    return cleaned


def _clean_value(value: Json) -> Json:
    if isinstance(value, str):
        return clean_text(value)
    if is_object(value):
        return _clean_mapping(value)
    if _is_sequence(value):
        return [_clean_value(inner) for inner in value]
    return value


def _is_sequence(value: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, list | tuple)


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _free_key(key: str, *, taken: Mapping[str, Json]) -> str:
    """Return the key, numbered where cleaning made two keys alike, so that no value is lost."""
    number = 2
    free = key
    while free in taken:
        free = f"{key}_{number}"
        number += 1
    return free
