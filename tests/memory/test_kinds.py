"""A kind of memory is declared in one place, and then stored, recalled and written like the others."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest

from context_assembler.memory import KINDS, MemoryAssembler, MemoryRecord, kind, open_memory


@pytest.fixture
def recipes() -> Iterator[Any]:
    @kind("recipes", "Recipes", share=0.5)
    class RecipeMetadata:
        minutes: int = 0
        heat: Literal["low", "high"] = "low"
        grams: float | None = None
        tags: tuple[str, ...] = ()

        def entry(self, text: str, author: str | None, when: str) -> str:
            known = f"{self.minutes} min, {self.heat}, {self.grams}, {self.tags}"
            return f"- {author} {when} {text} ({known})"

    yield RecipeMetadata
    del KINDS["recipes"]


async def test_a_kind_of_ones_own_is_kept_recalled_and_written(recipes: Any) -> None:
    metadata = recipes(minutes=6, heat="high", grams=2, tags=("breakfast",))
    record = MemoryRecord(text="Boil the eggs", kind="recipes", metadata=metadata)
    async with open_memory("memory:") as store:
        assembler = MemoryAssembler(store)
        await assembler.remember([record])

        found = await assembler.assemble_context("eggs")

    assert (
        "## Recipes\n\n- None just now Boil the eggs (6 min, high, 2, ('breakfast',))"
        in found.markdown
    )
