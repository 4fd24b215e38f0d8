"""Our counts beside those that providers reported for recorded requests."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from benchmarks.usage import Row, charged_tokens, groups_of, main, read_rows, summarize

pytestmark = pytest.mark.recorded

# By provider: the largest median and 95th percentile of all countable requests to the vendor itself;
# the same of those of 500 tokens or more to models in service; the least number of both.
BOUNDS = {
    "anthropic": (0.03, 0.15, 0.03, 0.12, 300, 150),
    "openai_chat": (0.01, 0.05, 0.01, 0.05, 250, 45),
    "openai_responses": (0.01, 0.05, 0.01, 0.05, 145, 2),
    "gemini": (0.03, 0.15, 0.05, 0.15, 150, 10),
}


@cache
def rows_in(folder: Path) -> list[Row]:
    return read_rows(folder)[0]


def countable(corpus: Path, provider: str) -> list[Row]:
    rows = rows_in(corpus / "requests")
    own = [row for row in rows if row.provider == provider and row.is_first_party]
    return [row for row in own if row.uncountable is row.estimated is None]


@pytest.mark.parametrize("provider", BOUNDS)
def test_counts_are_near_what_the_provider_charged(
    corpus: Path, provider: str, record_property: Callable[[str, object], None]
) -> None:
    most_median, most_p95, large_median, large_p95, least_rows, least_large = BOUNDS[provider]
    rows = countable(corpus, provider)
    large = [row for row in rows if row.charged_tokens >= 500 and not row.is_retired]

    every, big = (summarize([row.error for row in of]) for of in (rows, large))

    assert every is not None
    assert big is not None
    for key, value in {"median": every.median, "p95": every.p95, "large p95": big.p95}.items():
        record_property(key, value)
    assert (every.rows >= least_rows, big.rows >= least_large) == (True, True)
    assert (every.median <= most_median, every.p95 <= most_p95) == (True, True)
    assert (big.median <= large_median, big.p95 <= large_p95) == (True, True)


def test_no_long_text_is_counted_much_too_low(corpus: Path) -> None:
    texts = [
        row
        for provider in BOUNDS
        for row in countable(corpus, provider)
        if row.kinds == ("text",) and row.charged_tokens >= 500 and not row.is_retired
    ]

    assert [row.id for row in texts if row.error < -0.10] == []


def test_a_chat_request_without_tools_is_counted_exactly(corpus: Path) -> None:
    plain = [row for row in countable(corpus, "openai_chat") if row.kinds == ("text",)]

    exact = sum(row.read_tokens == row.charged_tokens for row in plain)

    assert exact / len(plain) > 0.75


def test_every_row_that_cannot_be_counted_says_why(corpus: Path) -> None:
    groups = groups_of(rows_in(corpus / "requests"))

    hidden = [name for name in groups if "not countable offline: " in name]
    assert len(hidden) > 20
    assert sum(groups[name].rows for name in hidden) < 0.35 * len(rows_in(corpus / "requests"))


def test_the_comparison_prints_for_people_and_for_programs(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(corpus / "requests"), "--worst", "1"]) == 0
    assert main([str(corpus / "requests"), "--json"]) == 0

    printed = capsys.readouterr().out
    assert "half B, calibrated on A" in printed
    assert '"calibrations"' in printed


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, 0),
        ({}, 0),
        ({"input_tokens": None, "cache_read_input_tokens": 7}, 7),
        ({"input_tokens": "12", "cache_creation_input_tokens": True}, 0),
        ({"input_tokens": 3, "cache_creation_input_tokens": 4, "other": 9}, 7),
    ],
)
def test_usage_with_missing_or_null_fields_counts_what_it_states(
    usage: object, tokens: int
) -> None:
    assert charged_tokens(usage, provider="anthropic") == tokens
