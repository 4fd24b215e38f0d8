"""What is said of a session is the same in every process."""

import os
import subprocess
import sys
from pathlib import Path


def say(folder: Path, seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.warn_in_process", str(folder)],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(str(folder), "")


def test_warnings_do_not_depend_on_the_order_of_sets(tmp_path: Path) -> None:
    first, second = (say(tmp_path / seed, seed) for seed in ("1", "2"))

    assert first == second
    assert "bad_enum" in first
    assert "{'black', 'blue', " in first
