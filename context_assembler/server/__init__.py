"""The worker: project memory, requests and sessions over HTTP, for hooks and other programs.

    context-assembler serve --memory sqlite:memory.db

`create_app` returns the FastAPI application; `run` serves it. Needs the extra `serve`.
"""

from context_assembler.server.app import Worker, create_app
from context_assembler.server.running import run

__all__ = ["Worker", "create_app", "run"]
