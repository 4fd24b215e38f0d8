"""Recorded sessions under every strategy, budget and provider: a fixed sample of the whole sweep."""

from pathlib import Path

import pytest

from benchmarks.sweep import list_files, sweep_file

pytestmark = pytest.mark.recorded


def test_a_sample_of_recorded_sessions_always_comes_out_valid_and_within_budget(
    corpus: Path,
) -> None:
    files = [path for path in list_files(corpus) if path.stat().st_size < 600_000]

    tallies = [sweep_file(path, sample=1) for path in files]

    assert [failure for tally in tallies for failure in tally.failures] == []
    assert sum(tally.payloads for tally in tallies) >= 500
