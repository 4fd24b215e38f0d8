"""`hook` and `doctor`: project memory at the start of a coding agent's session."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import RenderableType

from context_assembler.cli import command as cli
from context_assembler.cli.clients import CLIENTS, HOOK, install_hook, is_installed, uninstall_hook
from context_assembler.cli.command import Answer
from context_assembler.events import Json
from context_assembler.options import AssemblerConfig
from context_assembler.session_start import find_project
from context_assembler.session_start.inject import (
    NOT_READ,
    NOTHING_YET,
    snapshot_path,
    state_folder,
)

app: Final = typer.Typer(add_completion=False)
hooks: Final = typer.Typer(help="Put the hook into a client's settings, or take it out.")
app.add_typer(hooks, name="hook")
_LOG: Final = "at client source session project route layers tokens characters ms".split()
_SHOWN: Final = "at client source project route tokens characters ms".split()
_SHOWN_LINES: Final = 12


@cli.command(hooks, "install")
def install(
    client: str = "claude_code", *, settings: Path | None = None, observe: bool | None = None
) -> Answer:
    """Let a client run the hook when a session starts.

    Everything else in the settings file stays; a copy is kept (.bak).

    Args:
        client: claude_code, codex, gemini_cli or cursor.
        settings: The settings file, instead of this user's own.
        observe: For Claude Code: also remember sessions when they end; on by default.
    """
    changed = install_hook(client, settings=settings, observes=observe is not False)
    said = "The hook is installed." if changed else "The hook was installed already."
    return Answer({"client": client, "changed": changed}, [said])


@cli.command(hooks, "uninstall")
def uninstall(client: str = "claude_code", *, settings: Path | None = None) -> Answer:
    """Take the hook out of a client's settings.

    Args:
        client: claude_code, codex, gemini_cli or cursor.
        settings: The settings file, instead of this user's own.
    """
    changed = uninstall_hook(client, settings=settings)
    said = "The hook is removed." if changed else "There was no hook to remove."
    return Answer({"client": client, "changed": changed}, [said])


@cli.command(hooks, "log")
def log(*, limit: int = 20) -> Answer:
    """Show what each session read, the newest last.

    Args:
        limit: How many sessions to show.
    """
    rows = _log_rows()[-limit:]
    return Answer(rows, [cli.table_of(rows, *_SHOWN)] if rows else ["The hook has not run yet."])


def _log_rows() -> list[Json]:
    path = Path(state_folder()) / "injections.tsv"
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    return [dict(zip(_LOG, line.split("\t"), strict=False)) for line in lines]


@cli.command(app, "doctor")
def doctor(*, project: Path | None = None, client: str = "claude_code") -> Answer:
    """Run the hook as a client would, and say what is wrong.

    It shows what the hook prints, and how long it takes.

    Args:
        project: A folder of the project; by default this one.
        client: claude_code, codex, gemini_cli or cursor.
    """
    state, folder = Path(state_folder()), str((project or Path()).resolve())
    root = find_project(folder)
    installed = [name for name in CLIENTS if is_installed(name, root)]
    asked = {"session_id": "doctor", "cwd": folder, "source": "startup"}
    asked |= {"hook_event_name": "SessionStart"}
    command = [sys.executable, "-I", "-S", str(HOOK), client]
    bare = [*command[:3], "-c", "pass"]
    floor_ms, _ = _timed(bare, "")
    spent_ms, run = _timed(command, json.dumps(asked))
    text = _text_of(run.stdout)
    route = next((str(row["route"]) for row in reversed(_log_rows())), "none")
    value: dict[str, Any] = {
        "project": root,
        "text": text,
        "route": route,
        "exit_code": run.returncode,
        "ms": round(spent_ms, 1),
        "python_ms": round(floor_ms, 1),
        "installed": installed,
        "problems": [*_problems(state, root, text, run, installed)],
    }
    return Answer(value, _told(value))


def _timed(command: list[str], told: str) -> tuple[float, "subprocess.CompletedProcess[bytes]"]:
    started = time.perf_counter()
    run = subprocess.run(command, input=told.encode(), capture_output=True, check=False)
    return (time.perf_counter() - started) * 1_000, run


def _text_of(raw: bytes) -> str:
    """Return the context in an envelope; empty if there is none."""
    try:
        envelope = json.loads(raw)
    except ValueError:
        return ""
    inside = envelope.get("hookSpecificOutput", envelope)
    return str(inside.get("additionalContext", inside.get("additional_context", "")))


def _problems(
    state: Path,
    project: str,
    text: str,
    run: "subprocess.CompletedProcess[bytes]",
    installed: list[str],
) -> Iterator[str]:
    if run.returncode or run.stderr:
        yield f"The hook ended with exit code {run.returncode}: {run.stderr.decode('utf-8', 'replace')}"
    if not installed:
        yield "No client runs the hook. Run: context-assembler hook install CLIENT"
    if not AssemblerConfig().memory.store:
        yield "No memory store is set. Set CONTEXT_ASSEMBLER_MEMORY, or [memory] store in the settings."
    if text in (NOTHING_YET, NOT_READ):
        yield "Nothing is remembered of the project. Run: context-assembler memory learn TEXT"
    snapshot = Path(snapshot_path(str(state), project))
    if not snapshot.is_file() and not (state / "worker").is_file():
        yield "The hook finds no snapshot. Run a memory command, or: context-assembler serve"


def _told(value: dict[str, Any]) -> Iterator[RenderableType]:
    yield cli.heading(f"What a session in {value['project']} would read")
    lines = str(value["text"]).splitlines()
    yield from lines[:_SHOWN_LINES]
    if len(lines) > _SHOWN_LINES:
        yield f"… and {len(lines) - _SHOWN_LINES} more lines"
    yield cli.heading("How")
    route = str(value["route"])
    found = route.replace("none", "nothing", 1) if route.startswith("none") else f"the {route}"
    yield f"The hook took {value['ms']} ms (Python alone: {value['python_ms']}) and read {found}."
    yield f"The hook is installed for {', '.join(value['installed']) or 'no client'}."
    for problem in value["problems"]:
        yield f"Wrong: {problem}"
