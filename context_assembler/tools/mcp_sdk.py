"""The official MCP SDK, an optional package that takes a second to load."""

from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from context_assembler.errors import MissingExtraError

_WHAT: Final = "Speaking with MCP servers"


class McpSdk(NamedTuple):
    """The modules that are spoken with; untyped, since they may not be there."""

    anyio: Any
    httpx: Any
    mcp: Any
    methods: Any
    streamable_http: Any
    types: Any
    version: Any


def require_sdk() -> None:
    """Make sure that the SDK is installed, without loading it.

    Raises:
        MissingExtraError: It is not.
    """
    if find_spec("mcp") is None:
        raise MissingExtraError(_WHAT, extra="mcp")


def load_sdk() -> McpSdk:
    """Return the SDK.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import anyio  # noqa: PLC0415 - these come with the SDK
        import httpx2  # noqa: PLC0415
        import mcp  # noqa: PLC0415
        import mcp_types  # noqa: PLC0415
        from mcp.client import streamable_http  # noqa: PLC0415
        from mcp_types import methods, version  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(_WHAT, extra="mcp") from error
    return McpSdk(
        anyio=anyio,
        httpx=httpx2,
        mcp=mcp,
        methods=methods,
        streamable_http=streamable_http,
        types=mcp_types,
        version=version,
    )
