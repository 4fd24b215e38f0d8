"""Finds the rest of a private key whose beginning stands elsewhere, as where a file is read in pieces."""

import re
from collections.abc import Iterator
from typing import Final

KEY_FRONT: Final = r"[^A-Za-z0-9+/=-]{0,20}+ (?:\d{1,6}[^A-Za-z0-9+/=-]{1,20}+)?"
"""What stands in front of a line of a key, such as its number; behind it as well, read backwards."""

_MAX_CHARS: Final = 20_000
_SIGN: Final = "-----END "
_END: Final = re.compile(r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
# Read backwards from there, the last line may be short.
_LINES: Final = re.compile(
    rf"""(?x) {KEY_FRONT} (?:[A-Za-z0-9+/=]{{1,31}}+ (?![A-Za-z0-9+/=]) {KEY_FRONT})?
    (?: ={{0,2}}+ (?P<line>[A-Za-z0-9+/]{{32,}}+) {KEY_FRONT} )+"""
)


def find_key_ends(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the last lines of each private key begin, and where it ends."""
    if _SIGN not in text:
        return
    done = 0
    for end in _END.finditer(text):
        before = text[max(done, end.start() - _MAX_CHARS) : end.start()]
        lines = _LINES.match(before[::-1])
        if lines is not None:
            yield end.start() - lines.end("line"), end.end()
        done = end.end()
