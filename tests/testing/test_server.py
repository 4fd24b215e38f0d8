"""The local provider: what real SDKs send it and get, and what it refuses as the real ones do."""

import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from context_assembler import ContextAssembler, SessionEvent, ToolCall
from context_assembler.testing import (
    ProviderServer,
    ScriptedError,
    ScriptedReply,
    WordCounter,
    serve_providers,
    stand_in_for_providers,
)

CALL = ToolCall(call_id="toolu_1", name="ping", arguments={"host": "a"})
SCRIPT = (
    ScriptedReply("Let me see.", (CALL,), thinking="A ping will tell."),
    ScriptedReply("It answers.", thinking="It did."),
)
OPUS, SOL = "claude-opus-5-5", "gpt-6.2-sol"
CHAT_PATH, RESPONSES_PATH = "/v1/chat/completions", "/v1/responses"


def ping(host: str) -> str:
    """See whether a machine answers."""
    return f"pong from {host}"


def post(server: ProviderServer, path: str, **body: Any) -> tuple[int, Any]:
    """Send JSON and return the status and the answer."""
    request = Request(server.url + path, json.dumps(body).encode(), {"anthropic-version": "new"})
    try:
        with urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


def said(*texts: str, role: str = "user") -> list[dict[str, Any]]:
    """Return messages of user and assistant in turn."""
    roles = [role, "assistant" if role == "user" else "user"]
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    """A server whose model repeats what it heard."""
    with serve_providers(counter=WordCounter()) as running:
        yield running


def send(kind: str, server: ProviderServer, context: Any) -> Any:
    """Send a context by the vendor's own SDK; a streamed reply is the list of its events."""
    name, _, stream = kind.partition(" ")
    more: Any = {"stream": True} if stream else {}
    if name == "anthropic":
        from anthropic import Anthropic

        client: Any = Anthropic(base_url=server.anthropic_url, api_key="test")
        reply = client.messages.create(**context.to_anthropic(), **more)
    elif name == "gemini":
        from google.genai import Client

        client = Client(api_key="test", http_options={"base_url": server.gemini_url})
        ask = client.models.generate_content_stream if stream else client.models.generate_content
        reply = ask(**context.to_gemini())
    else:
        from openai import OpenAI

        client = OpenAI(base_url=server.openai_url, api_key="test")
        if name == "chat":
            more |= {"stream_options": {"include_usage": True}} if stream else {}
            reply = client.chat.completions.create(**context.to_openai_chat(), **more)
        else:
            reply = client.responses.create(**context.to_openai_responses(), **more)
    return list(reply) if stream else reply


MODELS = {"anthropic": OPUS, "chat": "gpt-4.1", "responses": SOL, "gemini": "gemini-4-argon"}
KINDS = [f"{name}{stream}" for name in MODELS for stream in ("", " stream")]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_agent_loop_runs_by_the_vendors_own_sdk(kind: str) -> None:
    model = MODELS[kind.partition(" ")[0]]
    with serve_providers(SCRIPT) as server:
        async with ContextAssembler(sessions="memory:", tools=[ping]) as assembler:
            await assembler.add_user("s", "Is it up?")
            events: list[SessionEvent] = []
            for _ in SCRIPT:
                context = await assembler.assemble("s", model=model, max_tokens=4000)
                events = await assembler.record("s", send(kind, server, context), context)
                for call in events[-1].tool_calls:
                    await assembler.add_tool_result("s", call.call_id, ping(**call.arguments))

    assert [seen.status for seen in server.requests] == [200, 200]
    assert all(seen.usage and not seen.left_out for seen in server.requests)
    assert events[-1].text == "It answers."
    usage, reported = server.requests[-1].usage, events[-1].made_by and events[-1].made_by.usage
    assert usage
    assert reported
    assert reported.input_tokens == usage.input_tokens


def test_without_a_script_the_model_repeats_what_it_heard(server: ProviderServer) -> None:
    _, anthropic = post(server, "/v1/messages", model=OPUS, max_tokens=9, messages=said("Hi you."))
    _, chat = post(server, CHAT_PATH, model="gpt-4.1", messages=said("Hi."))
    _, responses = post(server, RESPONSES_PATH, model=SOL, input="Hello.")
    path = "/v1beta/models/gemini-4-argon:generateContent"
    _, gemini = post(server, path, contents=[{"role": "user", "parts": [{"text": "Hey."}]}])

    assert anthropic["content"][0]["text"] == "You said: Hi you."
    assert chat["choices"][0]["message"]["content"] == "You said: Hi."
    assert responses["output"][0]["content"][0]["text"] == "You said: Hello."
    assert gemini["candidates"][0]["content"]["parts"][0]["text"] == "You said: Hey."


REFUSED = {
    "a broken rule": (400, "/v1/messages", {"model": OPUS, "messages": said("Hi.")}, "max_tokens"),
    "an unknown model": (404, CHAT_PATH, {"model": "gpt-0", "messages": said("Hi.")}, "gpt-0"),
    "an unknown path": (404, "/v2/chat", {"model": OPUS}, "Nothing answers"),
    "a long prompt": (
        400,
        CHAT_PATH,
        {"model": "gpt-4.1", "messages": said("word " * 1_100_000)},
        "maximum context length is 1047576 tokens",
    ),
}


@pytest.mark.parametrize(("status", "path", "body", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_request_is_refused_in_the_provider_s_shape(
    server: ProviderServer, status: int, path: str, body: dict[str, Any], says: str
) -> None:
    code, answer = post(server, path, **body)

    assert code == status
    assert says in answer["error"]["message"]
    assert [seen.status for seen in server.refusals] in ([status], [])


def test_a_script_may_hold_errors_and_must_be_played_to_its_end() -> None:
    short, script = (ScriptedError(),), (ScriptedReply("Fine."), ScriptedReply("Never asked for."))
    body = {"model": OPUS, "max_tokens": 9, "messages": said("Hi.")}
    codes: list[int] = []

    def play(lines: Any, times: int) -> None:
        with serve_providers(lines) as server:
            codes.extend(post(server, "/v1/messages", **body)[0] for _ in range(times))

    play(short, 2)
    with pytest.raises(AssertionError, match=r"1 line.*Never asked for"):
        play(script, 1)

    assert codes == [529, 400, 200]


def test_anthropic_reads_from_the_cache_what_a_breakpoint_wrote(server: ProviderServer) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    block = {"type": "text", "text": "word " * 3000, **mark}
    messages = [{"role": "user", "content": [block]}]
    for more in ([], said("Fine.", "More.", role="assistant")):
        post(server, "/v1/messages", model=OPUS, max_tokens=9, messages=[*messages, *more])

    usage = [seen.usage for seen in server.requests if seen.usage]
    written = [(one.cache_read_tokens, one.cache_write_tokens) for one in usage]
    assert written == [(0, 3004), (3004, 0)]


def test_openai_reads_any_prefix_in_steps_of_128(server: ProviderServer) -> None:
    text = "word " * 3000
    for more in ([], said("Fine.", "More.", role="assistant")):
        post(server, CHAT_PATH, model="gpt-4.1", messages=[*said(text), *more])
    post(server, CHAT_PATH, model="gpt-4.1", messages=said(f"Other {text}"))

    assert [seen.usage and seen.usage.cache_read_tokens for seen in server.requests] == [0, 2944, 0]


def thought(server: ProviderServer, model: str = OPUS) -> list[dict[str, Any]]:
    """Return a conversation with one reply of a model that thinks."""
    messages = said("What is up?")
    _, reply = post(server, "/v1/messages", model=model, max_tokens=99, messages=messages)
    return [*messages, {"role": "assistant", "content": reply["content"]}, *said("And now?")]


def test_signed_reasoning_is_taken_back_and_refused_if_anything_changed() -> None:
    script = [ScriptedReply("All is well.", thinking="Hm.")] * 3
    with serve_providers(script) as server:
        good = thought(server)
        body = {"model": OPUS, "max_tokens": 99}
        fine = post(server, "/v1/messages", **body, messages=good)
        prefix = post(server, "/v1/messages", **body, messages=[*said("Who is up?"), *good[1:]])
        reply = good[1]["content"]
        broken = [{**reply[0], "signature": "c2ln"}, *reply[1:]]
        seal = [good[0], {"role": "assistant", "content": broken}, good[2]]
        changed = post(server, "/v1/messages", **body, messages=seal)
        other = post(
            server, "/v1/messages", **{**body, "model": "claude-sonnet-5-5"}, messages=good
        )

    assert (fine[0], prefix[0], changed[0], other[0]) == (200, 400, 400, 200)
    assert "different conversation" in prefix[1]["error"]["message"]
    assert "Invalid `signature`" in changed[1]["error"]["message"]
    assert server.requests[-1].left_out == [("messages.1.content.0", "model_mismatch")]


def test_openai_says_which_reasoning_it_did_not_use() -> None:
    script = [ScriptedReply("All is well.", thinking="Hm.")] * 2
    with serve_providers(script) as server:
        _, reply = post(server, RESPONSES_PATH, model=SOL, input=said("Hi."))
        items = [*said("Other."), *reply["output"], *said("So?")]
        code, answer = post(server, RESPONSES_PATH, model=SOL, input=items)

    assert code == 200
    [removed] = answer["input_transformations"]
    assert (removed["action"], removed["reason"]) == ("removed", "prefix_mismatch")
    assert removed["id"] == reply["output"][0]["id"]


def test_the_endpoints_that_count_count(server: ProviderServer) -> None:
    messages = said("one two three")
    counted = post(server, "/v1/messages/count_tokens", model=OPUS, messages=messages)
    strange = post(server, "/v1/messages/count_tokens", model=OPUS, messages=messages, top_p=1)
    responses = post(server, "/v1/responses/input_tokens", model=SOL, input="one two")

    assert counted == (200, {"input_tokens": 7})
    assert strange[0] == 400
    assert responses == (200, {"input_tokens": 6})
    assert len(server.counted) == 2


def test_sdks_are_sent_here_unless_there_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in_for_providers():
        inside = os.environ["ANTHROPIC_BASE_URL"]
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    with stand_in_for_providers():
        assert "ANTHROPIC_BASE_URL" not in os.environ

    assert inside.startswith("http://127.0.0.1:")
    assert os.environ["OPENAI_API_KEY"] == "mine"
