from datetime import date
from typing import Any

import pytest

from context_assembler.errors import RegistryError
from context_assembler.limits.rows import Row, read_row
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


def test_a_date_may_be_quoted() -> None:
    limits = read({**LEAST, "prices": [{"input": 1, "from": "2026-12-01", "above": 10}]})

    assert limits.prices == (Price(input=1.0, from_date=date(2026, 12, 1), above_input_tokens=10),)


def test_a_separate_output_limit_may_be_larger_than_the_window() -> None:
    limits = read({"limits": {"window": 10, "kind": "separate", "output": 20}})

    assert limits.output_tokens == 20
