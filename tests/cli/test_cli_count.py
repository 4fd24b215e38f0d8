import asyncio
import base64
import json
from pathlib import Path

import pytest

from context_assembler.sessions import SqliteStore
from context_assembler.testing import serve_providers
from context_assembler.values.calibration import UsageObservation
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


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_each_part_of_a_conversation_has_a_row() -> None:
    path = write_json("b.json", {"messages": CHAT, "tools": TOOLS})

    counted = run("count", path, *GPT, "--json").json
    shown = run("count", path, *GPT).stdout

    names = [row["name"] for row in counted["rows"]]
    assert names[:2] == ["session", "list_files"]
    assert names[-3:] == ["what the user said", "what the model said", "tool results"]
    assert counted["tokens"] == sum(row["tokens"] for row in counted["rows"])
    assert "what the user said" in shown
    assert "tool results" in shown


def test_a_picture_is_counted_by_its_size() -> None:
    Path("a.bin").write_bytes(PNG)

    counted = run("count", "a.bin", "-m", "claude-opus-5-5", "--json").json

    assert counted["tokens"] < 20
    assert counted["rows"][0]["name"] == "a.bin"


def test_a_picture_whose_header_says_no_size_is_taken_for_a_screenshot() -> None:
    Path("a.png").write_bytes(PNG[:16])

    ran = run("count", "a.png", "-m", "claude-opus-5-5")

    assert "an image" in ran.stdout
    assert "states no size" in ran.stderr


def test_a_pdf_is_counted_by_its_pages() -> None:
    page = b"<< /Type /Page >>\n"
    Path("a.pdf").write_bytes(b"%PDF-1.7\n" + page * 3)

    ran = run("count", "a.pdf", "-m", "claude-opus-5-5")

    assert "a PDF" in ran.stdout


@pytest.mark.parametrize(("name", "what"), [("a.pdf", "a PDF"), ("a.png", "an image")])
def test_a_file_that_is_not_what_it_is_named_is_refused(name: str, what: str) -> None:
    Path(name).write_text("just words")

    refused = run("count", name, *GPT)
    as_text = run("count", name, *GPT, "--text", "--json")

    assert refused.exit_code == 2
    assert f"named as {what}" in refused.stderr
    assert as_text.json["tokens"] == 2


def test_what_usage_taught_is_shown() -> None:
    seen = UsageObservation(
        provider="anthropic",
        model="claude-opus-5-5",
        shape="tools",
        counter="~claude_v48 2",
        counted_tokens=1_000,
        reported_tokens=1_200,
    )

    async def teach() -> None:
        async with SqliteStore("sessions.db") as store:
            for _ in range(5):
                await store.observe_usage(seen)

    stored()
    nothing = run("count", "--calibration", "--sessions", STORE)
    asyncio.run(teach())
    shown = run("count", "--calibration", "--sessions", STORE)
    [row] = run("count", "--calibration", "--sessions", STORE, "--json").json

    assert "Nothing was learned yet" in nothing.stdout
    assert "claude-opus-5-5" in shown.stdout
    assert (row["observations"], row["factor"] > 1.05) == (5, True)


def test_the_provider_s_own_count_is_asked_for_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_json("b.json", {"messages": CHAT, "tools": TOOLS})
    with serve_providers() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)

        counted = run("count", path, "-m", "claude-opus-5-5", "--exact", "--json").json
        shown = run("count", path, "-m", "claude-opus-5-5", "--exact").stdout

    assert counted["reported_tokens"] > 0
    assert f"{counted['reported_tokens']:,} tokens as a request" in shown


def test_without_a_key_the_error_says_which_to_set() -> None:
    ran = run("count", "-", *GPT, "--exact", stdin=b"hello")

    assert ran.exit_code == 2
    assert "OPENAI_API_KEY" in ran.stderr
