"""What the gateway adds to a request: the same request to the provider's address and through it.

    python -m benchmarks.gateway [--messages 200] [--requests 200]

The provider is a local one that answers at once; each request has one exchange more than the one
before. Prints milliseconds of wall time, median and 95th percentile, and 50 streams at once.
"""

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from benchmarks.data import long_session

_CHUNKS = 20
_PROVIDER = "benchmarks.gateway:provider"
_TOKENS = 40_000


async def provider(scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
    """Answer at once, or with a stream of some chunks."""
    if scope["type"] != "http":
        return
    body, goes_on = b"", True
    while goes_on:
        message = await receive()
        body, goes_on = body + message.get("body", b""), message.get("more_body", False)
    is_stream = b'"stream":true' in body.replace(b" ", b"")
    kind = b"text/event-stream" if is_stream else b"application/json"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    for number in range(_CHUNKS if is_stream else 0):
        await asyncio.sleep(0.005)
        chunk = b'data: {"delta": "%d"}\n\n' % number
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"" if is_stream else b'{"id": "1"}'})


@asynccontextmanager
async def _serving(*command: str) -> AsyncIterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, "--port", str(port)
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient() as client:
            while True:
                try:
                    await client.get(f"{url}/health")
                    break
                except httpx.TransportError:
                    assert process.returncode is None, "the server has ended"
                    await asyncio.sleep(0.05)
        yield url
    finally:
        process.terminate()
        await process.wait()


def _grown(messages: list[dict[str, Any]], number: int) -> None:
    call = {"name": "look_up", "arguments": json.dumps({"page": number})}
    called = {"id": f"call_more_{number}", "type": "function", "function": call}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": called["id"], "content": "It is there. " * 20},
    ]


async def _measure(direct: str, through: str, length: int, requests: int) -> None:
    times: dict[str, list[float]] = {direct: [], through: []}
    messages, numbers = long_session(length), count()
    headers = {"authorization": "Bearer none", "content-type": "application/json"}
    async with httpx.AsyncClient(timeout=60, headers=headers) as client:

        async def ask(url: str, **more: Any) -> float:
            body = {"model": "gpt-5.5", "messages": messages, **more}
            content = json.dumps(body).encode()
            started = time.perf_counter()
            answer = await client.post(f"{url}/v1/chat/completions", content=content)
            answer.raise_for_status()
            return (time.perf_counter() - started) * 1e3

        for number in range(requests):
            _grown(messages, next(numbers))
            if len(messages) > length + 20:
                messages[:] = [*long_session(length)]
            for url, taken in times.items():
                spent = await ask(url)
                if number >= 5:
                    taken.append(spent)
        for url, name in ((direct, "direct"), (through, "gateway")):
            taken = sorted(times[url])
            middle, late = taken[len(taken) // 2], taken[int(len(taken) * 0.95)]
            print(f"{name}: median {middle:.2f} ms, 95 % {late:.2f} ms")
        middles = [sorted(times[url])[len(times[url]) // 2] for url in (direct, through)]
        print(f"added at {length} messages: median {middles[1] - middles[0]:.2f} ms")
        for url, name in ((direct, "direct"), (through, "gateway")):
            taken = sorted(await asyncio.gather(*(ask(url, stream=True) for _ in range(50))))
            print(
                f"50 streams at once, {name}: median {taken[25]:.0f} ms, slowest {taken[-1]:.0f} ms"
            )


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--requests", type=int, default=200)
    given = parser.parse_args()
    os.environ["CONTEXT_ASSEMBLER_STATE"] = tempfile.mkdtemp()
    os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
    uvicorn = ("uvicorn", _PROVIDER, "--log-level", "warning")
    async with _serving(*uvicorn) as direct:
        serve = ("context_assembler", "serve", "--gateway", "--provider", f"openai={direct}")
        async with _serving(*serve) as through:
            await _measure(direct, through, given.messages, given.requests)


if __name__ == "__main__":
    asyncio.run(_main())
