"""Type checkers know what the SDKs return for our payloads, in a program as a user writes it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("program.py")
STRICT = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "include": [str(PROGRAM)]}
COMMANDS = {
    "it runs": [str(PROGRAM)],
    # In the project's folder, so that what was learned of the SDKs before is not read again.
    "mypy": ["-m", "mypy", "--strict", str(PROGRAM)],
    "basedpyright": ["-m", "basedpyright", "--pythonpath", sys.executable, "--project"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_program_of_calls_to_the_sdks(name: str, tmp_path: Path) -> None:
    settings = tmp_path / "pyrightconfig.json"
    settings.write_text(json.dumps(STRICT), "utf-8")
    words = [*COMMANDS[name], *([str(settings)] if name == "basedpyright" else [])]

    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
