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


BAD = {
    "no store": ("import chat.json", "CONTEXT_ASSEMBLER_SESSIONS"),
    "no such file": (f"import gone.json {URL}", "Check the path"),
    "not a transcript": (f"import text.txt {URL}", "JSON Lines transcript"),
    "a session that exists": (f"import chat.json {URL}", "pass --append"),
    "one name twice": (f"import chat.json ./chat.json {URL}", "one by one"),
    "an unknown format": (f"export chat {URL} --format xml", "Known: anthropic"),
    "an unknown session": (f"export chta {URL}", "Did you mean 'chat'?"),
    "a mistyped store": ("sessions --sessions sqlite:agnet.db", "Did you mean 'agent.db'?"),
    "a missing folder": ("sessions --sessions sqlite:gone/agent.db", "folder"),
    "nothing to count": ("count -m gpt-5.5", "Name one FILE"),
    "no model": ("count chat.json", "Pass --model ID"),
    "an unknown model": ("count chat.json -m gtp-5.5", "Did you mean 'gpt-5.5'"),
    "no such command": ("imprt", "--help"),
    "no such option": ("sessions --all", "--help"),
}


@pytest.mark.parametrize(("words", "says"), BAD.values(), ids=BAD.keys())
def test_bad_calls_say_what_to_do(run: Run, words: str, says: str) -> None:
    Path("text.txt").write_text("Just a text.", "utf-8")
    run("import", written(CHAT), *STORE)

    refused = run(*words.split())

    assert refused.code == 2
    assert refused.err.startswith("Error: ")
    assert says in refused.err
    assert "Traceback" not in refused.err


def test_a_store_of_the_environment_is_used(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_SESSIONS", "sqlite:agent.db")
    run("import", written(CHAT))

    assert run("sessions", "--json").json[0]["events"] == 2


def test_a_text_a_transcript_and_a_session_are_counted(run: Run) -> None:
    run("import", written(CHAT), *STORE)

    text = run("count", "-", *GPT, "--json", stdin=b"Hello there, world.").json
    transcript = run("count", "chat.json", *GPT, "--json").json
    session = run("count", "--session", "chat", *STORE, *GPT, "--json").json

    assert (text["tokens"], text["is_exact"], text["messages"]) == (5, True, None)
    assert transcript == session
    assert [row["name"] for row in session["rows"]] == ["user", "assistant", "request"]


def test_tools_in_a_transcript_are_counted(run: Run) -> None:
    counted = run("count", str(SAMPLES / "service_desk.json"), *GPT)

    assert "tools" in counted.out
    assert "counted exactly with o200k_base" in counted.out
