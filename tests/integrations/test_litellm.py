"""Loops over LiteLLM's own calls, and through its proxy, with models of OpenAI and Anthropic."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from context_assembler.testing import ProviderServer
from tests.integrations import loop

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is fetched
loop.needs("litellm", "litellm.proxy.proxy_server")

import litellm
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy.proxy_server import app
from litellm.utils import trim_messages
from starlette.testclient import TestClient

from context_assembler import ContextAssembler
from context_assembler.integrations.litellm import FitCallback, to_litellm

pytestmark = pytest.mark.filterwarnings("ignore")
SPEC = {
    "name": "read_page",
    "description": "Return a page of the log.",
    "parameters": {"type": "object", "properties": {"page": {"type": "integer"}}},
}
TOOLS = [{"type": "function", "function": SPEC}]
KEY = "sk-0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def no_callbacks_remain() -> Iterator[None]:
    yield
    litellm.callbacks = []


Send = Callable[..., Any]


async def chat(send: Send, own: Any = list) -> str:
    """Run an agent's loop on Chat Completions; `own` is what trims the list, if anything does."""
    messages: list[Any] = [
        {"role": "system", "content": loop.SYSTEM},
        {"role": "user", "content": loop.TASK},
    ]
    while True:
        reply = await send(messages=own(messages), tools=TOOLS)
        message = reply["choices"][0]["message"]
        if not (calls := message.get("tool_calls")):
            return str(message["content"])
        asked = [
            {"id": c["id"], "type": "function", "function": dict(c["function"])} for c in calls
        ]
        said = {name: message.get(name) for name in ("content", "thinking_blocks")}
        kept = {name: held for name, held in said.items() if held}
        messages.append({"role": "assistant", **kept, "tool_calls": asked})
        for call in asked:
            page = json.loads(call["function"]["arguments"])["page"]
            result = {"role": "tool", "tool_call_id": call["id"]}
            messages.append({**result, "content": loop.read_page(page)})


def completion(server: ProviderServer) -> Send:
    url = server.openai_url
    return partial(litellm.acompletion, model="openai/gpt-4.1", api_base=url, api_key="test")


def test_the_callback_fits_a_loop_of_calls() -> None:
    def fitted(server: ProviderServer) -> Any:
        litellm.callbacks = [FitCallback(max_tokens=loop.BUDGET)]
        return chat(completion(server))

    def trimmed(server: ProviderServer) -> Any:
        litellm.callbacks = []
        own = partial(trim_messages, model="gpt-4.1", max_tokens=loop.BUDGET)
        return chat(completion(server), own)

    loop.check_beside("LiteLLM", loop.play(fitted), loop.play(trimmed), "trim_messages")


CONFIG = """
model_list:
  - model_name: fast
    litellm_params: {{model: openai/gpt-4.1, api_base: "{0.openai_url}", api_key: test}}
  - model_name: careful
    litellm_params:
      model: anthropic/claude-opus-5-5
      api_base: "{0.url}"
      api_key: test
      thinking: {{type: adaptive, display: summarized}}
litellm_settings:
  callbacks: own.fit
"""
OWN = f"""
from context_assembler.integrations.litellm import FitCallback

fit = FitCallback(max_tokens={loop.BUDGET})
"""


def through_proxy(model: str, folder: Path, server: ProviderServer) -> Any:
    (folder / "own.py").write_text(OWN)
    (folder / "config.yaml").write_text(CONFIG.format(server))
    os.environ["CONFIG_FILE_PATH"] = str(folder / "config.yaml")
    with TestClient(app, headers={"authorization": f"Bearer {KEY}"}) as client:

        async def send(**body: Any) -> Any:
            answer = client.post("/v1/chat/completions", json={"model": model, **body})
            assert answer.status_code == 200, answer.text
            return answer.json()

        return asyncio.run(chat(send))


@pytest.mark.parametrize("model", ["fast", "careful"])
def test_the_callback_fits_what_comes_through_a_proxy(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITELLM_MASTER_KEY", KEY)
    monkeypatch.setenv("CONFIG_FILE_PATH", "")
    script = loop.make_script("I look at the next page.")
    ours = loop.play(partial(through_proxy, model, tmp_path), script)
    monkeypatch.setattr(
        FitCallback, "async_pre_call_deployment_hook", CustomLogger.async_pre_call_deployment_hook
    )
    theirs = loop.play(partial(through_proxy, model, tmp_path), script)
    loop.check_beside(f"LiteLLM's proxy, {model}", ours, theirs, "what it does by itself")


APIS: dict[str, tuple[str, Any]] = {
    "openai_chat": ("anthropic/claude-sonnet-4-6", litellm.acompletion),
    "anthropic": ("anthropic/claude-sonnet-4-6", litellm.anthropic.messages.acreate),
    "openai_responses": ("openai/gpt-5.4", litellm.aresponses),
}


async def session(api: Any, server: ProviderServer) -> str:
    model, send = APIS[api]
    url = server.openai_url if "openai/" in model else server.url
    assembler = ContextAssembler(sessions="memory:", system=loop.SYSTEM, tools=[loop.read_page])
    await assembler.add_user("s", loop.TASK)
    while True:
        context = await assembler.assemble(
            "s", model=model, max_tokens=2000, max_context_tokens=loop.BUDGET, thinking_level="low"
        )
        payload = to_litellm(context, api=api)
        assert payload["model"] == model
        reply = await send(**payload, api_base=url, api_key="test")
        answer = (await assembler.record("s", reply, context))[-1]
        if not answer.has_calls:
            return answer.text
        await assembler.run_tools("s", answer)


@pytest.mark.parametrize("api", APIS)
def test_a_session_goes_through_each_api(api: str) -> None:
    ours = loop.play(partial(session, api), loop.make_script("I look at the next page."))
    loop.check(f"LiteLLM, a session by {api}", ours)


async def test_names_that_only_litellm_knows_go_with_the_limits_of_a_model() -> None:
    assembler = ContextAssembler(sessions="memory:")
    for model in ("vertex_ai/claude-opus-5-5", "groq/llama-3.3-70b-versatile"):
        await assembler.add_user(model, "Hello.")
        context = await assembler.assemble(model, model=model, max_tokens=500)
        payload = to_litellm(context)
        assert payload["model"] == model
        assert to_litellm(context, model_name="azure/mine")["model"] == "azure/mine"
        assert {message["role"] for message in payload["messages"]} == {"user"}


async def test_the_callback_changes_messages_alone_and_says_what_does_not_fit() -> None:
    seen = list[Any]()
    fit = FitCallback(limits_of={"azure/mine": "gpt-4.1"}, on_fit=seen.append, max_tokens=500)
    hello = {"role": "user", "content": "Hello."}
    asked = {"model": "azure/mine", "messages": [hello], "n": 1}
    given = await fit.async_pre_call_deployment_hook(asked, "acompletion")
    assert given == asked
    assert given["messages"][0] is hello
    assert seen[0].max_tokens == 500
    embedding = {"model": "text-embedding-3-small", "input": ["Hello."]}
    assert await fit.async_pre_call_deployment_hook(embedding, "aembedding") is embedding
    asked["messages"] = [{"role": "user", "content": "Hello. " * 1000}]
    with pytest.raises(litellm.ContextWindowExceededError, match="needed, 497 are available"):
        await fit.async_pre_call_deployment_hook(asked, "acompletion")
    with pytest.raises(litellm.BadRequestError, match="other"):
        await fit.async_pre_call_deployment_hook(asked | {"model": "azure/other"}, "acompletion")


def test_its_page_and_example_run(tmp_path: Path) -> None:
    loop.check_section("LiteLLM")
    loop.check_example("litellm_loop", "Two mugs cost 25.80.", tmp_path)
