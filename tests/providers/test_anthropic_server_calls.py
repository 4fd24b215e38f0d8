"""A server tool's call without its result is told in words."""

from typing import Any

import pytest

from context_assembler import ContextAssembler, assistant_event, user_event
from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque, Part, Text
from tests.providers.drafts import OPUS

CALL = Opaque(
    provider="anthropic",
    block={"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
    text="[web_search]",
)
RESULT = Opaque(
    provider="anthropic",
    block={"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    text="[found nothing]",
)
SILENT = Opaque(
    provider="anthropic",
    block={
        "type": "tool_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {"type": "tool_search_tool_search_result", "tool_references": []},
    },
)


def said(*parts: Part, goes_on: bool = True) -> Draft:
    messages = [
        Message(role="user", parts=(Text("Search."),), id="u1"),
        Message(role="assistant", parts=parts, id="a1"),
        Message(role="user", parts=(Text("And now?"),), id="u2"),
    ]
    return Draft(
        limits=OPUS,
        parameters=Parameters(max_tokens=1000),
        messages=tuple(messages if goes_on else messages[:2]),
    )


def test_a_call_alone_is_told_in_words() -> None:
    adapted, [row] = ANTHROPIC.adapt(said(Text("Wait."), CALL))

    assert adapted.messages[1].parts == (Text("Wait."), Text(CALL.text))
    assert (row.id, row.decision, row.rule) == ("a1", "repaired", "content.unanswered")
    assert not ANTHROPIC.check_payload(ANTHROPIC.render(adapted), limits=OPUS)
    assert ANTHROPIC.adapt(adapted) == (adapted, ())


def test_a_pair_stays_and_so_does_what_the_last_reply_waits_for() -> None:
    for draft in (said(CALL, RESULT, Text("Nothing.")), said(CALL, goes_on=False)):
        assert ANTHROPIC.adapt(draft) == (draft, ())


def test_other_providers_blocks_are_none_of_this() -> None:
    foreign = Opaque(provider="gemini", block=CALL.block, text="[search]")

    adapted, rows = ANTHROPIC.adapt(said(foreign))

    assert adapted.messages[1].parts == (Text("[search]"),)
    assert [row.rule for row in rows] == ["content.foreign"]


@pytest.mark.parametrize("model", ["gemini-4-argon", "gpt-4.1", "gpt-6.2-sol"])
async def test_a_context_for_another_model_is_still_spelled_validly_for_claude(model: str) -> None:
    assembler = ContextAssembler(sessions="memory:")
    parts: list[Any] = [CALL, SILENT, Text("There are no such tools.")]
    await assembler.sessions.append(
        "s", [user_event("Find a tool."), assistant_event(parts), user_event("Go on.")]
    )

    context = await assembler.assemble("s", model=model)

    assert not [one for one in context.check("anthropic") if one.level == "refused"]
