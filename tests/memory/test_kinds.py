"""A kind of memory is declared in one place, and then stored, recalled and written like the others."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest

from context_assembler.memory import (
    KINDS,
    EventMetadata,
    ExperienceMetadata,
    FactMetadata,
    MemoryAssembler,
    MemoryRecord,
    PatternMetadata,
    ValueMetadata,
    kind,
    open_memory,
)


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


def event(tool: str | None, kind: str | None = None, *, is_error: bool | None = None) -> Any:
    return EventMetadata(tool_name=tool, event_type=kind, is_error=is_error)


TRIED = ExperienceMetadata(
    hypothesis="a lock is enough",
    outcome="it stood still",
    surprise=0.8,
    domain="migrations",
    strategy="in place",
    succeeded=False,
)
# By what it shows: kind, text, metadata, and the lines of its entry.
ENTRIES: dict[str, tuple[str, str, Any, str]] = {
    "a file that was read": ("events", "src/a.py", event("Read"), "- Read src/a.py"),
    "a file that was written": ("events", "src/a.py", event("str_replace"), "- Wrote src/a.py"),
    "a command": ("events", "pytest -q", event("Bash", "tool_call"), "- Executed pytest -q"),
    "what its type says": ("events", "src/a.py", event(None, "file_read"), "- Read src/a.py"),
    "a verb that is there": ("events", "Read src/a.py", event("Read"), "- Read src/a.py"),
    "a call that failed": (
        "events",
        "pytest",
        event("exec_command", is_error=True),
        "- [error] Executed pytest",
    ),
    "what a tool answered": (
        "events",
        "3 passed",
        event("Bash", "tool_result"),
        "- [Bash] 3 passed",
    ),
    "another tool": ("events", "tea", event("thread_list"), "- [thread_list] tea"),
    "an attempt": (
        "experiences",
        "It hung.",
        TRIED,
        (
            "- It hung. (failed) (just now, surprise 80%, domain: migrations, strategy: in place)\n"
            "  - hypothesis: a lock is enough\n  - outcome: it stood still"
        ),
    ),
    "a fact": (
        "memories",
        "Ada likes tea.",
        FactMetadata(category="taste"),
        "- Ada likes tea. (taste, importance 0.8)",
    ),
    "a principle": (
        "values",
        "Ship small.",
        ValueMetadata(axis="speed", confidence=0.9),
        "- Ship small. (axis: speed, 90% sure)",
    ),
    "a pattern": (
        "patterns",
        "Retry once.",
        PatternMetadata(success_rate=0.75, occurrences=4),
        "- Retry once. (seen 4 times, succeeded 75% of the time, just now)",
    ),
}


@pytest.mark.parametrize(
    ("kind_of", "text", "metadata", "entry"), ENTRIES.values(), ids=ENTRIES.keys()
)
async def test_an_entry_shows_what_is_known(
    kind_of: str, text: str, metadata: Any, entry: str
) -> None:
    record = MemoryRecord(text=text, kind=kind_of, metadata=metadata, importance=0.8)
    async with open_memory("memory:") as store:
        await store.remember([record])

        found = await MemoryAssembler(store).assemble_context(text)

    assert f"\n\n{entry}\n" in f"{found.markdown}\n".replace(":\n-", ":\n\n-")


async def test_patterns_stand_in_the_order_of_their_success() -> None:
    rates = {"often": 0.9, "seldom": 0.1, "nobody knows": None, "half": 0.5}
    records = [
        MemoryRecord(
            text=f"Retrying works {name}.",
            kind="patterns",
            metadata=PatternMetadata(success_rate=rate),
        )
        for name, rate in rates.items()
    ]
    async with open_memory("memory:") as store:
        await store.remember(records)

        found = await MemoryAssembler(store).assemble_context("retrying works")

    places = [found.markdown.index(name) for name in ("often", "half", "seldom", "nobody knows")]
    assert places == sorted(places)


async def test_attempts_that_differ_in_strategy_or_outcome_are_all_kept() -> None:
    ways = [("in place", True), ("in place", False), ("copy", True), ("copy", True)]
    records = [
        MemoryRecord(
            text="The column was renamed.",
            kind="experiences",
            metadata=ExperienceMetadata(strategy=strategy, succeeded=succeeded),
        )
        for strategy, succeeded in ways
    ]
    async with open_memory("memory:") as store:
        kept = await store.remember(records)

    assert [one.outcome for one in kept] == ["added", "added", "added", "duplicate"]
