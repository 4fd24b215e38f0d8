"""Fingerprints of what stands in front of a message."""

import json
from collections.abc import Collection, Iterable, Iterator
from hashlib import blake2b
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json

_DIGEST_BYTES: Final = 16


def digest_json(value: Json, *, after: str = "") -> str:
    """Return a hex digest of a JSON value and of what stood before it.

    The order of keys counts: a payload with other key order is another payload to a prompt cache.
    """
    try:
        spelled = json.dumps(value, separators=(",", ":")).encode("ascii")
    except RecursionError:  # no server takes it; a fingerprint it has all the same
        spelled = ascii(list(_pieces(value))).encode("ascii")
    return blake2b(after.encode("ascii") + spelled, digest_size=_DIGEST_BYTES).hexdigest()


def _pieces(value: Json) -> Iterator[tuple[int, Json]]:
    """Yield keys and scalars in order, each with its depth."""
    waiting: list[tuple[int, Json]] = [(0, value)]
    while waiting:
        depth, held = waiting.pop()
        if is_object(held):
            inner = [entry for pair in held.items() for entry in pair]
        elif is_array(held):
            inner = list(held)
        else:
            yield depth, held
            continue
        yield depth, len(inner)
        waiting += [(depth + 1, entry) for entry in reversed(inner)]


def rolling_fingerprints(
    head: Json, units: Iterable[Json], *, restarts: Collection[int] = ()
) -> tuple[str, ...]:
    """Return one fingerprint per boundary: element *i* stands for the head and the first *i* units.

    `None` is a unit of which nothing is sent: it changes nothing.

    Args:
        restarts: Units, by their indexes, that stand for all units before them: behind these only
            the head and what follows counts.
    """
    prints = [digest_json(head)]
    for index, unit in enumerate(units):
        before = prints[0] if index in restarts else prints[-1]
        prints.append(prints[-1] if unit is None else digest_json(unit, after=before))
    return tuple(prints)
