"""What recall finds by words of like meaning it finds beside vectors as well."""

from collections.abc import Iterator
from itertools import islice

import pytest

from context_assembler.embeddings import BundledEmbedder
from context_assembler.embeddings.related_words import load_related_words
from context_assembler.memory import SqliteMemoryStore
from context_assembler.memory_assembler import MemoryAssembler

OTHERS = ["Tea is ready.", "The invoice number has six digits.", "Rain fell all night in Oslo."]
SURE = 0.65  # a likeness from which on a word stands for another


def like_words() -> Iterator[tuple[str, str]]:
    """Yield words of the table, from all over it, each with one of another stem that is like it."""
    table = load_related_words()
    for word in table.words[2_000::37]:
        if len(word) > 4 and word.isalpha():
            for other, likeness in table.of([word]).get(word, {}).items():
                if likeness >= SURE and other[:3] != word[:3] and len(other) > 4:
                    yield word, other
                    break


@pytest.mark.parametrize(("asked", "said"), list(islice(like_words(), 40)))
async def test_what_is_found_by_words_is_found_beside_vectors(asked: str, said: str) -> None:
    text = (
        f"On the way home they spoke of the {said}, of the weather, and of the mill by the river."
    )
    embedder = BundledEmbedder()
    async with SqliteMemoryStore(None) as store:
        recall = MemoryAssembler(store, embed=embedder)
        await recall.remember([text, *OTHERS])

        by_words = await MemoryAssembler(store).assemble_context(asked)
        by_both = await recall.assemble_context(asked)

    assert by_words.items[0].record.text == text
    assert by_both.items[0].record.text == text


@pytest.mark.parametrize("query", ["friendship", "zebra crossing", "quarterly tax"])
async def test_what_nothing_says_is_found_by_neither(query: str) -> None:
    async with SqliteMemoryStore(None) as store:
        recall = MemoryAssembler(store, embed=BundledEmbedder())
        await recall.remember(OTHERS)

        assert not (await MemoryAssembler(store).assemble_context(query)).items
        assert not (await recall.assemble_context(query)).items
