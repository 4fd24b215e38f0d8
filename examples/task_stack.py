"""Goals within goals: what the agent is at, and what fits its current goal, in one budget.

The stack is kept in stack.json, so that a second run goes on where this one stopped.
"""

import asyncio
from pathlib import Path

from context_assembler.memory import MemoryAssembler, MemoryRecord, TaskStack, open_memory

NOTES = (
    "The release script is scripts/release.sh; it needs a clean checkout.",
    "Changelog lines are written in the user's words.",
    "The nightly tests take forty minutes.",
)


KEPT = Path("stack.json")


def load() -> TaskStack:
    return TaskStack.load(KEPT.read_text()) if KEPT.exists() else TaskStack()


def save(stack: TaskStack) -> None:
    KEPT.write_text(stack.dump())


async def run() -> None:
    stack = load()
    if stack.current is None:
        stack = stack.push("Release version 2").push("Run the tests").pop("all 812 passed")
        stack = stack.push("Write the changelog").block("nobody listed the changes")
        stack = stack.push("Sort the lines of the changelog")
    save(stack)
    async with open_memory("memory:") as store, MemoryAssembler(store) as recall:
        await store.remember([MemoryRecord(text=text) for text in NOTES])
        context = await recall.assemble_stack(stack, max_tokens=1_000)
    print(" > ".join(frame.goal for frame in stack.path))
    print(f"\n{context.markdown}")


if __name__ == "__main__":
    asyncio.run(run())
