from dataclasses import replace

import pytest

from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.values.limits import ModelLimits
from tests.providers.drafts import GPT_4O, MISTRAL, OPUS

GEMINI = replace(MISTRAL, id="gemini-4-argon", provider="google")
PROTOCOLS: dict[str, tuple[ModelLimits, str]] = {
    "Anthropic": (OPUS, "anthropic"),
    "Anthropic on a cloud": (replace(OPUS, host="bedrock"), "anthropic"),
    "Anthropic through a gateway": (replace(OPUS, host="openrouter"), "openai_chat"),
    "OpenAI": (GPT_4O, "openai_chat"),
    "a vendor that speaks Chat Completions": (MISTRAL, "openai_chat"),
    "Google, which is not bundled": (GEMINI, "gemini"),
}


@pytest.mark.parametrize(("limits", "name"), PROTOCOLS.values(), ids=PROTOCOLS.keys())
def test_a_models_server_speaks(limits: ModelLimits, name: str) -> None:
    assert provider_for(limits) == name


def test_every_row_is_filed_under_its_own_name() -> None:
    assert {name: provider.name for name, provider in PROVIDERS.items()} == {
        name: name for name in PROVIDERS
    }
