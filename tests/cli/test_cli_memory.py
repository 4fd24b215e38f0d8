"""`memory`: what people and programs see of it."""

import json
from pathlib import Path

import pytest

from tests.cli.running import Ran, run, run_process

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


def test_an_explanation_shows_ids_that_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ids = [add(f"tea number {number}") for number in range(3)]
    long_id = "x" * 200
    Path("long.jsonl").write_text(json.dumps({"id": long_id, "text": "tea of a long name"}))
    memory("import", "long.jsonl")

    shown = memory("search", "tea", "--explain").stdout

    for memory_id in (*ids, long_id):
        assert memory_id in shown.split()


def test_a_memory_is_forgotten() -> None:
    tea, coffee = add("tea at noon"), add("coffee at nine")

    told = memory("forget", tea, "nobody")

    assert told.stdout == "1 memory forgotten.\n"
    assert "There is no memory 'nobody'" in told.stderr
    assert memory("show", tea).exit_code == 2
    assert memory("forget", coffee, coffee, "--json").json == {
        "forgotten": [coffee],
        "unknown": [],
    }
    assert memory("forget", coffee).exit_code == 2


def test_what_keeps_grades_from_their_meaning_is_told() -> None:
    asked = [
        {"question": "When is tea?", "evidence": [add("tea at noon"), "nobody"]},
        *({"question": "Who?", "evidence": [f"no-{n}"]} for n in range(7)),
    ]
    Path("q.jsonl").write_text("\n".join(map(json.dumps, asked)))

    ran = memory("eval", "q.jsonl", "--facts", "--embedder", "bundled", "--json")

    assert ran.json["remarks"] == [
        "8 ids of evidence are in no memory: nobody, no-0, no-1, no-2, no-3 and 3 more",
        "--facts changes nothing: the file holds no observations",
        "--embedder changes nothing: the store keeps no vectors",
    ]
    assert "q.jsonl: --facts changes nothing" in ran.stderr


def test_grades_are_headed_in_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    Path("q.jsonl").write_text(json.dumps({"question": "Tea?", "evidence": [add("tea")]}))

    assert "questions" in memory("eval", "q.jsonl").stdout


def test_an_embedder_of_other_vectors_is_told() -> None:
    vector = {"model": "m", "codes": "fwA="}
    Path("v.jsonl").write_text(json.dumps({"text": "tea", "id": "t", "vector": vector}))
    memory("import", "v.jsonl")
    Path("q.jsonl").write_text(json.dumps({"question": "When is tea?", "evidence": ["t"]}))

    [remark] = memory("eval", "q.jsonl", "--embedder", "bundled", "--json").json["remarks"]

    assert remark.startswith("--embedder changes nothing: the store keeps vectors of 'm', not of")
    assert memory("eval", "q.jsonl", "--json").json["remarks"] == []


def stats() -> dict[str, object]:
    told: dict[str, object] = memory("stats", "--json").json
    return told


def test_what_is_kept_and_asked_has_the_place_that_the_settings_name() -> None:
    Path("context-assembler.toml").write_text('[memory]\nembedder = "bundled"\n')
    Path("more.jsonl").write_text('{"text": "The invoice was paid."}\n{"text": "Tea is ready."}\n')

    add("The boat leaves at nine in the morning.")
    memory("import", "more.jsonl")
    add("Nobody knows where this is.", "--embedder", "none")
    asked = memory("search", "the payment of a bill", "--explain", "--json").json
    bare = memory("search", "the payment of a bill", "--embedder", "none", "--json").json

    assert (stats()["records"], stats()["vectors"]) == (4, 3)
    assert [one["record"]["text"] for one in asked["items"]] == ["The invoice was paid."]
    assert asked["explanations"][0]["scores"]["meaning"] > 0
    assert all(one["scores"]["meaning"] == 0 for one in bare["items"])


@pytest.mark.parametrize(
    "words",
    [("add", "tea"), ("search", "tea"), ("import", "tea.jsonl")],
    ids=lambda words: words[0],
)
def test_a_misspelt_embedder_is_told_with_the_nearest(words: tuple[str, ...]) -> None:
    add("tea")
    Path("tea.jsonl").write_text('{"text": "green tea"}\n')

    refused = memory(*words, "--embedder", "bundle")

    assert refused.exit_code == 2
    assert "Did you mean 'bundled'?" in refused.stderr
    assert stats()["records"] == 1


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


def test_memories_go_through_pipes() -> None:
    line = b'{"id": "t", "text": "tea at noon"}\n'

    imported = memory("import", "-", stdin=line)
    exported = memory("export", "-")

    assert "1 memory read from stdin: 1 added" in imported.stdout
    assert json.loads(exported.stdout)["text"] == "tea at noon"
    assert "1 memory written." in exported.stderr
    assert memory("export", "-", "--json").exit_code == 2
    piped = run_process("memory", "import", "/dev/stdin", "--memory", STORE, stdin=line)
    assert "1 replaced" in piped.stdout


def test_an_export_that_fails_leaves_the_file_as_it_was() -> None:
    Path("memory.db").write_bytes(b"no database" * 100)
    Path("backup.jsonl").write_text("precious")

    assert memory("export", "backup.jsonl").exit_code == 2
    assert Path("backup.jsonl").read_text() == "precious"


def test_the_store_of_the_settings_is_used_where_none_is_given() -> None:
    Path("context-assembler.toml").write_text('[memory]\nstore = "sqlite:mine.db"\n')

    run("memory", "add", "tea at noon")

    assert Path("mine.db").exists()
    assert "tea at noon" in run("memory", "search", "tea").stdout
    assert run("memory", "--json").json["records"] == 1


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


LOCOMO = [
    {
        "sample_id": "conv",
        "conversation": {
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "My kite is red."},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Mine flew away."},
            ],
        },
        "qa": [
            {"question": "Which color has the kite?", "evidence": ["D1:1"], "category": 4},
            {"question": "Who has a boat?", "evidence": ["D1:2"], "category": 5},
            {"question": "What?", "evidence": ["D"], "category": 4},
        ],
        "observation": {"session_1_observation": {"Ben": [["Ben lost a boat.", "D1:2"]]}},
    }
]


def test_a_file_of_conversations_brings_what_is_searched() -> None:
    Path("c.json").write_text(json.dumps(LOCOMO))

    told = run("memory", "eval", "c.json", "--budget", "200", "--json")

    assert told.json["overall"]["whole_evidence"] == {"200": 1.0}
    assert told.json["by_category"].keys() == {"single-hop"}
    assert "--category adversarial" in told.stderr
    assert told.json["remarks"] == ["1 question was left out: no turn is its evidence"]


def test_facts_stand_for_the_turns_that_say_them() -> None:
    Path("c.json").write_text(json.dumps(LOCOMO))
    asked = ("memory", "eval", "c.json", "--category", "adversarial", "--budget", "40", "--json")

    without, with_facts = run(*asked), run(*asked, "--facts", "--embedder", "bundled")

    assert without.json["overall"]["questions"] == with_facts.json["overall"]["questions"] == 1
    assert with_facts.json["overall"]["whole_evidence"] == {"40": 1.0}


def test_an_unknown_category_is_told_with_the_known_ones() -> None:
    Path("c.json").write_text(json.dumps(LOCOMO))

    failed = run("memory", "eval", "c.json", "--category", "hard")

    assert failed.exit_code == 2
    assert "adversarial" in failed.stderr


def test_all_that_is_asked_may_be_recalled() -> None:
    asked = {"question": "When is tea?", "evidence": [add("tea at noon")]}
    Path("q.jsonl").write_text(json.dumps(asked))

    assert "Not wholly recalled" not in memory("eval", "q.jsonl").stdout


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


BOUNDED: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "nothing given": ((), ["ada"]),
    "more of them": (("--limit", "5"), ["ada", "yard"]),
    "another kind": (("--kind", "memories"), ["note"]),
    "another project": (("--namespace", "bob"), ["bob"]),
    "a small budget": (("--max-tokens", "4"), []),
}


@pytest.mark.parametrize(("words", "expected"), BOUNDED.values(), ids=BOUNDED.keys())
def test_a_search_keeps_to_the_settings_where_it_is_not_told(
    words: tuple[str, ...], expected: list[str]
) -> None:
    kept = (
        ("ada", "Door codes: Ada's is 1234.", "learnings", "ada"),
        ("yard", "One of the door codes opens the yard.", "learnings", "ada"),
        ("note", "Ada wrote the door codes down.", "memories", "ada"),
        ("bob", "Door codes: Bob's is 4711.", "learnings", "bob"),
    )
    names = ("id", "text", "kind", "namespace")
    Path("m.jsonl").write_text(
        "\n".join(json.dumps(dict(zip(names, one, strict=True))) for one in kept)
    )
    memory("import", "m.jsonl")
    Path("context-assembler.toml").write_text(
        '[memory]\nnamespaces = ["ada"]\ncontext_types = ["learnings"]\nlimit = 1\n'
        'max_tokens = 80\npreset = "coding"\n'
    )

    found = memory("search", "door codes", *words, "--json").json

    assert [item["record"]["id"] for item in found["items"]] == expected
    assert found["token_count"] <= 80


@pytest.mark.parametrize(
    ("query", "tokens", "told"),
    [
        ("tea", "1", "What was found has no room in 1 token: give more with --max-tokens."),
        ("tea", "5", "What was found has no room in 5 tokens: give more with --max-tokens."),
        ("boats", "2", "Nothing relevant was found in memory."),
    ],
)
def test_where_nothing_has_room_that_is_said(query: str, tokens: str, told: str) -> None:
    add("Tea is served at noon, in the garden behind the house.")

    ran = memory("search", query, "--max-tokens", tokens)

    assert ran.exit_code == 0
    assert ran.stdout == ""
    assert told in " ".join(ran.stderr.split())


def test_a_store_of_sessions_is_not_offered_for_one_of_memories() -> None:
    Path("said.json").write_text(json.dumps([{"role": "user", "content": "tea"}]))
    assert run("import", "said.json", "--sessions", "sqlite:agent.db").exit_code == 0

    alone = run("memory", "search", "tea", "--memory", "sqlite:agnt.db")
    run("memory", "add", "tea at noon", "--memory", "sqlite:agents.db")
    beside = run("memory", "search", "tea", "--memory", "sqlite:agnt.db")
    sessions = run("sessions", "--sessions", "sqlite:agnts.db")

    assert "agent.db" not in alone.stderr
    assert "Did you mean 'sqlite:agents.db'?" in beside.stderr
    assert "Did you mean 'sqlite:agent.db'?" in sessions.stderr
