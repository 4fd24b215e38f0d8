"""A program for the tests: reads a SQLite store that its user cannot write, then tries to write.

python -m tests.sessions.read_without_rights FILE

Prints how many events it read and what writing said, one per line.
"""

import asyncio
import os
import sys

from context_assembler.errors import StoreUnavailableError
from context_assembler.sessions import SqliteStore
from context_assembler.values.events import user_event


async def main(path: str) -> None:
    async with SqliteStore(path, busy_seconds=0.1) as store:
        print(len([event async for event in store.load("trip")]))
        try:
            await store.append("trip", [user_event("no")])
        except StoreUnavailableError as error:
            print(error)


if __name__ == "__main__":
    if os.geteuid() == 0:
        os.setgroups([])
        os.setuid(65534)  # nobody: to root every file is writable
    asyncio.run(main(sys.argv[1]))
