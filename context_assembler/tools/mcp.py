"""MCP servers as sources of tools."""

import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

from context_assembler.errors import ConfigurationError, InvalidToolError, McpServerError
from context_assembler.ports import Clock
from context_assembler.tools.entries import ReadEntries
from context_assembler.tools.mcp_connection import McpConnection, McpLimits
from context_assembler.tools.mcp_loop import LoopClosedError, LoopThread
from context_assembler.tools.mcp_results import read_call_result
from context_assembler.tools.mcp_sdk import require_sdk
from context_assembler.tools.mcp_servers import (
    HttpServer,
    McpServerAddress,
    StdioServer,
    read_mcp_file,
    read_mcp_servers,
    texts_by_name,
)
from context_assembler.values.given import check_type, listed
from context_assembler.values.parts import JsonObject, ToolCall, ToolResult
from context_assembler.values.tools import ToolSpec

_Result = TypeVar("_Result")


class McpTools:
    """The tools of one MCP server, over stdio or streamable HTTP.

    The server is connected to when its tools are first asked for, from whatever event loop: the
    connection lives in a thread of its own. It is kept until `close`, and made again when the
    server ended; tools of a server that cannot be reached are not offered. The list is asked for
    again when the server says that it changed. After `close` the next use connects anew.

    Args:
        name: What to call the server; a renamed tool gets it in front.
        command: The program to start, with `args`, `env` (on top of PATH, HOME …) and `cwd`.
        url: Where it is reached over streamable HTTP instead, with `headers` and `auth`.
        auth: An `httpx2.Auth`, as the OAuth providers of the MCP SDK are.
        connect_timeout_seconds: How long starting and greeting may take; a server that is slower
            than an assembler waits has its tools offered from the next step on.
        list_timeout_seconds: How long listing all tools may take.
        call_timeout_seconds: How long one call may take.
        max_tools: Of more tools the first by name are offered.
        trusts_hints: Whether a tool is safe in sandbox mode because the server says that it only
            reads. Of a server that you do not trust, leave that out.
        clock: Seconds that only grow; a server that failed is left alone for some of them.

    Attributes:
        problems: What could not be offered of the last list.
        notes: What else there is to tell of the last list.

    Raises:
        ConfigurationError: Neither a command nor a url is given, or both.
        MissingExtraError: The MCP SDK is not installed.
    """

    kind: Final = "mcp"

    def __init__(
        self,
        name: str,
        *,
        command: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        auth: Any = None,
        connect_timeout_seconds: float = 60.0,
        list_timeout_seconds: float = 30.0,
        call_timeout_seconds: float = 300.0,
        max_tools: int = 1_000,
        trusts_hints: bool = True,
        clock: Clock = time.monotonic,
    ) -> None:
        require_sdk()
        self.name = name
        self.address = _address(
            name, command=command, args=args, env=env, cwd=cwd, url=url, headers=headers, auth=auth
        )
        self._limits = McpLimits(
            connect_seconds=connect_timeout_seconds,
            list_seconds=list_timeout_seconds,
            call_seconds=call_timeout_seconds,
            max_tools=max_tools,
            trusts_hints=trusts_hints,
        )
        self._clock = clock
        self._lock = threading.Lock()
        self._open: _Open | None = None
        self._read = ReadEntries()

    @classmethod
    def from_config(cls, config: JsonObject, **settings: Any) -> list[Self]:
        """Return a source for each server of an MCP client's configuration.

        Args:
            config: `{"mcpServers": {"files": {"command": …}, "docs": {"url": …}}}`.
            settings: Those of `McpTools`, for all of them.

        Raises:
            ConfigurationError: It has another shape, or needs a variable that is not set.
            MissingExtraError: The MCP SDK is not installed.
        """
        return [cls._at(name, at, settings) for name, at in read_mcp_servers(config).items()]

    @classmethod
    def from_file(cls, path: str | Path, **settings: Any) -> list[Self]:
        """Return a source for each server of an MCP client's configuration file (`.mcp.json` …).

        Raises:
            ConfigurationError: It cannot be read, or as for `from_config`.
            MissingExtraError: The MCP SDK is not installed.
        """
        return [cls._at(name, at, settings) for name, at in read_mcp_file(path).items()]

    @property
    def problems(self) -> Sequence[InvalidToolError]:
        """What could not be offered of the last list."""
        return self._read.problems

    @property
    def notes(self) -> Sequence[str]:
        """What else there is to tell of the last list."""
        return self._read.notes

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools offered at this moment; the same ones until the server says otherwise.

        Raises:
            McpServerError: The server cannot be reached, or does not list its tools.
        """
        self._read = read = await self._run(lambda connection: connection.list_tools())
        return read.specs

    async def call_tool(
        self, tool: str | ToolSpec, arguments: JsonObject | None = None, *, call_id: str = ""
    ) -> ToolResult:
        """Have the server run a tool; what it refuses is a result that is an error.

        Args:
            tool: The server's own name of it, or the tool as a context offered it.
            call_id: Which call the result answers.

        Raises:
            McpServerError: The server cannot be reached, ended, or did not answer in time.
        """
        offered, name = (tool, tool) if isinstance(tool, str) else (tool.name, own_name_of(tool))
        given = dict(arguments or {})
        result = await self._run(lambda connection: connection.call_tool(name, given))
        return read_call_result(result, tool_name=offered, call_id=call_id)

    async def close(self) -> None:
        """End the connection, and a server that was started for it."""
        with self._lock:
            opened, self._open = self._open, None
        if opened is not None:
            opened.finalizer.detach()
            opened.loop.stop()
            await opened.loop.ended()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, work: Callable[[McpConnection], Coroutine[Any, Any, _Result]]) -> _Result:
        opened = self._opened()
        try:
            return await opened.loop.run(lambda: work(opened.connection))
        except LoopClosedError:
            raise McpServerError(
                self.name,
                reason="was let go of meanwhile",
                remedy="Close its source, or the assembler, when nothing uses it any more.",
            ) from None

    def _opened(self) -> "_Open":
        with self._lock:
            if self._open is None:
                connection = McpConnection(
                    self.name, self.address, limits=self._limits, clock=self._clock
                )
                loop = LoopThread(f"mcp:{self.name}", before_end=connection.close)
                finalizer = weakref.finalize(self, loop.stop)
                finalizer.atexit = False  # the loop ends with the program by itself
                self._open = _Open(loop, connection, finalizer)
            return self._open

    @classmethod
    def _at(cls, name: str, address: McpServerAddress, settings: Mapping[str, Any]) -> Self:
        match address:
            case StdioServer(command=command, args=args, env=env, cwd=cwd):
                return cls(name, command=command, args=args, env=env, cwd=cwd, **settings)
            case server:
                return cls(name, url=server.url, headers=server.headers, **settings)


class _Open(NamedTuple):
    """A connection, and the loop that it lives in."""

    loop: LoopThread
    connection: McpConnection
    finalizer: "weakref.finalize[[], Any]"


def own_name_of(tool: ToolSpec) -> str:
    """Return what the tool's source calls it."""
    return tool.name if tool.own_name is None else tool.own_name


async def call_mcp_tool(
    call: ToolCall, *, offered: Iterable[ToolSpec], servers: Iterable[McpTools]
) -> ToolResult | None:
    """Have the server that offers the tool run a model's call; `None` where none of them does.

    Args:
        offered: The tools of the context that the model was sent.

    Raises:
        McpServerError: The server cannot be reached, ended, or did not answer in time.
    """
    check_type("call", call, ToolCall, such_as="one of the reply's tool_calls")
    offered = listed("offered", offered, ToolSpec, such_as="context.tools")
    servers = listed("servers", servers, McpTools, such_as="[McpTools(…), …]")
    tool = next((tool for tool in offered if tool.name == call.name), None)
    server = next((one for one in servers if tool is not None and one.name == tool.source), None)
    if tool is None or server is None:
        return None
    return await server.call_tool(tool, call.arguments, call_id=call.call_id)


def _address(
    name: str,
    *,
    command: str | None,
    args: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    url: str | None,
    headers: Mapping[str, str] | None,
    auth: Any,
) -> McpServerAddress:
    check_type("name", name, str, such_as="what to call the server")
    if command is not None and url is None:
        check_type("command", command, str, such_as="a program, such as 'npx'")
        words = listed("args", args, str, such_as="a list of strings")
        return StdioServer(command=command, args=words, env=texts_by_name("env", env), cwd=cwd)
    if url is not None and command is None:
        check_type("url", url, str, such_as="an address, such as 'https://…'")
        return HttpServer(url=url, headers=texts_by_name("headers", headers), auth=auth)
    raise ConfigurationError(
        f"MCP server {name!r} needs either a command or a url.",
        remedy="Pass command='npx', args=[…] for a program, or url='https://…' for a server.",
    )
