"""Fingerprints of what stands in front of a message."""

import json
from collections.abc import Iterable, Iterator
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


def roll_on(before: str, units: Iterable[tuple[Json, bool]], *, head: str) -> list[str]:
    """Return a fingerprint behind each unit: it stands for that and all before it.

    `None` is a unit of which nothing is sent: it changes nothing. A unit beside which `True` stands
    stands for all units before it: behind it only the head and what follows counts.

    Args:
        before: The fingerprint in front of the first unit.
        head: The fingerprint of what stands before all units.
    """
    prints = [before]
    for unit, restarts in units:
        earlier = head if restarts else prints[-1]
        prints.append(prints[-1] if unit is None else digest_json(unit, after=earlier))
    return prints[1:]
