"""The command line `context-assembler`: its commands, the exit codes, and what errors print."""

import os
import sys
import traceback
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from context_assembler import __version__
from context_assembler.errors import (
    AssemblyError,
    MissingModelError,
    UnknownModelError,
    UnknownSessionError,
    remedy_for_file,
)

FINE, UNWRITTEN, ERROR = 0, 1, 2
COMPACTION_NEEDED, COMPACTION_INFEASIBLE, PAYLOAD_REFUSED = 10, 11, 12
MODEL_NEEDS_ATTENTION, LINT_FOUND, INTERRUPTED = 13, 14, 130
EXIT_CODES: Final = {
    FINE: "fine",
    UNWRITTEN: "not all could be written to stdout, or nobody reads it any more",
    ERROR: "the input or a setting is wrong; stderr says what to do",
    COMPACTION_NEEDED: "check: the session should be compacted",
    COMPACTION_INFEASIBLE: "check: compaction cannot help, the fixed part alone is too big",
    PAYLOAD_REFUSED: "the provider would refuse the payload",
    MODEL_NEEDS_ATTENTION: "models check: a model is retired, deprecated or about to be",
    LINT_FOUND: "lint: an instruction file has an error",
    INTERRUPTED: "interrupted",
}
# Name → (module below this one, panel, help). The overview imports no command.
COMMANDS: Final = {
    "demo": ("start", "Start here", "Assemble a bundled session and show what fills its window."),
    "init": ("start", "Start here", "Write sample instruction files and a settings file."),
    "lint": ("files", "Start here", "Check a folder of instruction files."),
    "import": ("sessions", "Sessions", "Read transcripts into a session store."),
    "export": ("sessions", "Sessions", "Write a session as a transcript."),
    "sessions": ("sessions", "Sessions", "List the sessions of a store."),
    "memory": ("memory", "Sessions", "Keep memories, find them, and measure recall."),
    "assemble": ("requests", "Requests", "Print the payload of a session's next call as JSON."),
    "explain": ("requests", "Requests", "Show what fills the window, what was cut, and why."),
    "check": ("requests", "Requests", "Say whether a session should be compacted."),
    "lint-payload": ("requests", "Requests", "Check a payload against its provider's rules."),
    "count": ("files", "Tokens and models", "Count the tokens of a text, a session, an image."),
    "models": ("models", "Tokens and models", "List models, their limits, prices and dates."),
}


class Commands(TyperGroup):
    """Commands that are imported when they are called, with errors as text and exit codes."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, placeholder, rest = super().resolve_command(ctx, args)
        return name, placeholder if name is None else load_command(name), rest

    def main(self, args: Any = None, prog_name: str | None = None, **extra: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        words = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        try:
            code = super().main(
                [w for w in words if w != "--debug"] or ["--help"], prog_name, **extra
            )
            sys.stdout.flush()
        except (AssemblyError, OSError, typer.TyperException, typer.Abort) as error:
            if "--debug" in words:
                traceback.print_exc()
            code = _fail(error)
        sys.exit(code if isinstance(code, int) else FINE)


class DefaultGroup(TyperGroup):
    """Commands of which one is called if none is named."""

    default = ""

    @classmethod
    def of(cls, default: str) -> type["DefaultGroup"]:
        """Return the class with that default."""
        return type("DefaultGroup", (cls,), {"default": default})

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        names_none = not args or (args[0].startswith("-") and args[0] not in ("-h", "--help"))
        return super().parse_args(ctx, [self.default, *args] if names_none else args)


def load_command(name: str) -> Any:
    """Import a command's module and return the command."""
    found: Any = get_command(import_module(f"{__name__}.{COMMANDS[name][0]}").app)
    return found if name in ("memory", "models") else found.commands[name]


def remedy_for(error: AssemblyError) -> str:
    """Return the error's remedy, in the command line's words if it names a Python call."""
    if isinstance(error, MissingModelError):
        return "Pass --model ID, or set a model under [defaults] in context-assembler.toml."
    if isinstance(error, UnknownSessionError) and "add_user()" in error.remedy:
        return "'sessions' lists what the store has; 'import FILE' reads a transcript into it."
    if isinstance(error, UnknownModelError):
        add = "to add one, put its true figures into model_limits.local.yaml"
        return f"{error.hint} 'models' lists those there are; {add}: {error.row_text}".strip()
    return error.remedy


def _fail(error: Exception) -> int:
    """Say in two lines what went wrong and what to do, and return the exit code."""
    from context_assembler.cli.command import one_line, print_note

    if isinstance(error, typer.Abort):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # What is still buffered must go nowhere: the interpreter writes it at its end.
        # https://docs.python.org/3/library/signal.html#note-on-sigpipe (2026-11-27)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNWRITTEN
    problem, remedy = str(error), ""
    if isinstance(error, AssemblyError):
        problem, remedy = error.problem, remedy_for(error)
    elif isinstance(error, OSError):
        problem = f"{error.filename}: {error.strerror}." if error.filename else f"{error}."
        remedy = remedy_for_file(error)
    elif isinstance(error, typer.TyperException):
        problem, context = error.format_message(), getattr(error, "ctx", None)
        remedy = f"See '{context.command_path} --help'." if context else ""
    print_note(problem, "Error", "red")
    if remedy:
        sys.stderr.write(f"       {one_line(remedy)}\n")
    return UNWRITTEN if isinstance(error, OSError) and not error.filename else ERROR


app: Final = typer.Typer(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes:  " + " · ".join(f"{code} {text}" for code, text in EXIT_CODES.items()),
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Turn an agent's session into one valid model request that fits and only grows.

    Answers go to stdout, notes and errors to stderr. --json prints JSON for programs.
    """


for _name, (_module, _panel, _help) in COMMANDS.items():
    app.command(_name, help=_help, rich_help_panel=_panel)(lambda: None)


def main() -> None:
    """Run the command line."""
    app(prog_name="context-assembler")
