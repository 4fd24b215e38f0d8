"""How fast the questions of recorded conversations find what was said in them.

    python -m benchmarks.recall_dialogues [--corpus ../shared/data/memory] [--records 10000 100000]

`benchmarks.recall` asks for words that are taken from all over a small vocabulary: many match, and
it is slower than what people ask. Here the memories are the sentences of recorded conversations,
and, until there are enough, halves of two of them laid together; the questions are those that were
recorded with them, of six words that say something on average. Vectors are those of the bundled
model, and embedding the question is part of the time.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from benchmarks.memory_quality import read_asked, read_conversations, read_memorybank
from benchmarks.recall import BATCH, HITS, LIMIT_MS_BY_RECORDS, PlainTable, load, show, time_each
from context_assembler.embeddings import BundledEmbedder
from context_assembler.memory import SqliteMemoryStore
from context_assembler.values.memories.records import MemoryRecord

ROUNDS: Final = 3  # over the questions, which are a hundred


def read_recorded(corpus: Path) -> tuple[list[MemoryRecord], list[str]]:
    """Return every sentence that was said, and every question."""
    said = read_conversations(corpus / "bfcl_memory", by_sentence=True)
    asked = read_asked(corpus / "bfcl_memory", said)
    english, probed = read_memorybank(corpus / "memorybank", "en")
    return [*said, *english], [one.question for one in (*asked, *probed)]


def make_more(recorded: Sequence[MemoryRecord], count: int) -> Iterator[MemoryRecord]:
    """Yield so many: what was recorded, then the first half of one with the second of another."""
    chance = random.Random(count)
    for number in range(count):
        if number < len(recorded):
            yield replace(recorded[number], id="")
            continue
        first, second = (chance.choice(recorded) for _ in range(2))
        begun, ended = first.text.split(), second.text.split()
        words = (*begun[: len(begun) // 2], *ended[len(ended) // 2 :], f"({number})")
        yield replace(first, id="", text=" ".join(words))


async def fill(
    store: SqliteMemoryStore,
    plain: PlainTable,
    records: Iterable[MemoryRecord],
    embedder: BundledEmbedder,
) -> None:
    """Keep the records in both, with the vectors of their texts in ours."""
    coming = iter(records)
    while batch := list(islice(coming, BATCH)):
        texts = [record.text for record in batch]
        vectors = embedder.embed_now(texts)
        await store.remember(
            [replace(record, vector=vector) for record, vector in zip(batch, vectors, strict=True)]
        )
        plain.add(texts)
    await store.optimize()
    plain.optimize()


async def run(recorded: Sequence[MemoryRecord], questions: Sequence[str], count: int) -> None:
    """Measure one size."""
    print(f"\n{count:,} sentences of conversations, {len(questions)} questions, {load()}")
    embedder = BundledEmbedder()
    limit_ms = LIMIT_MS_BY_RECORDS.get(count)
    with tempfile.TemporaryDirectory() as folder:
        plain = PlainTable(Path(folder) / "plain.db")
        with closing(plain.connection):
            async with SqliteMemoryStore(Path(folder) / "memory.db") as store:
                await fill(store, plain, make_more(recorded, count), embedder)

                async def ask_both(question: str) -> object:
                    [vector] = embedder.embed_now([question], purpose="query")
                    return await store.search(question, limit=HITS, vector=vector)

                asked = [*questions] * ROUNDS
                show(f"plain FTS5, {HITS} hits", await time_each(plain.search, asked))
                by_words = partial(store.search, limit=HITS)
                for name, ask, factor in (
                    ("words", by_words, 1),
                    ("words and vectors", ask_both, 2),
                ):
                    await time_each(ask, questions[:20])  # the first ones read the file
                    times = await time_each(ask, asked)
                    show(name, times)
                    bound = "" if limit_ms is None else f" (at most {limit_ms * factor} ms)"
                    show(
                        f"{name}:",
                        f"p50 {times.p50:.2f} ms{bound},"
                        f" p99 {times.p99 / times.p50:.1f} times it (at most 6)",
                    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of every size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpus", type=Path, default=Path("../shared/data/memory"))
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 100_000])
    chosen = parser.parse_args(arguments)
    recorded, questions = read_recorded(chosen.corpus)
    for count in chosen.records:
        asyncio.run(run(recorded, questions, count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
