"""The registry of models: ids as people write them, rows, overrides, lifecycle."""

import csv
import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from context_assembler.errors import RegistryError, UnknownModelError
from context_assembler.models import (
    ModelLimits,
    ModelRegistry,
    ModelStatus,
    Price,
    lifecycle_notes,
    lifecycle_warnings,
    other_protocols,
    override_paths,
    price_at,
    protocol_for,
)
from context_assembler.tokens import FRAMES

BUNDLED = ModelRegistry(overrides=[])
ROWS = {row.id: row for row in BUNDLED.rows()}
NAMES = [name for row in ROWS.values() for name in (row.id, *row.aliases)]
FILE = Path(__file__).parents[2] / "model_limits.yaml"
TODAY = date(2026, 11, 27)
CORPUS = Path(os.environ.get("CONTEXT_ASSEMBLER_CORPUS", Path(__file__).parents[3] / "shared/data"))

# As users write them: asked → row, what to send, host.
ASKED = {
    "claude-sonnet-4-5-20250929": ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", None),
    "anthropic/claude-sonnet-4.5": ("claude-sonnet-4-5", "claude-sonnet-4-5", None),
    "openrouter/anthropic/claude-sonnet-4.5": (
        *("claude-sonnet-4-5", "anthropic/claude-sonnet-4.5", "openrouter"),
    ),
    "bedrock/us-east-1/anthropic.claude-3-haiku-20240307-v1:0": (
        *("claude-3-haiku", "anthropic.claude-3-haiku-20240307-v1:0", "bedrock"),
    ),
    "vertex_ai/claude-3-5-sonnet-v2@20241022": (
        *("claude-3-5-sonnet", "claude-3-5-sonnet-v2@20241022", "vertex_ai"),
    ),
    "claude-opus-4-6@default": ("claude-opus-4-6", "claude-opus-4-6@default", "vertex_ai"),
    "projects/p/locations/global/publishers/anthropic/models/claude-opus-5-5": (
        "claude-opus-5-5",
        "projects/p/locations/global/publishers/anthropic/models/claude-opus-5-5",
        "vertex_ai",
    ),
    "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-8": (
        "claude-opus-4-8",
        "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-8",
        "bedrock",
    ),
    "claude-4-5-haiku": ("claude-haiku-4-5", "claude-haiku-4-5", None),
    "claude-sonnet-3.7": ("claude-3-7-sonnet", "claude-3-7-sonnet-20250219", None),
    "claude-opus-5-5[1m]": ("claude-opus-5-5", "claude-opus-5-5", None),
    "gpt-4o-2024-12-31": ("gpt-4o", "gpt-4o-2024-12-31", None),
    "gpt-4o-2024-05-13": ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13", None),
    "azure/eu/gpt-4o-mini": ("gpt-4o-mini", "gpt-4o-mini", "azure"),
    "azure/gpt-35-turbo": ("gpt-3.5-turbo", "gpt-35-turbo", "azure"),
    "  GPT-4o\n": ("gpt-4o", "gpt-4o", None),
    "models/gemini-2.0-flash-001": ("gemini-2.0-flash", "gemini-2.0-flash-001", None),
    "openrouter/google/gemini-2.5-pro": ("gemini-2.5-pro", "google/gemini-2.5-pro", "openrouter"),
    "bedrock/converse/us.zai.glm-5.3": ("glm-5.3", "us.zai.glm-5.3", "bedrock"),
    "deepseek/deepseek-v4.1-flash": ("deepseek-flash", "deepseek-v4.1-flash", None),
    "openai.gpt-oss-120b-1:0": ("gpt-oss-120b", "openai.gpt-oss-120b-1:0", "bedrock"),
    "openrouter/deepseek/deepseek-flash:free": (
        *("deepseek-flash", "deepseek/deepseek-flash:free", "openrouter"),
    ),
}
UNKNOWN = (
    *("", "claude", "claude-opus-5-9", "claude-opus-9", "gemini-2.5-pro-preview-tts", "gpt-4-32k"),
    *("gpt-4.2", "gpt-4o-ultra", "gpt-5.2-pro", "gpt-7", "my-gateway/gpt-4o", "openrouter/"),
)
FEATURES = {
    ("claude-3-5-sonnet-20241022", "vision"): True,
    ("gpt-4o", "function_calling"): True,
    ("gpt-4o", "thinking"): False,
    ("o3", "reasoning"): True,
    ("claude-opus-5-5", "forced_tools"): False,
    ("gpt-5.3-codex", "chat_tools_with_reasoning"): True,
    ("gpt-5.4", "chat_tools_with_reasoning"): False,
    ("claude-opus-5-5", "prompt_caching"): True,
    ("gpt-4", "prompt_cache"): False,
    ("gpt-4o", "teleportation"): False,
}


def with_file(path: Path, text: str) -> ModelRegistry:
    (path / "mine.yaml").write_text(text, "utf-8")
    return ModelRegistry(overrides=[path / "mine.yaml"])


# ---- ids ----


@pytest.mark.parametrize(("asked", "expected"), ASKED.items(), ids=ASKED.keys())
def test_an_id_resolves_as_users_write_it(
    asked: str, expected: tuple[str, str, str | None]
) -> None:
    limits = BUNDLED.get(asked)

    assert (limits.id, limits.api_id, limits.host, limits.asked_id) == (*expected, asked)


@pytest.mark.parametrize("asked", UNKNOWN)
def test_an_unlisted_model_is_never_taken_for_a_listed_one(asked: str) -> None:
    with pytest.raises(UnknownModelError, match="No limits are known"):
        BUNDLED.get(asked)


@pytest.mark.recorded
def test_every_researched_id_and_alias_resolves() -> None:
    folder = CORPUS.parent / "reference"
    if not folder.exists():
        pytest.skip(f"the researched tables are not at {folder} (CONTEXT_ASSEMBLER_CORPUS)")
    rows = list(csv.DictReader((folder / "models.csv").read_text("utf-8").splitlines()))
    asked = list(csv.DictReader((folder / "model_ids.csv").read_text("utf-8").splitlines()))

    assert {row["id"] for row in rows} == set(ROWS) - {"gpt-4o-2024-05-13"}
    for row in asked:
        try:
            found = BUNDLED.get(row["asked"]).id
        except UnknownModelError:
            found = ""
        assert found == row["resolves_to"]


@given(
    name=st.sampled_from(NAMES),
    more=st.text("abxyz01289.-", min_size=1, max_size=6) | st.sampled_from(["-mini", "-32k", "o"]),
    is_before=st.booleans(),
)
@settings(max_examples=150)
def test_a_longer_id_is_another_model(name: str, more: str, is_before: bool) -> None:
    asked = more + name if is_before else name + more
    assume(asked.lower().replace(".", "-") not in {n.lower().replace(".", "-") for n in NAMES})
    assume(not any(more.endswith(f"-v{digit}") for digit in range(10)))

    with pytest.raises(UnknownModelError):
        BUNDLED.get(asked)


@given(
    name=st.sampled_from(list(ROWS)),
    prefix=st.sampled_from(["", "openrouter/", "OpenAI/", "vercel/anthropic/", "us.", "models/"]),
    suffix=st.sampled_from(["", ":free", "-2031-01-31", "-20310131", "@20310131", "-v1:0"]),
)
def test_known_prefixes_and_suffixes_never_lead_to_another_model(
    name: str, prefix: str, suffix: str
) -> None:
    assert BUNDLED.get(prefix + name + suffix).id == name


def test_an_unknown_model_is_answered_with_the_nearest_and_a_row_that_adds_it(
    tmp_path: Path,
) -> None:
    with pytest.raises(UnknownModelError) as caught:
        BUNDLED.get("claude-opus-55")

    assert "'claude-opus-5-5'" in caught.value.remedy
    assert caught.value.row_text in caught.value.remedy
    assert with_file(tmp_path, caught.value.row_text).get("claude-opus-55").window_tokens == 32_000


# ---- rows ----


@pytest.mark.parametrize("model_id", ROWS)
def test_every_row_is_dated_sourced_and_plausible(model_id: str) -> None:
    row = ROWS[model_id]

    assert {BUNDLED.get(name).id for name in (model_id, *row.aliases)} == {model_id}
    assert row.checked is not None
    assert set(row.sources) <= set(BUNDLED.sources())
    assert row.token_frame in {"", *FRAMES}
    assert row.status != "retired" or row.retires_on is not None
    assert not row.thinking.levels or row.thinking.default_level in {None, *row.thinking.levels}
    assert all(price.input and price.output for price in row.prices)
    assert (row.prices[0].from_date, row.prices[0].above_input_tokens) == (None, 0)


def test_the_bundled_file_is_read_as_yaml_reads_it() -> None:
    whole = ModelRegistry(overrides=[FILE])

    assert whole.problems() == []
    assert whole.ids() == tuple(ROWS)
    assert list(whole.rows()) == list(ROWS.values())
    assert set(BUNDLED.sources()) == {s for row in ROWS.values() for s in row.sources}


@pytest.mark.parametrize(("question", "answer"), FEATURES.items())
def test_features_are_answered(question: tuple[str, str], answer: bool) -> None:
    assert BUNDLED.supports_feature(*question) is answer


def test_a_snapshot_of_its_own_takes_the_rest_from_the_model_it_extends() -> None:
    first, later = BUNDLED.get("gpt-4o-2024-05-13"), BUNDLED.get("gpt-4o")

    assert (first.output_tokens, later.output_tokens) == (4_096, 16_384)
    assert (first.window_tokens, first.features["vision"], first.aliases) == (128_000, True, ())


PROTOCOLS = {
    "claude-opus-5-5": ("anthropic", ()),
    "bedrock/claude-opus-5-5": ("anthropic", ()),
    "openrouter/anthropic/claude-opus-5.5": ("openai_chat", ()),
    "gemini-4-argon": ("gemini", ()),
    "gpt-6.2-sol": ("openai_responses", ()),
    "openrouter/openai/gpt-6.2-sol": ("openai_chat", ()),
    "gpt-5": ("openai_chat", ("openai_responses",)),
    "gpt-4o": ("openai_chat", ()),
    "grok-4.7": ("openai_chat", ()),
}


@pytest.mark.parametrize(("asked", "expected"), PROTOCOLS.items())
def test_a_model_speaks_the_protocol_of_its_server(
    asked: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    limits = BUNDLED.get(asked)

    assert (protocol_for(limits), other_protocols(limits)) == expected
    assert protocol_for(limits._replace(protocol="mine")) == "mine"


# ---- overrides ----


def test_overrides_merge_per_model_the_strongest_file_last(tmp_path: Path) -> None:
    weak, strong = tmp_path / "weak.yaml", tmp_path / "strong.yaml"
    weak.write_text("models: {gpt-4o: {limits: {window: 1, output: 1}, aliases: [four]}}")
    strong.write_text("\ufeffmodels: {gpt-4o: {limits: {window: 64000}}}", "utf-8")
    registry = ModelRegistry(overrides=[strong, weak])

    limits = registry.get("four")
    files = {path: file for path, _, file in registry.fields("four")}

    assert (limits.window_tokens, limits.output_tokens) == (64_000, 1)
    assert limits.features["vision"]
    assert (files["limits.window"], files["limits.output"]) == (str(strong), str(weak))
    assert files["provider"].endswith("model_limits.yaml")


CHANGED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "null deletes": ("gpt-4o: {prices: null}", "gpt-4o", {"prices": (), "window_tokens": 128_000}),
    "a host alone": (
        "gpt-4o: {hosts: {azure: {limits: {window: 900, output: 9}}}}",
        "azure/gpt-4o",
        {"window_tokens": 900, "has_host_dates": True},
    ),
    "a deployment of one's own": (
        "my-4o: {extends: GPT-4O, limits: {window: 64000, output: null}}",
        "azure/my-4o",
        {"id": "my-4o", "window_tokens": 64_000, "output_tokens": None, "provider": "openai"},
    ),
    "a feature of one's own": (
        *("mine: {limits: {window: 7}, features: {search: true}}", "mine", {"locked": ()}),
    ),
    "the least row": ("mine: {limits: {window: 7}}", "mine", {"provider": "unknown"}),
    "a date in quotes": (
        'mine: {limits: {window: 7}, prices: [{input: 1, from: "2026-12-01", above: 10}]}',
        "mine",
        {"prices": (Price(input=1.0, from_date=date(2026, 12, 1), above_input_tokens=10),)},
    ),
}


@pytest.mark.parametrize(("text", "asked", "fields"), CHANGED.values(), ids=CHANGED.keys())
def test_a_users_row_changes_what_it_names(
    tmp_path: Path, text: str, asked: str, fields: dict[str, Any]
) -> None:
    limits = with_file(tmp_path, f"models: {{{text}}}").get(asked)

    assert {name: getattr(limits, name) for name in fields} == fields


BROKEN = {
    "a key that YAML reads as false": (
        *("{limits: {window: 9}, features: {off: true}}", "features.False", "no such field"),
    ),
    "no window": ("{limits: {output: 5}}", "limits.window", "no other file knows this model"),
    "a window in words": ("{limits: {window: 1M}}", "limits.window", "a whole number .* not '1M'"),
    "a window that is true": ("{limits: {window: true}}", "limits.window", "not True"),
    "limits as a number": ("{limits: 5}", "limits", "a table is needed"),
    "more output than window": ("{limits: {window: 1, output: 2}}", "limits.output", "window"),
    "an unknown field": ("{limits: {window: 9}, colour: 1}", "colour", "no such field"),
    "a misspelt field": ("{limits: {window: 9}, statsu: x}", "statsu", "mean 'status'"),
    "a misspelt feature": (
        *(
            "{limits: {window: 9}, features: {visoin: true}}",
            "features.visoin",
            "mean 'features.vision'",
        ),
    ),
    "an unknown host": (
        "{limits: {window: 9}, hosts: {azur: {}}}",
        "hosts.azur",
        "mean 'hosts.azure'",
    ),
    "a host's aliases": (
        "{limits: {window: 9}, hosts: {groq: {aliases: []}}}",
        "hosts.groq.aliases",
        "no such field",
    ),
    "an unknown status": ("{limits: {window: 9}, status: new}", "status", "one of active"),
    "no day": ("{limits: {window: 9}, retires_on: soon}", "retires_on", "a date such as"),
    "prices that are none": (
        *("{limits: {window: 9}, prices: [5]}", "prices", "a list, each a table, is needed"),
    ),
    "a negative price": ("{limits: {window: 9}, prices: [{input: -1}]}", "prices.input", "least 0"),
    "another price": ("{limits: {window: 9}, prices: [{in: 1}]}", "prices.in", "no such field"),
    "extends nobody": ("{extends: nobody}", "extends", "no known model"),
    "extends itself": ("{extends: a}", "extends", "a circle"),
    "takes a name": ("{limits: {window: 1}, aliases: [gpt-4o]}", "aliases", "already means"),
}


@pytest.mark.parametrize(("text", "field", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_row_names_file_row_and_field(
    tmp_path: Path, text: str, field: str, reason: str
) -> None:
    with pytest.raises(RegistryError, match=reason) as caught:
        with_file(tmp_path, f"models: {{a: {text}}}").get("a")

    error = caught.value
    assert (error.file, error.row, error.field) == (str(tmp_path / "mine.yaml"), "a", field)


BROKEN_FILES = {
    "no YAML": ("models: [", "not valid YAML"),
    "rows at the outer level": ("gpt-4o: {}", "under 'models:'"),
    "a row as text": ("models: {a: big}", "this is 'big'"),
    "an id as a number": ("models: {4: {}}", "named by text"),
    "nesting without end": ("[" * 1500, "recursion"),
}


@pytest.mark.parametrize(("text", "reason"), BROKEN_FILES.values(), ids=BROKEN_FILES.keys())
def test_a_broken_file_is_named_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(RegistryError, match=reason) as caught:
        with_file(tmp_path, text).get("gpt-4o")

    assert caught.value.file == str(tmp_path / "mine.yaml")


def test_a_broken_row_leaves_the_others_alone_and_all_are_found_at_once(tmp_path: Path) -> None:
    text = "models: {a: {limits: {window: 0}}, gpt-4o: {hosts: {azure: {limits: {window: no}}}}}"
    registry = with_file(tmp_path, text)

    assert registry.get("gpt-4.1").window_tokens == 1_047_576
    assert [(p.row, p.field) for p in registry.problems()] == [
        ("gpt-4o", "hosts.azure.limits.window"),
        ("a", "limits.window"),
    ]


def test_override_files_are_looked_for_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "home" / "context_assembler" / "model_limits.yaml"
    shared.parent.mkdir(parents=True)
    for path in (tmp_path / "named.yaml", tmp_path / "model_limits.local.yaml", shared):
        path.write_text("models: {}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CONTEXT_ASSEMBLER_MODELS", str(tmp_path / "named.yaml"))

    assert override_paths() == [
        *(str(tmp_path / "named.yaml"), "model_limits.local.yaml", str(shared))
    ]

    monkeypatch.setenv("CONTEXT_ASSEMBLER_MODELS", "/nowhere.yaml")
    with pytest.raises(RegistryError, match=r"/nowhere\.yaml: .*No such file"):
        ModelRegistry().get("gpt-4o")


def test_a_registered_model_is_known_from_then_on() -> None:
    registry = ModelRegistry(overrides=[])

    registry.register(
        "my-model",
        window_tokens=64_000,
        output_tokens=8_000,
        input_tokens=60_000,
        provider="openai",
        aliases=["mine"],
        features={"tools": True},
        row={"tokenizer": {"encoding": "cl100k_base"}},
    )
    changed = registry.register("my-model", features={"vision": False}, row={"meta": None})

    assert registry.get("openai/mine") == changed._replace(asked_id="openai/mine", api_id="mine")
    assert (changed.input_tokens, changed.encoding) == (60_000, "cl100k_base")
    assert (changed.supports("tools"), changed.supports("vision")) == (True, False)
    assert registry.register("gpt-4o", row={"prices": None}).prices == ()


def test_a_registration_that_breaks_the_schema_leaves_nothing_behind() -> None:
    registry = ModelRegistry(overrides=[])

    with pytest.raises(RegistryError, match="it is missing"):
        registry.register("my-model", output_tokens=5)

    assert registry.ids() == BUNDLED.ids()


def test_a_look_up_loads_neither_yaml_nor_pydantic_nor_dataclasses() -> None:
    heavy = {"yaml", "pydantic", "dataclasses", "inspect", "difflib", "pathlib"}
    code = (
        "import sys; from context_assembler.models import get_model_limits;"
        f"get_model_limits('anthropic/claude-sonnet-5.5'); print({heavy!r} & set(sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


# ---- unknown models ----

ASSUMED = {
    "my-model": (32_000, 4_096, "o200k_base"),
    "4711": (32_000, 4_096, "o200k_base"),
    "claude-opus-9": (200_000, 64_000, "anthropic-new"),
    "gpt-7": (128_000, 16_384, "o200k_base"),
}


@pytest.mark.parametrize(("asked", "figures"), ASSUMED.items())
def test_unknown_models_get_small_limits_on_request(
    asked: str, figures: tuple[int, int, str]
) -> None:
    limits = BUNDLED.get(asked, unknown="conservative")

    assert (limits.window_tokens, limits.output_tokens, limits.encoding) == figures
    assert (limits.is_assumed, limits.prices, limits.aliases) == (True, (), ())
    assert limits.parameters.temperature == "never"
    assert limits.thinking.is_account_bound
    assert not limits.supports("prompt_cache")


@given(asked=st.text(max_size=30) | st.text("abcg-ptlude/.:@0123456789", max_size=30))
@settings(deadline=None)
def test_any_id_is_known_or_assumed(asked: str) -> None:
    assume(asked.strip())

    limits = BUNDLED.get(asked, unknown="conservative")

    assert limits.window_tokens >= 8_192
    assert limits.asked_id == asked


# ---- on a given day ----

PRICES = (
    Price(input=1.0),
    Price(input=2.0, above_input_tokens=100),
    Price(input=3.0, from_date=date(2026, 12, 1)),
    Price(input=4.0, from_date=date(2026, 12, 1), above_input_tokens=100),
)
CHARGED = {
    "the first price": (TODAY, 0, 1.0),
    "above the step": (TODAY, 101, 2.0),
    "on the day of the change": (date(2026, 12, 1), 100, 3.0),
    "above the step after the change": (date(2027, 1, 1), 5000, 4.0),
}
WARNED: dict[str, tuple[ModelStatus, date | None, str]] = {
    "active": ("active", None, ""),
    "retired": ("retired", date(2026, 1, 5), "m is retired since 2026-01-05."),
    "retired ahead of its date": ("retired", date(2027, 1, 1), "m is retired."),
    "past its date": ("deprecated", TODAY, "m is retired since 2026-11-27."),
    "a day left": ("active", date(2026, 11, 28), "m retires on 2026-11-28, tomorrow."),
    "60 days left": ("active", date(2027, 1, 26), "m retires on 2027-01-26, in 60 days."),
    "61 days left": ("active", date(2027, 1, 27), ""),
    "deprecated": ("deprecated", date(2027, 6, 1), "m is deprecated and retires on 2027-06-01."),
}
MODEL = ModelLimits(id="m", provider="p", window_tokens=10, asked_id="x/m")


@pytest.mark.parametrize(("today", "tokens", "price"), CHARGED.values(), ids=CHARGED.keys())
def test_the_price_of_day_and_size_holds(today: date, tokens: int, price: float) -> None:
    found = price_at(MODEL._replace(prices=PRICES), today=today, input_tokens=tokens)

    assert found is not None
    assert found.input == price
    assert price_at(MODEL, today=today) is None


@pytest.mark.parametrize(("status", "retires_on", "warning"), WARNED.values(), ids=WARNED.keys())
def test_the_user_hears_of_retirement(
    status: ModelStatus, retires_on: date | None, warning: str
) -> None:
    limits = MODEL._replace(status=status, retires_on=retires_on)
    hosted = limits._replace(host="bedrock")

    assert lifecycle_warnings(limits, TODAY) == ([warning] if warning else [])
    if warning:
        own = lifecycle_warnings(hosted._replace(has_host_dates=True), TODAY)
        assert own == [warning.replace("m ", "m on bedrock ", 1)]
        assert "bedrock may keep another)" in lifecycle_warnings(hosted, TODAY)[0]


def test_the_user_hears_of_assumed_limits_and_of_a_price_that_changes_soon() -> None:
    limits = MODEL._replace(is_assumed=True, output_tokens=5, prices=PRICES)

    assert lifecycle_notes(limits, TODAY) == [
        "x/m is not in model_limits.yaml: assuming a window of 10 tokens, replies of 5 and no price.",
        "The price of m changes on 2026-12-01.",
    ]
    assert lifecycle_notes(MODEL._replace(prices=PRICES), date(2026, 12, 1)) == []
