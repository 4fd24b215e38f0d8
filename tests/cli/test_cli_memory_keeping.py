"""`memory add --merge-alike` and `memory fade`: what is kept once, and what is let go."""

import json
from pathlib import Path

import pytest

from tests.cli.running import Ran, run

STORE = "sqlite:memory.db"
FIRST, NEARLY = "Ada wants invoices as PDF files.", "Ada wants her invoices as PDF files."


def memory(*words: str) -> Ran:
    command, *rest = words
    return run("memory", command, *rest, "--memory", STORE)


def kept() -> set[str]:
    memory("export", "all.jsonl")
    return {json.loads(line)["text"] for line in Path("all.jsonl").read_text().splitlines()}


def remember_old(text: str, *, importance: float) -> None:
    old = {"text": text, "importance": importance, "created_at": "2020-01-01T00:00:00Z"}
    Path("old.jsonl").write_text(json.dumps(old))
    assert memory("import", "old.jsonl").exit_code == 0


def write_settings(*lines: str) -> None:
    Path("context-assembler.toml").write_text("\n".join(("[memory]", *lines)))


def test_what_is_nearly_the_same_is_merged_where_that_is_asked_for() -> None:
    memory("add", FIRST)

    merged = memory("add", NEARLY, "--merge-alike", "0.9", "--json")
    apart = memory("add", NEARLY, "--json")

    assert merged.json["outcome"] == "duplicate"
    assert "Nearly the same is kept as" in merged.json["notices"][0]
    assert apart.json["outcome"] == "added"


def test_the_settings_say_what_is_merged_and_a_flag_overrides_them() -> None:
    write_settings("merges_alike = 0.9")
    memory("add", FIRST)

    assert memory("add", NEARLY, "--json").json["outcome"] == "duplicate"
    assert memory("add", NEARLY, "--merge-alike", "1", "--json").json["outcome"] == "added"


def test_what_faded_is_forgotten_and_nothing_else() -> None:
    remember_old("of no weight", importance=0.2)
    memory("add", "of today")

    assert "1 memory forgotten." in memory("fade", "--half-life-days", "30").stdout
    assert kept() == {"of today"}


def test_a_dry_run_says_what_would_be_forgotten_and_forgets_nothing() -> None:
    remember_old("of no weight", importance=0.2)
    memory("add", "of today")

    told = memory("fade", "--half-life-days", "30", "--dry-run").stdout
    listed = memory("fade", "--half-life-days", "30", "--dry-run", "--json").json

    assert told.startswith("1 memory would be forgotten.")
    assert "worth 0.000  memories: of no weight" in told
    assert listed["forgotten"] == []
    assert [one in told for one in listed["would_forget"]] == [True]
    assert kept() == {"of no weight", "of today"}


def test_the_settings_say_how_fast_memories_fade() -> None:
    remember_old("of no weight", importance=0.2)
    write_settings("fades_half_life_days = 100_000", "fades_below = 0.1")

    assert memory("fade", "--json").json == {"forgotten": []}
    assert len(memory("fade", "--below", "0.3", "--json").json["forgotten"]) == 1


def test_only_what_is_named_may_fade() -> None:
    remember_old("of no weight", importance=0.2)

    memory("fade", "--half-life-days", "30", "--kind", "events")
    memory("fade", "--half-life-days", "30", "--namespace", "shop")

    assert kept() == {"of no weight"}


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "no half-life": (("fade",), "--half-life-days 30"),
    "a half-life of nothing": (("fade", "--half-life-days", "0"), "must be positive"),
    "a worth beyond all": (
        ("fade", "--half-life-days", "9", "--below", "5"),
        "less than or equal to 1",
    ),
    "a likeness of nothing": (("add", "tea", "--merge-alike", "0.1"), "from 0.5 to 1"),
}


@pytest.mark.parametrize(("words", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_refused_and_nothing_is_forgotten(
    words: tuple[str, ...], told: str
) -> None:
    remember_old("of no weight", importance=0.2)

    ran = memory(*words)

    assert ran.exit_code == 2
    assert told in ran.stderr
    assert kept() == {"of no weight"}
