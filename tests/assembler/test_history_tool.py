"""The tool `history`: all that a session holds can be read again, page by page."""

import re
from collections.abc import Mapping
from typing import Any, Final

import pytest

from context_assembler import AssemblerConfig, ContextAssembler, ToolCall, ToolResult
from context_assembler.events import SessionEvent, assistant_event, tool_result_event, user_event

OPUS: Final = "claude-opus-5-5"
SECRET: Final = "sk-ant-api03-" + "aB3" * 31
MODELS: Final = ("claude-opus-5-5", "gpt-4.1", "gpt-5.5", "gemini-4-argon")


async def opened(*stored: SessionEvent, **config: Any) -> ContextAssembler:
    assembler = ContextAssembler(config=AssemblerConfig(**config))
    await assembler.add_user("s", "Go.")
    await assembler.sessions.append("s", stored)
    return assembler


async def asked(assembler: ContextAssembler, given: Mapping[str, Any], number: int = 0) -> str:
    """Let a model call the tool once, and return what was stored of its answer."""
    await assembler.add_user("s", "Look it up.")
    context = await assembler.assemble("s", model=OPUS, max_tokens=1000, history_tool=True)
    call = {"type": "tool_use", "id": f"h{number}", "name": "history", "input": dict(given)}
    kind = {"id": f"m{number}", "type": "message", "role": "assistant", "model": OPUS}
    reply = {**kind, "content": [call], "stop_reason": "tool_use"}
    assert await assembler.run_tools("s", await assembler.record("s", reply, context)) == []
    loaded = [event async for event in assembler.sessions.load("s")]
    [part] = [p for p in loaded[-1].parts if isinstance(p, ToolResult)]
    again = await assembler.assemble("s", model=OPUS, max_tokens=1000, history_tool=True)
    assert again.check() == []
    assert not again.report.of("shortened") or "history" not in str(again.report.of("shortened"))
    return part.text


@pytest.mark.parametrize("cap", [None, 300])
async def test_what_a_cap_cut_off_is_read_page_by_page_without_a_byte_lost(
    cap: int | None,
) -> None:
    text = "".join(f"line {number}: ünïcode \\n {number * 7919}\n" for number in range(300))
    call = ToolCall(call_id="c", name="read_log", arguments={"path": "a.log"})
    stored = user_event("Which?"), assistant_event(call), tool_result_event("c", text)
    assembler = await opened(*stored, truncation={"max_result_tokens": cap or 100_000})

    pages, at, last = list[str](), 1, False
    while not last:
        answer = await asked(assembler, {"first": 4, "page": at}, at)
        page, _, told = answer.rpartition(f"\n[page {at} of ")
        pages.append(page)
        at, last = at + 1, "Pass page=" not in told

    assert "".join(pages) == f"[event 4, tool_result]\n{text}"


async def test_words_are_found_newest_first_and_never_in_what_the_tool_returned() -> None:
    said = [user_event(f"The harbour of {place}.") for place in ("Rostock", "Genoa", "Rostock")]
    assembler = await opened(*said)

    first = await asked(assembler, {"query": "rostock HARBOUR"}, 1)
    second = await asked(assembler, {"query": "rostock harbour"}, 2)

    assert first == second
    assert re.findall(r"event (\d+)", first) == ["4", "2"]


async def test_what_a_rewind_left_behind_is_out_of_reach() -> None:
    assembler = await opened(user_event("To Genoa?"))
    await assembler.rewind("s", to=1)

    answers = [await asked(assembler, {"query": "genoa"}, 1), await asked(assembler, {"first": 2})]

    assert answers == ["No event holds these words.", "Error: There is no such event."]


async def test_secrets_are_masked_as_they_are_in_the_payload() -> None:
    call = ToolCall(call_id="c", name="env", arguments={})
    stored = assistant_event(call), tool_result_event("c", f"KEY={SECRET} on")
    assembler = await opened(*stored, safety={"masks_secrets_in": ["tool_results"]})

    answers = [await asked(assembler, {"first": 3}, 1), await asked(assembler, {"query": "key"}, 2)]

    assert all("KEY=" in one and SECRET not in one for one in answers)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "Pass query"),
        ({"first": 99}, "no such event"),
        ({"first": 1, "page": 3}, "no page 3"),
        ({"first": "x"}, "must be numbers"),
    ],
)
async def test_what_cannot_be_read_is_an_error_that_says_what_to_pass(
    given: dict[str, Any], told: str
) -> None:
    answer = await asked(await opened(), given)

    assert answer.startswith("Error: ")
    assert told in answer


@pytest.mark.parametrize("model", MODELS)
async def test_every_provider_is_offered_the_tool_if_it_is_asked_for(model: str) -> None:
    assembler = await opened()

    with_tool = await assembler.assemble("s", model=model, max_tokens=500, history_tool=True)
    without = await assembler.assemble("s", model=model, max_tokens=500)

    assert [tool.name for tool in with_tool.tools] == ["history"]
    assert not without.tools
    assert with_tool.check() == []
