"""What the prompt cache has of a call, what it costs, and where a prefix breaks."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.context import Request
from context_assembler.events import CallRow
from context_assembler.forecast import (
    STALE,
    CallSize,
    KnownPrefix,
    Outlook,
    PromptCache,
    forecast_call,
    prefixes_of,
    price_input,
)
from context_assembler.models import CacheRule, ModelLimits, Price, ThinkingRule
from context_assembler.options import Parameters
from context_assembler.ports import PromptSection, Turn
from context_assembler.report import CacheForecast, CacheSplit, ReportEntry, Rule

NOW: Final = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
TODAY: Final = NOW.date()
PRICE: Final = Price(input=4, output=20, cache_read=0.2, cache_write=5, cache_write_1h=8)
CLAUDE: Final = ModelLimits(
    id="claude",
    provider="anthropic",
    window_tokens=1_000_000,
    cache=CacheRule(mode="explicit", min_tokens=512, ttls=("5m", "1h")),
    prices=(PRICE,),
)
GPT: Final = ModelLimits(
    id="gpt",
    provider="openai",
    window_tokens=1_000_000,
    cache=CacheRule(mode="implicit", min_tokens=1024, ttls=("in_memory", "24h")),
)
GEMINI: Final = GPT._replace(
    id="gemini", provider="google", cache=CacheRule(mode="implicit", min_tokens=4096)
)
MARKED: Final = PromptCache(CLAUDE, "anthropic")
IMPLICIT: Final = PromptCache(GPT, "openai_chat")
CHARGED: Final = IMPLICIT._replace(limits=GPT._replace(prices=(PRICE,)))
SIZE: Final = CallSize(total_tokens=10_000, head_tokens=2_000, blocks=30, blocks_before_step=28)
End = Literal["head", "call", "inside"]


def known(
    tokens: int, *, end: End = "call", blocks: int = 28, minutes: float | None = 1
) -> KnownPrefix:
    used_at = None if minutes is None else NOW - timedelta(minutes=minutes)
    return KnownPrefix(end, tokens, blocks, used_at)


# ---- what is read, written, or neither ----

FRESH = (0, 10_000, 2_000, 0)
# Read, written, of these for the longer lifetime, and neither.
SPLITS: dict[str, tuple[PromptCache, list[KnownPrefix], tuple[int, ...]]] = {
    "what an earlier call ended with is read": (MARKED, [known(9_000)], (9_000, 1_000, 0, 0)),
    "a first call is written, its head for the longer lifetime": (MARKED, [], FRESH),
    "what was not marked is not found": (MARKED, [known(9_000, end="inside")], FRESH),
    "nor what lies more than twenty blocks back": (MARKED, [known(3_000, blocks=10)], FRESH),
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
    "but not for ever": (MARKED, [known(2_000, end="head", blocks=0, minutes=90)], FRESH),
    "too short a prefix was never written": (MARKED, [known(400)], FRESH),
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
        PromptCache(GEMINI, "gemini"),
        [known(9_001, minutes=9_999)],
        (9_001, 0, 0, 999),
    ),
    "a lifetime that nobody understands is not known": (
        IMPLICIT._replace(limits=GPT._replace(cache=CacheRule("implicit", 0, ("until noon",)))),
        [known(9_088, minutes=9_999)],
        (9_088, 0, 0, 912),
    ),
    "a model without a longer lifetime keeps its head as the rest": (
        MARKED._replace(limits=CLAUDE._replace(cache=CacheRule("explicit", 0, ("5m",)))),
        [known(2_000, end="head", blocks=0, minutes=6)],
        (0, 10_000, 0, 0),
    ),
}


@pytest.mark.parametrize(("cache", "prefixes", "expected"), SPLITS.values(), ids=SPLITS)
def test_a_call_is_split_by_the_rules_of_its_provider(
    cache: PromptCache, prefixes: list[KnownPrefix], expected: tuple[int, ...]
) -> None:
    assert cache.forecast(SIZE, prefixes, now=NOW, today=TODAY).split[:4] == expected


@pytest.mark.parametrize("step_blocks", [1, 19, 20, 21, 60])
def test_however_long_a_step_is_the_end_of_the_last_call_is_found(step_blocks: int) -> None:
    size = SIZE._replace(blocks=10 + step_blocks, blocks_before_step=10)

    assert MARKED.forecast(size, [known(9_000, blocks=10)], now=NOW, today=TODAY).split[0] == 9_000


SMALL = CallSize(total_tokens=1_000)
WHY_NOT = {
    "no cache is known": (IMPLICIT._replace(limits=GPT._replace(cache=CacheRule())), "known"),
    "a protocol without marks": (MARKED._replace(protocol="openai_chat"), "marks nothing"),
    "switched off": (MARKED._replace(policy="off"), "cache='off'"),
    "too short": (
        MARKED._replace(limits=CLAUDE._replace(cache=CacheRule("explicit", 20_000))),
        "20,000",
    ),
    "too short for the usual minimum": (
        IMPLICIT._replace(limits=GPT._replace(cache=CacheRule("implicit"))),
        "1,024",
    ),
}


@pytest.mark.parametrize(("cache", "why"), WHY_NOT.values(), ids=WHY_NOT)
def test_if_nothing_is_cached_the_split_says_why(cache: PromptCache, why: str) -> None:
    split = cache.forecast(SMALL, [known(900)], now=NOW, today=TODAY).split

    assert split.uncached_tokens == SMALL.total_tokens
    assert why in split.remarks[0]


def test_what_expired_is_reported_with_its_times() -> None:
    split = MARKED.forecast(SIZE, [known(9_000, minutes=150)], now=NOW, today=TODAY).split

    assert [*split.remarks] == ["9,000 tokens were last used 2 h ago, and are kept for 5 min."]
    assert (
        MARKED.forecast(SIZE, [known(9_000, minutes=999)], now=None, today=TODAY).split[0] == 9000
    )


tokens = st.integers(0, 400_000)


@given(
    cache=st.sampled_from([MARKED, IMPLICIT, CHARGED]),
    head=tokens,
    rest=tokens,
    share=st.floats(0, 1),
    end=st.sampled_from(get_args(End)),
)
def test_the_parts_add_up_and_no_more_is_read_than_is_shared(
    cache: PromptCache, head: int, rest: int, share: float, end: End
) -> None:
    shared = head if end == "head" else int(share * (head + rest))

    size, prefix = CallSize(head + rest, head, 3, 2), known(shared, end=end, blocks=2)
    split = cache.forecast(size, [prefix], now=None, today=TODAY).split

    assert split.total_tokens == head + rest
    assert split.read_tokens <= shared
    assert split.long_written_tokens <= split.written_tokens


# ---- prices ----


def test_each_kind_of_token_has_its_price() -> None:
    split = CacheSplit(1_000_000, 3_000_000, 1_000_000, 1_000_000)

    price = price_input(split, PRICE, model="claude")

    assert price.usd == pytest.approx(0.2 + 2 * 5 + 8 + 4)
    assert price.uncached_usd == pytest.approx(5 * 4)


UNKNOWN = {
    "no price of input": (Price(), CacheSplit(uncached_tokens=1), "input of claude"),
    "no price of reads": (Price(input=1, cache_write=1), CacheSplit(1, 1), "cache reads of claude"),
    "no price of writes": (Price(input=1), CacheSplit(0, 1), "cache writes of claude"),
    "no price of the longer lifetime": (
        Price(input=1, cache_write=1),
        CacheSplit(0, 1, 1),
        "long lifetime of claude",
    ),
    "it is not needed": (Price(input=3), CacheSplit(uncached_tokens=1_000_000), ""),
}


@pytest.mark.parametrize(("price", "split", "why"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_is_none_never_zero(price: Price, split: CacheSplit, why: str) -> None:
    told = price_input(split, price, model="claude")

    assert (told.usd is None) == bool(why)
    assert why in told.why_unknown


# ---- one call ----

TURNS: Final[list[Turn]] = [
    {"role": "user", "id": "e1", "seq": 1, "parts": [{"type": "text", "text": "Go."}]},
    {"role": "assistant", "id": "e2", "seq": 2, "parts": [{"type": "text", "text": "Done."}]},
    {"role": "user", "id": "e3", "seq": 3, "parts": [{"type": "text", "text": "And?"}]},
]
LAST: Final = CallRow(
    provider="anthropic",
    model="claude",
    account="ours",
    system_hash="s1",
    tools_hash="t1",
    prefix="p1",
    created_at=NOW - timedelta(minutes=1),
)
TEXTS: Final = {
    "s1": "Be kind.\n\nBe short.",
    "s2": "Be kind.\n\nBe brief.",
    "t1": json.dumps([{"name": "look"}]),
    "t2": json.dumps([{"name": "look"}, {"name": "write"}]),
}
SECTIONS: Final = [
    PromptSection(name=name, content=content)
    for name, content in (("soul", "Be kind."), ("agent", "Be brief."))
]


def forecast(
    *,
    calls: Sequence[CallRow] = (LAST,),
    row: CallRow = LAST,
    turns: Sequence[Turn] = TURNS,
    prefixes: Sequence[str] = ("p0", "p1", "p2", "p3"),
    entries: Sequence[ReportEntry] = (),
    limits: ModelLimits = CLAUDE,
) -> CacheForecast:
    request = Request(limits=limits, parameters=Parameters(max_tokens=100), sections=SECTIONS)
    outlook = Outlook(
        row=replace(row, prefix=""),
        request=request,
        turns=turns,
        tokens=[1000] * len(turns),
        total_tokens=2000 + 1000 * len(turns),
        calls=calls,
        prefixes=lambda: prefixes,
        entries=lambda: entries,
        text_of=TEXTS.get,
        reply_id="e2",
    )
    return forecast_call(outlook, today=TODAY, now=NOW)


def test_a_first_call_has_nothing_to_read() -> None:
    first = forecast(calls=())

    assert (first.split[:4], first.broken, first.after) == ((0, 5000, 2000, 0), None, "")
    assert first.read_share == 0
    assert first.price.usd is not None


def test_a_call_that_adds_reads_what_the_one_before_sent() -> None:
    next_call = forecast()

    assert next_call.split[:4] == (3000, 2000, 0, 0)
    assert (next_call.broken, next_call.after, next_call.read_share) == (None, "e2", 0.6)
    assert (next_call.price.usd or 0) < (next_call.price.uncached_usd or 0)


def dropped(name: str, rule: Rule = "smart.drop") -> ReportEntry:
    return ReportEntry("message", name, "dropped", 9, reason="It does not fit.", rule=rule)


MARKER: Turn = {"role": "user", "kind": "marker", "parts": []}
SUMMARY: Turn = {"role": "user", "kind": "summary", "id": "e9", "parts": []}
STUB = ReportEntry("message", "e3", "shortened", 9, 5, "A bulky result.", "smart.shorten")
LOST = ReportEntry(
    "message", "e3", "repaired", reason="A result is missing.", rule="repair.missing_result"
)
CAP = ReportEntry("message", "e3", "shortened", reason="Too long.", rule="entry.cap")
ANEW: Final = {"prefixes": ["x"] * 4}
CUT: Final = {"row": replace(LAST, cut=7)}
UNSHARED: Final = "It did not stand at this place in the last call."
WENT: Final = "The last call went to claude over anthropic"
# What is different from the last call; of what broke the prefix kind, id and reason.
BREAKS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "another model": ({"row": replace(LAST, model="other")}, "model", "other", WENT),
    "another account": (
        *({"row": replace(LAST, account="theirs")}, "model", "claude"),
        f"{WENT} under the account 'ours'",
    ),
    "an edited section": (
        *(ANEW | {"row": replace(LAST, system_hash="s2")}, "section", "agent"),
        "The section is not what it was",
    ),
    "a tool that came": (
        *(ANEW | {"row": replace(LAST, tools_hash="t2")}, "tool", "write"),
        "The tool is not what it was",
    ),
    "a cut with a marker": (
        ANEW | CUT | {"turns": [TURNS[0], MARKER, TURNS[2]], "entries": [dropped("e2")]},
        *("message", "marker", "It does not fit."),
    ),
    "a cut without one": (
        {"turns": TURNS[2:], "prefixes": ["x"] * 2, "entries": [dropped("e1", "simple.drop")]}
        | CUT,
        *("message", "e3", "It does not fit."),
    ),
    "a stub": (ANEW | CUT | {"entries": [CAP, STUB]}, "message", "e3", "A bulky result."),
    "a repair, under the same cut": (
        ANEW | {"entries": [CAP, STUB, LOST]},
        *("message", "e3", "A result is missing."),
    ),
    "a compaction": (
        {"turns": [SUMMARY, TURNS[2]], "prefixes": ["x"] * 3},
        *("message", "e9", "A compaction stands for what was sent before."),
    ),
    "something else": (ANEW | {"entries": [CAP]}, "message", "e1", UNSHARED),
    "nothing is left": ({"turns": [], "prefixes": ["x"]}, "message", "the end", UNSHARED),
}


@pytest.mark.parametrize(("changes", "piece", "id", "reason"), BREAKS.values(), ids=BREAKS)
def test_a_prefix_that_breaks_is_named_with_the_reason(
    changes: dict[str, Any], piece: str, id: str, reason: str
) -> None:
    broken = forecast(**changes).broken

    assert broken is not None
    assert (broken.piece, broken.id) == (piece, id)
    assert broken.reason.startswith(reason)


def test_what_this_model_was_sent_earlier_is_there_after_another_one_was_asked() -> None:
    other = replace(LAST, model="other", prefix="x")

    back = forecast(calls=[LAST, other])

    assert back.broken is not None
    assert back.split.read_tokens == 3000


def test_reasoning_that_is_left_out_ends_what_is_shared() -> None:
    bound = CLAUDE._replace(thinking=ThinkingRule(is_prefix_bound=True))
    gone = ReportEntry("message", "e2", "cleared", reason="It changed.", rule="reasoning.prefix")
    later = replace(LAST, details={STALE: 2})
    last = replace(LAST, prefix="p3")

    cut = forecast(calls=[last], row=later, entries=[gone], limits=bound)

    assert cut.broken is not None
    assert cut.broken[:3] == ("message", "e2", "It changed.")
    assert cut.split.read_tokens == 2000, "the head alone"
    assert forecast(calls=[replace(last, details={STALE: 2})], row=later).broken is None


def test_prefix_hashes_are_those_of_the_provider() -> None:
    request = Request(limits=CLAUDE, parameters=Parameters(max_tokens=100), system="Be kind.")

    prefixes = prefixes_of(request, "anthropic", TURNS)

    assert len(set(prefixes)) == 4
    assert prefixes_of(request, "anthropic", TURNS[:2]) == prefixes[:3]
