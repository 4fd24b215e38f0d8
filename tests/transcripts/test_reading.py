"""Reading: formats are recognised, sessions found, and what cannot be read is named."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from context_assembler import Thinking, ToolCall
from context_assembler.errors import TranscriptError, UnknownOptionError
from context_assembler.events import Provenance, Usage
from context_assembler.testing import event_log
from context_assembler.transcripts import (
    FORMATS,
    detect_format,
    read_sessions,
    read_transcript,
    write_transcript,
)
from tests.transcripts.shapes import lines, places

TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
SIGNED = {"type": "thinking", "thinking": "", "signature": "c2ln"}
SPEC: dict[str, Any] = {"name": "f", "input_schema": {}}
CLAUDE: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 1}
PIECE, RECORDED = {"type": "input_text", "text": "a"}, {"id": "a", "request": {"messages": TALK}}
LINES = lines(*TALK)
AUDIO: dict[str, Any] = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
MANY = "\n".join([LINES] * 5)

SHAPES: dict[str, tuple[Any, str]] = {
    "plain text could be anybody's": (TALK, "openai_chat"),
    "no message": ([], "openai_chat"),
    "system next to messages": ({"system": "a", "messages": TALK}, "anthropic"),
    "tools with an input schema": ({"tools": [SPEC], "messages": TALK}, "anthropic"),
    "a request for Claude": ({**CLAUDE, "messages": TALK}, "anthropic"),
    "signed thinking": ([{"role": "assistant", "content": [SIGNED]}], "anthropic"),
    "calls as OpenAI has them": ([{"role": "assistant", "tool_calls": []}], "openai_chat"),
    "audio": ([{"role": "user", "content": [AUDIO]}], "openai_chat"),
    "input": ({"input": "hi"}, "openai_responses"),
    "a reply of Responses": ({"object": "response", "output": []}, "openai_responses"),
    "an item": ([{"type": "function_call", "call_id": "c", "name": "f"}], "openai_responses"),
    "pieces of an item": ([{"role": "user", "content": [PIECE]}], "openai_responses"),
    "contents": ({"contents": [{"parts": [{"text": "hi"}]}]}, "gemini"),
    "a content": ([{"role": "model", "parts": [{"text": "hi"}]}], "gemini"),
    "a session of Gemini CLI": ({"sessionId": "s", "messages": [{"type": "user"}]}, "gemini_cli"),
    "a row of Claude Code": ({"type": "user", "uuid": "a"}, "claude_code"),
    "lines": (LINES, "openai_chat"),
}


@pytest.mark.parametrize(("source", "name"), SHAPES.values(), ids=SHAPES.keys())
def test_a_format_is_recognised_by_what_only_it_has(source: Any, name: str) -> None:
    assert detect_format(source) == name


COLLECTIONS: dict[str, tuple[Any, list[str]]] = {
    "tau-bench": ([{"task_id": 1, "trial": n, "traj": TALK} for n in range(2)], ["1-0", "1-1"]),
    "tau2": ({"simulations": [{"id": "a", "messages": TALK}], "info": {}}, ["a"]),
    "requests in a list": ([{"messages": TALK}, {"messages": TALK}], ["0", "1"]),
    "one name twice": ([{"id": "x", "messages": TALK}] * 2, ["x", "x-2"]),
    "recordings in lines": (lines(RECORDED, RECORDED), ["a", "a-2"]),
    "one recording": (RECORDED, ["a"]),
    "one list": (TALK, ["transcript"]),
    "one request": ({"messages": TALK}, ["transcript"]),
    "messages in lines": (LINES, ["transcript"]),
}


@pytest.mark.parametrize(("source", "names"), COLLECTIONS.values(), ids=COLLECTIONS.keys())
def test_every_session_is_read_with_a_name(source: Any, names: list[str]) -> None:
    sessions = read_sessions(source)

    assert [name for name, _ in sessions] == names
    assert all(len(read.events) == 2 for _, read in sessions)


def test_what_is_around_the_messages_is_kept() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]

    [(_, read)] = read_sessions([{"task_id": 1, "traj": TALK, "reward": 0.5, "tools": tools}])

    assert read.metadata == {"task_id": 1, "reward": 0.5}
    assert [tool.name for tool in read.tools] == ["f"]


@pytest.mark.parametrize(
    "tools",
    [
        {"functionDeclarations": [{"name": "f"}]},
        {"function_declarations": {"name": "f"}},
        [{"functionDeclarations": {"name": "f"}}],
        {"name": "f"},
    ],
)
@pytest.mark.parametrize("is_nested", [True, False])
def test_gemini_takes_tools_as_one_object(tools: Any, *, is_nested: bool) -> None:
    asked = {"contents": [{"role": "user", "parts": [{"text": "a"}]}]}
    request = {**asked, **({"config": {"tools": tools}} if is_nested else {"tools": tools})}

    read = read_transcript(request, format="gemini")

    assert [tool.name for tool in read.tools] == ["f"]


REFUSED: dict[str, tuple[Any, str]] = {
    "an unknown format": ({"a": 1}, "claude_code, gemini_cli, codex, pi, goose"),
    "several sessions": ([{"traj": TALK}, {"traj": TALK}], "read_sessions"),
    "nothing": (" ", "it is empty"),
    "a text": ("nowhere", "not JSON"),
    "a lone value": ("3", "it holds 3 alone"),
    "the name of a file": ("logs/session.jsonl", r"Path\(name\)"),
    "no transcript": (None, "None is not a transcript"),
    "no message that can be read": ([{"role": "tool"}, {"type": "message"}], "2 of its 2 rows"),
}


@pytest.mark.parametrize(("source", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_holds_no_session_is_refused_in_words(source: Any, says: str) -> None:
    form = "anthropic" if says == "2 of its 2 rows" else None

    with pytest.raises(TranscriptError, match=says):
        read_transcript(source, format=form)


def test_a_format_and_a_file_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_bytes("\ufeff".encode() + json.dumps(TALK).encode())

    assert read_sessions(tmp_path / "talk.json")[0][0] == "talk.json"
    assert len(read_transcript(TALK, format="anthropic").events) == 2
    with pytest.raises(UnknownOptionError, match="Did you mean 'anthropic'"):
        read_transcript(TALK, format="antropic")
    with pytest.raises(TranscriptError, match="cannot be read"):
        read_transcript(tmp_path / "missing.json")
    with pytest.raises(TranscriptError, match=r"transcript\[1\]"):
        read_sessions([{"messages": TALK}, {"messages": [{"role": "moon"}]}])


NESTED = json.loads('{"a":' * 300 + "1" + "}" * 300)
ODD: dict[str, tuple[Any, int | None, str]] = {
    "a broken line": (f'{MANY}\n{{"role": "us', 11, "is not JSON"),
    "an unknown role in a line": (f'{MANY}\n{{"role": "moon"}}', 11, "'moon'"),
    "a number that JSON does not have": (
        '[{"role": "user", "content": "a", "n": NaN}]',
        None,
        "null",
    ),
    "a long number": (
        json.dumps(TALK)[:-1] + f', {{"role": "user", "content": "a", "n": {"9" * 5000}}}]',
        None,
        "text",
    ),
    "bytes that are no text": (MANY.encode() + b"\n\xff", None, "that are not UTF-8"),
    "deep nesting": ([{"role": "user", "content": "a", "x": NESTED}], None, "200 levels"),
}


@pytest.mark.parametrize(("source", "line", "says"), ODD.values(), ids=ODD.keys())
def test_what_cannot_be_read_is_reported_and_the_rest_is_read(
    source: Any, line: int | None, says: str
) -> None:
    read = read_transcript(source)

    assert read.events
    assert any(issue.line == line and says in issue.reason for issue in read.issues), read.issues


def test_a_session_of_gemini_cli_is_read() -> None:
    response = {"functionResponse": {"name": "look", "response": {"output": "hello"}}}
    calls = [
        {"id": "c1", "name": "look", "args": {"path": "a"}, "result": [response, {"text": "more"}]},
        {"id": "c2", "name": "look", "status": "cancelled"},
        {"id": "c3", "name": "look", "status": "error", "result": [response]},
    ]
    reply = {
        "type": "gemini",
        "content": "",
        "thoughts": [{"subject": "Plan", "description": "I look."}],
        "model": "gemini-2.5-flash",
        "tokens": {"input": 100, "output": 5, "cached": 90, "thoughts": 7},
        "toolCalls": calls,
    }
    asked = {"id": "1", "timestamp": "2026-01-10T04:08:26+02:00", "type": "user", "content": "go"}
    messages = [asked, {"type": "info", "content": "Update."}, reply]

    read = read_transcript(json.dumps({"sessionId": "s1", "messages": messages}))

    asking, answer, first, third = read.events
    usage = Usage(input_tokens=100, output_tokens=12, cache_read_tokens=90, reasoning_tokens=7)
    assert (asking.id, str(asking.created_at)) == ("1", "2026-01-10 02:08:26+00:00")
    assert answer.parts[0] == Thinking(text="Plan\nI look.", provider="gemini")
    assert answer.parts[1] == ToolCall(call_id="c1", name="look", arguments={"path": "a"})
    assert answer.made_by == Provenance(provider="gemini", model="gemini-2.5-flash", usage=usage)
    assert (first.text, getattr(third.parts[0], "is_error", False)) == ("hello\nmore", True)
    assert (read.metadata, read.issues[0].what) == (
        {"sessionId": "s1"},
        "messages of type info (1×)",
    )


BROKEN: list[Any] = ['{"c": "/ho', "rm", [1, 2], 7]


@pytest.mark.parametrize("given", BROKEN, ids=str)
def test_arguments_of_gemini_cli_that_are_no_object_stay(given: Any) -> None:
    call = {"id": "c1", "name": "f", "args": given, "status": "cancelled"}
    reply = {"type": "gemini", "content": "", "toolCalls": [call]}

    read = read_transcript({"sessionId": "s", "messages": [reply]})

    [kept] = read.events[0].parts
    said = given if isinstance(given, str) else json.dumps(given, separators=(",", ":"))
    assert kept == ToolCall(call_id="c1", name="f", arguments_json=said)
    assert any("not a JSON object" in issue.reason for issue in read.issues)


def said_to_gemini(number: int, text: str, **fields: Any) -> dict[str, Any]:
    kind = "gemini" if number % 2 == 0 else "user"
    return {"id": f"{number}", "type": kind, "content": text, **fields}


HEAD = {"sessionId": "s", "projectHash": "h", "kind": "main"}
ONE, TWO, THREE = (said_to_gemini(number, text) for number, text in ((1, "a"), (2, "b"), (3, "c")))
GROWING: dict[str, tuple[list[Any], str, int]] = {
    "messages in their order": ([HEAD, ONE, TWO, THREE], "a b c", 0),
    "a message that was completed": ([HEAD, ONE, TWO | {"content": ""}, THREE, TWO], "a b c", 1),
    "rewound": ([HEAD, ONE, TWO, THREE, {"$rewindTo": "2"}, said_to_gemini(5, "d")], "a d", 2),
    "rewound to nowhere": ([HEAD, ONE, {"$rewindTo": "9"}, TWO], "b", 1),
    "all messages replaced": ([HEAD, ONE, {"$set": {"messages": [THREE]}}, TWO], "c b", 1),
    "what describes the session": ([HEAD, ONE, {"$set": {"summary": "x"}}, TWO], "a b", 0),
    "an old session on one line": ([HEAD | {"messages": [ONE, TWO]}], "a b", 0),
    "a word of the client": ([HEAD, ONE, TWO | {"type": "info"}], "a", 1),
}


@pytest.mark.parametrize(("rows", "texts", "left"), GROWING.values(), ids=GROWING)
def test_lines_of_gemini_cli_count_as_it_counts_them(
    rows: list[Any], texts: str, left: int
) -> None:
    read = read_transcript(lines(*rows))

    assert " ".join(event.text for event in read.events) == texts
    assert (read.format, read.rows_listed) == ("gemini_cli", left)
    assert (read.metadata or {})["projectHash"] == "h"


WRITTEN = [name for name, known in FORMATS.items() if known.write]
SESSION = event_log("S Be brief.", "U Look.", 'A[c1:look {"q": "a"}] So.', "T[c1] found")


@pytest.mark.parametrize("kind", [{"a": 1}, ["a"], 7, None], ids=str)
@pytest.mark.parametrize("name", [*WRITTEN, "claude_code"])
def test_a_value_of_another_kind_is_read_or_refused_in_words(name: str, kind: Any) -> None:
    whole = json.loads(write_transcript(SESSION, format="anthropic" if "_code" in name else name))
    if name == "claude_code":
        whole = [
            {
                "type": message["role"],
                "uuid": f"u{at}",
                "parentUuid": f"u{at - 1}",
                "isMeta": at == 0,
            }
            | {"sessionId": "s", "timestamp": "2026-05-04T09:30:00Z", "message": message}
            for at, message in enumerate(whole["messages"])
        ]

    for *path, last in places(whole):
        changed: Any = deepcopy(whole)
        holder: Any = changed
        for key in path:
            holder = holder[key]
        holder[last] = kind
        for form in (name, None):
            try:
                read = read_sessions(changed, format=form)
            except TranscriptError:
                continue
            assert all(one.events for _, one in read), (path, last)
