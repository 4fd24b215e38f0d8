"""Recalling long records: what one passage says is not drowned by the others."""

from dataclasses import replace

import pytest

from context_assembler.embeddings import BundledEmbedder
from context_assembler.embeddings.passages import LONG_CHARS, split_passages
from context_assembler.memory import SqliteMemoryStore
from context_assembler.memory_assembler import MemoryAssembler
from tests.recall.building import NOW, record

AROUND = "Quarterly revenue grew faster than the board had expected this year. " * 8
LONG = [
    record(f"{AROUND} The puppy is called Archie. {AROUND}", id="archie"),
    *(record(f"{AROUND} {AROUND} Note {at}.", id=f"other {at}") for at in range(12)),
]


class Failing(BundledEmbedder):
    """Places texts, and fails at their passages."""

    async def compare_passages(self, *_: object, **__: object) -> list[float | None]:
        raise RuntimeError("no such passage")


class Miscounting(BundledEmbedder):
    """Places texts, and says nothing of their passages."""

    async def compare_passages(self, *_: object, **__: object) -> list[float | None]:
        return []


async def meanings(embed: BundledEmbedder, query: str) -> dict[str, float]:
    vectors = await embed.embed([one.text for one in LONG])
    async with SqliteMemoryStore(None) as store:
        await store.remember([replace(r, vector=v) for r, v in zip(LONG, vectors, strict=True)])
        async with MemoryAssembler(store, embed=embed, clock=NOW.timestamp) as recall:
            context = await recall.assemble_context(query)
    return {row.memory_id: row.scores["meaning"] for row in context.explanations}


async def test_the_passage_that_answers_is_found_in_a_long_record() -> None:
    told = await meanings(BundledEmbedder(), "young dog")

    assert told["archie"] == 1.0
    assert all(told[one.id] < 0.1 for one in LONG if one.id in told and one.id != "archie")


@pytest.mark.parametrize("broken", [Failing(), Miscounting()], ids=["failing", "miscounting"])
async def test_where_passages_cannot_be_read_the_records_vectors_count(
    broken: BundledEmbedder,
) -> None:
    assert (await meanings(broken, "young dog"))["archie"] == 1.0


@pytest.mark.parametrize("text", ["", "One. " * 200, "no end " * 300, "x" * 5_000])
def test_passages_are_whole_and_in_order(text: str) -> None:
    passages = split_passages(text)

    assert "".join(passages).replace(" ", "") == text[:2_000].replace(" ", "")
    assert all(passages)
    assert len(passages) > 1 or len(text) <= LONG_CHARS or "." not in text
