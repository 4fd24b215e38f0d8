"""Recorded sessions under every strategy, budget and provider: a fixed sample of the whole sweep."""

from pathlib import Path

import pytest

from benchmarks.sweep import MODELS, list_files, sweep_file

pytestmark = pytest.mark.recorded

LARGEST_BYTES = 150_000  # of a file with sessions; of those with requests the first ones are taken


@pytest.mark.parametrize("provider", MODELS)
def test_a_sample_of_recorded_sessions_always_comes_out_valid_and_within_budget(
    provider: str, corpus: Path
) -> None:
    """Spelled for the three other protocols as well: valid there, and nothing lost in silence."""
    files = [
        path
        for path in list_files(corpus)
        if path.parent.name == "requests" or path.stat().st_size < LARGEST_BYTES
    ]

    tallies = [sweep_file(path, providers=[provider], crosses=True, sample=2) for path in files]

    assert [failure for tally in tallies for failure in tally.failures] == []
    assert sum(tally.payloads.total() for tally in tallies) >= 100
    assert sum(tally.crossed.total() for tally in tallies) >= 100
