"""Counts by the providers' own endpoints: the real SDKs, over real HTTP."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai.types import HttpOptions

from context_assembler import AssembledContext, ContextAssembler
from context_assembler.errors import ConfigurationError, RemoteCountError
from context_assembler.testing import ProviderServer, serve_providers
from context_assembler.tokens.remote import RemoteCounter, correction, fit_exactly
from context_assembler.values.token_count import TokenCount

QUESTION = "How many tokens has this question about green tea?"
NO_KEY = "test"


@pytest.fixture(scope="module")
def server() -> Iterator[ProviderServer]:
    with serve_providers() as running:
        yield running


def client_of(name: str, server: ProviderServer) -> Any:
    match name:
        case "anthropic":
            return anthropic.Anthropic(base_url=server.anthropic_url, api_key=NO_KEY)
        case "anthropic async":
            return anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key=NO_KEY)
        case "openai":
            return openai.OpenAI(base_url=server.openai_url, api_key=NO_KEY)
        case "openai async":
            return openai.AsyncOpenAI(base_url=server.openai_url, api_key=NO_KEY)
        case _:
            options = HttpOptions(base_url=server.gemini_url)
            return genai.Client(api_key=NO_KEY, http_options=options)


def look_up(city: str) -> str:
    """Tell the weather of a city."""
    return city


async def assembled(model: str, **options: Any) -> AssembledContext:
    assembler = ContextAssembler(sessions="memory:", tools=[look_up])
    await assembler.add_user("s", QUESTION)
    return await assembler.assemble(
        "s", model=model, additional_system_prompt="You sell tea.", **options
    )


CLIENTS = {
    "anthropic": "claude-opus-5-5",
    "anthropic async": "claude-opus-5-5",
    "openai": "gpt-4o",
    "openai async": "gpt-6.2-sol",
    "gemini": "gemini-2.5-pro",
}


@pytest.mark.parametrize(("name", "model"), CLIENTS.items())
async def test_the_endpoint_counts_the_whole_payload(
    server: ProviderServer, name: str, model: str
) -> None:
    context = await assembled(model)
    remote = RemoteCounter([client_of(name, server)])

    payload = context.to_request(remote.protocol_for(context.provider))
    counted = await remote.count(payload, provider=context.provider)

    prompt = str(server.counted[-1])
    assert counted.tokens > 10
    assert (counted.low, counted.high, counted.method) == (counted.tokens,) * 2 + ("reported",)
    assert all(piece in prompt for piece in (QUESTION, "You sell tea.", "look_up"))


async def test_the_same_payload_is_asked_about_once(server: ProviderServer) -> None:
    context = await assembled("claude-opus-5-5")
    remote = RemoteCounter([client_of("anthropic async", server)])
    before = len(server.counted)

    counts = [
        await remote.count(context.to_anthropic(), provider="anthropic"),
        await remote.count(context.to_anthropic(), provider="anthropic"),
        await remote.count({**context.to_anthropic(), "max_tokens": 5}, provider="anthropic"),
    ]

    assert len(set(counts)) == 1
    assert len(server.counted) == before + 1


async def test_a_refusal_is_told_in_the_provider_s_words(server: ProviderServer) -> None:
    remote = RemoteCounter([client_of("anthropic async", server)])
    payload = {**(await assembled("claude-opus-5-5")).to_anthropic(), "model": "claude-unknown"}

    with pytest.raises(RemoteCountError, match="claude-unknown") as caught:
        await remote.count(payload, provider="anthropic")

    assert caught.value.provider == "anthropic"
    assert "exact=True" in caught.value.remedy


async def test_a_server_tool_is_refused_as_the_endpoint_does(server: ProviderServer) -> None:
    remote = RemoteCounter([client_of("anthropic async", server)])
    payload = (await assembled("claude-opus-5-5")).to_anthropic()
    payload["tools"] = [{"type": "web_search_20260901", "name": "web_search"}]

    with pytest.raises(RemoteCountError, match="Server tools"):
        await remote.count(payload, provider="anthropic")


async def test_a_server_that_is_not_there_is_an_error_with_a_remedy() -> None:
    nowhere = anthropic.AsyncAnthropic(base_url="http://127.0.0.1:9", api_key=NO_KEY, max_retries=0)
    remote = RemoteCounter({"anthropic": nowhere})

    with pytest.raises(RemoteCountError, match="did not count"):
        await remote.count({"model": "claude-opus-5-5", "messages": []}, provider="anthropic")


def answering(answer: Any) -> Any:
    """Return a counting endpoint that says one thing."""

    def count_tokens(**arguments: Any) -> Any:
        return answer

    return SimpleNamespace(count_tokens=count_tokens)


def counted(answer: Any) -> Any:
    """Return a client that answers what it is told to."""
    return SimpleNamespace(
        messages=answering(answer),
        beta=SimpleNamespace(messages=answering({"input_tokens": 7})),
    )


async def test_an_answer_without_a_number_is_an_error() -> None:
    remote = RemoteCounter({"anthropic": counted({"tokens": 5})})

    with pytest.raises(RemoteCountError, match="it answered None"):
        await remote.count({"model": "m", "messages": []}, provider="anthropic")


async def test_a_beta_request_is_counted_by_the_beta_endpoint() -> None:
    remote = RemoteCounter({"anthropic": counted({"input_tokens": 5})})

    plain = await remote.count({"model": "m", "messages": []}, provider="anthropic")
    beta = await remote.count({"model": "m", "messages": [], "betas": ["x"]}, provider="anthropic")

    assert (plain.tokens, beta.tokens) == (5, 7)


async def test_vertex_takes_instructions_and_tools_in_its_config() -> None:
    asked: list[dict[str, Any]] = []

    def count_tokens(**arguments: Any) -> Any:
        asked.append(arguments)
        return SimpleNamespace(total_tokens=9)

    client = SimpleNamespace(vertexai=True, models=SimpleNamespace(count_tokens=count_tokens))
    remote = RemoteCounter({"google": client})
    config = {"system_instruction": "Be brief.", "temperature": 1.0}
    payload: dict[str, Any] = {"model": "gemini-2.5-pro", "contents": [], "config": config}
    versioned: dict[str, Any] = {**payload, "config": {"http_options": {"api_version": "v1"}}}

    counts = [(await remote.count(p, provider="gemini")).tokens for p in (payload, versioned)]

    assert counts == [9, 9]
    assert asked[0]["config"] == {"system_instruction": "Be brief."}
    assert asked[1]["config"] == {"http_options": {"api_version": "v1"}}


async def test_a_system_instruction_of_text_becomes_content(server: ProviderServer) -> None:
    remote = RemoteCounter([client_of("gemini", server)])
    contents = [{"role": "user", "parts": [{"text": "Hello"}]}]
    payload = {
        "model": "gemini-2.5-pro",
        "contents": contents,
        "config": {"system_instruction": "Be brief."},
    }

    await remote.count(payload, provider="gemini")

    assert "Be brief." in str(server.counted[-1])


def test_what_has_no_endpoint_or_client_says_so(server: ProviderServer) -> None:
    remote = RemoteCounter([client_of("anthropic", server)])

    with pytest.raises(ConfigurationError, match="no endpoint"):
        remote.protocol_for("bedrock")
    with pytest.raises(ConfigurationError, match="needs a client") as caught:
        remote.protocol_for("gemini")
    with pytest.raises(ConfigurationError, match="no client of a provider"):
        RemoteCounter([object()])

    assert "google.genai.Client()" in caught.value.remedy


async def test_a_context_that_fits_is_kept_and_counted_once(server: ProviderServer) -> None:
    built: list[float] = []

    async def build(factor: float) -> AssembledContext:
        built.append(factor)
        return await assembled("claude-opus-5-5")

    fitted = await fit_exactly(build, remote=RemoteCounter([client_of("anthropic async", server)]))

    assert (built, fitted.factor, fitted.rounds, fitted.warnings) == ([1.0], 1.0, 1, ())
    assert fitted.counted is not None


def longer_by(context: AssembledContext, factor: float) -> AssembledContext:
    """Return the context as if the counts had been scaled: fewer tokens in the payload."""
    ledger = replace(context.metadata.ledger, budget_tokens=120)
    return replace(context, metadata=replace(context.metadata, ledger=ledger))


class Shrinking:
    """A provider that counts a third more than we do, and contexts that shrink when told to."""

    def __init__(self, *, share: float) -> None:
        self.share = share
        self.used = 100

    async def build(self, factor: float) -> AssembledContext:
        context = longer_by(await assembled("claude-opus-5-5"), factor)
        self.used = int(110 / factor)
        rows = (replace(context.metadata.ledger.rows[0], tokens=int(self.used * factor)),)
        ledger = replace(context.metadata.ledger, rows=rows)
        said = f"{QUESTION} {factor}"
        system = replace(context.draft.system, text=said)
        draft = replace(context.draft, system=system)
        return replace(context, draft=draft, metadata=replace(context.metadata, ledger=ledger))

    @property
    def messages(self) -> Any:
        answer = {"input_tokens": int(self.used * self.share)}
        return answering(answer)


async def test_a_context_over_its_true_budget_is_built_again_with_scaled_counts() -> None:
    provider = Shrinking(share=1.5)
    remote = RemoteCounter({"anthropic": provider})

    fitted = await fit_exactly(provider.build, remote=remote)

    assert fitted.counted is not None
    assert fitted.counted.tokens <= 120
    assert (fitted.rounds, fitted.warnings) == (2, ())
    assert 1.5 <= fitted.factor <= 1.52


async def test_rounds_end_with_a_warning_that_says_by_how_much() -> None:
    provider = Shrinking(share=1.5)
    remote = RemoteCounter({"anthropic": provider})

    fitted = await fit_exactly(provider.build, remote=remote, max_rounds=1)

    assert fitted.rounds == 1
    assert "165 tokens, 45 more than" in fitted.warnings[0]


async def test_a_provider_that_does_not_answer_costs_a_warning_only() -> None:
    async def build(_factor: float) -> AssembledContext:
        return await assembled("claude-opus-5-5")

    fitted = await fit_exactly(build, remote=RemoteCounter({"anthropic": counted(None)}))

    assert fitted.counted is None
    assert "did not count" in fitted.warnings[0]


async def test_a_correction_never_goes_back() -> None:
    context = longer_by(await assembled("claude-opus-5-5"), 1.0)
    used = context.metadata.ledger.used_tokens

    twice = correction(context, TokenCount.certain(2 * used), factor=1.0)
    less = correction(context, TokenCount.certain(max(121, used // 2)), factor=3.0)

    assert twice == pytest.approx(2.01, abs=0.002)
    assert less is not None
    assert less >= 3.0


async def test_an_endpoint_refuses_what_its_request_has_no_field_for(
    server: ProviderServer,
) -> None:
    claude, gemini = client_of("anthropic async", server), client_of("gemini", server)
    contents = [{"role": "user", "parts": [{"text": "Hello"}]}]
    body = {"extra_body": {"generateContentRequest": {"contents": contents}}}

    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        await claude.messages.count_tokens(
            model="claude-opus-5-5", messages=[], extra_body={"max_tokens": 5}
        )
    with pytest.raises(genai.errors.ClientError, match="mutually exclusive"):
        gemini.models.count_tokens(
            model="gemini-2.5-pro", contents=contents, config={"http_options": body}
        )
