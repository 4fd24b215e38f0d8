"""The hook in the settings of the clients that run one: put in, taken out, nothing else touched."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_assembler import session_start
from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.events import Json, is_list, is_object

HOOK: Final = Path(session_start.__file__).with_name("hook.py")
_OBSERVED: Final = ("Stop", "SessionEnd")
# `-I`: nothing of the folder that the client works in is imported.
_OBSERVE: Final = ("-I", "-m", "context_assembler", "memory", "observe")


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


def install_hook(name: str, *, settings: Path | None = None, observes: bool = True) -> bool:
    """Put the hook into a client's settings; whether that changed them.

    What others wrote stays as it is, and the file as it was is kept next to it (`….bak`).

    Args:
        name: One of `CLIENTS`.
        settings: Instead of the client's own file for this user.
        observes: For Claude Code: report the ends of turns and sessions to `memory observe` as well.

    Raises:
        UnknownOptionError: There is no such client.
        ConfigurationError: The file is not a JSON object, or its hooks are misplaced.
    """
    client, path = _client(name, settings)
    wanted = {client.event: _command(name)}
    if observes and name == "claude_code":
        wanted |= dict.fromkeys(_OBSERVED, _shell(sys.executable, *_OBSERVE))
    given = _read(path)
    made = _without_ours(given, path)
    if name == "cursor":
        made.setdefault("version", 1)
    hooks = made.setdefault("hooks", {})
    for event, command in wanted.items():
        hook: dict[str, Json] = {"type": "command", "command": command, "timeout": client.timeout}
        entry = {"hooks": [hook]} if client.is_nested else {"command": command}
        if not is_list(entries := hooks.setdefault(event, [])):
            remedy = "Correct the file: make it a list."
            raise ConfigurationError(f"{path}: hooks.{event} is not a list.", remedy=remedy)
        entries.append(entry)
    return _write(path, given, made)


def uninstall_hook(name: str, *, settings: Path | None = None) -> bool:
    """Take the hook out of a client's settings again; whether that changed them.

    Raises:
        UnknownOptionError: There is no such client.
        ConfigurationError: The file is not a JSON object, or its hooks are misplaced.
    """
    _, path = _client(name, settings)
    given = _read(path)
    return _write(path, given, _without_ours(given, path))


def is_installed(name: str, project: str) -> bool:
    """Whether a client's settings, the user's or the project's, hold the hook of this installation."""
    settings = CLIENTS[name].settings
    for path in (Path(settings).expanduser(), Path(project, settings.removeprefix("~/"))):
        with suppress(ConfigurationError):
            if json.dumps(_command(name)) in json.dumps(_read(path)):
                return True
    return False


def _client(name: str, settings: Path | None) -> tuple[Client, Path]:
    if name not in CLIENTS:
        raise UnknownOptionError(name, kind="client", known=CLIENTS)
    return CLIENTS[name], settings or Path(CLIENTS[name].settings).expanduser()


def _command(name: str) -> str:
    return _shell(sys.executable, "-I", "-S", str(HOOK), name)


def _shell(*words: str) -> str:
    """Return a command line; the clients give it to a shell."""
    if os.name == "nt":
        return " ".join(f'"{word}"' if " " in word else word for word in words)
    return shlex.join(words)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        given = json.loads(path.read_text("utf-8-sig") or "{}")
    except (OSError, ValueError) as error:
        remedy = "Correct the file, or pass another with --settings."
        raise ConfigurationError(f"{path} cannot be read: {error}.", remedy=remedy) from error
    if not is_object(given):
        remedy = "Make it a JSON object, or pass another file with --settings."
        raise ConfigurationError(f"{path} is not a JSON object.", remedy=remedy)
    return dict(given)


def _without_ours(given: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a copy of the settings without our entries, and without what these leave empty."""
    made: dict[str, Any] = json.loads(json.dumps(given))
    hooks = made.get("hooks", {})
    if not is_object(hooks):
        remedy = "Make it an object of events, each with a list."
        raise ConfigurationError(f"{path}: 'hooks' is not an object of lists.", remedy=remedy)
    kept: dict[str, Json] = {}
    for event, entries in hooks.items():
        if not is_list(entries):  # a setting of all hooks, such as Gemini CLI's `enabled`
            kept[event] = entries
            continue
        left = [one for entry in entries if (one := _without_our_hook(entry)) is not None]
        if left or not entries:
            kept[event] = left
    if kept or not hooks:
        return {**made, "hooks": kept} if "hooks" in made else made
    return {name: value for name, value in made.items() if name != "hooks"}


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
    try:
        raw = (json.dumps(made, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except ValueError as error:
        remedy = "Correct the file, or edit it by hand."
        raise ConfigurationError(
            f"{path} cannot be written as JSON: {error}.", remedy=remedy
        ) from error
    kept = path.with_name(f"{path.name}.bak")
    if path.exists() and not kept.exists():
        kept.write_bytes(path.read_bytes())
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(raw)
    if path.exists():
        fresh.chmod(path.stat().st_mode)
    os.replace(fresh, path)
    return True
