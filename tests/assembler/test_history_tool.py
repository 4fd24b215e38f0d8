"""The tool `history`: all that a session holds can be read again, page by page."""

import json
import re
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import pytest

from context_assembler import AssemblerConfig, ContextAssembler, Text, ToolCall
from context_assembler.compaction import extract_summary
from context_assembler.events import (
    Covers,
    SessionEvent,
    assistant_event,
    tool_result_event,
    user_event,
)
from tests.core.sessions import OPUS, asks, results_of, texts_in

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
    reply = asks((f"h{number}", "history", dict(given)), id=f"m{number}")
    assert await assembler.run_tools("s", await assembler.record("s", reply, context)) == []
    *_, part = await results_of(assembler)
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


async def test_the_tool_never_reads_what_it_was_asked_or_returned() -> None:
    assembler = await opened(user_event("The harbour of Rostock."))
    reader = Reader(assembler, OPUS)
    await reader.sees()

    first = await reader.asks(first=2)
    await reader.asks(query="harbour")
    again = await reader.asks(first=1, last=99)
    own = await asked(assembler, {"first": 4}, 9)

    assert first == "[event 2, user]\nThe harbour of Rostock."
    assert again == f"[event 1, user]\nGo.\n\n{first}"
    assert own.startswith("Error: There is no such event")


async def test_a_summary_of_a_summary_leads_to_what_both_cover() -> None:
    def summary(said: str, first: int, last: int) -> SessionEvent:
        return SessionEvent(type="compaction", parts=(Text(said),), covers=Covers(first, last))

    said = user_event("Of Rostock."), user_event("Of Genoa."), summary("Both.", 2, 3)
    assembler = await opened(*said, summary("Harbours.", 4, 4))
    reader = Reader(assembler, OPUS)
    sent = str(await reader.sees())

    assert "Harbours.\\n\\n[This is a summary; see history(first=4).]" in sent
    assert "Genoa" not in sent
    assert await reader.asks(first=4) == "[event 4, compaction of history(first=2, last=3)]\nBoth."


async def test_what_a_rewind_left_behind_is_not_read_and_an_id_names_an_event() -> None:
    assembler = await opened(user_event("Of Rostock."), user_event("Of Genoa."))
    [first, second, _] = [event async for event in assembler.sessions.load("s")]
    await assembler.rewind("s", second)
    reader = Reader(assembler, OPUS)
    await reader.sees()

    assert await reader.asks(id=first.id) == "[event 1, user]\nGo."
    assert (
        await reader.asks(first=1, last=3) == "[event 1, user]\nGo.\n\n[event 2, user]\nOf Rostock."
    )
    assert await reader.asks(query="genoa") == "No event holds these words."


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


# ---- handles ----

HANDLE: Final = re.compile(r"see history\((first=\d+(?:, last=\d+)?)\)|Pass (.+?) for more\.")


def calling(model: str, given: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a provider's reply that calls the tool once."""
    call_id, arguments = f"h{number}", json.dumps(given)
    match MODELS.index(model):
        case 0:
            return asks((call_id, "history", dict(given)), id=f"m{number}")
        case 1:
            asked: Any = {"name": "history", "arguments": arguments}
            call = {"id": call_id, "type": "function", "function": asked}
            said = {"role": "assistant", "content": None, "tool_calls": [call]}
            return {"choices": [{"finish_reason": "tool_calls", "message": said}]}
        case 2:
            asked = {"name": "history", "arguments": arguments, "call_id": call_id}
            item = {"type": "function_call", "id": f"fc_{number}", "status": "completed", **asked}
            return {"object": "response", "status": "completed", "output": [item]}
        case _:
            part = {"functionCall": {"id": call_id, "name": "history", "args": dict(given)}}
            content = {"role": "model", "parts": [part]}
            return {"candidates": [{"content": content, "finishReason": "STOP"}]}


class Reader:
    """A model that calls the tool, and reads only what its provider is sent."""

    def __init__(self, assembler: ContextAssembler, model: str, **options: Any) -> None:
        self.assembler, self.model, self.number = assembler, model, 0
        self.sent: tuple[int, Any] = -1, []
        self.options: Any = {"model": model, "max_tokens": 500, "history_tool": True, **options}
        self.options["cache"] = "off"  # its marks move

    async def sees(self) -> list[str]:
        self.context = await self.assembler.assemble("s", **self.options)
        assert self.context.check() == []
        sent: Any = self.context.to_request()
        turns = next(sent[name] for name in ("messages", "input", "contents") if name in sent)
        cut_id, before = self.sent
        assert (
            cut_id != self.context.metadata.cut_id or turns[: len(before)] == before
        )  # it only grew
        self.sent = self.context.metadata.cut_id, turns
        return [*texts_in(sent)]

    async def asks(self, **given: Any) -> str:
        """Return the result of one call, as the next payload has it."""
        self.number += 1
        reply = calling(self.model, given, self.number)
        recorded = await self.assembler.record("s", reply, self.context)
        assert await self.assembler.run_tools("s", recorded) == []
        *_, part = await results_of(self.assembler)
        assert (part.text, part.is_error) in [(one, False) for one in await self.sees()]
        return part.text

    async def reads(self, handle: str) -> str:
        """Return all that a handle stands for, following what each page says of the next one."""
        given, text = numbers(handle), ""
        while True:
            answer = await self.asks(**given)
            page, _, frame = answer.rpartition("\n[page ")
            if not page:
                return text + answer
            text += page
            if (more := HANDLE.search(frame)) is None:
                return text
            text += "" if "page" in more[2] else "\n\n"
            given = numbers(more[2]) if "page" not in more[2] else given | numbers(more[2])


def numbers(handle: str) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", handle)}


def pieces_of(event: SessionEvent) -> list[str]:
    """Return all that an event says: its texts, and the values of arguments."""
    return [
        said
        for part in event.parts
        for said in texts_in(
            [part.arguments or {}] if isinstance(part, ToolCall) else getattr(part, "text", "")
        )
    ]


def talk(random: Random, turns: int, name: str) -> list[SessionEvent]:
    def said(most: int, number: int) -> str:
        line = f"{name}{number}: ünïcode\t{random.random()}\n"
        return f"{name}-{number} " + line * random.randint(1, most)

    made: list[SessionEvent] = []
    for number in range(turns):
        made.append(user_event(said(random.choice([2, 150]), number)))
        for step in range(random.randint(0, 3)):
            made_up = {
                "path": f"{name}/{number}/{step}.py",
                "body": f"{name}{number}.{step} " * random.randint(1, 99),
            }
            given = made_up if step else {"path": "same.py"}
            call = ToolCall(call_id=f"{name}{number}-{step}", name="edit", arguments=given)
            made.append(assistant_event([Text(said(3, number)), call]))
            made.append(tool_result_event(call.call_id, said(random.choice([3, 60, 200]), step)))
        made.append(assistant_event(said(9, number)))
    return made


@pytest.mark.parametrize(("model", "big"), [*zip(MODELS, [8_000, 0, 0, 8_000], strict=True)])
async def test_all_that_was_left_out_is_read_through_the_handles_alone(
    model: str, big: int
) -> None:
    random, room = Random(big), 6_000 if big else 11_000
    caps = {"max_result_tokens": 2_000, "max_user_tokens": 1_500}
    truncation: Any = {**caps, "stub_tokens": 60, "on_overflow": "shorten", "shorten_repeats": True}
    assembler = await opened(*talk(random, 5, "old"), truncation=truncation)
    options: Any = {"model": model, "max_tokens": 500, "max_context_tokens": room}
    for name in ("middle", "newer"):  # the second summary covers the first one
        await assembler.compact("s", extract_summary, keep=2, **options)
        await assembler.sessions.append("s", talk(random, 4, name))
    call = ToolCall(call_id="big", name="edit", arguments={"path": "big.py", "body": "word " * big})
    last = user_event("Write it."), assistant_event(call), tool_result_event("big", "Done.")
    await assembler.sessions.append("s", [*talk(random, 6, "last"), *last])
    stored = [event async for event in assembler.sessions.load("s")]
    plain = (await assembler.assemble("s", **options)).to_request()

    reader, told = Reader(assembler, model, max_context_tokens=room), dict[str, str]()
    sent = await reader.sees()
    handles = {found[1] for text in sent for found in HANDLE.finditer(text) if found[1]}
    cold = ContextAssembler(assembler.sessions, config=assembler.config)
    for options_on, expected in ((options, plain), (reader.options, reader.context.to_request())):
        for one in (assembler, cold):  # forms with and without handles are never mixed
            assert (await one.assemble("s", **options_on)).to_request() == expected
    await reader.sees()
    for handle in sorted(handles):
        told[handle] = await reader.reads(handle)
    read = "\n\n".join(told.values())

    marks = ["messages were left out here", "is a summary"]
    marks += ["characters"] if big else ["tokens in full", "Left out here"]
    for mark in marks:
        assert any(re.search(mark + r"[^\n]*; see history\(first=", text) for text in sent), mark
    assert "see history" not in str(plain)
    for event in stored:
        whole = all(any(piece in text for text in sent) for piece in pieces_of(event))
        kept = re.search(rf"\[event {event.seq}, {event.type}.*?\]\n", read)
        assert whole or (kept and all(piece in read for piece in pieces_of(event))), event
