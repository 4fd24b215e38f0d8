"""Who can read what a provider signed: the model, the account, the route."""

import pytest

from context_assembler.limits import get_model_limits
from context_assembler.values.events import CompactionBody, Provenance
from context_assembler.values.parts import JsonObject, Opaque
from context_assembler.values.readers import Reader, route_of

# A model as it is asked for; the route without and with the caller's tag.
ROUTES: dict[str, tuple[str, str | None, str]] = {
    "OpenAI itself": ("gpt-6.2-sol", None, "me"),
    "OpenAI behind Azure": ("azure/gpt-6.2-sol", "@azure", "me@azure"),
    "Google itself": ("gemini-4-argon", None, "me"),
    "Google by its own prefix": ("gemini/gemini-4-argon", None, "me"),
    "Google Cloud": ("vertex_ai/gemini-4-argon", "@vertex_ai", "me@vertex_ai"),
    "Anthropic itself": ("claude-haiku-5-5", None, "me"),
    "a Claude bound to its account": ("vertex_ai/claude-haiku-5-5", "@vertex_ai", "me@vertex_ai"),
    "another such": ("bedrock/claude-sonnet-5-5", "@bedrock", "me@bedrock"),
    "a Claude bound to no account": ("vertex_ai/claude-opus-5-5", None, "me"),
    "an older Claude": ("bedrock/claude-opus-4-8", None, "me"),
}


@pytest.mark.parametrize(("model", "untagged", "tagged"), ROUTES.values(), ids=ROUTES.keys())
def test_what_signed_reasoning_is_bound_to(model: str, untagged: str | None, tagged: str) -> None:
    limits = get_model_limits(model)

    assert route_of(limits, account=None) == untagged
    assert route_of(limits, account="me") == tagged


@pytest.mark.parametrize(("summary", "is_read"), [("They met.", True), ("They\0 met.", False)])
def test_a_signed_compaction_is_read_only_as_it_came(summary: str, *, is_read: bool) -> None:
    limits = get_model_limits("claude-opus-5-5")
    block: JsonObject = {"type": "compaction", "content": summary, "signature": "c2ln"}
    body = CompactionBody(
        summary=summary,
        first_seq=1,
        last_seq=2,
        native=(Opaque(provider="anthropic", block=block),),
        made_by=Provenance(provider="anthropic", model="claude-opus-5-5"),
    )

    reader = Reader(provider="anthropic", limits=limits)

    assert reader.reads_compaction(body) is is_read
