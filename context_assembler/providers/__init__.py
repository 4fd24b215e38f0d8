"""Wire protocols: how each model provider wants a request spelled, and answers it."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from context_assembler.errors import ReplyError
from context_assembler.ports import Provider
from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.providers.gemini import GEMINI
from context_assembler.providers.openai_chat import OPENAI_CHAT
from context_assembler.providers.openai_responses import OPENAI_RESPONSES
from context_assembler.values.context import Payload, ProviderFunctions
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.report import Violation
from context_assembler.values.vouching import is_approved

PROVIDERS: Final[Mapping[str, Provider]] = {
    "anthropic": ANTHROPIC,
    "openai_chat": OPENAI_CHAT,
    "openai_responses": OPENAI_RESPONSES,
    "gemini": GEMINI,
}

# The vendors that have a protocol of their own. Every other one speaks Chat Completions.
_PROTOCOLS_BY_VENDOR: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "google": "gemini",
}

# Where a vendor's own protocol is spoken; a gateway speaks Chat Completions for every model.
_VENDOR_HOSTS: Final = frozenset({None, "azure", "bedrock", "vertex_ai"})
_RESPONSES_HOSTS: Final = frozenset({None, "azure"})


def provider_for(limits: ModelLimits) -> str:
    """Return the name of the protocol that the model's server speaks, bundled or not.

    OpenAI's models that refuse function tools beside reasoning in Chat Completions speak Responses,
    with tools or without: a session that changed its protocol when its tools change would lose its
    reasoning and its cached prefix.

    Source:
        https://developers.openai.com/api/docs/guides/deployment-checklist
        https://github.com/danny-avila/LibreChat/issues/14231 (read 2026-11-27)
    """
    if limits.protocol is not None:
        return limits.protocol
    if limits.host not in _VENDOR_HOSTS:
        return OPENAI_CHAT.name
    if limits.provider == "openai" and limits.host in _RESPONSES_HOSTS and _needs_responses(limits):
        return OPENAI_RESPONSES.name
    return _PROTOCOLS_BY_VENDOR.get(limits.provider, OPENAI_CHAT.name)


def other_protocols(limits: ModelLimits) -> tuple[str, ...]:
    """Return the protocols beside its usual one that take the model's reasoning back.

    OpenAI's models that are asked over Chat Completions can be asked over Responses as well.

    Source:
        https://platform.openai.com/docs/guides/reasoning (read 2026-11-27)
    """
    is_both = limits.provider == "openai" and limits.host in _RESPONSES_HOSTS
    if not is_both or not limits.thinking.kinds or provider_for(limits) != OPENAI_CHAT.name:
        return ()
    return (OPENAI_RESPONSES.name,)


def _check(name: str, payload: Payload, draft: Draft) -> list[Violation]:
    return PROVIDERS[name].check_payload(payload, limits=draft.limits)


def _render_checked(name: str, draft: Draft) -> tuple[Payload, list[Violation]]:
    spelled = PROVIDERS[name].spell(draft)
    check = partial(PROVIDERS[name].check_payload, limits=draft.limits)
    if is_approved(spelled, draft, provider=name, check=check):
        return spelled.payload, []
    return spelled.payload, check(spelled.payload)


# What an assembled context carries along; plain functions, so that it can be pickled.
PROVIDER_FUNCTIONS: Final[Mapping[str, ProviderFunctions]] = {
    name: ProviderFunctions(
        render=provider.render,
        check=partial(_check, name),
        render_checked=partial(_render_checked, name),
    )
    for name, provider in PROVIDERS.items()
}


def _needs_responses(limits: ModelLimits) -> bool:
    return limits.features.get("chat_tools_with_reasoning") is False


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


__all__ = [
    "ANTHROPIC",
    "GEMINI",
    "OPENAI_CHAT",
    "OPENAI_RESPONSES",
    "PROVIDERS",
    "PROVIDER_FUNCTIONS",
    "other_protocols",
    "provider_for",
    "provider_for_reply",
]
