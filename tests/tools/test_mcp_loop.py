"""A loop in a thread of its own: work of any other loop is done there, or told that it is not."""

import asyncio
import threading

import pytest

from context_assembler.tools.mcp_loop import LoopClosedError, LoopThread
from context_assembler.tools.mcp_stderr import StderrTail


async def nothing() -> None: ...


async def test_work_is_done_in_one_thread_for_every_loop() -> None:
    loop = LoopThread("one", before_end=nothing)

    async def where() -> str:
        return threading.current_thread().name

    here = await loop.run(where)
    there = await asyncio.to_thread(lambda: asyncio.run(loop.run(where)))
    loop.stop()
    await loop.ended()

    assert here == there == "one"


async def test_a_loop_that_ends_refuses_work() -> None:
    loop = LoopThread("one", before_end=nothing)
    loop.stop()
    loop.stop()

    with pytest.raises(LoopClosedError):
        await loop.run(nothing)
    await loop.ended()


async def test_work_that_the_end_cuts_off_is_told_of() -> None:
    begun = asyncio.Event()
    here = asyncio.get_running_loop()
    loop = LoopThread("one", before_end=nothing)

    async def forever() -> None:
        here.call_soon_threadsafe(begun.set)
        await asyncio.Event().wait()

    working = asyncio.create_task(loop.run(forever))
    await begun.wait()
    loop.stop()

    with pytest.raises(LoopClosedError):
        await working
    await loop.ended()


async def test_who_gives_up_cancels_the_work() -> None:
    given_up = threading.Event()
    loop = LoopThread("one", before_end=nothing)

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await loop.run(forever)
    loop.stop()
    await loop.ended()

    assert given_up.is_set()


async def test_what_is_to_be_done_before_the_end_is_done() -> None:
    done: list[str] = []

    async def tidy() -> None:
        done.append("tidied")

    loop = LoopThread("one", before_end=tidy)
    loop._end_with_the_program()

    assert done == ["tidied"]
    await loop.ended()


def test_of_many_words_the_last_are_kept() -> None:
    tail = StderrTail()
    tail.writer.write("begin\n" + "x" * 100_000 + "\n\x1b[31m╭── red ──╮\x1b[0m\n\nend\n")
    tail.writer.flush()
    assert isinstance(tail.text(waits=False), str)

    said = tail.text(waits=True)

    assert said.endswith("x |  red  | end".replace("  ", " "))
    assert len(said) == 400
    assert "begin" not in said
