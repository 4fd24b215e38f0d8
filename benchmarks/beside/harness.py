"""The harness of CONTEXT_ASSEMBLER_BENCH, laid out where it can be run with our adapter in it.

The harness is read where it lies and never written to: its programs and adapters are copied, its
recorded sessions linked, and beside them lie our adapter, the environments of the peers, and the
vocabularies for its own counts. Those are ours, written in tiktoken's own form; tiktoken checks
their digest when it opens them.
"""

import base64
import importlib
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from context_assembler.tokens.bpe import load_ranks

ROOT: Final = Path(__file__).parents[2]
BENCH: Final = Path(os.environ.get("CONTEXT_ASSEMBLER_BENCH", ROOT.parent / "shared" / "bench"))
SCRATCH: Final = ROOT / ".bench-data"
# The names that the harness gives to its environments, and where ours lie.
ENVIRONMENTS: Final[Mapping[str, Path]] = {
    ".venv": ROOT / ".venv-bench",
    ".venv-sk": ROOT / ".venv-bench-sk",
    ".venv-x": ROOT / ".venv-bench-x",
    ".venv-cc": ROOT / ".venv-bench-cc",
}
_OURS: Final = ".venv-ours"
# The names under which tiktoken looks for them: digests of where they were published.
_VOCABULARIES: Final[Mapping[str, str]] = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """The harness laid out; `run`, `sessions`, `floor` … are its own modules."""

    folder: Path

    @classmethod
    def lay_out(cls, folder: Path = SCRATCH / "harness") -> "Harness | None":
        """Return the harness, or nothing where CONTEXT_ASSEMBLER_BENCH holds none."""
        if not (BENCH / "worker.py").exists():
            return None
        data = folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        for program in BENCH.glob("*.py"):
            shutil.copy(program, folder)
        shutil.copytree(BENCH / "peers", folder / "peers", dirs_exist_ok=True)
        for adapter in (ROOT / "benchmarks" / "peers").glob("*.py"):
            shutil.copy(adapter, folder / "peers")
        for recorded in (BENCH / "data").glob("*.json"):
            _link(data / recorded.name, recorded.resolve())
        for name, environment in {**ENVIRONMENTS, _OURS: Path(sys.prefix)}.items():
            _link(folder / name, environment)
        _write_vocabularies(folder / ".tiktoken")
        return cls(folder=folder)

    def module(self, name: str) -> Any:
        """Return one of the harness's own modules."""
        if str(self.folder) not in sys.path:
            sys.path.insert(0, str(self.folder))
        return importlib.import_module(name)

    def python_of(self, environment: str) -> Path:
        """Return the interpreter of one of the environments that the harness names."""
        return self.folder / environment / "bin" / "python"

    def peers(self) -> list[dict[str, Any]]:
        """Return what is known of every adapter, ours among them, installed or not."""
        found: list[dict[str, Any]] = self.module("run").discover()
        return found


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() or link.exists():
        link.unlink()
    link.symlink_to(target)


def _write_vocabularies(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for encoding, name in _VOCABULARIES.items():
        if not (folder / name).exists():
            ranks = load_ranks(encoding).items()
            lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks)
            (folder / name).write_bytes(b"".join(lines))
