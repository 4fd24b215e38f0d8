"""The benchmarks run: nothing is said about time."""

from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.__main__ import Run
from benchmarks.targets import write_table

MODULES = sorted(path.stem for path in Path(import_module("benchmarks").__path__[0]).glob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_can_be_imported(name: str) -> None:
    assert import_module(f"benchmarks.{name}")


def test_the_smallest_plan_measures_every_target_on_generated_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_CORPUS", str(tmp_path / "none"))
    run = Run("tiny", folder=tmp_path, peers=False)

    for part in (1, 2, 3, 4, 5):
        run.part(part)

    failed = {key: found for key, found in run.found.items() if "error" in str(found)}
    assert failed == {}
    assert write_table(run.found).count("\n|") == 27
