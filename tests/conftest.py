"""What every test can rely on: an environment of its own, and the recorded corpus where it lies."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
CORPUS_VARIABLE = "CONTEXT_ASSEMBLER_CORPUS"
FOREIGN_PREFIXES = ("ANTHROPIC_", "CONTEXT_ASSEMBLER_", "OPENAI_", "GEMINI_")

settings.register_profile(
    "repository", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# A run for a change must not fail for what another run would have found: those search anew.
settings.register_profile("ci", settings.get_profile("repository"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "repository")


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Hide the developer's own settings, keys and project memory from every test."""
    for name in list(os.environ):
        if name.startswith(FOREIGN_PREFIXES) and name != CORPUS_VARIABLE:
            monkeypatch.delenv(name)
    monkeypatch.setenv("CONTEXT_ASSEMBLER_STATE", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of recorded sessions and requests."""
    folder = Path(os.environ.get(CORPUS_VARIABLE, ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no recorded corpus: set {CORPUS_VARIABLE} to its folder")
    return folder


@pytest.fixture
def samples() -> Path:
    """The folder of the sample sessions."""
    return ROOT / "tests" / "samples"
