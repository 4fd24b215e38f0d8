import json
from dataclasses import replace
from enum import Enum
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai.types import (
    BlockedReason,
    Candidate,
    Content,
    FinishReason,
    GenerateContentResponse,
    HttpOptions,
)
from google.genai.types import Part as SdkPart

from context_assembler.errors import ReplyError
from context_assembler.providers import provider_for_reply
from context_assembler.providers.gemini import GEMINI
from context_assembler.values.draft import Reply
from context_assembler.values.events import Usage
from context_assembler.values.parts import Opaque, Part, Text, Thinking, ToolCall
from tests.providers.drafts import GEMINI_4, READ_FILE, draft

THOUGHT = {"text": "Two files.", "thought": True}
CALL = {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "a"}}}
SIGNED_CALL = {**CALL, "thoughtSignature": "c2ln"}
BODY: dict[str, Any] = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [THOUGHT, {"text": "Reading."}, SIGNED_CALL]},
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 130,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 10,
        "cachedContentTokenCount": 100,
        "totalTokenCount": 160,
    },
    "modelVersion": "gemini-4-argon",
    "responseId": "r1",
}
EXPECTED = Reply(
    provider="gemini",
    model="gemini-4-argon",
    parts=(
        Thinking(text="Two files.", provider="gemini"),
        Text("Reading."),
        ToolCall(call_id="c1", name="read_file", arguments={"path": "a"}, signature="c2ln"),
    ),
    response_id="r1",
    stop_reason="STOP",
    usage=Usage(input_tokens=130, output_tokens=30, cache_read_tokens=100, reasoning_tokens=10),
)


def models(body: Any, *, is_stream: bool = False) -> Any:
    """Return the SDK's models; what they take is not fully typed without Pillow."""
    content = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in body) if is_stream else ""
    answer = httpx2.Response(200, text=content) if is_stream else httpx2.Response(200, json=body)
    http_client = httpx2.Client(transport=httpx2.MockTransport(lambda _: answer))
    client = genai.Client(api_key="test", http_options=HttpOptions(httpx_client=http_client))
    return client.models


def body_of(*parts: Any, **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, **candidate}]}


def read(*parts: Any, **candidate: Any) -> Reply:
    return GEMINI.read_reply(body_of(*parts, **candidate), None)


def test_a_reply_is_read_from_the_body() -> None:
    assert GEMINI.read_reply(BODY, None) == EXPECTED


def test_a_reply_is_read_from_the_sdk_s_object() -> None:
    reply = models(BODY).generate_content(model="gemini-4-argon", contents="go")

    assert GEMINI.read_reply(reply, None) == EXPECTED
    assert provider_for_reply(reply) is GEMINI


def test_a_reply_is_read_from_what_the_sdk_dumps() -> None:
    reply = models(BODY).generate_content(model="gemini-4-argon", contents="go")

    dumped = reply.model_dump()

    assert isinstance(dumped["candidates"][0]["finish_reason"], Enum)
    assert GEMINI.read_reply(dumped, None) == EXPECTED


def test_the_chunks_of_a_stream_are_read_as_one_reply() -> None:
    pieces = [
        body_of({"text": "Two ", "thought": True}),
        body_of({"text": "files.", "thought": True}),
        body_of({"text": "Read"}),
        body_of({"text": "ing."}),
        {**BODY, "candidates": [{"content": {"parts": [SIGNED_CALL]}, "finishReason": "STOP"}]},
    ]

    stream = models(pieces, is_stream=True).generate_content_stream(
        model="gemini-4-argon", contents="go"
    )
    chunks = list(stream)

    assert GEMINI.read_reply(chunks, None) == EXPECTED
    assert provider_for_reply(chunks) is GEMINI


def test_what_is_signed_in_a_stream_joins_nothing() -> None:
    chunks = [
        body_of({"text": "Hel"}, {"text": "l"}),
        body_of({"text": "o", "thoughtSignature": "s"}),
        body_of({"text": ""}),
        body_of({"text": "", "thought_signature": "e"}),
    ]

    reply = GEMINI.read_reply(chunks, None)

    last = Thinking(provider="gemini", block={"text": "", "thought_signature": "e"})
    assert reply.parts == (Text("Hel"), Text("l"), Text("o", signature="s"), last)


def test_tools_get_their_names_back() -> None:
    made = draft(limits=GEMINI_4, tools=(replace(READ_FILE, name="läs fil"),))
    sent = GEMINI.render(made)["config"]["tools"][0]["function_declarations"][0]["name"]

    reply = GEMINI.read_reply(body_of({"function_call": {"name": sent}}), made)

    assert isinstance(reply.parts[0], ToolCall)
    assert reply.parts[0].name == "läs fil"


def test_calls_without_ids_get_distinct_ones_that_depend_on_the_reply_alone() -> None:
    bare = {"functionCall": {"name": "read_file", "args": {"path": "a"}}}

    once, again = read(bare, bare), read(bare, bare)
    other = GEMINI.read_reply({**body_of(bare), "responseId": "r2"}, None)

    ids = [part.call_id for part in once.parts if isinstance(part, ToolCall)]
    assert once == again
    assert len(set(ids)) == 2
    assert all(one.startswith("call_") for one in ids)
    assert isinstance(other.parts[0], ToolCall)
    assert other.parts[0].call_id not in ids


PARTS: dict[str, tuple[dict[str, Any], Part]] = {
    "signed text": ({"text": "x", "thoughtSignature": "s"}, Text("x", signature="s")),
    "a signed thought": (
        {"text": "Hm.", "thought": True, "thoughtSignature": "s"},
        Thinking(
            text="Hm.",
            provider="gemini",
            block={"text": "Hm.", "thought": True, "thoughtSignature": "s"},
        ),
    ),
    "a signature alone": (
        {"thoughtSignature": "s"},
        Thinking(provider="gemini", block={"thoughtSignature": "s"}),
    ),
    "code": (
        {"executableCode": {"language": "PYTHON", "code": "1 + 1"}},
        Opaque(
            provider="gemini",
            block={"executableCode": {"language": "PYTHON", "code": "1 + 1"}},
            text="```python\n1 + 1\n```",
        ),
    ),
    "what the code gave": (
        {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "2"}},
        Opaque(
            provider="gemini",
            block={"code_execution_result": {"outcome": "OUTCOME_OK", "output": "2"}},
            text="OUTCOME_OK: 2",
        ),
    ),
    "a server tool's call": (
        {"toolCall": {"toolType": "URL_CONTEXT", "args": {"url": "x"}}},
        Opaque(
            provider="gemini",
            block={"toolCall": {"toolType": "URL_CONTEXT", "args": {"url": "x"}}},
            text='[tool_call URL_CONTEXT {"url":"x"}]',
        ),
    ),
    "a recording": (
        {"inlineData": {"mimeType": "audio/wav", "data": "UklG"}},
        Opaque(
            provider="gemini",
            block={"inlineData": {"mimeType": "audio/wav", "data": "UklG"}},
            text="[audio/wav]",
        ),
    ),
    "a part of a kind to come": (
        {"hologram": {"data": "x"}},
        Opaque(provider="gemini", block={"hologram": {"data": "x"}}),
    ),
}


@pytest.mark.parametrize(("block", "part"), PARTS.values(), ids=PARTS.keys())
def test_a_part_is_read_as(block: dict[str, Any], part: Part) -> None:
    assert read(block).parts == (part,)


def test_sources_stand_behind_the_text() -> None:
    grounding: dict[str, Any] = {
        "groundingChunks": [
            {"web": {"uri": "https://example.com/a", "title": "A"}},
            {"web": {"uri": "https://example.com/a", "title": "A"}},
            {"maps": {}},
        ]
    }
    cited = {"citations": [{"uri": "https://example.com/b"}]}

    reply = read({"text": "x"}, groundingMetadata=grounding, citationMetadata=cited)
    silent = read({"text": "x"}, urlContextMetadata={"urlMetadata": []})

    assert reply.parts[1:] == (
        Opaque(
            provider="gemini",
            block={"grounding_metadata": grounding},
            text="Sources:\nA https://example.com/a",
        ),
        Opaque(
            provider="gemini",
            block={"citation_metadata": cited},
            text="Sources:\nhttps://example.com/b",
        ),
    )
    assert isinstance(silent.parts[1], Opaque)
    assert silent.parts[1].text == ""


BLOCKED = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "weapons"}}
WARNINGS: dict[str, tuple[Any, str]] = {
    "several candidates": ({"candidates": [{}, {}]}, "first of 2 candidates"),
    "a blocked prompt": (BLOCKED, "prompt was blocked: SAFETY (weapons)"),
    "a block without a reason": (
        {"prompt_feedback": {"block_reason": "OTHER"}},
        "prompt was blocked: OTHER.",
    ),
    "no candidate": ({"candidates": [], "usageMetadata": {}}, "no candidate"),
    "usage alone": ({"usageMetadata": {"promptTokenCount": 1}}, "no candidate"),
    "a malformed call": (
        body_of(finishReason="MALFORMED_FUNCTION_CALL", finishMessage="call(("),
        "MALFORMED_FUNCTION_CALL: call((",
    ),
    "a missing signature": (
        body_of(finishReason="MISSING_THOUGHT_SIGNATURE"),
        "MISSING_THOUGHT_SIGNATURE.",
    ),
    "a cut-off call": (body_of(CALL, finishReason="MAX_TOKENS"), "cut off inside the call 'c1'"),
    "a continuation": (
        body_of({"text": "x"}, finishReason="CONTINUATION", continuationToken="dG9r"),
        "continuation_token",
    ),
}


@pytest.mark.parametrize(("body", "warning"), WARNINGS.values(), ids=WARNINGS.keys())
def test_a_reply_warns_of(body: Any, warning: str) -> None:
    reply = GEMINI.read_reply(body, None)

    assert GEMINI.matches_reply(body)
    assert warning in " ".join(reply.warnings)


GOOD_ENDS = {"FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS"}


@pytest.mark.parametrize("reason", [reason.value for reason in FinishReason])
def test_every_end_of_a_reply_is_kept_and_a_bad_one_is_told(reason: str) -> None:
    reply = read({"text": "x"}, finishReason=reason)

    told = " ".join(reply.warnings)
    assert reply.stop_reason == reason
    assert reply.parts == (Text("x"),)
    assert (reason in told or "goes on" in told) == (reason not in GOOD_ENDS)


@pytest.mark.parametrize("reason", [reason.value for reason in BlockedReason])
def test_every_block_of_a_prompt_is_told(reason: str) -> None:
    reply = GEMINI.read_reply({"promptFeedback": {"blockReason": reason}}, None)

    assert reply.parts == ()
    assert reply.warnings == (f"The prompt was blocked: {reason}.",)


def test_what_goes_on_keeps_its_token() -> None:
    reply = read({"text": "x"}, finishReason="CONTINUATION", continuationToken="dG9r")

    assert reply.parts == (
        Text("x"),
        Opaque(provider="gemini", block={"continuation_token": "dG9r"}),
    )
    assert len(reply.warnings) == 1


def test_the_first_candidate_is_told_by_its_index() -> None:
    def chunk(index: int, text: str) -> dict[str, Any]:
        return {"candidates": [{"index": index, "content": {"parts": [{"text": text}]}}]}

    reply = GEMINI.read_reply([chunk(1, "no"), chunk(0, "a"), chunk(1, "no"), chunk(0, "b")], None)

    assert reply.parts == (Text("ab"),)
    assert reply.warnings == ("Only the first of 2 candidates was read.",)


def test_what_the_sdk_called_by_itself_is_not_part_of_the_reply() -> None:
    history = [{"role": "user", "parts": [{"text": "go"}]}]

    reply = GEMINI.read_reply({**BODY, "automaticFunctionCallingHistory": history}, None)

    assert reply == EXPECTED


def streamed(*calls: dict[str, Any], **candidate: Any) -> Reply:
    made = draft(limits=GEMINI_4, tools=(replace(READ_FILE, name="läs fil"),))
    sent = GEMINI.render(made)["config"]["tools"][0]["function_declarations"][0]["name"]
    opening = {"functionCall": {"name": sent, "id": "c1", "willContinue": True}}
    chunks = [body_of({"text": "Reading."}), body_of({**opening, "thoughtSignature": "s"})]
    chunks += [body_of({"functionCall": call}, **candidate) for call in calls]
    return GEMINI.read_reply(chunks, made)


def test_a_call_that_is_streamed_in_pieces_is_one_call() -> None:
    path = {"jsonPath": "$.path", "willContinue": True}

    reply = streamed(
        {"partialArgs": [{**path, "stringValue": "a."}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.path", "stringValue": "txt"}], "willContinue": True},
        {},
    )

    assert reply.parts == (
        Text("Reading."),
        ToolCall(call_id="c1", name="läs fil", arguments={"path": "a.txt"}, signature="s"),
    )
    assert reply.warnings == ()


def test_a_call_whose_rest_never_came_is_told() -> None:
    reply = streamed(
        {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}], "willContinue": True}
    )

    assert reply.warnings == ("The reply was cut off inside the call 'c1'.",)


def test_a_reply_full_of_nothing_is_read() -> None:
    empty = GenerateContentResponse(candidates=[Candidate(content=Content(parts=[SdkPart()]))])
    dumped = {"candidates": [{"content": None, "finish_reason": None}], "usage_metadata": None}

    assert GEMINI.read_reply(empty, None).parts in ((), (Opaque(provider="gemini", block={}),))
    assert GEMINI.read_reply(dumped, None) == Reply(provider="gemini", model="", parts=())


def test_the_object_of_another_version_of_the_sdk_is_read() -> None:
    class Older:
        """What matters of an object that is made by pydantic."""

        def model_dump(self, **_options: Any) -> dict[str, Any]:
            return {**BODY, "sdk_http_response": None, "parsed": None}

    assert GEMINI.read_reply(Older(), None) == EXPECTED


def test_arguments_that_are_no_json_are_kept_as_text() -> None:
    reply = read({"functionCall": {"name": "f", "args": {"x": float("nan")}}})

    [part] = reply.parts
    assert isinstance(part, ToolCall)
    assert (part.arguments, part.arguments_json) == ({}, '{"x":NaN}')


def test_a_reply_that_ends_well_warns_of_nothing() -> None:
    assert read({"text": "x"}, finishReason="MAX_TOKENS").warnings == ()
    assert GEMINI.read_reply(BODY, None).warnings == ()


def test_a_reply_without_usage_has_none() -> None:
    assert read({"text": "x"}).usage is None


UNREADABLE: dict[str, Any] = {
    "text": "hello",
    "nothing": None,
    "an empty object": {},
    "an empty stream": [],
    "another provider's": {"choices": [], "usage": {}},
    "candidates that are none": {"candidates": ["x"]},
    "a stream of something else": [BODY, "x"],
}


@pytest.mark.parametrize("reply", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_is_no_reply_is_refused(reply: Any) -> None:
    assert not GEMINI.matches_reply(reply)

    with pytest.raises(ReplyError):
        GEMINI.read_reply(reply, None)
