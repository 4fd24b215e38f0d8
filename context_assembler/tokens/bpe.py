"""Exact token counts for OpenAI's vocabularies, offline.

The vocabularies lie in `ranks/`, hash-checked when they were packed. What is first counted in a
process is counted over them as they are (`plain_bpe`). `tiktoken.Encoding`, which takes long to
build, is built from them where more is counted; `tiktoken.get_encoding` is never called, for it
reads the network. Where the `fast` extra is installed and proves to hold the same vocabulary, it
counts in a process that counts much: it takes longer still to load.
"""

import os
import re
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from context_assembler.tokens.fast_bpe import is_disputed, open_fast
from context_assembler.tokens.plain_bpe import CountFew, open_plain

RANKS_FOLDER: Final = Path(__file__).parent / "ranks"

CountPiece: TypeAlias = Callable[[str], int]

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

# Longer texts are counted in pieces, so that time grows no faster than the text.
MAX_PIECE_CHARS: Final = 100_000
# A run without a place to cut stays whole up to here, and is exact so far. tiktoken 0.14 panics with
# a BaseException on a million blanks (https://github.com/openai/tiktoken/pull/587). Blanks come in
# tokens of 128, digits in groups of 3: cutting runs of either here changes nothing.
MAX_RUN_CHARS: Final = 128 * 3 * 2_304
_LOOK_BACK_CHARS: Final = 4_096
# No pattern above matches a letter or digit together with one of these behind it, so that a cut
# between the two changes nothing.
_SAFE_CUT: Final = re.compile(
    r"(?<=[^\W_])(?=[ \t\n,.;:()\[\]{}\"=<>\u3001\u3002\u300c\u300d\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f])"
)

# Up to about here what is there sooner is done sooner as well: tiktoken takes 0.15 s to build and
# saves 0.3 µs for each character, the extra takes a quarter of a second.
TIKTOKEN_ABOVE_CHARS: Final = 300_000
FAST_ABOVE_CHARS: Final = 2_000_000

_FIELDS: Final = [f"{length}s" for length in range(256)]


def count_bpe(text: str, *, encoding: str) -> int:
    """Return the number of tokens; text that looks like a special token is ordinary text.

    It is what tiktoken counts, for any string without a run of more than `MAX_RUN_CHARS`
    characters of one kind; there a token or two may be cut. The first call per encoding loads its
    vocabulary (less than a tenth of a second, once per process).
    """
    count = (_VOCABULARIES.loaded.get(encoding) or _VOCABULARIES.load(encoding)).count
    if len(text) <= MAX_PIECE_CHARS:
        return count(text)
    return sum(map(count, cut_pieces(repair_surrogates(text))))


def open_tiktoken(encoding: str, ranks: dict[bytes, int] | None = None) -> CountPiece:
    """Return tiktoken's count over a vocabulary of ours, without its network loader.

    Args:
        ranks: The vocabulary, where it is loaded already.
    """
    import tiktoken  # noqa: PLC0415 - needed only where much is counted exactly

    encode = tiktoken.Encoding(
        name=encoding,
        pat_str=PATTERNS[encoding],
        mergeable_ranks=ranks or load_ranks(encoding),
        special_tokens={},
    ).encode_ordinary

    return lambda text: len(encode(text))


def load_ranks(encoding: str) -> dict[bytes, int]:
    """Return a vocabulary: the bytes of each token and its rank, in order of rank."""
    content = zlib.decompress((RANKS_FOLDER / f"{encoding}.zlib").read_bytes())
    (count,) = struct.unpack_from("<I", content)
    fields = "".join([_FIELDS[length] for length in content[4 : 4 + count]])
    tokens: tuple[bytes, ...] = struct.unpack_from(fields, content, 4 + count)
    return dict(zip(tokens, range(count), strict=True))


def repair_surrogates(text: str) -> str:
    """Return the text as tiktoken reads it: pairs of surrogates are joined, lone ones replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cut_pieces(text: str) -> Iterator[str]:
    """Cut a long text, where possible at places that change no count."""
    start = 0
    while len(text) - start > MAX_PIECE_CHARS:
        cut = _find_cut(text, start)
        yield text[start:cut]
        start = cut
    yield text[start:]


def _find_cut(text: str, start: int) -> int:
    """Return the last safe place shortly before a full piece, else the first one behind it."""
    full, most = start + MAX_PIECE_CHARS, start + MAX_RUN_CHARS
    cuts = [match.start() for match in _SAFE_CUT.finditer(text, full - _LOOK_BACK_CHARS, full)]
    if cuts:
        return cuts[-1]
    later = _SAFE_CUT.search(text, full, most)
    return later.start() if later else min(most, len(text))


def load_early(encoding: str) -> None:
    """Load a vocabulary in a thread of its own, beside whatever is done before the first count.

    Nothing is done for what is no vocabulary of ours.
    """
    if encoding in PATTERNS and encoding not in _VOCABULARIES.begun:
        _VOCABULARIES.begun.add(encoding)
        threading.Thread(target=_VOCABULARIES.load, args=(encoding,), name="vocabulary").start()


class Vocabulary:
    """Counts by one vocabulary: in Python at first, with tiktoken and the `fast` extra as it pays.

    All count alike. The extra is loaded in a thread of its own, so that no count waits for it.

    Args:
        tiktoken_above_chars: How much is counted before tiktoken is built.
        fast_above_chars: How much is counted before the extra is loaded.
    """

    def __init__(
        self,
        encoding: str,
        *,
        tiktoken_above_chars: float = TIKTOKEN_ABOVE_CHARS,
        fast_above_chars: float = FAST_ABOVE_CHARS,
    ) -> None:
        self._encoding = encoding
        self._above_chars = tiktoken_above_chars, fast_above_chars
        self._counted_chars = 0
        self._ranks: dict[bytes, int] | None = load_ranks(encoding)
        self._plain: CountFew | None = open_plain(PATTERNS[encoding], self._ranks)
        self._tiktoken: CountPiece | None = None
        self._fast: CountPiece | None = None
        self._building = threading.Lock()
        self.loading: threading.Thread | None = None

    def count(self, text: str) -> int:
        """Return the number of tokens of one piece."""
        if self._fast is None:
            self._counted_chars += len(text)
            return self._count_slowly(text)
        try:
            return self._by_tiktoken(text) if is_disputed(text) else self._fast(text)
        except UnicodeEncodeError:
            return self.count(repair_surrogates(text))

    def begin_anew(self) -> None:
        """Forget who was building or loading: of a process that is forked one thread lives on."""
        self._building = threading.Lock()
        if self._fast is None:
            self.loading = None

    def _count_slowly(self, text: str) -> int:
        tiktoken_above, fast_above = self._above_chars
        if self._counted_chars > fast_above and self.loading is None:
            self.loading = threading.Thread(target=self._load_fast, name="vocabulary")
            self.loading.start()
        plain = self._plain
        if plain is not None and self._counted_chars <= tiktoken_above:
            tokens = plain(text)
            if tokens is not None:
                return tokens
        return self._by_tiktoken(text)

    def _by_tiktoken(self, text: str) -> int:
        count = self._tiktoken
        if count is None:
            with self._building:
                count = self._tiktoken or open_tiktoken(self._encoding, self._ranks)
                self._tiktoken = count
            self._plain = self._ranks = None  # tiktoken keeps the vocabulary itself
        return count(text)

    def _load_fast(self) -> None:
        self._fast = open_fast(self._encoding)
        if self._fast is not None:
            self._tiktoken = self._plain = self._ranks = None  # few texts need both


class _Vocabularies:
    """What of the vocabularies is loaded, each of them once."""

    def __init__(self) -> None:
        self.loaded: dict[str, Vocabulary] = {}
        self.begun: set[str] = set()
        self._loading = threading.Lock()

    def load(self, encoding: str) -> Vocabulary:
        """Return a vocabulary; whoever else loads one is waited for."""
        with self._loading:
            if encoding not in self.loaded:
                self.loaded[encoding] = Vocabulary(encoding)
            return self.loaded[encoding]

    def begin_anew(self) -> None:
        """Forget who was loading: of a process that is forked only one thread lives on."""
        self._loading = threading.Lock()
        self.begun = set(self.loaded)
        for vocabulary in self.loaded.values():
            vocabulary.begin_anew()


_VOCABULARIES: Final = _Vocabularies()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_VOCABULARIES.begin_anew)
