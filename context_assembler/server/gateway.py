"""The gateway: what an agent sends to a provider is fitted, repaired and marked for the cache."""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import takewhile
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx
import orjson
from cachetools import LRUCache

from context_assembler.assembler import ContextAssembler
from context_assembler.context import input_budget
from context_assembler.errors import AssemblyError, ConfigurationError, ContextOverflowError
from context_assembler.events import Json, Session, broken_bound, is_list, is_object, load_json
from context_assembler.fit import FittedMessages
from context_assembler.integrations.fitting import Fitter
from context_assembler.models import DEFAULT_REGISTRY, ModelLimits
from context_assembler.options import AssemblerConfig
from context_assembler.providers.anthropic import mark_cache
from context_assembler.providers.wire import as_list, as_object, text_part, without_nulls
from context_assembler.server.guard import GATEWAY_TOKEN, Receive, Scope, Send, read_body, send_json
from context_assembler.transcripts import read_transcript

# A request of Gemini may have 100 MB of inline data, more than one of the others.
# https://ai.google.dev/gemini-api/docs/files (read 2026-11-30)
_MOST_BODY_BYTES: Final = 100_000_000
_SHORT_BYTES: Final = 100_000
_CONNECT_SECONDS: Final = 10.0
_MOST_KEPT_BYTES: Final = 200_000_000  # of conversations, for whoever looks at them
_OWN: Final = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
_GEMINI: Final = re.compile(r"/v1(?:beta)?/models/([^/:]+):(?:g|streamG)enerateContent")
# They belong to one connection, or are made anew for the next one.
# https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1 (read 2026-11-30)
_OF_CONNECTION: Final = frozenset(
    f"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    f" transfer-encoding upgrade host content-length expect {GATEWAY_TOKEN}".encode().split()
)


class _Shape(NamedTuple):
    """Where a provider's request holds what is fitted; dots lead into objects."""

    messages: str
    system: str
    limits: str
    form: str


_SHAPES: Final[Mapping[str, _Shape]] = {
    "anthropic": _Shape("messages", "system", "max_tokens", "output_config.format"),
    "openai_chat": _Shape("messages", "", "max_completion_tokens max_tokens", "response_format"),
    "openai_responses": _Shape("input", "instructions", "max_output_tokens", "text.format"),
    "gemini": _Shape("contents", "systemInstruction.parts", "generationConfig.maxOutputTokens", ""),
}
SESSIONS: Final = "gateway/"  # what the ids of conversations begin with, as sessions
_SAID: Final = ("system", "instructions", "systemInstruction", "messages", "input", "contents")
_LEADING: Final = ("system", "developer")
_PATHS: Final = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
}


class Passed(NamedTuple):
    """The newest request of one conversation, without headers and keys.

    Attributes:
        provider: A key of `providers.PROVIDERS`.
        body: As it came.
        problem: Why it was passed on unchanged.
        size: Bytes of the body.
        number: Of requests of this conversation so far.
    """

    provider: str
    model: str
    body: Mapping[str, Json]
    problem: str
    size: int
    number: int = 1

    def said(self) -> list[Json]:
        """Return the messages as they came."""
        return [*as_list(self.body[_SHAPES[self.provider].messages])]


class Gateway:
    """An ASGI application that passes requests on to the providers, and their answers back.

    Messages are fitted by `fit_messages`. A request that cannot be read, or whose model is unknown,
    is passed on unchanged, and the response header `x-context-assembler` says why. What cannot fit
    is refused as the provider would. Answers, and all other requests, pass unchanged. Keys are in
    headers alone: these are passed on, and never kept or logged.

    Args:
        addresses: The address of a provider (`anthropic`, `openai`, `gemini`), instead of its own.
        config: Settings; budget, strategy, token counter and unknown models apply.

    Attributes:
        passed: The newest request of each conversation, by an id made from how it begins.
    """

    def __init__(
        self,
        addresses: Mapping[str, str] | None = None,
        *,
        config: AssemblerConfig | None = None,
    ) -> None:
        self._config = config = config or AssemblerConfig()
        self._addresses = {**_OWN, **{k: _address(k, v) for k, v in (addresses or {}).items()}}
        cut, given = config.truncation, config.defaults.given
        self._unknown: Any = given.get("unknown_model") or config.unknown_model
        self._most_tokens: Any = given.get("max_context_tokens")
        self._fitter = Fitter(
            strategy=given.get("truncation_strategy") or cut.strategy,
            on_overflow=given.get("on_overflow") or cut.on_overflow,
            counter=config.token_counter,
        )
        self.passed: LRUCache[str, Passed] = LRUCache(_MOST_KEPT_BYTES, lambda one: one.size)
        # A reply may take as long as its model thinks; the agent's own time limit ends it.
        timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        self._client = httpx.AsyncClient(timeout=timeout, limits=limits)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def watched(self, session_id: str) -> ContextAssembler:
        """Return an assembler with a conversation as its only session, as far as it can be read."""
        passed = self.passed[session_id.removeprefix(SESSIONS)]
        made = ContextAssembler("memory:", tools=_tools(passed.body), config=self._config)
        defaults = {"model": passed.model, "max_context_tokens": self._most_tokens}
        made.store.create_now(Session(id=session_id, defaults=without_nulls(defaults)))
        said = {name: passed.body.get(name) for name in _SAID if passed.body.get(name)}
        read = read_transcript(said, format=passed.provider, partial=True)
        made.store.append_now(session_id, read.events)
        return made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; if the agent goes away, the provider's reply is given up."""
        body = await read_body(receive, _MOST_BODY_BYTES)
        if body is None:
            await _refuse(send, 413, f"A request may have {_MOST_BODY_BYTES:,} bytes.")
            return
        answering = asyncio.ensure_future(self._answer(scope, body, send))
        leaving = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not answering.done():
                answering.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)
        if not answering.cancelled():
            answering.result()

    async def _answer(self, scope: Scope, body: bytes, send: Send) -> None:
        path, told, headers = scope["path"], "", dict(scope["headers"])
        gemini = _GEMINI.fullmatch(path)
        shape = "gemini" if gemini else _PATHS.get(path, "")
        is_claude = path.startswith("/v1/messages") or b"anthropic-version" in headers
        is_gemini = gemini or path.startswith("/v1beta/") or b"x-goog-api-key" in headers
        vendor = "anthropic" if is_claude else "gemini" if is_gemini else "openai"
        if shape and scope["method"] == "POST":
            asked = shape, gemini[1] if gemini else "", body
            try:
                if len(body) < _SHORT_BYTES:  # a thread takes longer to hand it to
                    body, told, passed = self._fit(*asked)
                else:
                    body, told, passed = await asyncio.to_thread(self._fit, *asked)
            except ContextOverflowError as error:
                await _refuse(send, 400, f"prompt is too long: {error}", "context_length_exceeded")
                return
            for name, one in passed.items():
                known = self.passed.get(name)
                self.passed[name] = one._replace(number=known.number + 1) if known else one
        address, query = self._addresses[vendor], scope["query_string"]
        place = (scope.get("raw_path") or path.encode()).partition(b"?")[0]
        target = urlsplit(address).path.encode() + place + (b"?" + query if query else b"")
        # httpx logs the address alone: a key may be in the query. The target passes as it came.
        given: Any = {"headers": _lasting(scope["headers"]), "extensions": {"target": target}}
        request = httpx.Request(scope["method"], address, content=body, **given)
        try:
            reply = await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            why = f"{address} does not answer: {type(error).__name__}. {error}"
            await _refuse(send, 502, why, "provider_unreachable")
            return
        try:
            held = _lasting(reply.headers.raw)
            if length := reply.headers.get("content-length"):
                held.append((b"content-length", length.encode()))
            if told:  # a header is one line, without spaces at its ends
                line = " ".join(told.split()).encode("ascii", "replace")
                held.append((b"x-context-assembler", line))
            start = {"type": "http.response.start", "status": reply.status_code, "headers": held}
            await send(start)
            async for chunk in reply.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except httpx.HTTPError:
            return  # the provider broke off, so the answer breaks off here
        finally:
            await reply.aclose()

    def _fit(self, shape: str, model: str, raw: bytes) -> tuple[bytes, str, dict[str, Passed]]:
        """Return the body to send, what was done, for a header, and the conversation by its id."""
        try:
            body = load_json(raw)
        except ValueError as error:
            return raw, f"unchanged; the body is not JSON ({error})", {}
        key = _SHAPES[shape].messages
        if not is_object(body) or not is_list(messages := body.get(key)):
            return raw, f"unchanged; {key} is not a list", {}
        if broken := broken_bound(body):
            return raw, f"unchanged; {broken}", {}
        if body.get("previous_response_id") or body.get("conversation"):
            return raw, "unchanged; the provider keeps the history of this conversation", {}
        leading = takewhile(lambda one: as_object(one).get("role") in _LEADING, messages)
        first = repr([shape, messages[: len([*leading]) + 1]]).encode(errors="replace")
        name, model = blake2b(first, digest_size=8).hexdigest(), str(model or body.get("model"))
        problem, fitted, made = "", None, {**body}
        try:
            limits = DEFAULT_REGISTRY.get(model, unknown=self._unknown)
            fitted = self._fitted(shape, limits, body)
            if fitted.changes:
                made[key] = fitted.messages
            self._mark(shape, limits, made, name, is_marked=b'"cache_control"' in raw)
        except ContextOverflowError:
            raise
        except AssemblyError as error:
            fitted, problem = None, str(error)
        is_same = made.keys() == body.keys() and all(made[one] is body[one] for one in made)
        passed = {name: Passed(shape, model, body, problem, len(raw))}
        return raw if is_same else _dumped(made), _summary(fitted, len(messages), problem), passed

    def _fitted(self, shape: str, limits: ModelLimits, body: Mapping[str, Json]) -> FittedMessages:
        place, most = _SHAPES[shape], self._most_tokens
        output = next(
            (n for one in place.limits.split() if isinstance(n := _at(body, one), int)), None
        )
        if output is not None:
            most = input_budget(limits, max_tokens=output, max_context_tokens=most)
        fitted = self._fitter.fit(
            body[place.messages],
            model=limits,
            max_tokens=most,
            system=_at(body, place.system),
            tools=_tools(body),
            response_format=_at(body, place.form),
        )
        if body[place.messages] and not fitted.messages:
            remedy = "Send what they answer, too."
            raise AssemblyError("No message can stand alone.", remedy=remedy)
        return fitted

    def _mark(
        self, shape: str, limits: ModelLimits, made: dict[str, Json], name: str, *, is_marked: bool
    ) -> None:
        """Mark the request for the provider's prompt cache, unless the agent does it."""
        if shape == "anthropic" and not is_marked and limits.provider == "anthropic":
            marked = {**made, "messages": [*as_list(made["messages"])]}
            if system := made.get("system"):
                is_text = isinstance(system, str)
                marked["system"] = [text_part(system)] if is_text else [*as_list(system)]
            mark_cache(marked, limits)
            if "cache_control" in marked:
                made |= marked
        elif shape.startswith("openai") and limits.provider == "openai":
            made.setdefault("prompt_cache_key", f"gateway-{name}")


def _address(name: str, url: str) -> str:
    """Return a provider's address without the version, which every request's path begins with."""
    if name not in _OWN:
        known = ", ".join(_OWN)
        raise ConfigurationError(f"{name!r} is no provider.", remedy=f"Choose one of: {known}.")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        remedy = "Pass one such as https://api.anthropic.com."
        raise ConfigurationError(f"{url!r} is no address of a provider.", remedy=remedy)
    return re.sub(r"/(v1(beta)?/?)?$", "", url)


def _tools(body: Mapping[str, Json]) -> list[Json]:
    tools = body.get("tools")
    return [*as_list(tools)] if not is_object(tools) else [tools]


def _at(value: Json, place: str) -> Any:
    for name in place.split(".") if place else [""]:
        value = as_object(value).get(name)
    return value


def _dumped(value: Json) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # unpaired surrogates, integers over 64 bits
        return json.dumps(value, separators=(",", ":")).encode()


def _summary(fitted: FittedMessages | None, count: int, problem: str) -> str:
    if fitted is None:
        return f"unchanged; {problem:.300}"
    changes, tokens = len(fitted.changes), f"{fitted.tokens} of {fitted.max_tokens} tokens"
    prefix = "keeps the prefix" if fitted.keeps_prefix else "begins a new prefix"
    return f"{len(fitted.messages)} of {count} messages; {tokens}; {changes} changes; {prefix}"


def _lasting(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers that do not belong to one connection."""
    held = [(name.lower(), value) for name, value in headers]
    listed = b",".join(value for name, value in held if name == b"connection").lower().split(b",")
    bound = {*_OF_CONNECTION, *(name.strip() for name in listed)}
    return [(name, value) for name, value in held if name not in bound]


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(
    send: Send, status: int, reason: str, code: str = "invalid_request_error"
) -> None:
    """Answer with an error that the SDKs of all providers can read."""
    kind = "invalid_request_error" if status < 500 else "api_error"
    error = {"type": kind, "message": reason, "code": code, "status": code.upper()}
    await send_json(send, status, {"type": "error", "error": error})
