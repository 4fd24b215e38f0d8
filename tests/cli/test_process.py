"""The program as a whole: help, streams, the errors that no command makes."""

import os
import re
import subprocess
import sys
from itertools import pairwise

import pytest

from context_assembler.cli import COMMANDS, EXIT_CODES, load_command
from tests.cli.conftest import STORE, Run

PROGRAM = (sys.executable, "-m", "context_assembler")


def test_the_overview_names_every_command_and_exit_code(run: Run) -> None:
    shown = run().out

    assert all(name in shown for name in COMMANDS)
    assert all(f"\n  {code:>5} " in shown for code in EXIT_CODES)
    assert run("--version").out.count(".") == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_is_explained(run: Run, name: str) -> None:
    found = load_command(name)

    for one in [found, *getattr(found, "commands", {}).values()]:
        assert one.help
        assert all(option.help for option in one.params if option.name != "help")
        assert hasattr(one, "commands") or "as_json" in {option.name for option in one.params}


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_plain_sentences_within_80_columns(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    below = getattr(load_command(name), "commands", {}) if name else {}
    pages = [
        run(*words, "--help").out for words in ([name] if name else [], *([name, b] for b in below))
    ]

    for shown in pages:
        lines = shown.splitlines()
        assert "--help" in shown
        assert all(len(line) <= 80 for line in lines)
        assert not re.search(r"<(bool|str|int|path|list)\b|\w\.\.\.$", shown, re.MULTILINE)
        # A paragraph goes on to the end of its lines: what follows would not have fitted.
        for line, following in pairwise(lines):
            if re.match(r"  \w", line) and re.match(r"  \w", following) and "  " not in line[2:]:
                assert len(line) + 1 + len(following.split()[0]) > 78, (line, following)


def test_debug_shows_the_traceback(run: Run) -> None:
    assert "Traceback" in run("--debug", "sessions", *STORE).err
    assert "Traceback" in run("sessions", *STORE, "--debug").err
    assert "Traceback" not in run("sessions", *STORE).err


def test_what_a_terminal_would_obey_is_written_out(run: Run) -> None:
    run("memory", "add", "Red \x1b[31m text", "--memory", "sqlite:m.db")

    shown = run("memory", "search", "red text", "--memory", "sqlite:m.db")

    assert "\x1b" not in shown.out
    assert "Red" in shown.out


def test_a_full_disk_and_a_reader_that_left_end_with_1(run: Run) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "w", encoding="utf-8") as full:
        said = subprocess.run(
            [*PROGRAM, "models"], stdout=full, stderr=subprocess.PIPE, check=False, text=True
        )
    quiet = subprocess.run(
        [*PROGRAM, "models"], stdout=writer, stderr=subprocess.PIPE, check=False, text=True
    )

    assert (said.returncode, quiet.returncode) == (1, 1)
    assert said.stderr.startswith("Error: ")
    assert quiet.stderr == ""


def test_output_is_utf8_whatever_the_locale_says(run: Run) -> None:
    run("memory", "add", "Hello to 東京", "--memory", "sqlite:m.db")
    words = [*PROGRAM, "memory", "search", "hello", "--memory", "sqlite:m.db"]

    done = subprocess.run(
        words, env={"LC_ALL": "C", "PYTHONUTF8": "0"}, capture_output=True, check=True
    )

    assert "Hello to 東京" in done.stdout.decode()
