"""Tells whether a file is still the one that was read."""

import os
from pathlib import Path
from typing import TypeAlias

Identity: TypeAlias = tuple[int, int, int, int, int]


def identity_of(found: os.stat_result) -> Identity:
    """Return what changes when the file is written or replaced."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def identity_at(path: Path) -> Identity | None:
    """Return the identity of what lies at the path; `None` where nothing can be looked at."""
    try:
        return identity_of(path.stat())
    except (OSError, ValueError):
        return None


def last_change_ns(identity: Identity) -> int:
    """Return when the file changed last."""
    return max(identity[3], identity[4])
