"""Forks that wait until nobody is inside SQLite, so that a child inherits no lock that is held."""

import logging
import os
from concurrent.futures import thread as pools
from threading import Lock
from types import ModuleType
from typing import Final
from weakref import WeakSet

_MOST_SECONDS: Final = 30.0
# Before a fork what was registered last comes first. Whoever holds a lock of ours may wait for one
# of these modules', which their own hooks hold during a fork: theirs have to be registered before.
_REGISTERED_BEFORE: Final[tuple[ModuleType, ...]] = (logging, pools)


class _Forks:
    """Holds all locks that it made while this process is forked."""

    def __init__(self) -> None:
        self._one_at_a_time = Lock()
        self._known: WeakSet[Lock] = WeakSet()
        self._held: list[Lock] = []

    def new_lock(self) -> Lock:
        lock = Lock()
        with self._one_at_a_time:
            self._known.add(lock)
        return lock

    def wait(self) -> None:
        self._one_at_a_time.acquire()
        # One that is not free by then is held by whoever forks, or for very long.
        self._held = [lock for lock in self._known if lock.acquire(timeout=_MOST_SECONDS)]

    def go_on(self) -> None:
        held, self._held = self._held, []
        for lock in held:
            lock.release()
        self._one_at_a_time.release()


_FORKS: Final = _Forks()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_FORKS.wait, after_in_parent=_FORKS.go_on, after_in_child=_FORKS.go_on
    )


def new_lock() -> Lock:
    """Return a lock that no process is forked under: `os.fork` waits until it is free.

    SQLite keeps in the process which of its connections has locked a file. A child that is forked
    while another thread writes inherits that, and could never write to that file.

    Source:
        https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_across_a_fork_ (read
        2026-11-29)
    """
    return _FORKS.new_lock()
