"""What payloads are spelled with: plain JSON and object schemas."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from context_assembler.errors import NotJsonError, ReplyError
from context_assembler.values.json_bounds import load_bounded_json
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_number, as_object
from context_assembler.values.texts.cleaning import clean_text

_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_NO_SCHEMAS: Final = frozenset({"enum", "const", "default", "examples"})


def plain_json(value: Json) -> Json:
    """Return a deep copy of dicts, lists and scalars only, its text clean, however deep it is.

    Raises:
        NotJsonError: A number in it is not finite.
    """
    return _copy(value, _CLEAN)


def _finite(number: float) -> float:
    if not isfinite(number):
        raise NotJsonError(number)
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spelling:
    """How a copy spells texts and numbers."""

    text: Callable[[str], str]
    number: Callable[[float], float]


_CLEAN: Final = _Spelling(text=clean_text, number=_finite)
_VERBATIM: Final = _Spelling(text=str, number=float)


def _copy(value: Json, spell: _Spelling) -> Json:
    try:
        return _plain(value, spell)
    except RecursionError:
        return _plain_by_levels(value, spell)


def _plain(value: Json, spell: _Spelling) -> Json:
    if isinstance(value, str):
        return spell.text(value)
    if is_object(value):
        return {spell.text(str(key)): _plain(entry, spell) for key, entry in value.items()}
    if is_array(value):
        return [_plain(entry, spell) for entry in value]
    return spell.number(value) if isinstance(value, float) else value


def _plain_by_levels(value: Json, spell: _Spelling) -> Json:
    """Return what `_plain` does, slower, without calling itself."""
    return with_leaves(
        value, lambda held: _plain(held, spell), key=lambda key: spell.text(str(key))
    )


def with_leaves(
    value: Any, change: Callable[[Any], Json], *, key: Callable[[Any], Any] = lambda key: key
) -> Any:
    """Return a deep copy of dicts and lists whose leaves are changed, however deep it is.

    Args:
        key: Changes the keys of objects.

    Raises:
        ValueError: One of them holds itself.
    """
    root: list[Json] = [value]
    waiting: list[tuple[Json, int]] = [(root, id(root))]
    around: set[int] = set()  # what those that wait next lie in
    while waiting:
        copied, original = waiting.pop()
        if copied is None:
            around.discard(original)
            continue
        around.add(original)
        waiting.append((None, original))
        for place in _places(copied):
            held = copied[place]
            if not is_object(held) and not is_array(held):
                copied[place] = change(held)
                continue
            if id(held) in around:
                raise ValueError("a list or an object holds itself")
            copied[place] = _opened(held, key)
            waiting.append((copied[place], id(held)))
    return root[0]


def _opened(container: Json, key: Callable[[Any], Any]) -> Json:
    """Return a new dict or list of what lies in one, as it lies there."""
    if is_object(container):
        return {key(name): inner for name, inner in container.items()}
    return list(container)


def _places(container: Json) -> Iterable[Json]:
    return list(container) if is_object(container) else range(len(container))


def fresh_json(value: Json) -> Json:
    """Return a copy whose dicts and lists nobody else holds; texts and numbers are the same ones."""
    try:
        return _fresh(value)
    except RecursionError:
        return _plain_by_levels(value, _VERBATIM)


def _fresh(value: Json) -> Json:
    # Asked for by identity, which is fast: most of a payload is copied at every step.
    kind: object = value.__class__
    if kind is dict:
        return {k: v if isinstance(v, str) else _fresh(v) for k, v in value.items()}
    if kind is list:
        return [v if isinstance(v, str) else _fresh(v) for v in value]
    return value


def compact_json(value: Json) -> str:
    """Return the value as JSON text without spaces, keys in their own order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_json_object(text: str) -> dict[str, Json] | None:
    """Return the object that the text spells; `None` when it spells none that could be stored."""
    try:
        value = load_bounded_json(text)
    except ValueError:
        return None
    return dict(value) if is_object(value) else None


def object_of(value: Any) -> dict[str, Json] | None:
    """Return a dict, or an SDK's model as the dict it was made from; `None` for anything else.

    Its text is verbatim, since parts of it may be signed; what has to be cleaned is when it is
    sent, and reported then. Fields that the server did not send are left out, so that blocks can
    go back as they came. Older SDKs, on pydantic 1, have models with `dict` alone.

    Raises:
        ReplyError: A model is nested too deeply to be dumped, or something holds itself.
    """
    try:
        if callable(dump := getattr(value, "model_dump", None)):
            value = dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
        elif not is_object(value) and callable(dump := getattr(value, "dict", None)):
            value = dump(by_alias=True, exclude_unset=True)
        return as_object(_copy(value, _VERBATIM)) if is_object(value) else None
    except (ValueError, RecursionError) as error:
        raise ReplyError(value, reason=f"it is no plain tree of values: {error}") from error


def count_of(value: Json) -> int:
    """Return a reported count; 0 for one that is missing or no count."""
    number = as_number(value)
    return int(number) if number is not None and 0 <= number < float("inf") else 0


def walk_schemas(schema: Json) -> Iterator[JsonObject]:
    """Yield the schema and every schema inside it; names of properties are not taken for keywords."""
    waiting: list[Json] = [schema]
    while waiting:
        current = waiting.pop()
        if is_array(current):
            waiting.extend(current)
        elif is_object(current):
            yield current
            for key, value in current.items():
                if key in _NAMED_SCHEMAS:
                    waiting.extend(as_object(value).values())
                elif key not in _NO_SCHEMAS:
                    waiting.append(value)
