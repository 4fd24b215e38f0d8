"""What samples of transcripts are made of."""

import json
from collections.abc import Iterator
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def piece(type: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": type, **fields}


def text(said: str) -> dict[str, Any]:
    return piece("text", text=said)


def lines(*rows: Any) -> str:
    return "\n".join(map(json.dumps, rows))


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where in a value there is another one."""
    held: Any = value
    keys = range(len(held)) if isinstance(value, list) else held
    for key in keys if isinstance(value, list | dict) else ():
        yield (*place, key)
        yield from places(value[key], (*place, key))
