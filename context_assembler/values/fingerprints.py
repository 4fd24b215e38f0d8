"""Fingerprints of what stands in front of a message."""

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from context_assembler.values.parts import Json

_DIGEST_BYTES: Final = 16


def digest_json(value: Json, *, after: str = "") -> str:
    """Return a hex digest of a JSON value and of what stood before it.

    The order of keys counts: a payload with other key order is another payload to a prompt cache.
    """
    spelled = json.dumps(value, separators=(",", ":")).encode("ascii")
    return blake2b(after.encode("ascii") + spelled, digest_size=_DIGEST_BYTES).hexdigest()


def rolling_fingerprints(head: Json, units: Iterable[Json]) -> tuple[str, ...]:
    """Return one fingerprint per boundary: element *i* stands for the head and the first *i* units.

    `None` is a unit of which nothing is sent: it changes nothing.
    """
    prints = [digest_json(head)]
    for unit in units:
        prints.append(prints[-1] if unit is None else digest_json(unit, after=prints[-1]))
    return tuple(prints)
