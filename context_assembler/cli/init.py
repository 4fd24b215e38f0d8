"""`init`: the files that a project starts from."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import people, print_json, printable
from context_assembler.resources import bundled_path

SETTINGS_FILE: Final = Path(__file__).with_name("context-assembler.toml")

app: Final = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What `init` did with one file."""

    path: Path
    outcome: Literal["written", "replaced", "left alone"]


@app.command()
def init(
    *,
    folder: Annotated[Path, typer.Argument(help="Where to; this folder by default.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    samples: Annotated[
        bool, typer.Option("--samples", help="Write the sample sessions of the docs as well.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write sample instruction files and a commented settings file.

    What exists stays as it is, unless --force is given.
    """
    targets = {folder / "bootstrap" / file.name: file for file in _bootstrap_samples()}
    targets[folder / SETTINGS_FILE.name] = SETTINGS_FILE
    if samples:
        targets |= {folder / "samples" / file.name: file for file in _sample_sessions()}
    done = [_write(path, sample, force=force) for path, sample in targets.items()]
    if as_json:
        print_json([{"path": str(file.path), "outcome": file.outcome} for file in done])
        return
    console = people()
    for file in done:
        console.print(f"{file.outcome:10}  {printable(str(file.path))}", soft_wrap=True)
    if any(file.outcome == "left alone" for file in done):
        console.print("Files that exist were left alone; --force replaces them.")


def _bootstrap_samples() -> list[Path]:
    return sorted(bundled_path("bootstrap").glob("*.md"))


def _sample_sessions() -> list[Path]:
    return sorted(bundled_path("samples").glob("*.json"))


def _write(path: Path, sample: Path, *, force: bool) -> Written:
    existed = path.exists() or path.is_symlink()
    if existed and not force:
        return Written(path=path, outcome="left alone")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()  # replace the link, not what it points at
    path.write_bytes(sample.read_bytes())
    return Written(path=path, outcome="replaced" if existed else "written")
