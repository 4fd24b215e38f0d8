"""LangChain's and LangGraph's own loops, with their models for OpenAI and Anthropic."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from context_assembler.testing import ProviderServer
from tests.integrations import loop

loop.needs("langchain", "langgraph", "langchain_openai", "langchain_anthropic")

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, wrap_model_call
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import trim_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

from context_assembler.integrations.langchain import FitMiddleware

pytestmark = pytest.mark.filterwarnings("ignore")


def openai_model(server: ProviderServer) -> Any:
    return ChatOpenAI(model="gpt-4.1", base_url=server.openai_url, api_key="test")


def responses_model(server: ProviderServer) -> Any:
    url = server.openai_url
    return ChatOpenAI(model="gpt-5.4", base_url=url, api_key="test", use_responses_api=True)


def anthropic_model(server: ProviderServer) -> Any:
    url = server.anthropic_url
    thinking = {"type": "enabled", "budget_tokens": 1024}
    return ChatAnthropic(
        model="claude-sonnet-4-6", base_url=url, api_key="test", max_tokens=2000, thinking=thinking
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
    script = loop.make_script("I look at the next page." if name == "Anthropic" else None)
    ours = loop.play(partial(agent, MODELS[name], FitMiddleware(max_tokens=loop.BUDGET)), script)
    theirs = loop.play(partial(agent, MODELS[name], trimmed), script)
    loop.check_beside(f"LangChain, {name}", ours, theirs, "trim_messages")


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


def test_its_page_and_example_run(tmp_path: Path) -> None:
    loop.check_section("LangChain and LangGraph")
    loop.check_example("langchain_agent", "Page 7 is odd.", tmp_path)
