"""Read a transcript and show what would be sent of it, what would not, and why. Needs no key.

python explain_a_session.py [FILE]      # by default a sample session
"""

import asyncio
import sys
from collections import defaultdict
from pathlib import Path

from context_assembler import ContextAssembler, Report, ReportEntry, open_store, read_transcript
from context_assembler.models import bundled_path

SAMPLE = Path(bundled_path("samples/coding_agent.json"))


async def main(file: Path, model: str, window_tokens: int) -> None:
    transcript = read_transcript(file)
    store = open_store("memory:")
    await store.append("imported", transcript.events)

    async with ContextAssembler(sessions=store, tools=list(transcript.tools)) as assembler:
        report = await assembler.explain(
            "imported", model=model, max_tokens=4000, max_context_tokens=window_tokens
        )

    show(report)


def show(report: Report) -> None:
    for row in report.ledger.rows:
        print(f"{row.tokens:>9,}  {row.kind:<9} {row.name}")
    print(f"{report.ledger.used_tokens:>9,}  of {report.ledger.budget_tokens:,} tokens\n")
    alike: defaultdict[tuple[str, str, str], list[ReportEntry]] = defaultdict(list)
    for entry in report.entries:
        if entry.decision != "kept":
            alike[entry.decision, entry.kind, entry.reason].append(entry)
    for (decision, kind, reason), entries in alike.items():
        before = sum(entry.tokens_before for entry in entries)
        after = sum(entry.tokens_after for entry in entries)
        which = entries[0].id if len(entries) == 1 else f"{entries[0].id} … {entries[-1].id}"
        print(f"{decision}: {len(entries)} × {kind}, {before:,} → {after:,} tokens ({which})")
        print(f"    {reason}")


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    asyncio.run(main(file, "claude-opus-5-5", 30_000))
