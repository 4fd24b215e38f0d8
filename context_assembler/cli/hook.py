"""`hook` and `doctor`: project memory at the start of a coding agent's session."""

import json
import os
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
hooks: Final = typer.Typer(help="Put the hook into a client's settings, take it out, see its log.")
app.add_typer(hooks, name="hook")
_LOG: Final = "at client source session project route layers tokens characters ms".split()
_SHOWN: Final = "at client source project route tokens characters ms".split()
_SHOWN_LINES: Final = 12


@cli.command(hooks, "install")
def install(
    client: str = "claude_code", *, settings: Path | None = None, observe: bool | None = None
) -> Answer:
    """Let a client run the hook when a session starts.

    The client's settings file is backed up; what others wrote there stays.

    Args:
        client: claude_code, codex, gemini_cli or cursor.
        settings: The settings file, instead of this user's own.
        observe: For Claude Code: remember finished sessions as well; by default yes.
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
    said = "The hook is gone." if changed else "There was no hook."
    return Answer({"client": client, "changed": changed}, [said])


@cli.command(hooks, "log")
def log(*, limit: int = 20) -> Answer:
    """Show what was told to which session, the last ones at the end.

    Args:
        limit: Most rows.
    """
    path = Path(state_folder()) / "injections.tsv"
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    rows: list[Json] = [dict(zip(_LOG, line.split("\t"), strict=False)) for line in lines[-limit:]]
    return Answer(rows, [cli.table_of(rows, *_SHOWN)] if rows else ["Nothing was told yet."])


@cli.command(app, "doctor")
def doctor(*, project: Path | None = None, client: str = "claude_code") -> Answer:
    """Run the hook as a client would: what it would see, in which time, and what is wrong.

    Args:
        project: A folder of the project; by default this one.
        client: claude_code, codex, gemini_cli or cursor.
    """
    state, folder = Path(state_folder()), str((project or Path()).resolve())
    asked = {"session_id": "doctor", "cwd": folder, "source": "startup"}
    asked |= {"hook_event_name": "SessionStart"}
    command = [sys.executable, "-I", "-S", str(HOOK), client]
    bare = [*command[:3], "-c", "pass"]
    floor_ms, _ = _timed(bare, "")
    spent_ms, run = _timed(command, json.dumps(asked))
    text = _text_of(run.stdout)
    row = (state / "injections.tsv").read_text("utf-8").splitlines()[-1:] if state.is_dir() else []
    route = row[0].split("\t")[5] if row else "none"
    value: dict[str, Any] = {
        "project": find_project(folder),
        "text": text,
        "route": route,
        "exit_code": run.returncode,
        "ms": round(spent_ms, 1),
        "python_ms": round(floor_ms, 1),
        "installed": [name for name in CLIENTS if is_installed(name)],
        "problems": [*_problems(state, folder, text, run)],
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
    state: Path, folder: str, text: str, run: "subprocess.CompletedProcess[bytes]"
) -> Iterator[str]:
    if run.returncode or run.stderr:
        yield f"The hook ended with {run.returncode}: {run.stderr.decode('utf-8', 'replace')}"
    if not any(map(is_installed, CLIENTS)):
        yield "No client runs the hook: context-assembler hook install"
    if not AssemblerConfig().memory.store:
        yield "No memory store is set: CONTEXT_ASSEMBLER_MEMORY, or [memory] store in the settings."
    if text in (NOTHING_YET, NOT_READ):
        yield "Nothing is rendered for the project: context-assembler memory observe, or index-code."
    worker = state / "worker"
    if worker.is_file() and os.name != "nt" and worker.stat().st_mode & 0o077:
        yield f"Others may read {worker}: chmod 600 it."
    snapshot = Path(snapshot_path(str(state), find_project(folder)))
    if not snapshot.is_file() and not worker.is_file():
        yield "No worker runs: context-assembler serve keeps what the hook reads up to date."


def _told(value: dict[str, Any]) -> Iterator[RenderableType]:
    yield cli.heading(f"A session in {value['project']} would be told")
    lines = str(value["text"]).splitlines()
    yield from lines[:_SHOWN_LINES]
    if len(lines) > _SHOWN_LINES:
        yield f"… and {len(lines) - _SHOWN_LINES} more lines"
    yield cli.heading("How")
    yield f"{value['ms']} ms, of which Python itself takes {value['python_ms']}; by {value['route']}."
    yield f"Installed for: {', '.join(value['installed']) or 'no client'}."
    for problem in value["problems"]:
        yield f"Wrong: {problem}"
