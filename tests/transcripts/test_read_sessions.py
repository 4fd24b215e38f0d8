"""Files with one session, and with many."""

import json
from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import TranscriptError, UnknownOptionError
from context_assembler.transcripts import detect_transcript, read_sessions, read_transcript

TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]

COLLECTIONS: dict[str, tuple[Any, list[str]]] = {
    "tau-bench": (
        [{"task_id": 1, "trial": 0, "traj": TALK}, {"task_id": 1, "trial": 1, "traj": TALK}],
        ["1-0", "1-1"],
    ),
    "tau2": ({"simulations": [{"id": "a", "messages": TALK}], "info": {}}, ["a"]),
    "requests in a list": ([{"messages": TALK}, {"messages": TALK}], ["0", "1"]),
    "one name twice": (
        [{"id": "x", "messages": TALK}, {"id": "x", "messages": TALK}],
        ["x", "x-2"],
    ),
    "recordings in lines": (
        "\n".join(json.dumps({"id": name, "request": {"messages": TALK}}) for name in "ab"),
        ["a", "b"],
    ),
    "one recording": ({"id": "a", "request": {"messages": TALK}}, ["a"]),
    "one list": (TALK, ["transcript"]),
    "one request": ({"messages": TALK}, ["transcript"]),
    "messages in lines": ("\n".join(map(json.dumps, TALK)), ["transcript"]),
}


@pytest.mark.parametrize(("source", "names"), COLLECTIONS.values(), ids=COLLECTIONS.keys())
def test_every_session_is_read_with_a_name(source: Any, names: list[str]) -> None:
    sessions = read_sessions(source)

    assert [name for name, _ in sessions] == names
    assert all(len(read.events) == 2 for _, read in sessions)


def test_what_stood_beside_the_messages_is_metadata() -> None:
    (_, read), *_ = read_sessions([{"task_id": 1, "traj": TALK, "reward": 0.5}])

    assert read.metadata == {"task_id": 1, "reward": 0.5}


def test_a_path_is_read_and_named_in_errors(tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_text(json.dumps(TALK))
    (tmp_path / "bad.json").write_text("{}")

    assert len(read_transcript(tmp_path / "talk.json").events) == 2
    assert read_sessions(tmp_path / "talk.json")[0][0] == "talk.json"
    with pytest.raises(TranscriptError, match=r"bad\.json"):
        read_transcript(tmp_path / "bad.json")
    with pytest.raises(TranscriptError, match="cannot be read"):
        read_transcript(tmp_path / "missing.json")


def test_a_format_can_be_named() -> None:
    assert len(read_transcript(TALK, format="anthropic").events) == 2
    with pytest.raises(UnknownOptionError, match="Did you mean 'anthropic'"):
        read_transcript(TALK, format="antropic")


def test_several_sessions_are_refused_where_one_is_asked_for() -> None:
    with pytest.raises(TranscriptError, match="read_sessions"):
        read_transcript([{"traj": TALK}, {"traj": TALK}])


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(TranscriptError, match="claude_code, openai_responses, gemini, anthropic"):
        detect_transcript({"a": 1})


def test_a_bad_session_is_named() -> None:
    with pytest.raises(TranscriptError, match=r"transcript\[1\]"):
        read_sessions([{"messages": TALK}, {"messages": [{"role": "moon"}]}])


@pytest.mark.parametrize("path", ["session.jsonl", "logs/Session.JSON", "there"])
def test_a_path_given_as_text_is_recognised(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").write_text("[]", encoding="utf-8")

    with pytest.raises(TranscriptError, match="names a file") as caught:
        read_transcript(path)

    assert caught.value.remedy == f"Pass Path({path!r}) to read the file."


@pytest.mark.parametrize("text", ["nowhere", "x" * 600, "x" * 5_000 + ".json", "half a {.json"])
def test_other_text_is_said_not_to_be_json(text: str) -> None:
    with pytest.raises(TranscriptError, match="not JSON"):
        read_transcript(text)
