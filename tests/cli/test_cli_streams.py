"""Standard streams that are closed, full, or read by nobody: a line and a code, never a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Ran, process_env, run
from tests.cli.samples import STORE, long_chat, stored

MEMORY = "sqlite:memory.db"
COMMANDS = {
    "help": ("--help",),
    "the version": ("--version",),
    "a table": ("models",),
    "JSON": ("models", "list", "--json"),
    "an error behind an answer": ("models", "check", "no-such-model"),
    "a transcript": ("export", "chat", "--sessions", STORE),
    "bytes": ("memory", "export", "-", "--memory", MEMORY),
    "what was done": ("init", "new"),
}
every_command = pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())


def run_in_shell(redirection: str, *words: str) -> Ran:
    """Run a process of its own; what it says goes to files, unless redirected otherwise."""
    command = [sys.executable, "-m", "context_assembler", *words]
    with Path("out.txt").open("wb") as out, Path("err.txt").open("wb") as err:
        done = subprocess.run(
            ["bash", "-c", f'"$@" {redirection}', "bash", *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            check=False,
            env=process_env(),
        )
    texts = (Path(name).read_text(encoding="utf-8") for name in ("out.txt", "err.txt"))
    return Ran(exit_code=done.returncode, stdout=next(texts), stderr=next(texts))


@pytest.fixture(autouse=True)
def stores() -> None:
    stored(long_chat())
    assert run("memory", "add", "Ada likes tea.", "--memory", MEMORY).exit_code == 0


@every_command
def test_a_closed_stdout_is_told(words: tuple[str, ...]) -> None:
    ran = run_in_shell(">&-", *words)

    assert ran.exit_code == 1
    assert "Error: Not all could be written to stdout: it is closed.\n" in ran.stderr
    assert "Traceback" not in ran.stderr


@every_command
def test_a_full_stdout_is_told(words: tuple[str, ...]) -> None:
    ran = run_in_shell("> /dev/full", *words)

    assert ran.exit_code == 1
    assert ran.stderr.endswith(
        "Error: Not all could be written to stdout: No space left on device.\n"
        "       Make room there, or send it somewhere else.\n"
    )


@pytest.mark.parametrize("words", [COMMANDS["a transcript"], COMMANDS["JSON"], COMMANDS["bytes"]])
def test_a_reader_who_has_seen_enough_is_no_trouble(words: tuple[str, ...]) -> None:
    ran = run_in_shell('| head -c 1; exit "${PIPESTATUS[0]}"', *words)

    assert ran.exit_code in {0, 1}  # all of a short answer may be in the pipe by then
    assert len(ran.stdout) == 1
    assert "Error" not in ran.stderr


def test_an_answer_is_whole_though_a_note_beside_it_is_lost() -> None:
    ran = run_in_shell("2> /dev/full", *COMMANDS["bytes"])

    assert ran.exit_code == 1
    assert "Ada likes tea." in ran.stdout


NOBODY = ("export", "nobody", "--sessions", STORE)
CODES = {
    "what is said to a closed stderr": ("2>&-", COMMANDS["bytes"], 0),
    "an error, with a closed stderr": ("2>&-", NOBODY, 2),
    "an error, with a full stderr": ("2>/dev/full", NOBODY, 2),
    "an answer, with both closed": (">&- 2>&-", COMMANDS["JSON"], 1),
    "an answer, with both full": (">/dev/full 2>/dev/full", COMMANDS["JSON"], 1),
    "an answer, with all closed": ("<&- >&- 2>&-", COMMANDS["JSON"], 1),
}


@pytest.mark.parametrize(("redirection", "words", "code"), CODES.values(), ids=CODES.keys())
def test_where_nothing_can_be_said_the_code_tells(
    redirection: str, words: tuple[str, ...], code: int
) -> None:
    ran = run_in_shell(redirection, *words)

    assert ran.exit_code == code
    assert "Traceback" not in ran.stdout + ran.stderr


READERS = {
    "import": ("import", "-", "--sessions", STORE),
    "memory import": ("memory", "import", "-", "--memory", MEMORY),
    "memory add": ("memory", "add", "-", "--memory", MEMORY),
    "count": ("count", "-", "--model", "gpt-5.5"),
}


@pytest.mark.parametrize("words", READERS.values(), ids=READERS.keys())
def test_a_closed_stdin_is_told_where_it_is_to_be_read(words: tuple[str, ...]) -> None:
    ran = run_in_shell("<&-", *words)

    assert ran.exit_code == 2
    assert ran.stderr.startswith("Error: Stdin is closed.\n")


def test_a_closed_stdout_does_not_undo_what_was_done() -> None:
    run_in_shell(">&-", "init", "new")

    assert Path("new", "context-assembler.toml").is_file()
