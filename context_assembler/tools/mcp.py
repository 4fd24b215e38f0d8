"""MCP servers as sources of tools, over the official SDK.

A connection is in an event loop in a thread of its own, because it outlives the loops of its users:
`assemble_sync` has none, and `asyncio.run` closes its own.
"""

import asyncio
import atexit
import json
import os
import re
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from copy import copy
from importlib.util import find_spec
from math import inf
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any, Final, Self

from context_assembler import errors, events
from context_assembler.errors import ConfigurationError, InvalidToolError, McpServerError
from context_assembler.events import Json, JsonObject
from context_assembler.ports import ToolSpec
from context_assembler.providers.wire import plain_json
from context_assembler.texts import REMINDER_TAG, SUMMARY_TAG, clean_text, escape_tag, one_line
from context_assembler.tools.sources import ReadTools, read_tools

_MAX_PAUSE_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 10.0
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
_MAX_STDERR_BYTES: Final = 65_536
_ESCAPES: Final = re.compile(r"\x1b\][^\x07\x1b]*|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b.")
_SHAPE: Final = 'Write it like {"mcpServers": {"files": {"command": "npx"}, "docs": {"url": "…"}}}.'


class McpTools:
    """The tools of one MCP server, over stdio or streamable HTTP.

    The server is connected to when its tools are first asked for, and kept until `close`. It is
    connected to again if it ended; tools of a server that cannot be reached are not offered.

    Args:
        name: What to call the server; a renamed tool has it in front.
        command: The program to start, with `args`, `env` (on top of PATH, HOME …) and `cwd`.
        url: Its address over streamable HTTP instead, with `headers` and `auth`.
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
        notes: What else to know of the last list.

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
        cwd: str | os.PathLike[str] | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        auth: Any = None,
        connect_timeout_seconds: float = 60.0,
        list_timeout_seconds: float = 30.0,
        call_timeout_seconds: float = 300.0,
        max_tools: int = 1_000,
        trusts_hints: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if find_spec("mcp") is None:
            raise errors.MissingExtraError("Speaking with MCP servers", extra="mcp")
        if (command is None) == (url is None):
            problem = f"MCP server {name!r} needs either a command or a url."
            remedy = "Pass command='npx', args=[…] for a program, or url='https://…' for a server."
            raise ConfigurationError(problem, remedy=remedy)
        self.name = name
        self.problems: Sequence[InvalidToolError] = ()
        self.notes: Sequence[str] = ()
        program = {"command": command, "args": list(args), "env": dict(env or {}), "cwd": cwd}
        address = {"url": url, "headers": dict(headers or {}), "auth": auth}
        self._settings = SimpleNamespace(
            server=name,
            address=program if url is None else address,
            seconds=(connect_timeout_seconds, list_timeout_seconds, call_timeout_seconds),
            max_tools=max_tools,
            hints=("annotations",) if trusts_hints else (),
            clock=clock,
        )
        self._lock = threading.Lock()
        self._opened: _Connection | None = None

    @classmethod
    def from_config(cls, config: JsonObject, **settings: Any) -> list[Self]:
        """Return a source for each server of an MCP client's configuration that is not switched off.

        `${NAME}`, `${env:NAME}` and `${NAME:-otherwise}` stand for environment variables.

        Args:
            config: `{"mcpServers": {"files": {"command": …}, "docs": {"url": …}}}`.
            settings: Those of `McpTools`, for all of them.

        Raises:
            ConfigurationError: It has another shape, or needs a variable that is not set.
            MissingExtraError: The MCP SDK is not installed.
        """
        servers = config.get("mcpServers", config.get("servers"))  # the latter is VS Code's
        if not events.is_object(servers):
            raise ConfigurationError("The MCP configuration names no servers.", remedy=_SHAPE)
        found = ((name, _address(name, entry)) for name, entry in servers.items())
        return [cls(name, **address, **settings) for name, address in found if address]

    def list_now(self) -> Sequence[ToolSpec]:
        """Return the same as `list_tools`, for a caller without an event loop."""
        return self._take(self._submit(lambda line: line.list_tools()).result())

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools offered at this moment; the same ones until the server says otherwise.

        Raises:
            McpServerError: The server cannot be reached, or does not list its tools.
        """
        return self._take(await asyncio.wrap_future(self._submit(lambda line: line.list_tools())))

    async def call_tool(
        self, tool: str | ToolSpec, arguments: JsonObject | None = None, *, call_id: str = ""
    ) -> events.ToolResult:
        """Have the server run a tool; what it refuses is a result that is an error.

        Args:
            tool: The server's own name of it, or the tool as a context offered it.
            call_id: Which call the result answers.

        Raises:
            McpServerError: The server cannot be reached, ended, or did not answer in time.
        """
        shown = tool if isinstance(tool, str) else tool.name
        name = tool if isinstance(tool, str) else tool.own_name or tool.name
        given = dict(arguments or {})
        result = await asyncio.wrap_future(self._submit(lambda line: line.call_tool(name, given)))
        return _read_call_result(result, tool_name=shown, call_id=call_id)

    async def close(self) -> None:
        """End the connection, and a server that was started for it; the next use connects again."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            await asyncio.to_thread(opened.end)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _take(self, read: ReadTools) -> Sequence[ToolSpec]:
        specs, self.problems, self.notes = read
        return specs

    def _submit(self, work: "Callable[[_Connection], Coroutine[Any, Any, Any]]") -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = _Connection(self._settings)
                weakref.finalize(self, self._opened.stop).atexit = False
            return asyncio.run_coroutine_threadsafe(work(self._opened), self._opened.loop)


def _address(name: str, entry: Json) -> dict[str, Any]:
    """Return the arguments that an entry of a configuration stands for; none if it is off."""

    def variable(found: re.Match[str]) -> str:
        if value := os.environ.get(found[1]):
            return json.dumps(value)[1:-1]
        if found[2] is None:
            problem = f"MCP server {name!r} needs the environment variable {found[1]!r}"
            remedy = f"Set it, or write ${{{found[1]}:-…}} with a value to use otherwise."
            raise ConfigurationError(f"{problem}, which is not set.", remedy=remedy)
        return found[2]

    given: Json = entry if events.is_object(entry) else {}
    if given.get("disabled") is True or given.get("enabled") is False:
        return {}
    given = json.loads(_VARIABLE.sub(variable, json.dumps(given)))
    url = given.get("url") or given.get("serverUrl") or given.get("httpUrl")
    is_sse = "sse" in (given.get("type"), given.get("transport"))
    if is_sse or bool(url) is bool(given.get("command")):
        reason = "it needs either a command or a url, of HTTP: MCP gave up 'sse'"
        raise ConfigurationError(f"MCP server {name!r} cannot be used: {reason}.", remedy=_SHAPE)
    keys = ("headers",) if url else ("command", "args", "env", "cwd")
    known = {key: given[key] for key in keys if given.get(key)}
    return {**known, "url": url} if url else known


# ---- the connection ----


class _Connection:
    """Keeps one server reachable: connects if needed, again if it ended, remembers its list.

    All coroutines run in its own event loop. A server that failed is left alone for a while, longer
    each time, and its error repeated.
    """

    def __init__(self, settings: Any) -> None:
        self._is = settings
        self._connect_seconds, self._list_seconds, self._call_seconds = settings.seconds
        self.loop, self._stopped = asyncio.new_event_loop(), asyncio.Event()
        self._lock, self._over = asyncio.Lock(), asyncio.Event()
        self._over.set()
        self._task: asyncio.Task[None] | None = None
        self._listing: asyncio.Task[ReadTools] | None = None
        self._client: Any = None
        self._stderr: Any = None
        self._refusal = ""  # what the server answered over HTTP last, if it refused
        self._kept: ReadTools | None = None
        self._failure: McpServerError | None = None
        self._failures, self._quiet_until, self._has_changed = 0, -inf, False
        self._left_out: dict[str, InvalidToolError] = {}
        self._thread = threading.Thread(target=self._run, name=settings.server, daemon=True)
        atexit.register(self.end)
        self._thread.start()

    def stop(self) -> None:
        """Have the loop end, soon; from any thread."""
        with suppress(RuntimeError):  # it has ended
            self.loop.call_soon_threadsafe(self._stopped.set)

    def end(self) -> None:
        """Stop, and wait until the server that was started has ended."""
        self.stop()
        self._thread.join(2 * _CLOSE_SECONDS)

    def _run(self) -> None:
        async def until_stopped() -> None:
            with TemporaryFile("w+b") as self._stderr:
                await self._stopped.wait()
                await self._drop()

        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(until_stopped())
        atexit.unregister(self.end)

    async def list_tools(self) -> ReadTools:
        """Return the tools offered at this moment; listed once for all who ask meanwhile."""
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._list())
            self._listing.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._listing)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, is_again: bool = False
    ) -> Any:
        """Return the server's own result, or what it says in place of one."""
        await self._connect()
        try:
            async with asyncio.timeout(self._call_seconds):
                return await self._client.call_tool(name, arguments)
        except TimeoutError:
            late = f"did not answer a call of {name!r} within {self._call_seconds:g} s"
            raise self._error(late) from None
        except Exception as error:
            self._note_end(error)
            # A server that was started again answers with 404 to the session of before.
            # https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
            # #session-management (read 2026-11-28)
            if self._refusal.startswith("404") and not is_again:
                self._over.set()
                return await self.call_tool(name, arguments, is_again=True)
            if self._over.is_set() or self._refusal:
                happened = "did not take" if self._refusal else "ended during"
                raise self._error(f"{happened} a call of {name!r}") from error
            return _said(error)

    async def _drop(self) -> None:
        """Leave the connection; a server that was started for it has ended afterwards."""
        task, self._task, self._kept = self._task, None, None
        self._over.set()
        if task is not None:
            await asyncio.wait([task], timeout=_CLOSE_SECONDS)
            task.cancel()
            await asyncio.wait([task])

    async def _list(self) -> ReadTools:
        if not self._over.is_set():
            with suppress(McpServerError):  # a server that ended meanwhile is connected to again
                return self._kept or await self._read_list()
        await self._drop()
        await self._connect()
        try:
            read = await self._read_list()
        except McpServerError as error:
            await self._drop()
            raise self._remembered(error) from error
        self._failures, self._failure = 0, None
        return read

    async def _connect(self) -> None:
        async with self._lock:
            self._refusal = ""
            if not self._over.is_set():
                return
            await self._drop()
            if self._failure is not None and self._is.clock() < self._quiet_until:
                raise copy(self._failure)
            self._over = asyncio.Event()
            ready: asyncio.Future[None] = self.loop.create_future()
            self._task = asyncio.create_task(self._hold(ready))
            await asyncio.wait([ready], timeout=self._connect_seconds)
            reason = f"did not answer within {self._connect_seconds:g} s"
            if ready.done():
                if (error := ready.exception()) is None:
                    return
                reason = f"cannot be reached: {_said(error)}"
            self._over.set()
            self._task.cancel()
            await asyncio.wait([self._task])
            raise self._remembered(self._error(reason))

    async def _hold(self, ready: "asyncio.Future[None]") -> None:
        """Enter the connection, keep it until it is over, and leave it."""
        from mcp import Client
        from mcp_types import Implementation

        info = Implementation(name="context-assembler", version="1")
        # Without the client's cache: what a server lists is kept here.
        settings: Any = {"cache": None, "message_handler": self._hear, "client_info": info}
        try:
            async with AsyncExitStack() as stack:
                transport = _mended(await self._transport(stack), self._left_out)
                self._client = await stack.enter_async_context(Client(transport, **settings))
                ready.set_result(None)
                await self._over.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
        self._over.set()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        address = dict(self._is.address)
        if (url := address.pop("url", None)) is None:
            from mcp import StdioServerParameters, stdio_client

            self._stderr.truncate(0)
            program = StdioServerParameters(**address, encoding_error_handler="replace")
            return stdio_client(program, errlog=self._stderr)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        async def note(response: Any) -> None:
            # Few servers have the stream of their own that a GET asks for: only messages count.
            if response.request.method == "POST":
                said = f"{response.status_code} {response.reason_phrase}".strip()
                self._refusal = said if response.status_code >= 400 else ""

        times, hooks = httpx2.Timeout(30.0, read=300.0), {"response": [note]}
        http = httpx2.AsyncClient(timeout=times, event_hooks=hooks, **address)
        return streamable_http_client(url, http_client=await stack.enter_async_context(http))

    async def _hear(self, message: Any) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            self._kept, self._has_changed = None, True

    async def _read_list(self) -> ReadTools:
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        tools, notes = list[JsonObject](), list[str]()
        most, who = self._is.max_tools, f"MCP server {self._is.server!r}"
        page, self._has_changed = None, False
        self._left_out.clear()
        try:
            async with asyncio.timeout(self._list_seconds):
                while page is None or (page.next_cursor and len(tools) <= most):
                    page = await self._client.list_tools(cursor=page and page.next_cursor)
                    tools += (t.model_dump(mode="json", by_alias=True) for t in page.tools)
        except TimeoutError:
            raise self._error(f"did not list its tools within {self._list_seconds:g} s") from None
        except Exception as error:
            self._note_end(error)
            happened = "ended when asked to" if self._over.is_set() else "did not"
            raise self._error(f"{happened} list its tools: {_said(error)}") from error
        if page.next_cursor or len(tools) > most:
            first = f"of {len(tools):,} that were read the first {most:,} by name are offered"
            notes.append(f"{who} lists too many tools: {first}. Raise max_tools.")
        listed = sorted(tools, key=lambda tool: str(tool["name"]))[:most]
        read = read_tools(_plain(tool, self._is.hints, who, notes) for tool in listed)
        problems = (*read.problems, *self._left_out.values())
        read = read._replace(problems=problems, notes=(*read.notes, *notes))
        # Newer servers report changes only to those who listen: they are asked each time.
        offers = self._client.server_capabilities.tools
        is_new = self._client.protocol_version in MODERN_PROTOCOL_VERSIONS
        is_asked = is_new and offers is not None and offers.list_changed
        self._kept = None if is_asked or self._has_changed else read
        return read

    def _note_end(self, error: Exception) -> None:
        if _said(error) == "Connection closed":  # what the SDK says if nobody is there any more
            self._over.set()

    def _error(self, reason: str) -> McpServerError:
        if self._refusal:
            reason += f"; it answered HTTP {self._refusal}"
        start = max(0, self._stderr.seek(0, os.SEEK_END) - _MAX_STDERR_BYTES)
        self._stderr.seek(start)
        stderr = self._stderr.read().decode("utf-8", "replace")
        # The line that begins before could be the rest of a secret.
        stderr = _shown(stderr.partition("\n")[2] if start else stderr)[-400:]
        remedy = "See that the server starts and answers by itself, or leave it out."
        return McpServerError(self._is.server, reason=_shown(reason), remedy=remedy, stderr=stderr)

    def _remembered(self, error: McpServerError) -> McpServerError:
        self._quiet_until = self._is.clock() + min(_MAX_PAUSE_SECONDS, 2.0**self._failures)
        self._failures, self._failure = self._failures + 1, error
        return error


def _plain(tool: JsonObject, hints: Sequence[str], who: str, notes: list[str]) -> dict[str, Json]:
    """Return what counts of a listed tool, without tags that this library itself uses."""
    text = events.compact_json(tool)
    escaped = escape_tag(REMINDER_TAG, escape_tag(SUMMARY_TAG, text))
    if escaped != text:
        tags = "its text has tags that only the assembler uses; they were escaped."
        notes.append(f"Tool {tool['name']!r} of {who}: {tags}")
    shown: JsonObject = json.loads(escaped)
    kept = {key: shown.get(key) for key in ("name", "inputSchema", *hints)}
    return {**kept, "description": shown.get("description") or shown.get("title")}


@asynccontextmanager
async def _mended(transport: Any, left_out: dict[str, InvalidToolError]) -> AsyncGenerator[Any]:
    async with transport as (read, write):
        yield _Mended(read, left_out), write


class _Mended:
    """What a server sends, as the SDK takes it.

    Half a surrogate pair is replaced, and an answer that cannot be read is an error at once: the SDK
    would wait for another one. What is no tool is left out of a list by name: the SDK would
    refuse the whole list.
    """

    def __init__(self, stream: Any, left_out: dict[str, InvalidToolError]) -> None:
        self._stream, self._left_out = stream, left_out

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stream.__aexit__(*exception)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        message = await self._stream.__anext__()
        if isinstance(message, ValueError):
            message = _reread(message)
        result = getattr(getattr(message, "message", None), "result", None)
        if events.is_object(result) and events.is_list(listed := result.get("tools")):
            listed[:] = filter(self._is_tool, listed)
        return message

    def _is_tool(self, entry: Json) -> bool:
        from mcp_types import Tool

        try:
            Tool.model_validate(entry, by_name=False).model_dump(mode="json")
        except ValueError as error:
            said = str(error).splitlines()
            reason = ": ".join(map(str.strip, said[1:3] or said)).partition(" [type=")[0]
            given: Json = entry.get("name") if events.is_object(entry) else None
            name = given[:200] if isinstance(given, str) else "(unnamed)"
            self._left_out[name] = InvalidToolError(name, reason=reason)
            return False
        return True


def _reread(error: Any) -> Any:
    """Return the message that the SDK could not read, mended or as an error; else its exception."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    faults: list[Json] = getattr(error, "errors", list)()
    text: Json = faults[0]["input"] if faults else None
    if not isinstance(text, str):
        return error
    answer: Json = {"jsonrpc": "2.0"}
    try:
        answer = plain_json(json.loads(text))
    except (ValueError, RecursionError) as fault:
        found = re.search(r'"id":\s*(\d{1,18})', text)
        problem = {"code": -32700, "message": f"its answer cannot be read: {fault}"}
        answer |= {"id": int(found[1]), "error": problem} if found else {}
    with suppress(ValueError):
        return SessionMessage(jsonrpc_message_adapter.validate_python(answer, by_name=False))
    return error


def _shown(text: str) -> str:
    """Return what a server said on one line, without control characters, secrets masked."""
    from context_assembler.history.secrets import mask

    lines = map(one_line, _ESCAPES.sub("", text).splitlines())
    return mask(" | ".join(filter(None, lines)))[0]


def _said(error: BaseException) -> str:
    """Return the first line of what an error says; of a group, what its first one says."""
    if inner := getattr(error, "exceptions", ()):
        return _said(inner[0])
    return clean_text(str(error)).strip().partition("\n")[0][:200] or type(error).__name__


# ---- results ----


def _read_call_result(result: Any, *, tool_name: str, call_id: str) -> events.ToolResult:
    """Return the SDK's result of a call as ours; a text is what was said in place of one.

    What no model can be shown (sound, a binary file) is named in words. Structured content is added
    as JSON text, unless a text has the same already, as servers are asked to do for older clients.

    Source:
        https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result
        (read 2026-11-28)
    """
    is_refusal = isinstance(result, str)
    content = (_text(result),) if is_refusal else tuple(map(part_of, result.content))
    structured = None if is_refusal else result.structured_content
    texts = [part.text for part in content if isinstance(part, events.Text)]
    if structured is not None and not any(_has_same(text, structured) for text in texts):
        content = (*content, _text(json.dumps(structured, ensure_ascii=False)))
    is_error = is_refusal or bool(result.is_error)
    return events.ToolResult(
        call_id=call_id, content=content, is_error=is_error, tool_name=tool_name
    )


def _has_same(text: str, structured: Json) -> bool:
    """Whether a text is the structured content, or what the official SDK wraps as its result."""
    wrapped = structured.get("result") if events.is_object(structured) else structured
    same = (structured, wrapped)
    with suppress(ValueError, RecursionError):
        return text in same or json.loads(text) in same
    return text in same


def _text(text: str) -> events.Text:
    return events.Text(clean_text(text))


def part_of(block: Any) -> events.ResultPart:
    """Return a block of a result, the SDK's or its JSON, as a part."""
    given = block if events.is_object(block) else block.model_dump(mode="json", by_alias=True)
    kind, held = given["type"], given.get("resource") or given
    uri, text, mime = held.get("uri"), held.get("text"), held.get("mimeType", held.get("mime_type"))
    if kind == "resource_link":
        words = f"\n{held['description']}" if held.get("description") else ""
        shown = f" ({mime})" if mime else ""
        return _text(f"[{held.get('title') or held.get('name')}]({uri}){shown}{words}")
    if isinstance(text, str):
        return _text(text if kind == "text" else f"{uri}\n{text}")
    is_file, mime = kind == "resource", mime or "application/octet-stream"
    source = events.Base64Source(media_type=mime, data=held["blob" if is_file else "data"])
    if mime.startswith("image/"):
        return events.Image(source=source)
    texts = ("text/", "application/json", "application/xml", "application/yaml", "application/pdf")
    if is_file and mime.startswith(texts):
        return events.Document(source=source, title=uri)
    what = f"file {uri}" if is_file else "sound"
    return _text(f"[{what}: {mime}, {len(source.data) * 3 // 4:,} bytes; it is not shown]")
