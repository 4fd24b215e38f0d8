"""Reads a session, then tries to append, as a user who owns nothing."""

import asyncio
import concurrent.futures.thread
import os
import sys

from context_assembler import AssemblyError, user_event
from context_assembler.sessions import MemoryStore, SqliteStore

# What is imported when it is first used may not be readable later.
MemoryStore().append_now("trip", [user_event("hi")])
assert concurrent.futures.thread.ThreadPoolExecutor is not None
if os.getuid() == 0:
    os.setuid(65534)


async def main(path: str) -> None:
    async with SqliteStore(path) as store:
        print(len([event async for event in store.load("trip")]))
        try:
            await store.append("trip", [user_event("no")])
        except AssemblyError as error:
            print(error)


asyncio.run(main(sys.argv[1]))
