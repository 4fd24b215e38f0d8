"""No folder of the package grows; `make house` prints the budgets that they shrink to."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_no_folder_grows() -> None:
    script = ROOT / "scripts" / "house.py"

    measured = subprocess.run(
        [sys.executable, str(script), "--stage", "reached"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert measured.returncode == 0, measured.stdout + measured.stderr


def test_the_tests_stay_within_their_budget() -> None:
    measure = runpy.run_path(str(ROOT / "scripts" / "house.py"))["measure"]
    budgets = json.loads((ROOT / "scripts" / "budgets.json").read_text(encoding="utf-8"))

    lines = sum(measure(path)[0] for path in (ROOT / "tests").rglob("*.py"))

    assert lines <= budgets["tests"]["reached"], "delete what two tests check"


def test_scripts_and_benchmarks_stay_small() -> None:
    files = [p for folder in ("scripts", "benchmarks") for p in (ROOT / folder).rglob("*.py")]

    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) < 6_500
