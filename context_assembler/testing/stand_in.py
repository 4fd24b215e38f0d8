"""A local provider in place of the real ones, for programs that are tried without a key."""

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final

from context_assembler.testing.script import ScriptLine
from context_assembler.testing.server import serve_providers

_KEYS: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@contextmanager
def stand_in_for_providers(script: Iterable[ScriptLine] | None = None) -> Generator[None]:
    """Lead the providers' SDKs to a local provider, unless the environment holds a key.

    What it changes in the environment is as before at the end.

    Args:
        script: The replies of the local provider; without one it repeats what it heard.
    """
    if any(os.environ.get(key) for key in _KEYS):
        yield
        return
    before = dict(os.environ)
    with serve_providers(script) as server:
        os.environ.update(server.environment)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
