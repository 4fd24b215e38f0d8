"""Keeps one MCP server reachable: connects when needed, again when it ended, remembers its list."""

import asyncio
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from context_assembler.errors import InvalidToolError, McpServerError
from context_assembler.ports import Clock
from context_assembler.tools.entries import ReadEntries
from context_assembler.tools.mcp_line import McpLine, SessionLostError
from context_assembler.tools.mcp_listing import read_listing
from context_assembler.tools.mcp_servers import McpServerAddress
from context_assembler.values.json_bounds import shown
from context_assembler.values.parts import Json, JsonObject

MAX_PAGES: Final = 100
_FORBIDDEN: Final = "MCP forbids the x-mcp-header annotations of its schema"
_MAX_PAUSE_SECONDS: Final = 60.0
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpLimits:
    """How long and how much of a server is waited for, and how far it is trusted."""

    connect_seconds: float
    list_seconds: float
    call_seconds: float
    max_tools: int
    trusts_hints: bool


@dataclass(slots=True)
class _Pages:
    """What all pages of a listing hold."""

    tools: list[Json] = field(default_factory=list[Json])
    forbidden: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


class McpConnection:
    """A server that is connected to as long as it is needed.

    Everything here runs in one event loop. Listing is done once for all who ask at the same time.
    A server that failed is left alone for a while, longer each time, and its error repeated.
    """

    def __init__(
        self, server: str, address: McpServerAddress, *, limits: McpLimits, clock: Clock
    ) -> None:
        self._server = server
        self._address = address
        self._limits = limits
        self._clock = clock
        self._line: McpLine | None = None
        self._opening: asyncio.Task[McpLine] | None = None
        self._listing: asyncio.Task[ReadEntries] | None = None
        self._kept: ReadEntries | None = None
        self._kept_changes = 0
        self._failures = 0
        self._failure: McpServerError | None = None
        self._quiet_until = 0.0
        self._is_closed = False

    async def list_tools(self) -> ReadEntries:
        """Return the tools offered at this moment; the remembered ones while they are good.

        Raises:
            McpServerError: The server cannot be reached, or does not list its tools.
        """
        line = self._line
        if self._kept is not None and line is not None and self._is_good(line):
            return self._kept
        if self._listing is None or self._listing.done():
            self._listing = _begin(self._list())
        return await asyncio.shield(self._listing)

    async def call_tool(self, name: str, arguments: JsonObject) -> JsonObject:
        """Return the server's own result.

        Raises:
            McpServerError: The server cannot be reached, ended, or did not answer in time.
        """
        seconds = self._limits.call_seconds
        line = await self._connected()
        try:
            return await line.call_tool(name, arguments, timeout_seconds=seconds)
        except SessionLostError:
            line = await self._connected()
            return await line.call_tool(name, arguments, timeout_seconds=seconds)

    async def close(self) -> None:
        """End the connection, and a server that was started for it; none is started after it."""
        self._is_closed = True
        for task in (self._listing, self._opening):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        await self._drop()

    def _is_good(self, line: McpLine) -> bool:
        return line.hears_of_changes and line.changes == self._kept_changes

    async def _list(self) -> ReadEntries:
        """List over the connection there is; where that fails, over another one."""
        older, lost = self._line, None
        if older is not None and not older.is_over:
            try:
                return await self._read(older)
            except McpServerError as error:
                lost = error
        elif older is not None:
            lost = await older.error("ended")
        await self._drop()
        line = await self._connected()
        try:
            read = await self._read(line)
        except McpServerError as error:
            await self._drop()
            self._remember(error)
            raise
        self._failures, self._failure = 0, None
        if lost is None:
            return read
        return replace(read, notes=(*read.notes, f"{lost.problem} It is connected to again."))

    async def _read(self, line: McpLine) -> ReadEntries:
        changes = line.changes
        try:
            async with asyncio.timeout(self._limits.list_seconds):
                listing = await self._read_pages(line)
        except TimeoutError:
            within = f"within {self._limits.list_seconds:g} s"
            raise await line.error(f"did not list its tools {within}") from None
        read = read_listing(
            listing.tools,
            server=self._server,
            max_tools=self._limits.max_tools,
            trusts_hints=self._limits.trusts_hints,
        )
        forbidden = [InvalidToolError(name, reason=_FORBIDDEN) for name in listing.forbidden]
        read = ReadEntries(
            specs=read.specs,
            problems=(*read.problems, *forbidden),
            notes=(*read.notes, *listing.notes),
        )
        self._kept, self._kept_changes = read, changes
        return read

    async def _read_pages(self, line: McpLine) -> "_Pages":
        """Return the tools of all pages; a listing that does not end is cut, with a note."""
        pages = _Pages()
        cursors: set[str] = set()
        cursor: str | None = None
        while True:
            page = await line.list_page(cursor)
            pages.tools += page.tools
            pages.forbidden += page.forbidden
            cursor = page.cursor
            if not cursor:
                return pages
            if reason := self._objection(cursor, cursors, count=len(pages.tools)):
                cut = f"MCP server {self._server!r} {reason}; what came after was not read."
                pages.notes.append(cut)
                return pages
            cursors.add(cursor)

    def _objection(self, cursor: str, earlier: Collection[str], *, count: int) -> str:
        """Return why another page is not asked for, if it is not."""
        if cursor in earlier:
            return f"gave the cursor {shown(cursor)} twice"
        if len(earlier) + 1 >= MAX_PAGES:
            return f"lists its tools on more than {MAX_PAGES} pages"
        if count > self._limits.max_tools:
            return f"lists more than {self._limits.max_tools:,} tools"
        return ""

    async def _connected(self) -> McpLine:
        """Return a connection that is open; opened once for all who need it."""
        if self._line is not None and not self._line.is_over:
            return self._line
        if self._opening is None or self._opening.done():
            self._opening = _begin(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> McpLine:
        if self._is_closed:
            raise asyncio.CancelledError
        await self._drop()
        if self._failure is not None and self._clock() < self._quiet_until:
            raise self._failure.again()
        line = McpLine(self._server, self._address)
        try:
            await line.open(timeout_seconds=self._limits.connect_seconds)
        except McpServerError as error:
            self._remember(error)
            raise
        except asyncio.CancelledError:
            await line.close()
            raise
        self._line = line
        return line

    async def _drop(self) -> None:
        line, self._line, self._kept = self._line, None, None
        if line is not None:
            await line.close()

    def _remember(self, error: McpServerError) -> None:
        pause_seconds = min(_MAX_PAUSE_SECONDS, 2.0**self._failures)
        self._failures += 1
        self._failure = error
        self._quiet_until = self._clock() + pause_seconds


def _begin(work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
    """Begin work that goes on when those who wait for it give up."""
    task = asyncio.create_task(work)
    task.add_done_callback(_look_at)
    return task


def _look_at(task: asyncio.Task[Any]) -> None:
    """Take note of an error that nobody may be waiting for any more."""
    if not task.cancelled():
        task.exception()
