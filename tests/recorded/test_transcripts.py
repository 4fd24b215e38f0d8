"""Real transcripts, read where they lie: nothing raises, nothing is lost, writing is reading's inverse."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from context_assembler.ports import ReadTranscript
from context_assembler.transcripts import (
    TRANSCRIPTS,
    detect_transcript,
    read_sessions,
    read_transcript,
)
from context_assembler.values.codec import dump_event, load_event
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    SessionEvent,
    ToolResultBody,
)
from context_assembler.values.json_shapes import is_array
from context_assembler.values.parts import Opaque, Part, ToolCall

CORPUS: Final = Path(
    os.environ.get("CONTEXT_ASSEMBLER_CORPUS", Path(__file__).parents[3] / "shared" / "data")
)
CLAUDE_CODE: Final = sorted((CORPUS / "trajectories" / "claude_code").rglob("*.jsonl"))
COLLECTIONS: Final = sorted((CORPUS / "trajectories").glob("tau*/*.json"))

REASONING: Final = "reasoning_content"

pytestmark = [
    pytest.mark.recorded,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the recorded corpus is not at {CORPUS}"),
]


def parts_of(read: ReadTranscript) -> Iterator[Part]:
    for event in read.events:
        if isinstance(event.body, AssistantBody):
            yield from event.body.parts


def calls_and_results(read: ReadTranscript) -> tuple[Counter[str], Counter[str]]:
    calls = Counter(part.call_id for part in parts_of(read) if isinstance(part, ToolCall))
    results = Counter(
        event.body.result.call_id for event in read.events if isinstance(event.body, ToolResultBody)
    )
    return calls, results


def recorded_requests(name: str) -> list[dict[str, Any]]:
    lines = (CORPUS / "requests" / f"accepted_{name}.jsonl").read_text().splitlines()
    return [json.loads(line)["request"] for line in lines]


@pytest.mark.parametrize("path", CLAUDE_CODE, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_claude_code_session_is_read_with_every_call_answered(path: Path) -> None:
    read = read_transcript(path)

    calls, results = calls_and_results(read)
    ids = [event.id for event in read.events]
    assert detect_transcript(path.read_bytes()).name == "claude_code"
    assert calls == results
    assert len(set(ids)) == len(ids)
    assert all(event.created_at is not None for event in read.events)
    assert not any(isinstance(part, Opaque) for part in parts_of(read))


@pytest.mark.parametrize("path", CLAUDE_CODE, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_row_of_a_claude_code_session_is_mapped_or_reported(path: Path) -> None:
    lines = [line for line in path.read_text().split("\n") if line.strip()]

    read = read_transcript(path)

    reported = " ".join(issue.what for issue in read.issues)
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            assert "line" in reported
            continue
        if row["type"] not in {"user", "assistant", "summary", "ai-title", "attachment", "system"}:
            assert f"rows of type {row['type']} " in reported


def test_compactions_of_recorded_sessions_cover_what_was_before() -> None:
    found = 0
    for path in CLAUDE_CODE:
        for place, event in enumerate(read_transcript(path).events):
            if isinstance(event.body, CompactionBody):
                found += 1
                assert (event.body.first_seq, event.body.last_seq) == (1, place)
                assert event.body.summary.startswith("This session is being continued")
    assert found == 2


@pytest.mark.parametrize("path", COLLECTIONS, ids=lambda path: path.stem)
def test_a_file_of_many_sessions_is_read_whole(path: Path) -> None:
    sessions = read_sessions(path)

    names = [name for name, _ in sessions]
    assert len(names) == len(set(names)) >= 9
    for _, read in sessions:
        calls, results = calls_and_results(read)
        assert results <= calls
        assert read.events
        # Of what these files hold only the calls' requestor, always the agent, has no place.
        assert {issue.what.split(" ")[0] for issue in read.issues} <= {"tool_calls.requestor"}


@pytest.mark.parametrize("name", ["openai_chat", "anthropic", "gemini"])
def test_every_accepted_request_is_read(name: str) -> None:
    for request in recorded_requests(name):
        read = TRANSCRIPTS[name].read(request)

        assert read.events
        assert all(load_event(dump_event(event), where="it") == event for event in read.events)
        assert not any("left out" in issue.reason for issue in read.issues)


def with_spelled_arguments(event: SessionEvent) -> SessionEvent:
    """Chat Completions take arguments as text: those that came as an object are spelled by us."""
    if not isinstance(event.body, AssistantBody):
        return event
    parts = tuple(
        replace(part, arguments_json=json.dumps(dict(part.arguments), ensure_ascii=False))
        if isinstance(part, ToolCall) and part.arguments_json is None
        else part
        for part in event.body.parts
    )
    return replace(event, body=replace(event.body, parts=parts))


@pytest.mark.parametrize("name", ["openai_chat", "anthropic", "gemini"])
def test_writing_and_reading_again_changes_nothing(name: str) -> None:
    transcript = TRANSCRIPTS[name]
    for request in recorded_requests(name):
        events = transcript.read(request).events

        again = transcript.read(transcript.write(events))

        expected = map(with_spelled_arguments, events) if name == "openai_chat" else events
        assert again.events == tuple(expected)
        assert transcript.write(again.events) == transcript.write(events)
        assert again.issues == () or all("tool" in issue.what for issue in again.issues)


def normal_anthropic(request: dict[str, Any]) -> list[dict[str, Any]]:
    """What `write` says of a request's messages: see the normal form in the module's docstring."""
    messages: list[dict[str, Any]] = []
    for message in request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks = [normal_block(block) for block in blocks if block != {"type": "text", "text": ""}]
        results = [block for block in blocks if block["type"] == "tool_result"]
        rest = [block for block in blocks if block["type"] != "tool_result"]
        joins = messages and results and messages[-1].get("results")
        if joins:
            messages[-1]["content"] += results
        elif results:
            messages.append({"role": message["role"], "content": results, "results": True})
        if rest or not results:
            messages.append({"role": message["role"], "content": rest})
    return [{"role": m["role"], "content": m["content"]} for m in messages]


def normal_block(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "text" and block.get("citations"):
        return block
    if block["type"] not in {"text", "image", "document", "tool_use", "tool_result"}:
        return block
    kept = {
        key: value
        for key, value in block.items()
        if key not in {"cache_control", "citations"} and value not in (None, False, "", [])
    }
    kept |= {"input": block["input"]} if block["type"] == "tool_use" else {}
    kept |= {"text": block["text"]} if block["type"] == "text" else {}
    if block["type"] == "tool_result" and isinstance(block.get("content"), list):
        inner = [normal_block(entry) for entry in block["content"]]
        is_text = len(inner) == 1 and inner[0]["type"] == "text" and inner[0]["text"]
        kept |= {"content": inner[0]["text"] if is_text else inner} if inner else {}
    return kept


def test_accepted_anthropic_requests_come_back_in_normal_form() -> None:
    transcript = TRANSCRIPTS["anthropic"]
    for request in recorded_requests("anthropic"):
        written = json.loads(transcript.write(transcript.read(request).events))

        assert written["messages"] == normal_anthropic(request)
        system = request.get("system", [])
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
        assert written.get("system", []) == [normal_block(block) for block in blocks]


def normal_part(part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    dropped = {"cache_control", "additional_properties"}
    return {key: value for key, value in part.items() if key not in dropped}


def normal_openai(message: dict[str, Any]) -> dict[str, Any]:
    """What `write` says of a message: see the normal form in the module's docstring."""
    normal = {key: value for key, value in message.items() if value is not None}
    content: Any = message.get("content")
    if is_array(content):
        spelled = [normal_part(part) for part in content]
        is_text = len(spelled) == 1 and spelled[0].keys() == {"type", "text"}
        content = spelled[0]["text"] if is_text else spelled
    normal["content"] = content or (None if message["role"] == "assistant" else "")
    if message["role"] == "assistant" and "reasoning" in message:
        normal.setdefault("reasoning_content", message["reasoning"])
    if message["role"] == "assistant":
        given: list[dict[str, Any]] = message.get("tool_calls") or []
        calls = [normal_call(call) for call in given]
        normal.pop("tool_calls", None)
        normal |= {"tool_calls": calls} if calls else {}
    if details := normal.get("reasoning_details"):
        texts = [detail.get("text") or detail.get("summary") for detail in details]
        text = message.get("reasoning") or "\n".join(text for text in texts if text)
        normal |= {"reasoning_content": text} if text else {}
    return {key: value for key, value in normal.items() if (key, value) != (REASONING, "")}


def normal_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"]
    spelled = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    named = {"name": function["name"], "arguments": spelled}
    return {"id": call["id"], "type": "function", "function": named}


def test_accepted_openai_requests_come_back_in_normal_form() -> None:
    transcript = TRANSCRIPTS["openai_chat"]
    for request in recorded_requests("openai_chat"):
        written = json.loads(transcript.write(transcript.read(request).events))

        for message, original in zip(written, request["messages"], strict=True):
            assert message == normal_openai(original)


def test_every_accepted_request_is_recognised_by_its_shape() -> None:
    for request in recorded_requests("openai_chat"):
        assert detect_transcript(request).name in {"openai_chat", "anthropic"}
    found = Counter(detect_transcript(request).name for request in recorded_requests("anthropic"))
    assert found["claude_code"] == 0
    assert found["anthropic"] > 0.8 * found.total()
