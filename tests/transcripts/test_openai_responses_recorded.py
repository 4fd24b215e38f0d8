"""Responses requests that were accepted, read where they lie: writing is reading's inverse."""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from context_assembler.transcripts import TRANSCRIPTS, detect_transcript
from context_assembler.values.codec import dump_event, load_event

CORPUS: Final = Path(
    os.environ.get("CONTEXT_ASSEMBLER_CORPUS", Path(__file__).parents[3] / "shared" / "data")
)
ACCEPTED: Final = CORPUS / "requests" / "accepted_openai_responses.jsonl"
RESPONSES: Final = TRANSCRIPTS["openai_responses"]

pytestmark = [
    pytest.mark.recorded,
    pytest.mark.skipif(not ACCEPTED.is_file(), reason=f"the recorded corpus is not at {CORPUS}"),
]


def recorded_requests() -> list[dict[str, Any]]:
    """Return the requests that hold their input themselves, not as a template at the provider."""
    requests = [json.loads(line)["request"] for line in ACCEPTED.read_text().splitlines()]
    return [request for request in requests if "input" in request]


def normal_item(item: dict[str, Any]) -> dict[str, Any]:
    """What `write` says of an item: see the normal form in the module's docstring."""
    if item.get("type", "message") != "message":
        keeps_nulls = item["type"] not in {"function_call", "reasoning"}
        return item if keeps_nulls else {k: v for k, v in item.items() if v is not None}
    content: Any = item["content"]
    pieces = [] if isinstance(content, str) else [normal_piece(piece) for piece in content]
    if len(pieces) == 1 and pieces[0].keys() == {"type", "text"} and "id" not in item:
        content = pieces[0]["text"]
    elif pieces:
        content = [restored(piece) for piece in pieces]
    return {**item, "type": "message", "content": content}


def normal_piece(piece: dict[str, Any]) -> dict[str, Any]:
    dropped = {"prompt_cache_breakpoint"}
    return {
        key: value
        for key, value in piece.items()
        if key not in dropped and (value or key not in {"annotations", "logprobs"})
    }


def restored(piece: dict[str, Any]) -> dict[str, Any]:
    return {"annotations": [], **piece} if piece["type"] == "output_text" else piece


def normal_request(request: dict[str, Any]) -> list[dict[str, Any]]:
    given = request["input"]
    items: list[dict[str, Any]] = [{"role": "user", "content": given}]
    if not isinstance(given, str):
        items = given
    if request.get("instructions"):
        items = [{"role": "developer", "content": request["instructions"]}, *items]
    return [normal_item(item) for item in items]


def test_every_accepted_request_comes_back_in_normal_form() -> None:
    wrong: list[Any] = []
    requests = recorded_requests()
    for request in requests:
        written = json.loads(RESPONSES.write(RESPONSES.read(request).events))
        if written != normal_request(request):
            wrong.append((written, normal_request(request)))

    assert len(requests) > 350
    assert wrong == []


def test_every_accepted_request_is_read_whole_and_recognised() -> None:
    for request in recorded_requests():
        read = RESPONSES.read(request)

        assert read.events
        assert all(load_event(dump_event(event), where="it") == event for event in read.events)
        assert not any("left out" in issue.reason for issue in read.issues)
        assert detect_transcript(request).name == "openai_responses"


def test_writing_and_reading_again_changes_nothing() -> None:
    for request in recorded_requests():
        events = RESPONSES.read(request).events

        again = RESPONSES.read(RESPONSES.write(events))

        assert again.events == events
        assert RESPONSES.write(again.events) == RESPONSES.write(events)
