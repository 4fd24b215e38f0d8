"""A session that moves to another model loses nothing without a row in the report."""

import json
from typing import Any

import pytest

from context_assembler import (
    AssembledContext,
    ContextAssembler,
    Document,
    SessionEvent,
    Text,
    ToolCall,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.transcripts import read_transcript
from context_assembler.values.parts import Base64Source
from tests.providers.drafts import PIXEL

MODELS = ("claude-opus-5-5", "gpt-4.1", "gpt-6-sol", "gemini-4-argon")
REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAA",
}
SAID: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "done", "annotations": []}],
}


def rules(context: AssembledContext) -> set[str]:
    return {entry.rule for entry in context.report.entries if entry.decision != "kept"}


def sent(context: AssembledContext) -> str:
    return json.dumps(context.to_request(), ensure_ascii=False)


async def recorded(model: str, reply: dict[str, Any]) -> ContextAssembler:
    """Return an assembler with a session whose first step that model answered so."""
    assembler = ContextAssembler()
    await assembler.add_user("s", "go")
    context = await assembler.assemble("s", model=model)
    await assembler.record("s", reply, context)
    await assembler.add_user("s", "next")
    return assembler


async def of_events(*events: SessionEvent) -> ContextAssembler:
    assembler = ContextAssembler()
    await assembler.sessions.append("s", list(events))
    return assembler


def response(*items: dict[str, Any]) -> dict[str, Any]:
    return {"object": "response", "id": "r", "status": "completed", "output": list(items)}


def message(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "model": "c",
        "content": list(blocks),
        "stop_reason": "end_turn",
    }


LOGS = "line of a log\n" * 400 + "THE_END"
SERVER_ITEMS: dict[str, dict[str, Any]] = {
    "what a server's tool answered": {
        "type": "mcp_call",
        "id": "mcp_1",
        "server_label": "s",
        "name": "n",
        "arguments": "{}",
        "output": LOGS,
    },
    "what code was run": {"type": "code_interpreter_call", "id": "ci_1", "code": LOGS},
    "what code logged": {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "code": "",
        "outputs": [{"type": "logs", "logs": LOGS}],
    },
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("item", SERVER_ITEMS.values(), ids=SERVER_ITEMS.keys())
async def test_what_server_tools_answered_is_told_in_full(item: dict[str, Any], model: str) -> None:
    assembler = await recorded("gpt-6-astra", response(REASONING, item, SAID))

    context = await assembler.assemble("s", model=model)

    assert "THE_END" in sent(context)


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-6-sol"])
async def test_a_generated_picture_that_stays_behind_has_a_row(model: str) -> None:
    item = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": PIXEL}
    assembler = await recorded("gpt-6-astra", response(REASONING, item, SAID))

    context = await assembler.assemble("s", model=model)

    assert rules(context) & {"media.role", "media.reasoning"}
    assert any("image is left out" in warning for warning in context.report.warnings)
    assert "[image left out: image/png; " in sent(context)


async def test_a_generated_picture_is_shown_to_gemini_and_goes_home_as_it_was() -> None:
    item = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": PIXEL}
    assembler = await recorded("gpt-6-astra", response(REASONING, item, SAID))

    away = await assembler.assemble("s", model="gemini-4-argon")
    home = await assembler.assemble("s", model="gpt-6-astra")

    assert PIXEL.rstrip("=") in sent(away)
    assert item in home.to_request()["input"]


async def test_thinking_that_waits_for_its_model_has_a_row_and_no_warning() -> None:
    assembler = await recorded("gpt-6-astra", response(REASONING, SAID))

    away = await assembler.assemble("s", model="claude-opus-5-5")
    home = await assembler.assemble("s", model="gpt-6-astra")

    assert "reasoning.provider" in rules(away)
    assert away.report.warnings == ()
    assert REASONING["encrypted_content"] in sent(home)


async def test_every_step_says_the_same_of_what_stays_behind() -> None:
    item = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": PIXEL}
    assembler = await recorded("gpt-6-astra", response(REASONING, item, SAID))

    steps: list[list[Any]] = []
    for text in ("a", "b"):
        steps.append((await assembler.assemble("s", model="gpt-6-sol")).to_request()["input"])
        await assembler.add_user("s", text)

    assert steps[1][: len(steps[0]) - 1] == steps[0][:-1]


AUDIO = {"type": "input_audio", "input_audio": {"data": "UklGRgAAAABXQVZF", "format": "wav"}}


@pytest.mark.parametrize(
    ("model", "rule"), [("gemini-4-argon", "content.foreign"), ("claude-opus-5-5", "media.type")]
)
async def test_a_recording_is_played_or_told(model: str, rule: str) -> None:
    said = {"role": "user", "content": [{"type": "text", "text": "q"}, AUDIO]}
    transcript = json.dumps({"model": "gpt-4.1", "messages": [said]})
    assembler = await of_events(*read_transcript(transcript).events)

    context = await assembler.assemble("s", model=model)

    assert rule in rules(context)
    assert ("UklGRgAAAABXQVZF" in sent(context)) == (model == "gemini-4-argon")


BLANK: dict[str, dict[str, Any]] = {
    "a cited text": {
        "type": "text",
        "text": "",
        "citations": [{"type": "web_search_result_location", "cited_text": "x", "url": "u"}],
    },
    "a compaction": {"type": "compaction", "content": ""},
}


@pytest.mark.parametrize("block", BLANK.values(), ids=BLANK.keys())
async def test_a_blank_block_does_not_come_back_to_claude(block: dict[str, Any]) -> None:
    assembler = await recorded("claude-opus-5-5", message(block, {"type": "text", "text": "a"}))

    context = await assembler.assemble("s", model="claude-opus-5-5")

    assert [violation for violation in context.check() if violation.level == "refused"] == []
    assert "content.blank" in rules(context)


@pytest.mark.parametrize("model", MODELS)
async def test_arguments_that_were_cut_off_are_told_to_every_model(model: str) -> None:
    call = ToolCall(call_id="c1", name="write", arguments_json='{"text":"long precious te')
    assembler = await of_events(
        user_event("go"),
        assistant_event(call),
        tool_result_event("c1", "bad arguments", is_error=True),
    )

    context = await assembler.assemble("s", model=model)

    assert "long precious te" in sent(context)
    assert "repair.arguments" in rules(context)
    assert [violation for violation in context.check() if violation.level == "refused"] == []


@pytest.mark.parametrize("model", MODELS)
async def test_a_pdf_that_is_a_picture_is_one(model: str) -> None:
    paper = Document(source=Base64Source(media_type="application/pdf", data=PIXEL))
    assembler = await of_events(user_event((Text("q"), paper)))

    context = await assembler.assemble("s", model=model)

    assert rules(context) == {"media.retyped"}
    assert "application/pdf" not in sent(context)
    assert [violation for violation in context.check() if violation.level == "refused"] == []
