"""What users get wrong, one row each: exit code 2, at most two lines, no traceback, a remedy."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from context_assembler.sessions import SESSION_STORES
from context_assembler.sessions.sqlite import SqliteStore
from tests.cli.running import Ran, run
from tests.cli.samples import CHAT, STORE, TOOLS, stored, write_json

ASSEMBLE = ("assemble", "chat", "--sessions", STORE, "--model", "gpt-5.5")


def assert_refused(ran: Ran, *said: str) -> None:
    assert ran.exit_code == 2, ran
    assert ran.stdout == ""
    for words in said:
        assert words in ran.stderr
    assert ran.stderr.startswith("Error: ")
    assert len(ran.stderr.splitlines()) <= 2


BAD_WORDS: dict[str, tuple[tuple[str, ...], str]] = {
    "an unknown session names the nearest": (
        ("assemble", "chta", "--sessions", STORE, "-m", "gpt-5.5"),
        "Did you mean 'chat'?",
    ),
    "a store that is not there names the nearest file": (
        ("assemble", "chat", "--sessions", "sqlite:session.db", "-m", "gpt-5.5"),
        "There is no file session.db.\n       Did you mean 'sqlite:sessions.db'?",
    ),
    "a store that is not there says how to fill it": (
        ("sessions", "--sessions", "sqlite:xyzzy"),
        "There is no file xyzzy.\n       Correct its name, or fill it first: context-assembler import",
    ),
    "an unknown model names the nearest": ((*ASSEMBLE, "-m", "gpt-5.55"), "'gpt-5.5'"),
    "no model at all": (("assemble", "chat", "--sessions", STORE), "Model ID is required"),
    "an unknown strategy names the nearest": ((*ASSEMBLE, "--strategy", "smrt"), "'smart'"),
    "an unknown overflow policy": ((*ASSEMBLE, "--on-overflow", "shrink"), "shrink"),
    "an unknown cache policy": ((*ASSEMBLE, "--cache", "always"), "always"),
    "an unknown provider": ((*ASSEMBLE, "--provider", "grok"), "openai_chat"),
    "a provider without a name": ((*ASSEMBLE, "--provider", ""), "Unknown provider ''"),
    "a provider of a payload without a name": (
        ("lint-payload", "object.json", "--provider", ""),
        "Unknown provider ''",
    ),
    "instructions in a folder that is not there": (
        (*ASSEMBLE, "--bootstrap", "rules"),
        "rules is no folder",
    ),
    "instructions in a folder that is a file": (
        ("explain", *ASSEMBLE[1:], "--bootstrap", "text.json"),
        "text.json is no folder",
    ),
    "a chart on stdout": (("explain", *ASSEMBLE[1:], "--cost", "--svg", "-"), "--svg cost.svg"),
    "a tool choice that is nested too deep": (
        (*ASSEMBLE, "--tool-choice", '{"a":' * 50_000),
        "--tool-choice is not JSON",
    ),
    "an unknown store": (
        ("assemble", "chat", "--sessions", "sqlit:x.db", "-m", "gpt-5.5"),
        "Did you mean 'sqlite'?",
    ),
    "no store": (("assemble", "chat", "-m", "gpt-5.5"), "CONTEXT_ASSEMBLER_SESSIONS"),
    "a temperature out of range": ((*ASSEMBLE, "--temperature", "3"), "temperature"),
    "a temperature that the model has not": ((*ASSEMBLE, "--temperature", "0.5"), "temperature"),
    "a reply of no tokens": ((*ASSEMBLE, "--max-tokens", "0"), "max_tokens"),
    "a reply longer than the model's": ((*ASSEMBLE, "--max-tokens", "9999999"), "max_tokens"),
    "a thinking level that the model has not": (
        (*ASSEMBLE, "--thinking-level", "enormous"),
        "enormous",
    ),
    "a tool choice that is no JSON": (
        (*ASSEMBLE, "--tool-choice", "{"),
        "--tool-choice is not JSON",
    ),
    "an unknown tool choice": ((*ASSEMBLE, "--tool-choice", "maybe"), "maybe"),
    "an agent that would leave the folder": (
        (*ASSEMBLE, "--bootstrap", ".", "--agent", "../../etc/passwd"),
        "../../etc/passwd",
    ),
    "a missing file of tools": ((*ASSEMBLE, "--tools", "none.json"), "none.json: No such file"),
    "a file of tools without tools": (
        (*ASSEMBLE, "--tools", "text.json"),
        "holds no list of tools",
    ),
    "a file of tools that is no JSON": ((*ASSEMBLE, "--tools", "broken.json"), "is not JSON"),
    "settings that are no TOML": ((*ASSEMBLE, "--config", "bad"), "bad/context-assembler.toml"),
    "settings in a folder that is none": ((*ASSEMBLE, "--config", "text.json"), "is not a folder"),
    "a setting that does not exist": ((*ASSEMBLE, "--config", "typo"), "truncation"),
    "a session id that cannot be": (
        ("export", "", "--sessions", STORE),
        "session",
    ),
}


@pytest.mark.parametrize(("words", "said"), BAD_WORDS.values(), ids=BAD_WORDS.keys())
def test_bad_words(words: tuple[str, ...], said: str) -> None:
    stored()
    write_json("text.json", "text")
    write_json("object.json", {"model": "gpt-5.5"})
    Path("broken.json").write_text("{")
    for folder, toml in {"bad": "= 1", "typo": "[trunkation]\nstrategy = 'smart'"}.items():
        Path(folder).mkdir()
        Path(folder, "context-assembler.toml").write_text(toml)

    assert_refused(run(*words), said)


def not_a_database() -> None:
    Path("sessions.db").write_bytes(b"This is prose, and much longer than a header. " * 100)


def truncated_database() -> None:
    stored()
    content = Path("sessions.db").read_bytes()
    Path("sessions.db").write_bytes(content[: len(content) // 2 + 100])


def folder_as_database() -> None:
    Path("sessions.db").mkdir()


def newer_database() -> None:
    stored()
    with sqlite3.connect("sessions.db") as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]
        assert tables
        connection.execute("PRAGMA user_version = 99")
        for table in tables:
            if "version" in table:
                connection.execute(f"INSERT INTO {table} VALUES (99)")
    connection.close()


BROKEN_STORES: dict[str, Callable[[], None]] = {
    "a file that is no database": not_a_database,
    "a folder": folder_as_database,
    "half a database": truncated_database,
    "a database of a newer version": newer_database,
}


@pytest.mark.parametrize("prepare", BROKEN_STORES.values(), ids=BROKEN_STORES.keys())
def test_a_store_that_cannot_be_used_is_named(prepare: Callable[[], None]) -> None:
    prepare()

    assert_refused(run(*ASSEMBLE), "sessions.db")


def test_a_locked_store_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stored()
    monkeypatch.setitem(
        SESSION_STORES,
        "impatient",
        lambda location: SqliteStore(location, busy_seconds=0.01),
    )
    write_json("other.json", CHAT)
    connection = sqlite3.connect("sessions.db", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")

    ran = run("import", "other.json", "--sessions", "impatient:sessions.db")

    connection.close()
    assert_refused(ran, "lock")


def test_a_read_only_store_is_read() -> None:
    stored()
    Path("sessions.db").chmod(0o444)
    Path().chmod(0o555)

    ran = run(*ASSEMBLE)

    Path().chmod(0o755)
    assert ran.exit_code == 0, ran.stderr


def test_a_message_larger_than_the_window_names_the_sizes_and_a_way_out() -> None:
    stored([{"role": "user", "content": "word " * 5_000}])
    words = (*ASSEMBLE, "--max-context-tokens", "500")

    assert_refused(run(*words), "tokens are needed, 498 are available")
    assert run(*words, "--on-overflow", "shorten").exit_code == 0


def test_a_system_prompt_larger_than_the_window_is_named() -> None:
    stored([{"role": "system", "content": "Rule. " * 5_000}, *CHAT[1:]])

    assert_refused(run(*ASSEMBLE, "--max-context-tokens", "1000"), "tokens are needed")


def test_tools_larger_than_the_window_are_named() -> None:
    stored()
    tool = {**TOOLS[0]["function"], "description": "Long. " * 5_000}
    tools = write_json("tools.json", [{"type": "function", "function": tool}])

    ran = run(*ASSEMBLE, "--max-context-tokens", "1000", "--tools", tools)

    assert_refused(ran, "tokens are needed", "tools from listed")


def test_a_session_with_nothing_to_send_is_an_error() -> None:
    stored([{"role": "system", "content": "Only instructions."}])

    assert_refused(run(*ASSEMBLE), "'chat' holds no message to send")


def test_a_session_with_half_a_character_is_assembled_and_explained() -> None:
    stored([{"role": "user", "content": "half a smile: \ud83d, \x1b[2J"}])

    for command in ("assemble", "explain"):
        ran = run(command, *ASSEMBLE[1:])
        assert ran.exit_code == 0, ran.stderr
        assert "\x1b" not in ran.stdout
