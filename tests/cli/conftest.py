"""The command line, run in this process in a folder of its own."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from context_assembler.cli import main

SAMPLES = Path(__file__).parents[1] / "samples"
STORE = ("--sessions", "sqlite:agent.db")
CLAUDE = ("-m", "claude-opus-5-5")
GPT = ("-m", "gpt-5.5")


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run: TypeAlias = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command and returns its exit code and output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "90")

    def call(*words: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as end:
            main(words)
        assert isinstance(end.value.code, int)
        captured = capsys.readouterr()
        return Ran(end.value.code, captured.out, captured.err)

    return call


@pytest.fixture
def stored(run: Run) -> Run:
    """Return `run` after the sample of a long session was imported as `work`."""
    sample = str(SAMPLES / "coding_agent.json")
    assert run("import", sample, *STORE, "--session", "work").code == 0
    return run
