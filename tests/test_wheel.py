"""What is shipped works: a wheel in an environment of its own, away from the repository."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("context_assembler", "bootstrap", "tests/samples")
FILES = ("pyproject.toml", "README.md", "LICENSE", "model_limits.yaml")
IGNORED = shutil.ignore_patterns("__pycache__")


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=clean | environment,
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that nothing is left in the repository."""
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        shutil.copytree(ROOT / name, source / name, ignore=IGNORED)
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    run(
        sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "out", folder=source
    )
    (built,) = (source / "out").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that holds the wheel alone.

    Its dependencies are lent by this environment through a path file: they are not what is tested,
    and the test needs no network.
    """
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "venv", with_pip=False)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = programs / "python"
    site = Path(
        run(
            python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder
        ).strip()
    )
    run(
        sys.executable,
        "-m",
        "pip",
        f"--python={python}",
        "install",
        "--no-deps",
        "--no-index",
        wheel,
        folder=folder,
    )
    lent = Path(sysconfig.get_path("purelib"))
    (site / "lent.pth").write_text(f"{lent}\n", encoding="utf-8")
    return programs


def test_the_wheel_holds_the_package_and_its_files(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    assert "context_assembler/py.typed" in names
    assert "context_assembler/bundled/model_limits.yaml" in names
    assert "context_assembler/bundled/samples/coding_agent.json" in names
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]


def test_the_registry_loads_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = (
        "import context_assembler, json; "
        "limits = context_assembler.get_model_limits('gpt-4o'); "
        "print(json.dumps([context_assembler.__file__, limits.window_tokens]))"
    )
    where, window_tokens = json.loads(run(installed / "python", "-c", code, folder=tmp_path))

    assert not Path(where).is_relative_to(ROOT)
    assert window_tokens == 128_000


def test_the_command_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    command = installed / "context-assembler"
    shown = json.loads(run(command, "models", "show", "gpt-4o", "--json", folder=tmp_path))

    assert "demo" in run(command, "--help", folder=tmp_path, NO_COLOR="1")
    assert "128000" in json.dumps(shown)


def test_the_samples_travel_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = (
        "from context_assembler.resources import bundled_path; "
        "print(len(list(bundled_path('samples').glob('*.json'))), bundled_path('bootstrap').is_dir())"
    )

    assert run(installed / "python", "-c", code, folder=tmp_path).split() == ["3", "True"]
