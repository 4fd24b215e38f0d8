"""Recorded sessions, step by step: what is kept of earlier payloads changes no later one."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from context_assembler import ContextAssembler, EmptySessionError
from context_assembler.providers import PROVIDERS
from context_assembler.sessions import InMemoryStore
from context_assembler.transcripts import read_transcript

CORPUS: Final = Path(
    os.environ.get("CONTEXT_ASSEMBLER_CORPUS", Path(__file__).parents[3] / "shared" / "data")
)
SESSIONS: Final = (
    sorted((CORPUS / "trajectories" / "claude_code").rglob("*.jsonl"))[:3]
    + sorted((CORPUS / "trajectories" / "gemini_cli").glob("*/*.json"))[:2]
)
MOST_STEPS: Final = 24

pytestmark = [
    pytest.mark.recorded,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the recorded corpus is not at {CORPUS}"),
]


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "gpt-5.5", "gemini-3.1-pro-preview"])
@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_every_payload_is_what_it_would_be_alone(path: Path, model: str) -> None:
    events = [replace(event, answers_seq=0) for event in read_transcript(path).events]
    store, stride = InMemoryStore(), max(2, len(events) // MOST_STEPS)
    spelled = 0
    async with ContextAssembler(sessions=store) as assembler:
        for at in range(0, len(events), stride):
            await store.append("s", events[at : at + stride])
            try:
                context = await assembler.assemble("s", model=model, max_context_tokens=60_000)
            except EmptySessionError:
                continue
            for name, provider in PROVIDERS.items():
                draft = context.for_provider(name).draft
                alone = replace(draft, spelled=None)
                payload, broken = context.functions[name].send(draft)
                assert json.dumps(payload) == json.dumps(provider.render(alone))
                assert provider.fingerprints(draft) == provider.fingerprints(alone)
                found = provider.check_payload(payload, limits=draft.limits)
                assert [b for b in broken if b.level == "refused"] == [
                    b for b in found if b.level == "refused"
                ]
                spelled += 1
    assert spelled >= 4 * len(PROVIDERS)
