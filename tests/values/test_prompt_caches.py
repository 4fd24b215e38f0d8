"""What a provider's cache has of a call, by the provider's rules."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.testing import conversation
from context_assembler.values.limits import CacheRule, ModelLimits, Price
from context_assembler.values.prices import price_input
from context_assembler.values.prompt_caches import (
    CacheSplit,
    CallSize,
    KnownPrefix,
    PrefixEnd,
    PromptCache,
    lifetime_of,
    spelled_alike,
)

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
CLAUDE = ModelLimits(
    id="claude",
    provider="anthropic",
    window_tokens=1_000_000,
    cache=CacheRule(mode="explicit", min_tokens=512, ttls=("5m", "1h")),
)
GPT = ModelLimits(
    id="gpt",
    provider="openai",
    window_tokens=1_000_000,
    cache=CacheRule(mode="implicit", min_tokens=1024, ttls=("in_memory", "24h")),
)
GEMINI = ModelLimits(
    id="gemini",
    provider="google",
    window_tokens=1_000_000,
    cache=CacheRule(mode="implicit", min_tokens=4096),
)
MARKED = PromptCache(limits=CLAUDE, protocol="anthropic")
IMPLICIT = PromptCache(limits=GPT, protocol="openai_chat")
CHARGED = replace(IMPLICIT, charges_writes=True)
CACHES = {"marked": MARKED, "implicit": IMPLICIT, "charged": CHARGED}
SIZE = CallSize(total_tokens=10_000, head_tokens=2_000, blocks=30, blocks_before_step=28)


def known(
    tokens: int, *, end: PrefixEnd = "call", blocks: int = 28, minutes: float | None = 1
) -> KnownPrefix:
    used_at = None if minutes is None else NOW - timedelta(minutes=minutes)
    return KnownPrefix(end=end, tokens=tokens, blocks=blocks, used_at=used_at)


# Read, written, of these for the longer lifetime, and neither.
SPLITS: dict[str, tuple[PromptCache, list[KnownPrefix], tuple[int, ...]]] = {
    "what an earlier call ended with is read": (MARKED, [known(9_000)], (9_000, 1_000, 0, 0)),
    "a first call is written, its head for the longer lifetime": (
        MARKED,
        [],
        (0, 10_000, 2_000, 0),
    ),
    "what was not marked is not found": (
        MARKED,
        [known(9_000, end="inside")],
        (0, 10_000, 2_000, 0),
    ),
    "nor what lies more than twenty blocks back": (
        MARKED,
        [known(3_000, blocks=10)],
        (0, 10_000, 2_000, 0),
    ),
    "the head has a mark of its own": (
        MARKED,
        [known(3_000, blocks=10), known(2_000, end="head", blocks=0)],
        (2_000, 8_000, 0, 0),
    ),
    "the head is kept longer": (
        MARKED,
        [known(9_000, minutes=30), known(2_000, end="head", blocks=0, minutes=30)],
        (2_000, 8_000, 0, 0),
    ),
    "but not for ever": (
        MARKED,
        [known(2_000, end="head", blocks=0, minutes=90)],
        (0, 10_000, 2_000, 0),
    ),
    "too short a prefix was never written": (MARKED, [known(400)], (0, 10_000, 2_000, 0)),
    "increments of 128 from 1,024 on": (IMPLICIT, [known(9_000)], (8_960, 0, 0, 1_040)),
    "wherever the common prefix ends": (
        IMPLICIT,
        [known(3_000, end="inside", blocks=0)],
        (2_944, 0, 0, 7_056),
    ),
    "below the minimum nothing": (IMPLICIT, [known(1_023)], (0, 0, 0, 10_000)),
    "in memory for five minutes": (IMPLICIT, [known(9_000, minutes=6)], (0, 0, 0, 10_000)),
    "newer models charge for writing": (CHARGED, [known(9_000)], (8_960, 1_040, 0, 0)),
    "a time that nobody knows has not passed": (
        IMPLICIT,
        [known(9_000, minutes=None)],
        (8_960, 0, 0, 1_040),
    ),
    "to the token, for as long as nobody knows": (
        PromptCache(limits=GEMINI, protocol="gemini"),
        [known(9_001, minutes=9_999)],
        (9_001, 0, 0, 999),
    ),
}


@pytest.mark.parametrize(("cache", "prefixes", "expected"), SPLITS.values(), ids=SPLITS)
def test_a_call_is_split_by_the_rules_of_its_provider(
    cache: PromptCache, prefixes: list[KnownPrefix], expected: tuple[int, ...]
) -> None:
    split = cache.split(SIZE, prefixes, now=NOW)

    assert (
        split.read_tokens,
        split.written_tokens,
        split.long_written_tokens,
        split.uncached_tokens,
    ) == expected


@pytest.mark.parametrize("step_blocks", [1, 19, 20, 21, 60])
def test_however_long_a_step_is_the_end_of_the_last_call_is_found(step_blocks: int) -> None:
    size = replace(SIZE, blocks=10 + step_blocks, blocks_before_step=10)

    split = MARKED.split(size, [known(9_000, blocks=10)], now=NOW)

    assert split.read_tokens == 9_000


WHY_NOT = {
    "no cache is known": (
        PromptCache(limits=replace(GPT, cache=CacheRule()), protocol="x"),
        "known",
    ),
    "a protocol without marks": (replace(MARKED, protocol="openai_chat"), "marks nothing"),
    "switched off": (replace(MARKED, policy="off"), "cache='off'"),
    "too short": (
        replace(
            MARKED, limits=replace(CLAUDE, cache=CacheRule(mode="explicit", min_tokens=20_000))
        ),
        "20,000",
    ),
    "too short for the usual minimum": (
        PromptCache(limits=replace(GPT, cache=CacheRule(mode="implicit")), protocol="x"),
        "1,024",
    ),
}


@pytest.mark.parametrize(("cache", "why"), WHY_NOT.values(), ids=WHY_NOT)
def test_where_nothing_is_cached_the_split_says_why(cache: PromptCache, why: str) -> None:
    small = (
        replace(SIZE, total_tokens=1_000, head_tokens=0)
        if "usual" in why or "1,024" in why
        else SIZE
    )

    split = cache.split(small, [known(900)], now=NOW)

    assert split.uncached_tokens == small.total_tokens
    assert why in split.remarks[0]


def test_what_expired_is_told_with_its_times() -> None:
    [remark] = MARKED.split(SIZE, [known(9_000, minutes=150)], now=NOW).remarks

    assert remark == "9,000 tokens were last used 2 h ago, and are kept for 5 min."


def test_without_a_clock_nothing_expires() -> None:
    split = MARKED.split(SIZE, [known(9_000, minutes=999)])

    assert split.read_tokens == 9_000


def test_a_model_without_a_longer_lifetime_keeps_its_head_as_the_rest() -> None:
    rule = CacheRule(mode="explicit", ttls=("5m",))
    short = replace(MARKED, limits=replace(CLAUDE, cache=rule))

    split = short.split(SIZE, [known(2_000, end="head", blocks=0, minutes=6)], now=NOW)

    assert (split.read_tokens, split.long_written_tokens) == (0, 0)


LIFETIMES = {"5m": 300, "1h": 3600, "24h": 86_400, "in_memory": 300, "90s": 90, "2d": 172_800}


@pytest.mark.parametrize(("ttl", "seconds"), LIFETIMES.items())
def test_lifetimes_are_read(ttl: str, seconds: int) -> None:
    assert lifetime_of(ttl) == timedelta(seconds=seconds)


def test_a_lifetime_that_nobody_understands_is_not_known() -> None:
    assert lifetime_of("until noon") is None


ALIKE = {
    "a note in front of a message of the user": ("anthropic", ["U a", "S b", "U c"], 2, 1),
    "a note in front of a reply": ("anthropic", ["U a", "S b", "A c"], 2, 2),
    "a note at the end": ("anthropic", ["U a", "S b"], 2, 2),
    "several notes": ("anthropic", ["U a", "S b", "S c", "U d"], 3, 1),
    "notes from the beginning on": ("anthropic", ["S b", "S c", "U d"], 2, 0),
    "another provider": ("openai_chat", ["U a", "S b", "U c"], 2, 2),
}


@pytest.mark.parametrize(("protocol", "lines", "length", "expected"), ALIKE.values(), ids=ALIKE)
def test_a_note_is_spelled_otherwise_where_the_user_goes_on(
    protocol: str, lines: list[str], length: int, expected: int
) -> None:
    assert spelled_alike(conversation(*lines), length, protocol=protocol) == expected


tokens = st.integers(0, 400_000)


@given(
    cache=st.sampled_from(list(CACHES.values())),
    head=tokens,
    rest=tokens,
    share=st.floats(0, 1),
    end=st.sampled_from(["head", "call", "inside"]),
)
def test_the_parts_add_up_and_no_more_is_read_than_is_shared(
    cache: PromptCache, head: int, rest: int, share: float, end: PrefixEnd
) -> None:
    size = CallSize(total_tokens=head + rest, head_tokens=head, blocks=3, blocks_before_step=2)
    shared = head if end == "head" else int(share * (head + rest))

    split = cache.split(size, [known(shared, end=end, blocks=2)], now=NOW)

    assert split.total_tokens == head + rest
    assert split.read_tokens <= shared
    assert split.long_written_tokens <= split.written_tokens


@given(
    cache=st.sampled_from(list(CACHES.values())),
    head=tokens,
    before=tokens,
    step=tokens,
    step_blocks=st.integers(1, 90),
)
def test_a_call_that_only_adds_reads_all_that_was_kept_of_the_one_before(
    cache: PromptCache, head: int, before: int, step: int, step_blocks: int
) -> None:
    size = CallSize(
        total_tokens=head + before + step,
        head_tokens=head,
        blocks=7 + step_blocks,
        blocks_before_step=7,
    )

    split = cache.split(size, [known(head + before, blocks=7)], now=NOW)

    kept = head + before if head + before >= cache.min_tokens else 0
    assert kept - 128 < split.read_tokens <= head + before


# ---- prices ----

PRICE = Price(input=4, output=20, cache_read=0.2, cache_write=5, cache_write_1h=8)


def test_each_kind_of_token_has_its_price() -> None:
    split = CacheSplit(
        read_tokens=1_000_000,
        written_tokens=3_000_000,
        long_written_tokens=1_000_000,
        uncached_tokens=1_000_000,
    )

    price = price_input(split, PRICE, model="claude")

    assert price.usd == pytest.approx(0.2 + 2 * 5 + 8 + 4)
    assert price.uncached_usd == pytest.approx(5 * 4)


UNKNOWN = {
    "no row": (None, CacheSplit(uncached_tokens=1), "input of claude"),
    "no price of input": (Price(), CacheSplit(uncached_tokens=1), "input of claude"),
    "no price of reads": (
        Price(input=1, cache_write=1),
        CacheSplit(read_tokens=1, written_tokens=1),
        "cache reads of claude",
    ),
    "no price of writes": (Price(input=1), CacheSplit(written_tokens=1), "cache writes of claude"),
    "no price of the longer lifetime": (
        Price(input=1, cache_write=1),
        CacheSplit(written_tokens=1, long_written_tokens=1),
        "long lifetime of claude",
    ),
}


@pytest.mark.parametrize(("price", "split", "why"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_is_none_never_zero(
    price: Price | None, split: CacheSplit, why: str
) -> None:
    told = price_input(split, price, model="claude")

    assert told.usd is None
    assert why in told.why_unknown


def test_what_a_missing_price_is_not_needed_for_is_priced() -> None:
    told = price_input(CacheSplit(uncached_tokens=1_000_000), Price(input=3), model="m")

    assert (told.usd, told.why_unknown) == (3, "")


@given(read=tokens, written=tokens, uncached=tokens, more=tokens)
def test_more_tokens_never_cost_less(read: int, written: int, uncached: int, more: int) -> None:
    split = CacheSplit(read_tokens=read, written_tokens=written, uncached_tokens=uncached)

    prices = [
        price_input(one, PRICE, model="m").usd
        for one in (
            split,
            replace(split, read_tokens=read + more),
            replace(split, uncached_tokens=uncached + more),
            replace(split, written_tokens=written + more),
        )
    ]

    assert prices == sorted(prices, key=lambda usd: usd or 0)
