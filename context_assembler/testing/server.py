"""A provider on this machine: real HTTP, real rules, scripted answers."""

import json
import sys
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from context_assembler.ports import TokenCounter
from context_assembler.testing.answering import Answerer
from context_assembler.testing.anthropic_wire import ANTHROPIC_WIRE
from context_assembler.testing.counting_endpoints import CountingEndpoint, find_counting
from context_assembler.testing.gemini_wire import GEMINI_WIRE, read_path
from context_assembler.testing.openai_wire import OPENAI_WIRE
from context_assembler.testing.responses_wire import RESPONSES_WIRE
from context_assembler.testing.script import Script, ScriptLine
from context_assembler.testing.traffic import RefusedRequestError, SeenRequest, Wire
from context_assembler.values.given import check_method, check_type
from context_assembler.values.json_bounds import load_bounded_json
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import JsonObject

_WIRES: Final[Mapping[str, Wire]] = {
    wire.path: wire for wire in (ANTHROPIC_WIRE, OPENAI_WIRE, RESPONSES_WIRE)
}
_MAX_DEPTH: Final = 300  # a value as deep as can be stored, and what a request puts around it


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderServer:
    """The address of a running local provider, and what it has seen."""

    url: str
    answerer: Answerer

    @property
    def anthropic_url(self) -> str:
        """The `base_url` for the Anthropic SDK."""
        return self.url

    @property
    def openai_url(self) -> str:
        """The `base_url` for the OpenAI SDK."""
        return f"{self.url}/v1"

    @property
    def gemini_url(self) -> str:
        """The `base_url` in the `HttpOptions` of the Google Gen AI SDK."""
        return self.url

    @property
    def environment(self) -> dict[str, str]:
        """What to put into the environment so that the SDKs come here by themselves."""
        return {
            "ANTHROPIC_BASE_URL": self.anthropic_url,
            "ANTHROPIC_API_KEY": "test",
            "OPENAI_BASE_URL": self.openai_url,
            "OPENAI_API_KEY": "test",
            "GOOGLE_GEMINI_BASE_URL": self.gemini_url,
            "GEMINI_API_KEY": "test",
        }

    @property
    def requests(self) -> Sequence[SeenRequest]:
        """The requests so far, oldest first."""
        return tuple(self.answerer.seen)

    @property
    def counted(self) -> Sequence[JsonObject]:
        """The prompts that only a count was asked of, oldest first, as messages of blocks."""
        return tuple(self.answerer.counted)

    @property
    def refusals(self) -> Sequence[SeenRequest]:
        """The requests that were answered with an error."""
        return tuple(seen for seen in self.requests if seen.refusal is not None)


@contextmanager
def serve_providers(
    script: Iterable[ScriptLine] | None = None,
    *,
    counter: TokenCounter | None = None,
    today: date | None = None,
) -> Generator[ProviderServer]:
    """Serve Anthropic Messages, OpenAI Chat Completions and Responses, and Gemini on loopback.

    Every request is checked by the provider's rules, its size, and its signed thinking, and refused
    in that provider's own words and shape where it breaks one. Usage reports what a prompt cache
    would have read.

    Args:
        script: The replies, in the order in which they are asked for; without one the model
            repeats what it heard.
        counter: Measures prompts; by default the counter of each request's model.
        today: Against which dated rules are checked; by default the newest hold.

    Raises:
        InvalidParameterError: The script, the counter or the day is none.
        AssertionError: At the end: the script was not played to its last line, or was too short.
    """
    if counter is not None:
        check_method("counter", counter, "count_text", such_as="a TokenCounter, or None")
    check_type("today", today, date, type(None), such_as="a date, or None for the newest rules")
    lines = Script(script)
    answerer = Answerer(lines, counter=counter, today=today)
    # http.server makes an endpoint per request, from a class: what they share stands on the class.
    endpoint = type("_BoundEndpoint", (_Endpoint,), {"answerer": answerer})
    server = ThreadingHTTPServer(("127.0.0.1", 0), endpoint)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield ProviderServer(url=f"http://127.0.0.1:{server.server_port}", answerer=answerer)
    finally:
        if not sys.is_finalizing():  # by then the thread has stopped where it stood
            server.shutdown()
            server.server_close()
            thread.join()
    if lines.complaint:
        raise AssertionError(lines.complaint)


class _Endpoint(BaseHTTPRequestHandler):
    """One connection: HTTP around `Answerer`."""

    answerer: Answerer

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        told = read_path(path)  # Gemini's paths say what the bodies of the others say
        counting = find_counting(path)
        wire = GEMINI_WIRE if told else _WIRES.get(path, ANTHROPIC_WIRE)
        if counting is not None:
            wire = counting.wire
        try:
            body = {**self._read_body(max_bytes=wire.max_body_bytes), **told}
            if counting is not None:
                self._count(counting, body)
            else:
                self._answer(wire if told else _wire_at(path), body)
        except RefusedRequestError as refused:
            self._send_json(refused.status, wire.render_error(refused))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's
        """Say nothing: a test's output is its own."""

    def _count(self, counting: CountingEndpoint, body: JsonObject) -> None:
        tokens = self.answerer.count(counting.to_prompt(body))
        self._send_json(200, counting.render(tokens))

    def _answer(self, wire: Wire, body: JsonObject) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.answerer.answer(wire, body, headers)
        if body.get("stream"):
            text = "".join(wire.stream_reply(answer, body))
            self._send(200, "text/event-stream", text.encode())
        else:
            self._send_json(200, answer)

    def _read_body(self, *, max_bytes: int) -> JsonObject:
        size_bytes = int(self.headers.get("content-length") or 0)
        text = self.rfile.read(size_bytes)
        if size_bytes > max_bytes:
            raise RefusedRequestError(
                status=413,
                kind="request_too_large",
                message="Request exceeds the maximum allowed number of bytes.",
            )
        try:
            body = load_bounded_json(text, max_depth=_MAX_DEPTH)
        except ValueError as broken:
            raise _not_json() from broken
        if not is_object(body):
            raise _not_json()
        return body

    def _send_json(self, status: int, body: JsonObject) -> None:
        self._send(status, "application/json", json.dumps(body).encode())

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.send_header("request-id", "req_local")
        self.end_headers()
        self.wfile.write(body)


def _wire_at(path: str) -> Wire:
    if path not in _WIRES:
        raise RefusedRequestError(
            status=404, kind="not_found_error", message=f"Nothing answers at {path}."
        )
    return _WIRES[path]


def _not_json() -> RefusedRequestError:
    return RefusedRequestError(
        status=400, kind="invalid_request_error", message="The request body is not a JSON object."
    )
