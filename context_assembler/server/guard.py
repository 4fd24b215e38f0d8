"""Who may ask the worker, how much at once, and for how long."""

import asyncio
import hmac
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY_BYTES: Final = 1_000_000
SECONDS: Final = 30.0
GATEWAY_TOKEN: Final = "x-context-assembler-token"
_OPEN: Final = ("/health",)
_GATEWAY: Final = ("/v1/", "/v1beta/")
_ASKS: Final = b'Basic realm="The token of the worker, as the password", charset="UTF-8"'
LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """Lets requests through that name this machine, come from no page, and are small enough.

    A page of a browser may send requests to any address, also to names that it resolves to the
    loopback anew (DNS rebinding): its requests carry `Origin` or `Sec-Fetch-Site`, or a `Host` that
    is not ours. https://fetch.spec.whatwg.org/#origin-header (read 2026-11-30)

    Args:
        token: What `Authorization: Bearer …`, or the password of `Basic`, must hold; `None`: everybody on this machine may ask,
            by a name of the loopback.
    """

    def __init__(self, app: App, *, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if refusal := self._refusal(headers, scope["path"]):
            await send_json(send, refusal[0], {"error": refusal[1]})
            return
        if scope["path"].startswith(_GATEWAY):  # a reply may take as long as its model thinks
            await self._app(scope, receive, send)
            return
        told: list[MutableMapping[str, Any]] = []
        has_begun = False

        async def hand_over() -> MutableMapping[str, Any]:
            return told.pop() if told else await receive()

        async def watch(message: MutableMapping[str, Any]) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        async def run() -> None:
            body = await read_body(receive, MOST_BODY_BYTES)
            if body is None:
                reason = f"A request may have at most {MOST_BODY_BYTES:,} bytes."
                await send_json(watch, 413, {"error": reason})
                return
            told.append({"type": "http.request", "body": body, "more_body": False})
            await self._app(scope, hand_over, watch)

        try:
            await asyncio.wait_for(run(), SECONDS)
        except TimeoutError:
            if not has_begun:
                await send_json(send, 504, {"error": f"Answering took over {SECONDS:g} seconds."})

    def _refusal(self, headers: dict[str, str], path: str) -> tuple[int, str] | None:
        """Return the status and the reason why a request is not answered; `None`: it is."""
        host = headers.get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if self._token is None and name.lower() not in LOOPBACK:
            return 421, f"The worker does not answer to the host {host[:100]!r}."
        site = headers.get("sec-fetch-site", "none")
        if "origin" in headers or site not in ("none", "same-origin"):
            return 403, "Pages of a browser may not ask the worker."
        if self._token is not None and path not in _OPEN:
            given, told = _token_of(headers), "'Authorization: Bearer …'"
            if path.startswith(_GATEWAY):  # that header holds the provider's key
                given = headers.get(GATEWAY_TOKEN, "").strip().encode()
                told = f"the header {GATEWAY_TOKEN!r}"
            if not hmac.compare_digest(given, self._token.encode()):
                return 401, f"Pass the worker's token as {told}."
        return None


def _token_of(headers: dict[str, str]) -> bytes:
    """Return the token of a request; a browser asks for it as a password, and sends it as Basic."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip().encode()
    with suppress(ValueError):
        if scheme.lower() == "basic":
            return b64decode(given, validate=True).partition(b":")[2]
    return b""


async def read_body(receive: Receive, most_bytes: int) -> bytes | None:
    """Return the whole body; `None` if it is too large."""
    chunks, size, goes_on = list[bytes](), 0, True
    while goes_on:
        message = await receive()
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        goes_on = bool(message.get("more_body")) and message["type"] == "http.request"
        if size > most_bytes:
            return None
    return b"".join(chunks)


async def send_json(send: Send, status: int, value: object) -> None:
    """Answer a request with JSON."""
    body = json.dumps(value).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        head += [(b"www-authenticate", b"Bearer"), (b"www-authenticate", _ASKS)]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
