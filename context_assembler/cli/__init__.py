"""The command line `context-assembler`: its commands, and the way in."""

from typing import Annotated, Final

import typer

from context_assembler import __version__
from context_assembler.cli.command_table import CommandRow, CommandTable
from context_assembler.cli.exit_codes import MEANINGS

_HERE: Final = __name__
_START, _SESSIONS, _REQUESTS, _FACTS = "Start here", "Sessions", "Requests", "Tokens and models"

COMMANDS: Final = {
    "demo": CommandRow(
        module=f"{_HERE}.demo",
        help="Assemble a bundled session and tell the story of its window.",
        panel=_START,
    ),
    "init": CommandRow(
        module=f"{_HERE}.init",
        help="Write sample instruction files and a commented settings file.",
        panel=_START,
    ),
    "lint": CommandRow(
        module=f"{_HERE}.lint",
        help="Say what is wrong with a folder of instruction files.",
        panel=_START,
    ),
    "import": CommandRow(
        module=f"{_HERE}.transcripts",
        help="Read transcripts into a session store.",
        panel=_SESSIONS,
    ),
    "export": CommandRow(
        module=f"{_HERE}.transcripts",
        help="Write a session as a transcript.",
        panel=_SESSIONS,
    ),
    "sessions": CommandRow(
        module=f"{_HERE}.sessions",
        help="List the sessions of a store.",
        panel=_SESSIONS,
    ),
    "memory": CommandRow(
        module=f"{_HERE}.memory",
        help="Keep memories, find them again, and measure how well they are found.",
        panel=_SESSIONS,
    ),
    "assemble": CommandRow(
        module=f"{_HERE}.assemble",
        help="Print the payload of a session's next model call as JSON.",
        panel=_REQUESTS,
    ),
    "explain": CommandRow(
        module=f"{_HERE}.explain",
        help="Show what fills the window, what was cut, and why.",
        panel=_REQUESTS,
    ),
    "check": CommandRow(
        module=f"{_HERE}.check",
        help="Tell whether a session should be compacted.",
        panel=_REQUESTS,
    ),
    "lint-payload": CommandRow(
        module=f"{_HERE}.lint_payload",
        help="Check a payload against its provider's rules.",
        panel=_REQUESTS,
    ),
    "count": CommandRow(
        module=f"{_HERE}.count",
        help="Count the tokens of a text, a conversation, an image or a PDF.",
        panel=_FACTS,
    ),
    "models": CommandRow(
        module=f"{_HERE}.models",
        help="List models, their limits, prices and dates.",
        panel=_FACTS,
    ),
}


class Commands(CommandTable):
    """The commands of `context-assembler`."""

    rows = COMMANDS


app: Final = typer.Typer(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes:  " + " · ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items()),
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
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

    Answers go to stdout, notes and errors to stderr.
    --json prints JSON for programs.
    """


def _placeholder() -> None:  # pragma: no cover - CommandTable loads the real one
    raise AssertionError("CommandTable loads the real command before it runs")


for _name, _row in COMMANDS.items():
    app.command(_name, help=_row.help, rich_help_panel=_row.panel)(_placeholder)


def main() -> None:
    """Run the command line."""
    app(prog_name="context-assembler")
