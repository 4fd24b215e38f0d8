"""True counts of whole payloads, by the providers' own endpoints."""

import asyncio
import inspect
import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from math import ceil
from typing import Any, Final

from cachetools import LRUCache

from context_assembler.errors import ConfigurationError, RemoteCountError
from context_assembler.events import Json, is_object
from context_assembler.ports import Payload

MAX_ROUNDS: Final = 3  # of counting and cutting again
_MARGIN: Final = 1.005  # on a corrected count: another cut has another error
_MOST_KEPT: Final = 1_024  # counts


# Whose client is needed, and the protocol that a request is rendered in.
_ENDPOINTS: Final[Mapping[str, tuple[str, str]]] = {
    "anthropic": ("anthropic", "anthropic"),
    "openai_responses": ("openai", "openai_responses"),
    "openai_chat": ("openai", "openai_responses"),
    "gemini": ("google", "gemini"),
}
# What the endpoints take of a request.
# Source: anthropic 2.14.0, types/message_count_tokens_params.py;
# https://platform.claude.com/docs/en/build-with-claude/token-counting;
# openai 3.57.0, types/responses/input_token_count_params.py (all read 2026-11-27)
_TAKEN: Final = {
    "anthropic": (
        *("messages", "model", "system", "tools", "tool_choice", "thinking", "cache_control"),
        *("output_config", "speed", "extra_headers", "betas"),
    ),
    "openai": (
        *("input", "instructions", "model", "parallel_tool_calls", "previous_response_id"),
        *("conversation", "reasoning", "text", "tool_choice", "tools", "truncation"),
    ),
}


def _arguments_for(vendor: str, payload: Payload, client: Any) -> Payload:
    """Return the keyword arguments of the endpoint.

    Gemini's Developer API counts instructions and tools in a `generateContentRequest`, which takes
    the place of the contents; the SDK has no argument for it, and refuses both in `config`. Vertex AI
    takes them there.

    Source:
        https://ai.google.dev/api/tokens (read 2026-11-27); google-genai 3.6.1, models.py
    """
    if vendor in _TAKEN:
        return {name: payload[name] for name in _TAKEN[vendor] if name in payload}
    config, model, contents = payload.get("config", {}), payload["model"], payload["contents"]
    if getattr(client, "vertexai", False):
        names = ("system_instruction", "tools", "http_options")
        taken = {name: config[name] for name in names if config.get(name)}
        return {"model": model, "contents": contents, "config": taken}
    name = f"models/{model.removeprefix('models/')}"
    request: dict[str, Json] = {"model": name, "contents": contents}
    if (system := config.get("system_instruction")) is not None:
        is_text = isinstance(system, str)
        request["system_instruction"] = {"parts": [{"text": system}]} if is_text else system
    request |= {name: config[name] for name in ("tools", "tool_config") if name in config}
    body = {"extra_body": {"generateContentRequest": request}}
    options = {**config.get("http_options", {}), **body}
    return {"model": model, "contents": None, "config": {"http_options": options}}


def _ask(vendor: str, client: Any, arguments: Payload) -> Any:
    if vendor == "openai":
        return client.responses.input_tokens.count(**arguments)
    if vendor == "google":
        return client.models.count_tokens(**arguments)
    resource = client.beta.messages if "betas" in arguments else client.messages
    return resource.count_tokens(**arguments)


class RemoteCounter:
    """Asks providers how many tokens a payload has; the same payload is asked about once.

        tokens = await RemoteCounter([client]).count(context.payload, provider="anthropic")

    Args:
        clients: Clients of the providers' SDKs, synchronous or not, in any order; or by the name of
            the vendor (`anthropic`, `openai`, `google`), if a client is of your own making.
        timeout_seconds: How long one answer may take.
    """

    def __init__(
        self, clients: Mapping[str, Any] | Iterable[Any], *, timeout_seconds: float = 30.0
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._kept = LRUCache[bytes, int](_MOST_KEPT)
        self._clients = dict(clients) if is_object(clients) else _by_vendor(clients)

    def protocol_for(self, provider: str) -> str:
        """Return the protocol that a request is to be rendered in for counting.

        OpenAI counts Responses only, and there the same conversation has the same text.

        Raises:
            ConfigurationError: No client of that provider was given, or it has no such endpoint.
        """
        vendor, protocol = _ENDPOINTS.get(provider, ("", ""))
        if vendor not in self._clients:
            raise ConfigurationError(
                f"Counting exactly for {provider!r} needs a client of its SDK.",
                remedy="Pass clients=[client] (openai.AsyncOpenAI() …), or leave out exact=True.",
            )
        return protocol

    async def count(self, payload: Payload, *, provider: str) -> int:
        """Return the provider's own count of a payload.

        Args:
            provider: Whose payload it is, a key of `PROVIDERS`; rendered for `protocol_for` of it.

        Raises:
            ConfigurationError: No client of that provider was given, or it has no such endpoint.
            RemoteCountError: The endpoint refuses, is not reached, or says something else.
        """
        protocol, (vendor, _) = self.protocol_for(provider), _ENDPOINTS[provider]
        client = self._clients[vendor]
        arguments = _arguments_for(vendor, payload, client)
        text = json.dumps([protocol, arguments], sort_keys=True, default=str)
        key = blake2b(text.encode(), digest_size=16).digest()
        if key in self._kept:
            return self._kept[key]
        try:
            async with asyncio.timeout(self._timeout_seconds):
                # A synchronous client waits for its answer, so it is called in a thread; one that
                # does not only makes an awaitable there.
                answer = await asyncio.to_thread(_ask, vendor, client, arguments)
                answer = (await answer) if inspect.isawaitable(answer) else answer
        except Exception as failure:  # every SDK has errors of its own, and raises others' too
            reason = " ".join(str(failure).split())[:300] or type(failure).__name__
            raise RemoteCountError(provider=vendor, reason=reason) from failure
        field = "total_tokens" if vendor == "google" else "input_tokens"
        is_dict = is_object(answer)
        tokens: Json = answer.get(field) if is_dict else getattr(answer, field, None)
        if not isinstance(tokens, int) or tokens < 0:
            raise RemoteCountError(provider=vendor, reason=f"it answered {tokens!r}")
        self._kept[key] = tokens
        return tokens


def correction(
    counted_tokens: int, *, used_tokens: int, budget_tokens: int, factor: float = 1.0
) -> float | None:
    """Return by what to multiply all counts so that the next context fits; `None`: this one does.

    Args:
        counted_tokens: What the provider counted.
        used_tokens: What the ledger says, its counts multiplied by `factor`.
    """
    if counted_tokens <= budget_tokens:
        return None
    share = counted_tokens / max(1, used_tokens)
    return max(factor, ceil(factor * share * _MARGIN * 1_000) / 1_000)


def _by_vendor(clients: Iterable[Any]) -> dict[str, Any]:
    vendors, found = {vendor for vendor, _ in _ENDPOINTS.values()}, dict[str, Any]()
    for client in clients:
        vendor = type(client).__module__.partition(".")[0]  # of its package
        if vendor not in vendors:
            raise ConfigurationError(
                f"{type(client).__name__} is not a client of a provider's SDK.",
                remedy="Pass it by name: clients={'anthropic' | 'openai' | 'google': client}.",
            )
        found[vendor] = client
    return found
