"""What the answer to a call says where there is nothing to say, or the tool failed.

The protocols have no flag for errors, so words mark them.
"""

from typing import Final

NO_OUTPUT: Final = "(no output)"

_SILENT_FAILURE: Final = "the tool failed without saying why"


def mark_failure(text: str) -> str:
    """Return what a failed tool said, marked as an error; in words of ours where it said nothing."""
    return f"ERROR: {text or _SILENT_FAILURE}"
