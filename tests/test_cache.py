"""The assembly cache: one load per key, nothing stale, nothing left behind by a failure."""

import asyncio
import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from context_assembler.cache import AssemblyCache, CacheKey

KEY = CacheKey(session_id="s", last_seq=3, agent_id=None, fingerprint="f")


class Loads:
    """Counts how often a value was made."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> int:
        self.count += 1
        await asyncio.sleep(0)
        return self.count


async def test_a_second_call_is_answered_from_the_cache() -> None:
    cache = AssemblyCache[int]()
    load = Loads()

    first = await cache.get_or_load(KEY, load)
    second = await cache.get_or_load(KEY, load)

    assert (first, second) == ((1, False), (1, True))
    assert cache.stats().hits == 1
    assert cache.stats().misses == 1


async def test_many_callers_at_once_share_one_load() -> None:
    cache = AssemblyCache[int]()
    load = Loads()

    answers = await asyncio.gather(*(cache.get_or_load(KEY, load) for _ in range(20)))

    assert load.count == 1
    assert {value for value, _ in answers} == {1}


async def test_a_failed_load_leaves_nothing_behind() -> None:
    cache = AssemblyCache[int]()

    async def fail() -> int:
        await asyncio.sleep(0)
        raise ValueError("no")

    failed = await asyncio.gather(
        *(cache.get_or_load(KEY, fail) for _ in range(3)), return_exceptions=True
    )
    value, was_hit = await cache.get_or_load(KEY, Loads())

    assert all(isinstance(error, ValueError) for error in failed)
    assert (value, was_hit) == (1, False)


async def test_a_cancelled_load_lets_the_next_caller_load() -> None:
    cache = AssemblyCache[int]()
    started = asyncio.Event()

    async def hang() -> int:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    leader = asyncio.create_task(cache.get_or_load(KEY, hang))
    await started.wait()
    follower = asyncio.create_task(cache.get_or_load(KEY, Loads()))
    await asyncio.sleep(0)
    leader.cancel()

    assert await follower == (1, False)


@pytest.mark.parametrize(
    "other",
    [
        CacheKey(session_id="s", last_seq=4, agent_id=None, fingerprint="f"),
        CacheKey(session_id="s", last_seq=3, agent_id="a", fingerprint="f"),
        CacheKey(session_id="s", last_seq=3, agent_id=None, fingerprint="g"),
        CacheKey(session_id="t", last_seq=3, agent_id=None, fingerprint="f"),
    ],
)
async def test_a_new_event_agent_or_fingerprint_misses(other: CacheKey) -> None:
    cache = AssemblyCache[int]()
    await cache.get_or_load(KEY, Loads())

    _, was_hit = await cache.get_or_load(other, Loads())

    assert not was_hit


async def test_entries_expire() -> None:
    seconds = [0.0]
    cache = AssemblyCache[int](ttl_seconds=60, clock=lambda: seconds[0])
    await cache.get_or_load(KEY, Loads())

    seconds[0] = 61.0
    _, was_hit = await cache.get_or_load(KEY, Loads())

    assert not was_hit


async def test_entries_may_expire_between_two_looks() -> None:
    seconds = itertools.count(step=40)
    cache = AssemblyCache[int](ttl_seconds=60, clock=lambda: next(seconds), max_entries=1)

    for session_id in "abcdefgh":
        found = await cache.get_or_load(replace(KEY, session_id=session_id), Loads())
        assert found == (1, False)


async def test_the_cache_is_bounded() -> None:
    cache = AssemblyCache[int](max_entries=2)

    for session_id in "abcde":
        await cache.get_or_load(replace(KEY, session_id=session_id), Loads())

    assert cache.stats().entries == 2


async def test_what_was_made_from_fewer_events_is_let_go_of_among_many_sessions() -> None:
    cache = AssemblyCache[int](max_entries=3)
    for last_seq in range(1, 6):
        for session_id in map(str, range(9)):
            for fingerprint in "fg":
                key = replace(
                    KEY, session_id=session_id, last_seq=last_seq, fingerprint=fingerprint
                )
                await cache.get_or_load(key, Loads())
    shorter, longer = (
        replace(KEY, session_id="8", last_seq=last_seq, fingerprint="f") for last_seq in (5, 6)
    )
    assert (await cache.get_or_load(shorter, Loads()))[1]

    await cache.get_or_load(longer, Loads())

    assert cache.stats().entries == 2  # the new one, and one of another session
    assert not (await cache.get_or_load(shorter, Loads()))[1]


async def test_invalidation_forgets_one_session_or_all() -> None:
    cache = AssemblyCache[int]()
    other = CacheKey(session_id="t", last_seq=1, agent_id=None, fingerprint="f")
    await cache.get_or_load(KEY, Loads())
    await cache.get_or_load(other, Loads())

    assert cache.invalidate("s") == 1
    assert cache.stats().entries == 1
    assert cache.invalidate() == 1


def test_two_event_loops_may_share_a_cache() -> None:
    cache = AssemblyCache[int]()

    first = asyncio.run(cache.get_or_load(KEY, Loads()))
    second = asyncio.run(cache.get_or_load(KEY, Loads()))

    assert (first, second) == ((1, False), (1, True))


async def test_what_was_made_from_fewer_events_is_let_go_of() -> None:
    cache = AssemblyCache[int]()
    load = Loads()
    elsewhere = replace(KEY, session_id="t", last_seq=1)

    for key in (KEY, elsewhere, replace(KEY, agent_id="reviewer"), replace(KEY, last_seq=4)):
        await cache.get_or_load(key, load)

    assert cache.stats().entries == 2
    assert (await cache.get_or_load(elsewhere, load))[1]


@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        ({"max_entries": 2}, {3, 4}),
        ({"max_bytes": 7}, {3, 4}),
        ({"max_bytes": 3}, {3}),
        ({"max_bytes": 0}, set[int]()),
    ],
    ids=str,
)
async def test_what_was_asked_for_longest_ago_makes_room(
    bounds: dict[str, Any], left: set[int]
) -> None:
    cache = AssemblyCache[int](**bounds, size_of=int)

    for value in (1, 2, 3, 4):
        key = replace(KEY, session_id=str(value))
        assert await cache.get_or_load(key, partial(answer, value)) == (value, False)

    hits = [
        await cache.get_or_load(replace(KEY, session_id=str(value)), partial(answer, 0))
        for value in left
    ]
    assert hits == [(value, True) for value in left]
    assert cache.stats().entries == len(left)


async def answer(value: int) -> int:
    return value


class Times:
    """A clock on which time passes while it is read."""

    def __init__(self) -> None:
        self.now = self.step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


async def test_an_entry_that_expires_while_it_is_read_is_made_again() -> None:
    for passing in range(1, 40):
        times = Times()
        cache = AssemblyCache[int](ttl_seconds=10, clock=times)
        load = Loads()
        await cache.get_or_load(KEY, load)
        times.now, times.step = 10 - passing / 4, 0.25  # it expires at one look or another

        value, was_hit = await cache.get_or_load(KEY, load)

        assert value == (1 if was_hit else 2)
