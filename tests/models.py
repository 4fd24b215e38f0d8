"""A model for each provider, by the provider's name."""

from typing import Final

MODELS: Final = {
    "anthropic": "claude-opus-5-5",
    "openai_chat": "gpt-4.1",
    "openai_responses": "gpt-6.2-sol",
    "gemini": "gemini-4-argon",
}
