"""Agents that send their requests through the gateway: SDKs, streams, refusals, keys."""

import asyncio
import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
import uvicorn
from google import genai
from google.genai import types

from context_assembler import AssembleOptions, AssemblerConfig, ToolCall, get_model_limits
from context_assembler.errors import ConfigurationError, UnknownModelError
from context_assembler.providers import check_payload
from context_assembler.server import Worker, create_app
from context_assembler.server.gateway import Gateway
from context_assembler.testing import ScriptedReply, serve_providers
from context_assembler.transcripts import read_transcript, write_transcript
from tests.server.conftest import serving

KEY = "sk-never-written-down-0123456789"
STEPS = 40
VENDORS = ("anthropic", "openai", "gemini")
LOG = "12:00:00 GET /orders 200, 14 items, nothing odd\n" * 10


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """Serve an ASGI application from a thread; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        config = uvicorn.Config(app, log_level="critical", server_header=False, date_header=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def gateway_to(url: str, *, token: str | None = None, **defaults: Any) -> Iterator[tuple[str, Any]]:
    """Serve a gateway to one address; yield its own address, and the worker."""
    config = AssemblerConfig(defaults=AssembleOptions(**defaults))
    worker = Worker(gateway=dict.fromkeys(VENDORS, url), config=config)
    with listening(create_app(worker, token=token)) as own:
        yield own, worker


def _call(page: int) -> ToolCall:
    return ToolCall(call_id=f"call_{page}", name="read", arguments={"page": page})


def play_anthropic(base: str, steps: int) -> Iterator[Any]:
    client = anthropic.Anthropic(base_url=base, api_key=KEY, max_retries=0)
    messages: list[Any] = [{"role": "user", "content": "Find the odd page."}]
    tools: list[Any] = [{"name": "read", "input_schema": {"type": "object"}}]
    asked: Any = {"model": "claude-opus-5-5", "max_tokens": 99, "tools": tools}
    for number in range(steps):
        if number % 2:
            with client.messages.stream(**asked, messages=messages) as stream:
                reply = stream.get_final_message()
        else:
            reply = client.messages.create(**asked, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
        results = [
            {"type": "tool_result", "tool_use_id": one.id, "content": LOG}
            for one in reply.content
            if one.type == "tool_use"
        ]
        messages.append({"role": "user", "content": results})
        yield reply


def play_chat(base: str, steps: int) -> Iterator[Any]:
    client = openai.OpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0)
    messages: list[Any] = [
        {"role": "system", "content": "Be exact."},
        {"role": "user", "content": "Find the odd page."},
    ]
    function = {"name": "read", "parameters": {"type": "object", "properties": {}}}
    asked: Any = {"model": "gpt-4.1", "tools": [{"type": "function", "function": function}]}
    for _ in range(steps):
        reply = client.chat.completions.create(**asked, messages=messages).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        messages += [
            {"role": "tool", "tool_call_id": one.id, "content": LOG}
            for one in reply.tool_calls or ()
        ]
        yield reply


def play_responses(base: str, steps: int) -> Iterator[Any]:
    client = openai.OpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0)
    items: list[Any] = [{"role": "user", "content": "Find the odd page."}]
    tool = {"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False}
    asked: Any = {"model": "gpt-5.5", "tools": [tool], "store": False, "instructions": "Be exact."}
    asked["include"] = ["reasoning.encrypted_content"]
    for number in range(steps):
        if number % 2:
            with client.responses.stream(**asked, input=items) as stream:
                reply = stream.get_final_response()
        else:
            reply = client.responses.create(**asked, input=items)
        items += [
            one.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for one in reply.output
        ]
        items += [
            {"type": "function_call_output", "call_id": one.call_id, "output": LOG}
            for one in reply.output
            if one.type == "function_call"
        ]
        yield reply


def play_gemini(base: str, steps: int) -> Iterator[Any]:
    client = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=base))
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text="Find it.")])]
    declared = types.FunctionDeclaration(name="read")
    config = types.GenerateContentConfig(
        system_instruction="Be exact.",
        tools=[types.Tool(function_declarations=[declared])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    model = "gemini-3-flash-preview"
    for _ in range(steps):
        reply = client.models.generate_content(model=model, contents=contents, config=config)
        said = reply.candidates[0].content if reply.candidates else None
        assert said is not None
        contents.append(said)
        calls = [part.function_call for part in said.parts or () if part.function_call]
        parts = [
            types.Part.from_function_response(name=one.name or "", response={"result": LOG})
            for one in calls
        ]
        contents.append(types.Content(role="user", parts=parts))
        yield reply


PLAYS: Mapping[str, tuple[Callable[[str, int], Iterator[Any]], str]] = {
    "anthropic": (play_anthropic, "messages"),
    "openai_chat": (play_chat, "messages"),
    "openai_responses": (play_responses, "input"),
    "gemini": (play_gemini, "contents"),
}


@pytest.mark.parametrize("shape", PLAYS)
def test_an_agent_of_each_sdk_goes_on_where_its_window_would_end(shape: str) -> None:
    """Requests are accepted, fit, keep the task, and only grow between cuts."""
    play, key = PLAYS[shape]
    script = [ScriptedReply(tool_calls=[_call(page)]) for page in range(STEPS)]
    with serve_providers(script) as provider:
        with gateway_to(provider.url, max_context_tokens=4_000) as (base, _):
            assert len([*play(base, STEPS)]) == STEPS
        assert not provider.refusals
        sent = [request.body[key] for request in provider.requests]
    assert len(sent[-1]) < STEPS * 1.5, "nothing was cut"
    assert all("Find " in json.dumps(one[:2]) for one in sent)
    grown = [_bare(new[: len(old)]) == _bare(old) for old, new in pairwise(sent)]
    assert sum(grown) >= 0.8 * STEPS


def _bare(messages: Any) -> str:
    """Return messages as text, without marks for the cache, which move on."""
    marks = '"cache_control": {"type": "ephemeral"}'
    return json.dumps(messages).replace(f", {marks}", "")


def test_recorded_requests_pass_as_they_were_accepted(corpus: Path) -> None:
    gateway, count = Gateway(), 0
    for shape, (_, key) in PLAYS.items():
        text = (corpus / "requests" / f"accepted_{shape}.jsonl").read_text(encoding="utf-8")
        for row in map(json.loads, text.splitlines()):
            body = row["request"]
            model = row["url"].partition("/models/")[2].partition(":")[0]
            made, told, _ = gateway._fit(shape, model, json.dumps(body).encode())
            passed = json.loads(made)
            assert passed[key] == body[key] if key in body else passed == body, told
            count += not told.startswith("unchanged")
            if shape == "anthropic" and "cache_control" in passed:
                try:
                    limits = get_model_limits(body["model"])
                except UnknownModelError:
                    continue
                known = {one.rule for one in check_payload(shape, body, limits=limits).refused}
                now = {one.rule for one in check_payload(shape, passed, limits=limits).refused}
                assert now <= known
    assert count > 1_000


def test_recorded_traffic_of_a_coding_agent_is_accepted_at_a_quarter_of_its_size(
    corpus: Path,
) -> None:
    [path] = corpus.rglob("019e260b*.jsonl")
    items = json.loads(write_transcript(read_transcript(path).events, format="openai_responses"))
    most = len(json.dumps(items)) // 16
    ends = [at for at, one in enumerate(items) if one.get("type") == "function_call_output"]
    with (
        serve_providers() as provider,
        gateway_to(provider.url, max_context_tokens=most) as (base, _),
    ):
        for end in ends[::5]:
            body = {"model": "gpt-5.4", "store": False, "input": items[: end + 1]}
            httpx.post(f"{base}/v1/responses", json=body, timeout=None)
        assert len(provider.requests) == len(ends[::5]) > 20
        assert not provider.refusals


def test_prompt_caches_are_marked_unless_the_agent_does_it() -> None:
    with serve_providers() as provider, gateway_to(provider.url) as (base, _):
        client = anthropic.Anthropic(base_url=base, api_key=KEY)
        rules = "Be exact. " * 3_000
        said: list[Any] = [{"role": "user", "content": "Hello."}]
        asked: Any = {"model": "claude-opus-5-5", "max_tokens": 99, "messages": said}
        client.messages.create(**asked, system=rules)
        second = client.messages.create(**asked, system=rules)
        assert (second.usage.cache_read_input_tokens or 0) > 5_000
        own: list[Any] = [{"type": "text", "text": rules, "cache_control": {"type": "ephemeral"}}]
        client.messages.create(**asked, system=own)
        assert provider.requests[-1].body["system"] == own
        assert "cache_control" not in provider.requests[-1].body
        ask = openai.OpenAI(base_url=f"{base}/v1", api_key=KEY).chat.completions.create
        messages: list[Any] = [{"role": "user", "content": "Hello."}]
        for _ in range(2):
            messages.append(ask(model="gpt-4.1", messages=messages).choices[0].message)
            messages.append({"role": "user", "content": "And now?"})
        keys = {request.body["prompt_cache_key"] for request in provider.requests[-2:]}
        assert len(keys) == 1


@pytest.mark.parametrize("shape", PLAYS)
def test_a_conversation_can_be_looked_at_like_a_session(shape: str) -> None:
    play, _ = PLAYS[shape]
    script = [ScriptedReply(tool_calls=[_call(page)]) for page in range(4)]
    with (
        serve_providers(script) as provider,
        gateway_to(provider.url, max_context_tokens=4_000) as (base, _),
    ):
        assert len([*play(base, 4)]) == 4
        page = httpx.get(f"{base}/")
        [(name, count)] = re.findall(
            r'/session\?id=(gateway%2F\w+)".*?"num">(\d+)<', page.text, re.DOTALL
        )
        assert "Find " in page.text
        assert int(count) >= 7
        whole = httpx.get(f"{base}/session?id={name}")
        assert whole.status_code == 200
        assert "4,000" in whole.text
        assert "read" in whole.text
        for text in (page.text, whole.text):
            assert KEY not in text
        for other in PLAYS:
            payload = httpx.get(f"{base}/session/payload?id={name}&provider={other}").json()
            assert "12:00:00" in json.dumps(payload), payload
        assert httpx.get(f"{base}/session?id=gateway%2F0").status_code == 404


class Provider:
    """A provider that answers byte by byte, or not at all."""

    def __init__(self) -> None:
        self.headers: list[dict[bytes, bytes]] = []
        self.targets, self.bodies = list[bytes](), list[bytes]()
        self.asked, self.left = threading.Semaphore(0), threading.Semaphore(0)
        self.chunks = [b"event: a\r\ndata: {", b'"\xc3', b'\xa4": 1}\r\n\r\n', b"data: [DONE]\n\n"]

    def zipped(self, chunk: bytes) -> bytes:
        return gzip.compress(chunk, mtime=0)

    async def __call__(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]
    ) -> None:
        if scope["type"] != "http":
            return
        self.headers.append(dict(scope["headers"]))
        self.targets.append(scope["raw_path"] + b"?" + scope["query_string"])
        body = (await receive()).get("body", b"")
        self.bodies.append(body)
        kind = (b"content-type", b"text/event-stream")
        if b"hang" in body:
            self.asked.release()
            while (await receive())["type"] != "http.disconnect":
                pass
            self.left.release()
            return
        zipped = b"zip" in body
        head = [kind, (b"x-request-id", b"req_1"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
        head += [(b"content-encoding", b"gzip")] if zipped else []
        status = 429 if b"busy" in body else 200
        await send({"type": "http.response.start", "status": status, "headers": head})
        for number, chunk in enumerate(self.chunks):
            if b"break" in body and number == 2:
                raise RuntimeError
            held = self.zipped(chunk) if zipped else chunk
            await send({"type": "http.response.body", "body": held, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def asked(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4.1", "messages": [{"role": "user", "content": text}], **more}


async def test_answers_pass_unchanged_and_a_broken_provider_harms_no_other_stream() -> None:
    provider = Provider()
    with listening(provider) as url, gateway_to(url) as (base, _):
        place, plain = f"{base}/v1/chat/completions", b"".join(provider.chunks)
        zipped = b"".join(map(provider.zipped, provider.chunks))
        async with httpx.AsyncClient(timeout=None, limits=httpx.Limits()) as client:

            async def ask(text: str) -> tuple[int, bytes, list[str]]:
                async with client.stream("POST", place, json=asked(text, stream=True)) as reply:
                    held = b"".join([chunk async for chunk in reply.aiter_raw()])
                return reply.status_code, held, reply.headers.get_list("set-cookie")

            hanging = [asyncio.create_task(ask("hang")) for _ in range(4)]
            texts = ("go", "zip", "busy", "break")
            answers = [ask(texts[number % 4]) for number in range(52)]
            found = await asyncio.gather(*answers, return_exceptions=True)
            cookies = ["a=1", "b=2"]
            assert found[0::4] == [(200, plain, cookies)] * 13
            assert found[1::4] == [(200, zipped, cookies)] * 13
            assert found[2::4] == [(429, plain, cookies)] * 13
            assert all(isinstance(one, httpx.RemoteProtocolError) for one in found[3::4])
            for one in hanging:
                assert await asyncio.to_thread(provider.asked.acquire)
                one.cancel()
            for _ in hanging:  # the provider need not work for an agent that went away
                assert await asyncio.to_thread(provider.left.acquire)


def test_what_cannot_be_fitted_passes_and_says_why() -> None:
    provider, answer = Provider(), {"role": "tool", "tool_call_id": "call_1", "content": "x"}
    nested = json.loads("[" * 800 + "]" * 800)
    with listening(provider) as url, gateway_to(url) as (base, worker):
        for body, why in (
            (asked("go") | {"model": "nobody-knows-1"}, "No limits are known"),
            # 300 characters of the reason end in a space, which no header may
            (asked("go") | {"model": "x" * 70}, "No limits are known"),
            (asked("go") | {"messages": [{"role": "nobody"}]}, "is not a message of"),
            (asked("go") | {"messages": [answer]}, "No message can stand alone"),
            (asked("go") | {"metadata": nested}, "nested deeper than 200 levels"),
            ({"model": "gpt-4.1"}, "messages is not a list"),
        ):
            reply = httpx.post(f"{base}/v1/chat/completions", json=body)
            assert reply.status_code == 200
            assert why in reply.headers["x-context-assembler"]
        told = {"input": "more", "previous_response_id": "resp_1", "model": "gpt-5.5"}
        for body in (told, told | {"input": [{"role": "user", "content": "more"}]}):
            reply = httpx.post(f"{base}/v1/responses", json=body)
            assert reply.headers["x-context-assembler"].startswith("unchanged")
        assert httpx.post(f"{base}/v1/messages", content=b"{").status_code == 200
        assert httpx.get(f"{base}/v1/models?limit=5", headers={"x-api-key": "k"}).status_code == 200
        passed = [one for one in worker.gateway.passed.values() if one.problem]
        assert len(passed) == 3
        assert httpx.get(f"{base}/").text.count("/session?id=gateway") == 3


def test_requests_reach_the_provider_as_they_came(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever their path, query and numbers; what belongs to the connection stays here."""
    provider, target = Provider(), f"/v1/files/../a%2Fb|c?x=1&x=%7c&x='\"&key={KEY}".encode()
    head = b"host: localhost\r\nconnection: close, x-hop\r\nx-hop: 1\r\nx-end: 1\r\n\r\n"
    numbers = b'{"model":"gpt-4.1","messages":[{"role":"user","content":"x"}],"seed":%s}'
    caplog.set_level("INFO")
    with listening(provider) as url, gateway_to(url) as (base, _):
        with socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as agent:
            agent.sendall(b"GET %s HTTP/1.1\r\n%s" % (target, head))
            while agent.recv(65_536):
                pass
        for number in (b"NaN", b"123456789012345678901234567890"):
            httpx.post(f"{base}/v1/chat/completions", content=numbers % number)
    assert provider.targets[0] == target
    assert b"x-end" in provider.headers[0]
    assert b"x-hop" not in provider.headers[0]
    assert KEY not in caplog.text
    assert provider.bodies[1] == numbers % b"NaN"
    assert json.loads(provider.bodies[2])["seed"] == 123456789012345678901234567890


def test_a_key_of_gemini_goes_to_gemini_alone() -> None:
    provider = Provider()
    with listening(provider) as url:
        nowhere = "http://127.0.0.1:9"
        worker = Worker(gateway={"gemini": url, "openai": nowhere, "anthropic": nowhere})
        with listening(create_app(worker)) as base:
            place = f"{base}/v1/models/gemini-2.5-flash:countTokens"
            reply = httpx.post(place, json={}, headers={"x-goog-api-key": KEY})
    assert reply.status_code == 200


def test_credentials_of_mcp_servers_are_not_shown() -> None:
    tool: Any = {"type": "mcp", "server_label": "x", "server_url": "https://mcp.example.com"}
    tool |= {"authorization": "opaque-1", "headers": {"x-token": "opaque-2"}}
    body = {"model": "gpt-5.5", "input": [{"role": "user", "content": "x"}], "tools": [tool]}
    with listening(Provider()) as url, gateway_to(url) as (base, worker):
        httpx.post(f"{base}/v1/responses", json=body)
        [name] = worker.gateway.passed
        shown = httpx.get(f"{base}/session?id=gateway/{name}").text
        place = f"{base}/session/payload?id=gateway/{name}&provider=openai_responses"
        shown += httpx.get(place).text
    assert "mcp.example.com" in shown
    assert "opaque" not in shown


def test_what_cannot_fit_is_refused_as_the_provider_would() -> None:
    with (
        serve_providers() as provider,
        gateway_to(provider.url, max_context_tokens=500) as (base, _),
    ):
        client = anthropic.Anthropic(base_url=base, api_key=KEY)
        said: Any = [{"role": "user", "content": "word " * 2_000}]
        with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
            client.messages.create(model="claude-opus-5-5", max_tokens=9, messages=said)
        chat = openai.OpenAI(base_url=f"{base}/v1", api_key=KEY).chat.completions
        with pytest.raises(openai.BadRequestError) as refused:
            chat.create(model="gpt-4.1", messages=said)
        assert refused.value.code == "context_length_exceeded"
        assert not provider.requests
    with gateway_to("http://127.0.0.1:9") as (base, _):
        lost = openai.OpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0)
        with pytest.raises(openai.InternalServerError, match="does not answer"):
            lost.models.list()


@pytest.mark.parametrize("address", [{"mistral": "http://x"}, {"openai": "api.openai.com"}])
def test_an_address_that_is_none_is_refused(address: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"is no provider|is no address"):
        Gateway(address)


def test_with_a_token_agents_pass_it_next_to_the_providers_key() -> None:
    provider = Provider()
    with listening(provider) as url, gateway_to(url, token="ours") as (base, _):
        key = {"authorization": f"Bearer {KEY}"}
        place = f"{base}/v1/chat/completions"
        assert httpx.post(place, json=asked("go"), headers=key).status_code == 401
        told = key | {"x-context-assembler-token": "ours"}
        assert httpx.post(place, json=asked("go"), headers=told).status_code == 200
    [seen] = provider.headers
    assert seen[b"authorization"] == f"Bearer {KEY}".encode()
    assert b"x-context-assembler-token" not in seen


def test_keys_are_written_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Not in what the worker's process prints, keeps in files, or answers."""
    with serve_providers() as provider:
        addresses = {**dict.fromkeys(VENDORS, provider.url), "openai": "http://127.0.0.1:9"}
        with serving(tmp_path, gateway=addresses) as worker:
            headers = {"x-api-key": KEY, "authorization": f"Bearer {KEY}"}
            body = asked("Hello.") | {"model": "claude-opus-5-5", "max_tokens": 9}
            answers = [
                worker.post(place, json=body, headers=headers, params={"key": KEY})
                for place in ("/v1/messages", "/v1/chat/completions", "/v1/nowhere")
            ]
            assert [answer.status_code for answer in answers] == [200, 502, 502]
            answers.append(worker.get("/openapi.json"))
    told = "".join(capfd.readouterr())
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert KEY not in told
    assert all(KEY.encode() not in one for one in [*kept, *(one.content for one in answers)])
