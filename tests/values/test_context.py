"""`AssembledContext`: every payload is held against its provider's rules."""

import warnings
from dataclasses import replace
from functools import partial

import pytest

from context_assembler import AssembledContext, AssemblerConfig, ContextAssembler, PayloadWarning
from context_assembler.values.context import Payload, ProviderFunctions
from context_assembler.values.draft import Draft
from context_assembler.values.report import Violation

PROVIDERS = ("anthropic", "openai_chat", "openai_responses", "gemini")
REFUSED = Violation(rule="X1", level="refused", where="messages[0]", message="no", source="s")
HARMFUL = replace(REFUSED, rule="X2", level="avoid")


async def assembled(*, checks_payloads: bool = True) -> AssembledContext:
    """Return the context of a session with one question."""
    config = AssemblerConfig(checks_payloads=checks_payloads)
    assembler = ContextAssembler(sessions="memory:", config=config)
    await assembler.add_user("chat", "hello")
    return await assembler.assemble("chat", model="claude-opus-5-5")


def _find(found: list[Violation], _payload: Payload, _draft: Draft) -> list[Violation]:
    return found


def judged(context: AssembledContext, *found: Violation) -> AssembledContext:
    """Return the context with providers that find these rules broken in every payload."""
    functions = {
        name: ProviderFunctions(render=own.render, check=partial(_find, list(found)))
        for name, own in context.functions.items()
    }
    return replace(context, functions=functions)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_payload_that_would_be_refused_is_a_warning_that_names_the_rule(
    provider: str,
) -> None:
    context = judged(await assembled(), REFUSED, HARMFUL)

    with pytest.warns(
        PayloadWarning, match=rf"{provider} will refuse .*'chat': X1 at messages"
    ) as told:
        payload = context.to_request(provider)

    assert payload == replace(context, checks_payloads=False).to_request(provider)
    assert "X2" not in str(told[0].message)


async def test_the_warning_points_at_the_caller() -> None:
    context = judged(await assembled(), REFUSED)

    with pytest.warns(PayloadWarning) as told:
        context.to_request()

    assert told[0].filename == __file__


async def test_a_rule_that_merely_harms_is_no_warning() -> None:
    context = judged(await assembled(), HARMFUL)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        context.to_anthropic()


async def test_payloads_are_not_checked_where_the_settings_say_so() -> None:
    context = judged(await assembled(checks_payloads=False), REFUSED)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for provider in PROVIDERS:
            context.to_request(provider)
