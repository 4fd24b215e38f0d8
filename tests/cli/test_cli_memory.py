"""`memory`: what people and programs see of it."""

import json
from pathlib import Path

import pytest

from tests.cli.running import Ran, run

STORE = "sqlite:memory.db"


def memory(*words: str, stdin: bytes = b"") -> Ran:
    command, *rest = words
    return run("memory", command, "--memory", STORE, *rest, stdin=stdin)


def add(*words: str) -> str:
    found: str = memory("add", *words, "--json").json["id"]
    return found


def test_what_is_added_is_found_again() -> None:
    added = memory("add", "Deployments run on Friday.", "--namespace", "shop")

    assert added.stdout.strip().endswith("(added)")
    shown = memory("search", "deployments", "--namespace", "shop").stdout
    assert "- Deployments run on Friday." in shown
    assert "1 item from 1 source." in shown
    assert "Nothing relevant" in memory("search", "deployments", "--namespace", "other").stdout


def test_a_text_is_read_from_stdin_and_its_secret_masked() -> None:
    key = b"AKIA" + b"Q3EGRIJMZLWNTYUP"

    added = memory("add", "-", "--kind", "events", stdin=b"The key is " + key + b"\n")

    assert "secret" in added.stderr.lower()
    assert key.decode() not in memory("search", "key").stdout


def test_a_search_is_explained() -> None:
    add("Ann: I ran a race", "--kind", "events", "--session", "s", "--author", "Ann")

    shown = memory("search", "race", "--explain").stdout
    told = memory("search", "race", "--explain", "--json").json

    assert "it fits the query" in " ".join(shown.split())
    assert told["explanations"][0]["outcome"] == "kept"
    assert told["items"][0]["record"]["author"] == "Ann"
    assert "explanations" not in memory("search", "race", "--json").json


def test_one_memory_is_shown_whole() -> None:
    memory_id = add("tea at noon", "--importance", "0.9")

    assert "tea at noon" in memory("show", memory_id).stdout
    assert memory("show", memory_id, "--json").json["importance"] == 0.9
    assert "There is no memory 'x'" in memory("show", "x").stderr


def test_memories_go_through_a_file() -> None:
    add("tea at noon")
    add("def run(): ...", "--kind", "code")

    assert "2 memories written" in memory("export", "all.jsonl").stdout
    assert memory("export", "code.jsonl", "--kind", "code", "--namespace", "", "--json").json == {
        "written": 1,
        "file": "code.jsonl",
    }
    assert "2 replaced" in memory("import", "all.jsonl").stdout
    assert memory("import", "code.jsonl", "--json").json["replaced"] == 1


def test_a_store_says_what_it_holds() -> None:
    add("tea at noon")

    assert memory("stats", "--json").json["by_kind"] == {"memories": 1}
    assert "memories: 1" in memory("stats").stdout


def test_without_a_command_the_store_says_what_it_holds() -> None:
    add("tea at noon")

    assert run("memory", "--memory", STORE, "--json").json["records"] == 1
    assert run("memory", "--memory", STORE, "--json", "stats").json["records"] == 1


def test_a_vector_is_not_shown_to_people() -> None:
    vector = {"model": "m", "codes": "fwA="}
    line = {"version": 1, "kind": "memories", "text": "tea", "id": "t", "vector": vector}
    Path("v.jsonl").write_text(json.dumps(line))
    memory("import", "v.jsonl")

    assert "fwA=" not in memory("show", "t").stdout


def test_an_empty_store_has_no_times() -> None:
    told = run("memory", "stats", "--memory", "memory:", "--json").json

    assert (told["records"], told["oldest_at"]) == (0, None)


def test_recall_is_graded() -> None:
    asked = {"question": "When is tea?", "evidence": [add("tea at noon")], "category": "when"}
    missed = {"question": "Who is Zoe?", "evidence": ["nobody"], "category": "who"}
    Path("q.jsonl").write_text("\n".join(map(json.dumps, (asked, missed))))

    shown = memory("eval", "q.jsonl", "--budget", "100").stdout
    told = memory("eval", "q.jsonl", "--budget", "100", "--kind", "memories", "--json").json

    assert "50.0%" in shown
    assert "Who is Zoe?" in shown
    assert told["overall"]["whole_evidence"] == {"100": 0.5}
    assert told["by_category"]["when"]["mrr"] == 1.0
    assert told["missed"] == ["2"]


def test_all_that_is_asked_may_be_recalled() -> None:
    asked = {"question": "When is tea?", "evidence": [add("tea at noon")]}
    Path("q.jsonl").write_text(json.dumps(asked))

    assert "Not wholly recalled" not in memory("eval", "q.jsonl").stdout


def test_a_source_that_was_searched_otherwise_is_noted() -> None:
    Path("memory.db").write_bytes(b"no database" * 100)

    failed = memory("search", "tea")

    assert "Not available" in failed.stdout
    assert "Note: memories" in failed.stderr


BAD_CALLS = {
    "no store": (("memory", "stats"), "CONTEXT_ASSEMBLER_MEMORY"),
    "an unknown kind": (("memory", "search", "x", "--memory", "memory:", "--kind", "y"), "valid"),
    "no questions": (("memory", "eval", "empty.jsonl", "--memory", "memory:"), "no question"),
    "an unknown preset": (
        ("memory", "search", "x", "--memory", "memory:", "--preset", "codin"),
        "coding",
    ),
}


@pytest.mark.parametrize(("words", "named"), BAD_CALLS.values(), ids=BAD_CALLS.keys())
def test_bad_calls_say_what_to_do(words: tuple[str, ...], named: str) -> None:
    Path("empty.jsonl").write_text("\n")

    failed = run(*words)

    assert failed.exit_code == 2
    assert named in failed.stderr
