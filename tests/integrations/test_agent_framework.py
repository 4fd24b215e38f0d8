"""Microsoft Agent Framework's own loop, with its clients for Chat Completions and Responses."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from context_assembler.testing import ProviderServer
from tests.integrations import loop

loop.needs("agent_framework", "agent_framework_openai")

from agent_framework import (
    Agent,
    CharacterEstimatorTokenizer,
    ChatContext,
    Content,
    Message,
    TruncationStrategy,
)
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from openai import AsyncOpenAI

from context_assembler.integrations.agent_framework import FitMiddleware

CLIENTS = {
    "Chat": partial(OpenAIChatCompletionClient, "gpt-4.1"),
    "Responses": partial(OpenAIChatClient, "gpt-5.4"),
}


async def run(client: Any, own: Any, trimming: Any, server: ProviderServer) -> str:
    async with AsyncOpenAI(base_url=server.openai_url, api_key="test") as sdk:
        made = client(
            async_client=sdk, function_invocation_configuration={"max_iterations": loop.STEPS}
        )
        agent = Agent(
            made,
            instructions=loop.SYSTEM,
            tools=[loop.read_page],
            middleware=own,
            compaction_strategy=trimming,
            default_options={"store": False},
        )
        return str((await agent.run(loop.TASK)).text)


@pytest.mark.parametrize("name", CLIENTS)
def test_an_agent_runs_its_whole_loop(name: str) -> None:
    script = loop.make_script("I look at the next page." if name == "Responses" else None)
    fit = FitMiddleware(max_tokens=loop.BUDGET)
    ours = loop.play(partial(run, CLIENTS[name], [fit], None), script)
    trimming = TruncationStrategy(
        max_n=loop.BUDGET, compact_to=loop.BUDGET // 2, tokenizer=CharacterEstimatorTokenizer()
    )
    theirs = loop.play(partial(run, CLIENTS[name], None, trimming), script)
    loop.check_beside(f"Agent Framework, {name}", ours, theirs, "TruncationStrategy")


async def fit(messages: list[Message], **options: Any) -> list[Message]:
    context = ChatContext(SimpleNamespace(model="gpt-4.1"), messages, options)
    passed: list[Message] = []

    async def call_next() -> None:
        passed.extend(context.messages)

    await FitMiddleware(max_tokens=loop.BUDGET).process(context, call_next)
    return passed


def call(name: str, **more: Any) -> Content:
    return Content.from_function_call(name, "read_page", arguments="{}", **more)


LONG = "line\n" * 9_000
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


async def test_what_stays_is_the_same_object_and_what_is_shortened_keeps_the_rest() -> None:
    short = Content.from_function_result("c2", result="short")
    long = Content.from_function_result("c1", result=LONG, additional_properties={"seen": True})
    given = [
        Message("user", [Content.from_text(loop.TASK), Content.from_hosted_file("file-1")]),
        Message("assistant", [Content.from_text_reasoning(text="Hm."), call("c1"), call("c2")]),
        Message("tool", [long, short], author_name="tools"),
        Message("assistant", [call("c3", hosted=True), Content.from_text("I read on.")]),
        Message("user", ["Well?"]),
    ]

    made = await fit(given)

    assert [one is own for one, own in zip(made, given, strict=True)] == [
        True,
        True,
        False,
        True,
        True,
    ]
    assert made[2].author_name == "tools"
    [cut, kept] = made[2].contents
    assert kept is short
    assert (cut.call_id, cut.additional_properties) == ("c1", {"seen": True})
    assert "shortened" in cut.result
    assert cut.result == cut.items[0].text
    assert long.result == LONG


async def test_what_openai_chat_refuses_of_a_result_is_sent_after_it() -> None:
    picture = Content.from_uri(f"data:image/png;base64,{PIXEL}")
    result = Content.from_function_result("c1", result=[Content.from_text("a page"), picture])
    given = [
        Message("user", [loop.TASK]),
        Message("assistant", [call("c1")]),
        Message("tool", [result]),
    ]

    made = await fit(given)

    assert [one.role for one in made] == ["user", "assistant", "tool", "user"]
    assert "a page" in made[2].contents[0].result
    assert [one.uri for one in made[3].contents if one.type == "data"] == [picture.uri]


async def test_an_orphaned_call_gets_a_result_and_long_ids_stay_paired() -> None:
    long = "c" * 90
    given = [
        Message("user", [loop.TASK]),
        Message("assistant", [call(long), call("lost")]),
        Message("tool", [Content.from_function_result(long, result="found")]),
    ]

    made = await fit(given)

    calls = [one.call_id for one in made[1].contents]
    results = {one.call_id: one.result for message in made[2:] for one in message.contents}
    assert [*results] == calls
    assert [results[calls[0]], "no result" in results["lost"].lower()] == ["found", True]


async def test_what_a_service_keeps_is_not_missed() -> None:
    given = [Message("tool", [Content.from_function_result("c1", result="fine")])]

    with pytest.warns(UserWarning, match="store=False"):
        assert await fit(given, conversation_id="resp_1") == given


def test_its_page_and_example_run(tmp_path: Path) -> None:
    loop.check_section("Microsoft Agent Framework")
    loop.check_example("agent_framework_agent", "Page 7 is odd.", tmp_path)
