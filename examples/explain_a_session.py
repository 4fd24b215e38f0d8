"""Read a transcript and show what would be sent of it, what would not, and why. Needs no key.

python explain_a_session.py [FILE]      # by default a sample of this repository
"""

import asyncio
import sys
from pathlib import Path

from context_assembler import ContextAssembler, open_store, read_transcript

SAMPLE = Path(__file__).parents[1] / "tests" / "samples" / "coding_agent.json"


async def main(file: Path, model: str, window_tokens: int) -> None:
    transcript = read_transcript(file)
    store = open_store("memory:")
    await store.append("imported", transcript.events)

    async with ContextAssembler(sessions=store, tools=list(transcript.tools)) as assembler:
        report = await assembler.explain(
            "imported", model=model, max_tokens=4000, max_context_tokens=window_tokens
        )

    for row in report.ledger.rows:
        print(f"{row.tokens:>9,}  {row.kind:<9} {row.name}")
    print(f"{report.ledger.used_tokens:>9,}  of {report.ledger.budget_tokens:,} tokens\n")
    for entry in report.entries:
        if entry.decision != "kept":
            change = f"{entry.tokens_before:,} → {entry.tokens_after:,} tokens"
            print(f"{entry.decision:<10} {entry.kind} {entry.id}: {change}. {entry.reason}")


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    asyncio.run(main(file, "claude-opus-5-5", 30_000))
