"""However a request was damaged, its session can be sent, and nothing in it is refused."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.json_damage import damage
from tests.malformed_requests import refusals

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}

REQUESTS: dict[str, dict[str, Any]] = {
    "anthropic": {
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "look", "description": "d", "input_schema": SCHEMA}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "hi"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                    },
                    {
                        "type": "document",
                        "source": {
                            "type": "content",
                            "content": [{"type": "text", "text": "inside"}],
                        },
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "so", "signature": "EqQB"},
                    {
                        "type": "server_tool_use",
                        "id": "srvtoolu_1",
                        "name": "web_search",
                        "input": {"query": "q"},
                    },
                    {
                        "type": "web_search_tool_result",
                        "tool_use_id": "srvtoolu_1",
                        "content": [
                            {
                                "type": "web_search_result",
                                "title": "A",
                                "url": "https://x.org",
                                "encrypted_content": "e",
                            }
                        ],
                    },
                    {"type": "tool_use", "id": "t1", "name": "look", "input": {"q": "a"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [
                            {
                                "type": "search_result",
                                "source": "s",
                                "title": "t",
                                "content": [{"type": "text", "text": "found"}],
                            }
                        ],
                    },
                    {"type": "text", "text": "and?"},
                ],
            },
        ],
    },
    "openai_chat": {
        "tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "hi"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                    {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
                ],
            },
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "t1",
                        "type": "function",
                        "function": {"name": "look", "arguments": "{}"},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "t1", "content": [{"type": "text", "text": "seen"}]},
            {"role": "user", "content": "and?"},
        ],
    },
    "openai_responses": {
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "look", "parameters": SCHEMA}],
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "hi"},
                    {"type": "input_image", "image_url": "https://x.org/a.png", "detail": "low"},
                    {"type": "input_file", "filename": "a", "file_url": "https://x.org/a.pdf"},
                ],
            },
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "c1",
                "name": "look",
                "arguments": "{}",
            },
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [{"type": "input_text", "text": "seen"}],
            },
            {
                "type": "additional_tools",
                "role": "developer",
                "tools": [{"type": "function", "name": "more", "parameters": SCHEMA}],
            },
            {"role": "user", "content": "and?"},
        ],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": SCHEMA}]}],
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "hi"},
                    {"inlineData": {"mimeType": "image/png", "data": PNG}},
                    {"fileData": {"mimeType": "video/mp4", "fileUri": "https://x.org/a.mp4"}},
                ],
            },
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "EqQB"},
                ],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "look", "response": {"output": "seen"}}}],
            },
            {"role": "model", "parts": [{"executableCode": {"language": "PYTHON", "code": "1"}}]},
            {"role": "user", "parts": [{"text": "and?"}]},
        ],
    },
}


@pytest.mark.parametrize("read_as", REQUESTS)
async def test_the_whole_request_is_taken(read_as: str) -> None:
    assert await refusals(REQUESTS[read_as], read_as=read_as) == []


@pytest.mark.parametrize("read_as", REQUESTS)
@given(data=st.data(), times=st.integers(1, 3))
@settings(max_examples=40)
async def test_no_damage_makes_a_request_that_cannot_be_sent(
    read_as: str, data: st.DataObject, times: int
) -> None:
    request = damage(
        REQUESTS[read_as], times=times, choose=lambda below: data.draw(st.integers(0, below - 1))
    )

    assert await refusals(request, read_as=read_as) == []


@pytest.mark.parametrize("made_for", REQUESTS)
@given(data=st.data(), read_as=st.sampled_from(sorted(REQUESTS)))
@settings(max_examples=15)
async def test_nor_does_a_reader_that_it_was_not_made_for(
    made_for: str, data: st.DataObject, read_as: str
) -> None:
    request = damage(
        REQUESTS[made_for], times=1, choose=lambda below: data.draw(st.integers(0, below - 1))
    )

    assert await refusals(request, read_as=read_as) == []
