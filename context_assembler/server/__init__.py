"""The worker: project memory, requests and sessions over HTTP, for hooks and other programs.

    context-assembler serve --memory sqlite:memory.db

`create_app` returns the FastAPI application; `run` serves it. Needs the extra `serve`.
"""

from context_assembler.lazy import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
