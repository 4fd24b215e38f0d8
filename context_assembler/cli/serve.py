"""`serve`: the worker over HTTP."""

import asyncio
import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import typer

from context_assembler.assembler import ContextAssembler
from context_assembler.cli import command as cli
from context_assembler.cli.command import Answer, Words
from context_assembler.memory import MemoryRecord, open_memory
from context_assembler.memory.kinds import LearningMetadata
from context_assembler.memory.records import load_package
from context_assembler.models import bundled_path
from context_assembler.session_start import find_project
from context_assembler.transcripts import read_transcript

app: Final = typer.Typer(add_completion=False)
_LEARNT: Final = "Amounts are kept in cents; the rounding tests compare invoices to the cent."


@cli.command(app, "serve")
def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8808,
    socket: Path | None = None,
    token: Words = None,
    workers: int = 1,
    sessions: Words = None,
    memory: Words = None,
    bootstrap: Path | None = None,
    state: Words = None,
    demo: bool = False,
    gateway: bool = False,
    provider: list[str] | None = None,
) -> Answer:
    """Serve memory, requests and sessions over HTTP.

    Args:
        host: The address to listen on; any but loopback needs a token.
        port: The port; 0 takes a free one.
        socket: Path of a Unix socket, instead of host and port.
        token: What requests must carry, as 'Authorization: Bearer …'.
        workers: How many processes to run.
        bootstrap: The folder with AGENT.md and the others.
        state: The folder of snapshots and the hook's log; by default ~/.context-assembler.
        demo: Serve a sample session and a sample memory from temporary files; with --gateway, pass
            requests on to a provider on this machine that repeats what it receives.
        gateway: Also pass requests of agents on to their providers, fitted and marked for the cache.
        provider: Address of a provider for --gateway, such as anthropic=https://api.anthropic.com.
    """
    load_package("fastapi", "The worker", extra="serve")
    load_package("uvicorn", "The worker", extra="serve")
    from context_assembler.server import run

    with TemporaryDirectory() as folder, ExitStack() as running:
        stores: dict[str, Any] = {"sessions": sessions, "memory": memory, "bootstrap": bootstrap}
        if gateway:
            stores["gateway"] = dict(_pair(one) for one in provider or ())
        if demo:
            stores |= asyncio.run(_fill(Path(folder)))
            stores["bootstrap"] = bootstrap or bundled_path("bootstrap")
            state = state or folder
            if gateway and not provider:
                from context_assembler.testing import serve_providers

                here = running.enter_context(serve_providers())
                stores["gateway"] = dict.fromkeys(("anthropic", "openai", "gemini"), here.url)
        where = str(socket) if socket else f"http://{f'[{host}]' if ':' in host else host}:{port}"
        project = f"?project_path={os.getcwd()}" if demo else ""
        if not socket:
            cli.print_note(f"{where}/", "Inspector", "green")
        cli.print_note(f"{where}/api/context{project}, {where}/docs", "Serving", "green")
        if gateway:
            cli.print_note(
                f"base URL {where} (Anthropic, Gemini), {where}/v1 (OpenAI)", "Gateway", "green"
            )
        run(
            host=host, port=port, socket=socket, token=token, workers=workers, state=state, **stores
        )
    return Answer({"stopped": True}, ["Stopped."])


def _pair(given: str) -> tuple[str, str]:
    name, _, url = given.partition("=")
    return name, url


async def _fill(folder: Path) -> dict[str, str]:
    """Put the bundled session and a learning about this folder into new stores."""
    urls = {"sessions": f"sqlite:{folder / 'agent.db'}", "memory": f"sqlite:{folder / 'memory.db'}"}
    sample = read_transcript(Path(bundled_path("samples/coding_agent.json")))
    async with ContextAssembler(urls["sessions"]) as assembler:
        await assembler.sessions.append("money-migration", sample.events)
    async with open_memory(urls["memory"]) as store:
        about = LearningMetadata(confidence=0.9)
        given: Any = {"namespace": find_project(os.getcwd()), "kind": "learnings"}
        await store.remember([MemoryRecord(text=_LEARNT, metadata=about, **given)])
    return urls
