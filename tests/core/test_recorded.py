"""Recorded sessions: every step is valid, within its budget, and that of a new process."""

import json
from pathlib import Path
from typing import Any

import pytest

from context_assembler import ContextAssembler, ContextOverflowError, InMemoryStore, read_transcript
from tests.core.sessions import PROVIDERS, QUIET, opened

pytestmark = pytest.mark.recorded
MOST_BYTES = 150_000


def sessions(corpus: Path) -> list[Path]:
    found = sorted(corpus.glob("trajectories/*/**/*.json*"))
    return [path for path in found if path.stat().st_size < MOST_BYTES][::4][:5]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_recorded_sessions_are_sent_whole_cut_and_step_by_step(corpus: Path, provider: str) -> None:
    played = 0
    for path in sessions(corpus):
        try:
            events = read_transcript(path).events
        except ValueError:
            continue
        played += 1
        store, model = InMemoryStore(), PROVIDERS[provider]
        old = opened(store, **QUIET)
        for end in range(0, len(events), 1 + len(events) // 4):
            size = 1 + len(events) // 4
            store.append_now("s", events[end : end + size])
            check_step(old, store, model)
    assert played > 1


def check_step(old: ContextAssembler, store: InMemoryStore, model: str) -> None:
    whole = old.assemble_sync("s", model=model)
    used = whole.metadata.ledger.used_tokens
    asked: dict[str, Any] = {
        "model": model,
        "max_tokens": 100,
        "max_context_tokens": 100 + used * 2 // 3,
    }

    try:
        cut = old.assemble_sync("s", **asked, on_overflow="shorten")
    except ContextOverflowError:
        cut = whole
    else:
        anew = opened(store, **QUIET).assemble_sync("s", **asked, on_overflow="shorten")
        assert json.dumps(anew.to_request()) == json.dumps(cut.to_request())

    assert whole.check() == cut.check() == []
    assert cut.metadata.ledger.used_tokens <= cut.metadata.ledger.budget_tokens
