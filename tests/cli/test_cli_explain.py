import re
from pathlib import Path

import pytest

from tests.cli.running import run
from tests.cli.samples import STORE, TOOLS, long_chat, stored, write_json

BOUNDED = ("--sessions", STORE, "--model", "gpt-5.5", "--max-context-tokens", "8000")


def test_people_see_the_window_what_was_cut_and_why() -> None:
    stored(long_chat())
    tools = write_json("tools.json", TOOLS)

    shown = run("explain", "chat", *BOUNDED, "--tools", tools).stdout

    assert "Session chat for gpt-5.5" in shown
    assert "▒ history" in shown
    assert "list_files" in shown
    assert "dropped" in shown
    assert "max_context_tokens 8,000 request" in " ".join(shown.split())
    assert "Checked against openai_responses's rules: 0 broken." in shown


def test_runs_are_put_together_unless_every_piece_is_asked_for() -> None:
    stored(long_chat())

    together = run("explain", "chat", *BOUNDED).stdout
    apart = run("explain", "chat", *BOUNDED, "--every").stdout

    assert len(apart.splitlines()) > len(together.splitlines()) + 50


def test_programs_get_the_report() -> None:
    stored(long_chat())

    report = run("explain", "chat", *BOUNDED, "--json").json

    assert {"entries", "ledger", "parameters", "warnings"} <= set(report)
    assert {entry["decision"] for entry in report["entries"]} >= {"kept", "dropped"}
    assert report["ledger"]["budget_tokens"] == 8000


def test_a_report_can_be_read_where_there_is_no_colour() -> None:
    stored()

    assert "\x1b" not in run("explain", "chat", *BOUNDED).stdout


def test_a_checkered_history_is_put_together_by_fate() -> None:
    stored(long_chat(words=(5, 150)), session="checkered")

    shown = run("explain", "checkered", *BOUNDED[:4], "--max-context-tokens", "12000").stdout

    assert re.search(r"messages: evt_\d+( – evt_\d+)?, ", " ".join(shown.split()))
    assert "--every shows each piece" in shown


def test_warnings_and_advice_come_last() -> None:
    stored(long_chat(), session="old")
    turns = [{"role": "user", "content": "Go on. " * 200}, {"role": "assistant", "content": "Yes."}]
    stored([*turns * 30, turns[0]], session="full")

    warned = run("explain", "old", "--sessions", STORE, "-m", "gpt-4o").stdout
    advised = run("explain", "full", *BOUNDED).stdout

    assert "Warnings" in warned
    assert "gpt-4o" in warned.partition("Warnings")[2]
    advice = advised.partition("Compaction is advised: ")[2]
    assert re.match(
        r"[\d,]+ tokens, more than 6,400 \(\[compaction\] trigger_share = 0.8\)", advice
    )


def test_settings_tell_where_they_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    stored()
    Path("context-assembler.toml").write_text(
        'unknown_model = "conservative"\nagents.me = {top_k = 5, max_tokens = 100}\n'
        '[defaults]\nmodel = "claude-haiku-4-5"\n[truncation]\nstrategy = "simple"\n'
    )
    Path("pyproject.toml").write_text("[tool.context-assembler.truncation]\nwindow_turns = 3\n")
    monkeypatch.setenv("CONTEXT_ASSEMBLER_DEFAULTS__CACHE", "off")
    words = ("explain", "chat", "--sessions", STORE, "--agent", "me", "--on-overflow", "shorten")

    parameters = run(*words, "--json").json["parameters"]
    shown = " ".join(run(*words).stdout.split())

    assert {row["name"]: row["origin"] for row in parameters} == {
        "model": "context-assembler.toml",
        "top_k": "agent, context-assembler.toml",
        "max_tokens": "agent, context-assembler.toml",
        "truncation_strategy": "context-assembler.toml",
        "window_turns": "pyproject.toml",
        "cache_stable": "default",
        "on_overflow": "request",
        "cache": "environment",
        "unknown_model": "context-assembler.toml",
    }
    assert "cache_stable yes default" in shown
