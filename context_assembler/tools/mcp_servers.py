"""Where MCP servers are reached, as the configuration files of MCP clients say it."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from context_assembler.errors import ConfigurationError, InvalidParameterError
from context_assembler.values.given import check_path, check_type
from context_assembler.values.json_bounds import (
    MAX_JSON_DEPTH,
    load_bounded_json,
    nests_too_deeply,
)
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject

SERVERS_KEYS: Final = ("mcpServers", "servers")  # the latter is VS Code's
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
_SHAPE: Final = (
    '{"mcpServers": {"files": {"command": "npx", "args": […]}, "docs": {"url": "https://…"}}}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServer:
    """A program that is started, and spoken to over its standard input and output.

    `env` comes on top of the few variables that the SDK passes on (PATH, HOME …).
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """A server that is reached over streamable HTTP.

    `auth` is an `httpx2.Auth`, as the SDK's OAuth providers are.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    auth: Any = field(default=None, repr=False)


McpServerAddress: TypeAlias = StdioServer | HttpServer


def read_mcp_servers(
    config: JsonObject, *, env: Mapping[str, str] | None = None
) -> dict[str, McpServerAddress]:
    """Return the servers that a client's configuration names; those switched off are left out.

    `${NAME}`, `${env:NAME}` and `${NAME:-otherwise}` stand for environment variables.

    Args:
        env: The environment variables; those of the process by default.

    Raises:
        ConfigurationError: It has another shape, or a variable that is not set.
    """
    check_type("config", config, Mapping, such_as=f"a mapping like {_SHAPE}")
    if nests_too_deeply(config):
        raise ConfigurationError(
            f"The MCP configuration is nested deeper than {MAX_JSON_DEPTH} levels.",
            remedy=f"Write it like {_SHAPE}.",
        )
    servers = next((config[key] for key in SERVERS_KEYS if is_object(config.get(key))), None)
    if servers is None:
        raise ConfigurationError(
            "The MCP configuration names no servers.", remedy=f"Write it like {_SHAPE}."
        )
    variables = os.environ if env is None else env
    return {
        name: _read_server(name, entry, env=variables)
        for name, entry in servers.items()
        if not _is_off(entry)
    }


def read_mcp_file(path: str | Path) -> dict[str, McpServerAddress]:
    """Return the servers that a client's configuration file names, as `read_mcp_servers` does.

    Raises:
        ConfigurationError: The file cannot be read, or is not of that shape.
    """
    check_path("path", path, such_as="the path of a file, such as '.mcp.json'")
    try:
        config = load_bounded_json(Path(path).expanduser().read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"The MCP configuration {str(path)!r} cannot be read: {error}.",
            remedy="Correct the path or the JSON of the file.",
        ) from error
    return read_mcp_servers(config if is_object(config) else {})


def texts_by_name(name: str, given: object) -> dict[str, str]:
    """Return texts by their names, such as variables of the environment, or headers.

    Raises:
        InvalidParameterError: It is no such mapping; no value is shown, for they may be secret.
    """
    if given is None:
        return {}
    texts = _mapped(given)
    words: list[object] = [None] if texts is None else [*texts, *texts.values()]
    if texts is None or not all(isinstance(word, str) for word in words):
        raise InvalidParameterError(
            name,
            type(given).__name__,
            rule="must be a mapping of texts to texts",
            remedy="Pass a mapping such as {'NAME': 'value'}.",
        )
    return texts


def _mapped(given: object) -> dict[str, str] | None:
    return dict(cast("Mapping[str, str]", given)) if isinstance(given, Mapping) else None


def _is_off(entry: Json) -> bool:
    return is_object(entry) and (entry.get("disabled") is True or entry.get("enabled") is False)


def _read_server(name: str, entry: Json, *, env: Mapping[str, str]) -> McpServerAddress:
    if not is_object(entry):
        raise _unusable(name, "it is no object")
    if entry.get("type") == "sse" or entry.get("transport") == "sse":
        raise _unusable(name, "its transport is 'sse', which MCP gave up for streamable HTTP")
    given = _expand(name, entry, env=env)
    url = next((given[key] for key in ("url", "serverUrl", "httpUrl") if given.get(key)), None)
    command = given.get("command")
    if isinstance(command, str) and command and url is None:
        return StdioServer(
            command=command,
            args=_texts(name, given, "args"),
            env=_texts_by_name(name, given, "env"),
            cwd=_text_or_none(name, given, "cwd"),
        )
    if isinstance(url, str) and command is None:
        return HttpServer(url=url, headers=_texts_by_name(name, given, "headers"))
    raise _unusable(name, "it needs either a command or a url")


def _unusable(name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"MCP server {name!r} cannot be used: {reason}.", remedy=f"Write it like {_SHAPE}."
    )


def _expand(name: str, value: Json, *, env: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(name, found, env=env), value)
    if is_object(value):
        return {key: _expand(name, inner, env=env) for key, inner in value.items()}
    return [_expand(name, inner, env=env) for inner in value] if is_array(value) else value


def _variable(name: str, found: re.Match[str], *, env: Mapping[str, str]) -> str:
    variable, otherwise = found.groups()
    value = env.get(variable) or otherwise
    if value is None:
        raise ConfigurationError(
            f"MCP server {name!r} needs the environment variable {variable!r}, which is not set.",
            remedy=f"Set it, or write ${{{variable}:-…}} with a value to use otherwise.",
        )
    return value


def _texts(name: str, given: JsonObject, key: str) -> tuple[str, ...]:
    texts = given.get(key)
    if texts is None:
        return ()
    if not is_array(texts) or not all(isinstance(one, str) for one in texts):
        raise _unusable(name, f"{key!r} is no list of texts")
    return tuple(texts)


def _texts_by_name(name: str, given: JsonObject, key: str) -> dict[str, str]:
    texts = given.get(key)
    if texts is None:
        return {}
    if not is_object(texts) or not all(isinstance(one, str) for one in texts.values()):
        raise _unusable(name, f"{key!r} is no object of texts")
    return dict(texts)


def _text_or_none(name: str, given: JsonObject, key: str) -> str | None:
    text = given.get(key)
    if text is not None and not isinstance(text, str):
        raise _unusable(name, f"{key!r} is no text")
    return text
