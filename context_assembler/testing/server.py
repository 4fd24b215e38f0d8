"""A provider on this machine: real HTTP, real rules, scripted answers."""

import json
import os
import re
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate, count, takewhile
from typing import Any, Final, NamedTuple, TypeAlias
from unittest.mock import patch

from context_assembler.errors import UnknownModelError
from context_assembler.events import Json, JsonObject, Usage, compact_json
from context_assembler.models import ModelLimits, get_model_limits
from context_assembler.ports import TokenCounter
from context_assembler.providers import check_payload
from context_assembler.providers.gemini import PLACEHOLDER
from context_assembler.providers.wire import as_list, as_object, objects_in
from context_assembler.testing import wires
from context_assembler.testing.wires import WIRES, Answer, RefusedError, ScriptedReply, Wire
from context_assembler.tokens import family_for

_GEMINI: Final = re.compile(r"/v1(?:beta)?/models/([^/:]+):(generate|streamGenerate|count)(\w+)")
# What the endpoints that count tokens take, and how they name the answer.
# https://platform.claude.com/docs/en/build-with-claude/token-counting (2026-11-27)
_COUNTING: Final[Mapping[str, str]] = {
    "/v1/messages/count_tokens": "/v1/messages input_tokens messages model system tools "
    "tool_choice thinking cache_control output_config speed",
    "/v1/responses/input_tokens": "/v1/responses input_tokens input instructions model tools "
    "parallel_tool_calls previous_response_id conversation reasoning text tool_choice truncation",
    "gemini": "gemini totalTokens model contents generateContentRequest stream",
}


Script: TypeAlias = Iterable[ScriptedReply | wires.ScriptedError] | None


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
    """One tool, system block, or block of a message, in the order of the prompt.

    `key` is what a cache compares, `bound` what signatures are bound to: empty for reasoning.
    """

    path: str
    key: str
    bound: str
    tokens: int
    is_marked: bool
    signature: Json
    text: str


class ProviderServer:
    """The address of a running local provider, and the requests that it has seen."""

    def __init__(
        self, port: int, script: Script, counter: TokenCounter | None, today: date | None
    ) -> None:
        # The `base_url` for each SDK; Gemini's belongs in its `HttpOptions`.
        self.url = self.anthropic_url = self.gemini_url = f"http://127.0.0.1:{port}"
        self.openai_url = f"{self.url}/v1"
        self.requests: list[SeenRequest] = []
        self.counted: list[JsonObject] = []  # bodies whose tokens were counted
        self.script = None if script is None else deque(script)
        self._counter, self._today, self._lock = counter, today, threading.Lock()
        self._cached, self._numbers = set[tuple[str, str]](), count(1)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that send the SDKs here."""
        keys = (f"{vendor}_API_KEY" for vendor in ("ANTHROPIC", "OPENAI", "GEMINI"))
        urls = {"ANTHROPIC_BASE_URL": self.url, "OPENAI_BASE_URL": self.openai_url}
        return {**dict.fromkeys(keys, "test"), **urls, "GOOGLE_GEMINI_BASE_URL": self.url}

    @property
    def refusals(self) -> Sequence[SeenRequest]:
        """The requests that were answered with an error."""
        return tuple(seen for seen in self.requests if seen.refusal is not None)

    def answer(self, wire: Wire, body: JsonObject, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the reply as JSON; a `RefusedError` is the provider's error."""
        seen = SeenRequest(wire.provider, body, headers)
        try:
            made = self._play(wire, body, headers)
        except RefusedError as refused:
            self.requests.append(seen._replace(status=refused.status, refusal=refused.message))
            raise
        self.requests.append(seen._replace(usage=made.usage, left_out=made.left_out))
        return wire.reply(made)

    def count(self, wire: Wire, body: JsonObject, known: Sequence[str]) -> int:
        """Return the tokens of a prompt; a field that is not known is refused."""
        for field in sorted(body.keys() - known):
            raise RefusedError(f"{field}: Extra inputs are not permitted")
        whole = as_object(body.get("generateContentRequest"))
        asked = {**whole, "model": body["model"]} if whole else body
        self.counted.append(asked)
        return self._measure(wire, asked, _limits_of(asked))[1]

    def _measure(
        self, wire: Wire, body: JsonObject, limits: ModelLimits
    ) -> tuple[list[_Segment], int, Callable[[str], int]]:
        family = family_for(limits)
        count_text = (self._counter or family).count_text
        segments = list(_segments(wire, body, count_text))
        base = 0 if self._counter else family.request_tokens
        return segments, base + sum(one.tokens for one in segments), count_text

    def _play(self, wire: Wire, body: JsonObject, headers: Mapping[str, str]) -> Answer:
        limits = _limits_of(body)
        arguments = wire.to_arguments(body, headers)
        found = check_payload(wire.provider, arguments, limits=limits, today=self._today)
        for broken in found.refused:
            raise RefusedError(f"{broken.where}: {broken.message} [{broken.rule}]")
        segments, tokens, count_text = self._measure(wire, body, limits)
        edits = list(_clear(body, segments, tokens))
        tokens -= sum(edit["cleared_input_tokens"] for edit in edits)
        window = limits.input_tokens or limits.window_tokens
        if tokens > window:
            overlong = wire.overlong.format(tokens=tokens, window=window)
            raise RefusedError(overlong, code=wire.overlong_code)
        faults = list(_judge_reasoning(segments, limits))
        for segment, fault in faults:
            if message := _OBJECTIONS.get((wire.provider, fault)):
                raise RefusedError(f"{segment.path}: {message}")
        summary: JsonObject | None = None
        reply, charged = self._next_line(segments), 0
        if tokens >= (least := wire.threshold(body)):
            # It reads all that was sent; then its summary alone stands before what it says.
            charged, is_claude = tokens, wire.provider == "anthropic"
            seal = _seal([limits.id, "compaction", ""], reply.text if is_claude else "")
            summary = wire.summarized(reply.text, "" if is_claude and least else seal)
            said = objects_in(body[wire.history])
            lead = takewhile(lambda one: one.get("role") == "developer", said)
            whole = {**body, wire.history: [*lead, summary]}
            segments, tokens, _ = self._measure(wire, whole, limits)
            reply = self._next_line(segments) if least else ScriptedReply(stop_reason="compaction")
            tokens = tokens if least or not is_claude else 0
        calls = [f" {c.name} {compact_json(dict(c.arguments))}" for c in reply.tool_calls]
        read, written = self._use_cache(wire, segments, body, limits) if tokens else (0, 0)
        thinking = reply.thinking or ""
        display = as_object(body.get("thinking")).get("display")
        shows = limits.thinking.kinds == ("budget",) or display == "summarized"
        shown = thinking if shows and wire.provider == "anthropic" else ""
        usage = Usage(
            input_tokens=tokens,
            output_tokens=count_text(f"{thinking} {reply.text}{''.join(calls)}"),
            cache_read_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=count_text(thinking),
        )
        sealed = shown, _sign(shown, segments, limits)
        left_out = [(segment.path, f"{fault}_mismatch") for segment, fault in faults if fault]
        about = limits, body, usage, *sealed, left_out, summary, charged, edits
        return Answer(next(self._numbers), reply, *about)

    def _next_line(self, segments: Sequence[_Segment]) -> ScriptedReply:
        if self.script is None:
            last = next((s for s in reversed(segments) if s.key.startswith(("user", "tool"))), None)
            heard = last and _text_of(json.loads(last.key.partition("\n")[2]))
            return ScriptedReply(f"You said: {heard or 'nothing'}", stop_reason="end_turn")
        with self._lock:
            if not self.script:
                raise RefusedError("The script of this test has no line left: add a reply.")
            line = self.script.popleft()
        if isinstance(line, wires.ScriptedError):
            raise line
        ends = line.stop_reason or ("tool_use" if line.tool_calls else "end_turn")
        return replace(line, stop_reason=ends)

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
        keys = [(limits.id, digest) for digest in _digests(one.key for one in segments)]
        with self._lock:
            if wire.provider != "anthropic":
                known = [size for key, size in zip(keys, sizes, strict=True) if key in self._cached]
                self._cached.update(keys)
                most = max(known, default=0)
                return (most - most % 128 if most >= (limits.cache.min_tokens or 1024) else 0), 0
            marked = {place for place, segment in enumerate(segments) if segment.is_marked}
            if body.get("cache_control"):
                marked.update([n for n, one in enumerate(segments) if one.signature is None][-1:])
            ends = [n for n in sorted(marked) if sizes[n] >= (limits.cache.min_tokens or 0)]
            near = (range(end, max(-1, end - 20), -1) for end in ends)
            hits = [next((n for n in places if keys[n] in self._cached), None) for places in near]
            self._cached.update(keys[end] for end in ends)
        read = max((sizes[n] for n in hits if n is not None), default=0)
        return read, max(0, sizes[ends[-1]] - read) if ends else 0


@contextmanager
def serve_providers(
    script: Script = None, *, counter: TokenCounter | None = None, today: date | None = None
) -> Generator[ProviderServer]:
    """Serve Anthropic Messages, OpenAI Chat Completions and Responses, and Gemini on loopback.

    Every request is checked by the provider's rules, its size, and its signed reasoning, and refused
    in that provider's own words and shape if it breaks one. Usage reports what a prompt cache would
    have read.

    Args:
        script: The replies, in order; without a script the model repeats what it received.
        counter: Measures prompts; by default the counter of each request's model.
        today: The day for dated rules; by default the newest rules apply.

    Raises:
        AssertionError: At the end, if lines of the script are left.
    """
    endpoint: Any = type("_BoundEndpoint", (_Endpoint,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), endpoint)
    provider = endpoint.provider = ProviderServer(server.server_port, script, counter, today)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    if provider.script:
        left = f"{len(provider.script)} line(s) of the script were never asked for"
        raise AssertionError(f"{left}: {provider.script[0]!r}")


@contextmanager
def stand_in_for_providers(script: Script = None) -> Generator[None]:
    """Send the providers' SDKs to a local provider, unless the environment holds a key."""
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
    if any(os.environ.get(key) for key in keys):
        yield
        return
    with serve_providers(script) as server, patch.dict(os.environ, server.environment):
        yield


class _Endpoint(BaseHTTPRequestHandler):
    """HTTP around `ProviderServer.answer`."""

    provider: ProviderServer

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        gemini = _GEMINI.fullmatch(path)
        path = "gemini" if gemini else path
        counts = gemini[2] == "count" if gemini else path in _COUNTING
        place, name, *known = _COUNTING[path].split() if counts else (path, "")
        wire = WIRES.get(place, WIRES["/v1/messages"])
        try:
            body = self._read_body(place)
            if gemini:
                body |= {"model": gemini[1], "stream": gemini[2] == "streamGenerate"}
            if counts:
                self._send(200, {name: self.provider.count(wire, body, known)})
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = self.provider.answer(wire, body, headers)
            self._send(200, "".join(wire.stream(reply)) if body.get("stream") else reply)
        except RefusedError as refused:
            self._send(refused.status, wire.error(refused))

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: a test's output is its own."""

    def _read_body(self, place: str) -> dict[str, Json]:
        if place not in WIRES:
            raise RefusedError(f"Nothing answers at {place}.", 404, "not_found_error")
        body: dict[str, Json] = {}
        with suppress(ValueError, TypeError, RecursionError):
            body = as_object(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        if not body:
            raise RefusedError("The request body is not a JSON object.")
        return body

    def _send(self, status: int, answer: Json) -> None:
        is_stream = isinstance(answer, str)
        content = (answer if is_stream else json.dumps(answer)).encode()
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        self.send_header("content-length", str(len(content)))
        self.send_header("request-id", "req_local")
        self.end_headers()
        self.wfile.write(content)


def _limits_of(body: JsonObject) -> ModelLimits:
    try:
        return get_model_limits(str(body.get("model") or ""))
    except UnknownModelError as error:
        message = f"model: {body.get('model')}"
        raise RefusedError(message, 404, "not_found_error", "model_not_found") from error


# ---- the prompt as a row of segments ----

_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")
_SIGNATURES: Final = ("thought_signature", "signature", "encrypted_content")
# Two that the documentation names for calls whose signature nobody has, plain and as base64.
# https://ai.google.dev/gemini-api/docs/thought-signatures (2026-11-27)
_NO_SIGNATURES: Final = (None, PLACEHOLDER, "skip_thought_signature_validator")
_MEDIA: Final = re.compile(
    r'"type":"(?:image|image_url|input_image|document|file|input_file)"|"(?:inline|file)_data":'
)
_MEDIA_TOKENS: Final = 1500
# Fields that the model does not read as text.
_SILENT: Final = frozenset(
    "type id call_id tool_use_id tool_call_id role status phase source image_url file inline_data "
    "file_data".split()
).union(_MARKS, _SIGNATURES)


def _segments(wire: Wire, body: JsonObject, count_text: Callable[[str], int]) -> Iterator[_Segment]:
    """Yield settings that are part of the prompt, tools, system blocks, then those of messages."""
    for path, owner, block in wire.blocks(body):
        is_reasoning = block.get("type") in ("thinking", "reasoning")
        is_sealed = is_reasoning or block.get("type") == "compaction"
        content = compact_json(_without(block, ()))
        bound = "" if is_reasoning else f"{owner}\n{compact_json(_without(block, _SIGNATURES))}"
        tokens = 4 if path.endswith("content.0") else 0
        tokens += _MEDIA_TOKENS * len(_MEDIA.findall(content))
        if owner != "settings":
            tokens += count_text(content if owner == "tool" else _text_of(block))
        is_marked = any(block.get(mark) for mark in _MARKS)
        thought = block.get("thinking") or block.get("content", "")
        named = [block.get(name) for name in _SIGNATURES[: 3 if is_sealed else 1]]
        signature = next((one for one in named if one not in _NO_SIGNATURES), None)
        key = f"{owner}\n{content}"
        yield _Segment(path, key, bound, tokens, is_marked, signature, str(thought))


def _without(value: Json, names: Sequence[str]) -> Json:
    """Return the value without cache marks, these fields and nulls; the order of keys counts."""
    if isinstance(value, dict):
        kept = {k: v for k, v in as_object(value).items() if k not in (*_MARKS, *names)}
        return {key: _without(inner, names) for key, inner in kept.items() if inner is not None}
    return [_without(one, names) for one in as_list(value)] if isinstance(value, list) else value


def _text_of(value: Json) -> str:
    """Return what the model reads of a block, or of a value inside one."""
    if isinstance(value, dict):
        value = [held for key, held in as_object(value).items() if key not in _SILENT]
    if isinstance(value, list):
        return " ".join(filter(None, map(_text_of, as_list(value))))
    return "" if value is None else str(value)


def _digests(keys: Iterable[str]) -> Iterator[str]:
    """Yield one digest per key: of everything up to it, itself included."""
    rolling = blake2b(digest_size=16)
    for key in keys:
        if key:
            rolling.update(f"{len(key)}:{key}".encode("utf-8", "surrogatepass"))
        yield rolling.hexdigest()


# ---- signed reasoning: made over the prefix that the model saw, refused if the prefix changed ----
# https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (2026-11-27)


def _digest(text: object) -> str:
    return next(_digests([str(text)]))


def _sign(text: str, segments: Sequence[_Segment], limits: ModelLimits) -> str:
    signed = [s.signature for s in segments if (_open(s) or [""])[0] == limits.id]
    prefix = ["", *_digests(segment.bound for segment in segments)][-1]
    return _seal([limits.id, prefix, _digest(signed[-1] if signed else "")], text)


def _seal(fields: list[str], text: str) -> str:
    seal = [*fields, _digest(f"of the local provider: {fields} {text}")]
    return urlsafe_b64encode(json.dumps(seal).encode()).decode()


def _open(segment: _Segment) -> list[str] | None:
    """Return a signature's model, prefix and predecessor; `None` if it is not ours or was changed."""
    try:
        fields = json.loads(urlsafe_b64decode(str(segment.signature)))[:3]
    except ValueError:
        return None
    return fields if segment.signature == _seal(fields, segment.text) else None


def _clear(body: JsonObject, segments: list[_Segment], tokens: int) -> Iterator[JsonObject]:
    """Clear results of tools beyond the newest, and say so.

    https://platform.claude.com/docs/en/build-with-claude/context-editing (2026-11-30)
    """
    for edit in objects_in(as_object(body.get("context_management")).get("edits")):
        results = [at for at, one in enumerate(segments) if '"type":"tool_result"' in one.key]
        cleared = results[: -as_object(edit.get("keep")).get("value", 3)]
        least = as_object(edit.get("trigger")).get("value", 100_000)
        if edit["type"] == "clear_tool_uses_20250919" and cleared and tokens > least:
            figures = {"cleared_input_tokens": sum(segments[at].tokens for at in cleared)}
            yield {"type": edit["type"], "cleared_tool_uses": len(cleared), **figures}
            for at in cleared:
                segments[at] = segments[at]._replace(key=f"{segments[at].key} cleared", tokens=0)


def _judge_reasoning(
    segments: Sequence[_Segment], limits: ModelLimits
) -> Iterator[tuple[_Segment, str]]:
    """Yield every signed block, with what is wrong with it (empty: nothing)."""
    before = ["", *_digests(segment.bound for segment in segments)]
    is_bound, previous = limits.thinking.is_prefix_bound, None
    for segment, prefix in zip(segments, before, strict=False):
        if segment.signature is None:
            continue
        seal = _open(segment)
        if seal is None:
            yield segment, "seal"
        elif seal[1] == "compaction":  # bound to its text alone
            yield segment, ""
        elif seal[0] != limits.id:
            yield segment, "model"
        elif is_bound and seal[1] != prefix:
            yield segment, "prefix"
        elif is_bound and previous is not None and seal[2] != _digest(previous):
            yield segment, "chain"
        else:
            previous = segment.signature
            yield segment, ""


_UNBOUND: Final = "Invalid signature in thinking block: it is bound to a different conversation"
_OBJECTIONS: Final[Mapping[tuple[str, str], str]] = {
    ("anthropic", "seal"): "Invalid `signature` in `thinking` block",
    ("anthropic", "prefix"): f"{_UNBOUND}, which began otherwise.",
    ("anthropic", "chain"): f"{_UNBOUND}, which had another block before it.",
    ("openai_responses", "seal"): "The encrypted content could not be verified.",
    # https://ai.google.dev/gemini-api/docs/thought-signatures (2026-11-27)
    **dict.fromkeys([("gemini", "seal"), ("gemini", "model")], "Corrupted thought signature."),
}
