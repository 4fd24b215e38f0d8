"""The local provider's Gemini API, spoken to by the official SDK."""

from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai.errors import ClientError
from google.genai.types import HttpOptions

from context_assembler import ContextAssembler
from context_assembler.testing import (
    ProviderServer,
    ScriptedError,
    ScriptedReply,
    serve_providers,
)
from context_assembler.values.parts import Text, Thinking, ToolCall

ARGON = "gemini-4-argon"
CALL = ToolCall(call_id="call_1", name="read_file", arguments={"path": "a.txt"})
TOOL: dict[str, Any] = {
    "name": "read_file",
    "description": "Read one file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
}


def models_of(server: ProviderServer) -> Any:  # what they take is not fully typed without Pillow
    client = genai.Client(api_key="test", http_options=HttpOptions(base_url=server.gemini_url))
    return _kept(client)


def _kept(client: genai.Client) -> Any:
    """Return the client's models with the client: once it is forgotten, it is closed."""
    models: Any = client.models
    models.client = client
    return models


@pytest.fixture
def echo() -> Iterator[ProviderServer]:
    with serve_providers() as server:
        yield server


def test_the_model_repeats_what_it_heard(echo: ProviderServer) -> None:
    reply = models_of(echo).generate_content(model=ARGON, contents="hello")

    assert reply.text == "You said: hello"
    assert reply.model_version == ARGON
    assert echo.requests[0].provider == "gemini"


def test_the_sdk_finds_the_server_by_the_environment(
    echo: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in echo.environment.items():
        monkeypatch.setenv(name, value)
    models = _kept(genai.Client())

    assert models.generate_content(model=ARGON, contents="hello").text == "You said: hello"


def test_media_and_files_are_counted(echo: ProviderServer) -> None:
    parts = [
        {"text": "look"},
        {"inline_data": {"mime_type": "application/pdf", "data": "JVBERi0="}},
        {"executable_code": {"language": "PYTHON", "code": "1"}},
    ]

    reply = models_of(echo).generate_content(
        model=ARGON,
        contents=[{"role": "user", "parts": parts}],
        config={"system_instruction": "Be brief."},
    )

    assert reply.usage_metadata.prompt_token_count > 1_000


def test_a_stream_adds_up_to_the_reply() -> None:
    script = [ScriptedReply(thinking="Hm.", text="Reading.", tool_calls=(CALL,))]
    with serve_providers(script) as server:
        chunks = list(models_of(server).generate_content_stream(model=ARGON, contents="go"))

    parts = [part for c in chunks for part in (c.candidates[0].content or _Nothing).parts or []]
    assert [part.text for part in parts] == ["Hm.", "Reading.", None]
    assert parts[2].thought_signature
    assert chunks[-1].candidates[0].finish_reason == "STOP"


class _Nothing:
    parts: tuple[Any, ...] = ()


REFUSED: dict[str, tuple[Any, int, str]] = {
    "a rule that is broken": (
        {"model": ARGON, "contents": [{"role": "assistant", "parts": [{"text": "x"}]}]},
        400,
        "G1",
    ),
    "a signature of nobody": (
        {
            "model": ARGON,
            "contents": [
                {"role": "user", "parts": [{"text": "x"}]},
                {"role": "model", "parts": [{"text": "y", "thought_signature": "c2ln"}]},
                {"role": "user", "parts": [{"text": "x"}]},
            ],
        },
        400,
        "Corrupted thought signature",
    ),
    "a prompt that is too long": (
        {"model": ARGON, "contents": "word " * 1_200_000},
        400,
        "exceeds the maximum number of tokens",
    ),
    "a model that does not exist": ({"model": "gemini-9-xenon", "contents": "x"}, 404, "gemini-9"),
}


@pytest.mark.parametrize(("request_", "status", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_is_refused_in_gemini_s_words(
    echo: ProviderServer, request_: dict[str, Any], status: int, words: str
) -> None:
    with pytest.raises(ClientError, match=words) as caught:
        models_of(echo).generate_content(**request_)

    assert caught.value.code == status


def test_the_script_may_refuse() -> None:
    with (
        serve_providers([ScriptedError(status=429, message="Slow down.")]) as server,
        pytest.raises(ClientError, match=r"Slow down\."),
    ):
        models_of(server).generate_content(model=ARGON, contents="x")


def test_a_model_that_does_not_think_signs_nothing(echo: ProviderServer) -> None:
    reply = models_of(echo).generate_content(model="gemini-2.0-flash", contents="hello")

    assert reply.candidates[0].content.parts[0].thought_signature is None


async def test_a_whole_loop_keeps_its_signatures_and_grows_only() -> None:
    """Two steps with a call, then another model: its predecessor's signatures stay behind."""
    script = [
        ScriptedReply(thinking="I read it.", text="Reading.", tool_calls=(CALL,)),
        ScriptedReply(text="It says hello."),
        ScriptedReply(text="Bye."),
    ]
    assembler = ContextAssembler(tools=[TOOL])
    await assembler.add_user("s", "read a.txt")
    with serve_providers(script) as server:
        models = models_of(server)
        first = await assembler.assemble("s", model=ARGON)
        await assembler.record("s", models.generate_content(**first.to_request()), first)
        await assembler.add_tool_result("s", "call_1", "hello")
        second = await assembler.assemble("s", model=ARGON)
        await assembler.record("s", models.generate_content(**second.to_gemini()), second)
        await assembler.add_user("s", "thanks")
        other = await assembler.assemble("s", model="gemini-4-neon")
        models.generate_content(**other.to_gemini())

    sent = second.to_gemini()["contents"]
    assert sent[: len(first.to_gemini()["contents"])] == first.to_gemini()["contents"]
    assert "skip" not in str(sent[1])
    assert sent[1]["parts"][1]["thought_signature"] == _signature_of(second)
    assert server.refusals == ()
    assert _signature_of(other) is None
    rows = [entry for entry in other.report.entries if entry.rule == "reasoning.model"]
    assert "2 thought signature(s)" in rows[0].reason


def _signature_of(context: Any) -> str | None:
    reply = next(m for m in context.messages if m.role == "assistant")
    assert not any(isinstance(part, Thinking) for part in reply.parts)
    assert isinstance(reply.parts[0], Text)
    signature: str | None = reply.tool_calls[0].signature
    return signature
