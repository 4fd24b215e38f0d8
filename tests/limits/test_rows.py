from datetime import date
from typing import Any

import pytest

from context_assembler.errors import RegistryError
from context_assembler.limits.rows import read_row
from context_assembler.limits.schema import Row
from context_assembler.values.limits import ModelLimits, Price

LEAST: dict[str, Any] = {"limits": {"window": 1000}}

BROKEN: dict[str, tuple[dict[str, Any], str, str]] = {
    "no window": ({"limits": {}}, "limits.window", "it is missing"),
    "a window of nothing": ({"limits": {"window": 0}}, "limits.window", "at least 1"),
    "a window in words": ({"limits": {"window": "1M"}}, "limits.window", "not '1M'"),
    "a window that is true": ({"limits": {"window": True}}, "limits.window", "not True"),
    "limits as a number": ({"limits": 5}, "limits", "a mapping is needed"),
    "more output than window": ({"limits": {"window": 1, "output": 2}}, "limits.output", "window"),
    "more input than window": ({"limits": {"window": 1, "input": 2}}, "limits.input", "window"),
    "an unknown field": ({**LEAST, "colour": 1}, "colour", "no such field"),
    "a misspelt field": ({**LEAST, "statsu": "x"}, "statsu", "did you mean 'status'"),
    "a misspelt inner field": ({**LEAST, "cache": {"mod": 1}}, "cache.mod", "did you mean 'mode'"),
    "a window below nothing": ({"limits": {"window": -5}}, "limits.window", "at least 1"),
    "a feature misspelt": (
        {**LEAST, "features": {"visoin": True}},
        "features.visoin",
        "did you mean 'vision'",
    ),
    "an unknown host": ({**LEAST, "hosts": {"bedrok": {}}}, "hosts.bedrok", "mean 'bedrock'"),
    "a host of no known kind": ({**LEAST, "hosts": {"?": {}}}, "hosts.?", "known: azure"),
    "a host with aliases": (
        {**LEAST, "hosts": {"bedrock": {"aliases": []}}},
        "hosts.bedrock.aliases",
        "no such field",
    ),
    "a host that is a number": ({**LEAST, "hosts": {"groq": 4}}, "hosts.groq", "a mapping"),
    "an unknown status": ({**LEAST, "status": "new"}, "status", "not one of active"),
    "an unquoted no": ({**LEAST, "thinking": {"disable": False}}, "thinking.disable", "quote it"),
    "a flag in words": ({**LEAST, "features": {"pdf": "yes"}}, "features.pdf", "true or false"),
    "aliases as text": ({**LEAST, "aliases": "a"}, "aliases", "a list of texts"),
    "an alias as number": ({**LEAST, "aliases": [4]}, "aliases", "4 is not text"),
    "a provider as number": ({**LEAST, "provider": 4}, "provider", "text is needed"),
    "a day that is none": ({**LEAST, "retires_on": "soon"}, "retires_on", "a date such as"),
    "a day as number": ({**LEAST, "retires_on": 2026}, "retires_on", "a date such as"),
    "retired without a day": ({**LEAST, "status": "retired"}, "retires_on", "needs its date"),
    "an unknown way to think": ({**LEAST, "thinking": {"kinds": ["x"]}}, "thinking.kinds", "'x'"),
    "a default off the levels": (
        {**LEAST, "thinking": {"levels": ["low"], "default": "high"}},
        "thinking.default",
        "not one of the levels",
    ),
    "a negative price": ({**LEAST, "prices": [{"input": -1}]}, "prices.input", "at least 0"),
    "an endless price": ({**LEAST, "prices": [{"input": 1e999}]}, "prices.input", "finite"),
    "a price in words": ({**LEAST, "prices": [{"input": "1"}]}, "prices.input", "a number"),
    "a price of another kind": ({**LEAST, "prices": [{"in": 1}]}, "prices.in", "no such field"),
    "prices as a mapping": ({**LEAST, "prices": {"input": 1}}, "prices", "a list is needed"),
    "a price that is a number": ({**LEAST, "prices": [1]}, "prices", "a mapping is needed"),
}


def read(content: dict[str, Any]) -> ModelLimits:
    return read_row(Row(id="m", content=content))


@pytest.mark.parametrize(("content", "field", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_row_names_file_row_and_field(
    content: dict[str, Any], field: str, reason: str
) -> None:
    row = Row(id="m", content=content, files={field: "mine.yaml"})

    with pytest.raises(RegistryError, match=reason) as caught:
        read_row(row)

    assert (caught.value.file, caught.value.row, caught.value.field) == ("mine.yaml", "m", field)


def test_an_error_falls_back_to_the_file_of_the_mapping_around_it() -> None:
    row = Row(id="m", content={"limits": {}}, files={"limits": "mine.yaml"})

    assert row.file_of("limits.window") == "mine.yaml"
    assert row.file_of("status") == "model_limits.yaml"


def test_the_least_row_gets_the_defaults() -> None:
    limits = read(LEAST)

    assert limits == ModelLimits(
        id="m",
        provider="unknown",
        window_tokens=1000,
        features={
            "thinking": False,
            "prompt_cache": False,
            "forced_tools": True,
            "chat_tools_with_reasoning": True,
        },
        asked_id="m",
        api_id="m",
    )


def test_a_model_without_tools_takes_no_forced_ones() -> None:
    limits = read({**LEAST, "features": {"tools": False}})

    assert not limits.supports("forced_tools")


def test_thinking_and_caching_are_features_too() -> None:
    limits = read({**LEAST, "thinking": {"kinds": ["effort"]}, "cache": {"mode": "implicit"}})

    assert limits.supports("thinking")
    assert limits.supports("prompt_cache")


BOUND_TO_ACCOUNTS: dict[str, tuple[dict[str, Any], bool]] = {
    "Anthropic's": ({"provider": "anthropic"}, False),
    "Anthropic's that says so": (
        {"provider": "anthropic", "thinking": {"account_bound": True}},
        True,
    ),
    "anybody's": ({"provider": "google"}, True),
    "anybody's that says otherwise": (
        {"provider": "google", "thinking": {"account_bound": False}},
        False,
    ),
    "nobody's": ({}, True),
}


@pytest.mark.parametrize(
    ("given", "is_bound"), BOUND_TO_ACCOUNTS.values(), ids=BOUND_TO_ACCOUNTS.keys()
)
def test_reasoning_is_bound_to_the_account_unless_the_vendor_or_the_row_says_otherwise(
    given: dict[str, Any], *, is_bound: bool
) -> None:
    assert read_row(Row(id="x", content={**LEAST, **given})).thinking.is_account_bound is is_bound


def test_a_date_may_be_quoted() -> None:
    limits = read({**LEAST, "prices": [{"input": 1, "from": "2026-12-01", "above": 10}]})

    assert limits.prices == (Price(input=1.0, from_date=date(2026, 12, 1), above_input_tokens=10),)


def test_a_separate_output_limit_may_be_larger_than_the_window() -> None:
    limits = read({"limits": {"window": 10, "kind": "separate", "output": 20}})

    assert limits.output_tokens == 20


def test_a_feature_of_your_own_is_kept() -> None:
    assert read({**LEAST, "features": {"speaks_latin": True}}).supports("speaks_latin")


def test_a_host_sees_its_own_figures_and_the_rest_is_the_vendors() -> None:
    content: dict[str, Any] = {
        "limits": {"window": 1000, "input": 900, "output": 100},
        "hosts": {"groq": {"limits": {"window": 500, "input": None}}, "vllm": None},
    }
    row = Row(id="m", content=content, files={"hosts.groq.limits.window": "mine.yaml"})

    hosted = row.seen_by("groq")
    limits = read_row(hosted)

    assert (limits.window_tokens, limits.input_tokens, limits.output_tokens) == (500, None, 100)
    assert hosted.file_of("limits.window") == "mine.yaml"
    assert (row.seen_by("vllm"), row.seen_by(None), row.hosts()) == (row, row, ("groq",))


DATES: dict[str, tuple[dict[str, Any], str, date | None]] = {
    "a later date": ({"retires_on": date(2027, 1, 1)}, "active", date(2027, 1, 1)),
    "a status": ({"status": "legacy"}, "legacy", None),
    "a status and a date": (
        {"status": "deprecated", "retires_on": date(2027, 1, 1)},
        "deprecated",
        date(2027, 1, 1),
    ),
    "other figures only": ({"limits": {"window": 5}}, "retired", date(2026, 1, 1)),
}


@pytest.mark.parametrize(("over", "status", "day"), DATES.values(), ids=DATES.keys())
def test_a_host_with_its_own_lifecycle_does_not_have_the_vendors(
    over: dict[str, Any], status: str, day: date | None
) -> None:
    retired: dict[str, Any] = {**LEAST, "status": "retired", "retires_on": date(2026, 1, 1)}
    row = Row(id="m", content={**retired, "hosts": {"bedrock": over}})

    limits = read_row(row.seen_by("bedrock"))

    assert (limits.status, limits.retires_on) == (status, day)
    assert row.has_own_dates("bedrock") is ("limits" not in over)


def test_an_active_model_may_end_earlier_on_a_host() -> None:
    over = {"retires_on": date(2026, 5, 1)}
    row = Row(id="m", content={**LEAST, "status": "legacy", "hosts": {"azure": over}})

    limits = read_row(row.seen_by("azure"))

    assert (limits.status, limits.retires_on) == ("legacy", date(2026, 5, 1))


def test_a_row_is_told_field_by_field() -> None:
    content: dict[str, Any] = {"limits": {"window": 5, "input": None}, "prices": [1], "meta": {}}
    row = Row(
        id="m", content=content, files={"limits": "a.yaml", "prices": "b.yaml"}, file="c.yaml"
    )

    assert list(row.leaves()) == [
        ("limits.window", 5, "a.yaml"),
        ("limits.input", None, "a.yaml"),
        ("prices", [1], "b.yaml"),
        ("meta", {}, "c.yaml"),
    ]
