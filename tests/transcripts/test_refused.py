"""A format is recognised by what it requires; what no reader knows, or two do, is refused by name."""

from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import TranscriptError
from context_assembler.transcripts import read_sessions, read_transcript
from tests.transcripts.shapes import lines

USER, REPLY = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}
TALK = [USER, REPLY]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED = {"role": "assistant", "tool_calls": [CALL]}
BLOCK = {"type": "tool_result", "tool_use_id": "c1", "content": "x"}
ODD_BLOCK = {"role": "assistant", "content": [{"type": "quantum_block"}]}
ROW = {"type": "user", "uuid": "a", "parentUuid": None, "sessionId": "s"}
HEAD = {"sessionId": "s", "projectHash": "h"}


UNKNOWN: dict[str, Any] = {
    "a role that is not text": {"messages": [{"role": []}]},
    "messages of nobody with parts": [
        {"sort": "request", "parts": [{"part_kind": "user-prompt", "content": "list files"}]},
        {"sort": "response", "parts": [{"part_kind": "text", "content": "Done."}]},
    ],
    "an export of ChatGPT": [{"title": "t", "mapping": {"a": {"message": {"author": {}}}}}],
    "turns of a data set": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yes"}],
    "requests of a batch": lines({"custom_id": "a", "body": {"messages": TALK}}),
    "a log": lines({"level": "info", "msg": "x"}, {"level": "warn", "msg": "y"}),
    "calls of JSON-RPC": lines({"jsonrpc": "2.0", "id": 1, "method": "initialize"}),
    "texts": ["hi", "there"],
    "a list in a list": [TALK],
    "the whole reply of Chat": {"object": "chat.completion", "choices": [{"message": REPLY}]},
    "the outcome of a run alone": {"type": "result", "session_id": "s", "result": "x"},
    "prompts without replies": lines({"display": "hi", "timestamp": 1, "sessionId": "s"}),
}


@pytest.mark.parametrize("document", UNKNOWN.values(), ids=UNKNOWN)
def test_what_no_reader_knows_is_refused(document: object) -> None:
    with pytest.raises(TranscriptError, match=r"format is unknown.*Known formats: claude_code"):
        read_transcript(document)


MIXED: dict[str, tuple[Any, str]] = {
    "Chat and Anthropic": ([USER, CALLED, {"role": "user", "content": [BLOCK]}], "anthropic"),
    "Chat and Gemini": ([USER, {"role": "model", "parts": [{"text": "x"}]}], "gemini"),
    "Responses and Gemini": ({"input": [{"role": "model", "parts": [{"text": "x"}]}]}, "gemini"),
}


@pytest.mark.parametrize(("document", "near"), MIXED.values(), ids=MIXED)
def test_rows_of_two_formats_are_refused_and_the_nearest_named(document: Any, near: str) -> None:
    with pytest.raises(TranscriptError, match=rf"nearest: .*{near} \(\d of \d rows\)"):
        read_transcript(document)


DOCUMENTS: dict[str, Any] = {
    "a list": TALK,
    "a list of results": [{"role": "user", "content": [BLOCK]}],
    "a request": {"model": "m", "messages": TALK},
    "a request of Responses": {"input": TALK},
    "a request of Gemini": {"contents": [{"parts": [{"text": "x"}]}]},
    "a session of Gemini CLI": HEAD | {"messages": [{"type": "user", "content": "hi"}]},
    "an export of goose": {"conversation": [USER | {"created": 1}]},
    "simulations": {"simulations": [{"messages": TALK}]},
    "a state of LangGraph": {"values": {"messages": [USER]}, "next": []},
    "a checkpoint": {"checkpoint": {"channel_values": {"messages": [USER]}}},
    "a reply in its record": {"custom_id": "a", "response": {"body": {"choices": [{"index": 0}]}}},
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
@pytest.mark.parametrize("row", [USER, ROW | {"message": USER}], ids=["chat", "claude_code"])
@pytest.mark.parametrize("place", [0, 20])
def test_a_document_on_a_line_among_rows_is_refused(document: Any, row: Any, place: int) -> None:
    rows = [row | {"uuid": f"{at}"} if "uuid" in row else row for at in range(20)]
    rows.insert(place, document)

    with pytest.raises(TranscriptError, match=rf":{place + 1}: .*holds messages|format is"):
        read_transcript(lines(*rows))


DAMAGED: dict[str, tuple[str, int | None]] = {
    "a line that was cut off": (lines(*TALK) + '\n{"role": "us', 3),
    "null": (lines(USER, None, REPLY), 2),
    "a block that nobody knows": (lines(USER, ODD_BLOCK), 2),
    "a role that nobody has": (lines(*TALK, {"role": "moon", "content": "x"}), 3),
    "a row without its message": (lines(ROW | {"message": USER}, ROW | {"uuid": "b"}), 2),
    "a message that is a text": (lines(ROW | {"message": USER}, ROW | {"message": "hi"}), None),
    "content that is a number": (lines(HEAD, {"id": "1", "type": "user", "content": 7}), 2),
}


@pytest.mark.parametrize(("text", "line"), DAMAGED.values(), ids=DAMAGED)
def test_a_file_of_which_more_than_a_tenth_is_damaged_is_refused(
    text: str, line: int | None
) -> None:
    rows = text.count("\n") + 1
    if line is None:  # a repeated row is known, not damaged
        assert read_transcript(text).rows_listed == 1
        return

    with pytest.raises(TranscriptError, match=rf":{line}: .*partial=True") as caught:
        read_transcript(text)
    partial = read_transcript(text, partial=True) if rows > 2 else None

    assert f"1 of its {rows} rows" in str(caught.value)
    assert partial is None or partial.rows_read + partial.rows_listed == rows


def test_a_tenth_may_be_damaged() -> None:
    read = read_transcript(lines(*TALK * 5, {"role": "moon"}))

    assert (read.rows_read, read.rows_listed, read.format) == (10, 1, "openai_chat")
    assert [(issue.line, issue.what) for issue in read.issues] == [(11, "messages[10]")]


def test_recorded_sessions_are_read_to_the_last_row(corpus: Path) -> None:
    folders = ("claude_code", "gemini_cli", "tau2", "tau_bench")
    files = [
        path for name in folders for path in sorted((corpus / "trajectories" / name).rglob("*.*"))
    ]

    for path in files:
        for name, read in read_sessions(path):
            text = path.read_text("utf-8")
            is_lines = path.suffix == ".jsonl"
            total = sum(1 for line in text.split("\n") if line.strip()) if is_lines else None
            assert total in (None, read.rows_read + read.rows_listed), (path, name)


HANDED: dict[str, tuple[str, int, int, str]] = {
    "cc_queued_image.jsonl": (
        "claude_code",
        6,
        0,
        "user assistant tool_result user assistant user",
    ),
    "cc_stream_json.jsonl": ("claude_code", 5, 2, "user assistant tool_result assistant"),
    "refused_gemini_cli_2026.jsonl": ("gemini_cli", 5, 0, "user assistant tool_result assistant"),
    "an_mcp.json": ("anthropic", 3, 0, "user assistant user"),
    "oa_item_reference.json": ("openai_responses", 3, 0, "user tool_result user"),
}


@pytest.mark.parametrize("file", HANDED)
def test_handed_files_are_read_with_every_row_counted(corpus: Path, file: str) -> None:
    path = corpus.parent / "cases" / "second" / file
    if not path.is_file():
        pytest.skip("the handed inputs are not next to the corpus")
    name, rows_read, rows_listed, types = HANDED[file]

    read = read_transcript(path)

    assert (read.format, read.rows_read, read.rows_listed) == (name, rows_read, rows_listed)
    assert " ".join(event.type for event in read.events) == types


KEPT_ELSEWHERE: dict[str, Any] = {
    "previous_response_id": {"previous_response_id": "resp_1", "input": "hi"},
    "conversation": {"conversation": "conv_1", "input": [USER]},
    "container": {"system": "s", "container": "c_1", "messages": [USER]},
    "mcp_servers": {"system": "s", "mcp_servers": [{"name": "wiki"}], "messages": [USER]},
}


@pytest.mark.parametrize("name", KEPT_ELSEWHERE)
def test_what_a_request_leaves_to_the_provider_is_named(name: str) -> None:
    read = read_transcript(KEPT_ELSEWHERE[name])

    assert [issue.what for issue in read.issues] == [name]
    assert (read.metadata or {})[name] == KEPT_ELSEWHERE[name][name]


GROWN: list[Any] = [
    HEAD,
    {"id": "1", "type": "user", "content": [{"text": "go"}], "timestamp": "2026-05-01T00:00:00Z"},
    {
        "id": "2",
        "type": "gemini",
        "content": "so",
        "model": "gemini-2.5-pro",
        "thoughts": [{"subject": "a", "description": "b"}],
        "tokens": {"input": 1, "output": 2},
        "toolCalls": [{"id": "c", "name": "f", "args": {}, "result": [{"text": "x"}]}],
    },
    {"$set": {"messages": [{"id": "4", "type": "user", "content": "on"}]}},
    {"$rewindTo": "9"},
]
STREAMED: list[Any] = [
    {"type": "system", "subtype": "init", "session_id": "s", "uuid": "i"},
    {"type": "user", "message": USER, "session_id": "s", "uuid": "1", "parent_tool_use_id": None},
    {"type": "assistant", "message": REPLY | {"id": "m", "usage": {}}, "session_id": "s"},
    ROW | {"type": "attachment", "attachment": {"type": "file", "content": {"file": {}}}},
]


@pytest.mark.parametrize("rows", [GROWN, STREAMED], ids=["gemini_cli", "claude_code"])
@pytest.mark.parametrize("kind", [{"a": 1}, ["a"], 7, None, ""], ids=str)
def test_any_one_damaged_value_is_read_listed_or_refused(rows: list[Any], kind: Any) -> None:
    for at, row in enumerate(rows):
        for key in row:
            for damaged in ({**row, key: kind}, {k: row[k] for k in row if k != key}):
                try:
                    read = read_transcript(lines(*rows[:at], damaged, *rows[at + 1 :]))
                except TranscriptError:
                    continue
                assert read.rows_read + read.rows_listed == len(rows), (at, key)
