"""The same session gives the same payload, byte for byte, in every process."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = """
import asyncio, json, sys
from context_assembler import ContextAssembler, open_store, read_transcript
from context_assembler.resources import bundled_path

async def main(model):
    text = (bundled_path("samples") / "coding_agent.json").read_text(encoding="utf-8")
    transcript = read_transcript(text)
    store = open_store("memory:")
    await store.append("s", transcript.events)
    async with ContextAssembler(store, tools=list(transcript.tools)) as assembler:
        for bound in (20_000, 50_000, 200_000):
            context = await assembler.assemble(
                "s", model=model, max_tokens=2_000, max_context_tokens=bound
            )
            print(json.dumps(context.to_request()))

asyncio.run(main(sys.argv[1]))
"""


def payloads(model: str, *, hash_seed: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, model],
        check=True,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        encoding="utf-8",
        timeout=100,
    )
    return done.stdout


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-4.1"])
def test_payloads_are_the_same_in_every_process(model: str, tmp_path: Path) -> None:
    first = payloads(model, hash_seed="1", folder=tmp_path)
    second = payloads(model, hash_seed="2", folder=tmp_path)

    assert len(first.splitlines()) == 3
    assert first == second
