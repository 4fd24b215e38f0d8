"""What to do about a file that cannot be used."""

import errno
from collections.abc import Mapping
from typing import Final

_REMEDIES: Final[Mapping[int, str]] = {
    errno.ENOSPC: "Make room on that disk, or use another one.",
    errno.EDQUOT: "Make room within the quota of that disk, or use another one.",
    errno.EROFS: "That disk is mounted read-only: use another one.",
    errno.EMFILE: "Close files, or let the process have more of them open (ulimit -n).",
}


def remedy_for_file(error: OSError) -> str:
    """Return what to do about an error of the operating system."""
    otherwise = "Check the path and its permissions."
    return otherwise if error.errno is None else _REMEDIES.get(error.errno, otherwise)
