"""Nothing is lost silently: SDK objects are read, and a field without a place is kept or named."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message
from google.genai import types as gemini
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from context_assembler.errors import TranscriptError
from context_assembler.events import to_json
from context_assembler.transcripts import detect_format, read_transcript
from tests.transcripts.shapes import PIXEL, piece


def message(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": [*content]}


USED = {"input_tokens": 1, "output_tokens": 1}
HI = {"role": "user", "content": "hi"}
GOLDEN = Path(__file__).parents[1] / "providers" / "golden"
LEFT_OUT = "long_step_with_cache_marks"  # a mark for the cache is not carried over
CAMEL: dict[str, Any] = {
    "contents": [
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]},
        {
            "role": "model",
            "parts": [
                {"text": "t", "thought": True, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "f", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "f", "response": {"output": "r"}}}],
        },
    ]
}
SAMPLES = [("gemini", "camel", CAMEL)] + [
    (name, path.stem, payload)
    for path in sorted(GOLDEN.glob("*.json"))
    if path.stem != LEFT_OUT
    for name, payload in json.loads(path.read_text(encoding="utf-8"))["payloads"].items()
]


def objects_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where there is an object; arguments and responses are the tools' own."""
    if isinstance(value, dict):
        yield place
    held = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inside in held:
        if isinstance(inside, dict | list) and key not in ("input", "args", "response"):
            yield from objects_in(inside, (*place, key))


@pytest.mark.parametrize(("name", "case", "sample"), SAMPLES)
def test_a_field_without_a_place_is_kept_or_named(name: str, case: str, sample: Any) -> None:
    for place in objects_in(sample):
        if place and place[0] not in ("messages", "input", "contents", "system"):
            continue
        changed = holder = deepcopy(sample)
        for key in place:
            holder = holder[key]
        holder["odd_one"] = "said"

        read = read_transcript(changed, format=name)

        kept = json.dumps([list(map(to_json, read.events)), read.metadata])
        is_named = any("odd_one" in issue.reason for issue in read.issues)
        assert "odd_one" in kept or is_named, (case, place)


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": null}'}}
REPLY = {"role": "assistant", "content": None, "tool_calls": [CALL]}
CHOICE = {"index": 0, "finish_reason": "tool_calls", "message": REPLY}
COMPLETION = ChatCompletion.model_validate(
    {"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}
)
MESSAGE = Message.model_validate(
    {
        "id": "a",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [
            {"type": "thinking", "thinking": "t", "signature": "c2ln"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": None}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": USED,
    }
)
RESPONSE = Response.model_validate(
    {
        "id": "a",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "tools": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "output": [
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": null}'}
        ],
    }
)
CONTENT = gemini.Content(
    role="model",
    parts=[gemini.Part(function_call=gemini.FunctionCall(id="c1", name="f", args={"a": None}))],
)


@dataclass
class Said:
    role: str
    content: Any


class Dumped:
    def to_dict(self) -> dict[str, Any]:
        return REPLY


OBJECTS: dict[str, tuple[Any, str]] = {
    "a message of Chat": ([HI, COMPLETION.choices[0].message], "openai_chat"),
    "a message of Anthropic's": ([HI, MESSAGE], "anthropic"),
    "content of Anthropic's": (
        [HI, {"role": "assistant", "content": MESSAGE.content}],
        "anthropic",
    ),
    "content in a tuple": ((HI, Said("assistant", (*MESSAGE.content,))), "anthropic"),
    "items of a response": ([HI, *RESPONSE.output], "openai_responses"),
    "contents of Gemini's": ([gemini.UserContent("hi"), CONTENT], "gemini"),
    "contents in a request": ({"contents": [gemini.UserContent("hi"), CONTENT]}, "gemini"),
    "calls of Chat in a dict": (
        [HI, {"role": "assistant", "tool_calls": COMPLETION.choices[0].message.tool_calls}],
        "openai_chat",
    ),
    "an object that makes a dict": ([HI, Dumped()], "openai_chat"),
}


ASKED = message("user", piece("input_text", text="hi"))
CANDIDATE = gemini.Candidate(content=CONTENT, finish_reason=gemini.FinishReason.STOP)
WHOLE: dict[str, tuple[Any, Any]] = {
    "a reply of Chat": (HI, COMPLETION),
    "its choice": (HI, COMPLETION.choices[0]),
    "a reply of Responses": (ASKED, RESPONSE),
    "its output": (ASKED, RESPONSE.output),
    "content of Anthropic's": (MESSAGE, MESSAGE.content),
    "a reply of Gemini": (CONTENT, gemini.GenerateContentResponse(candidates=[CANDIDATE])),
    "its candidate": (CONTENT, CANDIDATE),
    "a request": (HI, {"model": "m", "messages": [HI]}),
}


@pytest.mark.parametrize(("row", "whole"), WHOLE.values(), ids=WHOLE.keys())
@pytest.mark.parametrize("count", [1, 12, 1_000])
def test_a_reply_in_place_of_its_message_is_refused_in_words(
    row: Any, whole: Any, count: int
) -> None:
    source = [row] * count + [whole]

    with pytest.raises(TranscriptError, match=rf"\[{count}\] holds messages.*in its place"):
        read_transcript(source)
    with pytest.raises(TranscriptError, match="holds messages"):
        read_transcript(source, format=detect_format(source))
    issues = read_transcript(source, partial=True).issues
    assert any(f"[{count}]" in issue.what for issue in issues)


@pytest.mark.parametrize(("source", "name"), OBJECTS.values(), ids=OBJECTS.keys())
def test_the_objects_of_sdks_are_read(source: Any, name: str) -> None:
    asked, reply = read_transcript(source).events

    assert detect_format(source) == name
    assert asked.text == "hi"
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("f", {"a": None})]
