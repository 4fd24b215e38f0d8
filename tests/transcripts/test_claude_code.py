"""Session files of Claude Code: which rows are the conversation, and what of the others is reported."""

from typing import Any

import pytest

from context_assembler import (
    Base64Source,
    Image,
    SessionEvent,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.events import Covers, Usage
from context_assembler.transcripts import ReadTranscript, read_transcript
from tests.transcripts.shapes import PIXEL, lines, text

Row = dict[str, Any]


def row(uuid: str, parent: str | None, kind: str = "user", **fields: Any) -> Row:
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", **fields}


def said(uuid: str, parent: str | None, content: Any, **fields: Any) -> Row:
    return row(uuid, parent, message={"role": "user", "content": content}, **fields)


def replied(uuid: str, parent: str | None, reply: str, block: Any, **fields: Any) -> Row:
    """Return a row of a reply; a text that begins with `c` is the id of a call."""
    if isinstance(block, str):
        call: Row = {"type": "tool_use", "id": block, "name": "f", "input": {}}
        block = call if block.startswith("c") else text(block)
    message = {"role": "assistant", "id": reply, "model": "claude-opus-5-5", "content": [block]}
    return row(uuid, parent, "assistant", message=message | fields)


def result(uuid: str, parent: str, call_id: str, content: str = "ok", **fields: Any) -> Row:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return said(uuid, parent, [block], **fields)


def boundary(uuid: str, parent: str, **metadata: Any) -> Row:
    fields = {"subtype": "compact_boundary", "compactMetadata": metadata}
    return row(uuid, None, "system", logicalParentUuid=parent, **fields)


def read(*rows: Row) -> ReadTranscript:
    return read_transcript(lines(*rows), format="claude_code")


def shown(event: SessionEvent) -> str:
    """Return an event in short: who, and what it holds."""
    words: dict[type, str] = {Text: "text", ToolCall: "call_id", ToolResult: "text"}
    parts = [getattr(part, words.get(type(part), ""), "…") for part in event.parts]
    who = {"user": "U", "assistant": "A", "tool_result": "T", "compaction": "C"}[event.type]
    return f"{who} {' '.join(parts)}"


Case = tuple[list[Row], str, str]  # rows, the events in them, what is reported
GO = said("u1", None, "go")
LEFT = "rows of abandoned branches"
C1 = replied("a1", "u1", "m1", "c1")
TASK = {"type": "task_reminder"}
CASES: dict[str, Case] = {
    "parallel calls and results, wherever their parents point": (
        [
            *[GO, C1, replied("a2", "a1", "m1", "c2"), result("r2", "a2", "c2", "two")],
            *[result("r1", "a1", "c1", "one"), replied("a4", "r1", "m2", "done")],
        ],
        "U go, A c1 c2, T two, T one, A done",
        "",
    ),
    "the last branch": (
        [
            GO,
            said("u2", "u1", "first"),
            replied("a2", "u2", "m2", "c1"),
            said("u3", "u1", "second"),
        ],
        "U go, U second",
        f"{LEFT} (2×)",
    ),
    "a call answered twice": (
        [GO, C1, result("r1", "a1", "c1", "refused"), result("r2", "a1", "c1", "allowed")],
        "U go, A c1, T allowed",
        f"{LEFT} (1×)",
    ),
    "a missing parent": ([GO, said("u2", "a1", "next")], "U go, U next", "user.parentUuid"),
    "a circle": ([said("u1", "u2", "a"), said("u2", "u1", "b")], "U a, U b", ""),
    "a cleared conversation": ([GO, said("u2", None, "new")], "U new", f"{LEFT} (1×)"),
    "rows of a sub-agent": (
        [GO, said("x1", None, "sub task", isSidechain=True), said("u2", "u1", "more")],
        "U go, U more",
        "rows of sub-agents (1×)",
    ),
    "a sub-agent's own file": ([said("x", None, "sub", isSidechain=True)], "U sub", ""),
    "a boundary without a summary": (
        [GO, boundary("b1", "u1"), said("u2", "b1", "b")],
        "U go, U b",
        "system:compact_boundary (1×)",
    ),
    "a summary of another file": (
        [boundary("b1", "x"), said("s1", "b1", "Before …", isCompactSummary=True)],
        "U Before …",
        "",
    ),
    "rows that the client shows": (
        [
            *[GO, row("p1", "u1", "progress", data={}), row("p2", "p1", "progress", data={})],
            row("t1", "p2", "attachment", attachment=TASK),
            said("u2", "t1", "on"),
        ],
        "U go, U on",
        "rows of type progress (2×), rows of type attachment:task_reminder (1×)",
    ),
    "a failed call": (
        [GO, replied("a1", "u1", "m1", "API Error") | {"isApiErrorMessage": True}],
        "U go",
        "assistant (1×)",
    ),
    "a row written twice": ([GO, GO], "U go", "repeated rows (1×)"),
    "what a skill tells": (
        [
            *[GO, C1, result("r1", "a1", "c1")],
            said("k1", "a1", "the skill", isMeta=True, sourceToolUseID="c1"),
            replied("a3", "r1", "m2", "done"),
        ],
        "U go, A c1, T ok, U the skill, A done",
        "",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_conversation_is_found_among_the_rows(case: Case) -> None:
    rows, events, issues = case

    found = read(*rows)

    assert ", ".join(map(shown, found.events)) == events
    assert ", ".join(issue.what for issue in found.issues) == issues


def test_rows_of_one_reply_are_one_event_with_its_last_figures() -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": "EqQB"}
    found = read(
        said("u1", None, "go", timestamp="2026-05-04T09:30:00.123Z"),
        replied("a1", "u1", "m1", thinking, model=None, usage={"input_tokens": 1}),
        replied("a2", "a1", "m1", "Hm.", usage={"input_tokens": 1, "output_tokens": 9}),
    )

    reply = found.events[1]
    assert reply.parts == (Thinking(provider="anthropic", block=thinking), Text("Hm."))
    assert reply.made_by
    assert (reply.made_by.model, reply.made_by.response_id) == ("claude-opus-5-5", "m1")
    assert reply.made_by.usage == Usage(input_tokens=1, output_tokens=9)
    assert [event.id for event in found.events] == ["u1", "a1"]
    assert str(found.events[0].created_at) == "2026-05-04 09:30:00.123000+00:00"


def test_a_compaction_covers_what_was_before_it_but_for_what_stayed() -> None:
    found = read(
        said("u1", None, "start"),
        said("u2", "u1", "recent"),
        replied("a2", "u2", "m1", "ready"),
        boundary("b1", "a2", preservedSegment={"headUuid": "u2", "tailUuid": "a2"}),
        said("s1", "b1", "They were ready.", isCompactSummary=True),
    )

    assert shown(found.events[3]) == "C They were ready."
    assert found.events[3].covers == Covers(first_seq=1, last_seq=3, excluded_ids=("u2", "a2"))


ATTACHMENTS: dict[str, tuple[Row, str, str]] = {
    "a prompt": ({"type": "queued_command", "prompt": "also x"}, "also x", "user"),
    "a file": (
        {"type": "file", "filename": "a.py", "content": {"file": {"content": "x"}}},
        "a.py:\nx",
        "file",
    ),
    "a folder": ({"type": "directory", "path": "src", "content": "a.py"}, "src:\na.py", "file"),
    "an edit": ({"type": "edited_text_file", "filename": "a", "snippet": "1 x"}, "a:\n1 x", "file"),
    "a hook": ({"type": "hook_additional_context", "content": ["a", "b"]}, "a\nb", "developer"),
}


@pytest.mark.parametrize(("attachment", "text", "origin"), ATTACHMENTS.values(), ids=ATTACHMENTS)
def test_attachments_tell_the_model_something(attachment: Row, text: str, origin: str) -> None:
    found = read(GO, row("t1", "u1", "attachment", attachment=attachment))

    assert (found.events[1].text, found.events[1].origin) == (text, origin)


def test_what_describes_the_session_or_a_row_is_kept() -> None:
    found = read(
        said("u1", None, "go", cwd="/src", permissionMode="plan"),
        result("r1", "u1", "c1", toolUseResult={"stdout": "ok"}),
        {"type": "ai-title", "aiTitle": "A title", "sessionId": "s"},
    )

    assert found.metadata == {"session_id": "s", "cwd": "/src", "title": "A title"}
    assert found.events[0].metadata == {"claude_code": {"permissionMode": "plan"}}
    assert [issue.what for issue in found.issues] == ["toolUseResult (1×)"]


SHOWN: Row = {"type": "base64", "media_type": "image/png", "data": PIXEL}
QUEUED: Row = {
    "type": "queued_command",
    "prompt": [text("see"), {"type": "image", "source": SHOWN}],
}
MENTIONED: Row = {
    "type": "file",
    "filename": "see",
    "content": {"type": "image", "file": {"base64": PIXEL, "type": "image/png"}},
}


@pytest.mark.parametrize("attachment", [QUEUED, MENTIONED], ids=["queued", "mentioned"])
def test_pictures_of_attachments_are_kept(attachment: Row) -> None:
    found = read(GO, row("t1", "u1", "attachment", attachment=attachment))

    text, picture = found.events[1].parts
    assert isinstance(text, Text)
    assert text.text.startswith("see")
    assert picture == Image(source=Base64Source(media_type="image/png", data=PIXEL))


def streamed(number: int, message: Row, parent: str | None = None, **fields: Any) -> Row:
    """Return a row of stream-json; `number` 0 has no uuid, as early versions wrote it."""
    named = {"uuid": f"r{number}"} if number else {}
    kind = {"type": message["role"], "message": message, "parent_tool_use_id": parent}
    return {**kind, "session_id": "s", **named, **fields}


INIT: Row = {"type": "system", "subtype": "init", "session_id": "s", "uuid": "i", "tools": ["f"]}
DONE: Row = {"type": "result", "subtype": "success", "session_id": "s", "uuid": "e", "result": "x"}
PIECE: Row = {"type": "stream_event", "session_id": "s", "uuid": "p", "event": {}}
ASKED: Row = {"role": "user", "content": "go"}


def answered(reply: str, block: str) -> Row:
    message: Row = replied("", None, reply, block)["message"]
    return message


RESULT: Row = result("", "", "c1")["message"]
STREAMS: dict[str, tuple[list[Row], str, int]] = {
    "one block a row": (
        [
            *[INIT, streamed(1, ASKED), streamed(2, answered("m1", "Hm."))],
            *[streamed(3, answered("m1", "c1")), streamed(4, RESULT)],
            *[streamed(5, answered("m2", "done")), DONE],
        ],
        "U go, A Hm. c1, T ok, A done",
        2,
    ),
    "rows without ids": (
        [INIT, streamed(0, ASKED), streamed(0, answered("m1", "done")), DONE],
        "U go, A done",
        2,
    ),
    "rows of a sub-agent between those of the session": (
        [
            *[streamed(1, ASKED), streamed(2, answered("m1", "c1"))],
            *[streamed(3, ASKED, "c1"), streamed(4, answered("m9", "inner"), "c1")],
            *[streamed(5, RESULT), streamed(6, answered("m2", "done"))],
        ],
        "U go, A c1, T ok, A done",
        2,
    ),
    "pieces of a reply": (
        [streamed(1, ASKED), PIECE, PIECE | {"uuid": "q"}, streamed(2, answered("m1", "done"))],
        "U go, A done",
        2,
    ),
}


@pytest.mark.parametrize(("rows", "events", "left"), STREAMS.values(), ids=STREAMS)
def test_stream_json_is_read_in_its_order(rows: list[Row], events: str, left: int) -> None:
    found = read_transcript(lines(*rows))

    assert ", ".join(map(shown, found.events)) == events
    assert (found.rows_listed, found.rows_read) == (left, len(rows) - left)
    assert read_transcript(rows).events == found.events  # the same as one document


def test_unknown_rows_are_listed_by_their_type() -> None:
    found = read(GO, {"type": "new-one", "uuid": "n1", "sessionId": "s"}, said("u2", "u1", "on"))

    assert [(issue.line, issue.what) for issue in found.issues] == [
        (2, "rows of type new-one (1×)")
    ]
