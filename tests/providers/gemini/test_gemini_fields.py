"""Every field that the SDK knows of a part is read, stored and sent back."""

from dataclasses import replace
from typing import Any

import pytest
from google.genai import types

from context_assembler.providers.gemini import GEMINI
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.codec import dump_event, load_event
from context_assembler.values.draft import Draft
from context_assembler.values.events import Provenance, SessionEvent, assistant_event
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.native.gemini_fields import (
    KINDS,
    MARKS,
    NOT_ON_VERTEX,
    RESPONSE_MARKS,
    snake_block,
)
from context_assembler.values.parts import Opaque, Part, Text, ToolCall, ToolResult
from tests.providers.drafts import GEMINI_4, OPUS, PIXEL, assistant, call, draft, user
from tests.providers.gemini.test_gemini_wire import send, spelled

MADE_BY = Provenance(provider="gemini", model="gemini-4-argon")
VERTEX = replace(GEMINI_4, host="vertex_ai")
FILM = {"fileData": {"fileUri": "gs://a/b.mp4", "mimeType": "video/mp4"}}
PICTURE = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
SOUND = {"inlineData": {"mimeType": "audio/wav", "data": "UklG"}}
PAPER = {"fileData": {"fileUri": "gs://a/b.pdf", "mimeType": "application/pdf"}}

# One part for every field of `Part`, as the API spells it.
PARTS: dict[str, dict[str, Any]] = {
    "text": {"text": "x"},
    "thought": {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"},
    "thought_signature": {"text": "x", "thoughtSignature": "c2ln"},
    "inline_data": {"inlineData": {**PICTURE["inlineData"], "displayName": "a.png"}},
    "file_data": {"fileData": {"fileUri": "gs://a/b.png", "mimeType": "image/png"}},
    "function_call": {"functionCall": {"id": "c1", "name": "f", "args": {"aB": {"c_d": [1]}}}},
    "executable_code": {"executableCode": {"language": "PYTHON", "code": "1 + 1", "id": "e1"}},
    "code_execution_result": {
        "codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2", "id": "e1"}
    },
    "tool_call": {"toolCall": {"id": "t1", "toolType": "URL_CONTEXT", "args": {"aB": 1}}},
    "tool_response": {"toolResponse": {"id": "t1", "toolType": "URL_CONTEXT", "response": {}}},
    "media_resolution": {**PICTURE, "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"}},
    "video_metadata": {**FILM, "videoMetadata": {"startOffset": "3s", "fps": 1.0}},
    "media_processing": {**FILM, "mediaProcessing": "AGENTIC"},
    "audio_metadata": {**SOUND, "audioMetadata": {}},
    "audio_transcription": {**SOUND, "audioTranscription": {"text": "hello"}},
    "document_metadata": {**PAPER, "documentMetadata": {}},
    "spreadsheet_metadata": {**PAPER, "spreadsheetMetadata": {}},
    "speech_metadata": {"text": "x", "speechMetadata": {}},
    "part_metadata": {"text": "x", "partMetadata": {"madeBy": {"some_one": 1}}},
}


def stored(*parts: Part) -> tuple[Part, ...]:
    """Return the parts as they come back from a store."""
    dumped = dump_event(assistant_event(parts))
    event: SessionEvent = load_event(dumped, where="it")
    return event.parts


def read(*blocks: dict[str, Any]) -> tuple[Part, ...]:
    body = {"candidates": [{"content": {"role": "model", "parts": list(blocks)}}]}
    return GEMINI.read_reply(body, None).parts


def of(*parts: Part, limits: ModelLimits = GEMINI_4) -> Draft:
    said = assistant(*parts, made_by=MADE_BY)
    return draft([user("go"), said, user("on")], limits=limits, tools=())


def model_parts(made: Draft) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = GEMINI.render(made)["contents"][1]["parts"]
    return parts


def test_every_field_of_the_sdk_is_known() -> None:
    fields = set(types.Part.model_fields)

    assert fields == KINDS | MARKS
    assert fields == PARTS.keys() | {"function_response"}
    assert set(types.FunctionResponse.model_fields) == RESPONSE_MARKS | {
        "id",
        "name",
        "response",
        "parts",
    }
    assert set(types.FunctionCall.model_fields) == {
        "id",
        "name",
        "args",
        "partial_args",
        "will_continue",
    }


@pytest.mark.parametrize("block", PARTS.values(), ids=PARTS.keys())
def test_a_part_is_read_stored_and_sent_back_as_it_came(block: dict[str, Any]) -> None:
    parts = read(block)

    again = stored(*parts)
    payload = GEMINI.render(of(*again))

    [sent] = [part for part in payload["contents"][1]["parts"] if part]
    expected = {**snake_block(block)}
    if "function_call" in expected:  # an unsigned call gets the documented placeholder
        expected["thought_signature"] = sent["thought_signature"]
    assert again == parts
    assert spelled(sent) == spelled(expected)
    types.Content.model_validate(payload["contents"][1])
    assert [v for v in GEMINI.check_payload(payload) if v.rule in ("G0", "G5", "G11", "G13")] == []


@pytest.mark.parametrize("block", PARTS.values(), ids=PARTS.keys())
def test_a_part_is_written_to_a_transcript_as_it_came(block: dict[str, Any]) -> None:
    source = {"contents": [{"role": "model", "parts": [block]}]}

    found = TRANSCRIPTS["gemini"].read(source)
    again = TRANSCRIPTS["gemini"].read(TRANSCRIPTS["gemini"].write(found.events))

    assert found.issues == ()
    assert [event.body for event in again.events] == [event.body for event in found.events]
    assert '"parts": []' not in TRANSCRIPTS["gemini"].write(found.events)


@pytest.mark.parametrize("block", PARTS.values(), ids=PARTS.keys())
def test_elsewhere_a_part_is_said_or_named(block: dict[str, Any]) -> None:
    from context_assembler.providers.anthropic import ANTHROPIC  # noqa: PLC0415 - beside its one use

    made = of(*read(block), limits=OPUS)

    payload = ANTHROPIC.render(replace(made, messages=(*made.messages[:2], user("on"))))

    assert payload["messages"]


@pytest.mark.parametrize("field", sorted(NOT_ON_VERTEX))
def test_what_vertex_ai_does_not_know_is_not_sent_there(field: str) -> None:
    made = of(*read(PARTS[field]), limits=VERTEX)

    adapted, rows = GEMINI.adapt(made)

    sent = str(GEMINI.render(made)["contents"])
    assert f"'{field}':" not in sent
    assert "some_one" not in sent
    assert len(rows) == 1
    assert GEMINI.adapt(adapted) == (adapted, ())
    assert GEMINI.adapt(of(*read(PARTS[field])))[1] == ()


def test_a_response_of_a_function_keeps_its_marks_and_its_media() -> None:
    inner = [
        {"inlineData": {"mimeType": "image/png", "data": PIXEL, "displayName": "a.png"}},
        {"fileData": {"fileUri": "gs://a/b.pdf", "mimeType": "application/pdf"}},
    ]
    response = {
        "id": "c1",
        "name": "f",
        "response": {"output": "x"},
        "scheduling": "SILENT",
        "willContinue": False,
        "parts": inner,
    }
    source = {
        "contents": [
            {"role": "model", "parts": [PARTS["function_call"]]},
            {"role": "user", "parts": [{"functionResponse": response, "partMetadata": {"aB": 1}}]},
        ]
    }
    events = [
        load_event(dump_event(e), where="it") for e in TRANSCRIPTS["gemini"].read(source).events
    ]
    talk = [user("go"), assistant(*events[0].parts), Message(role="tool", parts=events[1].parts)]

    payload = GEMINI.render(draft(talk, limits=GEMINI_4))
    _, body = send(payload)

    sent = body["contents"][2]["parts"][0]["functionResponse"]
    assert spelled(snake_block(sent)) == spelled(snake_block(response))
    assert body["contents"][2]["parts"][0]["partMetadata"] == {"aB": 1}
    on_vertex = GEMINI.render(draft(talk, limits=VERTEX))["contents"][2]["parts"][0]
    assert "will_continue" not in on_vertex["function_response"]
    assert "part_metadata" not in on_vertex


def test_what_cannot_stand_in_a_response_is_named_there() -> None:
    result = ToolResult(
        call_id="c1",
        content=(
            Opaque(provider="gemini", block=SOUND, text="[audio/wav]"),
            Opaque(provider="anthropic", block={"type": "x"}, text="found"),
        ),
    )
    talk = [user("go"), assistant(call("c1")), Message(role="tool", parts=(result,))]

    [part] = GEMINI.render(draft(talk, limits=GEMINI_4))["contents"][2]["parts"]

    assert part["function_response"]["response"] == {"output": ["[audio/wav]", "found"]}


def test_fields_that_nobody_knows_are_kept_but_not_sent() -> None:
    blocks: list[dict[str, Any]] = [
        {"text": "x", "hologram": 1},
        {"functionCall": {"id": "c1", "name": "f", "args": {}, "hue": 2}, "hologram": 3},
        {**SOUND, "hologram": 4},
    ]

    made = of(*stored(*read(*blocks)))
    adapted, [row] = GEMINI.adapt(made)

    assert [set(part) for part in model_parts(made)] == [
        {"text"},
        {"function_call", "thought_signature"},
        {"inline_data"},
    ]
    assert (row.decision, row.rule) == ("repaired", "content.fields")
    assert "hologram, function_call.hue" in row.reason
    assert GEMINI.adapt(adapted) == (adapted, ())


def test_a_resolution_of_its_own_asks_for_the_preview_of_the_api() -> None:
    made = of(*read(PARTS["media_resolution"]))

    path, _ = send(GEMINI.render(made))

    assert path.startswith("/v1beta/")
    assert "http_options" not in GEMINI.render(replace(made, limits=VERTEX))["config"]
    assert "http_options" not in GEMINI.render(of(Text("x")))["config"]


def test_a_call_that_is_marked_as_thought_is_a_call() -> None:
    [part] = read({**PARTS["function_call"], "thought": True})

    assert isinstance(part, ToolCall)
    assert model_parts(of(part))[0]["thought"] is True
    before, after = (GEMINI.fingerprints(of(one)) for one in (part, replace(part, name="g")))
    assert before[1] == after[1]
    assert before[2] != after[2]
