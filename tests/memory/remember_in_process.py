"""A program for the tests: keeps memories from a process of its own.

python -m tests.memory.remember_in_process PLACE WRITER BATCHES RECORDS

PLACE is a SQLite file, or the URL of a PostgreSQL database.
Each batch holds RECORDS turns of one session; after each the process prints its number. With
BATCHES 0 it goes on until it is killed.
"""

import asyncio
import itertools
import sys

from context_assembler.memory import PostgresMemoryStore, SqliteMemoryStore
from context_assembler.values.memories.records import MemoryRecord


async def main(place: str, writer: str, batches: int, records: int) -> None:
    is_url = place.startswith("postgresql:")
    store = (PostgresMemoryStore if is_url else SqliteMemoryStore)(place, busy_seconds=60)
    for number in itertools.count(1):
        turns = [
            MemoryRecord(text=f"{writer} said word{number}", kind="events", session_id="shared")
            for _ in range(records)
        ]
        await store.remember(turns)
        print(number, flush=True)
        if number == batches:
            break
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
