"""Replay a session call by call: what it costs, cut in different ways. Needs no key.

python cost.py [FILE]      # by default a sample session; writes cost.svg
"""

import asyncio
import sys
from pathlib import Path

from context_assembler import (
    ContextAssembler,
    CutPolicy,
    Simulation,
    draw_costs,
    open_store,
    read_transcript,
)
from context_assembler.resources import bundled_path

SAMPLE = bundled_path("samples") / "coding_agent.json"
POLICIES = [
    CutPolicy(strategy="smart", budget_share=0.5),
    CutPolicy(strategy="smart", cache_stable=False, budget_share=0.5),
    CutPolicy(strategy="simple", cache_stable=False, budget_share=0.5),
]


async def replay(file: Path, model: str) -> Simulation:
    transcript = read_transcript(file)
    store = open_store("memory:")
    await store.append("replayed", transcript.events)

    async with ContextAssembler(sessions=store, tools=list(transcript.tools)) as assembler:
        return await assembler.simulate("replayed", policies=POLICIES, model=model)


def show(simulation: Simulation, *, chart: Path) -> None:
    for run in (simulation.everything, *simulation.runs):
        price = "no known price" if run.usd is None else f"${run.usd:.4f}"
        print(f"{run.name:28} {run.tokens:>12,} tokens, {run.read_share:6.1%} read: {price}")
    chart.write_text(draw_costs(simulation), encoding="utf-8")


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    show(asyncio.run(replay(file, "claude-opus-5-5")), chart=Path("cost.svg"))
