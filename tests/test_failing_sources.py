"""A source of tools or skills that fails for a while: what it listed last stays, and the request its beginning."""

import asyncio
import gc
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_assembler import AssembledContext, ContextAssembler, McpTools
from context_assembler.stages.collect_tools import ToolCollector
from context_assembler.testing import ManualClock
from context_assembler.tools import open_tool_sources
from context_assembler.values.parts import JsonObject
from context_assembler.values.prompt import Skill
from context_assembler.values.tools import ToolSpec
from tests.test_changing_sources import MODELS, REPLIES
from tests.test_changing_tools import grows
from tests.tools.mcp_sources import PROGRAM

AT = datetime(2026, 8, 1, 9, 30, 15, tzinfo=UTC)
STILL = "What it listed last, at 2026-08-01 09:30:15 UTC, is still offered."


def schema(**properties: str) -> JsonObject:
    return {"type": "object", "properties": {n: {"type": t} for n, t in properties.items()}}


@dataclass
class Executor:
    """Lists its tools, as long as it is up; it is equal to others, and is no key."""

    names: Sequence[str] = ("find",)
    is_up: bool = True
    asked: int = 0

    async def list_tools(self) -> list[JsonObject]:
        self.asked += 1
        if not self.is_up:
            raise ConnectionError("503")
        return [{"name": name, "input_schema": schema(q="string")} for name in self.names]


@dataclass
class Provider:
    """Lists a skill, as long as it is up."""

    is_up: bool = True

    async def list_skills(self) -> list[Skill]:
        if not self.is_up:
            raise ConnectionError("503")
        return [Skill(name="refund", description="Refunds.", path="refund/SKILL.md")]


class Slotted:
    """An executor that nobody can refer to weakly."""

    __slots__ = ("is_up",)

    def __init__(self) -> None:
        self.is_up = True

    def list_tools(self) -> Any:
        return [{"name": "find", "input_schema": schema(q="string")}] if self.is_up else None


class BareSource:
    """A source of the port alone."""

    __slots__ = ("is_up",)
    name = "bare"

    def __init__(self) -> None:
        self.is_up = True

    async def list_tools(self) -> Sequence[ToolSpec]:
        if not self.is_up:
            raise ConnectionError("503")
        return [ToolSpec(name="find", input_schema=schema(q="string"))]


@dataclass
class Clock:
    """A clock that is set by hand."""

    moment: datetime = field(default=AT)

    def __call__(self) -> datetime:
        return self.moment


def names(offered: Any) -> list[str]:
    return [tool.name for tool in offered.tools]


def about_sources(context: AssembledContext) -> list[str]:
    return [text for text in context.report.warnings if text.startswith("Tool source")]


async def step(
    assembler: ContextAssembler, *, model: str = "claude-opus-5-5", **options: Any
) -> AssembledContext:
    await assembler.add_user("s", "Go on.")
    context = await assembler.assemble("s", model=model, max_tokens=500, **options)
    await assembler.record("s", {**REPLIES[context.provider], "model": model}, context)
    return context


@pytest.mark.parametrize("model", MODELS)
async def test_a_source_that_fails_for_a_while_keeps_its_tools_and_the_prefix(model: str) -> None:
    executor, clock = Executor(), Clock()
    assembler = ContextAssembler(tools=[executor], now=clock)

    first = await step(assembler, model=model)
    executor.is_up, clock.moment = False, AT.replace(hour=11)
    down = [await step(assembler, model=model) for _ in range(2)]
    executor.is_up = True
    back = await step(assembler, model=model)

    assert names(first) == names(down[0]) == names(down[1]) == names(back) == ["find"]
    assert grows(first, down[0])
    assert grows(down[0], down[1])
    assert grows(down[1], back)
    said = f"Tool source 'executor' failed: ConnectionError: 503. {STILL}"
    assert [about_sources(one) for one in (first, *down, back)] == [[], [said], [said], []]


async def test_a_provider_that_fails_for_a_while_keeps_its_skills_and_the_prefix() -> None:
    provider, clock = Provider(), Clock()
    assembler = ContextAssembler(skills=[provider], now=clock)

    first = await step(assembler)
    provider.is_up, clock.moment = False, AT.replace(hour=11)
    down = await step(assembler)
    provider.is_up = True
    back = await step(assembler)

    assert "Refunds." in first.system_prompt
    assert grows(first, down)
    assert grows(down, back)
    lost = "Skills of Provider failed: ConnectionError: 503."
    still = "What they were last, at 2026-08-01 09:30:15 UTC, still holds."
    assert down.report.warnings == (f"{lost} {still}",)
    assert first.report.warnings == back.report.warnings == ()


async def test_a_provider_that_never_answered_has_no_skills() -> None:
    context = await step(ContextAssembler(skills=[Provider(is_up=False)]))

    assert context.report.warnings == ("Skills of Provider failed: ConnectionError: 503.",)
    assert "Refunds." not in context.system_prompt


async def test_the_last_list_is_the_last_and_not_the_first() -> None:
    executor = Executor()
    assembler = ContextAssembler(tools=[executor])

    await step(assembler)
    executor.names = ("find", "send")
    await step(assembler)
    executor.is_up = False
    down = await step(assembler)

    assert names(down) == ["find", "send"]


async def test_a_source_that_never_answered_has_no_tools() -> None:
    assembler = ContextAssembler(tools=[Executor(is_up=False)])

    context = await step(assembler)

    assert names(context) == []
    assert context.report.warnings == ("Tool source 'executor' failed: ConnectionError: 503.",)


async def test_a_source_that_is_late_keeps_its_tools_too() -> None:
    class Hanging(Executor):
        async def list_tools(self) -> list[JsonObject]:
            if not self.is_up:
                await asyncio.Event().wait()
            return await super().list_tools()

    executor = Hanging()
    collector = ToolCollector(open_tool_sources(executor), timeout_seconds=0.05, now=lambda: AT)

    await collector.collect()
    executor.is_up = False
    down = await collector.collect()

    assert names(down) == ["find"]
    assert down.warnings == (f"Tool source 'executor' did not answer within 0.05 s. {STILL}",)


async def test_two_executors_that_are_equal_are_two() -> None:
    one, other = Executor(("find",)), Executor(("find",))
    collector = ToolCollector(open_tool_sources([one, other]))

    other.is_up = False
    await collector.collect()
    one.is_up = False
    down = await collector.collect()

    assert names(down) == ["find"]
    assert [STILL[:12] in warning for warning in down.warnings].count(True) == 1


@pytest.mark.parametrize("make", [Executor, Slotted])
async def test_an_executor_of_every_call_is_known_again(make: Callable[[], Any]) -> None:
    executor = make()
    assembler = ContextAssembler()

    await step(assembler, additional_tools=[executor])
    executor.is_up = False
    down = await step(assembler, additional_tools=[executor])

    assert names(down) == ["find"] * (make is Executor)  # the other cannot be told from others


@pytest.mark.parametrize(("make", "kept"), [(Slotted, ["find"]), (BareSource, [])])
async def test_a_source_may_be_anything(make: Callable[[], Any], kept: list[str]) -> None:
    source = make()
    collector = ToolCollector([source] if make is BareSource else open_tool_sources(source))

    before = await collector.collect()
    source.is_up = False
    down = await collector.collect()

    assert names(before) == ["find"]
    assert names(down) == kept


async def test_what_a_call_brought_along_is_not_kept_alive() -> None:
    collector = ToolCollector()
    executor = Executor()
    before = sys.getrefcount(executor)

    await collector.collect(additional=open_tool_sources(executor))
    gc.collect()

    assert sys.getrefcount(executor) == before


async def test_a_server_that_fails_is_a_source_like_any_other(tmp_path: Path) -> None:
    program, clock = shutil.copy(PROGRAM, tmp_path / "shop.py"), ManualClock()
    args = [str(program), "end_after_list"]
    server = McpTools("shop", command=sys.executable, args=args, clock=clock)
    collector = ToolCollector([server], now=lambda: AT)

    down = before = await collector.collect()
    shutil.move(program, tmp_path / "away.py")
    async with asyncio.timeout(60):
        while not down.warnings:  # until it is seen that it ended
            down = await collector.collect()
    shutil.copy(PROGRAM, program)
    clock.advance(60)
    back = await collector.collect()
    await collector.close()

    assert "list_1" in names(before)
    assert before.tools == down.tools == back.tools
    assert (len(down.warnings), back.warnings) == (1, ())
    assert down.warnings[0].startswith("Tool source 'shop' failed: MCP server 'shop'")
    assert down.warnings[0].endswith(STILL)
