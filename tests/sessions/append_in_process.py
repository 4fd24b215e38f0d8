"""Appends batches of events to a session until it is done, or killed; tells each one that is kept."""

import asyncio
import sys

from context_assembler import user_event
from context_assembler.sessions import open_store


async def main(location: str, name: str, batches: int, size: int) -> None:
    store = open_store(location)
    number = 0
    while number != batches:
        number += 1
        await store.append("shared", [user_event(f"{name}:{number}")] * size)
        print(number, flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
