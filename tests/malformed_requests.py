"""What becomes of a request that somebody damaged: read, assembled and spelled, or refused in words."""

from typing import Any, Final

from context_assembler import ContextAssembler, InMemoryStore
from context_assembler.errors import (
    ContextOverflowError,
    EmptySessionError,
    TranscriptError,
    UnknownSessionError,
    UnsupportedRequestError,
)
from context_assembler.providers import PROVIDERS
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.report import Violation
from tests.models import MODELS

# What is told in words: no transcript, nothing in it, nothing to send, or too much.
TOLD: Final = (TranscriptError, UnknownSessionError, EmptySessionError, ContextOverflowError)


async def refusals(request: Any, *, read_as: str) -> list[Violation]:
    """Return which rules the request's session breaks, spelled for whoever it was made for.

    It is spelled for every other provider as well, of whom nothing but an answer is asked.
    """
    try:
        read = TRANSCRIPTS[read_as].read(request)
        assembler = ContextAssembler(sessions=InMemoryStore(), tools=list(read.tools))
        await assembler.sessions.append("s", list(read.events))
        context = await assembler.assemble("s", model=MODELS[read_as], max_tokens=500)
    except TOLD:
        return []
    for provider in PROVIDERS:
        try:
            context.to_request(provider)
        except UnsupportedRequestError:
            continue
    return [violation for violation in context.check() if violation.level == "refused"]
