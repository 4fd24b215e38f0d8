"""Reads what an MCP server sends before the SDK does, which would refuse a list for one bad tool."""

from collections.abc import Callable
from typing import Any, Final, Self

from context_assembler.tools.mcp_sdk import McpSdk
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.texts.cleaning import clean_text

RAW_TOOLS: Final = "context_assembler/raw_tools"
"""Under which key of a list's `_meta` the tools stand as the server spells them."""

_GARBAGE_CHARS: Final = 120


class Tap:
    """The stream of a server's messages, on its way to the SDK.

    A list of tools reaches the SDK with stand-ins for the tools that it would refuse.

    Attributes:
        garbage: The beginning of the last thing that was no message.
    """

    def __init__(
        self,
        stream: Any,
        *,
        sdk: McpSdk,
        version: Callable[[], str],
        at_end: Callable[[], None],
    ) -> None:
        self.garbage = ""
        self._stream = stream
        self._sdk = sdk
        self._version = version
        self._at_end = at_end

    @property
    def last_context(self) -> Any:
        """The sender's context of the last message, which the SDK asks for."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message."""
        try:
            found = await self._stream.receive()
        except self._sdk.anyio.EndOfStream:
            self._at_end()
            raise
        return self._sifted(found)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except self._sdk.anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _sifted(self, found: Any) -> Any:
        if isinstance(found, Exception):
            self.garbage = _garbage_of(found)
            return found
        result: Json = getattr(found.message, "result", None)
        if is_object(result) and is_array(result.get("tools")):
            found.message.result = _sifted(result, refuses=self._refuses)
        return found

    def _refuses(self, result: JsonObject) -> bool:
        try:
            version = self._version()
            self._sdk.methods.validate_server_result("tools/list", version, result)
            self._sdk.types.ListToolsResult.model_validate(result, by_name=False)
        except ValueError:
            return True
        return False


def _sifted(result: JsonObject, *, refuses: Callable[[JsonObject], bool]) -> JsonObject:
    """Return a list that the SDK takes, with its tools as they came beside it."""
    given: Json = result["tools"]
    meta = result.get("_meta")
    tools = given
    if refuses(result):
        tools = [
            _stand_in(tool) if refuses({**result, "tools": [tool]}) else tool
            for tool in given
            if is_object(tool) and isinstance(tool.get("name"), str)
        ]
    beside = {**(meta if is_object(meta) else {}), RAW_TOOLS: given}
    return {**result, "tools": tools, "_meta": beside}


def _stand_in(tool: JsonObject) -> JsonObject:
    return {"name": tool["name"], "inputSchema": {"type": "object"}}


def _garbage_of(error: Exception) -> str:
    """Return the beginning of the line that could not be parsed, which a pydantic error carries."""
    problems: list[Any] = getattr(error, "errors", list[Any])()
    lines = [problem.get("input") for problem in problems]
    said = next((line for line in lines if isinstance(line, str)), str(error))
    return clean_text(said.strip())[:_GARBAGE_CHARS]
