"""`memory`: what is kept is found, shown, moved and forgotten."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

URL = ("--memory", "sqlite:memory.db")


@pytest.fixture
def kept(run: Run) -> Run:
    """Return `run` after two memories were kept."""
    run("memory", "add", "Ada likes green tea.", *URL, "--kind", "learnings", "--namespace", "home")
    run("memory", "add", "-", *URL, stdin=b"The build runs on hatchling.\n")
    return run


def test_what_was_kept_is_found(kept: Run) -> None:
    shown = kept("memory", "search", "What does Ada drink?", *URL)
    told = kept("memory", "search", "tea", *URL, "--namespace", "home", "--explain", "--json").json

    assert "- Ada likes green tea." in shown.out
    assert [one["record"]["text"] for one in told["items"]] == ["Ada likes green tea."]
    assert {"markdown", "token_count", "sources_used", "source_status"} <= told.keys()
    assert told["explanations"][0]["outcome"] == "kept"
    assert "Nothing relevant was found" in kept("memory", "search", "zzz", *URL).out


def test_without_a_command_the_store_says_what_it_holds(kept: Run) -> None:
    told = kept("memory", *URL, "--json").json

    assert told["records"] == 2
    assert told["by_kind"] == {"learnings": 1, "memories": 1}
    assert "by kind" in kept("memory", "stats", *URL).out


def test_memories_go_through_a_file(kept: Run) -> None:
    written = kept("memory", "export", "out.jsonl", *URL, "--json").json
    other = ("--memory", "sqlite:other.db")

    first = kept("memory", "import", "out.jsonl", *other, "--json").json
    content = Path("out.jsonl").read_bytes()
    again = kept("memory", "import", "-", *other, "--json", stdin=content).json

    assert written["written"] == 2
    assert (first["added"], again["added"]) == (2, 0)
    assert kept("memory", "export", "-", *other).out == content.decode()


def test_a_memory_is_forgotten(kept: Run) -> None:
    found = kept("memory", "search", "tea", *URL, "--json").json["items"][0]["record"]["id"]

    gone = kept("memory", "forget", found, "mem_none", *URL, "--json").json

    assert gone == {"forgotten": [found], "unknown": ["mem_none"]}


def test_what_faded_is_forgotten_but_for_a_dry_run(kept: Run) -> None:
    fade = ("memory", "fade", *URL, "--half-life-days", "1e-12", "--json")

    dry, wet = kept(*fade, "--dry-run").json, kept(*fade).json

    assert dry["forgotten"] == []
    assert sorted(dry["would_forget"]) == sorted(wet["forgotten"]) != []


def test_recall_is_graded(kept: Run) -> None:
    found = kept("memory", "search", "tea", *URL, "--json").json["items"][0]["record"]["id"]
    question = {"question": "What does Ada drink?", "evidence": [found], "id": "q1"}
    Path("questions.jsonl").write_text(json.dumps(question), "utf-8")

    graded = kept("memory", "eval", "questions.jsonl", *URL, "--budget", "200", "--json").json

    assert graded["overall"]["questions"] == 1
    assert graded["overall"]["whole"] == {"200": 1.0}
    assert graded["missed"] == []
