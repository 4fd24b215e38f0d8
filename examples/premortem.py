"""Before an agent tries something: what earlier attempts in that domain taught."""

import asyncio

from context_assembler.memory import (
    ExperienceMetadata,
    MemoryAssembler,
    MemoryRecord,
    ValueMetadata,
    open_memory,
)


def tried(text: str, strategy: str, *, cause: str | None = None) -> MemoryRecord:
    outcome = ExperienceMetadata(
        domain="migrations", strategy=strategy, succeeded=cause is None, root_cause=cause
    )
    return MemoryRecord(text=text, kind="experiences", metadata=outcome)


LESSONS = [
    tried("A column was renamed.", "in place", cause="old workers still read it"),
    tried("An index was built on the live table.", "in place", cause="the table was locked"),
    tried("A second column was added, filled and swapped.", "expand and contract"),
    MemoryRecord(
        text="A migration must work with the version before it.",
        kind="values",
        metadata=ValueMetadata(domain="migrations", confidence=0.95),
    ),
    MemoryRecord(text="Rehearse migrations on a copy.", kind="values"),  # of no domain
]


async def run() -> None:
    async with open_memory("memory:") as store, MemoryAssembler(store) as recall:
        await store.remember(LESSONS)
        context = await recall.get_premortem_context("migrations", limit=5)
    print(context.markdown)


if __name__ == "__main__":
    asyncio.run(run())
