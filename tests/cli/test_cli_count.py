import json
from pathlib import Path

import pytest

from tests.cli.running import run
from tests.cli.samples import CHAT, STORE, TOOLS, stored, write_json

GPT = ("--model", "gpt-5.5")


def test_a_text_is_counted() -> None:
    Path("text.txt").write_text("hello world")

    ran = run("count", "text.txt", "--model", "gpt-5.5")

    assert "2 tokens: a text, counted exactly with o200k_base" in ran.stdout


def test_a_text_comes_from_stdin() -> None:
    ran = run("count", "-", "-m", "gpt-5.5", "--json", stdin="hello world".encode("utf-16"))

    assert ran.json["tokens"] == 2
    assert ran.json["messages"] is None
    assert ran.json["is_exact"] is True


def test_an_empty_text_has_no_tokens() -> None:
    assert run("count", "-", *GPT, "--json").json["tokens"] == 0


def test_a_transcript_is_counted_as_the_conversation_it_holds() -> None:
    plain, with_tools = (
        write_json("a.json", CHAT),
        write_json("b.json", {"messages": CHAT, "tools": TOOLS}),
    )

    counted = run("count", plain, *GPT, "--json").json
    counted_with_tools = run("count", with_tools, *GPT, "--json").json

    assert counted["messages"] == 5
    assert counted["tokens"] < counted_with_tools["tokens"]


def test_a_transcript_can_be_counted_as_text() -> None:
    ran = run("count", write_json("a.json", CHAT), *GPT, "--text", "--json")

    assert ran.json["messages"] is None


def test_a_stored_session_has_the_tokens_of_its_transcript() -> None:
    stored()

    ran = run("count", "--session", "chat", "--sessions", STORE, *GPT, "--json")

    assert ran.json["tokens"] == run("count", "chat.json", *GPT, "--json").json["tokens"]


def test_a_session_has_the_tokens_of_the_ledger_of_its_request() -> None:
    stored()
    explained = run("explain", "chat", "--sessions", STORE, *GPT, "--json").json

    counted = run("count", "--session", "chat", "--sessions", STORE, *GPT, "--json").json

    assert counted["tokens"] == sum(row["tokens"] for row in explained["ledger"]["rows"])


def test_what_a_compaction_covers_is_not_counted() -> None:
    rows = [
        {"type": "user", "uuid": "a", "message": {"role": "user", "content": "word " * 500}},
        {
            "type": "user",
            "uuid": "c",
            "parentUuid": "a",
            "isCompactSummary": True,
            "message": {"role": "user", "content": "many words"},
        },
    ]
    Path("code.jsonl").write_text("\n".join(map(json.dumps, rows)))

    counted = run("count", "code.jsonl", *GPT, "--json").json

    assert counted["messages"] == 1
    assert counted["tokens"] < 50


def test_a_model_without_a_tokenizer_is_estimated() -> None:
    ran = run("count", "-", "-m", "claude-opus-5-5", stdin=b"hello world")

    assert "estimated" in ran.stdout
    assert "claude-opus-5-5" in ran.stdout


@pytest.mark.parametrize("words", [(), ("a.txt", "--session", "chat", "--sessions", STORE)])
def test_exactly_one_thing_is_counted(words: tuple[str, ...]) -> None:
    ran = run("count", *words, *GPT)

    assert ran.exit_code == 2
    assert "not clear what to count" in ran.stderr


def test_the_model_may_come_from_the_settings() -> None:
    Path("context-assembler.toml").write_text('[defaults]\nmodel = "gpt-4.1"\n')

    assert run("count", "-", "--json").json["model"] == "gpt-4.1"


def test_a_model_must_be_known_from_somewhere() -> None:
    ran = run("count", "-")

    assert ran.exit_code == 2
    assert "--model" in ran.stderr


def test_bytes_that_are_no_text_are_counted_with_a_note() -> None:
    ran = run("count", "-", *GPT, stdin=b"caf\xe9")

    assert ran.exit_code == 0
    assert "1 byte(s) are not UTF-8" in ran.stderr
