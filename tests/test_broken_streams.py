"""A stream that broke off anywhere can be recorded as it is, and the session goes on."""

from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final

import anthropic
import openai
import pytest
from google import genai
from google.genai.types import HttpOptions

from context_assembler import AssembledContext, ContextAssembler, SessionEvent, ToolCall
from context_assembler.testing import ProviderServer, ScriptedReply, serve_providers
from tests.calling import call_model

RICH: Final = ScriptedReply(
    text="I write both files, one moment.",
    thinking="Both are to be written.",
    tool_calls=tuple(
        ToolCall(call_id=f"toolu_{name}", name="write", arguments={"path": f"/srv/{name}"})
        for name in ("left", "right")
    ),
)
GOES_ON: Final = ScriptedReply(text="Fine.")
PROTOCOLS: Final = {
    "anthropic": "claude-opus-5-5",
    "anthropic, the SDK's events": "claude-opus-5-5",
    "openai_chat": "gpt-4.1",
    "openai_chat, the SDK's events": "gpt-4.1",
    "openai_responses": "gpt-6.2-sol",
    "openai_responses, the SDK's events": "gpt-6.2-sol",
    "gemini": "gemini-4-argon",
}
by_protocol = pytest.mark.parametrize(
    ("protocol", "model"), PROTOCOLS.items(), ids=PROTOCOLS.keys()
)


def write(path: str) -> str:
    """Write a file."""
    return f"{path} is written"


def events_of(server: ProviderServer, protocol: str, context: AssembledContext) -> list[Any]:
    """Return what the SDK yields of a streamed reply."""
    payload: dict[str, Any] = context.to_request()
    if protocol == "gemini":
        google = genai.Client(api_key="x", http_options=HttpOptions(base_url=server.gemini_url))
        models: Any = google.models
        return list(models.generate_content_stream(**payload))
    client: Any = (
        anthropic.Anthropic(base_url=server.anthropic_url, api_key="x")
        if context.provider == "anthropic"
        else openai.OpenAI(base_url=server.openai_url, api_key="x")
    )
    ports = {
        "anthropic": "messages",
        "openai_chat": "chat.completions",
        "openai_responses": "responses",
    }
    port = client
    for name in ports[context.provider].split("."):
        port = getattr(port, name)
    if protocol.endswith("SDK's events"):
        with port.stream(**payload) as stream:
            return list(stream)
    return list(port.create(**payload, stream=True))


async def ask(model: str) -> tuple[ContextAssembler, AssembledContext]:
    assembler = ContextAssembler(
        "memory:", tools=[write], now=lambda: datetime(2026, 11, 1, tzinfo=UTC)
    )
    await assembler.add_user("s", "Write both files.")
    return assembler, await assembler.assemble("s", model=model, max_tokens=2000)


async def stop_behind(
    events: list[Any], model: str, server: ProviderServer
) -> tuple[SessionEvent, AssembledContext]:
    """Record the beginning of a stream, let the user go on, and send what follows."""
    assembler, context = await ask(model)
    *_, answer = await assembler.record("s", events, context)
    for call in answer.tool_calls:
        await assembler.add_tool_result("s", call.call_id, write(**call.arguments))
    await assembler.add_user("s", "Stop! Something else.")
    following = await assembler.assemble("s", model=model, max_tokens=2000)
    await assembler.record("s", await call_model(server, following), following)
    return answer, following


async def stream_once(protocol: str, model: str) -> tuple[list[Any], SessionEvent]:
    assembler, context = await ask(model)
    with serve_providers([RICH]) as server:
        events = events_of(server, protocol, context)
    *_, answer = await assembler.record("s", events, context)
    return events, answer


def beginnings(events: list[Any]) -> list[list[Any]]:
    return list(accumulate(([event] for event in events), lambda before, more: before + more))


@by_protocol
async def test_the_whole_stream_is_the_reply(protocol: str, model: str) -> None:
    _, streamed = await stream_once(protocol, model)
    assembler, context = await ask(model)
    with serve_providers([RICH]) as server:
        *_, whole = await assembler.record("s", await call_model(server, context), context)

    assert streamed.text == whole.text
    assert [(call.name, call.arguments) for call in streamed.tool_calls] == [
        (call.name, call.arguments) for call in whole.tool_calls
    ]
    assert streamed.unfinished_calls == ()
    assert [type(part) for part in streamed.parts] == [type(part) for part in whole.parts]


@by_protocol
async def test_wherever_a_stream_breaks_off_the_session_goes_on(protocol: str, model: str) -> None:
    events, _ = await stream_once(protocol, model)
    whole_calls = {(call.name, str(call.arguments)) for call in RICH.tool_calls}

    with serve_providers([GOES_ON] * len(events)) as server:
        for beginning in beginnings(events):
            answer, following = await stop_behind(beginning, model, server)

            assert RICH.text.startswith(answer.text)
            assert {(call.name, str(call.arguments)) for call in answer.tool_calls} <= whole_calls
            assert following.check() == []
            assert not following.report.warnings or model == "gpt-4.1"
    assert not server.refusals


@by_protocol
async def test_what_came_of_the_text_is_kept(protocol: str, model: str) -> None:
    events, _ = await stream_once(protocol, model)
    texts: set[str] = set()
    for beginning in beginnings(events):
        assembler, context = await ask(model)
        *_, answer = await assembler.record("s", beginning, context)
        texts.add(answer.text)

    assert RICH.text in texts
    assert len(texts) > 2 or protocol == "gemini"


@pytest.mark.parametrize("reply", [[], [{}], [None], [{"type": "ping"}], ["text"]])
@by_protocol
async def test_a_list_that_is_no_stream_is_refused(protocol: str, model: str, reply: Any) -> None:
    assembler, context = await ask(model)

    with pytest.raises(ValueError, match="cannot be recorded"):
        await assembler.record("s", reply, context)
