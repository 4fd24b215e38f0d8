"""What people hand in: content of any provider, SDK and of MCP becomes parts, and the rest JSON."""

import json
import warnings
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import pytest
from anthropic.types import TextBlock, ToolUseBlock
from google.genai import types as genai
from mcp import types as mcp
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic import BaseModel

from context_assembler import (
    Base64Source,
    ContextAssembler,
    Document,
    FileIdSource,
    Image,
    Opaque,
    Text,
    ToolResult,
    UrlSource,
    read_transcript,
)
from context_assembler.errors import ContentError, ReplyError

PNG_BYTES = b"\x89PNG\r\n\x1a\n" + bytes(3_000)
PNG = b64encode(PNG_BYTES).decode()
PDF = b64encode(b"%PDF-1.4 " + bytes(3_000)).decode()
URL = "https://example.org/a.png"
PNG_URL, PDF_URL = f"data:image/png;base64,{PNG}", f"data:application/pdf;base64,{PDF}"

PICTURE = Image(source=Base64Source(media_type="image/png", data=PNG))
AT_URL = Image(source=UrlSource(url=URL))
PAPER = Document(source=Base64Source(media_type="application/pdf", data=PDF))
HI = Text("Hi.")

SAID: Any = {"type": "text", "text": "Hi."}
BLOCK: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
PDF_SOURCE = {"type": "base64", "media_type": "application/pdf", "data": PDF}
CHAT_URL: Any = {"type": "image_url", "image_url": {"url": URL}}
MCP_PICTURE: Any = {"type": "image", "data": PNG, "mimeType": "image/png"}
RESOURCE: Any = {"uri": "file:///a", "mimeType": "image/png", "blob": PNG}
BY_ID = Document(source=FileIdSource(provider="openai_responses", file_id="file-1"))
CONTENT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "Anthropic: text and a picture": ([SAID, BLOCK], (HI, PICTURE)),
    "Anthropic: one block": (BLOCK, (PICTURE,)),
    "Anthropic: an address": ([BLOCK | {"source": {"type": "url", "url": URL}}], (AT_URL,)),
    "Anthropic: a PDF": ([{"type": "document", "source": PDF_SOURCE}], (PAPER,)),
    "Anthropic: an SDK's block": (TextBlock(type="text", text="Hi."), (HI,)),
    "Chat": ([SAID, CHAT_URL], (HI, AT_URL)),
    "Chat: a data URL": ([CHAT_URL | {"image_url": {"url": PNG_URL}}], (PICTURE,)),
    "Chat: a file": ([{"type": "file", "file": {"file_data": PDF_URL}}], (PAPER,)),
    "Responses": (
        [{"type": "input_text", "text": "Hi."}, {"type": "input_image", "image_url": URL}],
        (HI, AT_URL),
    ),
    "Responses: a file by its id": ([{"type": "input_file", "file_id": "file-1"}], (BY_ID,)),
    "Gemini": (
        [{"text": "Hi."}, {"inline_data": {"mime_type": "image/png", "data": PNG}}],
        (HI, PICTURE),
    ),
    "Gemini: in camel case": (
        [{"text": "Hi."}, {"inlineData": {"mimeType": "image/png", "data": PNG}}],
        (HI, PICTURE),
    ),
    "Gemini: the SDK's parts": (
        ["Hi.", genai.Part.from_bytes(data=PNG_BYTES, mime_type="image/png")],
        (HI, PICTURE),
    ),
    "MCP": ([SAID, MCP_PICTURE], (HI, PICTURE)),
    "MCP: the SDK's block": (
        mcp.ImageContent(type="image", data=PNG, mime_type="image/png"),
        (PICTURE,),
    ),
    "MCP: a resource of text": (
        [{"type": "resource", "resource": {"uri": "file:///a", "text": "Hi."}}],
        (Text("file:///a\nHi."),),
    ),
    "MCP: a resource that is a picture": ([{"type": "resource", "resource": RESOURCE}], (PICTURE,)),
    "MCP: a link": (
        [{"type": "resource_link", "uri": "file:///a", "name": "A"}],
        (Text("[A](file:///a)"),),
    ),
    "ours and others mixed": ([HI, BLOCK, "Hi."], (HI, PICTURE, HI)),
    "an SDK's text of a reply": (
        ResponseOutputText(type="output_text", text="Hi.", annotations=[]),
        (HI,),
    ),
    "MCP: a picture, in snake case": (
        [{"type": "image", "data": PNG, "mime_type": "image/png"}],
        (PICTURE,),
    ),
    "bytes of a picture": (PNG_BYTES, (PICTURE,)),
    "our part": (PICTURE, (PICTURE,)),
    "text": ("Hi.", (HI,)),
}
each_content = pytest.mark.parametrize(("given", "parts"), CONTENT.values(), ids=CONTENT.keys())


@pytest.fixture
async def assembler() -> ContextAssembler:
    made = ContextAssembler()
    await made.add_user("s", "Look.")
    return made


async def returned(assembler: ContextAssembler, value: Any) -> ToolResult:
    [part] = (await assembler.add_tool_result("s", "c1", value)).parts
    assert isinstance(part, ToolResult)
    return part


@each_content
async def test_a_user_may_say_content_of_any_provider(
    assembler: ContextAssembler, given: Any, parts: tuple[Any, ...]
) -> None:
    event = await assembler.add_user("s", given)

    assert (event.parts, event.metadata) == (parts, {})


@each_content
async def test_a_tool_may_return_content_of_any_provider(
    assembler: ContextAssembler, given: Any, parts: tuple[Any, ...]
) -> None:
    assert (await returned(assembler, given)).content == parts


async def test_a_users_text_with_citations_is_sent_without_them(
    assembler: ContextAssembler,
) -> None:
    cited = {"type": "text", "text": "So it is.", "citations": [{"cited_text": "It is."}]}
    [imported] = read_transcript({"messages": [{"role": "user", "content": [cited]}]}).events
    event = await assembler.add_user("s", [cited])
    await assembler.sessions.append("s", [imported])

    context = await assembler.assemble("s", model="claude-opus-5-5", max_tokens=1000)

    assert (event.parts, context.check().refused) == ((Text("So it is."),), [])
    assert "citations" in event.metadata["warnings"]


async def test_a_picture_of_a_tool_is_sent_as_a_picture(assembler: ContextAssembler) -> None:
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    reply = {"type": "message", "id": "m", "content": [call], "stop_reason": "tool_use"}
    context = await assembler.assemble("s", model="claude-opus-5-5", max_tokens=1000)
    await assembler.record("s", reply, context)
    await assembler.add_tool_result("s", "c1", [BLOCK])

    payload = (await assembler.assemble("s", model="claude-opus-5-5")).to_request()

    [result] = payload["messages"][-1]["content"]
    assert result["content"] == [BLOCK]


SOUND = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
AUDIO: dict[str, tuple[Any, str]] = {
    "Chat": (SOUND, "openai_chat"),
    "Gemini": ({"inline_data": {"mime_type": "audio/wav", "data": "AAAA"}}, "gemini"),
}


@pytest.mark.parametrize(("given", "provider"), AUDIO.values(), ids=AUDIO.keys())
async def test_sound_stays_its_providers(
    assembler: ContextAssembler, given: Any, provider: str
) -> None:
    [said] = (await assembler.add_user("s", [given])).parts
    [heard] = (await returned(assembler, [given])).content

    assert said == heard
    assert isinstance(said, Opaque)
    assert said.provider == provider


class Weather(BaseModel):
    type: str = "text"
    degrees: int = 7


# What merely looks like content is a value: nothing of it is lost.
VALUES: dict[str, Any] = {
    "a list of files": [{"type": "file", "path": "a"}, {"type": "directory", "path": "b"}],
    "found pictures": [{"type": "image", "url": URL, "title": "A"}],
    "a picture's source": {"type": "image", "source": "A"},
    "a text with a page": [{"type": "text", "text": "Hi.", "page": 3}],
    "a field called text": {"text": "Hi."},
    "a field called file": {"type": "file", "file": "a"},
    "a field called file_data": {"file_data": "a"},
    "a field called content": {"content": ["a"]},
    "a resource": {"type": "resource", "resource": "ore"},
    "a type that is a list": {"type": ["a"]},
    "a type that is a number": {"type": 7, "text": "a"},
    "no type": {"type": None},
    "blocks within a list": [[{"type": "text", "text": "a"}]],
    "one block and a value": [{"type": "text", "text": "a"}, 7],
    "a cited text and a value": [{"type": "text", "text": "a", "citations": ["b"]}, 7],
    "words": ["a", "b"],
    "nothing": None,
    "an empty list": [],
    "a number": 7,
    "an object": {"a": [1]},
    "a model": Weather(),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_what_merely_looks_like_content_is_told_as_json(
    assembler: ContextAssembler, value: Any
) -> None:
    event = await assembler.add_tool_result("s", "c1", value)

    assert (event.seq, event.type, event.origin) == (2, "tool_result", "tool")
    told = json.dumps(value.model_dump() if isinstance(value, Weather) else value)
    assert event.parts == (ToolResult(call_id="c1", content=(Text(told),)),)
    assert event.metadata == {}


@dataclass
class Shot:
    screen: str


WHOLE: dict[str, tuple[Any, tuple[Any, ...], bool]] = {
    "MCP": ({"content": [{"type": "text", "text": "No."}], "isError": True}, (Text("No."),), True),
    "MCP: the SDK's": (
        mcp.CallToolResult(content=[mcp.TextContent(type="text", text="Hi.")]),
        (HI,),
        False,
    ),
    "MCP: structured alone": (
        {"content": [], "structuredContent": {"a": 1}, "isError": False},
        (Text('{"a":1}'),),
        False,
    ),
    "MCP: structured besides": (
        {"content": [SAID], "structuredContent": {"a": 1}},
        (HI, Text('{"a":1}')),
        False,
    ),
    "MCP: structured as the text": (
        {"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": 1}},
        (Text('{"a": 1}'),),
        False,
    ),
    "Anthropic": (
        {"type": "tool_result", "tool_use_id": "x", "content": [BLOCK], "is_error": True},
        (PICTURE,),
        True,
    ),
    "Chat": ({"role": "tool", "tool_call_id": "x", "content": "Hi."}, (HI,), False),
    "ours": (ToolResult(call_id="x", content=(HI,), is_error=True), (HI,), True),
    "a data URL": (PNG_URL, (Image(source=UrlSource(url=PNG_URL)),), False),
}


@pytest.mark.parametrize(("value", "parts", "is_error"), WHOLE.values(), ids=WHOLE)
async def test_a_whole_result_is_taken_apart(
    assembler: ContextAssembler, value: Any, parts: tuple[Any, ...], *, is_error: bool
) -> None:
    result = ToolResult(call_id="c1", content=parts, is_error=is_error)
    assert await returned(assembler, value) == result


@pytest.mark.parametrize(
    "value",
    [PNG, {"screen": PNG}, Shot(PNG), {"pages": [{"a": PDF}]}, f"see data:image/png;base64,{PNG}"],
)
async def test_a_picture_as_text_is_warned_of(assembler: ContextAssembler, value: Any) -> None:
    with pytest.warns(UserWarning, match="sent as text"):
        event = await assembler.add_tool_result("s", "c1", value)

    assert "sent as text" in event.metadata["warnings"]


SMALL = PNG[:100]  # smaller than any picture that is worth looking at
FOREIGN: dict[str, Any] = {
    "Bedrock": {"image": {"format": "png", "source": {"bytes": SMALL}}},
    "Bedrock: a document": {"document": {"name": "a", "source": {"bytes": PDF[:100]}}},
    "AI SDK: a data URL": {"type": "image", "image": PNG_URL[:100], "mediaType": "image/png"},
    "AI SDK: bare": {"type": "image", "image": SMALL, "mediaType": "image/png"},
    "AI SDK: a file": {"type": "file", "data": SMALL, "mediaType": "image/png"},
    "AI SDK: media": {"type": "media", "data": SMALL, "mediaType": "image/png"},
    "LangChain": {"type": "image", "base64": SMALL, "mime_type": "image/png"},
    "a name of its own": {"screenshot": SMALL},
}


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize("value", FOREIGN.values(), ids=FOREIGN)
async def test_a_picture_in_another_program_s_shape_is_warned_of(
    assembler: ContextAssembler, value: Any, *, is_listed: bool
) -> None:
    with pytest.warns(UserWarning, match="sent as text"):
        event = await assembler.add_tool_result("s", "c1", [value] if is_listed else value)

    assert "sent as text" in event.metadata["warnings"]


@pytest.mark.parametrize(
    "value",
    [
        {"a": "word " * 2_000, "b": "A" * 5_000},
        f'<img src="data:image/png;base64,{SMALL}">',
        f'a {{ background: url("data:image/png;base64,{SMALL}") }}',
        {"path": "/9j/a", "id": "R0lGOD"},
    ],
)
async def test_long_text_is_not_warned_of(assembler: ContextAssembler, value: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        event = await assembler.add_tool_result("s", "c1", value)

    assert event.metadata == {}


MESSAGES: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "a name": (
        {"role": "user", "name": "ada", "content": "Hi."},
        (HI,),
        {"openai_chat": {"name": "ada"}},
    ),
    "a name and a picture": (
        {"role": "user", "name": "ada", "content": [CHAT_URL]},
        (AT_URL,),
        {"openai_chat": {"name": "ada"}},
    ),
    "Responses": (
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
        (HI,),
        {},
    ),
    "Gemini": ({"role": "user", "parts": [{"text": "Hi."}]}, (HI,), {}),
    "Gemini: the SDK's": (genai.Content(role="user", parts=[genai.Part(text="Hi.")]), (HI,), {}),
}


@pytest.mark.parametrize(("given", "parts", "metadata"), MESSAGES.values(), ids=MESSAGES.keys())
async def test_a_message_keeps_its_other_fields(
    assembler: ContextAssembler, given: Any, parts: tuple[Any, ...], metadata: Any
) -> None:
    event = await assembler.add_user("s", given)

    assert (event.parts, event.metadata) == (parts, metadata)


@pytest.mark.parametrize("given", [7, None, {"a": 1}, [{"a": 1}], [7], {"role": "assistant"}])
async def test_what_nobody_can_say_is_refused(assembler: ContextAssembler, given: Any) -> None:
    with pytest.raises(ContentError, match="must be text or parts"):
        await assembler.add_user("s", given)


@pytest.mark.parametrize(
    "kind",
    [
        *("hologram", "refusal", "image_file", "video_url", "audio", "media", "reference"),
        *("tool_use", "thinking", "reasoning", "function_call_output", "item_reference"),
    ],
)
async def test_what_no_user_says_is_refused_by_its_type(
    assembler: ContextAssembler, kind: str
) -> None:
    part = {"type": kind, "data": "a", "id": "i", kind: {"url": URL}, "output": "a"}

    for given in (part, [part], [SAID, part], {"role": "user", "content": [SAID, part]}):
        with pytest.raises(ContentError, match=f"of type '{kind}'"):
            await assembler.add_user("s", given)

    assert [event.text async for event in assembler.sessions.load("s")] == ["Look."]


async def test_a_user_may_say_the_other_blocks_of_anthropic(assembler: ContextAssembler) -> None:
    upload = {"type": "container_upload", "file_id": "file_1"}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "Hi."}

    event = await assembler.add_user("s", [upload, result])

    assert isinstance(event.parts[0], Opaque)
    assert event.parts[0].block == upload
    assert event.parts[1] == ToolResult(call_id="c1", content=(HI,))


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
ASKS: Any = {"role": "assistant", "content": "Hi.", "tool_calls": [CALL]}
USES: Any = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
GEMINI_CALL: Any = {"function_call": {"id": "c1", "name": "f", "args": {"a": 1}}}
SDK_SAID, SDK_USES = TextBlock(type="text", text="Hi."), ToolUseBlock.model_validate(USES)
SAYS: Any = {"type": "output_text", "text": "Hi.", "annotations": []}
ABOUT: Any = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
ITEM: Any = {**ABOUT, "content": [SAYS]}
CALL_ITEM: Any = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}
OUTPUT: Any = [
    ResponseOutputMessage.model_validate(ITEM),
    ResponseFunctionToolCall.model_validate(CALL_ITEM),
]
ASKED: Any = {**ITEM, "role": "user", "content": [{"type": "input_text", "text": "Hm?"}]}
NO_REPLIES: dict[str, Any] = {
    "what a user said": ASKED,
    "a list of it": [ASKED],
    "the whole conversation": [ASKED, ITEM, CALL_ITEM],
    "without types": [{"role": "user", "content": "Hm?"}, *OUTPUT],
    "blocks of Anthropic's": [{"type": "text", "text": "Hi."}, USES],
    "calls of Chat's": [CALL],
    "thoughts alone": [{"type": "reasoning", "id": "rs_1", "summary": []}],
    "messages of Chat's": [{"role": "user", "content": "Hm?"}, ASKS],
    "the message of one": ChatCompletionMessage.model_validate(ASKS),
    "its content": {"role": "assistant", "content": [SAID, USES]},
    "its content by Gemini": {"role": "model", "parts": [{"text": "Hi."}]},
    "an item": ITEM,
    "the output": OUTPUT,
    "nothing": None,
    "a text": "Hm?",
    "a field": {"text": "Hm?"},
    "an empty list": [],
}


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-4.1", "gpt-5.5", "gemini-2.5-pro"])
@pytest.mark.parametrize("given", NO_REPLIES.values(), ids=NO_REPLIES.keys())
async def test_what_is_no_reply_is_refused(
    assembler: ContextAssembler, model: str, given: Any
) -> None:
    context = await assembler.assemble("s", model=model, max_tokens=1000)

    with pytest.raises(ReplyError):
        await assembler.record("s", given, context)
    assert (await assembler.sessions.head("s")).last_seq == 1


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize("named", [{"call_id": "c1"}, {}])
async def test_a_tool_may_return_an_output_of_openais_own(
    assembler: ContextAssembler, *, is_listed: bool, named: dict[str, str]
) -> None:
    shown = {"type": "computer_screenshot", "image_url": URL}
    checks = [{"id": "sc_1", "code": "odd_domain", "message": "Careful."}]
    output: dict[str, Any] = {"type": "computer_call_output", "output": shown, **named}
    output["acknowledged_safety_checks"] = checks

    stored = await assembler.add_tool_result("s", "c1", [output] if is_listed else output)

    [result] = stored.parts
    assert isinstance(result, ToolResult)
    [part] = result.content
    assert isinstance(part, Opaque)
    assert part.block["acknowledged_safety_checks"] == checks
    assert part.block["output"] == shown
