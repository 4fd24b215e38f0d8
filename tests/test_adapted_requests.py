"""What a provider cannot take is decided before anything is counted, and reported."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from context_assembler import (
    AssembledContext,
    ContextAssembler,
    Image,
    SessionEvent,
    Text,
    ToolCall,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.values.parts import Base64Source, UrlSource
from tests.providers.drafts import PIXEL

PICTURE = Image(source=Base64Source(media_type="image/png", data=PIXEL))
SERVER_TOOL = {"type": "web_search_20250305", "name": "web_search"}


async def assemble(
    events: Sequence[SessionEvent], *, tools: Sequence[Any] = (), **options: Any
) -> AssembledContext:
    assembler = ContextAssembler(tools=list(tools))
    await assembler.sessions.append("s", list(events))
    return await assembler.assemble("s", **options)


def rows(context: AssembledContext) -> list[tuple[str, str, str]]:
    return [
        (entry.kind, entry.decision, entry.rule)
        for entry in context.report.entries
        if entry.decision != "kept"
    ]


async def test_an_image_for_a_blind_model_is_told_and_counted_as_its_line() -> None:
    data_url = Image(source=UrlSource(url="data:image/png;base64," + PIXEL * 3_000))
    events = [user_event((Text("look"), PICTURE, data_url))]

    context = await assemble(events, model="deepseek-chat", max_tokens=1000)

    assert rows(context) == [("message", "shortened", "media.unsupported")]
    assert "2 times: An image is left out: the model takes no images." in context.report.warnings
    assert len(json.dumps(context.to_request()["messages"])) < 300
    assert context.metadata.ledger.tokens_of("history") < 80


async def test_a_server_tool_of_another_provider_is_told() -> None:
    context = await assemble([user_event("x")], tools=[SERVER_TOOL], model="gpt-4.1")

    assert rows(context) == [("tool", "dropped", "tool.native")]
    assert context.tools == ()
    assert "web_search: It exists for anthropic alone." in context.report.warnings


async def test_a_thinking_budget_that_has_to_wait_is_told() -> None:
    events = [
        user_event("x"),
        assistant_event(ToolCall(call_id="c", name="f")),
        tool_result_event("c", "r"),
    ]

    context = await assemble(events, model="claude-haiku-4-5", thinking_budget=2000)

    assert ("note", "dropped", "parameter.thinking_budget") in rows(context)
    assert context.parameters.thinking_budget is None


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "gpt-4.1", "gemini-2.5-flash"])
async def test_a_long_run_of_screenshots_stays_valid_and_mostly_the_same(model: str) -> None:
    events = [user_event("use the computer")]
    for number in range(110):
        events.append(assistant_event(ToolCall(call_id=f"c{number}", name="look")))
        events.append(tool_result_event(f"c{number}", (PICTURE,)))

    contexts = [await assemble(events[: 2 * n + 1], model=model) for n in (105, 106, 110)]

    assert [context.check() for context in contexts] == [[], [], []]
    shared = min(len(context.messages) for context in contexts)
    assert contexts[0].messages[:shared] == contexts[1].messages[:shared]
    assert contexts[1].messages[:shared] == contexts[2].messages[:shared]
