"""Build wheel and sdist, install each in an empty environment, and run the first page and examples.

python scripts/try_release.py                          # with every Python from 3.11 to 3.14 on PATH
python scripts/try_release.py python3.13 /opt/py/bin/python3.14
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("python3.11", "python3.12", "python3.13", "python3.14")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What `pip install` alone is enough for; the other examples say which extra they need.
NEEDS = ("from google", "mcp", "integrations")
RUN = (
    "import runpy, sys\n"
    "from context_assembler.testing import stand_in_for_providers\n"
    "with stand_in_for_providers(): runpy.run_path(sys.argv.pop(), run_name='__main__')"
)


def run(*words: str | Path, folder: Path = ROOT) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY") and k != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, words)), cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def programs(folder: Path) -> Iterator[Path]:
    """Yield the blocks of the README, written into the folder, and the examples."""
    for number, found in enumerate(BLOCK.finditer((ROOT / "README.md").read_text("utf-8"))):
        path = folder / f"README_block_{number + 1}.py"
        path.write_text(found[1], "utf-8")
        yield path
    for path in sorted((ROOT / "examples").glob("*.py")):
        if not any(word in path.read_text("utf-8") for word in NEEDS):
            yield path


def main(pythons: list[str]) -> None:
    found = pythons or [name for name in VERSIONS if shutil.which(name)]
    with tempfile.TemporaryDirectory() as folder:
        dist = Path(folder, "dist")
        run(sys.executable, "-m", "build", "--outdir", dist)
        for python in found:
            for package in sorted(dist.iterdir()):
                home = Path(tempfile.mkdtemp(dir=folder))
                own = home / "venv" / "bin" / "python"
                run(python, "-m", "venv", home / "venv")
                run(own, "-m", "pip", "install", "--quiet", package)
                made = list(programs(home))
                for path in made:
                    run(
                        own,
                        "-W",
                        "error::DeprecationWarning:context_assembler",
                        "-c",
                        RUN,
                        path,
                        folder=home,
                    )
                version = run(
                    own, "-c", "import platform; print(platform.python_version())"
                ).strip()
                kind = "wheel" if package.suffix == ".whl" else "sdist"
                print(f"Python {version}: {kind} installed, {len(made)} programs ran", flush=True)
    missing = [] if pythons else [name for name in VERSIONS if name not in found]
    sys.exit(f"Not on PATH, so not tried: {', '.join(missing)}" if missing else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
