"""Every test of the command line runs in an empty folder, with no settings of the machine's own."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.startswith("CONTEXT_ASSEMBLER_"):
            monkeypatch.delenv(name)
    for name in ("FORCE_COLOR", "COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path
