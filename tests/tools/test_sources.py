"""Sources of tools, and the short forms that open them."""

from collections.abc import Sequence
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
        return Listing(tools=[{**SPEC, "defer_loading": True}])


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
    assert sorted(TOOL_SOURCES) == ["executor", "functions", "listed"]


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
    assert source.notes == ("Tool 'listed': 'defer_loading' is not carried over.",)
    assert ExecutorTools(Client(), name="other").name == "other"


async def test_one_bad_function_does_not_harm_the_rest() -> None:
    (source,) = open_tool_sources([scatter, add])

    listed = await source.list_tools()

    assert [spec.name for spec in listed] == ["add"]
    assert [problem.name for problem in getattr(source, "problems", ())] == ["scatter"]
