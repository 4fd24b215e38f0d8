"""The OpenAI Agents SDK's own loop, with its models for Responses and Chat Completions."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from context_assembler import ContextAssembler, ToolCall
from context_assembler.errors import MissingModelError
from context_assembler.sessions import open_store
from context_assembler.testing import ProviderServer, ScriptedReply, serve_providers
from tests.integrations import loop

loop.needs("agents")

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    Session,
    SQLiteSession,
    function_tool,
)
from agents.extensions import ToolOutputTrimmer
from agents.run import CallModelData, ModelInputData
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from context_assembler.integrations.openai_agents import FitInput, StoredSession

MODELS = {
    "Responses": partial(OpenAIResponsesModel, "gpt-5.4"),
    "Chat": partial(OpenAIChatCompletionsModel, "gpt-4.1"),
}


async def run(model: Any, own: Any, server: ProviderServer) -> str:
    async with AsyncOpenAI(base_url=server.openai_url, api_key="test") as client:
        agent = Agent(
            name="reader",
            instructions=loop.SYSTEM,
            tools=[function_tool(loop.read_page)],
            model=model(client),
        )
        config = RunConfig(call_model_input_filter=own, tracing_disabled=True)
        told = await Runner.run(agent, loop.TASK, run_config=config, max_turns=loop.STEPS)
        return str(told.final_output)


@pytest.mark.parametrize("name", MODELS)
def test_a_run_plays_its_whole_loop(name: str) -> None:
    script = loop.make_script("I look at the next page." if name == "Responses" else None)
    ours = loop.play(partial(run, MODELS[name], FitInput(max_tokens=loop.BUDGET)), script)
    theirs = loop.play(partial(run, MODELS[name], ToolOutputTrimmer(recent_turns=1)), script)
    loop.check_beside(f"OpenAI Agents SDK, {name}", ours, theirs, "ToolOutputTrimmer")


PAGES = [ToolCall(call_id=f"c{n}", name="read_page", arguments={"page": n}) for n in range(4)]
SCRIPT = [
    ScriptedReply("I read two.", (PAGES[0], PAGES[1]), "I look at two pages."),
    ScriptedReply("Page 1 is odd."),
    ScriptedReply(tool_calls=(PAGES[2],)),
    ScriptedReply("Page 2 is odder."),
]


async def talk(model: Any, session: Any, server: ProviderServer, *questions: str) -> None:
    for question in questions:
        async with AsyncOpenAI(base_url=server.openai_url, api_key="test") as client:
            tools: list[Any] = [function_tool(loop.read_page)]
            agent = Agent(name="reader", tools=tools, model=model(client))
            config = RunConfig(call_model_input_filter=FitInput(), tracing_disabled=True)
            await Runner.run(agent, question, session=session, run_config=config)


@pytest.mark.parametrize("name", MODELS)
async def test_a_stored_session_holds_what_a_session_of_the_sdk_holds(
    name: str, tmp_path: Path
) -> None:
    kept, sent = [], []
    for session in (SQLiteSession("log"), StoredSession("log", f"sqlite:{tmp_path}/agent.db")):
        with serve_providers(SCRIPT) as server:
            await talk(MODELS[name], session, server, "Which page is odd?", "Which is odder?")
        kept.append([await session.get_items(), await session.get_items(3)])
        sent.append([request.body for request in server.requests])

    assert len(kept[0][0]) > 9
    assert kept[1] == kept[0]
    assert sent[1] == sent[0]


async def test_items_are_taken_back_and_a_session_is_cleared() -> None:
    store = open_store("memory:")
    session = StoredSession("log", store)
    assert isinstance(session, Session)
    items = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    await session.add_items(items)

    assert await session.pop_item() == items[2]
    assert await session.pop_item() == items[1]
    await session.add_items(items[2:])
    assert await session.get_items() == [items[0], items[2]]
    assert await session.get_items(0) == []
    context = await ContextAssembler(store).assemble("log", model="gpt-4.1")
    sent = [one["content"] for one in context.to_openai_chat()["messages"]]
    assert (sent[0], "two" in sent, sent[-1]) == ("one", False, "three")
    await session.clear_session()
    await session.clear_session()
    assert (await session.get_items(), await session.pop_item()) == ([], None)


@pytest.mark.parametrize("model", ["gpt-5.4", "claude-sonnet-4-6"])
async def test_an_assembler_and_the_sdk_go_on_with_each_others_sessions(model: str) -> None:
    assembler = ContextAssembler("memory:", tools=[loop.read_page])
    session = StoredSession("log", assembler.sessions)
    with serve_providers([*SCRIPT[:2], ScriptedReply("Yes."), *SCRIPT[2:]]) as server:
        await talk(MODELS["Responses"], session, server, "Which page is odd?")
        await assembler.add_user("log", "Are you sure?")
        context = await assembler.assemble("log", model=model, max_tokens=1_000)
        if model == "gpt-5.4":
            async with AsyncOpenAI(base_url=server.openai_url, api_key="test") as client:
                reply: Any = await client.responses.create(**context.to_openai_responses())
        else:
            async with AsyncAnthropic(base_url=server.anthropic_url, api_key="test") as claude:
                reply = await claude.messages.create(**context.to_anthropic())
        await assembler.record("log", reply, context)
        await talk(MODELS["Responses"], session, server, "Which is odder?")

    assert not server.refusals
    told = str(server.requests[-1].body["input"])
    places = [
        told.index(text) for text in ("page 1,", "Are you sure?", "Yes.", "odder?", "page 2,")
    ]
    assert places == sorted(places)


def call_filter(fit: FitInput, items: list[Any], model: Any = "gpt-4.1") -> Any:
    given = ModelInputData(input=items, instructions=loop.SYSTEM)
    return fit(CallModelData(given, Agent(name="reader", model=model), None))


def read(page: int, output: Any) -> list[Any]:
    """Return a call as the SDK keeps it of a Chat model, and its result."""
    about = {"id": "__fake_id__", "provider_data": {"model": "gpt-4.1"}}
    call = {"call_id": f"c{page}", "name": "read_page", "arguments": "{}", "type": "function_call"}
    return [
        {**call, **about},
        {"type": "function_call_output", "call_id": f"c{page}", "output": output},
    ]


async def test_what_stays_is_the_same_object_and_what_is_shortened_keeps_the_rest() -> None:
    task = {"role": "user", "content": loop.TASK}
    long = {"annotations": ["kept"], "provider_data": {"model": "gpt-4.1"}}
    items = [task, *read(1, "line\n" * 9_000), *read(2, "short")]
    items[2] |= long

    made = await call_filter(FitInput(max_tokens=loop.BUDGET), items)

    stayed = [one is own for one, own in zip(made.input, items, strict=True)]
    assert stayed == [True, True, False, True, True]
    assert "shortened" in made.input[2]["output"]
    assert made.input[2] == {**items[2], "output": made.input[2]["output"]}
    assert items[2]["output"] == "line\n" * 9_000


async def test_what_openai_keeps_is_not_missed() -> None:
    """With `previous_response_id`, the input is what is new: a result without its call."""
    items = read(1, "fine")[1:]

    with pytest.warns(UserWarning, match="sent as they are"):
        made = await call_filter(FitInput(), items)

    assert made.input == items


async def test_a_model_that_nobody_names_is_asked_for() -> None:
    with pytest.raises(MissingModelError, match="model="):
        await call_filter(FitInput(), [], model=None)


def test_its_page_and_example_run(tmp_path: Path) -> None:
    loop.check_section("OpenAI Agents SDK")
    loop.check_example("openai_agents_run", "Page 7 is odd.", tmp_path)
