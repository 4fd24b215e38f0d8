"""The table of commands: loads one when it runs, and turns what goes wrong into an exit code."""

import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command

from context_assembler.cli import exit_codes
from context_assembler.cli.outlets import open_outlets
from context_assembler.cli.remedies import remedy_for
from context_assembler.cli.screen import print_error, write_utf8
from context_assembler.errors import AssemblyError
from context_assembler.errors.files import remedy_for_file


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRow:
    """One command: the module that has it, and what the overview says of it."""

    module: str
    help: str
    panel: str


class CommandTable(TyperGroup):
    """A group whose commands are imported when they are called.

    The overview is printed from the table alone, so that `--help` imports no command.
    """

    rows: ClassVar[Mapping[str, CommandRow]]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Replace the row that was asked for by the command itself."""
        name, row, rest = super().resolve_command(ctx, args)
        return name, row if name is None else load_command(name, self.rows[name]), rest

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002 - this method takes care of what it stands for
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and leave with its exit code."""
        write_utf8()
        outlets = open_outlets()
        words, is_debugging = _take_debug(list(sys.argv[1:] if args is None else args))
        try:
            code = super().main(
                words or ["--help"],
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
            sys.stdout.flush()
        except AssemblyError as error:
            code = _fail(error.problem, remedy_for(error), is_debugging=is_debugging)
        except typer.TyperException as error:
            problem = error.format_message()
            problem += "" if problem.endswith((".", "?", "!")) else "."
            code = _fail(problem, _usage(error), is_debugging=is_debugging)
        except typer.Abort:
            code = exit_codes.INTERRUPTED
        except BrokenPipeError:
            code = exit_codes.UNWRITTEN
        except OSError as error:
            if told := outlets.complaint(error):
                _fail(*told, is_debugging=is_debugging)
                code = exit_codes.UNWRITTEN
            else:
                told = _complaint(error)
                code = _fail(*told, is_debugging=is_debugging)
        sys.exit(outlets.close(code if isinstance(code, int) else exit_codes.FINE))


def load_command(name: str, row: CommandRow) -> Any:
    """Import a command's module and return the command."""
    found = get_command(import_module(row.module).app)
    # A module with several top-level commands (import, export) is a group of them.
    return found.commands.get(name, found) if isinstance(found, TyperGroup) else found


def _take_debug(words: list[str]) -> tuple[list[str], bool]:
    """Take `--debug` out, wherever it stands."""
    end = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != "--debug"]
    return [*kept, *words[end:]], len(kept) < end


def _fail(problem: str, remedy: str, *, is_debugging: bool) -> int:
    if is_debugging:
        traceback.print_exc()
    print_error(problem, remedy)
    return exit_codes.ERROR


def _complaint(error: OSError) -> tuple[str, str]:
    problem = f"{error.filename}: {error.strerror}." if error.filename else f"{error}."
    return problem, remedy_for_file(error)


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)  # only usage errors have one
    return f"See '{context.command_path} --help'." if context else ""
