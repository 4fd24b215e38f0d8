"""`import`, `export`, `sessions`, `count`: transcripts into a store and out of it."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import GPT, SAMPLES, STORE, Run

URL = " ".join(STORE)


def said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


CHAT = [said("user", "Hi."), said("assistant", "Hello.")]
MORE = [*CHAT, said("user", "Bye.")]


def written(messages: object, name: str = "chat.json") -> str:
    Path(name).write_text(json.dumps(messages), "utf-8")
    return name


def test_a_transcript_goes_into_a_store_and_comes_out_again(run: Run) -> None:
    imported = run("import", written(CHAT), *STORE, "--agent", "ada", "--json").json

    assert imported[0]["session"] == "chat"
    assert (imported[0]["events"], imported[0]["new_events"], imported[0]["issues"]) == (2, 2, [])
    assert json.loads(run("export", "chat", *STORE).out) == CHAT
    [listed] = run("sessions", *STORE, "--json").json
    assert (listed["id"], listed["agent_id"], listed["events"]) == ("chat", "ada", 2)


def test_what_could_not_be_mapped_is_listed(run: Run) -> None:
    shown = run("import", str(SAMPLES / "broken.json"), *STORE)

    assert "Not mapped in" in shown.out
    assert "are not a JSON object" in shown.out


@pytest.mark.parametrize("nothing", [[], {"messages": []}, {"contents": [{"parts": 5}]}])
def test_a_transcript_that_says_nothing_is_refused_by_name(run: Run, nothing: object) -> None:
    refused = run("import", written(nothing), *STORE)

    assert refused.code == 2
    assert "chat.json" in refused.err
    assert "formats: claude_code, openai_responses, gemini" in " ".join(refused.err.split())
    assert not list(Path().glob("*.db"))


def test_only_what_is_new_is_appended(run: Run) -> None:
    run("import", written(CHAT), *STORE)

    again = run("import", written(MORE), *STORE, "--append", "--json").json

    assert again[0]["new_events"] == 1
    assert json.loads(run("export", "chat", *STORE).out) == MORE


def test_a_transcript_that_diverged_is_not_appended(run: Run) -> None:
    rows = [
        {"type": "user", "uuid": name, "parentUuid": parent, "message": said("user", name)}
        for name, parent in (("a", None), ("b", "a"), ("c", "b"))
    ]
    run("import", written([rows[0], rows[2] | {"parentUuid": "a"}]), *STORE)

    refused = run("import", written(rows), *STORE, "--append")

    assert refused.code == 2
    assert "as a session of its own" in refused.err


def test_several_sessions_of_one_file_are_numbered(run: Run) -> None:
    both = [{"id": "a", "messages": CHAT}, {"id": "b", "messages": MORE}]

    imported = run("import", written(both), *STORE, "--json").json

    assert [(one["session"], one["name"]) for one in imported] == [("chat-1", "a"), ("chat-2", "b")]


def test_a_text_a_transcript_and_a_session_are_counted(run: Run) -> None:
    run("import", written(CHAT), *STORE)

    text = run("count", "-", *GPT, "--json", stdin=b"Hello there, world.").json
    transcript = run("count", "chat.json", *GPT, "--json").json
    session = run("count", "--session", "chat", *STORE, *GPT, "--json").json

    assert (text["tokens"], text["is_exact"], text["messages"]) == (5, True, None)
    assert transcript == session
    assert [row["name"] for row in session["rows"]] == ["user", "assistant", "request"]
    assert "tools" in run("count", str(SAMPLES / "service_desk.json"), *GPT).out
