"""The wheel holds all that the package needs: it works from where it is unpacked.

`make release` installs wheel and sdist in empty environments, for every Python that we name.
"""

import email
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def python(*words: str, folder: Path, **environment: str) -> str:
    """Run Python in a folder, and return what it printed."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a wheel was unpacked into, built from an sdist of this tree."""
    out, folder = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("wheel")
    python("-m", "build", "--no-isolation", "--outdir", str(out), folder=ROOT)
    [wheel] = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_wheel_holds_the_package_and_no_test(unpacked: Path) -> None:
    names = {path.name for path in unpacked.iterdir()}
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}

    assert len(names) == 2
    assert "context_assembler/py.typed" in files
    assert "context_assembler/__init__.pyi" in files
    assert "context_assembler/bundled/model_limits.yaml" in files
    assert not any("test_" in name or name.endswith(".pyc") for name in files)


def test_the_metadata_says_what_it_is_and_needs(unpacked: Path) -> None:
    [about] = unpacked.glob("*.dist-info/METADATA")
    told = email.message_from_string(about.read_text("utf-8"))
    needed = {one.split(";")[0] for one in told.get_all("Requires-Dist", []) if "extra" not in one}
    pythons = {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)}

    assert told["Name"] == "context-assembler"
    assert told["Requires-Python"] == ">=3.11"
    assert told["Summary"]
    assert told["Keywords"]
    assert told["License-Expression"]
    assert {"anthropic>=2.0", "openai>=3.0"} <= needed
    assert pythons | {"Typing :: Typed"} <= {*told.get_all("Classifier", [])}
    assert told["Description-Content-Type"] == "text/markdown"
    assert "fit_messages" in told.get_payload()


def test_it_runs_from_where_it_is(unpacked: Path, tmp_path: Path) -> None:
    script = "import context_assembler as c; print(c.__file__, c.get_model_limits('gpt-5.5').id)"
    home = str(unpacked)

    where = python("-P", "-c", script, folder=tmp_path, PYTHONPATH=home)
    written = python("-P", "-m", "context_assembler", "init", folder=tmp_path, PYTHONPATH=home)
    demo = ("-P", "-m", "context_assembler", "demo", "-m", "gpt-5.5")
    shown = python(*demo, folder=tmp_path, PYTHONPATH=home)

    assert where.startswith(home)
    assert "AGENT.md" in written
    assert "rules: 0 broken." in shown
