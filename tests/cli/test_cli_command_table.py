import errno
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from context_assembler.cli import COMMANDS, app, main
from context_assembler.cli.command_table import CommandRow, CommandTable, load_command
from context_assembler.errors import AssemblyError
from tests.cli.running import Ran, run


def failing_with(raise_it: Callable[[], object]) -> typer.Typer:
    """Return a command line whose only command is `fail`."""
    commands = ModuleType("failing_commands")
    commands.app = typer.Typer()  # type: ignore[attr-defined]
    commands.app.command("fail")(raise_it)
    sys.modules[commands.__name__] = commands

    class Table(CommandTable):
        rows: ClassVar = {"fail": CommandRow(module=commands.__name__, help="", panel="")}

    table = typer.Typer(cls=Table)
    table.callback()(lambda: None)
    table.command("fail")(lambda: None)
    return table


def invoke(table: typer.Typer, *words: str) -> Ran:
    result = CliRunner().invoke(table, list(words), prog_name="tool")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return Ran(exit_code=result.exit_code, stdout=result.stdout, stderr=result.stderr)


def raising(error: BaseException) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


def test_every_row_has_its_command_and_says_what_the_command_says() -> None:
    for name, row in COMMANDS.items():
        command = load_command(name, row)
        assert command.help.startswith(row.help), name


def test_the_overview_names_every_command_and_exit_code() -> None:
    ran = run("--help")

    assert ran.exit_code == 0
    assert all(name in ran.stdout for name in COMMANDS)
    assert "12 the provider would refuse the payload" in " ".join(ran.stdout.split())


def test_main_runs_what_stands_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["context-assembler", "models", "show", "gpt-4o", "--json"])

    with pytest.raises(SystemExit) as left:
        main()

    assert left.value.code == 0
    assert '"id": "gpt-4o"' in capsys.readouterr().out


def test_no_words_at_all_are_a_question_for_help() -> None:
    assert run() == run("--help")


def test_the_version_is_printed() -> None:
    assert run("--version").stdout.strip() == "0.1.0"


MISTAKES = {
    "an unknown command names the nearest": (("asemble",), "Did you mean 'assemble'?"),
    "an unknown command ends in one mark": (("x",), "No such command 'x'.\n"),
    "a suggestion ends in one mark": (("dem",), "Did you mean 'demo'?\n"),
    "an unknown option says where to look": (
        ("sessions", "--nope"),
        "See 'context-assembler sessions --help'.",
    ),
    "a missing argument is named": (("models", "show"), "Missing argument 'ID'."),
    "a word where a number belongs is named": (
        ("assemble", "s", "--max-tokens", "many"),
        "--max-tokens",
    ),
}


@pytest.mark.parametrize(("words", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_two_lines_and_exit_code_2(words: tuple[str, ...], said: str) -> None:
    ran = run(*words)

    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert said in ran.stderr
    assert ran.stderr.startswith("Error: ")
    assert len(ran.stderr.splitlines()) <= 2


def test_a_deliberate_error_is_its_problem_and_remedy() -> None:
    ran = invoke(failing_with(raising(AssemblyError("It broke.", remedy="Mend it."))), "fail")

    assert ran.exit_code == 2
    assert ran.stderr == "Error: It broke.\n       Mend it.\n"


@pytest.mark.parametrize("words", [("--debug", "fail"), ("fail", "--debug")])
def test_debug_shows_the_traceback_wherever_it_stands(words: tuple[str, ...]) -> None:
    ran = invoke(failing_with(raising(AssemblyError("It broke.", remedy="Mend it."))), *words)

    assert ran.exit_code == 2
    assert "Traceback" in ran.stderr
    assert "Error: It broke." in ran.stderr


def test_debug_behind_two_dashes_is_an_argument() -> None:
    ran = run("models", "show", "--", "--debug")

    assert "Traceback" not in ran.stderr
    assert "'--debug'" in ran.stderr


SYSTEM_ERRORS = {
    "a file that may not be read": (
        PermissionError(errno.EACCES, "Permission denied", "notes.txt"),
        "Error: notes.txt: Permission denied.",
    ),
    "a full disk": (
        OSError(errno.ENOSPC, "No space left on device", "out.json"),
        "Make room on that disk",
    ),
    "a disk that takes nothing": (
        OSError(errno.EROFS, "Read-only file system", "out.json"),
        "mounted read-only",
    ),
    "a trouble without a file": (OSError(errno.EIO, "Input/output error"), "Input/output error"),
}


@pytest.mark.parametrize(("error", "said"), SYSTEM_ERRORS.values(), ids=SYSTEM_ERRORS.keys())
def test_trouble_with_a_file_is_an_error_without_a_traceback(error: OSError, said: str) -> None:
    ran = invoke(failing_with(raising(error)), "fail")

    assert ran.exit_code == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


QUIET_ENDS = {
    "a closed pipe": (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1),
    "a closed pipe noticed late": (BrokenPipeError("no errno"), 1),
    "an interrupt": (KeyboardInterrupt(), 130),
    "an abort": (typer.Abort(), 130),
    "an exit code of the command's own": (typer.Exit(10), 10),
}


@pytest.mark.parametrize(("error", "exit_code"), QUIET_ENDS.values(), ids=QUIET_ENDS.keys())
def test_some_ends_are_quiet(
    error: BaseException, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # whatever is put there is taken back

    ran = invoke(failing_with(raising(error)), "fail")

    assert ran.exit_code == exit_code
    assert ran.stderr == ""


def test_a_fault_of_the_program_is_not_hidden() -> None:
    result = CliRunner().invoke(failing_with(raising(KeyError("bug"))), ["fail"])

    assert isinstance(result.exception, KeyError)


def test_completion_offers_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_CONTEXT_ASSEMBLER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "context-assembler ex")
    monkeypatch.setenv("COMP_CWORD", "1")

    ran = run()

    assert ran.stdout.split() == ["export", "explain"]


def all_commands() -> dict[str, Any]:
    loaded = {name: load_command(name, row) for name, row in COMMANDS.items()}
    nested = {
        f"{name} {inner}": command
        for name, group in loaded.items()
        if isinstance(group, TyperGroup)
        for inner, command in group.commands.items()
    }
    return {**loaded, **nested}


def test_every_option_of_every_command_is_explained() -> None:
    for name, command in all_commands().items():
        for parameter in command.params:
            assert parameter.help, f"{name}: {parameter.name}"


def test_every_help_page_is_printed() -> None:
    for name in all_commands():
        assert run(*name.split(), "--help").exit_code == 0


def test_commands_are_loaded_from_plain_functions() -> None:
    assert inspect.isfunction(load_command("init", COMMANDS["init"]).callback)
    assert app.info.cls is not None


def test_every_command_has_json_for_programs() -> None:
    without = {
        name
        for name, command in all_commands().items()
        if not any("--json" in parameter.opts for parameter in command.params)
    }

    assert without == set()
