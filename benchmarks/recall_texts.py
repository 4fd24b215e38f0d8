"""Memories, questions and nearly equal texts to measure recall with, the same at every run.

The texts are paragraphs of the documentation of whatever packages are installed, cut and laid
together anew from a fixed seed until there are enough, and as many of made-up Chinese words.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import distributions
from itertools import combinations
from typing import Any, Final

from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.memories.vectors import Vector

PROJECTS: Final = 20
DIMENSION: Final = 128
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
KINDS: Final[tuple[MemoryKind, ...]] = ("memories", "events", "learnings", "code")
_HAN: Final = [chr(code) for code in range(0x4E00, 0x4E00 + 3_000)]
_COPIED: Final = 0.4
_EDITS: Final = ((1, 45), (1, 45), (1, 45), (60, 120))  # a quarter is no copy any more


def read_sentences() -> list[str]:
    """Return the sentences of all packages' descriptions, each once, in a fixed order."""
    found: set[str] = set()
    for package in distributions():
        text = package.read_text("METADATA") or ""
        found.update(line.strip() for line in text.splitlines() if 30 < len(line.strip()) < 400)
    return sorted(found)


def make_records(
    count: int, sentences: Sequence[str], *, vectors: Any = None
) -> Iterator[MemoryRecord]:
    """Yield memories of two to four sentences each.

    Args:
        vectors: A generator of numpy's for their vectors; `None` for none.
    """
    chance = random.Random(count)
    for number in range(count):
        codes = None if vectors is None else vectors.integers(-127, 128, DIMENSION, dtype="int8")
        yield MemoryRecord(
            text=" ".join(chance.sample(sentences, chance.randint(2, 4))) + f" (note {number})",
            kind=KINDS[number % len(KINDS)],
            namespace=f"project{number % PROJECTS}",
            session_id=f"session{number // 50}",
            created_at=START + timedelta(seconds=number),
            importance=chance.random(),
            vector=None if codes is None else Vector(model="random", codes=codes.tobytes()),
        )


def make_queries(texts: Sequence[str]) -> list[str]:
    """Return questions of four to ten words that stand in one memory each."""
    chance = random.Random(1)
    return [
        " ".join(chance.sample(words, min(len(words), chance.randint(4, 10))))
        for words in map(str.split, texts)
    ]


def make_near_copies(
    count: int, chars: int, sentences: Sequence[str]
) -> tuple[list[str], list[tuple[int, int]]]:
    """Return texts, half of them Latin, and the pairs that were copied from each other."""
    chance = random.Random(count)
    words = ["".join(chance.choices(_HAN, k=chance.choice([1, 2, 2, 2, 3]))) for _ in range(3_000)]
    weights = [1 / (rank + 5) for rank in range(len(words))]
    chinese = ["".join(chance.choices(words, weights, k=12)) + "。" for _ in range(6_000)]
    originals = count - int(count * _COPIED)
    texts = [
        _text(chance, chinese if number % 2 else sentences, chars) for number in range(originals)
    ]
    families: dict[int, list[int]] = {}
    for number in range(count - originals):
        original = chance.randrange(originals)
        families.setdefault(original, [original]).append(len(texts))
        least, most = _EDITS[number % len(_EDITS)]
        texts.append(_changed(chance, texts[original], chance.randint(least, most)))
    order = chance.sample(range(count), count)
    place_by_number = {number: place for place, number in enumerate(order)}
    pairs = [
        (min(pair), max(pair))
        for family in families.values()
        for pair in combinations([place_by_number[number] for number in family], 2)
    ]
    return [texts[number] for number in order], pairs


def _text(chance: random.Random, sentences: Sequence[str], chars: int) -> str:
    text = ""
    while len(text) < chars:
        text += f"{chance.choice(sentences)} "
    return text[:chars]


def _changed(chance: random.Random, text: str, edits: int) -> str:
    """Return the text with characters replaced, put in and taken out, anywhere."""
    letters = "abcdefghijklmnop rstuv" if text[0].isascii() else _HAN
    chars = list(text)
    for _ in range(edits):
        at, letter = chance.randrange(len(chars)), chance.choice(letters)
        chars[at : at + chance.choice([0, 1])] = chance.choice([[], [letter]])
    return "".join(chars)
