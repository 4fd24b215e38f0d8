"""Counts by the providers' own endpoints."""

from types import SimpleNamespace
from typing import Any

import pytest

from context_assembler.errors import ConfigurationError, RemoteCountError
from context_assembler.tokens.remote import RemoteCounter, correction

PAYLOAD: dict[str, Any] = {"model": "m", "messages": [], "max_tokens": 9}


class Endpoint:
    """Answers what it was given, or raises it, and keeps what it was asked."""

    def __init__(self, answer: Any, *, is_async: bool = False) -> None:
        self.answer, self.is_async = answer, is_async
        self.asked: list[dict[str, Any]] = []

    def count_tokens(self, **arguments: Any) -> Any:
        self.asked.append(arguments)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self._later() if self.is_async else self.answer

    count = count_tokens

    async def _later(self) -> Any:
        return self.answer


def anthropic(endpoint: Endpoint) -> dict[str, Any]:
    beta = SimpleNamespace(messages=Endpoint({"input_tokens": 7}))
    return {"anthropic": SimpleNamespace(messages=endpoint, beta=beta)}


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_same_payload_is_asked_about_once(is_async: bool) -> None:
    endpoint = Endpoint(SimpleNamespace(input_tokens=5), is_async=is_async)
    remote = RemoteCounter(anthropic(endpoint))

    counts = [
        await remote.count(PAYLOAD | {"max_tokens": n}, provider="anthropic") for n in range(3)
    ]

    assert counts == [5, 5, 5]
    assert endpoint.asked == [{"model": "m", "messages": []}]
    assert await remote.count(PAYLOAD | {"betas": ["x"]}, provider="anthropic") == 7


async def test_openai_is_asked_in_responses() -> None:
    endpoint = Endpoint({"input_tokens": 5})
    client = SimpleNamespace(responses=SimpleNamespace(input_tokens=endpoint))
    remote = RemoteCounter({"openai": client})

    tokens = await remote.count({"model": "m", "input": [], "store": False}, provider="openai_chat")

    assert (remote.protocol_for("openai_chat"), tokens) == ("openai_responses", 5)
    assert endpoint.asked == [{"model": "m", "input": []}]


async def test_gemini_counts_instructions_and_tools_in_config_or_in_a_request_of_its_own() -> None:
    endpoint = Endpoint(SimpleNamespace(total_tokens=9))
    payload = {"model": "m", "contents": [], "config": {"system_instruction": "Hi", "top_p": 1}}

    for is_vertex in (True, False):
        client = SimpleNamespace(vertexai=is_vertex, models=endpoint)
        assert await RemoteCounter({"google": client}).count(payload, provider="gemini") == 9

    vertex, own = (asked["config"] for asked in endpoint.asked)
    request = own["http_options"]["extra_body"]["generateContentRequest"]
    assert vertex == {"system_instruction": "Hi"}
    assert request["system_instruction"] == {"parts": [{"text": "Hi"}]}
    assert (request["model"], request["contents"]) == ("models/m", [])


FAILURES = {
    "no number": ({"tokens": 5}, "it answered None"),
    "its own words": (OSError("no such\nmodel"), "did not count the payload: no such model"),
}


@pytest.mark.parametrize(("answer", "reason"), FAILURES.values(), ids=FAILURES.keys())
async def test_a_refusal_is_reported_with_a_remedy(answer: Any, reason: str) -> None:
    with pytest.raises(RemoteCountError, match=reason) as caught:
        await RemoteCounter(anthropic(Endpoint(answer))).count(PAYLOAD, provider="anthropic")

    assert "exact=True" in caught.value.remedy


def test_what_has_no_endpoint_or_client_says_so() -> None:
    remote = RemoteCounter([])

    for provider in ("bedrock", "gemini"):
        with pytest.raises(ConfigurationError, match=f"for '{provider}' needs a client"):
            remote.protocol_for(provider)
    with pytest.raises(ConfigurationError, match="not a client of a provider"):
        RemoteCounter([object()])


def test_a_client_of_an_sdk_is_known_by_its_package() -> None:
    client = type("Anthropic", (), {"__module__": "anthropic._client"})()

    assert RemoteCounter([client]).protocol_for("anthropic") == "anthropic"


def test_a_payload_over_its_budget_says_by_how_much_to_correct() -> None:
    assert correction(100, used_tokens=90, budget_tokens=100) is None
    assert correction(110, used_tokens=100, budget_tokens=100) == 1.106
    assert correction(101, used_tokens=120, budget_tokens=100, factor=1.2) == 1.2
