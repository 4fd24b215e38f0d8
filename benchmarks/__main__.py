"""`python -m benchmarks`: every benchmark that finishes within minutes, one after the other.

Options are those of `benchmarks.beside`, which measures ours beside other libraries.
"""

import os
import subprocess
import sys
from pathlib import Path

CORPUS = os.environ.get("CONTEXT_ASSEMBLER_CORPUS", "")


def main() -> int:
    """Run them, each in a process of its own; return the number that failed."""
    commands = [
        ["-m", "benchmarks.beside", "--write", *sys.argv[1:]],
        ["-m", "benchmarks.tokens"],
        ["-m", "benchmarks.registry"],
        ["-m", "benchmarks.recall", "--records", "10000", "--queries", "100"],
    ]
    if CORPUS and Path(CORPUS).is_dir():
        commands.append(["-m", "benchmarks.usage", str(Path(CORPUS) / "requests")])
        commands.append(["-m", "benchmarks.sweep", CORPUS, "--sample", "5"])
        if (Path(CORPUS) / "memory").is_dir():
            folder = str(Path(CORPUS) / "memory")
            commands.append(
                ["-m", "benchmarks.recall_dialogues", "--corpus", folder, "--records", "10000"]
            )
            commands.append(["-m", "benchmarks.memory_quality", "--corpus", folder])
    else:
        print(
            "No usage, no sweep: CONTEXT_ASSEMBLER_CORPUS names no folder with the recorded corpus."
        )
    failed = 0
    for command in commands:
        print(f"\n# {' '.join(command)}\n", flush=True)
        failed += subprocess.run([sys.executable, *command], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
