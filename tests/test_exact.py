"""`exact=True`: a payload is held against the provider's own count before it is returned."""

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from context_assembler import ConfigurationError, ContextAssembler, assistant_event, user_event
from context_assembler.testing import ProviderServer, serve_providers

MODEL = "claude-opus-5-5"


@pytest.fixture(scope="module")
def server() -> Iterator[ProviderServer]:
    with serve_providers() as running:
        yield running


async def long_chat(**given: Any) -> ContextAssembler:
    assembler = ContextAssembler(sessions="memory:", **given)
    said = [user_event("Tell me of tea. " * 40), assistant_event("Tea is a drink. " * 40)] * 20
    await assembler.sessions.append("s", [*said, user_event("And now?")])
    return assembler


def client_at(server: ProviderServer) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key="test")


async def test_the_provider_s_count_stands_in_the_ledger_beside_ours(
    server: ProviderServer,
) -> None:
    assembler = await long_chat(clients=[client_at(server)])

    context = await assembler.assemble("s", model=MODEL, exact=True)
    ledger = context.metadata.ledger

    assert ledger.counted_tokens is not None
    assert ledger.expected_tokens == ledger.counted_tokens != ledger.used_tokens
    assert context.report.ledger == ledger
    assert context.messages == (await assembler.assemble("s", model=MODEL)).messages


async def test_a_payload_that_is_over_by_the_true_count_is_cut_once_more(
    server: ProviderServer,
) -> None:
    assembler = await long_chat(clients=[client_at(server)])
    whole = await assembler.assemble("s", model=MODEL, exact=True)
    counted = whole.metadata.ledger.counted_tokens
    assert counted is not None
    ours = whole.metadata.ledger.used_tokens
    assert ours < counted, "the local provider counts more, so that there is something to correct"
    budget = (ours + counted) // 2

    context = await assembler.assemble("s", model=MODEL, exact=True, max_context_tokens=budget)

    assert context.metadata.truncated
    assert (context.metadata.ledger.counted_tokens or budget + 1) <= budget


async def test_an_answer_from_the_cache_asks_nobody(server: ProviderServer) -> None:
    assembler = await long_chat(clients=[client_at(server)])
    await assembler.assemble("s", model=MODEL, exact=True)
    before = len(server.counted)

    again = await assembler.assemble("s", model=MODEL, exact=True)

    assert again.metadata.cache_hit
    assert len(server.counted) == before


async def test_without_exact_no_client_is_asked(server: ProviderServer) -> None:
    assembler = await long_chat(clients=[client_at(server)])
    before = len(server.counted)

    context = await assembler.assemble("s", model=MODEL)

    assert context.metadata.ledger.counted_tokens is None
    assert len(server.counted) == before


async def test_an_endpoint_that_does_not_answer_is_a_warning_and_our_count_holds() -> None:
    nowhere = anthropic.AsyncAnthropic(base_url="http://127.0.0.1:9", api_key="test", max_retries=0)
    assembler = await long_chat(clients=[nowhere])

    context = await assembler.assemble("s", model=MODEL, exact=True)

    assert context.metadata.ledger.counted_tokens is None
    assert any("did not count" in warning for warning in context.report.warnings)


@pytest.mark.parametrize("clients", [None, []])
async def test_without_a_client_the_error_says_what_to_pass(clients: Any) -> None:
    assembler = await long_chat(clients=clients)

    with pytest.raises(ConfigurationError, match="clients="):
        await assembler.assemble("s", model=MODEL, exact=True)
