"""A worker in a process of its own, over real sockets."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest

from context_assembler import ContextAssembler
from context_assembler.events import ToolCall
from context_assembler.memory import MemoryRecord, open_memory
from context_assembler.session_start import find_project
from context_assembler.testing import ScriptedReply, serve_providers

_START = """
import json, sys
from context_assembler.server import run
run(**json.loads(sys.argv[1]))
"""


@contextmanager
def serving(state: Path, **options: Any) -> Iterator[httpx.Client]:
    """Run the worker; yield a client that carries what the state folder says."""
    told = json.dumps({"state": str(state), "port": 0, **options})
    process = subprocess.Popen([sys.executable, "-c", _START, told], stderr=subprocess.PIPE)
    try:
        while (
            not (state / "worker").is_file() or not (state / "worker").read_text().count("\n") > 1
        ):
            if process.poll() is not None:
                raise AssertionError(process.stderr and process.stderr.read().decode())
            time.sleep(0.02)
        address, token = (state / "worker").read_text().split()
        headers = {"Authorization": f"Bearer {token}"}
        if address.startswith("unix:"):
            transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
            client = httpx.Client(transport=transport, base_url="http://localhost", headers=headers)
        else:
            transport = httpx.HTTPTransport()
            client = httpx.Client(
                transport=transport, base_url=f"http://{address}", headers=headers
            )
        with client:
            yield client
    finally:
        process.terminate()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """URLs of a session store and a memory store that hold something."""
    folder = tmp_path_factory.mktemp("stores")
    urls = {"sessions": f"sqlite:{folder}/agent.db", "memory": f"sqlite:{folder}/memory.db"}
    (folder / ".git").mkdir()

    async def fill() -> None:
        async with ContextAssembler(urls["sessions"]) as assembler:
            for name in ("first", "trip 42/ä"):
                await assembler.add_user(name, "Book a train; my key is sk-ant-api03-" + "aB3" * 31)
        async with open_memory(urls["memory"]) as store:
            about = {"namespace": find_project(str(folder)), "kind": "learnings"}
            await store.remember([MemoryRecord(text="Prices are integers.", **about)])  # type: ignore[arg-type]

    asyncio.run(fill())
    return {**urls, "project": str(folder)}


# ---- a recorded session whose every text is hostile ----

SECRET = "sk-ant-api03-" + "aB3" * 31
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"
SESSION = "trip <b>42</b>/ä"
CALLS = 12


def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}: {HOSTILE} " + "x = 1\n" * 300


async def _record(url: str, memory: str) -> list[Any]:
    """Record a session of an agent with tools; return the bodies of its requests."""
    replies = [
        ScriptedReply(
            text=f"Reply {number}. {HOSTILE}",
            tool_calls=[
                ToolCall(call_id=f"toolu_{number}", name="read_file", arguments={"path": HOSTILE})
            ]
            * (number % 3 != 2),
        )
        for number in range(CALLS)
    ]
    with serve_providers(replies) as provider:
        client = anthropic.AsyncAnthropic(base_url=provider.anthropic_url, api_key="test")
        async with ContextAssembler(
            url, system=f"You are careful. {HOSTILE}", tools=[read_file]
        ) as assembler:
            for _ in range(CALLS // 3):
                await assembler.add_user(SESSION, f"Look again. {HOSTILE} My key is {SECRET}.")
                calls: Any = True
                while calls:
                    options: Any = {"model": "claude-haiku-4-5", "max_context_tokens": 6_000}
                    context = await assembler.assemble(SESSION, **options)
                    reply = await client.messages.create(**context.to_anthropic())
                    calls = (await assembler.record(SESSION, reply, context))[-1].tool_calls
                    for call in calls:
                        result = read_file(**call.arguments)
                        await assembler.add_tool_result(SESSION, call.call_id, result)
        async with open_memory(memory) as store:
            await store.remember([MemoryRecord(text=f"Prices are integers. {HOSTILE} {SECRET}")])
        assert not provider.refusals
        return [request.body for request in provider.requests]


@pytest.fixture(scope="package")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], list[Any]]:
    """What a worker serves of the session, and the requests that were sent in it."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "AGENT.md").write_text(f"Be kind. {HOSTILE} {SECRET}\n")
    urls = {"sessions": f"sqlite:{folder}/agent.db", "memory": f"sqlite:{folder}/memory.db"}
    bodies = asyncio.run(_record(urls["sessions"], urls["memory"]))
    return {**urls, "bootstrap": str(folder)}, bodies


@pytest.fixture(scope="package")
def pages(
    tmp_path_factory: pytest.TempPathFactory, recorded: tuple[dict[str, str], list[Any]]
) -> Iterator[httpx.Client]:
    """A client of the worker that shows it."""
    with serving(tmp_path_factory.mktemp("state"), **recorded[0]) as client:
        yield client
