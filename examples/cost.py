"""What the next call of a session costs, cut to different budgets. Needs no key.

python cost.py [FILE]      # by default a sample session
"""

import asyncio
import sys
from pathlib import Path

from context_assembler import ContextAssembler, Report, open_store, read_transcript
from context_assembler.models import bundled_path

SAMPLE = Path(bundled_path("samples/coding_agent.json"))
BUDGETS = (20_000, 40_000, 80_000)


async def explain(file: Path, model: str) -> list[Report]:
    transcript = read_transcript(file)
    store = open_store("memory:")
    await store.append("work", transcript.events)
    async with ContextAssembler(sessions=store, tools=list(transcript.tools)) as assembler:
        return [
            await assembler.explain("work", model=model, max_context_tokens=budget)
            for budget in BUDGETS
        ]


def show(report: Report) -> None:
    ledger, forecast = report.ledger, report.forecast
    dropped = len([entry for entry in report.of("dropped") if entry.kind == "message"])
    price = forecast.price if forecast is not None else None
    usd = "not known" if price is None or price.usd is None else f"${price.usd:.4f}"
    print(
        f"{ledger.used_tokens:>7,} of {ledger.budget_tokens:>7,} tokens: {usd}, {dropped} dropped"
    )


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    for report in asyncio.run(explain(file, "claude-opus-5-5")):
        show(report)
