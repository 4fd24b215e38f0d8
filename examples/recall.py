"""Recall what fits a question under a budget, and say why each memory is in or not.

The memories are kept in memory.db, so that a second run finds them there.
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from context_assembler.memory import MemoryAssembler, MemoryRecord, open_memory

SAID = (
    "Ann: I finally ran the charity race on Sunday!",
    "Ben: Congratulations! How far was it?",
    "Ann: Ten kilometres. My knees still hurt.",
    "Ben: I spent the day baking bread.",
)


def remembered() -> list[MemoryRecord]:
    begun = datetime.now(UTC) - timedelta(days=3)
    turns = [
        MemoryRecord(id=f"turn-{at}", kind="events", session_id="chat", text=text, created_at=begun)
        for at, text in enumerate(SAID)
    ]
    return [*turns, MemoryRecord(id="fact", text="Ann is training for a marathon.")]


async def run(question: str) -> None:
    async with open_memory("sqlite:memory.db") as store, MemoryAssembler(store) as recall:
        await store.remember(remembered())
        context = await recall.assemble_context(
            question,
            max_tokens=300,
            additional_context="We spoke about Ann's knees.",
            session_id="chat",
            unasked=1,
        )
    print(context.markdown)
    print(f"\n{context.token_count} tokens of {context.counts}, {context.strategy}. Why:")
    for row in context.explanations:
        print(f"  {row.score:.2f}  {row.outcome:<9}  {row.memory_id:<7}  {row.reason}")


if __name__ == "__main__":
    asyncio.run(run(" ".join(sys.argv[1:]) or "How far did Ann run?"))
