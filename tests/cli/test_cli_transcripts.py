import asyncio
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_assembler import SessionEvent, open_store, read_transcript
from context_assembler.values.events import EventBody
from tests.cli.running import run
from tests.cli.samples import CHAT, STORE, TOOLS, stored, write_json


def import_file(file: str, *more: str) -> Any:
    ran = run("import", file, "--sessions", STORE, "--json", *more)
    assert ran.exit_code == 0, ran.stderr
    return ran.json


def exported(session: str, *more: str) -> str:
    ran = run("export", session, "--sessions", STORE, *more)
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout


def session_ids() -> list[str]:
    if not Path("sessions.db").exists():
        return []
    return [row["id"] for row in run("sessions", "--sessions", STORE, "--json").json]


def test_a_chat_is_imported_under_its_files_name_and_exported_unchanged() -> None:
    [imported] = import_file(write_json("trip.json", CHAT))

    assert imported["session"] == "trip"
    assert imported["issues"] == []
    assert json.loads(exported("trip")) == CHAT


def test_people_are_told_what_was_read() -> None:
    file = write_json("trip.json", {"messages": CHAT, "tools": TOOLS})

    ran = run("import", file, "--sessions", STORE)

    assert "trip: 6 events from trip.json" in ran.stdout
    assert "--tools trip.json" in ran.stdout


def test_a_session_can_be_named_and_given_an_agent() -> None:
    import_file(write_json("x.json", CHAT), "--session", "chosen", "--agent", "planner")

    ran = run("sessions", "--sessions", STORE, "--json")

    assert [(row["id"], row["agent_id"]) for row in ran.json] == [("chosen", "planner")]


def test_several_sessions_in_one_file_are_numbered() -> None:
    rows = [{"messages": CHAT}, {"messages": CHAT[:2]}]
    Path("many.jsonl").write_text("\n".join(map(json.dumps, rows)))

    imported = import_file("many.jsonl")

    assert [row["session"] for row in imported] == ["many-1", "many-2"]
    assert session_ids() == ["many-1", "many-2"]


def test_a_transcript_is_read_from_stdin() -> None:
    ran = run(
        "import", "-", "--sessions", STORE, "--json", stdin=json.dumps(CHAT).encode("utf-8-sig")
    )

    assert [row["session"] for row in ran.json] == ["session"]


def test_an_existing_session_is_refused_and_left_as_it_was() -> None:
    stored(session="chat")

    ran = run("import", "chat.json", "--sessions", STORE)

    assert ran.exit_code == 2
    assert "There is a session 'chat' already." in ran.stderr
    assert "--append" in ran.stderr
    assert json.loads(exported("chat")) == CHAT


@pytest.mark.parametrize("created_at", [None, datetime(2026, 5, 4, 9, 30, tzinfo=UTC)])
def test_an_import_that_was_ended_half_way_is_finished_by_the_next(
    created_at: datetime | None,
) -> None:
    moment = {} if created_at is None else {"timestamp": created_at.isoformat()}
    chat = [{**message, **moment} for message in CHAT]
    file = write_json("trip.json", chat)
    asyncio.run(_append_alone("trip", read_transcript(json.dumps(chat)).events))

    import_file(file, "--agent", "planner")
    ran = run("sessions", "--sessions", STORE, "--json")

    assert [(row["id"], row["agent_id"]) for row in ran.json] == [("trip", "planner")]
    assert json.loads(exported("trip")) == chat
    assert run("import", file, "--sessions", STORE).exit_code == 2


async def _append_alone(session_id: str, events: Sequence[SessionEvent]) -> None:
    store = open_store(STORE)
    await store.append(session_id, events)
    await store.close()


def test_append_continues_a_session_or_begins_one() -> None:
    first, rest = write_json("first.json", CHAT[:4]), write_json("rest.json", CHAT[4:])

    import_file(first, "--session", "chat", "--append")
    import_file(rest, "--session", "chat", "--append")

    assert json.loads(exported("chat")) == CHAT


def claude_code_row(number: int, words: str) -> dict[str, Any]:
    return {
        "type": "user",
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "s",
        "timestamp": f"2026-03-01T10:00:{number:02}.000Z",
        "message": {"role": "user", "content": words},
    }


def lines_of_claude_code(count: int) -> str:
    return "\n".join(
        json.dumps(claude_code_row(number, f"words {number}")) for number in range(count)
    )


def bodies_of(transcript: str) -> list[EventBody]:
    return [event.body for event in read_transcript(transcript).events]


FILES: dict[str, tuple[str, str]] = {
    "with ids": (lines_of_claude_code(3), lines_of_claude_code(5)),
    "without ids": (json.dumps(CHAT[:3]), json.dumps(CHAT)),
}


@pytest.mark.parametrize(("first", "grown"), FILES.values(), ids=FILES.keys())
def test_what_was_appended_is_not_appended_again(first: str, grown: str) -> None:
    Path("file.jsonl").write_text(first)
    [begun] = import_file("file.jsonl", "--append")
    [again] = import_file("file.jsonl", "--append")
    Path("file.jsonl").write_text(grown)

    [more] = import_file("file.jsonl", "--append")
    told = run("import", "file.jsonl", "--append", "--sessions", STORE).stdout

    assert (begun["new_events"], again["new_events"]) == (begun["events"], 0)
    assert more["new_events"] == more["events"] - begun["events"]
    assert f"the session had {more['events']} of them" in told
    assert bodies_of(exported("file")) == bodies_of(grown)


def test_words_that_are_repeated_are_appended() -> None:
    once = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Done."}]
    import_file(write_json("talk.json", [*once, *CHAT]))

    [appended] = import_file(write_json("talk.json", once), "--append")

    assert appended["new_events"] == 2


def test_events_of_a_transcript_among_others_are_refused_in_words() -> None:
    Path("file.jsonl").write_text(lines_of_claude_code(2))
    import_file("file.jsonl", "--append")
    import_file(write_json("other.json", CHAT), "--session", "file", "--append")
    Path("file.jsonl").write_text(lines_of_claude_code(3))

    ran = run("import", "file.jsonl", "--append", "--sessions", STORE)

    assert ran.exit_code == 2
    assert "Session 'file' has some of these events" in ran.stderr


def test_an_appended_summary_covers_what_it_covered_in_its_own_file() -> None:
    rows = [
        {"type": "user", "uuid": "a", "message": {"role": "user", "content": "of the file"}},
        {"type": "system", "subtype": "compact_boundary", "uuid": "b", "logicalParentUuid": "a"},
        {
            "type": "user",
            "uuid": "c",
            "parentUuid": "b",
            "isCompactSummary": True,
            "message": {"role": "user", "content": "a summary"},
        },
        {
            "type": "user",
            "uuid": "d",
            "parentUuid": "c",
            "message": {"role": "user", "content": "after it"},
        },
    ]
    Path("code.jsonl").write_text("\n".join(map(json.dumps, rows)))
    stored(session="chat")

    import_file("code.jsonl", "--session", "chat", "--append")

    assert json.loads(exported("chat")) == [
        *CHAT,
        {"role": "user", "content": "a summary"},
        {"role": "user", "content": "after it"},
    ]


def test_nothing_is_written_when_one_file_cannot_be_read() -> None:
    good = write_json("good.json", CHAT)

    ran = run("import", good, "missing.json", "--sessions", STORE)

    assert ran.exit_code == 2
    assert "missing.json" in ran.stderr
    assert session_ids() == []


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "two files of one name": (("a/x.json", "b/x.json"), "Two files would become session 'x'."),
    "one name for two sessions": (
        ("a/x.json", "b/y.json", "--session", "one"),
        "--session names one session, but 2 were found.",
    ),
    "an unknown format": (
        ("a/x.json", "--format", "openai"),
        "Unknown transcript format 'openai'.",
    ),
    "a format that the file is not of": (("a/x.json", "--format", "claude_code"), "x.json: "),
    "a folder": (("a",), "Is a directory"),
    "a missing file": (("nowhere.jsonl",), "nowhere.jsonl: the file cannot be read"),
    "what is no transcript": (("a/prose.txt",), "prose.txt: it is not JSON"),
    "an empty file": (("a/empty.json",), "empty.json: it is empty"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_imported_is_refused(words: tuple[str, ...], said: str) -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
        for name in ("x.json", "y.json"):
            write_json(f"{folder}/{name}", CHAT)
    Path("a/empty.json").touch()
    Path("a/prose.txt").write_text("Dear diary, today nothing was structured.")

    ran = run("import", *words, "--sessions", STORE)

    assert ran.exit_code == 2
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 2
    assert session_ids() == []


def test_lines_that_cannot_be_read_are_listed_and_the_rest_is_kept() -> None:
    rows = [json.dumps(claude_code_row(number, f"words {number}")) for number in range(14)]
    Path("log.jsonl").write_text("\n".join([*rows[:7], '{"type": "us', *rows[7:], rows[0][:40]]))

    ran = run("import", "log.jsonl", "--sessions", STORE)

    assert ran.exit_code == 0
    assert "2 not mapped:" in ran.stdout
    assert "line 8" in ran.stdout
    assert "line 16" in ran.stdout


def test_a_long_list_of_issues_is_cut_for_people_but_not_for_programs() -> None:
    good = [json.dumps(claude_code_row(number, "words")) for number in range(3)]
    Path("log.jsonl").write_text("\n".join([*good, *['{"broken'] * 15]))

    shown = run("import", "log.jsonl", "--sessions", STORE, "--session", "a").stdout
    listed = import_file("log.jsonl", "--session", "b")

    assert "more; --json lists them all" in shown
    assert len(listed[0]["issues"]) == 15


def test_bytes_that_are_no_text_are_replaced_and_listed() -> None:
    Path("log.json").write_bytes(json.dumps(CHAT).encode().replace(b"Thanks", b"Th\xe9nks"))

    ran = run("import", "log.json", "--sessions", STORE)

    assert ran.exit_code == 0
    assert "are not UTF-8" in ran.stdout
    assert "Th\ufffdnks" in exported("log")


@pytest.mark.parametrize("format_name", ["openai_chat", "anthropic", "claude_code"])
def test_what_is_exported_can_be_imported_again(format_name: str) -> None:
    stored()

    Path("copy.txt").write_text(exported("chat", "--format", format_name))
    import_file("copy.txt", "--format", format_name)

    assert "a.txt\\nb.txt" in exported("copy")


def test_an_export_for_programs_names_its_format() -> None:
    stored()

    ran = run("export", "chat", "--sessions", STORE, "--format", "anthropic", "--json")

    assert ran.json == {
        "session": "chat",
        "format": "anthropic",
        "text": exported("chat", "--format", "anthropic"),
    }


def test_an_unknown_format_names_the_known_ones() -> None:
    stored()

    ran = run("export", "chat", "--sessions", STORE, "--format", "anthropics")

    assert ran.exit_code == 2
    assert "Did you mean 'anthropic'?" in ran.stderr


def test_a_lone_surrogate_survives_import_and_export() -> None:
    chat = [{"role": "user", "content": "half a smile: \ud83d"}]

    stored(chat, session="odd")

    assert json.loads(exported("odd")) == chat


def test_the_store_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_SESSIONS", STORE)

    assert run("import", write_json("trip.json", CHAT)).exit_code == 0
    assert "trip" in run("sessions").stdout


def test_a_store_must_be_named() -> None:
    ran = run("sessions")

    assert ran.exit_code == 2
    assert "CONTEXT_ASSEMBLER_SESSIONS" in ran.stderr


def test_sessions_are_listed_for_people() -> None:
    stored(session="one")
    stored(session="two")

    table = run("sessions", "--sessions", STORE).stdout

    assert "one" in table
    assert "two" in table


def test_an_empty_store_says_so() -> None:
    assert "no session" in run("sessions", "--sessions", "memory:").stdout


def test_a_command_that_reads_creates_no_store() -> None:
    for words in (("sessions",), ("export", "chat"), ("explain", "chat", "-m", "gpt-5.5")):
        ran = run(*words, "--sessions", STORE)
        assert ran.exit_code == 2
        assert "There is no file sessions.db." in ran.stderr

    assert not Path("sessions.db").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_an_error() -> None:
    Path("secret.json").write_text("[]")
    Path("secret.json").chmod(0)

    ran = run("import", "secret.json", "--sessions", STORE)

    assert ran.exit_code == 2
    assert "secret.json: Permission denied." in ran.stderr
