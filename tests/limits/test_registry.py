import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from context_assembler.errors import ConfigurationError, RegistryError, UnknownModelError
from context_assembler.limits import (
    FEATURE_SYNONYMS,
    ModelRegistry,
    default_registry,
    get_model_limits,
    lifecycle_warnings,
    override_paths,
    price_at,
    register_model,
    supports_feature,
)
from context_assembler.limits.files import read_user_file
from context_assembler.resources import bundled_path
from context_assembler.tokens import FRAMES, IMAGE_RULES

BUNDLED = ModelRegistry(overrides=[])
ROWS = {row.id: row for row in BUNDLED.rows()}
SOURCES: dict[str, str] = yaml.load(
    bundled_path("model_limits.yaml").read_text("utf-8").partition("\nmodels:")[0],
    yaml.SafeLoader,
)["sources"]

# As users write them: (asked, row, what to send, host).
ASKED = {
    "claude-sonnet-4-5-20250929": ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", None),
    "anthropic/claude-sonnet-4-5": ("claude-sonnet-4-5", "claude-sonnet-4-5", None),
    "anthropic/claude-sonnet-4.5": ("claude-sonnet-4-5", "claude-sonnet-4-5", None),
    "anthropic/claude-opus-5.5": ("claude-opus-5-5", "claude-opus-5-5", None),
    "openrouter/anthropic/claude-sonnet-4.5": (
        "claude-sonnet-4-5",
        "anthropic/claude-sonnet-4.5",
        "openrouter",
    ),
    "bedrock/global.anthropic.claude-sonnet-4-5-20250929-v1:0": (
        "claude-sonnet-4-5",
        "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock",
    ),
    "us.anthropic.claude-3-7-sonnet-20250219-v1:0": (
        "claude-3-7-sonnet",
        "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
        "bedrock",
    ),
    "bedrock/us-east-1/anthropic.claude-3-haiku-20240307-v1:0": (
        "claude-3-haiku",
        "anthropic.claude-3-haiku-20240307-v1:0",
        "bedrock",
    ),
    "vertex_ai/claude-sonnet-4-5@20250929": (
        "claude-sonnet-4-5",
        "claude-sonnet-4-5@20250929",
        "vertex_ai",
    ),
    "vertex_ai/claude-3-5-sonnet-v2@20241022": (
        "claude-3-5-sonnet",
        "claude-3-5-sonnet-v2@20241022",
        "vertex_ai",
    ),
    "claude-opus-4-6@default": ("claude-opus-4-6", "claude-opus-4-6@default", "vertex_ai"),
    "projects/p/locations/global/publishers/anthropic/models/claude-opus-5-5": (
        "claude-opus-5-5",
        "projects/p/locations/global/publishers/anthropic/models/claude-opus-5-5",
        "vertex_ai",
    ),
    "arn:aws:bedrock:us-east-1:123:inference-profile/us.anthropic.claude-opus-4-8": (
        "claude-opus-4-8",
        "arn:aws:bedrock:us-east-1:123:inference-profile/us.anthropic.claude-opus-4-8",
        "bedrock",
    ),
    "claude-4-5-haiku": ("claude-haiku-4-5", "claude-haiku-4-5", None),
    "claude-sonnet-3.7": ("claude-3-7-sonnet", "claude-3-7-sonnet-20250219", None),
    "claude-opus-4-20250514": ("claude-opus-4-0", "claude-opus-4-20250514", None),
    "anthropic/claude-3.5-sonnet": ("claude-3-5-sonnet", "claude-3-5-sonnet-20241022", None),
    "claude-3-5-sonnet-20240620": ("claude-3-5-sonnet", "claude-3-5-sonnet-20240620", None),
    "claude-3-5-sonnet-20241022": ("claude-3-5-sonnet", "claude-3-5-sonnet-20241022", None),
    "claude-3-5-sonnet-latest": ("claude-3-5-sonnet", "claude-3-5-sonnet-latest", None),
    "claude-opus-5-5[1m]": ("claude-opus-5-5", "claude-opus-5-5", None),
    "anthropic/claude-3.7-sonnet:thinking": (
        "claude-3-7-sonnet",
        "claude-3-7-sonnet-20250219",
        None,
    ),
    "gpt-4o-2024-11-20": ("gpt-4o", "gpt-4o-2024-11-20", None),
    "gpt-4o-2024-12-31": ("gpt-4o", "gpt-4o-2024-12-31", None),
    "gpt-4o-2024-05-13": ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13", None),
    "azure/eu/gpt-4o-mini": ("gpt-4o-mini", "gpt-4o-mini", "azure"),
    "openrouter/openai/gpt-4o": ("gpt-4o", "openai/gpt-4o", "openrouter"),
    "azure/gpt-35-turbo": ("gpt-3.5-turbo", "gpt-35-turbo", "azure"),
    "GPT-4o": ("gpt-4o", "gpt-4o", None),
    "openai/gpt-6.2-sol": ("gpt-6.2-sol", "gpt-6.2-sol", None),
    "gpt-5-2025-08-07": ("gpt-5", "gpt-5-2025-08-07", None),
    "gpt-5.4-mini-2026-03-17": ("gpt-5.4-mini", "gpt-5.4-mini-2026-03-17", None),
    "gemini/gemini-1.5-pro-002": ("gemini-1.5-pro", "gemini-1.5-pro-002", None),
    "models/gemini-2.0-flash-001": ("gemini-2.0-flash", "gemini-2.0-flash-001", None),
    "google/gemini-4-argon": ("gemini-4-argon", "gemini-4-argon", None),
    "vertex_ai/gemini-3.8-flash": ("gemini-3.8-flash", "gemini-3.8-flash", "vertex_ai"),
    "openrouter/google/gemini-2.5-pro": ("gemini-2.5-pro", "google/gemini-2.5-pro", "openrouter"),
    "bedrock/us.meta.llama4-maverick-17b-instruct-v1:0": (
        "llama-4-maverick",
        "us.meta.llama4-maverick-17b-instruct-v1:0",
        "bedrock",
    ),
    "global.zai.glm-5.3": ("glm-5.3", "global.zai.glm-5.3", "bedrock"),
    "zai-org/GLM-5.3": ("glm-5.3", "glm-5.3", None),
    "minimax/minimax-m3": ("MiniMax-M3", "MiniMax-M3", None),
    "deepseek/deepseek-v4.1-flash": ("deepseek-flash", "deepseek-v4.1-flash", None),
    "global.moonshotai.kimi-k3": ("kimi-k3", "global.moonshotai.kimi-k3", "bedrock"),
    "mistral/mistral-large-2512": ("mistral-large-3", "mistral-large-2512", None),
    "x-ai/grok-4.7": ("grok-4.7", "grok-4.7", None),
    "openai.gpt-oss-120b-1:0": ("gpt-oss-120b", "openai.gpt-oss-120b-1:0", "bedrock"),
    "openrouter/deepseek/deepseek-flash:free": (
        "deepseek-flash",
        "deepseek/deepseek-flash:free",
        "openrouter",
    ),
    "global.anthropic.claude-haiku-5-5": (
        "claude-haiku-5-5",
        "global.anthropic.claude-haiku-5-5",
        "bedrock",
    ),
}

UNKNOWN = (
    "",
    "claude",
    "claude-opus-5-9",
    "claude-opus-9",
    "gemini-2.5-pro-preview-tts",
    "gemini-9-pro",
    "gpt-4-32k",
    "gpt-4.2",
    "gpt-4o-ultra",
    "gpt-5.2-pro",
    "gpt-6.2-astra-law",
    "gpt-7",
    "my-gateway/gpt-4o",
    "my-model",
    "openrouter/",
)

CLASSIC = {
    "claude-3-7-sonnet": 200_000,
    "claude-3-5-sonnet": 200_000,
    "claude-3-opus": 200_000,
    "claude-3-haiku": 200_000,
    "gpt-4o": 128_000,
    "gpt-4o-mini": 128_000,
    "gpt-4-turbo": 128_000,
    "gpt-4": 8_192,
    "gpt-3.5-turbo": 16_385,
    "gemini-2.0-flash": 1_048_576,
    "gemini-1.5-pro": 2_097_152,
    "gemini-1.5-flash": 1_048_576,
}

FEATURES = {
    ("claude-3-5-sonnet-20241022", "vision"): True,
    ("gpt-3.5-turbo", "vision"): False,
    ("gpt-4o", "function_calling"): True,
    ("gpt-4o", "thinking"): False,
    ("o3", "reasoning"): True,
    ("claude-opus-5-5", "documents"): True,
    ("claude-opus-5-5", "prefill"): False,
    ("claude-opus-5-5", "forced_tools"): False,
    ("claude-sonnet-4-5", "prefill"): True,
    ("claude-sonnet-4-6", "prefill"): False,
    ("claude-opus-4-8", "mid_conversation_system"): True,
    ("claude-sonnet-5", "mid_conversation_system"): False,
    ("claude-haiku-5-5", "mid_conversation_system"): False,
    ("gpt-5.3-codex", "chat_tools_with_reasoning"): True,
    ("gpt-5.4", "chat_tools_with_reasoning"): False,
    ("gpt-6-luna", "chat_tools_with_reasoning"): False,
    ("claude-opus-5-5", "prompt_caching"): True,
    ("gpt-4", "prompt_cache"): False,
    ("gpt-4o", "teleportation"): False,
}


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "mine.yaml"
    default_registry.cache_clear()


def with_file(path: Path, text: str) -> ModelRegistry:
    path.write_text(text, "utf-8")
    return ModelRegistry(overrides=[path])


@pytest.mark.parametrize(("asked", "expected"), ASKED.items(), ids=ASKED.keys())
def test_an_id_resolves_as_users_write_it(
    asked: str, expected: tuple[str, str, str | None]
) -> None:
    limits = BUNDLED.get(asked)

    assert (limits.id, limits.api_id, limits.host) == expected
    assert limits.asked_id == asked


@pytest.mark.parametrize("asked", UNKNOWN)
def test_an_unlisted_model_is_never_taken_for_a_listed_one(asked: str) -> None:
    with pytest.raises(UnknownModelError, match="No limits are known"):
        BUNDLED.get(asked)


def test_an_unknown_model_is_answered_with_the_nearest_and_how_to_add_it() -> None:
    with pytest.raises(UnknownModelError) as caught:
        BUNDLED.get("claude-opus-55")

    assert "'claude-opus-5-5'" in caught.value.remedy
    assert "register_model" in caught.value.remedy


def test_the_file_that_the_error_offers_adds_the_model(mine: Path) -> None:
    with pytest.raises(UnknownModelError) as caught:
        BUNDLED.get("openrouter/some/new model: 5")

    assert caught.value.row_text in caught.value.remedy
    registry = with_file(mine, caught.value.row_text)
    assert registry.get("openrouter/some/new model: 5").window_tokens == 32_000


HOSTED = {
    "github_copilot/claude-opus-5.5": (200_000, None, 128_000),
    "github_copilot/gpt-5.6-sol": (272_000, None, 128_000),
    "cloudflare/meta/llama-3.3-70b-instruct": (24_000, None, 4_096),
    "groq/meta-llama/llama-3.3-70b-instruct": (131_072, None, 4_096),
    "openrouter/openai/gpt-5.6-sol": (1_050_000, 922_000, 128_000),
}


@pytest.mark.parametrize(("asked", "figures"), HOSTED.items())
def test_the_window_belongs_to_the_host(asked: str, figures: tuple[int, int | None, int]) -> None:
    limits = BUNDLED.get(asked)

    assert (limits.window_tokens, limits.input_tokens, limits.output_tokens) == figures


def test_a_cloud_keeps_a_model_longer_than_its_vendor() -> None:
    vendors, clouds = BUNDLED.get("claude-opus-4-1"), BUNDLED.get("bedrock/claude-opus-4-1")

    assert (vendors.status, vendors.has_host_dates) == ("retired", False)
    assert (clouds.status, clouds.has_host_dates) == ("deprecated", True)
    assert "on bedrock retires on 2027-01-08" in lifecycle_warnings(clouds, date(2026, 11, 27))[0]


def test_a_users_file_may_speak_of_a_host_alone(mine: Path) -> None:
    text = "models: {gpt-4o: {hosts: {azure: {limits: {window: 9000, output: 900}}}}}"
    registry = with_file(mine, text)

    assert registry.get("gpt-4o").window_tokens == 128_000
    assert registry.get("azure/gpt-4o").window_tokens == 9000
    assert registry.origins("azure/gpt-4o")["limits.window"] == str(mine)
    assert registry.get("azure/gpt-4o").has_host_dates


def test_every_row_is_sound_for_every_host() -> None:
    assert BUNDLED.problems() == []


def test_all_problems_are_found_at_once(mine: Path) -> None:
    text = """models:
  a: {limits: {window: 0}}
  gpt-4o: {hosts: {azure: {limits: {window: no}}}}
  b: {limits: {window: 10}}
"""

    problems = with_file(mine, text).problems()

    assert [(problem.row, problem.field) for problem in problems] == [
        ("gpt-4o", "limits.window"),
        ("gpt-4o-2024-05-13", "limits.window"),
        ("a", "limits.window"),
    ]
    assert problems[0].file == str(mine)


def test_an_override_for_a_model_that_nobody_knows_needs_more(mine: Path) -> None:
    with pytest.raises(RegistryError, match="no other file knows this model") as caught:
        with_file(mine, "models: {gpt-4oo: {limits: {output: 5}}}").get("gpt-4oo")

    assert "did you mean 'gpt-4o'" in str(caught.value)
    assert "extends" in caught.value.remedy


def test_an_assumed_model_claims_no_cache() -> None:
    assert not BUNDLED.get("claude-opus-9", unknown="conservative").supports("prompt_cache")


@pytest.mark.parametrize("model_id", ROWS)
def test_every_row_answers_to_its_own_id_and_aliases(model_id: str) -> None:
    row = ROWS[model_id]

    assert {BUNDLED.get(name).id for name in (model_id, *row.aliases)} == {model_id}


@pytest.mark.parametrize("model_id", ROWS)
def test_every_row_is_dated_sourced_and_plausible(model_id: str) -> None:
    row = ROWS[model_id]

    assert row.checked is not None
    assert row.sources
    assert row.provider != "unknown"
    assert row.image_rule in {"", *IMAGE_RULES}
    assert row.token_frame in {"", *FRAMES}
    assert row.prices
    assert row.prices[0].from_date is None
    assert row.prices[0].above_input_tokens == 0
    assert all(price.input and price.output for price in row.prices)


def test_every_source_code_is_used_and_says_what_it_stands_for() -> None:
    used = {source for row in ROWS.values() for source in row.sources}

    assert used == set(SOURCES)
    assert all(len(SOURCES[code]) > 10 for code in used)


def test_the_bundled_file_keeps_the_layout_that_is_split_into_rows() -> None:
    text = bundled_path("model_limits.yaml").read_text("utf-8")
    whole = read_user_file("x", text)

    assert whole.ids() == list(BUNDLED.ids()) == list(ROWS)
    for model_id in whole.ids():
        aliases = (whole.row(model_id) or {}).get("aliases")
        assert list(ROWS[model_id].aliases) == (aliases or [])


@pytest.mark.parametrize(("model_id", "window_tokens"), CLASSIC.items())
def test_the_classic_models_are_there_and_warn(model_id: str, window_tokens: int) -> None:
    limits = BUNDLED.get(model_id)

    assert limits.window_tokens == window_tokens
    assert lifecycle_warnings(limits, date(2026, 11, 27))


@pytest.mark.parametrize(("question", "answer"), FEATURES.items())
def test_features_are_answered(question: tuple[str, str], answer: bool) -> None:
    assert BUNDLED.supports_feature(*question) is answer


def test_prefix_bound_models_say_so() -> None:
    bound = {row.id for row in ROWS.values() if row.thinking.is_prefix_bound}

    assert bound == {
        "claude-fable-5-1",
        "claude-fable-5-2",
        "claude-mythos-5-2",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
        "gpt-6.2-astra",
        "gpt-6.2-sol",
    }


def test_reasoning_is_bound_to_the_account_but_for_most_claude_models() -> None:
    claude = [row for row in ROWS.values() if row.provider == "anthropic"]
    others = [row for row in ROWS.values() if row.provider != "anthropic"]

    assert {row.id for row in claude if row.thinking.is_account_bound} == {
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
    }
    assert all(row.thinking.is_account_bound for row in others)


@pytest.mark.parametrize("asked", ["claude-haiku-9", "claude-opus-9", "gpt-9", "nobody-1"])
def test_an_assumed_model_is_bound_to_the_account_as_any_relative_may_be(asked: str) -> None:
    assert BUNDLED.get(asked, unknown="conservative").thinking.is_account_bound


def test_prices_know_steps_and_days() -> None:
    haiku = BUNDLED.get("claude-haiku-5-5")
    argon = BUNDLED.get("gemini-4-argon")
    today = date(2026, 11, 27)

    inputs = [price_at(haiku, today=today, input_tokens=n) for n in (100_000, 100_001)]
    before, after = price_at(argon, today=today), price_at(argon, today=date(2026, 12, 1))

    assert [price and price.input for price in inputs] == [0.1, 0.5]
    assert (before and before.input, after and after.input) == (2.0, 4.0)


def test_an_openai_prompt_over_its_step_costs_more_as_a_whole() -> None:
    price = price_at(BUNDLED.get("gpt-6.2-sol"), today=date(2026, 11, 27), input_tokens=272_001)

    assert price is not None
    assert (price.input, price.output, price.cache_read) == (4.0, 15.0, 0.2)


def test_a_snapshot_of_its_own_takes_the_rest_from_the_model_it_extends() -> None:
    first, later = BUNDLED.get("gpt-4o-2024-05-13"), BUNDLED.get("gpt-4o")

    assert (first.output_tokens, later.output_tokens) == (4_096, 16_384)
    assert (first.window_tokens, first.features["vision"]) == (128_000, True)
    assert first.aliases == ()


@pytest.mark.parametrize(
    ("asked", "window_tokens", "output_tokens", "encoding"),
    [
        ("my-model", 32_000, 4_096, "o200k_base"),
        ("4711", 32_000, 4_096, "o200k_base"),
        ("claude-opus-9", 200_000, 64_000, "anthropic-new"),
        ("openrouter/anthropic/claude-opus-9", 200_000, 64_000, "anthropic-new"),
        ("gpt-7", 128_000, 16_384, "o200k_base"),
    ],
)
def test_unknown_models_get_small_limits_on_request(
    asked: str, window_tokens: int, output_tokens: int, encoding: str
) -> None:
    limits = BUNDLED.get(asked, unknown="conservative")

    assert (limits.window_tokens, limits.output_tokens) == (window_tokens, output_tokens)
    assert limits.encoding == encoding
    assert limits.is_assumed
    assert limits.prices == ()
    assert limits.parameters.temperature == "never"
    assert not limits.aliases


def test_an_assumed_model_is_addressed_as_its_host_expects() -> None:
    routed = BUNDLED.get("openrouter/anthropic/claude-opus-9", unknown="conservative")
    dated = BUNDLED.get("openai/gpt-7-2027-01-01", unknown="conservative")

    assert (routed.api_id, routed.host) == ("anthropic/claude-opus-9", "openrouter")
    assert (dated.api_id, dated.host, dated.id) == ("gpt-7-2027-01-01", None, "gpt-7")


@given(asked=st.text(max_size=30) | st.text("abcg-ptlude/.:@0123456789", max_size=30))
@settings(max_examples=200, deadline=None)
def test_any_id_is_known_or_assumed(asked: str) -> None:
    assume(asked.strip())

    limits = BUNDLED.get(asked, unknown="conservative")

    assert limits.window_tokens >= 8_192
    assert limits.asked_id == asked


def test_no_id_is_unknown_even_then() -> None:
    with pytest.raises(UnknownModelError):
        BUNDLED.get(" ", unknown="conservative")


def test_a_known_model_is_not_assumed() -> None:
    assert not BUNDLED.get("gpt-4o", unknown="conservative").is_assumed


def test_overrides_merge_per_model_the_strongest_file_last(tmp_path: Path) -> None:
    weak, strong = tmp_path / "weak.yaml", tmp_path / "strong.yaml"
    weak.write_text("models: {gpt-4o: {limits: {window: 1, output: 1}, aliases: [four]}}")
    strong.write_text("models: {gpt-4o: {limits: {window: 64000}}}")
    registry = ModelRegistry(overrides=[strong, weak])

    limits = registry.get("four")

    assert (limits.window_tokens, limits.output_tokens) == (64_000, 1)
    assert limits.features["vision"]
    assert registry.origins("four")["limits.window"] == str(strong)
    assert registry.origins("four")["limits.output"] == str(weak)
    assert registry.origins("four")["provider"].endswith("model_limits.yaml")


def test_none_deletes_a_field_and_a_row(mine: Path) -> None:
    registry = with_file(mine, "models: {gpt-4o: {prices: null}, gpt-4: null}")

    assert registry.get("gpt-4o").prices == ()
    assert "gpt-4" not in registry.ids()
    with pytest.raises(UnknownModelError):
        registry.get("gpt-4")


def test_a_deleted_row_can_be_written_anew(tmp_path: Path) -> None:
    weak, strong = tmp_path / "weak.yaml", tmp_path / "strong.yaml"
    weak.write_text("models: {gpt-4: null}")
    strong.write_text("models: {gpt-4: {limits: {window: 5}}}")

    limits = ModelRegistry(overrides=[strong, weak]).get("gpt-4")

    assert (limits.window_tokens, limits.provider) == (5, "unknown")


def test_a_private_deployment_extends_a_known_model(mine: Path) -> None:
    registry = with_file(
        mine,
        "models: {my-4o: {extends: GPT-4O, limits: {window: 64000, output: null}, prices: null}}",
    )

    limits = registry.get("azure/my-4o")

    assert (limits.id, limits.api_id, limits.host) == ("my-4o", "my-4o", "azure")
    assert (limits.window_tokens, limits.output_tokens, limits.prices) == (64_000, None, ())
    assert limits.provider == "openai"


BROKEN_FILES = {
    "extends nobody": ("models: {a: {extends: nobody}}", "extends", "no known model"),
    "extends itself": ("models: {a: {extends: a}}", "extends", "a circle"),
    "takes a name": (
        "models: {a: {limits: {window: 1}, aliases: [gpt-4o]}}",
        "aliases",
        "'gpt-4o' already means 'gpt-4o'",
    ),
    "breaks the schema": ("models: {a: {limits: {window: big}}}", "limits.window", "not 'big'"),
}


@pytest.mark.parametrize(
    ("text", "field", "reason"), BROKEN_FILES.values(), ids=BROKEN_FILES.keys()
)
def test_a_broken_override_names_file_row_and_field(
    mine: Path, text: str, field: str, reason: str
) -> None:
    with pytest.raises(RegistryError, match=reason) as caught:
        with_file(mine, text).get("a")

    assert (caught.value.file, caught.value.row, caught.value.field) == (str(mine), "a", field)


def test_a_broken_row_of_one_model_leaves_the_others_alone(mine: Path) -> None:
    registry = with_file(mine, "models: {a: {limits: {window: 1}, aliases: [4]}}")

    assert registry.get("gpt-4o").window_tokens == 128_000
    with pytest.raises(RegistryError, match="4 is not text"):
        registry.get("a")


def test_an_override_that_cannot_be_read_is_named(mine: Path) -> None:
    mine.write_bytes(b"models: {a: \xff}")

    with pytest.raises(RegistryError, match="cannot be read") as caught:
        ModelRegistry(overrides=[mine]).get("gpt-4o")

    assert caught.value.file == str(mine)


def test_a_byte_order_mark_is_no_trouble(mine: Path) -> None:
    registry = with_file(mine, "\ufeffmodels: {a: {limits: {window: 7}}}")

    assert registry.get("a").window_tokens == 7


def test_answers_to_unheard_of_models_do_not_pile_up() -> None:
    registry = ModelRegistry(overrides=[])

    for number in range(1_200):
        registry.get(f"my-model-{number}", unknown="conservative")

    assert len(registry._answers) == 1_000


def test_extending_in_a_circle_is_an_error(mine: Path) -> None:
    with pytest.raises(RegistryError, match="a circle"):
        with_file(mine, "models: {a: {extends: b}, b: {extends: a}}").get("a")


def test_override_files_are_looked_for_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, home = tmp_path / "named.yaml", tmp_path / "home"
    local = tmp_path / "model_limits.local.yaml"
    shared = home / "context_assembler" / "model_limits.yaml"
    shared.parent.mkdir(parents=True)
    for path in (named, local, shared):
        path.write_text("models: {}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("CONTEXT_ASSEMBLER_MODELS", str(named))

    assert override_paths() == [named, Path(local.name), shared]

    monkeypatch.delenv("CONTEXT_ASSEMBLER_MODELS")
    local.unlink()
    assert override_paths() == [shared]


def test_a_named_override_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_MODELS", "/nowhere.yaml")

    with pytest.raises(ConfigurationError, match="not a file"):
        override_paths()


def test_a_registered_model_is_known_from_then_on() -> None:
    registry = ModelRegistry(overrides=[])

    registered = registry.register(
        "my-model",
        window_tokens=64_000,
        output_tokens=8_000,
        input_tokens=60_000,
        provider="openai",
        aliases=["mine"],
        features={"tools": True},
        row={"tokenizer": {"encoding": "cl100k_base"}},
    )

    assert registry.get("openai/mine").id == "my-model"
    assert registered.input_tokens == 60_000
    assert registered.encoding == "cl100k_base"
    assert "my-model" in registry.ids()
    assert registry.origins("my-model")["limits.window"] == "register_model()"


def test_registering_again_changes_what_is_given() -> None:
    registry = ModelRegistry(overrides=[])
    registry.register("gpt-4o", window_tokens=64_000)

    changed = registry.register("gpt-4o", features={"vision": False})

    assert (changed.window_tokens, changed.output_tokens) == (64_000, 16_384)
    assert not changed.supports("vision")


def test_registering_can_delete() -> None:
    registry = ModelRegistry(overrides=[])

    changed = registry.register("gpt-4o", row={"prices": None, "limits": {"output": None}})

    assert (changed.prices, changed.output_tokens) == ((), None)


def test_a_registration_that_breaks_the_schema_leaves_nothing_behind() -> None:
    registry = ModelRegistry(overrides=[])

    with pytest.raises(RegistryError, match="it is missing"):
        registry.register("my-model", output_tokens=5)

    with pytest.raises(UnknownModelError):
        registry.get("my-model")
    assert registry.get("gpt-4o").window_tokens == 128_000


def test_the_module_functions_share_one_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("CONTEXT_ASSEMBLER_MODELS", raising=False)
    default_registry.cache_clear()

    register_model("my-model", extends="gpt-4o", window_tokens=64_000)

    assert get_model_limits("my-model").window_tokens == 64_000
    assert get_model_limits("gpt-4o").window_tokens == 128_000
    assert get_model_limits("nobody", unknown="conservative").is_assumed
    assert supports_feature("my-model", "vision")
    default_registry.cache_clear()


def test_synonyms_mean_features_that_rows_have() -> None:
    names = set[str]().union(*(row.features for row in ROWS.values()))

    assert set(FEATURE_SYNONYMS.values()) <= names
    assert not set(FEATURE_SYNONYMS) & names


def test_many_threads_may_ask_a_fresh_registry() -> None:
    registry = ModelRegistry(overrides=[])
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(sum(r.window_tokens for r in registry.rows())))
        for _ in range(4)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(found)) == 1
    assert len(found) == 4
