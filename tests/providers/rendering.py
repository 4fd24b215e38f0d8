"""Drafts rendered as the provider tests look at them: a payload, and its text."""

from context_assembler.ports import Provider
from context_assembler.values.context import Payload
from context_assembler.values.draft import Draft


def render_valid(provider: Provider, made: Draft) -> Payload:
    """Return the payload, which must keep to every rule of its provider."""
    payload = provider.render(made)
    assert provider.check_payload(payload, limits=made.limits) == []
    return payload


def text(value: str) -> dict[str, str]:
    """Return a text as Anthropic and Chat Completions spell it."""
    return {"type": "text", "text": value}
