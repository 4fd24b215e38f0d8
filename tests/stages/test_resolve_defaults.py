"""Four layers of options, and what one model takes of them."""

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.errors import (
    ConfigurationError,
    InvalidParameterError,
    MissingModelError,
    UnknownOptionError,
)
from context_assembler.limits import default_registry
from context_assembler.stages.resolve_defaults import (
    DefaultsResolver,
    parse_options,
    validate_for_model,
    validate_tool_choice,
)
from context_assembler.truncation import TRUNCATIONS
from context_assembler.values.limits import ModelLimits, ParameterRules, ThinkingRule
from context_assembler.values.option_rules import given_options, parse_option
from context_assembler.values.options import (
    LAYERS,
    OPTION_NAMES,
    AssembleOptions,
    Settled,
    TruncationStrategy,
)
from context_assembler.values.tools import ToolChoice, ToolSpec

LEVELS = ("low", "medium", "high")
ADAPTIVE = ThinkingRule(
    kinds=("adaptive",),
    levels=(*LEVELS, "xhigh", "max"),
    default_level="high",
    disable="effort_up_to_high",
)
BUDGET = ThinkingRule(kinds=("budget",), min_budget_tokens=1024)
BOTH = ThinkingRule(kinds=("adaptive", "budget"), levels=(*LEVELS, "max"), min_budget_tokens=1024)
EFFORT = ThinkingRule(kinds=("effort",), levels=("none", *LEVELS), default_level="medium")
ALWAYS = ThinkingRule(kinds=("effort",), levels=LEVELS, default_level="medium", disable="no")
CLAUDE_SAMPLING = ParameterRules(
    temperature="legacy_api", max_temperature=1, accepts_top_p_with_temperature=False
)

MODELS = {
    "new claude": ModelLimits(
        id="new claude",
        provider="anthropic",
        window_tokens=1_000_000,
        output_tokens=128_000,
        thinking=ADAPTIVE,
        parameters=ParameterRules(temperature="never"),
        features={"tools": True, "forced_tools": False},
    ),
    "old claude": ModelLimits(
        id="old claude",
        provider="anthropic",
        window_tokens=200_000,
        output_tokens=64_000,
        thinking=BUDGET,
        parameters=CLAUDE_SAMPLING,
    ),
    "middle claude": ModelLimits(
        id="middle claude",
        provider="anthropic",
        window_tokens=200_000,
        output_tokens=64_000,
        thinking=BOTH,
        parameters=CLAUDE_SAMPLING,
    ),
    "gpt": ModelLimits(
        id="gpt",
        provider="openai",
        window_tokens=128_000,
        output_tokens=16_384,
        features={"tools": True},
    ),
    "gpt that reasons": ModelLimits(
        id="gpt that reasons",
        provider="openai",
        window_tokens=400_000,
        output_tokens=128_000,
        thinking=EFFORT,
        parameters=ParameterRules(temperature="effort_none"),
    ),
    "gpt that always reasons": ModelLimits(
        id="gpt that always reasons",
        provider="openai",
        window_tokens=400_000,
        output_tokens=128_000,
        thinking=ALWAYS,
        parameters=ParameterRules(temperature="never"),
    ),
    "gpt without stop": ModelLimits(
        id="gpt without stop",
        provider="openai",
        window_tokens=400_000,
        output_tokens=128_000,
        parameters=ParameterRules(accepts_stop=False),
    ),
    "gpt that speaks Responses": ModelLimits(
        id="gpt that speaks Responses",
        provider="openai",
        window_tokens=400_000,
        output_tokens=128_000,
        features={"tools": True, "chat_tools_with_reasoning": False},
    ),
    "old gpt": ModelLimits(id="old gpt", provider="openai", window_tokens=8192, output_tokens=8192),
    "gemini": ModelLimits(
        id="gemini",
        provider="google",
        window_tokens=1_048_576,
        window_kind="separate",
        output_tokens=65_536,
        thinking=ThinkingRule(
            kinds=("budget",), min_budget_tokens=128, max_budget_tokens=32_768, disable="no"
        ),
        parameters=ParameterRules(temperature="ignored"),
    ),
    "kimi": ModelLimits(
        id="kimi",
        provider="moonshot",
        window_tokens=256_000,
        thinking=ThinkingRule(kinds=("effort", "budget"), levels=LEVELS),
        parameters=ParameterRules(temperature="fixed", fixed_temperature=1.0),
    ),
    "kimi of unknown warmth": ModelLimits(
        id="kimi of unknown warmth",
        provider="moonshot",
        window_tokens=256_000,
        parameters=ParameterRules(temperature="fixed"),
    ),
    "chat only": ModelLimits(
        id="chat only", provider="mistral", window_tokens=32_000, features={"tools": False}
    ),
    "unknown": ModelLimits(id="unknown", provider="openai", window_tokens=32_000, is_assumed=True),
}


def settle(layer: str = "request", **options: Any) -> Settled:
    asked = parse_options({"model": "m", **options})
    layers: dict[str, Any] = dict.fromkeys(given_options(asked), layer)
    return Settled(options=asked, layers=layers)


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "warm for Claude": ("old claude", {"temperature": 1.5}, "between 0 and 1 for old claude"),
    "temperature on a model that samples itself": (
        "new claude",
        {"temperature": 0.5},
        "temperature is not taken",
    ),
    "top_p on a model that samples itself": ("new claude", {"top_p": 0.5}, "top_p is not taken"),
    "top_k with OpenAI": ("gpt", {"top_k": 5}, "top_k has no meaning to openai"),
    "temperature while reasoning": (
        "gpt that reasons",
        {"temperature": 0.5, "thinking_level": "low"},
        "while the model does not reason",
    ),
    "temperature with reasoning by default": (
        "gpt that reasons",
        {"temperature": 0.5},
        "thinking_level='none'",
    ),
    "another temperature than the fixed one": ("kimi", {"temperature": 0.5}, "is fixed at 1"),
    "any temperature where it is fixed at nobody knows what": (
        "kimi of unknown warmth",
        {"temperature": 1},
        "temperature is fixed for",
    ),
    "top_p where sampling is fixed": ("kimi", {"top_p": 0.5}, "top_p is fixed"),
    "temperature and top_p": ("old claude", {"temperature": 0.5, "top_p": 0.5}, "only one of"),
    "temperature while Claude thinks": (
        "old claude",
        {"temperature": 0.5, "thinking_budget": 2000},
        "temperature cannot be combined with thinking_budget",
    ),
    "temperature while Claude thinks by level": (
        "middle claude",
        {"temperature": 0.5, "thinking_level": "low"},
        "temperature cannot be combined with thinking_level",
    ),
    "low top_p while Claude thinks": (
        "old claude",
        {"top_p": 0.5, "thinking_budget": 2000},
        "unless it is at least 0.95",
    ),
    "budget not below max_tokens": (
        "old claude",
        {"thinking_budget": 4000, "max_tokens": 4000},
        r"must be less than max_tokens \(4,000\)",
    ),
    "budget below the least": ("old claude", {"thinking_budget": 500}, "at least 1,024 tokens"),
    "budget above the most": ("gemini", {"thinking_budget": 40_000}, "between 128 and 32,768"),
    "budget where levels are asked for": (
        "new claude",
        {"thinking_budget": 2000},
        "Use thinking_level, one of: low",
    ),
    "level where a budget is asked for": (
        "old claude",
        {"thinking_level": "high"},
        "Use thinking_budget",
    ),
    "a level that nobody knows": (
        "gpt that reasons",
        {"thinking_level": "extreme"},
        "must be one of none, low, medium, high",
    ),
    "a level without reasoning": ("gpt", {"thinking_level": "low"}, "does not reason"),
    "a budget without reasoning": ("gpt", {"thinking_budget": 2000}, "does not reason"),
    "off by level where it always thinks": (
        "gpt that always reasons",
        {"thinking_level": "none"},
        "The least is thinking_level='low'",
    ),
    "off by budget where it always thinks": (
        "gemini",
        {"thinking_budget": 0},
        "cannot switch thinking off",
    ),
    "level and budget outside Anthropic": (
        "kimi",
        {"thinking_level": "low", "thinking_budget": 2000},
        "only one of thinking_level and thinking_budget",
    ),
    "no thinking, but a budget for it": (
        "middle claude",
        {"thinking_level": "none", "thinking_budget": 2000},
        "only one of",
    ),
    "highest level with thinking off": (
        "new claude",
        {"thinking_level": "max", "thinking_budget": 0},
        "only one of",
    ),
    "forced call where it is refused": ("new claude", {"tool_choice": "any"}, "cannot force"),
    "forced call while Claude thinks by budget": (
        "old claude",
        {"tool_choice": {"name": "t"}, "thinking_budget": 2000},
        "tool_choice cannot be combined with thinking_budget",
    ),
    "tool choice without tools": ("chat only", {"tool_choice": "auto"}, "nor are tools"),
    "stop sequences where none are taken": (
        "gpt without stop",
        {"stop_sequences": ["END"]},
        "stop_sequences is not taken",
    ),
    "a reply longer than the model's": ("old claude", {"max_tokens": 70_000}, "at most 64,000"),
}


@pytest.mark.parametrize(("model", "options", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_model_rejects_is_an_error_of_the_request(
    model: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidParameterError, match=says):
        validate_for_model(settle(**options), MODELS[model])


@pytest.mark.parametrize(("model", "options", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_model_rejects_gives_way_when_a_lower_layer_gave_it(
    model: str, options: dict[str, Any], says: str
) -> None:
    _, settled = validate_for_model(settle("agent", **options), MODELS[model])

    assert any("from the agent layer" in warning for warning in settled.warnings)
    validate_for_model(settled, MODELS[model])


TAKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "temperature with reasoning off": (
        "gpt that reasons",
        {"temperature": 0.5, "thinking_level": "none"},
    ),
    "warm for OpenAI": ("gpt", {"temperature": 1.5, "top_p": 0.5}),
    "the fixed temperature": ("kimi", {"temperature": 1}),
    "high top_p while Claude thinks": ("old claude", {"top_p": 0.97, "thinking_budget": 2000}),
    "level and budget with Anthropic": (
        "middle claude",
        {"thinking_level": "high", "thinking_budget": 2000},
    ),
    "switched off twice": ("middle claude", {"thinking_level": "none", "thinking_budget": 0}),
    "low effort with thinking off": ("new claude", {"thinking_level": "low", "thinking_budget": 0}),
    "highest effort": ("new claude", {"thinking_level": "max"}),
    "no tools where there are none": ("chat only", {"tool_choice": "none"}),
    "any call": ("gpt", {"tool_choice": "any"}),
    "a free choice": ("new claude", {"tool_choice": "auto"}),
    "anything on an unknown model": ("unknown", {"thinking_level": "odd", "max_tokens": 9}),
    "a budget on an unknown model": ("unknown", {"thinking_budget": 2000}),
    "top_k with Anthropic": ("old claude", {"top_k": 5}),
    "stop sequences": ("gpt", {"stop_sequences": ("END",)}),
    "stop sequences that Chat Completions takes": (
        "gpt that speaks Responses",
        {"stop_sequences": ("END",)},
    ),
}


@pytest.mark.parametrize(("model", "options"), TAKEN.values(), ids=TAKEN.keys())
def test_what_the_model_takes_is_sent_as_given(model: str, options: dict[str, Any]) -> None:
    asked = settle(**options)

    parameters, settled = validate_for_model(asked, MODELS[model])

    assert settled.warnings == ()
    for name, value in given_options(asked.options).items():
        if name != "model":
            assert getattr(parameters, name) == value


def test_default_stop_sequences_give_way_where_responses_is_spoken() -> None:
    asked = settle("agent", stop_sequences=["END"])

    parameters, settled = validate_for_model(asked, MODELS["gpt that speaks Responses"])

    assert parameters.stop_sequences == ()
    assert "stop_sequences is not taken" in settled.warnings[0]


def test_a_gateway_may_stop_for_the_model() -> None:
    limits = replace(MODELS["gpt without stop"], host="openrouter")

    parameters, _ = validate_for_model(settle(stop_sequences=["END"]), limits)

    assert parameters.stop_sequences == ("END",)


def test_what_merely_has_no_effect_is_no_error() -> None:
    parameters, settled = validate_for_model(settle(temperature=0.5), MODELS["gemini"])

    assert parameters.temperature is None
    assert "has no effect" in settled.warnings[0]


def test_switching_off_thinking_that_is_not_there_is_no_error() -> None:
    parameters, settled = validate_for_model(settle(thinking_level="none"), MODELS["gpt"])

    assert parameters.thinking_level is None
    assert len(settled.warnings) == 1


def test_of_two_options_that_exclude_each_other_the_lower_layers_gives_way() -> None:
    mixed = Settled(
        options=AssembleOptions(model="m", temperature=0.5, top_p=0.5),
        layers={"model": "system", "temperature": "agent", "top_p": "request"},
    )

    parameters, settled = validate_for_model(mixed, MODELS["old claude"])

    assert (parameters.temperature, parameters.top_p) == (None, 0.5)
    assert "temperature" not in settled.layers


DEFAULT_REPLIES: dict[str, tuple[str, dict[str, Any], int]] = {
    "at most 16,000": ("old claude", {}, 16_000),
    "on top of the thinking budget": ("old claude", {"thinking_budget": 2000}, 18_000),
    "what may be waited for without a stream": ("old claude", {"thinking_budget": 8000}, 21_333),
    "more where thinking alone takes that": ("old claude", {"thinking_budget": 21_333}, 37_333),
    "never above the model's own": ("gemini", {"thinking_budget": 32_768}, 48_768),
    "a quarter of a small window": ("old gpt", {}, 2048),
    "where the vendor names no limit": ("kimi", {}, 16_000),
}


@pytest.mark.parametrize(
    ("model", "options", "tokens"), DEFAULT_REPLIES.values(), ids=DEFAULT_REPLIES.keys()
)
def test_max_tokens_always_has_a_value(model: str, options: dict[str, Any], tokens: int) -> None:
    parameters, settled = validate_for_model(settle(**options), MODELS[model])

    assert parameters.max_tokens == tokens
    assert settled.layers["max_tokens"] == "model"


def test_too_long_a_reply_from_a_lower_layer_is_lowered_not_forgotten() -> None:
    parameters, settled = validate_for_model(
        settle("session", max_tokens=70_000), MODELS["old claude"]
    )

    assert parameters.max_tokens == 64_000
    assert "lowered to 64,000" in settled.warnings[0]


def test_the_highest_layer_wins_and_every_value_knows_its_layer() -> None:
    resolver = DefaultsResolver({"model": "a", "temperature": 0.1, "top_k": 1, "top_p": 0.1})

    settled = resolver.resolve(
        {"temperature": 0.4},
        session={"top_p": 0.3, "temperature": 0.3},
        agent=AssembleOptions(top_k=2, top_p=0.2, model="b"),
    )

    assert settled.options == AssembleOptions(model="b", temperature=0.4, top_k=2, top_p=0.3)
    assert settled.layers == {
        "temperature": "request",
        "top_p": "session",
        "top_k": "agent",
        "model": "agent",
    }


def test_an_empty_list_is_a_value_and_none_is_not() -> None:
    resolver = DefaultsResolver({"model": "a", "disabled_tools": ["x"], "query": "q"})

    settled = resolver.resolve({"disabled_tools": [], "query": None})

    assert settled.options.disabled_tools == ()
    assert settled.options.query == "q"


def test_without_a_model_the_error_says_where_to_give_one() -> None:
    with pytest.raises(MissingModelError, match="Model ID is required") as caught:
        DefaultsResolver().resolve()

    assert "model=" in caught.value.remedy


def test_bad_defaults_of_a_session_are_warnings() -> None:
    stored = {
        "temprature": 1,
        "max_tokens": "many",
        "top_p": 0.5,
        "model": "m",
        "query": None,
        "truncation_strategy": "smrt",
    }

    settled = DefaultsResolver().resolve(session=stored)

    assert settled.options == AssembleOptions(model="m", top_p=0.5)
    assert "Did you mean 'temperature'" in settled.warnings[0]
    assert "whole number" in settled.warnings[1]
    assert "Did you mean 'smart'" in settled.warnings[2]


def test_every_strategy_can_be_asked_for_and_no_other() -> None:
    assert set(get_args(TruncationStrategy)) == set(TRUNCATIONS)


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(UnknownOptionError, match="Did you mean 'max_tokens'"):
        DefaultsResolver({"max_token": 5})


READ: dict[str, tuple[str, Any, Any]] = {
    "a list as tuple": ("stop_sequences", ["a", "b"], ("a", "b")),
    "one text as list": ("permissions", "fs.*", ("fs.*",)),
    "an integer as number": ("temperature", 1, 1.0),
    "one tool": ("additional_tools", {"name": "t"}, ({"name": "t"},)),
    "tools": ("additional_tools", [{"name": "t"}], ({"name": "t"},)),
    "a word without its white space": ("model", " gpt ", "gpt"),
    "a closed set": ("cache", "off", "off"),
    "a flag": ("fresh", False, False),
    "auto": ("tool_choice", "auto", ToolChoice()),
    "required, as OpenAI says": ("tool_choice", "required", ToolChoice(mode="any")),
    "a tool by name": ("tool_choice", {"name": "t"}, ToolChoice(mode="tool", name="t")),
    "a tool as Anthropic says": (
        "tool_choice",
        {"type": "tool", "name": "t", "disable_parallel_tool_use": True},
        ToolChoice(mode="tool", name="t", allows_parallel=False),
    ),
    "a mode as Anthropic says": (
        "tool_choice",
        {"type": "any", "disable_parallel_tool_use": False},
        ToolChoice(mode="any", allows_parallel=True),
    ),
    "a tool as OpenAI chat says": (
        "tool_choice",
        {"type": "function", "function": {"name": "t"}},
        ToolChoice(mode="tool", name="t"),
    ),
    "a tool as OpenAI responses says": (
        "tool_choice",
        {"type": "function", "name": "t"},
        ToolChoice(mode="tool", name="t"),
    ),
    "as stored": (
        "tool_choice",
        {"mode": "none", "name": None, "allows_parallel": None},
        ToolChoice(mode="none"),
    ),
    "as it is": ("tool_choice", ToolChoice(mode="any"), ToolChoice(mode="any")),
    "parallel calls that are no flag": (
        "tool_choice",
        {"mode": "any", "allows_parallel": "yes"},
        ToolChoice(mode="any"),
    ),
}


@pytest.mark.parametrize(("name", "value", "read"), READ.values(), ids=READ.keys())
def test_options_are_read_into_their_own_types(name: str, value: Any, read: Any) -> None:
    assert parse_option(name, value) == read


WRONG: dict[str, tuple[str, Any, str]] = {
    "text for a number": ("temperature", "0.5", "between 0 and 2"),
    "truth for a number": ("temperature", True, "between 0 and 2"),
    "no number at all": ("top_p", float("nan"), "between 0 and 1"),
    "half a token": ("max_tokens", 10.5, "whole number of at least 1"),
    "truth for a count": ("top_k", True, "whole number"),
    "no tokens": ("max_tokens", 0, "at least 1"),
    "a number for a flag": ("fresh", 1, "true or false"),
    "a number for text": ("query", 5, "must be text"),
    "an empty model": ("model", " ", "non-empty"),
    "a list with a number": ("permissions", ["a", 1], "list of non-empty strings"),
    "a mapping for a list": ("stop_sequences", {"a": 1}, "list of non-empty strings"),
    "text for tools": ("additional_tools", "search", "list of tools"),
    "a value outside the set": ("cache", "of", "Unknown cache 'of'. Did you mean 'off'"),
    "an unknown mode": ("tool_choice", "automatic", "Did you mean 'auto'"),
    "a strategy that does not exist": (
        "truncation_strategy",
        "slidng",
        "Unknown truncation_strategy 'slidng'. Did you mean 'sliding'",
    ),
    "a strategy that is no text": ("truncation_strategy", [], "Unknown truncation_strategy"),
    "a choice of nothing": ("tool_choice", {"type": "tool"}, "names no known mode"),
    "a mode that is a list": ("tool_choice", {"name": "t", "type": []}, "names no known mode"),
    "a choice that is a number": ("tool_choice", 3, "a mode or a tool"),
}


@pytest.mark.parametrize(("name", "value", "says"), WRONG.values(), ids=WRONG.keys())
def test_wrong_values_say_what_would_be_right(name: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        parse_option(name, value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*OPTION_NAMES, "odd"]), JSON))
def test_stored_defaults_never_raise(stored: dict[str, Any]) -> None:
    settled = DefaultsResolver({"model": "m"}).resolve(session=stored)

    assert set(settled.layers.values()) <= set(LAYERS)


def test_every_option_can_be_given() -> None:
    for name in OPTION_NAMES:
        with pytest.raises(ConfigurationError):
            parse_option(name, b"\0")


SEARCH = {"type": "web_search_20260209", "name": "web_search"}
TOOLS = [
    ToolSpec(name="search"),
    ToolSpec(name="book"),
    ToolSpec(name="web_search", native_specs={"anthropic": SEARCH}),
]


@pytest.mark.parametrize("choice", [None, "auto", "none", "any", {"name": "book"}])
def test_a_choice_among_the_offered_tools_stands(choice: Any) -> None:
    asked = settle(tool_choice=choice)

    assert validate_tool_choice(asked, TOOLS, provider="openai_chat") is asked


def test_forcing_a_tool_that_is_not_offered_is_an_error() -> None:
    with pytest.raises(InvalidParameterError, match="Did you mean 'search'"):
        validate_tool_choice(settle(tool_choice={"name": "serch"}), TOOLS, provider="anthropic")


def test_a_tool_of_one_provider_is_offered_to_its_models_alone() -> None:
    asked = settle(tool_choice={"name": "web_search"})

    assert validate_tool_choice(asked, TOOLS, provider="anthropic") is asked
    with pytest.raises(InvalidParameterError, match="'web_search', which is not offered"):
        validate_tool_choice(asked, TOOLS, provider="openai_chat")
    with pytest.raises(InvalidParameterError, match="needs a tool"):
        validate_tool_choice(settle(tool_choice="any"), TOOLS[2:], provider="gemini")


def test_forcing_a_call_without_tools_gives_way_below_the_request() -> None:
    among = {"mode": "auto", "allowed": ["search", "serch"]}
    with pytest.raises(InvalidParameterError, match="'serch', which is not offered"):
        validate_tool_choice(settle(tool_choice=among), TOOLS, provider="openai_chat")

    settled = validate_tool_choice(settle("session", tool_choice="any"), [], provider="anthropic")

    assert settled.options.tool_choice is None
    assert "needs a tool" in settled.warnings[0]


@settings(max_examples=300)
@given(
    model=st.sampled_from(sorted(default_registry().ids())),
    given_values=st.fixed_dictionaries(
        {},
        optional={
            "temperature": st.sampled_from([0.0, 0.5, 1.0, 1.5]),
            "top_p": st.sampled_from([0.1, 0.95]),
            "top_k": st.just(5),
            "thinking_level": st.sampled_from(["none", "low", "high", "xhigh", "max", "odd"]),
            "thinking_budget": st.sampled_from([0, 500, 2000, 20_000]),
            "max_tokens": st.sampled_from([1000, 4000, 1_000_000]),
            "tool_choice": st.sampled_from(["auto", "any", {"name": "t"}]),
        },
    ),
)
def test_what_is_left_of_lower_layers_every_known_model_takes_in_a_request(
    model: str, given_values: dict[str, Any]
) -> None:
    limits = default_registry().get(model)

    parameters, settled = validate_for_model(settle("agent", **given_values), limits)
    again, unchanged = validate_for_model(replace(settled, layers={}, warnings=()), limits)

    assert again == parameters
    assert unchanged.warnings == ()
