"""Sources of tools, and the short forms that open them."""

import asyncio
import threading
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from context_assembler.errors import ConfigurationError
from context_assembler.ports import ToolSource
from context_assembler.tools import TOOL_SOURCES, open_tool_sources
from context_assembler.tools.executor import ExecutorTools
from context_assembler.values.tools import ToolSpec

SPEC = {"name": "listed", "input_schema": {"type": "object"}}


def add(a: int) -> int:
    return a


def scatter(*a: int) -> None: ...


@dataclass
class SdkTool:
    """What an SDK's own tool object looks like."""

    name: str

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"name": self.name, "inputSchema": {"type": "object"}}


class Executor:
    def list_tools(self) -> list[Any]:
        return [ToolSpec(name="run"), SPEC, add, SdkTool("sdk"), 3, {"name": "x", "parameters": 1}]


@dataclass
class Listing:
    tools: list[Any]


class Client:
    name = "mcp:docs"

    async def list_tools(self) -> Listing:
        return Listing(tools=[{**SPEC, "input_examples": []}])


class Own:
    name = "own"

    async def list_tools(self) -> Sequence[ToolSpec]:
        return [ToolSpec(name="own")]


async def names(sources: list[ToolSource]) -> dict[str, list[str]]:
    return {one.name: [spec.name for spec in await one.list_tools()] for one in sources}


async def test_every_short_form_opens() -> None:
    given = [add, SPEC, Client(), [ToolSpec(name="spec"), SdkTool("sdk")], Own(), None]

    found = await names(open_tool_sources(given))

    assert found == {
        "functions": ["add"],
        "mcp:docs": ["listed"],
        "own": ["own"],
        "listed": ["listed", "spec", "sdk"],
    }


def test_nothing_opens_nothing_and_a_source_stays_itself() -> None:
    source = ExecutorTools(Executor())

    assert open_tool_sources(None) == open_tool_sources([]) == []
    assert open_tool_sources(source) == [source]
    assert sorted(TOOL_SOURCES) == ["executor", "functions", "listed", "mcp"]


@pytest.mark.parametrize("given", [3, "search", [object()]])
def test_what_is_no_source_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="no source of tools"):
        open_tool_sources(given)


async def test_an_executor_may_list_anything_and_keeps_the_good() -> None:
    source = ExecutorTools(Executor())

    listed = await source.list_tools()

    assert source.name == "executor"
    assert [spec.name for spec in listed] == ["run", "listed", "add", "sdk"]
    assert [problem.name for problem in source.problems] == ["(unnamed)", "x"]


async def test_an_executors_name_and_notes_are_kept() -> None:
    source = ExecutorTools(Client())

    await source.list_tools()

    assert source.name == "mcp:docs"
    assert source.notes == ("Tool 'listed': 'input_examples' is not carried over.",)
    assert ExecutorTools(Client(), name="other").name == "other"


class Nameless:
    """A callable whose signature cannot even be asked for."""

    @property
    def __signature__(self) -> Any:
        raise RuntimeError("no signature today")

    def __call__(self, a: int) -> int:
        return a


class Undumpable:
    name = "undumpable"

    def model_dump(self, **_: Any) -> Any:
        raise RecursionError("too deep")


async def test_what_fails_when_it_is_looked_at_is_left_out_by_itself() -> None:
    sources = open_tool_sources([Nameless(), add, Undumpable(), SPEC])

    assert await names(sources) == {"functions": ["add"], "listed": ["listed"]}
    problems = [str(one) for source in sources for one in getattr(source, "problems", ())]
    assert "'(unnamed)' cannot be offered: it cannot be read: RuntimeError: no sig" in problems[0]
    assert "'undumpable' cannot be offered: it cannot be read: RecursionError" in problems[1]


async def test_one_bad_function_does_not_harm_the_rest() -> None:
    (source,) = open_tool_sources([scatter, add])

    listed = await source.list_tools()

    assert [spec.name for spec in listed] == ["add"]
    assert [problem.name for problem in getattr(source, "problems", ())] == ["scatter"]


class Blocking:
    """Lists its tools without asyncio, once it is let go."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def list_tools(self) -> Iterator[Any]:
        self.gate.wait()
        yield SPEC


async def test_the_loop_goes_on_while_an_executor_blocks() -> None:
    executor = Blocking()
    listing = asyncio.create_task(ExecutorTools(executor).list_tools())
    await asyncio.sleep(0)

    assert not listing.done()
    executor.gate.set()

    assert [spec.name for spec in await listing] == ["listed"]


async def test_a_blocked_executor_can_be_given_up() -> None:
    executor = Blocking()
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ExecutorTools(executor).list_tools()
    finally:
        executor.gate.set()


def test_an_answer_after_the_loop_has_ended_goes_nowhere() -> None:
    executor = Blocking()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ExecutorTools(executor).list_tools()

    asyncio.run(give_up())
    executor.gate.set()
    for thread in threading.enumerate():
        if thread.name == "list-tools":
            thread.join()


class Failing:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def list_tools(self) -> list[Any]:
        raise self._error


@pytest.mark.parametrize("error", [ConnectionError("refused"), asyncio.CancelledError()])
async def test_what_a_blocking_executor_raises_arrives(error: BaseException) -> None:
    with pytest.raises(type(error)):
        await ExecutorTools(Failing(error)).list_tools()


async def test_what_no_future_can_carry_arrives_in_words() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await ExecutorTools(Failing(StopIteration())).list_tools()


class Deferred:
    def list_tools(self) -> Awaitable[list[Any]]:
        return self._later()

    async def _later(self) -> list[Any]:
        return [SPEC]


async def test_an_answer_that_is_awaited_later_is_awaited() -> None:
    assert [spec.name for spec in await ExecutorTools(Deferred()).list_tools()] == ["listed"]


class Unnamed:
    @property
    def name(self) -> str:
        raise RuntimeError("not connected")

    def list_tools(self) -> list[Any]:
        return []


def test_a_name_that_raises_is_no_name() -> None:
    assert ExecutorTools(Unnamed()).name == "executor"
