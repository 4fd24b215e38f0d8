"""Wire protocols: how each model provider wants a request spelled, and answers it."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from context_assembler.errors import ReplyError
from context_assembler.on_demand import RowsOnDemand
from context_assembler.ports import Provider
from context_assembler.values.context import Payload, ProviderFunctions
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.report import Violation
from context_assembler.values.vouching import is_approved


# A request needs one of them: what the others are made of is not loaded for it.
def _load_anthropic() -> Provider:
    from context_assembler.providers.anthropic import ANTHROPIC  # noqa: PLC0415

    return ANTHROPIC


def _load_openai_chat() -> Provider:
    from context_assembler.providers.openai_chat import OPENAI_CHAT  # noqa: PLC0415

    return OPENAI_CHAT


def _load_openai_responses() -> Provider:
    from context_assembler.providers.openai_responses import OPENAI_RESPONSES  # noqa: PLC0415

    return OPENAI_RESPONSES


def _load_gemini() -> Provider:
    from context_assembler.providers.gemini import GEMINI  # noqa: PLC0415

    return GEMINI


PROVIDERS: Final[Mapping[str, Provider]] = RowsOnDemand(
    {
        "anthropic": _load_anthropic,
        "openai_chat": _load_openai_chat,
        "openai_responses": _load_openai_responses,
        "gemini": _load_gemini,
    }
)

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
        return "openai_chat"
    if limits.provider == "openai" and limits.host in _RESPONSES_HOSTS and _needs_responses(limits):
        return "openai_responses"
    return _PROTOCOLS_BY_VENDOR.get(limits.provider, "openai_chat")


def other_protocols(limits: ModelLimits) -> tuple[str, ...]:
    """Return the protocols beside its usual one that take the model's reasoning back.

    OpenAI's models that are asked over Chat Completions can be asked over Responses as well.

    Source:
        https://platform.openai.com/docs/guides/reasoning (read 2026-11-27)
    """
    is_both = limits.provider == "openai" and limits.host in _RESPONSES_HOSTS
    if not is_both or not limits.thinking.kinds or provider_for(limits) != "openai_chat":
        return ()
    return ("openai_responses",)


def _render(name: str, draft: Draft) -> Payload:
    return PROVIDERS[name].render(draft)


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
        render=partial(_render, name),
        check=partial(_check, name),
        render_checked=partial(_render_checked, name),
    )
    for name in PROVIDERS
}


def _needs_responses(limits: ModelLimits) -> bool:
    return limits.features.get("chat_tools_with_reasoning") is False


def provider_for_reply(reply: Any, *, asked: str | None = None) -> Provider:
    """Return the provider whose shape the reply has.

    Args:
        asked: The provider whose reply it should be: where it is, no other is loaded.

    Raises:
        ReplyError: No bundled provider answers like that.
    """
    for name in sorted(PROVIDERS, key=lambda name: name != asked):
        if PROVIDERS[name].matches_reply(reply):
            return PROVIDERS[name]
    listed = ", ".join(sorted(PROVIDERS))
    raise ReplyError(reply, reason=f"it has the shape of none of {listed}")


__all__ = [
    "PROVIDERS",
    "PROVIDER_FUNCTIONS",
    "other_protocols",
    "provider_for",
    "provider_for_reply",
]
