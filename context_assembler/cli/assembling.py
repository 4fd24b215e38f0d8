"""Assembling what a command line asks for."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from context_assembler.assembler import ContextAssembler
from context_assembler.cli.clients import open_clients
from context_assembler.cli.opening import check_folder, check_memory_exists, opened_store, read_json
from context_assembler.cli.request_options import Request
from context_assembler.config import AssemblerConfig
from context_assembler.errors import ConfigurationError
from context_assembler.values.context import AssembledContext
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json


@asynccontextmanager
async def opened_assembler(request: Request) -> AsyncGenerator[ContextAssembler, None]:
    """Build the assembler that a request asks for, and close its stores again."""
    settings = _settings_in(request.config) if request.config else AssemblerConfig()
    if request.bootstrap is not None:
        check_folder(request.bootstrap)
    if request.memory is not None:
        check_memory_exists(request.memory)
    async with opened_store(request.sessions) as store, AsyncExitStack() as opened:
        assembler = ContextAssembler(
            sessions=store,
            bootstrap=request.bootstrap,
            tools=read_tools(request.tools) if request.tools else (),
            memory=request.memory,
            config=settings,
            clients=open_clients() if request.options.get("exact") else None,
        )
        opened.push_async_callback(assembler.close)
        yield assembler


async def assembled(request: Request) -> AssembledContext:
    """Assemble what a request asks for."""
    async with opened_assembler(request) as assembler:
        return await assembler.assemble(
            request.session_id, agent_id=request.agent_id, **request.options
        )


def _settings_in(folder: Path) -> AssemblerConfig:
    if not folder.is_dir():
        raise ConfigurationError(
            f"{folder} is not a folder.",
            remedy="--config names the folder that context-assembler.toml lies in.",
        )
    return AssemblerConfig(folder=folder)


def read_tools(path: Path) -> list[Json]:
    """Return the tool specs in a JSON file: a list, or an object with a list called `tools`."""
    found = read_json(path)
    tools = found.get("tools") if is_object(found) else found
    if not is_array(tools):
        raise ConfigurationError(
            f"{path} holds no list of tools.",
            remedy='Write a JSON list of tool specs, or an object with a list called "tools".',
        )
    return list(tools)
