"""MCP servers as the configuration files of MCP clients name them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from context_assembler import ConfigurationError, ContextAssembler, McpTools, MissingExtraError
from context_assembler.tools import open_tool_sources
from context_assembler.tools.mcp_sdk import load_sdk
from context_assembler.tools.mcp_servers import HttpServer, StdioServer, read_mcp_servers

ROOT = Path(__file__).parents[2]

SERVERS: dict[str, tuple[dict[str, Any], StdioServer | HttpServer | None]] = {
    "a program": (
        {"command": "npx", "args": ["-y", "files"], "env": {"A": "1"}, "cwd": "/srv"},
        StdioServer(command="npx", args=("-y", "files"), env={"A": "1"}, cwd="/srv"),
    ),
    "a program alone": ({"command": "files"}, StdioServer(command="files")),
    "an address": (
        {"type": "http", "url": "https://a.example/mcp", "headers": {"X": "y"}},
        HttpServer(url="https://a.example/mcp", headers={"X": "y"}),
    ),
    "an address as others spell it": (
        {"serverUrl": "https://a.example/mcp"},
        HttpServer(url="https://a.example/mcp"),
    ),
    "keys of one client alone": (
        {"command": "files", "autoApprove": ["read"], "timeout": 60, "disabled": False},
        StdioServer(command="files"),
    ),
    "variables": (
        {"url": "https://${HOST}/mcp", "headers": {"A": "Bearer ${env:KEY}", "B": "${NO:-b}"}},
        HttpServer(url="https://a.example/mcp", headers={"A": "Bearer k", "B": "b"}),
    ),
    "switched off": ({"command": "files", "disabled": True}, None),
    "not switched on": ({"command": "files", "enabled": False}, None),
}


@pytest.mark.parametrize(("entry", "address"), SERVERS.values(), ids=SERVERS.keys())
@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_a_configuration_is_read(
    key: str, entry: dict[str, Any], address: StdioServer | HttpServer | None
) -> None:
    read = read_mcp_servers({key: {"a": entry}}, env={"HOST": "a.example", "KEY": "k"})

    assert read == ({} if address is None else {"a": address})


MISTAKES: dict[str, tuple[Any, str]] = {
    "no servers": ({"mcp": {}}, "names no servers"),
    "a list": ({"mcpServers": {"a": ["npx"]}}, "'a' cannot be used: it is no object"),
    "neither": ({"mcpServers": {"a": {}}}, "'a'.*either a command or a url"),
    "both": ({"mcpServers": {"a": {"command": "x", "url": "y"}}}, "either a command or a url"),
    "a command that is a list": ({"mcpServers": {"a": {"command": ["x"]}}}, "command or a url"),
    "the old transport": ({"mcpServers": {"a": {"type": "sse", "url": "x"}}}, "streamable HTTP"),
    "arguments in one text": ({"mcpServers": {"a": {"command": "x", "args": "y"}}}, "'args' is no"),
    "numbers in env": ({"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}}, "'env' is no"),
    "a number as folder": ({"mcpServers": {"a": {"command": "x", "cwd": 1}}}, "'cwd' is no text"),
    "an unset variable": ({"mcpServers": {"a": {"command": "${NO}"}}}, "variable 'NO'.*not set"),
}


@pytest.mark.parametrize(("config", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_names_the_server_and_the_remedy(config: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        read_mcp_servers(config, env={})

    assert caught.value.remedy


def test_a_file_opens_a_source_for_each_server(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    servers = {"files": {"command": "files"}, "web": {"url": "https://a.example/mcp"}}
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    sources = McpTools.from_file(path, max_tools=3)

    assert [source.name for source in sources] == ["files", "web"]
    assert sources[0].address == StdioServer(command="files")
    assert sources[1].address == HttpServer(url="https://a.example/mcp")


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_a_file_that_cannot_be_read_is_named(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigurationError, match="MCP configuration"):
        McpTools.from_file(path)


def test_secrets_of_an_address_are_not_shown() -> None:
    shown = repr(
        [
            StdioServer(command="a", env={"KEY": "secret"}),
            HttpServer(url="b", headers={"A": "secret"}, auth="secret"),
        ]
    )

    assert "secret" not in shown


@pytest.mark.parametrize("given", [{}, {"command": "a", "url": "b"}])
def test_a_server_has_one_address(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="either a command or a url"):
        McpTools("a", **given)


def test_a_configuration_is_a_short_form_of_tools() -> None:
    own = McpTools("own", command="a")
    config = {"mcpServers": {"b": {"command": "b"}, "c": {"url": "https://c.example"}}}

    sources = open_tool_sources([own, config])

    assert sources[0] is own
    assert [source.name for source in sources] == ["own", "b", "c"]


def test_two_servers_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="Two MCP servers are called 'a'"):
        open_tool_sources([McpTools("a", command="x"), {"mcpServers": {"a": {"command": "y"}}}])


def test_geminis_own_tool_of_that_name_stays_a_tool() -> None:
    (source,) = open_tool_sources({"mcpServers": [{"name": "a"}]})

    assert source.name == "listed"


async def test_the_tools_of_one_call_start_no_program() -> None:
    async with ContextAssembler() as assembler:
        await assembler.add_user("s", "hi")
        with pytest.raises(ConfigurationError, match="start no MCP servers"):
            await assembler.assemble(
                "s",
                model="gpt-4.1",
                additional_tools={"mcpServers": {"a": {"command": "rm"}}},
            )


def test_without_the_sdk_the_remedy_is_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'context-assembler\[mcp\]'"):
        McpTools("a", command="b")
    with pytest.raises(MissingExtraError):
        load_sdk()


def test_making_a_source_loads_no_sdk() -> None:
    program = (
        "import sys\n"
        "from context_assembler import McpTools\n"
        "McpTools('a', command='b')\n"
        "assert not {'mcp', 'pydantic', 'httpx2', 'anyio'} & sys.modules.keys()\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=60)
