"""A provider on this machine: real HTTP, real rules, scripted answers."""

import json
import os
import re
import sys
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate, count
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.errors import UnknownModelError
from context_assembler.events import Json, JsonObject, Usage, compact_json
from context_assembler.models import ModelLimits, get_model_limits
from context_assembler.ports import TokenCounter
from context_assembler.providers import check_payload
from context_assembler.testing.wires import WIRES, Answer, Refusal, ScriptedReply, Wire
from context_assembler.tokens import family_for

_INVALID: Final = "invalid_request_error"
_GEMINI: Final = re.compile(r"/v1(?:beta)?/models/([^/:]+):(generate|streamGenerate|count)(\w+)")
# What the endpoints that count tokens take.
# https://platform.claude.com/docs/en/build-with-claude/token-counting (2026-11-27)
_COUNTING: Final[Mapping[str, tuple[str, frozenset[str], str]]] = {
    "/v1/messages/count_tokens": (
        "/v1/messages",
        frozenset(
            "messages model system tools tool_choice thinking cache_control output_config "
            "speed".split()
        ),
        "input_tokens",
    ),
    "/v1/responses/input_tokens": (
        "/v1/responses",
        frozenset(
            "input instructions model parallel_tool_calls previous_response_id conversation "
            "reasoning text tool_choice tools truncation".split()
        ),
        "input_tokens",
    ),
    "gemini": (
        "gemini",
        frozenset(("model", "contents", "generateContentRequest", "stream")),
        "totalTokens",
    ),
}


class ScriptedError(NamedTuple):
    """A refusal that has nothing to do with the request, such as an overloaded provider."""

    status: int = 529
    kind: str = "overloaded_error"
    message: str = "Overloaded"


ScriptLine: TypeAlias = ScriptedReply | ScriptedError


class SeenRequest(NamedTuple):
    """One request that reached the local provider, and the answer.

    Attributes:
        provider: A key of `providers.PROVIDERS`.
        headers: By lower-case name.
        status: The HTTP status of the answer.
        refusal: The provider's message if the request was refused.
        usage: As reported; `None` if the request was refused.
        left_out: Path and reason of signed reasoning that was taken and not used.
    """

    provider: str
    body: JsonObject
    headers: Mapping[str, str]
    status: int = 200
    refusal: str | None = None
    usage: Usage | None = None
    left_out: Sequence[tuple[str, str]] = ()


class _Segment(NamedTuple):
    """One tool, system block, or block of a message, in the order of the prompt."""

    path: str
    key: str
    tokens: int
    mark: Json
    thinking: JsonObject | None


class ProviderServer:
    """The address of a running local provider, and the requests that it has seen."""

    def __init__(
        self, script: Iterable[ScriptLine] | None, counter: TokenCounter | None, today: date | None
    ) -> None:
        self.url = ""
        self.counted: list[JsonObject] = []
        self._seen: list[SeenRequest] = []
        self._script = None if script is None else deque(script)
        self._asked_in_vain = 0
        self._counter = counter
        self._today = today
        self._cached: set[tuple[str, str]] = set()
        self._numbers = count(1)
        self._lock = threading.Lock()

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
        """Environment variables that send the SDKs here."""
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
        return tuple(self._seen)

    @property
    def refusals(self) -> Sequence[SeenRequest]:
        """The requests that were answered with an error."""
        return tuple(seen for seen in self._seen if seen.refusal is not None)

    @property
    def complaint(self) -> str | None:
        """What of the script was not played, or asked for in vain."""
        if self._asked_in_vain:
            return f"{self._asked_in_vain} request(s) came after the last line of the script"
        if self._script:
            left = self._script[0]
            return f"{len(self._script)} line(s) of the script were never asked for: {left!r}"
        return None

    def answer(self, wire: Wire, body: JsonObject, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the reply as JSON; a `Refusal` is the provider's error."""
        try:
            answer = self._play(wire, body, headers)
        except Refusal as refusal:
            seen = SeenRequest(wire.provider, body, headers, refusal.status, refusal.message)
            self._seen.append(seen)
            raise
        self._seen.append(
            SeenRequest(wire.provider, body, headers, usage=answer.usage, left_out=answer.left_out)
        )
        return wire.reply(answer)

    def count(self, wire: Wire, body: JsonObject) -> int:
        """Return the tokens of a prompt."""
        limits, prompt = _limits_of(body), wire.to_messages(body)
        self.counted.append(prompt)
        return self._size(_segments(prompt, self._count_text(limits)), limits)

    def _count_text(self, limits: ModelLimits) -> Any:
        return (self._counter or family_for(limits)).count_text

    def _size(self, segments: Sequence[_Segment], limits: ModelLimits) -> int:
        base = 0 if self._counter else family_for(limits).request_tokens
        return base + sum(segment.tokens for segment in segments)

    def _play(self, wire: Wire, body: JsonObject, headers: Mapping[str, str]) -> Answer:
        limits = _limits_of(body)
        arguments = wire.to_arguments(body, headers)
        for broken in check_payload(wire.provider, arguments, limits=limits, today=self._today):
            if broken.level == "refused":
                message = f"{broken.where}: {broken.message} [{broken.rule}]"
                raise Refusal(400, _INVALID, message)
        prompt, count_text = wire.to_messages(body), self._count_text(limits)
        segments = _segments(prompt, count_text)
        tokens = self._size(segments, limits)
        window = limits.input_tokens or limits.window_tokens
        if tokens > window:
            raise wire.overlong(tokens, window)
        faults = list(_judge_reasoning(segments, limits))
        for segment, fault in faults:
            if message := _objection(wire.provider, segment, fault):
                raise Refusal(400, _INVALID, message)
        reply = self._next_line(_last_words(prompt))
        calls = "".join(f" {c.name} {compact_json(dict(c.arguments))}" for c in reply.tool_calls)
        read, written = self._use_cache(wire, segments, body, limits)
        usage = Usage(
            input_tokens=tokens,
            output_tokens=count_text(f"{reply.thinking or ''} {reply.text}{calls}"),
            cache_read_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=count_text(reply.thinking or ""),
        )
        shows = wire.provider == "anthropic" and (
            limits.thinking.kinds == ("budget",)
            or (body.get("thinking") or {}).get("display") == "summarized"
        )
        return Answer(
            number=next(self._numbers),
            reply=reply,
            limits=limits,
            body=body,
            usage=usage,
            signature=_sign((reply.thinking or "") if shows else "", segments, limits),
            left_out=[(s.path, f"{fault}_mismatch") for s, fault in faults if fault],
        )

    def _next_line(self, heard: str) -> ScriptedReply:
        if self._script is None:
            return ScriptedReply(text=f"You said: {heard}" if heard else "You said nothing.")
        with self._lock:
            if not self._script:
                self._asked_in_vain += 1
                raise Refusal(400, _INVALID, "The script of this test has no line left.")
            line = self._script.popleft()
        if isinstance(line, ScriptedError):
            raise Refusal(*line)
        return line

    def _use_cache(
        self, wire: Wire, segments: Sequence[_Segment], body: JsonObject, limits: ModelLimits
    ) -> tuple[int, int]:
        """Return the tokens read and written. Nothing expires here.

        Anthropic writes at breakpoints only, and reads the longest written prefix that ends at most
        20 blocks before one; the others cache every prefix, in steps of 128 tokens from 1,024 on.

        Source:
            https://platform.claude.com/docs/en/build-with-claude/prompt-caching (2026-11-27)
            https://platform.openai.com/docs/guides/prompt-caching (2026-11-27)
        """
        sizes = list(accumulate(segment.tokens for segment in segments))
        keys = [(limits.id, digest) for digest in _digests(segments, with_thinking=True)]
        with self._lock:
            if wire.provider != "anthropic":
                known = max(
                    (s for k, s in zip(keys, sizes, strict=True) if k in self._cached), default=0
                )
                self._cached.update(keys)
                least = limits.cache.min_tokens or 1024
                return (known - known % 128 if known >= least else 0), 0
            marked = {n for n, segment in enumerate(segments) if segment.mark is not None}
            if body.get("cache_control"):
                marked.update([n for n, s in enumerate(segments) if s.thinking is None][-1:])
            ends = [n for n in sorted(marked) if sizes[n] >= (limits.cache.min_tokens or 0)]
            hits = [
                next((n for n in range(e, max(-1, e - 20), -1) if keys[n] in self._cached), None)
                for e in ends
            ]
            self._cached.update(keys[end] for end in ends)
        read = max((sizes[n] for n in hits if n is not None), default=0)
        return read, max(0, sizes[ends[-1]] - read) if ends else 0


@contextmanager
def serve_providers(
    script: Iterable[ScriptLine] | None = None,
    *,
    counter: TokenCounter | None = None,
    today: date | None = None,
) -> Generator[ProviderServer]:
    """Serve Anthropic Messages, OpenAI Chat Completions and Responses, and Gemini on loopback.

    Every request is checked by the provider's rules, its size, and its signed reasoning, and refused
    in that provider's own words and shape if it breaks one. Usage reports what a prompt cache would
    have read.

    Args:
        script: The replies, in the order in which they are asked for; without one the model repeats
            what it heard.
        counter: Measures prompts; by default the counter of each request's model.
        today: The day for dated rules; by default the newest hold.

    Raises:
        AssertionError: At the end: the script was not played to its last line, or was too short.
    """
    provider = ProviderServer(script, counter, today)
    endpoint = type("_BoundEndpoint", (_Endpoint,), {"provider": provider})
    server = ThreadingHTTPServer(("127.0.0.1", 0), endpoint)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield provider
    finally:
        if not sys.is_finalizing():  # by then the thread has stopped
            server.shutdown()
            server.server_close()
            thread.join()
    if provider.complaint:
        raise AssertionError(provider.complaint)


@contextmanager
def stand_in_for_providers(script: Iterable[ScriptLine] | None = None) -> Generator[None]:
    """Send the providers' SDKs to a local provider, unless the environment holds a key."""
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
    if any(os.environ.get(key) for key in keys):
        yield
        return
    before = dict(os.environ)
    with serve_providers(script) as server:
        os.environ.update(server.environment)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


class _Endpoint(BaseHTTPRequestHandler):
    """HTTP around `ProviderServer.answer`."""

    provider: ProviderServer

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        gemini = _GEMINI.fullmatch(path)
        counts = path in _COUNTING or (gemini is not None and gemini[2] == "count")
        place = "gemini" if gemini else _COUNTING[path][0] if counts else path
        wire = WIRES.get(place, WIRES["/v1/messages"])
        try:
            body = self._read_body(wire.max_body_bytes)
            if gemini:
                body |= {"model": gemini[1], "stream": gemini[2] == "streamGenerate"}
            if place not in WIRES:
                raise Refusal(404, "not_found_error", f"Nothing answers at {path}.")
            if counts:
                self._count(wire, body, *_COUNTING["gemini" if gemini else path][1:])
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = self.provider.answer(wire, body, headers)
            if body.get("stream"):
                self._send(200, "text/event-stream", "".join(wire.stream(reply, body)))
            else:
                self._send(200, "application/json", json.dumps(reply))
        except Refusal as refusal:
            self._send(refusal.status, "application/json", json.dumps(wire.error(refusal)))

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: a test's output is its own."""

    def _count(self, wire: Wire, body: JsonObject, known: frozenset[str], name: str) -> None:
        for field in sorted(body.keys() - known):
            raise Refusal(400, _INVALID, f"{field}: Extra inputs are not permitted")
        whole = body.get("generateContentRequest")
        asked = {**whole, "model": body["model"]} if isinstance(whole, dict) else body
        self._send(200, "application/json", json.dumps({name: self.provider.count(wire, asked)}))

    def _read_body(self, max_bytes: int) -> dict[str, Json]:
        size_bytes = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(size_bytes)
        if size_bytes > max_bytes:
            message = "Request exceeds the maximum allowed number of bytes."
            raise Refusal(413, "request_too_large", message)
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise Refusal(400, _INVALID, "The request body is not a JSON object.")
        return body

    def _send(self, status: int, content_type: str, text: str) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(text.encode())))
        self.send_header("request-id", "req_local")
        self.end_headers()
        self.wfile.write(text.encode())


def _limits_of(body: JsonObject) -> ModelLimits:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Refusal(400, _INVALID, "model: Field required")
    try:
        return get_model_limits(model)
    except UnknownModelError as error:
        message = f"model: {model}"
        raise Refusal(404, "not_found_error", message, code="model_not_found") from error


# ---- the prompt as a row of segments ----


def _blocks_of(content: Json) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def _segments(prompt: JsonObject, count_text: Any) -> list[_Segment]:
    """Return settings that are part of the prompt, tools, system blocks, then those of messages."""
    found: list[_Segment] = []

    def add(path: str, owner: str, block: Json, tokens: int) -> None:
        fields = block if isinstance(block, dict) else {}
        thinking = fields if fields.get("type") == "thinking" else None
        key = f"{owner}\n{compact_json(_unmarked(block))}"
        found.append(_Segment(path, key, tokens, fields.get("cache_control"), thinking))

    if settings := prompt.get("prompt_settings"):
        add("settings", "settings", settings, 0)
    for number, tool in enumerate(prompt.get("tools") or ()):
        add(f"tools[{number}]", "tool", tool, count_text(compact_json(_unmarked(tool))))
    for number, block in enumerate(_blocks_of(prompt.get("system"))):
        add(f"system[{number}]", "system", block, _block_tokens(block, count_text))
    for number, message in enumerate(prompt.get("messages") or ()):
        overhead = 4
        blocks = [*_blocks_of(message.get("content")), *(message.get("tool_calls") or ())]
        owner = f"{message.get('role')}{message.get('tool_call_id', '')}"
        for place, block in enumerate(blocks):
            tokens = overhead + _block_tokens(block, count_text)
            add(f"messages.{number}.content.{place}", owner, block, tokens)
            overhead = 0
    return found


def _unmarked(value: Json) -> Json:
    """Return the value without cache marks and nulls; the order of keys counts, as in a prompt."""
    if isinstance(value, dict):
        marks = ("cache_control", "prompt_cache_breakpoint")
        kept = {k: v for k, v in value.items() if k not in marks and v is not None}
        return {key: _unmarked(inner) for key, inner in kept.items()}
    return [_unmarked(inner) for inner in value] if isinstance(value, list) else value


def _block_tokens(block: Json, count_text: Any) -> int:
    if not isinstance(block, dict):
        return 0
    media = {"image": 1500, "image_url": 1500, "document": 3000, "file": 3000}
    kind = str(block.get("type"))
    if kind in media:
        return media[kind]
    if kind == "tool_result":
        return sum(_block_tokens(one, count_text) for one in _blocks_of(block.get("content")))
    tokens: int = count_text(_text_of(block))
    return tokens


def _text_of(block: Json) -> str:
    if not isinstance(block, dict):
        return ""
    kind = block.get("type")
    if kind in ("text", "thinking"):
        return str(block.get(kind, ""))
    if kind == "tool_use":
        return f"{block.get('name')} {compact_json(block.get('input'))}"
    if kind == "tool_result":
        return " ".join(map(_text_of, _blocks_of(block.get("content"))))
    if kind == "function":
        called = block.get("function", {})
        return f"{called.get('name')} {called.get('arguments')}"
    return compact_json(_unmarked(block))


def _last_words(prompt: JsonObject) -> str:
    for message in reversed(prompt.get("messages") or ()):
        if message.get("role") in ("user", "tool"):
            return " ".join(filter(None, map(_text_of, _blocks_of(message.get("content")))))
    return ""


def _digests(segments: Iterable[_Segment], *, with_thinking: bool) -> Iterator[str]:
    """Yield one digest per segment: of everything up to it, itself included."""
    rolling = blake2b(digest_size=16)
    for segment in segments:
        if with_thinking or segment.thinking is None:
            rolling.update(f"{len(segment.key)}:{segment.key}".encode("utf-8", "surrogatepass"))
        yield rolling.hexdigest()


# ---- signed reasoning: made over the prefix that the model saw, refused if the prefix changed ----
# https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (2026-11-27)


def _digest(text: object) -> str:
    return blake2b(str(text).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _mac(body: bytes) -> bytes:
    return blake2b(body, key=b"context-assembler local provider", digest_size=16).digest()


def _sign(text: str, segments: Sequence[_Segment], limits: ModelLimits) -> str:
    signed = [s for s in segments if s.thinking is not None and _open(s, limits)]
    seal = {
        "model": limits.id,
        "prefix": next(reversed(list(_digests(segments, with_thinking=False))), ""),
        "previous": _digest(
            signed[-1].thinking["signature"] if signed and signed[-1].thinking else ""
        ),
        "text": _digest(text),
    }
    body = compact_json(seal).encode()
    return urlsafe_b64encode(_mac(body) + body).decode()


def _open(segment: _Segment, limits: ModelLimits | None = None) -> dict[str, str] | None:
    """Return what a signature says; `None` if it is not ours, not this model's, or was changed."""
    thinking = segment.thinking or {}
    try:
        sealed = urlsafe_b64decode(str(thinking.get("signature", "")).encode())
        seal: dict[str, str] = json.loads(sealed[16:])
    except ValueError:
        return None
    is_whole = sealed[:16] == _mac(sealed[16:]) and seal["text"] == _digest(
        thinking.get("thinking")
    )
    return seal if is_whole and (limits is None or seal["model"] == limits.id) else None


def _judge_reasoning(
    segments: Sequence[_Segment], limits: ModelLimits
) -> Iterator[tuple[_Segment, str]]:
    """Yield every block of signed reasoning, with what is wrong with it (empty: nothing)."""
    before = ["", *_digests(segments, with_thinking=False)]
    previous: str | None = None
    for place, segment in enumerate(segments):
        if segment.thinking is None:
            continue
        seal = _open(segment)
        if seal is None:
            yield segment, "seal"
        elif seal["model"] != limits.id:
            yield segment, "model"
        elif not limits.thinking.is_prefix_bound:
            yield segment, ""
        elif seal["prefix"] != before[place]:
            yield segment, "prefix"
        elif previous is not None and seal["previous"] != _digest(previous):
            yield segment, "chain"
        else:
            previous = str(segment.thinking.get("signature", ""))
            yield segment, ""


def _objection(provider: str, segment: _Segment, fault: str) -> str | None:
    """Return the provider's message for a block of reasoning that it refuses."""
    if provider == "anthropic":
        messages = {
            "seal": "Invalid `signature` in `thinking` block",
            "prefix": "Invalid signature in thinking block. The block is bound to a different "
            "conversation: what stood before it when it was made is not what stands before it in "
            "this request.",
            "chain": "Invalid signature in thinking block. A thinking block between this one and an "
            "earlier one is missing: blocks may be left out from the start of the conversation only.",
        }
        return f"{segment.path}: {messages[fault]}" if fault in messages else None
    if provider == "openai_responses" and fault == "seal":
        return "The encrypted content could not be verified. Reason: it could not be decrypted."
    # https://ai.google.dev/gemini-api/docs/thought-signatures (2026-11-27)
    if provider == "gemini" and fault in ("seal", "model"):
        return "Corrupted thought signature."
    return None
