"""A line in front of what answers one after another."""

import asyncio
from weakref import WeakKeyDictionary


class Line:
    """Lets a few through at a time in each event loop, those first who came first.

    Where all go on at once, each of them waits behind every step of all the others: many that are
    short end late together, and none in time.
    """

    def __init__(self, *, at_once: int) -> None:
        self._at_once = at_once
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    def here(self) -> asyncio.Semaphore:
        """Return what is taken, and given back, by who is let through in this event loop."""
        loop = asyncio.get_running_loop()
        turns = self._turns.get(loop)
        if turns is None:
            turns = self._turns[loop] = asyncio.Semaphore(self._at_once)
        return turns
