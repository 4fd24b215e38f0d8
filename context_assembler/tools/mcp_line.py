"""An open connection to one MCP server, kept by the official SDK."""

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from context_assembler.errors import McpServerError
from context_assembler.tools.mcp_answers import HttpAnswers, heard_alone
from context_assembler.tools.mcp_http import open_http
from context_assembler.tools.mcp_page import Page, page_of
from context_assembler.tools.mcp_sdk import McpSdk, load_sdk
from context_assembler.tools.mcp_servers import McpServerAddress, StdioServer
from context_assembler.tools.mcp_stderr import StderrTail
from context_assembler.tools.mcp_tap import RAW_TOOLS, Tap
from context_assembler.values.parts import JsonObject
from context_assembler.values.texts.cleaning import clean_text

_LISTEN_SECONDS: Final = 2.0
_CLOSE_SECONDS: Final = 10.0
_SAID_CHARS: Final = 200
_REMEDY: Final = (
    "See that the server starts and answers by itself, or leave it out; the other tools are not "
    "affected."
)


class SessionLostError(McpServerError):
    """A server that was started anew, and knows an older connection no more."""


class McpLine:
    """A connection that is entered and left in a task of its own, as the SDK demands.

    Everything here runs in one event loop.

    Attributes:
        changes: How often the server said, or may have said unheard, that its tools changed.
    """

    def __init__(self, server: str, address: McpServerAddress) -> None:
        self.changes = 0
        self._server = server
        self._address = address
        self._sdk: McpSdk = load_sdk()
        self._client: Any = None
        self._scope: Any = self._sdk.anyio.CancelScope()
        self._ends_at = math.inf
        self._stderr = StderrTail() if isinstance(address, StdioServer) else None
        self._tap: Tap | None = None
        self._answers = HttpAnswers()  # to what is sent for no call: all that opens the connection
        self._hears = False
        self._over = asyncio.Event()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, *, timeout_seconds: float) -> None:
        """Connect, and agree on a version of the protocol.

        Raises:
            McpServerError: The server could not be started or reached, or did not answer in time.
        """
        self._ends_at = self._sdk.anyio.current_time() + timeout_seconds
        late = f"did not answer within {timeout_seconds:g} s"
        self._task = asyncio.create_task(self._hold(late=late))
        await asyncio.shield(self._opened)

    @property
    def is_over(self) -> bool:
        """Whether the server can no longer be reached over this connection."""
        return self._over.is_set()

    @property
    def hears_of_changes(self) -> bool:
        """Whether a list that was read stays good until `changes` grows."""
        return self._hears and not self.is_over

    async def list_page(self, cursor: str | None) -> Page:
        """Return a page of tools.

        Raises:
            McpServerError: The server ended, or answers something else.
        """
        with heard_alone() as answers:
            try:
                page = await self._client.list_tools(cursor=cursor)
            except self._sdk.mcp.MCPError as error:
                happened = "ended when asked to" if self.is_over else "refused to"
                reason = f"{happened} list its tools: {_said(error)}"
                raise await self.error(reason, answers=answers) from error
            except (RuntimeError, ValueError) as error:
                reason = f"did not list its tools as MCP says: {_said(error)}"
                raise await self.error(reason, answers=answers) from error
        return page_of(page.meta[RAW_TOOLS], page)

    async def call_tool(
        self, name: str, arguments: JsonObject, *, timeout_seconds: float
    ) -> JsonObject:
        """Return the result, as the server spells it; a refusal is a result that is an error.

        Raises:
            SessionLostError: The server knows this connection no more, and did not run the tool.
            McpServerError: The server ended, or did not answer in time.
        """
        with heard_alone() as answers:
            try:
                async with asyncio.timeout(timeout_seconds):
                    result = await self._client.call_tool(name, dict(arguments))
            except TimeoutError:
                reason = f"did not answer a call of {name!r} within {timeout_seconds:g} s"
                raise await self.error(reason, answers=answers) from None
            except self._sdk.mcp.MCPError as error:
                return await self._refused(name, error, answers=answers)
            except (RuntimeError, ValueError) as error:  # a result that its schema does not allow
                return _failed(_said(error))
        answer: JsonObject = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return answer

    async def _refused(self, name: str, error: Any, *, answers: HttpAnswers) -> JsonObject:
        """Return the result that a refused call has, where it was the server that refused it."""
        if self._has_lost_session(answers):
            self._over.set()
            raise SessionLostError(
                self._server, reason="has forgotten the session", remedy=_REMEDY
            ) from error
        if self.is_over or error.code == self._sdk.types.CONNECTION_CLOSED:
            self._over.set()
            raise await self.error(f"ended during a call of {name!r}", answers=answers) from error
        if answers.lets_nobody_in:
            reason = f"did not take a call of {name!r}"
            raise await self.error(reason, answers=answers) from error
        return _failed(_said(error))

    async def error(self, reason: str, *, answers: HttpAnswers | None = None) -> McpServerError:
        """Return an error of this server, with what it said last.

        Args:
            answers: To those messages that the error is of; by default to the connection's own.
        """
        if self.is_over:
            await self.close()  # so that everything it had to say is there
        return self._error(reason, answers or self._answers)

    def _error(self, reason: str, answers: HttpAnswers) -> McpServerError:
        if self._tap is not None and self._tap.garbage:
            reason += f"; it wrote what is not MCP, {self._tap.garbage!r}"
        if answers.refusal:
            reason += f"; {answers.refusal}"
        tail = "" if self._stderr is None else self._stderr.text(waits=self.is_over)
        return McpServerError(self._server, reason=reason, remedy=_REMEDY, stderr=tail)

    async def close(self) -> None:
        """Leave; a server that was started here has ended afterwards."""
        self._over.set()
        now = self._sdk.anyio.current_time()
        self._end_at(now + _CLOSE_SECONDS if self._opened.done() else now)
        await asyncio.shield(self._task)

    def _end_at(self, time: float) -> None:
        """Leave by then; a program that is being started is there first, so that it can be ended.

        A start that is cancelled would leave the program behind, with nobody to wait for it.
        """
        self._ends_at = min(self._ends_at, time)
        if self._tap is not None:
            self._scope.deadline = self._ends_at

    async def _hold(self, *, late: str) -> None:
        """Enter the connection, keep it until it is over, and leave it."""
        problem = late
        try:
            with self._scope, heard_alone() as self._answers:
                await self._connect()
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises, there is no connection
            is_gone = self._over.is_set()
            problem = (
                "ended before it answered" if is_gone else f"cannot be reached: {_said(error)}"
            )
        self._over.set()
        if not self._opened.done():
            self._opened.set_exception(self._error(problem, self._answers))
            self._opened.exception()  # whoever opened it may have given up
        if self._stderr is not None:
            self._stderr.close()

    async def _connect(self) -> None:
        anyio = self._sdk.anyio
        client = self._sdk.mcp.Client(
            self._transport(),
            cache=None,  # what is kept here is kept by whoever holds the line
            message_handler=self._hear,
            client_info=self._sdk.types.Implementation(name="context-assembler", version="1"),
        )
        async with client, anyio.create_task_group() as tasks:
            self._client = client
            is_listening = anyio.Event()
            tasks.start_soon(self._listen, is_listening)
            with anyio.move_on_after(_LISTEN_SECONDS):
                await is_listening.wait()
            self._scope.deadline = self._ends_at = math.inf
            self._opened.set_result(None)
            await self._over.wait()
            tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[tuple[Tap, Any]]:
        async with self._streams() as (reading, writing):
            if self._stderr is not None:
                self._stderr.writer.close()  # the server has its own copy
            self._tap = Tap(
                reading,
                sdk=self._sdk,
                version=lambda: getattr(self._client, "protocol_version", ""),
                at_end=self._over.set,
            )
            self._scope.deadline = self._ends_at
            yield self._tap, writing

    def _streams(self) -> AbstractAsyncContextManager[Any]:
        match self._address:
            case StdioServer() as server:
                parameters = self._sdk.mcp.StdioServerParameters(
                    command=server.command,
                    args=list(server.args),
                    env=dict(server.env),
                    cwd=server.cwd,
                    encoding_error_handler="replace",
                )
                assert self._stderr is not None, "made for every server that is started"
                streams: AbstractAsyncContextManager[Any] = self._sdk.mcp.stdio_client(
                    parameters, errlog=self._stderr.writer
                )
                return streams
            case server:
                return open_http(self._sdk, server)

    def _has_lost_session(self, answers: HttpAnswers) -> bool:
        """Whether the answer to a call says that the session is no more, and so did nothing else.

        Source:
            https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
            #session-management (read 2026-11-28)
        """
        modern = self._sdk.version.MODERN_PROTOCOL_VERSIONS
        return answers.status == 404 and self._client.protocol_version not in modern

    async def _hear(self, message: Any) -> None:
        if isinstance(message, self._sdk.types.ToolListChangedNotification):
            self.changes += 1

    async def _listen(self, is_listening: Any) -> None:
        """Learn of changed tools: older servers tell unasked, newer ones those who listen.

        Source:
            https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
            (as mcp 2.3 speaks it)
        """
        tools = self._client.server_capabilities.tools
        tells = tools is not None and tools.list_changed is True
        if (
            not tells
            or self._client.protocol_version not in self._sdk.version.MODERN_PROTOCOL_VERSIONS
        ):
            self._hears = True
            is_listening.set()
            return
        try:
            async with self._client.listen(tools_list_changed=True) as events:
                self._hears = events.honored.tools_list_changed is True
                is_listening.set()
                async for _ in events:
                    self.changes += 1
        except (self._sdk.mcp.MCPError, RuntimeError):  # refused, or lost: the list is asked for
            pass
        finally:
            self._hears = False
            self.changes += 1
            is_listening.set()


def _said(error: BaseException) -> str:
    """Return the first line of what an error says; of a group, what its first one says."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    if inner:
        return _said(inner[0])
    said = clean_text(str(error)).strip().partition("\n")[0][:_SAID_CHARS]
    return said or type(error).__name__


def _failed(said: str) -> JsonObject:
    return {"content": [{"type": "text", "text": said}], "isError": True}
