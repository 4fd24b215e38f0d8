"""A program for the tests: appends to a SQLite store from a process of its own.

python -m tests.sessions.append_in_process FILE WRITER APPENDS EVENTS

Each append holds EVENTS events of one kind; after each the process prints its number. With APPENDS 0
it goes on until it is killed.
"""

import asyncio
import itertools
import sys

from context_assembler.sessions import SqliteStore
from context_assembler.values.events import user_event


async def main(path: str, writer: str, appends: int, events: int) -> None:
    store = SqliteStore(path, busy_seconds=60)
    for number in itertools.count(1):
        text = f"{writer}:{number}"
        await store.append("shared", [user_event(text)] * events)
        print(number, flush=True)
        if number == appends:
            break
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
