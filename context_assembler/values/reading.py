"""Looking into JSON of unknown shape: every function takes any value and none raises."""

from collections.abc import Iterable, Iterator

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json


def as_object(value: Json) -> dict[str, Json]:
    """Return the object; an empty one for anything else."""
    return dict(value) if is_object(value) else {}


def as_array(value: Json) -> list[Json]:
    """Return the array; an empty one for anything else."""
    return list(value) if is_array(value) else []


def as_text(value: Json) -> str:
    """Return the text; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def as_number(value: Json) -> int | float | None:
    """Return the number; `None` for anything else, booleans included."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def objects_in(value: Json) -> Iterator[tuple[int, dict[str, Json]]]:
    """Yield the objects of an array with their places."""
    for index, entry in enumerate(as_array(value)):
        if is_object(entry):
            yield index, dict(entry)


def walk_objects(value: Json) -> Iterator[dict[str, Json]]:
    """Yield every object inside the value, itself included, however deep."""
    waiting: list[Json] = [value]
    while waiting:
        current = waiting.pop()
        if is_object(current):
            yield dict(current)
            waiting.extend(current.values())
        elif is_array(current):
            waiting.extend(current)


def count_text_chars(value: Json) -> int:
    """Return the characters of all text inside the value."""
    total = 0
    waiting: list[Iterable[Json]] = [[value]]
    while waiting:
        for held in waiting.pop():
            if isinstance(held, str):
                total += len(held)
            elif is_object(held):
                waiting.append(held.values())
            elif is_array(held):
                waiting.append(held)
    return total
