"""`python -m benchmarks`: every benchmark that finishes within minutes, one after the other."""

import subprocess
import sys
from pathlib import Path

CORPUS = Path("../shared/data")


def main() -> int:
    """Run them, each in a process of its own; return the number that failed."""
    commands = [["-m", "benchmarks.assemble"]]
    if CORPUS.is_dir():
        commands.append(["-m", "benchmarks.sweep", str(CORPUS), "--sample", "5"])
    else:
        print(f"No sweep: there is no {CORPUS}.")
    failed = 0
    for command in commands:
        print(f"\n# {' '.join(command)}\n", flush=True)
        failed += subprocess.run([sys.executable, *command], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
