"""Replace the old part of a long session by a summary, before the call that would overflow.

With MODEL set, that model writes the summary over its provider's SDK; without it, no model is asked.
The events that the summary covers stay in the store.
"""

import asyncio
import os
from pathlib import Path

from context_assembler import ContextAssembler, read_transcript
from context_assembler.compaction import Compactor, extract_summary, summarize_with
from context_assembler.models import bundled_path

SAMPLE = Path(bundled_path("samples/coding_agent.json"))
MODEL = os.environ.get("MODEL")


async def main() -> None:
    compactor = Compactor(
        summarize_with(MODEL) if MODEL else extract_summary,
        before=lambda session_id, events: print(f"{session_id}: {len(events)} events to summarise"),
        after=lambda done: print(f"{done.summary_tokens:,} tokens for {done.covered_tokens:,}"),
    )
    async with ContextAssembler(auto_compact=compactor) as assembler:
        await assembler.sessions.append("billing", read_transcript(SAMPLE).events)
        context = await assembler.assemble(
            "billing", model="claude-opus-5-5", max_tokens=4000, max_context_tokens=60_000
        )
    [entry] = [one for one in context.report.entries if one.rule == "compaction.covers"]
    print(f"{entry.reason} The request has {context.metadata.ledger.used_tokens:,} now.")


if __name__ == "__main__":
    asyncio.run(main())
