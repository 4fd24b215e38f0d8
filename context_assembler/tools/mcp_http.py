"""Streamable HTTP as MCP speaks it, with an end to how much a server may send at once."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from context_assembler.tools.mcp_answers import note_answer
from context_assembler.tools.mcp_sdk import McpSdk
from context_assembler.tools.mcp_servers import HttpServer

MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""Of one message; a screenshot in base64 is a few megabytes."""

_WRITE_SECONDS: Final = 30.0
_READ_SECONDS: Final = (
    300.0  # a server may be silent on an open stream; requests have their own ends
)


@asynccontextmanager
async def open_http(sdk: McpSdk, server: HttpServer) -> AsyncGenerator[Any]:
    """Open the two streams of messages.

    The status of every answer to a message is told to who sent it (`heard_alone`); not that a GET is
    refused, which asks for a stream that few servers have, at any time.

    Source:
        https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
        #listening-for-messages-from-the-server (read 2026-11-28)
    """

    async def bound(response: Any) -> None:
        if response.request.method == "POST":
            note_answer(response.status_code, response.reason_phrase)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _bounded(sdk, response.stream)

    http = sdk.httpx.AsyncClient(
        # What is not compressed cannot grow while it is read.
        headers={**server.headers, "accept-encoding": "identity"},
        auth=server.auth,
        timeout=sdk.httpx.Timeout(_WRITE_SECONDS, read=_READ_SECONDS),
        event_hooks={"response": [bound]},
    )
    open_streams = sdk.streamable_http.streamable_http_client
    async with (
        http,
        open_streams(server.url, http_client=http, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


def _bounded(sdk: McpSdk, stream: Any) -> Any:
    """Return the body of a response, which fails where it grows too large."""

    class Bounded(sdk.httpx.AsyncByteStream):  # type: ignore[name-defined, misc] # pyright: ignore[reportUntypedBaseClass] - a class of the SDK's
        async def __aiter__(self) -> AsyncIterator[bytes]:
            read_bytes = 0
            async for piece in stream:
                read_bytes += len(piece)
                if read_bytes > MAX_MESSAGE_BYTES:
                    raise sdk.httpx.ReadError(f"a message exceeds {MAX_MESSAGE_BYTES:,} bytes")
                yield piece

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
