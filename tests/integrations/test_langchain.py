"""LangChain's and LangGraph's own loops, with their models for OpenAI and Anthropic."""

from collections.abc import Callable
from functools import partial
from operator import is_
from pathlib import Path
from typing import Any

import pytest

from context_assembler.testing import ProviderServer
from tests.integrations import loop

loop.needs("langchain", "langgraph", "langchain_openai", "langchain_anthropic")

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, wrap_model_call
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

from context_assembler import FittedMessages
from context_assembler.errors import TranscriptError
from context_assembler.integrations.langchain import FitMiddleware

pytestmark = pytest.mark.filterwarnings("ignore")


def openai_model(server: ProviderServer) -> Any:
    return ChatOpenAI(model="gpt-4.1", base_url=server.openai_url, api_key="test")


def responses_model(server: ProviderServer) -> Any:
    """Return a model whose encrypted reasoning is bound to what stood before it."""
    return ChatOpenAI(
        model="gpt-6.2-sol",
        base_url=server.openai_url,
        api_key="test",
        use_responses_api=True,
        store=False,
        include=["reasoning.encrypted_content"],
        output_version="responses/v1",
    )


def anthropic_model(server: ProviderServer) -> Any:
    """Return a model whose signed reasoning is bound to what stood before it."""
    url, thinking = server.anthropic_url, {"type": "adaptive", "display": "summarized"}
    return ChatAnthropic(
        model="claude-opus-5-5", base_url=url, api_key="test", max_tokens=2000, thinking=thinking
    )


def agent(model: Callable[[ProviderServer], Any], own: Any, server: ProviderServer) -> str:
    made = create_agent(
        model(server), [loop.read_page], system_prompt=loop.SYSTEM, middleware=[own]
    )
    told = made.invoke({"messages": [("user", loop.TASK)]}, {"recursion_limit": 500})
    return str(told["messages"][-1].text)


@wrap_model_call
def trimmed(request: ModelRequest, handler: Any) -> Any:
    kept = trim_messages(
        request.messages,
        strategy="last",
        token_counter=count_tokens_approximately,
        max_tokens=loop.BUDGET,
    )
    return handler(request.override(messages=kept))


MODELS = {"OpenAI": openai_model, "Responses": responses_model, "Anthropic": anthropic_model}


@pytest.mark.parametrize("name", MODELS)
def test_an_agent_runs_its_whole_loop(name: str) -> None:
    script = loop.make_script(None if name == "OpenAI" else "I look at the next page.")
    ours = loop.play(partial(agent, MODELS[name], FitMiddleware(max_tokens=loop.BUDGET)), script)
    theirs = loop.play(partial(agent, MODELS[name], trimmed), script)
    loop.check_beside(f"LangChain, {name}", ours, theirs, "trim_messages")


def test_an_agent_may_be_asynchronous() -> None:
    async def run(server: ProviderServer) -> str:
        fit = FitMiddleware(max_tokens=loop.BUDGET)
        made = create_agent(openai_model(server), [loop.read_page], middleware=[fit])
        told = await made.ainvoke({"messages": [("user", loop.TASK)]}, {"recursion_limit": 500})
        return str(told["messages"][-1].text)

    loop.check("LangChain, asynchronous", loop.play(run))


def graph(own: Any, server: ProviderServer) -> str:
    made = create_react_agent(
        openai_model(server), [loop.read_page], prompt=loop.SYSTEM, pre_model_hook=own
    )
    told = made.invoke({"messages": [("user", loop.TASK)]}, {"recursion_limit": 500})
    assert len(told["messages"]) > loop.STEPS  # the state keeps them all
    return str(told["messages"][-1].text)


def trimming_hook(state: Any) -> Any:
    """Trim as the documentation of `pre_model_hook` does."""
    kept = trim_messages(
        state["messages"],
        strategy="last",
        token_counter=count_tokens_approximately,
        max_tokens=loop.BUDGET,
        start_on="human",
        end_on=("human", "tool"),
    )
    return {"llm_input_messages": kept}


def test_a_graph_runs_its_whole_loop() -> None:
    fit = FitMiddleware(
        "gpt-4.1", max_tokens=loop.BUDGET, system=loop.SYSTEM, tools=[loop.read_page]
    )
    ours = loop.play(partial(graph, fit.pre_model_hook))
    theirs = loop.play(partial(graph, trimming_hook))
    loop.check_beside("LangGraph", ours, theirs, "trim_messages(start_on=human)")


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SEALED = {"type": "thinking", "thinking": "Which page?", "signature": "c2VhbGVk"}


def history() -> list[Any]:
    """Return a talk with whatever LangChain's messages may hold."""
    told: list[Any] = [
        HumanMessage([{"type": "text", "text": loop.TASK}, PICTURE], id="task", name="ann")
    ]
    for page in range(12):
        call = {"type": "tool_call", "name": "read_page", "args": {"page": page}, "id": f"c{page}"}
        block = {"type": "tool_use", "name": "read_page", "input": {"page": page}, "id": f"c{page}"}
        said = AIMessage([SEALED, {"type": "text", "text": "So."}, block], tool_calls=[call])
        result = ToolMessage(
            loop.read_page(page), tool_call_id=f"c{page}", artifact=[page], id=f"r{page}"
        )
        told += [said, result]
    bad = {"type": "invalid_tool_call", "name": "read_page", "args": "{", "id": "bad", "error": "?"}
    told.append(AIMessage("", invalid_tool_calls=[bad], id="bad"))
    return [*told, HumanMessage("Well?", id="last")]


def test_what_stays_is_the_same_and_what_changes_keeps_its_fields() -> None:
    told, seen = history(), list[FittedMessages]()
    fit = FitMiddleware("claude-sonnet-4-6", on_fit=seen.append)
    whole = fit.fit(told[:-2])
    assert all(map(is_, whole, told))
    assert len(whole) == len(told) - 2

    small = FitMiddleware("claude-sonnet-4-6", seen.append, max_tokens=4_000)
    kept = small.fit(told)
    own = {message.id or id(message): message for message in told}
    shortened = 0
    for message in kept:
        before = own.get(message.id or id(message))
        if message is before or message.type == "human":
            continue
        if before is None:  # the call that nobody answered is answered
            assert (message.type, message.tool_call_id) == ("tool", "bad")
            continue
        assert message == before.model_copy(update={"content": message.content})
        shortened += message.type == "tool"
    assert kept[0] is told[0]
    assert kept[-1] is told[-1]
    assert shortened
    assert {entry.decision for entry in seen[-1].changes} >= {"shortened", "dropped"}


def test_calls_that_share_an_id_get_one_each() -> None:
    call = {"type": "tool_call", "name": "read_page", "args": {"page": 1}, "id": "same"}
    block = {"type": "tool_use", "name": "read_page", "input": {"page": 1}, "id": "same"}
    reply = AIMessage(["Both.", block, block], tool_calls=[call, call], id="reply")
    results = [ToolMessage(text, tool_call_id="same", id=text) for text in ("one", "two")]
    task, kept, *answers = FitMiddleware("gpt-4.1").fit([HumanMessage(loop.TASK), reply, *results])
    assert (task.content, kept.content, kept.id) == (loop.TASK, ["Both."], "reply")
    ids = [one["id"] for one in kept.tool_calls]
    assert len({*ids}) == 2
    assert [(one.id, one.content, one.tool_call_id) for one in answers] == [
        ("one", "one", ids[0]),
        ("two", "two", ids[1]),
    ]


def test_a_message_that_cannot_be_read_is_named() -> None:
    odd = HumanMessage([{"type": "image", "source": {"type": "base64"}}])
    with pytest.raises(TranscriptError, match=r"messages\[1\]: .*media_type"):
        FitMiddleware("gpt-4.1").fit([HumanMessage("Hello."), odd])


def test_its_page_and_example_run(tmp_path: Path) -> None:
    loop.check_section("LangChain and LangGraph")
    loop.check_example("langchain_agent", "Page 7 is odd.", tmp_path)
