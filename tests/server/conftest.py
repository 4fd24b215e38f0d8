"""A worker in a process of its own, over real sockets."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

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
    import asyncio

    from context_assembler import ContextAssembler
    from context_assembler.memory import MemoryRecord, open_memory
    from context_assembler.session_start import find_project

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
