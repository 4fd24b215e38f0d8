"""Exact token counts for OpenAI's vocabularies, offline."""

import re
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

RANKS_FOLDER: Final = Path(__file__).parent / "ranks"

# tiktoken's patterns. They decide where a text is split before merging begins.
# Source: tiktoken 0.14.0, tiktoken_ext/openai_public.py (MIT; see ranks/LICENSE), read 2026-11-27
PATTERNS: Final[Mapping[str, str]] = {
    "o200k_base": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
}

# Longer texts are counted in pieces. tiktoken 0.14 panics with a BaseException on a million blanks
# (https://github.com/openai/tiktoken/pull/587), and slows down long before.
MAX_PIECE_CHARS: Final = 100_000
_LOOK_BACK_CHARS: Final = 4_096
# No pattern above matches a letter or digit together with one of these behind it, so that a cut
# between the two changes nothing.
_SAFE_CUT: Final = re.compile(
    r"(?<=[^\W_])(?=[ \t\n,.;:()\[\]{}\"=<>\u3001\u3002\u300c\u300d\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f])"
)

_encoders: dict[str, Callable[[str], list[int]]] = {}
_loading: Final = threading.Lock()


def count_bpe(text: str, *, encoding: str) -> int:
    """Return the number of tokens; text that looks like a special token is ordinary text.

    The first call per encoding loads its vocabulary (about half a second, once per process).
    """
    encode = _encoders.get(encoding) or _load(encoding)
    if len(text) <= MAX_PIECE_CHARS:
        return len(encode(text))
    return sum(len(encode(piece)) for piece in _pieces(text))


def load_ranks(encoding: str) -> dict[bytes, int]:
    """Return a vocabulary: the bytes of each token and its rank, in order of rank."""
    import lzma  # noqa: PLC0415 - needed only where something is counted exactly

    content = lzma.decompress((RANKS_FOLDER / f"{encoding}.xz").read_bytes())
    (count,) = struct.unpack_from("<I", content)
    ends = accumulate(content[4 : 4 + count], initial=4 + count)
    return {content[start:end]: rank for rank, (start, end) in enumerate(pairwise(ends))}


def _load(encoding: str) -> Callable[[str], list[int]]:
    import tiktoken  # noqa: PLC0415 - needed only where something is counted exactly

    with _loading:
        if encoding not in _encoders:
            built = tiktoken.Encoding(
                name=encoding,
                pat_str=PATTERNS[encoding],
                mergeable_ranks=load_ranks(encoding),
                special_tokens={},
            )
            _encoders[encoding] = built.encode_ordinary
        return _encoders[encoding]


def _pieces(text: str) -> Iterator[str]:
    """Cut a long text, where possible at places that change no count."""
    start = 0
    while len(text) - start > MAX_PIECE_CHARS:
        limit = start + MAX_PIECE_CHARS
        cut = limit
        for match in _SAFE_CUT.finditer(text, limit - _LOOK_BACK_CHARS, limit):
            cut = match.start()
        yield text[start:cut]
        start = cut
    yield text[start:]
