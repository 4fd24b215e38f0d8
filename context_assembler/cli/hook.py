"""`hook` and `doctor`: project memory at the start of a coding agent's session."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer
from rich.console import RenderableType

from context_assembler import session_start
from context_assembler.cli import command as cli
from context_assembler.cli.command import Answer
from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.events import Json, is_list, is_object
from context_assembler.options import AssemblerConfig
from context_assembler.session_start import inject

app: Final = typer.Typer(add_completion=False)
hooks: Final = typer.Typer(help="Put the hook into a client's settings, or take it out.")
app.add_typer(hooks, name="hook")
HOOK: Final = Path(session_start.__file__).with_name("hook.py")
_OBSERVED: Final = ("Stop", "SessionEnd")
# `-I`: nothing of the folder that the client works in is imported.
_OBSERVE: Final = ("-I", "-m", "context_assembler", "memory", "observe")
_LOG: Final = "at client source session project route layers tokens characters ms".split()
_SHOWN: Final = "at client source project route tokens characters ms".split()
_SHOWN_LINES: Final = 12


class Client(NamedTuple):
    """Where a client keeps its hooks, and what it calls the start of a session.

    `is_nested`: each entry of an event holds a list of hooks, next to what it applies to.
    """

    settings: str
    event: str = "SessionStart"
    is_nested: bool = True
    timeout: int = 10  # in the client's unit


CLIENTS: Final[Mapping[str, Client]] = {
    "claude_code": Client("~/.claude/settings.json"),  # https://code.claude.com/docs/en/settings
    "codex": Client("~/.codex/hooks.json"),  # https://github.com/openai/codex/issues/19780
    # In milliseconds: https://geminicli.com/docs/hooks/reference (read 2026-11-30)
    "gemini_cli": Client("~/.gemini/settings.json", timeout=10_000),
    "cursor": Client("~/.cursor/hooks.json", "sessionStart", is_nested=False),
}


# ---- the settings of a client ----


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
    path = _settings_of(client, settings)
    about, given = CLIENTS[client], _read(path)
    commands = {about.event: _command(client)}
    if observe is not False and client == "claude_code":
        commands |= dict.fromkeys(_OBSERVED, _shell(sys.executable, *_OBSERVE))
    made = _without_ours(given)
    if client == "cursor":
        made.setdefault("version", 1)
    for event, command in commands.items():
        hook: dict[str, Json] = {"type": "command", "command": command, "timeout": about.timeout}
        entry = {"hooks": [hook]} if about.is_nested else {"command": command}
        entries = made.setdefault("hooks", {}).setdefault(event, [])
        if not is_list(entries):
            raise _misplaced(path, f"hooks.{event} is not a list")
        entries.append(entry)
    return Answer({"client": client, "settings": str(path), "changed": _write(path, given, made)})


@cli.command(hooks, "uninstall")
def uninstall(client: str = "claude_code", *, settings: Path | None = None) -> Answer:
    """Take the hook out of a client's settings.

    Args:
        client: claude_code, codex, gemini_cli or cursor.
        settings: The settings file, instead of this user's own.
    """
    path = _settings_of(client, settings)
    given = _read(path)
    changed = _write(path, given, _without_ours(given))
    return Answer({"client": client, "settings": str(path), "changed": changed})


def _settings_of(client: str, settings: Path | None) -> Path:
    if client not in CLIENTS:
        raise UnknownOptionError(client, kind="client", known=CLIENTS)
    return settings or Path(CLIENTS[client].settings).expanduser()


def _command(client: str) -> str:
    return _shell(sys.executable, "-I", "-S", str(HOOK), client)


def _shell(*words: str) -> str:
    """Return a command line; the clients give it to a shell."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _is_installed(client: str, project: str) -> bool:
    """Whether a client's settings, the user's or the project's, hold the hook of this installation."""
    settings = CLIENTS[client].settings
    for path in (Path(settings).expanduser(), Path(project, settings.removeprefix("~/"))):
        with suppress(ConfigurationError):
            if json.dumps(_command(client)) in json.dumps(_read(path)):
                return True
    return False


def _read(path: Path) -> dict[str, Any]:
    try:
        given: Json = json.loads(path.read_text("utf-8-sig") or "{}") if path.exists() else {}
    except (OSError, ValueError) as error:
        raise _misplaced(path, f"it cannot be read: {error}") from error
    if not is_object(given) or not is_object(given.get("hooks", {})):
        raise _misplaced(path, "it is not a JSON object whose 'hooks' is an object of lists")
    return dict(given)


def _misplaced(path: Path, reason: str) -> ConfigurationError:
    remedy = "Correct the file, or pass another with --settings."
    return ConfigurationError(f"{path} is left alone: {reason}.", remedy=remedy)


def _without_ours(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the settings without our entries, and without what these leave empty."""
    made: dict[str, Any] = json.loads(json.dumps(given))
    kept: dict[str, Json] = {}
    for event, entries in made.pop("hooks", {}).items():
        left = entries
        if is_list(entries):  # else a setting of all hooks, such as Gemini CLI's `enabled`
            left = [one for entry in entries if (one := _without_our_hook(entry)) is not None]
        if left or not entries:
            kept[event] = left
    return {**made, "hooks": kept} if kept else made


def _without_our_hook(entry: Json) -> Json:
    """Return an entry of an event without our hook; `None` if it holds nothing else."""
    if not is_object(entry) or not is_list(inner := entry.get("hooks")):
        return None if _is_ours(entry) else entry
    left = [hook for hook in inner if not _is_ours(hook)]
    return {**entry, "hooks": left} if left or not inner else None


def _is_ours(entry: Json) -> bool:
    """Whether an entry runs one of our two commands and nothing else, in whichever installation."""
    command = entry.get("command") if is_object(entry) else None
    try:
        words = shlex.split(str(command).replace("\\", "/"))
    except ValueError:
        return False
    file = "context_assembler/session_start/hook.py"
    is_hook = words[1:3] == ["-I", "-S"] and len(words) == 5 and words[3].endswith(file)
    return is_hook or tuple(words[1:]) == _OBSERVE


def _write(path: Path, given: Mapping[str, Any], made: Mapping[str, Any]) -> bool:
    """Write the settings if they differ, whole or not at all; the old ones are kept next to them."""
    if given == made:
        return False
    path = path.resolve()  # a link into a folder that is kept elsewhere stays a link
    path.parent.mkdir(parents=True, exist_ok=True)
    kept, whole = path.with_name(f"{path.name}.bak"), path.with_name(f"{path.name}.new")
    whole.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if path.exists():
        whole.chmod(path.stat().st_mode)
        if not kept.exists():
            kept.write_bytes(path.read_bytes())
    os.replace(whole, path)
    return True


# ---- what the hook did, and does ----


@cli.command(hooks, "log")
def log(*, limit: int = 20) -> Answer:
    """Show what each session read, the newest last.

    Args:
        limit: How many sessions to show.
    """
    rows = _log_rows()[-limit:]
    return Answer(rows, [cli.table_of(rows, *_SHOWN)] if rows else ["The hook has not run yet."])


def _log_rows() -> list[Json]:
    path = Path(inject.state_folder()) / "injections.tsv"
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
    folder = str((project or Path()).resolve())
    root = session_start.find_project(folder)
    asked = {"session_id": "doctor", "cwd": folder, "source": "startup"}
    asked |= {"hook_event_name": "SessionStart"}
    command = [sys.executable, "-I", "-S", str(HOOK), client]
    python_ms, _ = _timed([*command[:3], "-c", "pass"], "")
    spent_ms, run = _timed(command, json.dumps(asked))
    value: dict[str, Any] = {
        "project": root,
        "text": _text_of(run.stdout),
        "route": next((str(row["route"]) for row in reversed(_log_rows())), "none"),
        "exit_code": run.returncode,
        "ms": round(spent_ms, 1),
        "python_ms": round(python_ms, 1),
        "installed": [name for name in CLIENTS if _is_installed(name, root)],
    }
    value["problems"] = [*_problems(value, run.stderr.decode("utf-8", "replace"))]
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


def _problems(value: Mapping[str, Any], trouble: str) -> Iterator[str]:
    if value["exit_code"] or trouble:
        yield f"The hook ended with exit code {value['exit_code']}: {trouble}"
    if not value["installed"]:
        yield "No client runs the hook. Run: context-assembler hook install CLIENT"
    if not AssemblerConfig().memory.store:
        yield "No memory store is set. Set CONTEXT_ASSEMBLER_MEMORY, or [memory] store in the settings."
    if value["text"] in (inject.NOTHING_YET, inject.NOT_READ):
        yield "Nothing is remembered of the project. Run: context-assembler memory learn TEXT"
    state = inject.state_folder()
    snapshot = Path(inject.snapshot_path(state, value["project"]))
    if not snapshot.is_file() and not Path(state, "worker").is_file():
        yield "The hook finds no snapshot. Run a memory command, or: context-assembler serve"


def _told(value: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield cli.heading(f"What a session in {value['project']} would read")
    lines = str(value["text"]).splitlines()
    yield from lines[:_SHOWN_LINES]
    if len(lines) > _SHOWN_LINES:
        yield f"… and {len(lines) - _SHOWN_LINES} more lines"
    yield cli.heading("How")
    yield f"The hook took {value['ms']} ms (Python alone: {value['python_ms']})."
    yield f"Where the text comes from: {value['route']}."
    yield f"The hook is installed for {', '.join(value['installed']) or 'no client'}."
    yield from (f"Wrong: {problem}" for problem in value["problems"])
