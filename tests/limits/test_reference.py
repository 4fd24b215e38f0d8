"""The bundled rows against the table they were researched in, field by field."""

import csv
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import UnknownModelError
from context_assembler.limits import ModelRegistry
from context_assembler.values.limits import ModelLimits

CORPUS = Path(os.environ.get("CONTEXT_ASSEMBLER_CORPUS", Path(__file__).parents[3] / "shared/data"))
REFERENCE = CORPUS.parent / "reference"
REGISTRY = ModelRegistry(overrides=[])
ROWS = {row.id: row for row in REGISTRY.rows()}

pytestmark = pytest.mark.recorded
needs_reference = pytest.mark.skipif(
    not (REFERENCE / "models.csv").exists(),
    reason=f"the researched tables are not at {REFERENCE} (CONTEXT_ASSEMBLER_CORPUS)",
)


def table(name: str) -> list[dict[str, str]]:
    path = REFERENCE / name
    return list(csv.DictReader(path.read_text("utf-8").splitlines())) if path.exists() else []


def number(text: str) -> float | None:
    return float(text) if text else None


def claim(text: str) -> bool | None:
    """A question mark is a guess of the table; the row says the same with its `weak`."""
    return {"yes": True, "no": False, "": None}[text.rstrip("?")]


def thinking_kinds(text: str) -> set[str]:
    return set() if text == "none" else set(re.split(r"[+|]", text))


DISABLE = {
    "": "yes",
    "?": "yes",
    "no?": "no",
    "yes?": "yes",
    "yes(effort<=high)": "effort_up_to_high",
}
TEMPERATURE = {
    "yes": "always",
    "yes?": "always",
    "no": "never",
    "legacy-api": "legacy_api",
    "effort=none": "effort_none",
    "effort=none(default)": "effort_none",
    "fixed:1": "fixed",
    "fixed?": "fixed",
}
# What `weak` calls the columns of the table.
WEAK = {
    "context_window": "limits.window",
    "max_input": "limits.input",
    "max_output": "limits.output",
    "price_in": "prices.input",
    "price_out": "prices.output",
    "price_cache_read": "prices.cache_read",
    "price_cache_write": "prices.cache_write",
}
TTLS = {"30m min (12h+ priced x2 on 6.x)": "30m", "implicit only": ""}

# Column → what the row says, and how to read the table.
SAME: Mapping[str, tuple[Callable[[ModelLimits], Any], Callable[[str], Any]]] = {
    "provider": (lambda row: row.provider, str),
    "context_window": (lambda row: row.window_tokens, number),
    "max_input": (lambda row: row.input_tokens, number),
    "max_output": (lambda row: row.output_tokens, number),
    "window_kind": (lambda row: row.window_kind, str),
    "status": (lambda row: row.status, str),
    "deprecated_on": (lambda row: row.retires_on.isoformat() if row.retires_on else "", str),
    "price_in": (lambda row: row.prices[0].input, number),
    "price_out": (lambda row: row.prices[0].output, number),
    "price_cache_read": (lambda row: row.prices[0].cache_read, number),
    "price_cache_write": (lambda row: row.prices[0].cache_write, number),
    "price_cache_write_1h": (lambda row: row.prices[0].cache_write_1h, number),
    "tools": (lambda row: row.features["tools"], claim),
    "vision": (lambda row: row.features["vision"], claim),
    "pdf": (lambda row: row.features["pdf"], claim),
    "parallel_tools": (lambda row: row.features["parallel_tools"], claim),
    "forced_tools": (lambda row: row.features["forced_tools"], claim),
    "thinking": (lambda row: set(row.thinking.kinds), thinking_kinds),
    "effort": (lambda row: "|".join(row.thinking.levels), str),
    "effort_default": (lambda row: row.thinking.default_level or "", str),
    "thinking_off": (lambda row: row.thinking.disable, lambda text: DISABLE.get(text, text)),
    "temperature_allowed": (
        lambda row: row.parameters.temperature,
        lambda text: TEMPERATURE.get(text, text),
    ),
    "tokenizer": (lambda row: row.encoding, lambda text: text.partition(" (")[0]),
    "cache_min_tokens": (lambda row: row.cache.min_tokens, number),
    "cache_ttl": (lambda row: ";".join(row.cache.ttls), lambda text: TTLS.get(text, text)),
    "sources": (
        lambda row: {"Y" if code == "PA" else code for code in row.sources},
        lambda text: set(text.split(";")),
    ),
}

# (row or "*", column) → why the row says otherwise.
DEVIATIONS = {
    ("*", "forced_tools"): "the table names Claude only; a model with tools takes forced ones",
    ("gemini-2.5-pro", "effort"): "a budget, kept as min_budget and max_budget",
    ("gemini-2.5-flash", "effort"): "a budget, kept as min_budget and max_budget",
    ("gemini-2.5-flash-lite", "effort"): "a budget, kept as min_budget and max_budget",
    ("deepseek-flash", "effort"): "on and off, kept as the kinds toggle and effort",
    ("deepseek-flash", "thinking"): "on and off, kept as the kinds toggle and effort",
    ("deepseek-v4-pro", "effort"): "on and off, kept as the kinds toggle and effort",
    ("deepseek-v4-pro", "thinking"): "on and off, kept as the kinds toggle and effort",
}


def is_explained(model: str, column: str, text: str) -> bool:
    if column == "forced_tools":
        return not text
    return (model, column) in DEVIATIONS


@needs_reference
def test_the_registry_has_every_researched_model() -> None:
    assert {row["id"] for row in table("models.csv")} == set(ROWS) - {"gpt-4o-2024-05-13"}


@needs_reference
@pytest.mark.parametrize("column", SAME)
def test_every_figure_is_the_researched_one(column: str) -> None:
    ours, read = SAME[column]
    different = {
        row["id"]: (ours(ROWS[row["id"]]), row[column])
        for row in table("models.csv")
        if ours(ROWS[row["id"]]) != read(row[column])
        and not is_explained(row["id"], column, row[column])
    }

    assert different == {}


@needs_reference
def test_what_has_one_source_only_is_marked_weak() -> None:
    for row in table("models.csv"):
        named = row["fields_with_fewer_than_2_sources"].split(";")
        expected = {WEAK[name] for name in named if name}

        assert expected <= set(ROWS[row["id"]].weak), row["id"]


@needs_reference
def test_what_the_table_guesses_is_marked_weak() -> None:
    features = ("tools", "vision", "pdf")
    for row in table("models.csv"):
        guessed = {f"features.{name}" for name in features if row[name].endswith("?")}

        assert guessed <= set(ROWS[row["id"]].weak), row["id"]


@needs_reference
def test_long_prompts_and_coming_prices_are_the_researched_ones() -> None:
    for row in table("models.csv"):
        prices = ROWS[row["id"]].prices
        step = re.match(r">(=?)([\d]+)", row["long_context"])
        day = re.match(r"(\d{4}-\d\d-\d\d): in ([\d.]+) out ([\d.]+)", row["next_price"])

        steps = {price.above_input_tokens for price in prices} - {0}
        assert steps == ({int(step[2]) - (step[1] == "=")} if step else set()), row["id"]
        coming = {(str(p.from_date), p.input, p.output) for p in prices if p.from_date}
        assert coming == ({(day[1], float(day[2]), float(day[3]))} if day else set()), row["id"]


@needs_reference
def test_every_spelling_resolves_as_listed_and_no_other_does() -> None:
    for row in table("model_ids.csv"):
        if row["resolves_to"]:
            assert REGISTRY.get(row["asked"]).id == row["resolves_to"], row["asked"]
            continue
        with pytest.raises(UnknownModelError):
            REGISTRY.get(row["asked"])


@needs_reference
def test_every_researched_alias_resolves() -> None:
    for row in table("models.csv"):
        for alias in filter(None, row["aliases"].split(";")):
            # A snapshot with a row of its own wins over the model that it is an alias of.
            expected = alias if alias in ROWS else row["id"]
            assert REGISTRY.get(alias).id == expected, alias
