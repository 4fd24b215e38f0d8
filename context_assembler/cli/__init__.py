"""The command line `context-assembler`: its commands, the exit codes, and what errors print."""

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from context_assembler import __version__
from context_assembler import errors as known

FINE, UNWRITTEN, ERROR = 0, 1, 2
COMPACTION_NEEDED, COMPACTION_INFEASIBLE, PAYLOAD_REFUSED = 10, 11, 12
MODEL_NEEDS_ATTENTION, LINT_FOUND, INTERRUPTED = 13, 14, 130
EXIT_CODES: Final = {
    FINE: "fine",
    UNWRITTEN: "stdout cannot be written to",
    ERROR: "the input or a setting is wrong; stderr says what to do",
    COMPACTION_NEEDED: "check: the session should be compacted",
    COMPACTION_INFEASIBLE: "check: compaction cannot help; what must stay is too big",
    PAYLOAD_REFUSED: "the provider would refuse the payload",
    MODEL_NEEDS_ATTENTION: "models check: a model is deprecated, retired or about to retire",
    LINT_FOUND: "lint: an instruction file has an error",
    INTERRUPTED: "interrupted",
}
_MODULES: Final = {
    "start": "demo init lint",
    "sessions": "import export sessions migrate count",
    "requests": "assemble explain check compact fit lint-payload",
    "memory": "memory",
    "hook": "hook doctor",
    "models": "models",
    "serve": "serve",
}
COMMANDS: Final = {name: module for module, names in _MODULES.items() for name in names.split()}
_DEFAULTS: Final = {
    "memory": "stats",
    "models": "list",
    "sessions": "list",
}  # what a group does without a command


class Commands(TyperGroup):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: object) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        del ctx
        return load_command(cmd_name) if cmd_name in COMMANDS else None


def load_command(name: str) -> Any:
    """Import a command's module and return the command."""
    home: Any = import_module(f"{__name__}.{COMMANDS[name]}").app
    home.rich_markup_mode = None  # help is plain lines: boxes leave half of a terminal for it
    found: Any = get_command(home)
    found.name = name  # a group has none of its own, and a module's only command another
    return getattr(found, "commands", {}).get(name, found)


app: Final = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExit codes:\n" + "\n".join(f"{code:>5} {EXIT_CODES[code]}" for code in EXIT_CODES),
)
_Version = Annotated[bool, typer.Option("--version", help="Print the version.")]
_Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@app.callback()
def _about(version: _Version = False, debug: _Debug = False) -> None:
    """Turn an agent's session into one valid model request that fits and only grows.

    Answers go to stdout, notes and errors to stderr. --json prints JSON for programs.
    """


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit with one of `EXIT_CODES`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    given = list(sys.argv[1:] if args is None else args)
    words = [word for word in given if word != "--debug"] or ["--help"]
    if words[0] in _DEFAULTS and (len(words) == 1 or words[1].startswith("-")):
        words[1:1] = [] if {"-h", "--help"} & {*words} else [_DEFAULTS[words[0]]]
    try:
        if words == ["--version"]:
            sys.stdout.write(f"{__version__}\n")
            sys.exit(FINE)
        code = app(words, prog_name="context-assembler", standalone_mode=False)
        sys.stdout.flush()
    except (known.AssemblyError, OSError, typer.TyperException, typer.Abort) as error:
        if "--debug" in given:
            traceback.print_exc()
        code = _fail(error)
    sys.exit(code if isinstance(code, int) else FINE)


def _fail(error: Exception) -> int:
    """Say in two lines what went wrong and what to do, and return the exit code."""
    from context_assembler.cli.command import one_line, print_note

    problem, remedy, code = str(error), "", ERROR
    if isinstance(error, typer.Abort):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # What is still buffered must go nowhere: the interpreter writes it at its end.
        # https://docs.python.org/3/library/signal.html#note-on-sigpipe (2026-11-27)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNWRITTEN
    if isinstance(error, known.AssemblyError):
        problem, remedy = error.problem, remedy_for(error)
    elif isinstance(error, OSError):
        problem = f"{error.filename}: {error.strerror}." if error.filename else f"{error}."
        remedy, code = known.CHECK_FILE, ERROR if error.filename else UNWRITTEN
    elif isinstance(error, typer.TyperException):
        problem, context = error.format_message(), getattr(error, "ctx", None)
        remedy = f"See '{context.command_path} --help'." if context else ""
    print_note(problem, "Error", "red")
    sys.stderr.write(f"       {one_line(remedy)}\n" if remedy else "")
    return code


def remedy_for(error: known.AssemblyError) -> str:
    """Return the error's remedy, in the command line's words if it names a Python call."""
    if isinstance(error, known.MissingModelError):
        return "Pass --model ID, or set a model under [defaults] in context-assembler.toml."
    if isinstance(error, known.UnknownSessionError) and "add_user()" in error.remedy:
        return "'sessions' lists what the store has; 'import FILE' reads a transcript into it."
    if isinstance(error, known.UnknownModelError):
        add = "to add one, put its true figures into model_limits.local.yaml"
        return f"{error.hint} 'models' lists those there are; {add}: {error.row_text}".strip()
    return error.remedy
