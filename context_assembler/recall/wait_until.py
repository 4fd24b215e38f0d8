"""Waiting for work of others no longer than there is time."""

import asyncio
from collections.abc import Sequence
from typing import Any


async def wait_until(work: asyncio.Future[Any], *, ends: Sequence[asyncio.Future[Any]]) -> None:
    """Wait until the work is done or one of the ends has come; work that is not done is cancelled.

    Whoever is cancelled while he waits cancels the work, too.
    """
    try:
        await asyncio.wait([work, *ends], return_when=asyncio.FIRST_COMPLETED)
    finally:
        work.cancel()
        work.add_done_callback(_let_go)  # what ignores the end may fail unheard


def _let_go(work: asyncio.Future[Any]) -> None:
    if not work.cancelled():
        work.exception()
