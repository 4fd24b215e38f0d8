"""Gemini's recorded requests and sessions: what is written of them, and what is rendered again."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from context_assembler.providers.gemini import GEMINI
from context_assembler.stages.transform_messages import MessageTransformer
from context_assembler.transcripts import TRANSCRIPTS, detect_transcript, read_transcript
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.gemini_fields import snake_block, snake_fields
from context_assembler.values.native.gemini_parts import standard_base64
from context_assembler.values.parts import ToolCall, ToolResult
from context_assembler.values.wire import compact_json
from tests.providers.drafts import GEMINI_4, draft

CORPUS: Final = Path(
    os.environ.get("CONTEXT_ASSEMBLER_CORPUS", Path(__file__).parents[2].parent / "shared" / "data")
)
REQUESTS: Final = CORPUS / "requests" / "accepted_gemini.jsonl"
SESSIONS: Final = sorted((CORPUS / "trajectories" / "gemini_cli").glob("*/*.json"))
pytestmark = [
    pytest.mark.recorded,
    pytest.mark.skipif(not REQUESTS.is_file(), reason=f"no recorded corpus in {CORPUS}"),
]


def requests() -> Iterator[dict[str, Any]]:
    with REQUESTS.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["request"]


def parts_of(content: dict[str, Any]) -> list[Any]:
    parts: Any = content["parts"]
    return list(parts) if is_array(parts) else [parts]


def normal_contents(request: dict[str, Any]) -> list[dict[str, Any]]:
    """What `write` says of a request's contents: see the normal form in the module's docstring."""
    normal: list[dict[str, Any]] = []
    for content in request["contents"]:
        role = "model" if content.get("role") == "model" else "user"
        parts = [normal_part(part) for part in parts_of(content)]
        responses = [part for part in parts if "function_response" in part]
        rest = [part for part in parts if "function_response" not in part]
        last: list[dict[str, Any]] = normal[-1]["parts"] if normal else []
        if responses and last and all("function_response" in part for part in last):
            last.extend(responses)
        elif responses:
            normal.append({"role": role, "parts": responses})
        if rest or not responses:
            normal.append({"role": role, "parts": rest})
    return normal


def normal_part(part: dict[str, Any]) -> dict[str, Any]:
    normal: dict[str, Any] = snake_block(part)
    inline = normal.get("inline_data", {})
    if inline.get("mime_type", "").startswith(("image/", "text/", "application/pdf")):
        inline["data"] = standard_base64(inline["data"])
    if "function_response" in normal:
        response = normal["function_response"]
        response["response"] = normal_response(response["response"])
    return normal


def normal_response(response: dict[str, Any]) -> dict[str, Any]:
    output: Any = response.get("output", "")
    if response == {}:
        return {"output": ""}
    if response.keys() == {"output"} and not isinstance(output, str):
        return dict(output) if is_object(output) else {"output": compact_json(output)}
    return response


def test_accepted_requests_come_back_in_normal_form() -> None:
    transcript = TRANSCRIPTS["gemini"]
    for request in requests():
        written = json.loads(transcript.write(transcript.read(request).events))

        assert snake_block(written["contents"]) == normal_contents(request)
        fields = snake_fields(request)
        system = snake_fields(fields.get("system_instruction"))
        assert written.get("systemInstruction", {}).get("parts") == system.get("parts")


def test_every_accepted_request_is_recognised_and_nothing_of_it_is_left_out() -> None:
    for request in requests():
        read = TRANSCRIPTS["gemini"].read(request)

        assert detect_transcript(request).name == "gemini"
        assert read.issues == ()


def test_signatures_survive_the_way_through_a_session() -> None:
    """Read in, and rendered for a model of the newest generation: each stands where it stood."""
    count = 0
    for request in requests():
        shaped = MessageTransformer().transform(TRANSCRIPTS["gemini"].read(request).events)
        if not shaped.messages:
            continue
        rendered = GEMINI.render(draft(shaped.messages, limits=GEMINI_4))
        sent = [part for content in rendered["contents"] for part in content["parts"]]
        given = [snake_fields(p) for content in request["contents"] for p in parts_of(content)]
        signed = [part["thought_signature"] for part in given if "thought_signature" in part]
        kept = [part.get("thought_signature") for part in sent]
        count += len(signed)
        assert [one for one in kept if one in signed] == signed

    assert count > 100


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_a_session_of_gemini_cli_is_read_with_every_call_answered(path: Path) -> None:
    session = json.loads(path.read_text(encoding="utf-8"))
    spoken = [m for m in session["messages"] if m["type"] in {"user", "gemini"}]

    read = read_transcript(path)

    parts = [part for event in read.events for part in event.parts]
    calls = [part.call_id for part in parts if isinstance(part, ToolCall)]
    answered = [part.call_id for part in parts if isinstance(part, ToolResult)]
    assert detect_transcript(path.read_bytes()).name == "gemini"
    assert len(read.events) == len(spoken) + len(answered)
    assert sorted(calls) == sorted(answered)
    assert bool(read.issues) == (len(spoken) < len(session["messages"]))
