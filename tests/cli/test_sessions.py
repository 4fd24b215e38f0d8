"""`import`, `export`, `sessions`, `count`: transcripts into a store and out of it."""

import json
from asyncio import to_thread
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from context_assembler import Session, open_store, user_event
from context_assembler.events import Covers
from context_assembler.testing import event_log
from context_assembler.transcripts import FORMATS, write_transcript
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

    assert "Not mapped: " in shown.out
    assert "are not a JSON object" in shown.out


@pytest.mark.parametrize("nothing", [[], {"messages": []}, {"contents": [{"parts": 5}]}])
def test_a_transcript_that_says_nothing_is_refused_by_name(run: Run, nothing: object) -> None:
    refused = run("import", written(nothing), *STORE)

    assert refused.code == 2
    assert "chat.json" in refused.err
    assert "format" in refused.err
    assert not list(Path().glob("*.db"))


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


def test_a_text_and_a_transcript_are_counted(run: Run) -> None:
    text = run("count", "-", *GPT, "--json", stdin=b"Hello there, world.").json
    transcript = run("count", written(CHAT), *GPT, "--json").json

    assert (text["tokens"], text["is_exact"], text["messages"]) == (5, True, None)
    assert [row["name"] for row in transcript["rows"]] == ["user", "assistant", "request"]
    assert "tools" in run("count", str(SAMPLES / "service_desk.json"), *GPT).out


LOG = event_log(
    *("U Look.", "A[c1:look {}] So.", "T[c1] found", "U more", "A one", "U again", "A two"),
    *("U both", "A[c2:look {}] Hm.", "T[c2] more", "A three", "U last"),
    *("U once more", "A[c1:look {}] Hm.", "T[c1] other", "A four"),
)
GROWS = [(name, at) for name, known in FORMATS.items() if known.write for at in (1, 3, 9, 14)]


@pytest.mark.parametrize(("name", "at"), GROWS, ids=str)
def test_an_export_adds_only_what_came_after_it(run: Run, name: str, at: int) -> None:
    Path("early").write_text(write_transcript(LOG[:at], format=name), "utf-8")
    Path("late").write_text(write_transcript(LOG, format=name), "utf-8")

    run("import", "early", *STORE, "--session", "log")
    grown = run("import", "late", *STORE, "--session", "log", "--append", "--json")
    again = run("import", "late", *STORE, "--session", "log", "--append", "--json")
    older = run("import", "early", *STORE, "--session", "log", "--append", "--json")

    assert (grown.code, again.json[0]["new_events"], older.json[0]["new_events"]) == (0, 0, 0)
    assert run("export", "log", *STORE, "--format", name).out == Path("late").read_text("utf-8")


async def test_an_export_of_a_compacted_session_is_known(run: Run) -> None:
    summary = replace(LOG[-1], type="compaction", covers=Covers(first_seq=1, last_seq=7))
    async with open_store(URL.split()[1]) as store:
        await store.append("log", [*LOG, summary])
    exported = await to_thread(run, "export", "log", *STORE, "--format", "gemini")
    texts = {"before": write_transcript(LOG, format="gemini"), "after": exported.out}

    for name, text in texts.items():
        await to_thread(Path(name).write_text, text, "utf-8")
        flags = ("--session", "log", "--append", "--json")
        added = await to_thread(run, "import", name, *STORE, *flags)
        assert added.json[0]["new_events"] == 0


def coded(*names: str) -> str:
    """Return rows of Claude Code, each the child of the one before: a turn a letter, by turns."""
    rows: list[dict[str, object]] = []
    for name, parent in zip(names, (None, *names), strict=False):
        links = {"uuid": name, "parentUuid": parent}
        role = "assistant" if len(rows) % 2 else "user"
        rows.append({"type": role, **links, "message": said(role, name)})
    if names[-1] == "sum":
        boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "cut"}
        rows[-1] |= {"isCompactSummary": True, "parentUuid": "cut"}
        rows.insert(-1, {**boundary, "parentUuid": None, "logicalParentUuid": names[-2]})
    return "\n".join(map(json.dumps, rows))


def test_a_compaction_covers_the_same_in_a_rewound_session(run: Run) -> None:
    Path("before").write_text(coded("a", "b", "c", "d"), "utf-8")
    Path("after").write_text(coded("a", "b", "e", "f", "sum"), "utf-8")
    run("import", "before", *STORE, "--session", "log")
    run("sessions", "rewind", "log", "2", *STORE)

    run("import", "after", *STORE, "--session", "log", "--append")

    [*_, newest] = run("sessions", "show", "log", *STORE, "--json").json["newest"]
    assert (newest["seq"], newest["covers"]) == (8, {"first_seq": 1, "last_seq": 7})


def test_rows_are_counted_and_a_broken_file_is_refused(run: Run) -> None:
    lines = "\n".join(map(json.dumps, [*CHAT, {"role": "moon"}]))
    Path("chat.jsonl").write_text(lines, "utf-8")

    refused = run("import", "chat.jsonl", *STORE)
    shown = run("import", "chat.jsonl", *STORE, "--partial")

    assert (refused.code, "--partial" in refused.err) == (2, True)
    assert shown.out.splitlines()[-1] == "2 rows read, 1 listed."


def test_what_was_around_a_transcript_stays_with_its_session(run: Run) -> None:
    run("import", written({"model": "gpt-5.5", "messages": CHAT}), *STORE)

    [listed] = run("sessions", *STORE, "--json").json

    assert listed["metadata"]["transcript"] == {"model": "gpt-5.5"}


def test_a_session_is_rewound_forked_exported_and_goes_on(run: Run) -> None:
    run("import", written([*CHAT, *MORE[2:]]), *STORE)

    rewound = run("sessions", "rewind", "chat", "1", *STORE)
    exported = run("export", "chat", *STORE)
    forked = run("sessions", "fork", "chat", "other", "--at", "evt_3", *STORE, "--json")
    again = run(
        "import", written([CHAT[0], said("assistant", "Hey.")]), *STORE, "--append", "--json"
    )

    assert rewound.out == "chat goes on from event 1.\n"
    assert json.loads(exported.out) == CHAT[:1]
    assert (forked.json["id"], forked.json["events"]) == ("other", 3)
    assert json.loads(run("export", "other", *STORE).out) == MORE
    assert again.json[0]["new_events"] == 1
    assert json.loads(run("export", "chat", *STORE).out) == [CHAT[0], said("assistant", "Hey.")]
    for point in ("9", "evt_77", "other"):
        refused = run("sessions", "rewind", "chat", point, *STORE)
        assert (refused.code, "must be an event of session" in refused.err) == (2, True)


async def test_sessions_are_shown_deleted_and_pruned(run: Run) -> None:
    now = datetime.now(tz=UTC)
    async with open_store("sqlite:agent.db") as store:
        for name, days in (("old", 100), ("older", 200), ("fresh", 1)):
            at = now - timedelta(days=days)
            await store.create(Session(id=name, created_at=now - timedelta(days=300)))
            await store.append(name, [user_event(f"I am {name}.", created_at=at)])

    shown = await to_thread(run, "sessions", "show", "old", *STORE)
    dry = await to_thread(run, "sessions", "prune", "--older-than=90d", "--json", *STORE)
    told = await to_thread(run, "sessions", "prune", "--older-than", "150d", *STORE)
    pruned = await to_thread(
        run, "sessions", "prune", "--older-than", "150d", "--delete", "--json", *STORE
    )
    typos = [
        await to_thread(run, "sessions", "prune", f"--older-than={given}", *STORE)
        for given in ("-1d", "1000000w", "30", "d", "soon", "")
    ]
    unknown = await to_thread(run, "sessions", "delete", "old", "nobody", *STORE)
    left = await to_thread(run, "sessions", "--json", *STORE)
    deleted = await to_thread(run, "sessions", "delete", "old", "old", *STORE)

    assert "I am old." in shown.out
    assert {one["id"] for one in dry.json} == {"old", "older"}
    assert [one["id"] for one in pruned.json] == ["older"]
    assert "1 would be deleted: pass --delete." in told.out
    assert all((one.code, "--older-than 30d" in one.err) == (2, True) for one in typos)
    assert unknown.code == 2
    assert {one["id"] for one in left.json} == {"old", "fresh"}  # all of them, or none
    assert deleted.out == "1 deleted.\n"


def test_a_store_is_copied_into_another_one(run: Run) -> None:
    run("import", written(CHAT), *STORE)
    copies = "migrate", STORE[1], "sqlite:new.db"

    looked = run(*copies, "--dry-run")
    assert "2 events of 1 sessions would be copied, 0 differ." in looked.out
    assert not Path("new.db").exists()
    done = run(*copies, "--json")
    assert done.json == [{"id": "chat", "outcome": "copied", "events": 2}]
    assert json.loads(run("export", "chat", "--sessions", "sqlite:new.db").out) == CHAT

    run("sessions", "delete", "chat", *STORE)
    run("import", written(MORE), *STORE)
    refused = run(*copies)
    assert (refused.code, "chat" in refused.out) == (2, True)
    assert "0 events of 0 sessions copied, 1 differ." in refused.out
    assert json.loads(run("export", "chat", "--sessions", "sqlite:new.db").out) == CHAT
