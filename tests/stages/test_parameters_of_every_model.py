"""Every parameter with every other, over every row: refused with a reason, or sent and accepted."""

from collections.abc import Mapping
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.errors import InvalidParameterError, UnsupportedRequestError
from context_assembler.limits import ModelRegistry
from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.providers.anthropic.setting_rules import MAX_WHOLE_TOKENS
from context_assembler.providers.openai_chat.dialect import WITHOUT_STOP
from context_assembler.stages.resolve_defaults import parse_options, validate_for_model
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.option_rules import given_options
from context_assembler.values.options import Layer, Settled
from context_assembler.values.parts import Text
from context_assembler.values.tools import ToolSpec

REGISTRY = ModelRegistry(overrides=[])
ASSUMED = ("claude-opus-9", "gpt-7", "gemini-9-pro", "openrouter/x/my-model")
HOSTED = (
    "azure/o3",
    "azure/gpt-5.6-sol",
    "bedrock/anthropic.claude-sonnet-4-6",
    "openrouter/openai/gpt-5.6-sol",
    "vertex_ai/gemini-4-argon",
)
NAMES = (*REGISTRY.ids(), *ASSUMED, *HOSTED)


def rules_of(limits: ModelLimits) -> object:
    """Return everything that decides what may be asked for."""
    settings_of = (limits.thinking, limits.parameters, sorted(limits.features.items()))
    sizes = (limits.window_tokens, limits.window_kind, limits.output_tokens)
    own_quirks = WITHOUT_STOP.fullmatch(limits.id), limits.id.startswith("gpt-oss")
    host = (limits.provider, limits.host, limits.is_assumed)
    return repr((settings_of, sizes, host, [bool(quirk) for quirk in own_quirks]))


# Models with the same rules are tried once.
MODELS = {
    rules_of(limits): limits
    for limits in (REGISTRY.get(name, unknown="conservative") for name in NAMES)
}
VALUES: Mapping[str, tuple[Any, ...]] = {
    "temperature": (0.0, 1.0, 1.5),
    "top_p": (0.5, 0.97),
    "top_k": (5,),
    "stop_sequences": (["END"],),
    "thinking_level": ("none", "minimal", "low", "high", "xhigh", "max"),
    "thinking_budget": (0, 2000, 30_000),
    "max_tokens": (4000, 21_333, 21_334, 500_000),
    "tool_choice": ("auto", "none", "any", {"name": "t"}),
}
TOOL = ToolSpec(name="t", description="Does it.", input_schema={"type": "object", "properties": {}})

every_model = pytest.mark.parametrize(
    "limits", MODELS.values(), ids=[limits.asked_id for limits in MODELS.values()]
)


def pairs() -> list[dict[str, Any]]:
    return [
        dict(zip(names, values, strict=True))
        for names in combinations(VALUES, 2)
        for values in product(*(VALUES[name] for name in names))
    ]


def long_reply(payload: Mapping[str, Any], limits: ModelLimits) -> list[str]:
    """Return the advice on a reply that Anthropic's SDK fetches as a stream alone; nothing else.

    The model takes it, and how the SDK is called is no parameter: it is told, and never refused.
    """
    is_long = payload.get("max_tokens", 0) > MAX_WHOLE_TOKENS
    return ["avoid A31"] if is_long and provider_for(limits) == "anthropic" else []


def send(limits: ModelLimits, asked: dict[str, Any], layer: Layer) -> list[str]:
    """Settle, spell and check; return what the provider would object to, beside long replies."""
    options = parse_options({"model": limits.id, **asked})
    settled = Settled(options=options, layers=dict.fromkeys(given_options(options), layer))
    parameters, _ = validate_for_model(settled, limits)
    hello = Message(role="user", parts=(Text("Hello"),))
    tools = (TOOL,) if limits.supports("tools") else ()
    draft = Draft(limits=limits, parameters=parameters, messages=(hello,), tools=tools)
    provider = PROVIDERS[provider_for(limits)]
    payload = provider.render(draft)
    broken = provider.check_payload(payload, limits=limits)
    advice = [f"{one.level} {one.rule}" for one in broken if one.rule == "A31"]
    assert advice == long_reply(payload, limits), asked
    return [f"{one.rule}: {one.message}" for one in broken if one.rule != "A31"]


def test_rows_say_what_the_chat_protocol_knows_of_stop_sequences() -> None:
    refusing = {row.id for row in REGISTRY.rows() if not row.parameters.accepts_stop}
    own = {row.id for row in REGISTRY.rows() if row.provider == "openai"}

    assert refusing == {model for model in own if WITHOUT_STOP.fullmatch(model)}


@every_model
def test_what_a_request_may_ask_for_the_provider_accepts(limits: ModelLimits) -> None:
    for asked in pairs():
        broken, remedy = ask(limits, asked)

        assert broken == [], asked
        assert remedy != "", asked


def ask(limits: ModelLimits, asked: dict[str, Any]) -> tuple[list[str], str | None]:
    """Return what the provider objects to, or the remedy of the error that came before."""
    try:
        return send(limits, asked, "request"), None
    except (InvalidParameterError, UnsupportedRequestError) as error:
        return [], error.remedy


@every_model
def test_defaults_of_a_lower_layer_never_stop_a_request(limits: ModelLimits) -> None:
    for asked in pairs():
        assert send(limits, asked, "agent") == [], asked


@settings(max_examples=150)
@given(
    limits=st.sampled_from(list(MODELS.values())),
    asked=st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(values) for name, values in VALUES.items()}
    ),
)
def test_nor_do_all_of_them_together(limits: ModelLimits, asked: dict[str, Any]) -> None:
    assert send(limits, asked, "agent") == []
