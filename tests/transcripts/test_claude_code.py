"""Claude Code's session files as events."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from context_assembler.errors import TranscriptError
from context_assembler.ports import ReadTranscript
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    Container,
    Provenance,
    SessionEvent,
    SystemBody,
    ToolResultBody,
    Usage,
    UserBody,
)
from context_assembler.values.parts import Text, Thinking, ToolCall

CLAUDE_CODE = TRANSCRIPTS["claude_code"]
Row = dict[str, Any]


def row(uuid: str, parent: str | None, kind: str = "user", **fields: Any) -> Row:
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", **fields}


def said(uuid: str, parent: str | None, content: Any, **fields: Any) -> Row:
    return row(uuid, parent, message={"role": "user", "content": content}, **fields)


def replied(uuid: str, parent: str | None, reply: str, block: Row, **fields: Any) -> Row:
    message = {"role": "assistant", "id": reply, "model": "claude-opus-5-5", "content": [block]}
    return row(uuid, parent, "assistant", message=message | fields)


def text(value: str) -> Row:
    return {"type": "text", "text": value}


def calling(call_id: str) -> Row:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def result(uuid: str, parent: str, call_id: str, content: str = "ok", **fields: Any) -> Row:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return said(uuid, parent, [block], **fields)


def read(*rows: Row) -> ReadTranscript:
    return CLAUDE_CODE.read("\n".join(json.dumps(entry) for entry in rows))


def shown(transcript: ReadTranscript) -> list[str]:
    """Each event as its type and what it holds, in short."""
    lines: list[str] = []
    for event in transcript.events:
        match event.body:
            case UserBody(parts=parts) | SystemBody(parts=parts) | AssistantBody(parts=parts):
                held = [part.text if isinstance(part, Text) else _short(part) for part in parts]
                lines.append(f"{event.type}: {' '.join(held)}")
            case ToolResultBody(result=found):
                lines.append(f"result {found.call_id}: {found.text}")
            case other:
                lines.append(event.type + repr(other)[:0])
    return lines


def _short(part: Any) -> str:
    return f"call {part.call_id}" if isinstance(part, ToolCall) else type(part).__name__


def issues(transcript: ReadTranscript) -> list[str]:
    return [issue.what for issue in transcript.issues]


def test_rows_of_one_reply_are_one_event_in_their_order() -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": "EqQB"}
    usage = {"input_tokens": 1, "output_tokens": 1}
    transcript = read(
        said("u1", None, "go", timestamp="2026-05-04T09:30:00.123Z"),
        replied("a1", "u1", "m1", thinking, usage=usage),
        replied("a2", "a1", "m1", text("I look."), usage=usage),
        replied(
            "a3",
            "a2",
            "m1",
            calling("c1"),
            usage=usage | {"output_tokens": 9},
            stop_reason="tool_use",
        ),
        result("u2", "a3", "c1"),
        replied("a4", "u2", "m1", text("and more")),
    )

    assert shown(transcript) == [
        "user: go",
        "assistant: Thinking I look. call c1 and more",
        "result c1: ok",
    ]
    reply = transcript.events[1]
    assert isinstance(reply.body, AssistantBody)
    assert reply.body.parts[0] == Thinking(provider="anthropic", block=thinking)
    assert reply.body.made_by == Provenance(
        provider="anthropic",
        model="claude-opus-5-5",
        response_id="m1",
        stop_reason="tool_use",
        usage=Usage(input_tokens=1, output_tokens=9),
    )
    assert [event.id for event in transcript.events] == ["u1", "a1", "u2"]
    assert transcript.events[0].created_at == datetime(2026, 5, 4, 9, 30, 0, 123000, tzinfo=UTC)


def test_parallel_calls_and_results_stay_together_wherever_their_parents_point() -> None:
    transcript = read(
        said("u1", None, "go"),
        replied("a1", "u1", "m1", calling("c1")),
        replied("a2", "a1", "m1", calling("c2")),
        replied("a3", "a2", "m1", calling("c3")),
        result("r2", "a2", "c2"),
        result("r1", "a1", "c1"),
        replied("a4", "r1", "m2", text("done")),
        result("r3", "a3", "c3"),
        said("u2", "a4", "thanks"),
    )

    assert shown(transcript) == [
        "user: go",
        "assistant: call c1 call c2 call c3",
        "result c2: ok",
        "result c1: ok",
        "assistant: done",
        "result c3: ok",
        "user: thanks",
    ]
    assert issues(transcript) == []


def test_the_last_branch_is_followed_and_the_others_are_reported() -> None:
    transcript = read(
        said("u1", None, "start"),
        replied("a1", "u1", "m1", text("ready")),
        said("u2", "a1", "first wording"),
        replied("a2", "u2", "m2", calling("c1")),
        result("r1", "a2", "c1"),
        said("u3", "a1", "second wording"),
        replied("a3", "u3", "m3", text("done")),
    )

    assert shown(transcript) == [
        "user: start",
        "assistant: ready",
        "user: second wording",
        "assistant: done",
    ]
    assert issues(transcript) == ["rows of abandoned branches (3×)"]
    assert transcript.issues[0].line == 3


def test_a_call_answered_twice_keeps_the_answer_on_the_branch() -> None:
    transcript = read(
        said("u1", None, "go"),
        replied("a1", "u1", "m1", calling("c1")),
        result("r1", "a1", "c1", "refused"),
        result("r2", "a1", "c1", "allowed"),
        replied("a2", "r2", "m2", text("done")),
    )

    assert shown(transcript)[2] == "result c1: allowed"
    assert issues(transcript) == ["rows of abandoned branches (1×)"]


def test_a_missing_parent_does_not_cut_off_what_was_before() -> None:
    lines = [
        json.dumps(said("u1", None, "start")),
        '{"type":"assistant","uuid":"a1","parentUu',
        json.dumps(said("u2", "a1", "next")),
    ]

    transcript = CLAUDE_CODE.read("\n".join(lines))

    assert shown(transcript) == ["user: start", "user: next"]
    assert [(issue.line, issue.what) for issue in transcript.issues] == [
        (2, "line"),
        (3, "user.parentUuid"),
    ]


def test_rows_that_point_in_a_circle_end_somewhere() -> None:
    transcript = read(said("u1", "u2", "a"), said("u2", "u1", "b"))

    assert shown(transcript) == ["user: a", "user: b"]


def test_a_cleared_conversation_begins_anew() -> None:
    transcript = read(
        said("u1", None, "old"), said("u2", None, "new"), replied("a1", "u2", "m", text("ok"))
    )

    assert shown(transcript) == ["user: new", "assistant: ok"]
    assert issues(transcript) == ["rows of abandoned branches (1×)"]


def boundary(uuid: str, parent: str, **metadata: Any) -> Row:
    return row(
        uuid,
        None,
        "system",
        subtype="compact_boundary",
        logicalParentUuid=parent,
        compactMetadata=metadata,
    )


def test_a_compaction_covers_what_was_before_it() -> None:
    transcript = read(
        said("u1", None, "start"),
        replied("a1", "u1", "m1", text("ready")),
        boundary("b1", "a1"),
        said("s1", "b1", "They were ready.", isCompactSummary=True),
        said("u2", "s1", "go on"),
    )

    assert [event.type for event in transcript.events] == [
        "user",
        "assistant",
        "compaction",
        "user",
    ]
    assert transcript.events[2].body == CompactionBody(
        summary="They were ready.", first_seq=1, last_seq=2
    )
    assert issues(transcript) == []


def test_what_a_compaction_left_standing_is_excluded() -> None:
    segment = {"headUuid": "u2", "anchorUuid": "s1", "tailUuid": "a2"}
    transcript = read(
        said("u1", None, "start"),
        said("u2", "u1", "recent"),
        replied("a2", "u2", "m1", text("ready")),
        boundary("b1", "a2", preservedSegment=segment),
        said("s1", "b1", [text("They were ready.")], isCompactSummary=True),
    )

    assert transcript.events[3].body == CompactionBody(
        summary="They were ready.", first_seq=1, last_seq=3, excluded_ids=("u2", "a2")
    )


def test_a_summary_of_another_file_is_what_the_user_said() -> None:
    transcript = read(
        boundary("b1", "elsewhere"), said("s1", "b1", "Before …", isCompactSummary=True)
    )

    assert shown(transcript) == ["user: Before …"]
    assert transcript.events[0].metadata["claude_code"]["isCompactSummary"] is True


def test_a_boundary_without_summary_is_reported() -> None:
    transcript = read(said("u1", None, "a"), boundary("b1", "u1"), said("u2", "b1", "b"))

    assert shown(transcript) == ["user: a", "user: b"]
    assert issues(transcript) == ["system:compact_boundary"]


def test_rows_of_sub_agents_are_left_to_their_own_files() -> None:
    transcript = read(
        said("u1", None, "go"),
        said("x1", None, "sub task", isSidechain=True),
        said("u2", "u1", "more"),
    )

    assert shown(transcript) == ["user: go", "user: more"]
    assert issues(transcript) == ["rows of sub-agents (1×)"]


def test_a_sub_agent_s_own_file_is_its_session() -> None:
    transcript = read(said("x1", None, "sub task", isSidechain=True, agentId="k"))

    assert shown(transcript) == ["user: sub task"]
    assert transcript.metadata == {"session_id": "s", "agent_id": "k"}


def test_text_of_the_client_and_of_local_commands_is_kept() -> None:
    transcript = read(
        said("u1", None, "<local-command-caveat>…", isMeta=True),
        said("u2", "u1", "<local-command-stdout>Bye!</local-command-stdout>"),
        row("l1", "u2", "system", subtype="local_command", content="<command-name>/x"),
        said("u3", "l1", "go"),
        replied("a1", "u3", "m1", calling("c1")),
        replied("a2", "a1", "m1", calling("c2")),
        result("r1", "a1", "c1"),
        said("k1", "r1", "the skill's text", isMeta=True, sourceToolUseID="c1"),
        result("r2", "a2", "c2"),
        replied("a3", "r2", "m2", text("done")),
    )

    assert shown(transcript) == [
        "user: <local-command-caveat>…",
        "user: <local-command-stdout>Bye!</local-command-stdout>",
        "user: <command-name>/x",
        "user: go",
        "assistant: call c1 call c2",
        "result c1: ok",
        "user: the skill's text",
        "result c2: ok",
        "assistant: done",
    ]
    assert [event.origin for event in transcript.events[:2]] == ["developer", "user"]


ATTACHMENTS: dict[str, tuple[Row, str, str]] = {
    "a prompt that waited": ({"type": "queued_command", "prompt": "also x"}, "also x", "user"),
    "a prompt that waited, in blocks": (
        {"type": "queued_command", "prompt": [text("also x"), text("and y")]},
        "also x\nand y",
        "user",
    ),
    "a file": (
        {"type": "file", "filename": "a.py", "content": {"type": "text", "file": {"content": "x"}}},
        "a.py:\nx",
        "file",
    ),
    "a file of plain content": ({"type": "file", "content": "x"}, "x", "file"),
    "a folder": ({"type": "directory", "path": "src", "content": "a.py"}, "src:\na.py", "file"),
    "an edited file": (
        {"type": "edited_text_file", "filename": "a.py", "snippet": "1 x"},
        "a.py:\n1 x",
        "file",
    ),
    "what a hook adds": (
        {"type": "hook_additional_context", "content": ["be", "brief"]},
        "be\nbrief",
        "developer",
    ),
}


@pytest.mark.parametrize(
    ("attachment", "said_text", "origin"), ATTACHMENTS.values(), ids=ATTACHMENTS.keys()
)
def test_attachments_that_tell_the_model_something_are_kept(
    attachment: Row, said_text: str, origin: str
) -> None:
    transcript = read(said("u1", None, "go"), row("t1", "u1", "attachment", attachment=attachment))

    assert shown(transcript) == ["user: go", f"user: {said_text}"]
    assert transcript.events[1].origin == origin


def test_rows_without_a_place_are_counted_by_kind() -> None:
    transcript = read(
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        said("u1", None, "go"),
        row("p1", "u1", "progress", data={}),
        row("p2", "p1", "progress", data={}),
        row("t1", "p2", "attachment", attachment={"type": "task_reminder"}),
        row("t2", "t1", "attachment", attachment={"type": "queued_command"}),
        {"type": "hologram", "sessionId": "s"},
        said("u2", "t2", "on"),
    )

    assert issues(transcript) == [
        "rows of type file-history-snapshot (1×)",
        "rows of type progress (2×)",
        "rows of type attachment:task_reminder (1×)",
        "rows of type attachment:queued_command (1×)",
        "rows of type hologram (1×)",
    ]
    assert [issue.line for issue in transcript.issues] == [1, 3, 5, 6, 7]
    assert shown(transcript) == ["user: go", "user: on"]


def test_titles_and_places_describe_the_session() -> None:
    transcript = read(
        said("u1", None, "go", cwd="/src", version="2.1", gitBranch="main"),
        {"type": "summary", "summary": "Old title", "leafUuid": "u1"},
        {"type": "ai-title", "aiTitle": "New title", "sessionId": "s"},
    )

    assert transcript.metadata == {
        "session_id": "s",
        "cwd": "/src",
        "version": "2.1",
        "git_branch": "main",
        "title": "New title",
    }


def test_failed_calls_are_reported_and_clients_words_are_nobody_s_model() -> None:
    error = replied("a1", "u1", "m1", text("API Error: 529")) | {"isApiErrorMessage": True}
    transcript = read(
        said("u1", None, "go"),
        error,
        replied("a2", "a1", "m2", text("No response requested."), model="<synthetic>"),
    )

    assert shown(transcript) == ["user: go", "assistant: No response requested."]
    assert isinstance(body := transcript.events[1].body, AssistantBody)
    assert body.made_by is None
    assert "API Error: 529" in transcript.issues[0].reason


def test_a_reply_without_id_is_one_of_its_own() -> None:
    transcript = read(
        said("u1", None, "go"),
        replied("a1", "u1", "", text("one")),
        replied("a2", "a1", "", text("two")),
    )

    assert shown(transcript) == ["user: go", "assistant: one", "assistant: two"]


def test_a_reply_whose_first_row_names_no_model_takes_it_from_the_next() -> None:
    transcript = read(
        said("u1", None, "go"),
        replied("a1", "u1", "m1", text("one"), model=None),
        replied("a2", "a1", "m1", text("two")),
    )

    assert isinstance(body := transcript.events[1].body, AssistantBody)
    assert body.made_by is not None
    assert body.made_by.model == "claude-opus-5-5"


def test_fields_without_a_place_are_kept_as_metadata_or_counted() -> None:
    transcript = read(
        said("u1", None, "go", permissionMode="plan", todos=[]),
        replied(
            "a1",
            "u1",
            "m1",
            calling("c1") | {"caller": {"type": "direct"}},
            container={"id": "k"},
            usage={"input_tokens": 1, "speed": "fast"},
        ),
        result("r1", "a1", "c1", toolUseResult={"stdout": "ok"}),
    )

    assert transcript.events[0].metadata == {"claude_code": {"permissionMode": "plan", "todos": []}}
    assert transcript.events[1].metadata == {"claude_code": {"message": {"container": {"id": "k"}}}}
    assert issues(transcript) == ["usage.speed (1×)", "toolUseResult (1×)"]
    assert transcript.events[1].tool_calls[0].extras == {
        "anthropic": {"caller": {"type": "direct"}}
    }


def test_several_results_in_one_row_have_ids_of_their_own() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": call_id, "content": "ok"} for call_id in ("c1", "c2")
    ]
    transcript = read(said("u1", None, [*blocks, text("and")]))

    assert [event.id for event in transcript.events] == ["u1", "u1#2", "u1#3"]


def test_a_row_written_twice_is_read_once() -> None:
    transcript = read(said("u1", None, "go"), said("u1", None, "go"), said("u2", "u1", "on"))

    assert shown(transcript) == ["user: go", "user: on"]
    assert issues(transcript) == ["repeated rows (1×)"]


def test_lines_that_are_no_rows_are_reported() -> None:
    text_of = "\n".join(['"x"', json.dumps(said("u1", None, "go")), "\0\0\0", "{"])

    transcript = CLAUDE_CODE.read(text_of)

    assert shown(transcript) == ["user: go"]
    assert [issue.line for issue in transcript.issues] == [3, 4, 1]


def test_rows_without_ids_are_read_in_order() -> None:
    rows = [
        {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "a"}},
        {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "b"}},
    ]

    transcript = CLAUDE_CODE.read(rows)

    assert shown(transcript) == ["user: a", "user: b"]
    assert [event.id for event in transcript.events] == ["", ""]


def test_a_single_row_is_a_session() -> None:
    assert shown(CLAUDE_CODE.read(said("u1", None, "go"))) == ["user: go"]


@pytest.mark.parametrize("moment", ["soon", "2026-05-04T09:30:00", 5, None])
def test_a_time_that_nobody_knows_stays_unknown(moment: Any) -> None:
    assert read(said("u1", None, "go", timestamp=moment)).events[0].created_at is None


def test_messages_of_another_format_are_refused() -> None:
    with pytest.raises(TranscriptError, match="no line is a row"):
        CLAUDE_CODE.read([{"role": "user", "content": "hi"}])


def test_what_is_written_can_be_read_by_its_maker_and_keeps_provenance() -> None:
    made_by = Provenance(
        provider="anthropic",
        model="claude-opus-5-5",
        response_id="msg_1",
        stop_reason="end_turn",
        container=Container(id="k", expires_at=datetime(2026, 5, 5, tzinfo=UTC)),
        usage=Usage(input_tokens=10, output_tokens=2, cache_read_tokens=6, cache_write_tokens=1),
    )
    events = [
        SessionEvent(
            body=UserBody(parts=(Text("hi"),)),
            id="0c1cfe80-2c0b-4a53-8f2c-1f1a1f6a0c11",
            created_at=datetime(2026, 5, 4, 9, 30, tzinfo=UTC),
        ),
        SessionEvent(body=AssistantBody(parts=(Text("yes"),), made_by=made_by), origin="model"),
        SessionEvent(body=CompactionBody(summary="They met.", first_seq=1, last_seq=2)),
        SessionEvent(body=SystemBody(parts=(Text("Be brief."),))),
    ]

    written = CLAUDE_CODE.write(events)
    transcript = CLAUDE_CODE.read(written)

    rows = [json.loads(line) for line in written.splitlines()]
    assert [entry["type"] for entry in rows] == ["user", "assistant", "system", "user", "user"]
    assert rows[2]["parentUuid"] is None
    assert rows[2]["logicalParentUuid"] == rows[1]["uuid"]
    assert rows[3]["parentUuid"] == rows[2]["uuid"]
    assert len({entry["uuid"] for entry in rows}) == 5
    assert transcript.events[0] == events[0]
    assert [event.body for event in transcript.events[1:3]] == [event.body for event in events[1:3]]
    assert shown(transcript)[3] == "user: <system-reminder>\nBe brief.\n</system-reminder>"
