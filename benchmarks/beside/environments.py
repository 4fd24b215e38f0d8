"""Which of the peers are installed, and how the others come to be.

    python -m benchmarks.beside.environments      # install all that can be installed

The harness asks for four environments, since some peers cannot share one. A file of requirements
that cannot be installed as a whole leaves its peers out; the run says so.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.beside.harness import BENCH, ENVIRONMENTS, ROOT, Harness
from benchmarks.beside.plans import Plan

_REQUIREMENTS: Final[Mapping[str, str]] = {
    ".venv": "requirements.txt",
    ".venv-sk": "requirements-sk.txt",
    ".venv-x": "requirements-x.txt",
    ".venv-cc": "requirements-cc.txt",
}


def find_installed(harness: Harness, plan: Plan) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the peers to measure, with their versions, and for every other why it is left out."""
    found: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    versions = {name: _versions(harness, name) for name in {s["venv"] for s in harness.peers()}}
    for spec in harness.peers():
        installed = versions[spec["venv"]]
        package = re.sub("[-_.]+", "-", spec["package"]).lower()
        if spec["name"] in plan.left_out:
            missing[spec["name"]] = "takes minutes; measured by --plan full"
        elif installed is None or (package and package not in installed):
            missing[spec["name"]] = f"{spec['package'] or spec['venv']} is not installed"
        else:
            found.append({**spec, "version": installed.get(package, "")})
    return found, missing


def _versions(harness: Harness, environment: str) -> dict[str, str] | None:
    python = harness.python_of(environment)
    if not python.exists():
        return None
    script = (
        "import importlib.metadata as m, json, re\n"
        "print(json.dumps({re.sub('[-_.]+', '-', d.metadata['Name']).lower(): d.version\n"
        "                  for d in m.distributions() if d.metadata['Name']}))"
    )
    done = subprocess.run([str(python), "-c", script], check=True, capture_output=True, text=True)
    installed: dict[str, str] = json.loads(done.stdout)
    return installed


def install() -> None:
    """Create every environment that is not there yet; say what could not be installed."""
    for name, requirements in _REQUIREMENTS.items():
        folder, listed = ENVIRONMENTS[name], BENCH / requirements
        if (folder / ".installed").exists() or not listed.exists():
            continue
        started = time.perf_counter()
        print(f"Installing the peers of {requirements} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        python = str(folder / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", "uv"], check=True)
        installing = [python, "-m", "uv", "pip", "install", "-q", "--python", python]
        done = subprocess.run([*installing, "-r", str(listed)], check=False, cwd=ROOT)
        elapsed = time.perf_counter() - started
        if done.returncode:
            print(f"{requirements} could not be installed: its peers are left out.", flush=True)
        else:
            (folder / ".installed").touch()
            print(f"Installed in {elapsed:.0f} s.", flush=True)


if __name__ == "__main__":
    install()
