"""Tools of MCP servers that behave: the official SDK's own server, over stdio and over HTTP."""

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from context_assembler import ContextAssembler, McpServerError, McpTools, ToolCall, call_mcp_tool
from context_assembler.stages.collect_tools import ToolCollector
from context_assembler.values.parts import Base64Source, Document, Image, Text
from tests.tools.mcp_server import PIXEL
from tests.tools.mcp_sources import PROGRAM, launch, launch_listing, serve_over_http

ROOT = Path(__file__).parents[2]
OWN_TOOLS = {"add", "fail", "forever", "grow", "pid", "show", "wipe"}


@pytest.fixture(scope="module", params=["stdio", "http"])
def server(request: pytest.FixtureRequest) -> Iterator[McpTools]:
    """A server that every test of the module asks, each from an event loop of its own."""
    if request.param == "stdio":
        tools = launch("stdio", name="tests", call_timeout_seconds=60)
        yield tools
        asyncio.run(tools.close())
        return
    with serve_over_http() as url:
        tools = McpTools("tests", url=url, connect_timeout_seconds=60, list_timeout_seconds=60)
        yield tools
        asyncio.run(tools.close())


def ends(process_id: int) -> bool:
    """Whether the process is there no more, not even as a zombie."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    return False


async def pid_of(tools: McpTools) -> int:
    return int((await tools.call_tool("pid")).text)


async def test_tools_are_listed_as_the_server_describes_them(server: McpTools) -> None:
    listed = {spec.name: spec for spec in await server.list_tools()}

    assert listed.keys() >= OWN_TOOLS
    assert listed["add"].description == "Add two numbers."
    assert listed["add"].input_schema["properties"]["a"]["type"] == "integer"
    assert not server.problems
    assert not server.notes


async def test_a_tool_that_only_reads_is_safe_unless_it_destroys(server: McpTools) -> None:
    listed = {spec.name: spec.is_safe for spec in await server.list_tools()}

    assert listed["add"] is True
    assert listed["wipe"] is None
    assert listed["pid"] is None


async def test_a_list_is_remembered_from_loop_to_loop(server: McpTools) -> None:
    first = await server.list_tools()
    second = await asyncio.to_thread(lambda: asyncio.run(server.list_tools()))

    assert first is second


async def test_a_call_gives_parts_and_says_structured_content_once(server: McpTools) -> None:
    result = await server.call_tool("add", {"a": 1, "b": 2}, call_id="call_1")

    assert result.content == (Text("3"),)
    assert (result.call_id, result.tool_name, result.is_error) == ("call_1", "add", False)


async def test_everything_a_tool_can_show_becomes_a_part(server: McpTools) -> None:
    result = await server.call_tool("show")

    assert result.content == (
        Text("a picture"),
        Image(source=Base64Source(media_type="image/png", data=PIXEL)),
        Text("[sound: audio/wav, 3 bytes; it is not shown]"),
        Text("[notes](file:///notes.md) (text/markdown)"),
        Text("file:///a.txt\ninside"),
        Document(
            source=Base64Source(media_type="application/pdf", data="JVBERg=="),
            title="file:///a.pdf",
        ),
        Text('{"seen": 6}'),
    )


@pytest.mark.parametrize("name", ["fail", "no_such_tool"])
async def test_what_a_server_refuses_is_a_result_that_is_an_error(
    name: str, server: McpTools
) -> None:
    result = await server.call_tool(name)

    assert result.is_error
    assert name in result.text


async def test_a_call_that_is_given_up_leaves_the_connection_alone(server: McpTools) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await server.call_tool("forever")

    assert (await server.call_tool("add", {"a": 2, "b": 2})).text == "4"


async def test_a_list_that_changed_is_asked_for_again(server: McpTools) -> None:
    before = await server.list_tools()

    await server.call_tool("grow")

    async with asyncio.timeout(60):  # over HTTP the notice comes on another stream, a little later
        while (after := await server.list_tools()) is before:
            pass
    assert {spec.name for spec in after} - {spec.name for spec in before} == {"grown"}


async def test_a_server_that_ends_during_a_call_is_started_again() -> None:
    async with launch("counted") as tools:
        listed = await tools.list_tools()
        with pytest.raises(McpServerError, match="ended during a call of 'end'") as caught:
            await tools.call_tool("end")
        again = await tools.list_tools()

        assert "fatal: told to end" in caught.value.stderr
        assert len(again) == len(listed)
        assert "ended" in tools.notes[0]
        assert tools.notes[0].endswith("It is connected to again.")
        assert await tools.list_tools() == again
        assert tools.notes == ()


async def test_closing_ends_the_server_and_the_next_use_starts_another() -> None:
    tools = launch("counted")
    first = await pid_of(tools)

    await tools.close()
    await tools.close()

    assert ends(first)
    second = await pid_of(tools)
    await tools.close()
    assert ends(second)


async def test_a_source_that_nobody_holds_lets_its_server_end() -> None:
    tools = launch("counted")
    process_id = await pid_of(tools)
    assert tools._open is not None
    loop = tools._open.loop

    del tools
    gc.collect()
    await loop.ended()

    assert ends(process_id)


def test_a_program_that_closes_nothing_leaves_no_server_behind() -> None:
    program = (
        "import asyncio, sys\n"
        "from context_assembler import McpTools\n"
        f"tools = McpTools('t', command=sys.executable, args=[{str(PROGRAM)!r}, 'counted'],\n"
        "    connect_timeout_seconds=60)\n"
        "print(asyncio.run(tools.call_tool('pid')).text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert ends(int(done.stdout))
    assert done.stderr == ""


async def test_the_assembler_offers_the_tools_and_closes_the_server() -> None:
    config = {"mcpServers": {"t": {"command": sys.executable, "args": [str(PROGRAM), "counted"]}}}
    async with ContextAssembler(tools=config) as assembler:
        await assembler.add_user("s", "Add up.")
        context = await assembler.assemble("s", model="claude-opus-5-5")
        inner = assembler.assemble_sync("s", model="claude-opus-5-5")
        server = assembler._gathering._collector._sources[0]
        assert isinstance(server, McpTools)
        process_id = await pid_of(server)

    assert [tool.name for tool in context.tools] == ["change", "end", "list_1", "odd", "pid"]
    assert context.tools == inner.tools
    assert ends(process_id)


async def test_the_tools_of_one_call_may_be_of_a_server_that_is_there(tmp_path: Path) -> None:
    async with launch_listing(tmp_path, "docs", [{"name": "find", "inputSchema": {}}]) as docs:
        assembler = ContextAssembler()
        await assembler.add_user("s", "Find it.")
        context = await assembler.assemble("s", model="gpt-4.1", additional_tools=docs)

        assert [(tool.name, tool.source) for tool in context.tools] == [("find", "docs")]


async def test_a_call_reaches_the_server_whose_tool_it_is_by_its_own_name(tmp_path: Path) -> None:
    find = {"name": "find", "description": "In the docs.", "inputSchema": {"type": "object"}}
    other = {**find, "description": "On the web."}
    async with (
        launch_listing(tmp_path, "docs", [find]) as docs,
        launch_listing(tmp_path, "web", [other]) as web,
    ):
        offered = (await ToolCollector([web, docs]).collect()).tools
        calls = [ToolCall(call_id=name, name=name) for name in ("find", "web_find", "no_tool")]
        results = [
            await call_mcp_tool(call, offered=offered, servers=[web, docs]) for call in calls
        ]
        none = await call_mcp_tool(calls[0], offered=offered, servers=[web])

    assert [tool.own_name for tool in offered] == [None, "find"]
    assert [result and result.text.partition(" of ")[0] for result in results] == [
        "find",
        "find",
        None,
    ]
    assert results[1] is not None
    assert results[1].text.endswith("web.json")
    assert results[1].tool_name == "web_find"
    assert none is None


def test_the_example_shows_the_tools_and_calls_one() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "mcp_tools.py")],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
    )

    assert done.stdout.splitlines() == [
        "shop offers look_up_price: Return the price of an article.",
        "12.90",
    ]
    assert done.stderr == ""
