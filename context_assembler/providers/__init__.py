"""Wire protocols: how each model provider wants a request spelled, and answers it."""

from collections.abc import Mapping
from typing import Any, Final

from context_assembler.errors import ReplyError
from context_assembler.ports import Provider
from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.providers.openai_chat import OPENAI_CHAT
from context_assembler.values.limits import ModelLimits

PROVIDERS: Final[Mapping[str, Provider]] = {
    "anthropic": ANTHROPIC,
    "openai_chat": OPENAI_CHAT,
}

# The vendors that have a protocol of their own. Every other one speaks Chat Completions.
_PROTOCOLS_BY_VENDOR: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "google": "gemini",
}

# Where a vendor's own protocol is spoken; a gateway speaks Chat Completions for every model.
_VENDOR_HOSTS: Final = frozenset({None, "azure", "bedrock", "vertex_ai"})


def provider_for(limits: ModelLimits) -> str:
    """Return the name of the protocol that the model's server speaks, bundled or not."""
    if limits.host not in _VENDOR_HOSTS:
        return OPENAI_CHAT.name
    return _PROTOCOLS_BY_VENDOR.get(limits.provider, OPENAI_CHAT.name)


def provider_for_reply(reply: Any) -> Provider:
    """Return the provider whose shape the reply has.

    Raises:
        ReplyError: No bundled provider answers like that.
    """
    for provider in PROVIDERS.values():
        if provider.matches_reply(reply):
            return provider
    listed = ", ".join(sorted(PROVIDERS))
    raise ReplyError(reply, reason=f"it has the shape of none of {listed}")


__all__ = ["ANTHROPIC", "OPENAI_CHAT", "PROVIDERS", "provider_for", "provider_for_reply"]
