from dataclasses import replace

import pytest

from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.values.limits import ModelLimits
from tests.providers.drafts import GPT_4O, GPT_6_SOL, GPT_62, MISTRAL, OPUS

GEMINI = replace(MISTRAL, id="gemini-4-argon", provider="google")
PROTOCOLS: dict[str, tuple[ModelLimits, str]] = {
    "Anthropic": (OPUS, "anthropic"),
    "Anthropic on a cloud": (replace(OPUS, host="bedrock"), "anthropic"),
    "Anthropic through a gateway": (replace(OPUS, host="openrouter"), "openai_chat"),
    "OpenAI": (GPT_4O, "openai_chat"),
    "OpenAI, where Chat takes no tools beside reasoning": (GPT_6_SOL, "openai_responses"),
    "OpenAI, where reasoning cannot be off": (GPT_62, "openai_responses"),
    "such a model on Azure": (replace(GPT_62, host="azure"), "openai_responses"),
    "such a model on another cloud": (replace(GPT_62, host="bedrock"), "openai_chat"),
    "such a model through a gateway": (replace(GPT_62, host="openrouter"), "openai_chat"),
    "a vendor that speaks Chat Completions": (MISTRAL, "openai_chat"),
    "Google": (GEMINI, "gemini"),
}


@pytest.mark.parametrize(("limits", "name"), PROTOCOLS.values(), ids=PROTOCOLS.keys())
def test_a_models_server_speaks(limits: ModelLimits, name: str) -> None:
    assert provider_for(limits) == name


def test_every_row_is_filed_under_its_own_name() -> None:
    assert {name: provider.name for name, provider in PROVIDERS.items()} == {
        name: name for name in PROVIDERS
    }
