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


def test_what_another_program_kept_is_read_listed_and_counted(run: Run) -> None:
    rows = [{"id": str(at), "memory": f"fact {at}", "user_id": "ada"} for at in range(11)]
    Path("mem0.json").write_text(json.dumps({"results": [*rows, {"id": "x"}]}), "utf-8")
    Path("few.json").write_text(json.dumps([rows[0], {"id": "x"}]), "utf-8")
    Path("notes").mkdir()
    Path("notes", "MEMORY.md").write_text("# Tea\ngreen\n", "utf-8")

    shown = run("memory", "import", "mem0.json", *URL)
    again = run("memory", "import", "mem0.json", *URL, "--json").json
    notes = run("memory", "import", "notes", *URL, "--namespace", "home", "--json").json
    few = run("memory", "import", "few.json", *URL)
    part = run("memory", "import", "few.json", *URL, "--partial", "--json").json

    assert shown.code == 0
    assert shown.out.endswith("11 rows read, 1 listed.\n")
    assert "it lacks memory" in shown.out
    assert (again["added"], again["replaced"], again["rows_listed"]) == (0, 11, 1)
    assert again["listed"][0]["place"] == "mem0.json: results[11]"
    assert (notes["format"], notes["added"]) == ("markdown", 1)
    assert few.code != 0
    assert "--partial" in few.err
    assert (part["replaced"], part["rows_read"]) == (1, 1)
    kept = run("memory", "stats", *URL, "--json").json["by_namespace"]
    assert kept == {"ada": 11, "home": 1}


def test_an_id_that_two_projects_have_is_forgotten_of_the_one_that_is_named(run: Run) -> None:
    lines = [{"text": name, "id": "a", "namespace": name} for name in ("ada", "bob")]
    Path("own.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    run("memory", "import", "own.jsonl", *URL)

    unclear = run("memory", "forget", "a", *URL)
    gone = run("memory", "forget", "a", *URL, "--namespace", "ada", "--json").json

    assert unclear.code != 0
    assert "--namespace" in unclear.err
    assert gone == {"forgotten": ["a"], "unknown": []}
    assert run("memory", "stats", *URL, "--json").json["by_namespace"] == {"bob": 1}
