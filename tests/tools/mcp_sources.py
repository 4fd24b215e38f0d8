"""Sources for the servers of `mcp_server`, as programs of their own."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from context_assembler import McpTools

PROGRAM = Path(__file__).parent / "mcp_server.py"


def launch(behaviour: str, *words: str, name: str | None = None, **settings: Any) -> McpTools:
    """Return the source of a server that behaves so; it is started when first asked."""
    settings.setdefault("connect_timeout_seconds", 60.0)
    settings.setdefault("list_timeout_seconds", 60.0)
    args = [str(PROGRAM), behaviour, *words]
    return McpTools(name or behaviour, command=sys.executable, args=args, **settings)


def launch_listing(folder: Path, name: str, tools: list[Any], **settings: Any) -> McpTools:
    """Return the source of a server that lists these tools, as they are."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(tools), encoding="utf-8")
    return launch("listed", str(path), name=name, **settings)


@contextmanager
def serve_over_http(*names: str) -> Generator[str]:
    """Run the SDK's server over HTTP, and yield its address."""
    args = [sys.executable, str(PROGRAM), "http", *names]
    with subprocess.Popen(args, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()
