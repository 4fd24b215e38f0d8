"""The `fast` extra: exact counts several times as fast, used only where it proves to be exact."""

import hashlib
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

# Versions whose counts were compared with tiktoken's, over texts of every kind and every character
# of Unicode (`python -m benchmarks.tokens`).
TESTED_VERSIONS: Final = ("0.3.0",)

# Characters of Unicode 17: letters and marks for it, unassigned for tiktoken 0.14, so that texts
# with one of them are split differently. They are left to tiktoken.
DISPUTED: Final = re.compile(
    "[\u088f\u0c5c\u0cdc\u1acf-\u1add\u1ae0-\u1aeb\ua7ce\ua7cf\ua7d2\ua7d4\ua7f1"
    "\U00010940-\U00010959\U00010ec5-\U00010ec7\U00010efa\U00010efb\U00011b60-\U00011b67"
    "\U00011db0-\U00011ddb\U00011de0-\U00011de9\U00016ea0-\U00016eb8\U00016ebb-\U00016ed3"
    "\U00016ff2-\U00016ff6\U000187f8-\U000187ff\U00018d09-\U00018d1e\U00018d80-\U00018df2"
    "\U0001e6c0-\U0001e6de\U0001e6e0-\U0001e6f5\U0001e6fe\U0001e6ff\U0002b73a-\U0002b73f"
    "\U0002cea2-\U0002cead\U000323b0-\U00033479]"
)

# How those characters begin in UTF-8, by first byte: to look for these is many times as fast.
_DISPUTED_STARTS: Final[Mapping[bytes, tuple[bytes, ...]]] = {
    b"\xe0": (b"\xe0\xa2\x8f", b"\xe0\xb1\x9c", b"\xe0\xb3\x9c"),
    b"\xe1": (b"\xe1\xab",),
    b"\xea": (b"\xea\x9f",),
    b"\xf0": tuple(bytes((0xF0, second)) for second in b"\x90\x91\x96\x98\x9e\xab\xac\xb2\xb3"),
}

# SHA-256 of what the packs in `ranks/` unpack to; `scripts/pack_ranks.py` prints them.
UNPACKED_SHA256: Final[Mapping[str, str]] = {
    "o200k_base": "ba55b38e477b631966c2496061ecd7d10108501c7c47358222d9dc27c22f9422",
    "cl100k_base": "79045c4dbf49c4e3b90893afbcbfd80cf94cf2b99256bd84b19ffcace49d9bd2",
}

# A text for every alternative of the split patterns, and its count by tiktoken 0.14.
PROBE: Final = (
    "It's HTTPServer2, isn't it? They'LL pay 1234567.89 €\u2028for naïve Ǆungla ʰo\u0301\u0327 x²\n"
    '\tif (a!=b) {\r\n\r\n    return "<|endoftext|>";  // ok/\n}   \n\n  \t end  '
    "今天天气很好\uff0c我们去公园。 Погода хорошая, أهلا وسهلا नमस्ते สวัสดี 좋은 날씨 👩‍💻🏳️‍🌈 ___--=>>/// \u00a0\u3000x   "
)
PROBE_TOKENS: Final[Mapping[str, int]] = {"o200k_base": 112, "cl100k_base": 144}


def open_fast(encoding: str, *, library: Any = None) -> Callable[[str], int] | None:
    """Return the `fast` extra's count over a vocabulary, or `None` where it cannot be relied on.

    It takes any text without surrogates and without `DISPUTED` characters.
    Its vocabularies are compiled in: it reads no file and no network. It is relied on when its
    version is a tested one, its vocabulary is ours to the last byte, and it counts `PROBE` as
    tiktoken does.

    Args:
        library: In place of the installed `toktok`.
    """
    try:
        found = library or import_module("toktok")
        if found.__version__ not in TESTED_VERSIONS:
            return None
        # The public `batch_count` starts threads for each call, which costs more than counting.
        opened = found._encoding(encoding)  # noqa: SLF001 - see above; the version is a tested one
        count: Callable[[str], int] = opened.count
        is_ours = _digest(opened.token_byte_values()) == UNPACKED_SHA256[encoding]
        counts_alike = count(PROBE) == PROBE_TOKENS[encoding]
    except (ImportError, AttributeError, LookupError, TypeError, ValueError, struct.error):
        return None
    return count if is_ours and counts_alike else None


def is_disputed(text: str) -> bool:
    """Whether the text has a character that is left to tiktoken.

    Raises:
        UnicodeEncodeError: The text has a surrogate.
    """
    if text.isascii():
        return False
    raw = text.encode()
    may_be = any(
        first in raw and any(start in raw for start in starts)
        for first, starts in _DISPUTED_STARTS.items()
    )
    return may_be and DISPUTED.search(text) is not None


def _digest(tokens: Sequence[bytes]) -> str:
    """Return the SHA-256 of the vocabulary as it stands in an unpacked pack."""
    content = struct.pack("<I", len(tokens)) + bytes(map(len, tokens)) + b"".join(tokens)
    return hashlib.sha256(content).hexdigest()
