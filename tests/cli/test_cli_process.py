"""The command line as a process of its own: what the shell, the locale and pipes do to it."""

import json
import os
import pty
import subprocess
import sys

import pytest

from tests.cli.running import process_env, run_process
from tests.cli.samples import STORE, long_chat, stored


def test_help_comes_without_loading_any_command() -> None:
    program = (
        "import sys; from context_assembler.cli import main; sys.argv = ['x', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'context_assembler.assembler', 'context_assembler.limits', 'pydantic', "
        "'tiktoken', 'yaml', 'jinja2', 'sqlite3', 'anthropic', 'openai'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=process_env()
    )

    assert done.stderr.decode().strip() == "[]"


LOCALES = {
    "the C locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "a one-byte encoding": {"PYTHONIOENCODING": "latin-1"},
    "UTF-8": {"LC_ALL": "C.UTF-8"},
}


@pytest.mark.parametrize("env", LOCALES.values(), ids=LOCALES.keys())
def test_output_is_utf8_whatever_the_locale_says(env: dict[str, str]) -> None:
    stored([{"role": "user", "content": "Grüße 今天 😀 \ud83d"}])

    ran = run_process("assemble", "chat", "--sessions", STORE, "--model", "gpt-5.5", env=env)

    assert "Grüße 今天 😀" in ran.stdout
    assert json.loads(ran.stdout)


def test_pictures_are_utf8_in_the_c_locale() -> None:
    ran = run_process("models", "show", "--help", env=LOCALES["the C locale"])

    assert "─ Arguments ─" in ran.stdout


def test_errors_go_to_stderr_without_a_traceback() -> None:
    stored()

    ran = run_process("assemble", "nobody", "--sessions", STORE, "--model", "gpt-5.5")

    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("Error: There is no session 'nobody'.")
    assert "Traceback" not in ran.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    stored(long_chat())
    command = (sys.executable, "-m", "context_assembler", "assemble", "chat")
    process = subprocess.Popen(
        [*command, "--sessions", STORE, "--model", "gpt-5.5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=process_env(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()

    said = process.stderr.read()
    process.stderr.close()

    assert process.wait() == 1
    assert said == b""


def on_a_terminal(*words: str, env: dict[str, str] | None = None) -> str:
    """Return what a process prints to a terminal."""
    parent, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "context_assembler", *words],
        stdout=child,
        stderr=child,
        stdin=subprocess.DEVNULL,
        env=process_env({"TERM": "xterm-256color", **(env or {})}),
    ):
        os.close(child)
        shown = bytearray()
        try:
            while chunk := os.read(parent, 65536):
                shown += chunk
        except OSError:
            pass  # how Linux says that the other end was closed
    os.close(parent)
    return shown.decode("utf-8")


def test_a_terminal_gets_colours_unless_it_wants_none() -> None:
    words = ("models", "check")

    assert "\x1b[" in on_a_terminal(*words)
    assert "\x1b[33m" not in on_a_terminal(*words, env={"NO_COLOR": "1"})
    assert "\x1b" not in run_process(*words).stdout


def test_python_dash_m_is_the_same_program() -> None:
    assert run_process("--version").stdout == "0.1.0\n"
