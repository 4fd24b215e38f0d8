"""`run_tools`: what runs, what is answered without running, and what remains for the caller."""

import asyncio
import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from pydantic_core import core_schema

from context_assembler import (
    AssemblerConfig,
    ContextAssembler,
    Image,
    SessionEvent,
    SqliteStore,
    ToolCall,
    ToolResult,
    assistant_event,
    tool,
)
from context_assembler.errors import InvalidParameterError
from tests.core.sessions import OPUS, asks, results_of

Said = list[tuple[str, bool, str]]  # call id, whether it is an error, text


class Recorder:
    """Functions that note when they run."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def look(self, city: str, days: int = 1) -> str:
        """Look at the weather."""
        self.ran.append((city, days))
        return f"{city}: {days}"

    async def look_later(self, city: str) -> dict[str, str]:
        """Look without a thread."""
        self.ran.append(city)
        return {"city": city}

    @tool(needs_approval=True)
    def delete(self, path: str) -> str:
        """Delete a file."""
        self.ran.append(path)
        return "gone"


async def begun(
    *tools: Any, reply: Any, store: Any = "memory:", **options: Any
) -> tuple[ContextAssembler, list[SessionEvent]]:
    assembler = ContextAssembler(store, tools=list(tools))
    await assembler.add_user("s", "Go.")
    context = await assembler.assemble("s", model=OPUS, max_tokens=1000, **options)
    return assembler, await assembler.record("s", reply, context)


async def said(assembler: ContextAssembler) -> Said:
    return [(one.call_id, one.is_error, one.text) for one in await results_of(assembler)]


async def check(assembler: ContextAssembler) -> None:
    context = await assembler.assemble("s", model=OPUS, max_tokens=1000)
    assert context.check() == []


async def test_functions_run_and_the_loop_goes_on() -> None:
    tools = Recorder()
    reply = asks(("1", "look", {"city": "Lima"}), ("2", "look_later", {"city": "Rome"}))
    assembler, answers = await begun(tools.look, tools.look_later, reply=reply)

    left = await assembler.run_tools("s", answers[-1])

    assert (left, answers[-1].has_calls) == ([], True)
    assert await said(assembler) == [("1", False, "Lima: 1"), ("2", False, '{"city": "Rome"}')]
    await check(assembler)


async def test_a_reply_without_calls_runs_nothing() -> None:
    assembler, answers = await begun(Recorder().look, reply=asks())

    assert await assembler.run_tools("s", answers) == []

    assert not answers[-1].has_calls


_CALL = {"id": "c1", "name": "look", "args": {"city": "Lima"}}
_CHAT = {"name": "look", "arguments": '{"city": "Lima"}'}
_ITEM = {"type": "function_call", "call_id": "c1", "status": "completed", **_CHAT}
_ASKED = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": _CHAT}]}
REFUSED: dict[str, Any] = {
    OPUS: asks(("c1", "look", {"city": "Lima"}), stop="refusal"),
    "gpt-5.5": {"object": "response", "status": "incomplete", "output": [_ITEM]}
    | {"incomplete_details": {"reason": "content_filter"}},
    "gpt-4.1": {"choices": [{"finish_reason": "content_filter", "message": _ASKED}]},
    "gemini-4-argon": {
        "candidates": [{"content": {"parts": [{"functionCall": _CALL}]}, "finishReason": "SAFETY"}]
    },
}


@pytest.mark.parametrize("policy", ["replace", "drop", "keep"])
@pytest.mark.parametrize(("model", "reply"), REFUSED.items(), ids=REFUSED.keys())
async def test_calls_of_a_refused_reply_are_not_run(model: str, reply: Any, policy: str) -> None:
    tools = Recorder()
    config = AssemblerConfig(safety={"on_refusal": policy})
    assembler = ContextAssembler("memory:", tools=[tools.look], config=config)
    await assembler.add_user("s", "Go.")
    context = await assembler.assemble("s", model=model, max_tokens=1000)
    [*_, answer] = await assembler.record("s", reply, context)

    assert await assembler.run_tools("s", answer) == []
    await assembler.add_user("s", "Else.")
    again = await assembler.assemble("s", model=model, max_tokens=1000)

    assert (tools.ran, await said(assembler)) == ([], [])
    assert (answer.has_calls, answer.tool_calls) == (False, ())
    assert [call.call_id for call in answer.unfinished_calls] == ["c1"]
    assert again.check() == []
    sent = str(again.to_request())
    assert ("The provider refused this reply" in sent) == (policy == "replace")
    assert ("Lima" in sent) == (policy == "keep")


# ---- once ----
async def test_a_call_that_has_a_result_is_not_run_again() -> None:
    tools = Recorder()
    reply = asks(("1", "look", {"city": "Lima"}), ("2", "look", {"city": "Rome"}))
    assembler, answers = await begun(tools.look, reply=reply)
    await assembler.add_tool_result("s", "1", "Known.")

    for _ in range(3):
        await assembler.run_tools("s", answers)

    assert tools.ran == [("Rome", 1)]
    assert [text for _, _, text in await said(assembler)] == ["Known.", "Rome: 1"]


async def test_calls_with_one_id_are_answered_in_their_order() -> None:
    tools = Recorder()
    cities = ("Lima", "Rome", "Oslo")
    reply = asks(*(("same", "look", {"city": city}) for city in cities))
    assembler, answers = await begun(tools.look, reply=reply)
    await assembler.add_tool_result("s", "same", "Known.")

    await assembler.run_tools("s", answers)

    assert sorted(tools.ran) == [("Oslo", 1), ("Rome", 1)]
    assert [text for _, _, text in await said(assembler)] == ["Known.", "Rome: 1", "Oslo: 1"]
    await check(assembler)


async def test_of_two_at_once_one_runs_the_calls() -> None:
    tools = Recorder()
    assembler, answers = await begun(tools.look, reply=asks(("1", "look", {"city": "Lima"})))

    await asyncio.gather(*(assembler.run_tools("s", answers) for _ in range(5)))

    assert tools.ran == [("Lima", 1)]
    assert len(await said(assembler)) == 1


async def test_a_reply_of_another_session_runs_nothing() -> None:
    tools = Recorder()
    assembler, answers = await begun(tools.look, reply=asks(("1", "look", {"city": "Lima"})))
    await assembler.add_user("other", "Go.")
    await assembler.sessions.append("other", [assistant_event("Hi."), assistant_event("Hi.")])
    call = ToolCall(call_id="1", name="look", arguments={"city": "Lima"})
    theirs = replace(answers[-1], parts=(replace(call, call_id="2"),))

    for session, answer in (
        ("other", answers[-1]),
        ("s", assistant_event((call,))),
        ("s", theirs),
    ):
        with pytest.raises(InvalidParameterError, match="must be a reply that session"):
            await assembler.run_tools(session, answer)

    with pytest.raises(InvalidParameterError, match="must be 0 or more"):
        await assembler.run_tools("s", answers, timeout_seconds=float("nan"))
    assert tools.ran == []


async def test_another_process_runs_no_call_again(tmp_path: Path) -> None:
    first, second = Recorder(), Recorder()
    reply = asks(("1", "look", {"city": "Lima"}))
    one, answers = await begun(first.look, reply=reply, store=SqliteStore(tmp_path / "a.db"))
    other = ContextAssembler(SqliteStore(tmp_path / "a.db"), tools=[second.look])
    await one.run_tools("s", answers)

    await other.run_tools("s", answers)

    assert (first.ran, second.ran) == ([("Lima", 1)], [])
    await one.sessions.close()
    await other.sessions.close()


# ---- arguments ----


class Unit(enum.Enum):
    C = "celsius"


@dataclass
class Place:
    lat: float


class Order(BaseModel):
    count: int


def typed(
    day: date, unit: Unit, place: Place, order: Order, mode: Literal["a", "b"] = "a", *, n: int = 7
) -> str:
    """Take all kinds of types."""
    assert isinstance(day, date)
    assert isinstance(order, Order)
    assert isinstance(place, Place)
    return f"{day} {unit.name} {place.lat} {order.count} {mode} {n}"


def by_place(first: int, second: int = 2, /, third: int = 3) -> list[int]:
    """Take arguments by place."""
    return [first, second, third]


class Echo:
    def __call__(self, x: int) -> int:
        """Be called."""
        return x


FITS: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "types of all kinds": (
        typed,
        {"day": "2026-05-04", "unit": "celsius", "place": {"lat": 1}, "order": {"count": 2}},
        "2026-05-04 C 1.0 2 a 7",
    ),
    "by place": (by_place, {"first": 1, "third": 9}, "[1, 2, 9]"),
    "a number as text": (by_place, {"first": "1"}, "[1, 2, 3]"),
    "a whole float": (by_place, {"first": 1.0}, "[1, 2, 3]"),
    "a callable object": (Echo(), {"x": 3}, "3"),
    "a partial function": (partial(by_place, 5), {"third": 1}, "[5, 2, 1]"),
}


@pytest.mark.parametrize(("function", "given", "result"), FITS.values(), ids=FITS.keys())
async def test_arguments_come_as_the_types_that_a_function_asks_for(
    function: Callable[..., Any], given: Any, result: str
) -> None:
    target: Any = function.func if isinstance(function, partial) else function
    name = getattr(target, "__name__", type(function).__name__)
    assembler, answers = await begun(function, reply=asks(("1", name, given)))

    await assembler.run_tools("s", answers)

    assert await said(assembler) == [("1", False, result)]


MISFITS: dict[str, tuple[Any, str]] = {
    "missing": ({}, "city: Field required"),
    "unknown": ({"city": "Lima", "town": 1}, "town: Extra inputs are not permitted"),
    "another type": ({"city": 7}, "city: Input should be a valid string"),
    "null": ({"city": None}, "city: Input should be a valid string"),
    "no number": ({"city": "Lima", "days": "two"}, "days: Input should be a valid integer"),
    "no object": ([1, 2], "not a JSON object"),
    "cut off": ('{"city": "Li', "not a JSON object"),
}


@pytest.mark.parametrize(("given", "told"), MISFITS.values(), ids=MISFITS.keys())
async def test_arguments_that_do_not_fit_are_told_and_nothing_runs(given: Any, told: str) -> None:
    tools = Recorder()
    assembler, answers = await begun(tools.look, reply=asks(("1", "look", given)))

    assert await assembler.run_tools("s", answers) == []

    [(_, is_error, text)] = await said(assembler)
    assert (tools.ran, is_error) == ([], True)
    assert told in text
    assert "did not run" in text
    await check(assembler)


async def test_a_call_that_the_reply_was_cut_off_in_is_answered_and_not_run() -> None:
    tools = Recorder()
    reply = asks(("1", "look", {"city": "Lima"}), stop="max_tokens")
    assembler, answers = await begun(tools.look, reply=reply)

    await assembler.run_tools("s", answers)

    [(_, is_error, text)] = await said(assembler)
    assert (tools.ran, is_error) == ([], True)
    assert "cut off" in text


# ---- what goes wrong ----


def finds_none() -> int:
    """Find none."""
    return next(iter(()))


def gives_a_function() -> Any:
    """Return what JSON cannot say."""
    return print


class WordlessError(Exception):
    def __init__(self, said: Any) -> None:
        self.said = said

    def __str__(self) -> str:
        if isinstance(self.said, BaseException):
            raise self.said
        return self.said  # type: ignore[no-any-return]  # perhaps no text


class Wordless:
    def keys(self) -> Any:
        raise RuntimeError


def raising(error: BaseException, *, is_later: bool = False) -> Callable[..., Any]:
    def fails() -> None:
        """Fail."""
        raise error

    async def fails_later() -> None:
        """Fail."""
        raise error

    return fails_later if is_later else fails


def gives_what_cannot_be_read() -> Any:
    """Return what raises if it is read."""
    return {"a": Wordless()}


FAILURES: dict[str, tuple[Callable[..., Any], str]] = {
    "an error whose text is an error": (raising(WordlessError(RuntimeError())), "WordlessError"),
    "one of a coroutine": (raising(WordlessError(ValueError()), is_later=True), "WordlessError"),
    "an error whose text is an exit": (raising(WordlessError(SystemExit(3))), "WordlessError"),
    "an error whose text is none": (raising(WordlessError(None)), "WordlessError"),
    "a value that cannot be read": (gives_what_cannot_be_read, "a dict"),
    "an error": (raising(LookupError("No such city.")), "LookupError: No such city."),
    "an exit": (raising(SystemExit(3)), "SystemExit: 3"),
    "the end of an iterator": (finds_none, "StopIteration"),
    "an error of a coroutine": (raising(ValueError(), is_later=True), "ValueError"),
    "an exit of a coroutine": (raising(SystemExit(3), is_later=True), "SystemExit: 3"),
    "a coroutine that gives up": (
        raising(asyncio.CancelledError(), is_later=True),
        "may or may not have run",
    ),
    "a value that cannot be said": (gives_a_function, "builtin"),
}


@pytest.mark.parametrize(("function", "told"), FAILURES.values(), ids=FAILURES.keys())
async def test_a_failure_is_a_result_that_the_model_reads(
    function: Callable[..., Any], told: str
) -> None:
    assembler, answers = await begun(function, reply=asks(("1", function.__name__, {})))

    await assembler.run_tools("s", answers)

    [(_, is_error, text)] = await said(assembler)
    assert is_error
    assert told in text
    await check(assembler)


async def test_one_that_is_late_costs_the_others_nothing() -> None:
    over, tools = threading.Event(), Recorder()

    def waits() -> None:
        """Wait."""
        over.wait()

    async def waits_on() -> None:
        """Wait, whoever cancels."""
        while not over.is_set():
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue

    reply = asks(("1", "waits", {}), ("2", "waits_on", {}), ("3", "look_later", {"city": "Rome"}))
    assembler, answers = await begun(waits, waits_on, tools.look_later, reply=reply)

    await assembler.run_tools("s", answers, timeout_seconds=0)
    over.set()

    late, later, done = await said(assembler)
    assert "took longer than 0 s" in late[2] == later[2]
    assert done == ("3", False, '{"city": "Rome"}')
    await check(assembler)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def test_cancelling_leaves_a_valid_session() -> None:
    began, tools = asyncio.Event(), Recorder()

    async def waits() -> None:
        """Wait."""
        began.set()
        await asyncio.Event().wait()

    reply = asks(("1", "look_later", {"city": "Rome"}), ("2", "waits", {}), ("3", "waits", {}))
    assembler, answers = await begun(waits, tools.look_later, reply=reply)
    running = asyncio.create_task(assembler.run_tools("s", answers))
    await began.wait()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    told = await said(assembler)
    assert told[0] == ("1", False, '{"city": "Rome"}')
    assert ["may or may not have run" in text for _, _, text in told] == [False, True, True]
    await check(assembler)
    assert await assembler.run_tools("s", answers) == []
    assert len(await said(assembler)) == 3


async def test_calls_run_at_the_same_time() -> None:
    meeting = threading.Barrier(12)

    def meets() -> str:
        """Wait for all the others."""
        meeting.wait()
        return "met"

    reply = asks(*((str(number), "meets", {}) for number in range(12)))
    assembler, answers = await begun(meets, reply=reply)

    await assembler.run_tools("s", answers)

    assert [text for _, _, text in await said(assembler)] == ["met"] * 12


async def test_a_function_is_read_once_however_often_it_is_called() -> None:
    read: list[str] = []

    class Read(int):
        @classmethod
        def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
            read.append("look")
            return core_schema.int_schema()

    def look(x: Read) -> int:
        """Look."""
        return x

    reply = asks(*((str(number), "look", {"x": number}) for number in range(20)))
    assembler, answers = await begun(look, reply=reply)
    before = len(read)

    await assembler.run_tools("s", answers)

    assert [text for _, _, text in await said(assembler)] == list(map(str, range(20)))
    assert len(read) - before < 5


# ---- what remains for the caller ----

SPEC = {"name": "search", "description": "Search.", "input_schema": {"type": "object"}}


class Executor:
    name = "desk"

    def list_tools(self) -> list[Any]:
        return [{**SPEC, "name": "print_page"}]


async def test_what_others_run_remains_and_an_unknown_name_is_answered() -> None:
    tools = Recorder()
    reply = asks(("1", "search", {}), ("2", "print_page", {}), ("3", "lok", {"city": "Lima"}))
    assembler, answers = await begun(tools.look, SPEC, Executor(), reply=reply)

    left = await assembler.run_tools("s", answers)

    assert [call.call_id for call in left if isinstance(call, ToolCall)] == ["1", "2"]
    [(call_id, is_error, text)] = await said(assembler)
    assert (call_id, is_error) == ("3", True)
    assert text == "There is no tool 'lok'. The tools are: look, print_page, search."


async def test_what_needs_approval_waits_for_it() -> None:
    tools = Recorder()
    assembler, answers = await begun(tools.delete, reply=asks(("1", "delete", {"path": "/a"})))

    left = await assembler.run_tools("s", answers)
    assert (len(left), tools.ran) == (1, [])
    left = await assembler.run_tools("s", answers, approved=["1"])

    assert (left, tools.ran) == ([], ["/a"])


async def test_what_was_not_offered_does_not_run() -> None:
    tools = Recorder()
    reply = asks(("1", "look", {"city": "Lima"}), ("2", "look_later", {"city": "Lima"}))
    assembler, answers = await begun(
        tools.look, tools.look_later, reply=reply, disabled_tools=("look",)
    )

    await assembler.run_tools("s", answers)

    assert tools.ran == ["Lima"]
    assert (await said(assembler))[0][2].startswith("There is no tool 'look'.")


async def test_the_functions_of_one_call_run_as_well() -> None:
    tools = Recorder()
    reply = asks(("1", "look", {"city": "Lima"}))
    assembler, answers = await begun(reply=reply, additional_tools=[tools.look])

    assert len(await assembler.run_tools("s", answers)) == 1
    assert await assembler.run_tools("s", answers, tools=[tools.look]) == []

    assert tools.ran == [("Lima", 1)]


async def test_of_two_functions_with_one_name_each_runs_for_its_own() -> None:
    first, second = Recorder(), Recorder()
    reply = asks(("1", "look", {"city": "A"}), ("2", "functions_look", {"city": "B"}))

    def look(city: str) -> str:
        """Look elsewhere."""
        first.ran.append(city)
        return city

    assembler, answers = await begun(second.look, reply=reply, additional_tools=[look])

    await assembler.run_tools("s", answers, tools=[look])

    assert (first.ran, second.ran) == (["A"], [("B", 1)])


async def test_a_reply_of_no_recorded_call_uses_what_is_offered_at_this_moment() -> None:
    tools = Recorder()
    assembler = ContextAssembler(tools=[tools.look], config=AssemblerConfig())
    await assembler.add_user("s", "Go.")
    call = ToolCall(call_id="1", name="look", arguments={"city": "Lima"})
    [answer] = await assembler.sessions.append("s", [assistant_event((call,))])

    assert await assembler.run_tools("s", answer) == []

    assert tools.ran == [("Lima", 1)]


async def test_requests_of_approval_and_calls_of_a_providers_kind_remain() -> None:
    request = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "name": "pay",
        "arguments": "{}",
        "server_label": "shop",
    }
    shell = {
        "type": "shell_call",
        "id": "sh_1",
        "call_id": "c1",
        "status": "completed",
        "action": {"commands": ["ls"]},
    }
    reply = {"object": "response", "id": "r", "status": "completed", "output": [request, shell]}
    assembler = ContextAssembler(tools=[Recorder().look])
    await assembler.add_user("s", "Go.")
    context = await assembler.assemble("s", model="gpt-5.5", max_tokens=1000)
    answers = await assembler.record("s", reply, context)

    left = await assembler.run_tools("s", answers)

    assert [type(one).__name__ for one in left] == ["ToolCall", "Opaque"]
    assert await said(assembler) == []


async def test_a_tool_may_return_pictures_and_whole_results() -> None:
    picture: Any = {"type": "url", "url": "https://example.org/a.png"}

    def shows() -> Image:
        """Show a picture."""
        from context_assembler import UrlSource

        return Image(source=UrlSource(url=picture["url"]))

    def refuses() -> ToolResult:
        """Refuse."""
        return ToolResult(call_id="other", content=(), is_error=True)

    assembler, answers = await begun(
        shows, refuses, reply=asks(("1", "shows", {}), ("2", "refuses", {}))
    )

    await assembler.run_tools("s", answers)

    events = [event async for event in assembler.sessions.load("s")]
    parts: list[Any] = [part for event in events for part in event.parts][-2:]
    assert [type(part) for part in parts[0].content] == [Image]
    assert (parts[1].call_id, parts[1].is_error) == ("2", True)
