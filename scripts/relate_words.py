"""Write which words are close in meaning, from the vectors of the bundled embedding model.

    PYTHONPATH=. python scripts/relate_words.py

A store of words alone finds "children" for "kids" by this table, without vectors and without numpy.
Of every word of the vocabulary the closest others are kept, one of each stem: words that only differ
in their endings are found anyway. Sums of floats differ in their last bits between machines, so a
few of the bytes may too.
"""

import hashlib
from functools import cache
from typing import Any

import numpy as np

from context_assembler.memory.words import MODEL_FOLDER, stems, vocabulary, word_lists

MOST = 12  # of one word
LEAST_COSINE = 0.45
NEAREST = 80  # looked at, until enough have different stems
ROWS_PER_BLOCK = 512
LEAST_CHARS = 3
DIMENSION = 128
LIKENESS_UNIT = 1 / 255
STOP_WORDS = frozenset(word_lists()["stop"]["English"].split())


def read_units(rows: int) -> Any:
    """Return the model's vectors, each of length 1."""
    content = (MODEL_FOLDER / "static_128.bin").read_bytes()
    codes = np.frombuffer(content, np.int8, rows * DIMENSION).reshape(rows, -1).astype(np.float32)
    lengths = np.linalg.norm(codes, axis=1, keepdims=True)
    return codes / np.maximum(lengths, 1)  # rows of zeros stay


def is_word(token: str) -> bool:
    """Whether a text is looked for by the token: pieces of words, signs and stop words are not."""
    is_plain = token.isascii() and token.isalpha() and len(token) >= LEAST_CHARS
    return is_plain and token not in STOP_WORDS


def relate(tokens: list[str], units: Any) -> dict[int, list[tuple[int, float]]]:
    """Return for each word the ids of the closest, best first, with their cosines."""
    ids = np.array([at for at, token in enumerate(tokens) if is_word(token)])
    words = units[ids]
    related: dict[int, list[tuple[int, float]]] = {}
    for start in range(0, len(ids), ROWS_PER_BLOCK):
        block = words[start : start + ROWS_PER_BLOCK] @ words.T
        for row, cosines in enumerate(block):
            nearest = np.argpartition(-cosines, NEAREST)[:NEAREST]
            ordered = nearest[np.argsort(-cosines[nearest], kind="stable")]
            word_id = int(ids[start + row])
            pairs = [(int(ids[at]), float(cosines[at])) for at in ordered]
            related[word_id] = one_of_each_stem(word_id, pairs, tokens)
    return related


def one_of_each_stem(
    word_id: int, pairs: list[tuple[int, float]], tokens: list[str]
) -> list[tuple[int, float]]:
    """Return the best of the pairs whose stems are neither the word's nor each other's."""
    seen = {stem_of(tokens[word_id])}
    kept: list[tuple[int, float]] = []
    for other, cosine in pairs:
        ending_less = stem_of(tokens[other])
        if cosine >= LEAST_COSINE and ending_less not in seen and len(kept) < MOST:
            seen.add(ending_less)
            kept.append((other, cosine))
    return kept


@cache
def stem_of(word: str) -> str:
    """Return the word without its ending."""
    return stems([word])[0][0]


def pack(related: dict[int, list[tuple[int, float]]], rows: int) -> bytes:
    """Return for each row a count, then so many ids of two bytes with a likeness of one."""
    content = bytearray()
    for at in range(rows):
        pairs = related.get(at, [])
        content.append(len(pairs))
        for other, cosine in pairs:
            content += other.to_bytes(2, "little")
            content.append(min(round(cosine / LIKENESS_UNIT), 255))
    return bytes(content)


def main() -> None:
    """Write the table, and print what is in it."""
    tokens = vocabulary()
    related = relate(tokens, read_units(len(tokens)))
    content = pack(related, len(tokens))
    (MODEL_FOLDER / "related_words.bin").write_bytes(content)
    pairs = sum(map(len, related.values()))
    print(f"sha256 {hashlib.sha256(content).hexdigest()}")
    print(f"{len(related):,} words, {pairs:,} pairs, {len(content):,} bytes")


if __name__ == "__main__":
    main()
