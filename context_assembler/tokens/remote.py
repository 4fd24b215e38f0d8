"""True counts of whole payloads, by the providers' own endpoints."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from math import ceil
from typing import Any, Final

from context_assembler.errors import ConfigurationError, RemoteCountError
from context_assembler.errors.base import with_article
from context_assembler.tokens.memo import BoundedMemo
from context_assembler.tokens.remote_calls import REMOTE_CALLS, RemoteCall
from context_assembler.values.context import AssembledContext, Payload
from context_assembler.values.given import check_type
from context_assembler.values.json_shapes import is_object
from context_assembler.values.token_count import TokenCount

MAX_ROUNDS: Final = 3
_MAX_KEPT: Final = 1_024  # counts
_MARGIN: Final = 1.005  # on a corrected count: another cut has another error


class RemoteCounter:
    """Asks providers how many tokens a payload has; the same payload is asked about once.

    Args:
        clients: Clients of the providers' SDKs, synchronous or not, in any order; or by the name of
            the provider, where a client is of one's own making.
        timeout_seconds: How long one answer may take.
    """

    def __init__(
        self, clients: Mapping[str, Any] | Iterable[Any], *, timeout_seconds: float = 30.0
    ) -> None:
        self._clients = _by_vendor(clients)
        self._timeout_seconds = timeout_seconds
        self._kept = BoundedMemo[bytes](max_weight=_MAX_KEPT)

    def protocol_for(self, provider: str) -> str:
        """Return the protocol a request is to be rendered in for counting.

        OpenAI counts Responses only, and there the same conversation has the same text.

        Raises:
            ConfigurationError: No client of that provider was given, or it has no such endpoint.
        """
        return self._call_for(provider)[0].protocol

    async def count(self, payload: Payload, *, provider: str) -> TokenCount:
        """Return the provider's own count of a payload.

        Args:
            provider: Whose payload it is, a key of `PROVIDERS`; rendered for `protocol_for` of it.

        Raises:
            ConfigurationError: No client of that provider was given, or it has no such endpoint.
            RemoteCountError: The endpoint refuses, is not reached, or says something else.
        """
        call, client = self._call_for(provider)
        arguments = call.to_arguments(payload, client)
        key = _digest(call.protocol, arguments)
        tokens = self._kept.get(key)
        if tokens is None:
            tokens = await self._ask(call, client, arguments)
            self._kept.put(key, tokens, weight=1)
        return TokenCount.certain(tokens, method="reported")

    def _call_for(self, provider: str) -> tuple[RemoteCall, Any]:
        call = REMOTE_CALLS.get(provider)
        if call is None:
            raise ConfigurationError(
                f"{provider!r} has no endpoint that counts tokens.",
                remedy=f"Leave out exact=True; known: {', '.join(sorted(REMOTE_CALLS))}.",
            )
        if call.vendor not in self._clients:
            raise ConfigurationError(
                f"Counting exactly for {provider!r} needs a client of its SDK.",
                remedy=f"Pass clients=[{call.example}], or leave out exact=True.",
            )
        return call, self._clients[call.vendor]

    async def _ask(self, call: RemoteCall, client: Any, arguments: Payload) -> int:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                # A synchronous client waits for its answer right here, so it does so elsewhere; one
                # that is not only makes an awaitable there.
                answer = await asyncio.to_thread(call.ask, client, arguments)
                answer = (await answer) if inspect.isawaitable(answer) else answer
        except Exception as failure:  # every SDK has errors of its own, and raises others' too
            reason = " ".join(str(failure).split())[:300] or type(failure).__name__
            raise RemoteCountError(provider=call.vendor, reason=reason) from failure
        tokens = call.read(answer)
        if not isinstance(tokens, int) or tokens < 0:
            raise RemoteCountError(provider=call.vendor, reason=f"it answered {tokens!r}")
        return tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactFit:
    """A context that was held against the provider's own count.

    Attributes:
        counted: What the provider counts; `None` where it did not answer.
        factor: What the counts were corrected by so that the context fits; 1 means it did at once.
        rounds: How often the provider was asked.
        warnings: Why the count is missing, or that it is above the budget still.
    """

    context: AssembledContext
    counted: TokenCount | None = None
    factor: float = 1.0
    rounds: int = 1
    warnings: tuple[str, ...] = field(default=())


async def fit_exactly(
    build: Callable[[float], Awaitable[AssembledContext]],
    *,
    remote: RemoteCounter,
    max_rounds: int = MAX_ROUNDS,
) -> ExactFit:
    """Return a context that fits by the provider's own count.

    The payload is counted once. Where it is over the budget, the context is built again with all
    counts scaled by what was found, at most `max_rounds` times in all; otherwise it stays as it is.

    Args:
        build: Builds the context with every count multiplied by the factor given.

    Raises:
        ConfigurationError: No client of the model's provider was given.
        ContextOverflowError: By the true count, what may not be dropped does not fit.
    """
    factor, rounds = 1.0, 0
    while True:
        context = await build(factor)
        rounds += 1
        protocol = remote.protocol_for(context.provider)
        try:
            counted = await remote.count(context.to_request(protocol), provider=context.provider)
        except RemoteCountError as missing:
            return ExactFit(context=context, factor=factor, rounds=rounds, warnings=(str(missing),))
        wanted = correction(context, counted, factor=factor)
        if wanted is None:
            return ExactFit(context=context, counted=counted, factor=factor, rounds=rounds)
        if rounds == max_rounds:
            return ExactFit(
                context=context,
                counted=counted,
                factor=factor,
                rounds=rounds,
                warnings=(_still_over(context, counted),),
            )
        factor = wanted


def correction(
    context: AssembledContext, counted: TokenCount, *, factor: float = 1.0
) -> float | None:
    """Return by what to multiply all counts so that the next context fits; `None`: this one does.

    Args:
        factor: By what the counts of this context were multiplied.
    """
    ledger = context.metadata.ledger
    if counted.tokens <= ledger.budget_tokens:
        return None
    share = counted.tokens / max(1, ledger.used_tokens)
    # Rounded up to thousandths, as corrections are kept; never less than it was.
    return max(factor, ceil(factor * share * _MARGIN * 1_000) / 1_000)


def _still_over(context: AssembledContext, counted: TokenCount) -> str:
    over = counted.tokens - context.metadata.ledger.budget_tokens
    return (
        f"By the provider's own count the payload has {counted.tokens:,} tokens, {over:,} more than "
        "its budget: lower max_context_tokens, or reserve more for the reply."
    )


def _by_vendor(clients: Mapping[str, Any] | Iterable[Any]) -> dict[str, Any]:
    vendors = {call.vendor for call in REMOTE_CALLS.values()}
    if is_object(clients):
        return dict(clients)
    check_type("clients", clients, Iterable, such_as="[client, …], or {'anthropic': client, …}")
    found: dict[str, Any] = {}
    for client in clients:
        module = type(client).__module__
        vendor = next((name for name in vendors if module.startswith(_PACKAGES[name])), None)
        if vendor is None:
            what = with_article(type(client).__name__, begins_sentence=True)
            raise ConfigurationError(
                f"{what} is no client of a provider's SDK.",
                remedy=f"Pass it by name: clients={{name: client}}, name one of {sorted(vendors)}.",
            )
        found[vendor] = client
    return found


_PACKAGES: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "google": "google.genai",
}


def _digest(protocol: str, arguments: Payload) -> bytes:
    text = json.dumps([protocol, arguments], sort_keys=True, ensure_ascii=False, default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
