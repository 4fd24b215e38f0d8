"""Runs the command line as a user does, in this process or in one of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from context_assembler.cli import app

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def run(*words: str, stdin: bytes = b"") -> Ran:
    result = CliRunner().invoke(app, list(words), input=stdin, prog_name="context-assembler")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(exit_code=result.exit_code, stdout=result.stdout, stderr=result.stderr)


def run_process(*words: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Ran:
    done = subprocess.run(
        [sys.executable, "-m", "context_assembler", *words],
        input=stdin,
        capture_output=True,
        check=False,
        env=process_env(env),
    )
    return Ran(
        exit_code=done.returncode,
        stdout=done.stdout.decode("utf-8"),
        stderr=done.stderr.decode("utf-8"),
    )


def process_env(more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), **(more or {})}
