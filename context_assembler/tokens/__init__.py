"""Token counts: one formula, one family per tokenizer and request format.

    TokenCounter("claude-sonnet-5-5").count_text("How many tokens is this?")

A family counts stored events, the system prompt and tools as one model reads them: exactly if its
vocabulary is public, else by an estimate that is fitted to its tokenizer.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from context_assembler import events
from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.events import Body, Json, JsonObject, SessionEvent, compact_json, is_object
from context_assembler.models import ModelLimits, get_model_limits, protocol_for
from context_assembler.ports import TokenCounter as CountsText
from context_assembler.ports import ToolChoice, ToolSpec
from context_assembler.texts import REMINDER_TAG, SUMMARY_TAG, escape_tag, whole_end
from context_assembler.tokens.frames import FRAMES, OTHER_TOKENIZER, TOKENIZERS, frame_name

__all__ = ["DEFAULT_FAMILIES", "FRAMES", "Family", "TokenCounter", "estimate_tokens"]
__all__ += ["family_by_key", "family_for", "truncate_to_tokens"]

CounterName: TypeAlias = Literal["auto", "exact", "estimate", "simple"]

_VERSION: Final = "7"  # goes up if any count changes: of the vocabularies, the weights, or the code
_ERROR_TOKENS: Final = 10  # "ERROR: " and a sentence, for a provider without a flag for it
_EMPTY_TOKENS: Final = 3  # what stands for a result without content
_ATTACHMENT_TOKENS: Final = 48  # the two lines about media that a tool returned, and a message
_FENCE_TOKENS: Final = 32  # tags with a nonce around text that has no role of its own
_MANY_ARGUMENTS: Final = 64  # from here on they are counted as one text
_ROLES: Final = {events.USER: "user", events.TOOL_RESULT: "tool"} | dict.fromkeys(
    (events.ASSISTANT, events.TOOL_CALL), "assistant"
)
_COUNTED_APART: Final = ("tool_call", "tool_result", "thinking")
# By type, what a block is charged next to its own JSON, as recorded requests were.
_BLOCK_TOKENS: Final = {"additional_tools": 55, "custom": 6}
_RESERVED: Final = ({"output"}, {"error"}, set[str]())  # keys of a function's response


class _Settings(NamedTuple):
    """All that the counts of events depend on; its text is a family's key.

    Attributes:
        text: The vocabulary (`o200k_base`), weights (`~claude_v48`), `simple`, or a counter's name.
        frame: A key of `FRAMES`.
        takes: Letters: `v` images, `p` PDF documents, `s` system messages anywhere, `r` the reasoning
            that signatures keep.
    """

    text: str
    frame: str
    protocol: str
    provider: str
    image_rule: str
    host: str
    takes: str


class Family:
    """Counts as one tokenizer and one vendor's request format do; a `TokenFamily`.

    Attributes:
        key: Names the counts in a store.
        name: The vocabulary, or `~` and the weights of the estimate.
        request_tokens: Once per request.
    """

    def __init__(
        self, settings: _Settings, count: Callable[[str], int], *, tool_prompt: int | None = None
    ) -> None:
        self.key = "|".join((_VERSION, *settings))
        self.name = settings.text
        self.is_exact = settings.text in ("o200k_base", "cl100k_base")
        self.frame = frame = FRAMES[settings.frame]
        self.request_tokens = frame.request
        self._settings = settings
        self._tool_prompt = tool_prompt
        self._count = count
        # What is around a user's text, the text of a reply, a result.
        self._plain = (frame.message, frame.message + frame.reply, frame.message + frame.result)

    @cached_property
    def _wire(self) -> Any:
        """What says how the provider gets parts that it does not take as they are."""
        from context_assembler.context import Request
        from context_assembler.options import Parameters
        from context_assembler.providers import PROVIDERS

        settings = self._settings
        limits = ModelLimits(
            id=settings.provider,
            provider=settings.provider,
            window_tokens=1_000_000,
            features={"vision": "v" in settings.takes, "pdf": "p" in settings.takes},
            image_rule=settings.image_rule,
            host=settings.host or None,
        )
        request = Request(limits=limits, parameters=Parameters(max_tokens=1))
        return PROVIDERS[settings.protocol].Wire(request)

    def settled(self, kind: int, parts: Sequence[JsonObject]) -> Sequence[JsonObject]:
        """Return an event's parts as the provider can take them; blocks of its own stay as they are."""
        number = kind & events.KIND_MASK
        if not kind & (events.HAS_MEDIA | events.UNUSUAL) or number == events.COMPACTION:
            return parts
        made: Sequence[JsonObject] = self._wire.settled(_ROLES.get(number, "system"), parts)
        return made

    def count_text(self, text: str) -> int:
        """Return the tokens of the text; any string is accepted."""
        return self._count(text) if text else 0

    def count_event(self, kind: int, body: Body) -> int:
        """Return the tokens of a stored event with what surrounds it, without its reasoning."""
        parts, number = self.settled(kind, body["parts"]), kind & events.KIND_MASK
        if number <= events.TOOL_RESULT and len(parts) == 1:  # as most are
            part = parts[0]
            if part["type"] == "text" and number <= events.ASSISTANT:
                return self._plain[number] + self.count_text(part["text"])
            if part["type"] == "tool_result":
                return self._plain[-1] + self._count_result(part)
        tokens = others = 0
        is_summary = number == events.COMPACTION
        calls = [part for part in parts if part["type"] == "tool_call"]
        results = [part for part in parts if part["type"] == "tool_result"]
        is_system = number >= events.SYSTEM and body.get("note") != "continue"
        # A summary is sent as its provider's blocks, or else as its text between tags.
        tag = SUMMARY_TAG if is_summary else REMINDER_TAG if is_system else ""
        blocks = [p for p in parts if is_summary and p.get("provider") == self._settings.protocol]
        for part in parts:
            if part["type"] == "text":
                text = part["text"]
                tokens += 0 if blocks else self.count_text(escape_tag(tag, text) if tag else text)
            elif part["type"] in _COUNTED_APART or (is_summary and part not in blocks):
                continue
            else:
                tokens += self._count_other(part)
            others += 1
        if parts and not (others or calls or results):
            return 0  # reasoning alone
        has_authority = body.get("origin", "developer") in ("developer", "assembler")
        if is_summary or (is_system and not (has_authority and "s" in self._settings.takes)):
            tokens += _FENCE_TOKENS
        tokens += sum(map(self._count_call, calls)) + sum(map(self._count_result, results))
        is_reply = number in (events.ASSISTANT, events.TOOL_CALL)
        return tokens + self._around(others, calls, len(results), is_reply=is_reply)

    def count_reasoning(self, body: Body) -> int:
        """Return the tokens that an event's signed and encrypted parts add if they are sent."""
        parts = body["parts"]
        if not any(part["type"] == "thinking" or "signature" in part for part in parts):
            return 0
        from context_assembler.tokens.media import count_sealed, count_signature

        calls = [part for part in parts if part["type"] == "tool_call"]
        thoughts = [part for part in parts if part["type"] == "thinking"]
        others = len(parts) - len(calls) - len(thoughts)
        tokens = 0
        if "r" in self._settings.takes:
            signatures = filter(None, (part.get("signature") for part in parts))
            tokens += sum(count_signature(each, host=self._settings.host) for each in signatures)
        for part in thoughts:
            block: JsonObject = part.get("block") or {}
            is_sealed = "encrypted_content" in block
            if not block and "t" in self._settings.takes:
                tokens += self.count_text(part.get("text", ""))
            if block and (is_sealed or block.get("type") != "reasoning"):  # else no model gets it
                readable = self.count_text(part.get("text", ""))
                # Next to encrypted reasoning a text is a summary only.
                tokens += max(readable, 0 if readable and not is_sealed else count_sealed(block))
        if thoughts:
            tokens += self._around(others + len(thoughts), calls, is_reply=True)
            tokens -= self._around(others, calls, is_reply=True) if others or calls else 0
        return tokens

    def count_system(self, text: str) -> int:
        """Return the tokens of a system prompt; 0 if there is none."""
        return self._count(text) + self.frame.system if text else 0

    def count_tool(self, spec: ToolSpec) -> int:
        """Return the tokens of one tool's definition; 0 if this model cannot be offered it."""
        from context_assembler.tokens import definitions

        frame = self.frame
        if natives := spec.native_specs:
            native = natives.get(self._settings.protocol)
            if native is None:
                return 0
            next_to = _BLOCK_TOKENS.get(str(native.get("type")), 0)
            written = self.count_text(_compact(native)) + frame.tool + next_to
            return max(0, written, definitions.hosted_tool_tokens(native))
        if frame.tool_form == "words":
            words, types = definitions.tool_as_words(spec)
            return sum(map(self.count_text, words)) + frame.tool + types * frame.type
        if frame.tool_form == "json":
            form = {"name": spec.name, "description": spec.description}
            written_form = _compact({**form, "input_schema": spec.input_schema})
        else:
            marks_lines = frame.tool_form == "harmony"
            written_form = definitions.tool_as_typescript(spec, marks_lines=marks_lines)
        return self.count_text(written_form) + frame.tool

    def count_tools_overhead(
        self,
        tools: Sequence[ToolSpec],
        *,
        has_system: bool = False,
        choice: ToolChoice | None = None,
    ) -> int:
        """Return what having tools costs next to their definitions; 0 without tools."""
        if not tools:
            return 0
        frame, choice = self.frame, choice or ToolChoice()
        tokens = frame.tools if self._tool_prompt is None else self._tool_prompt
        tokens += frame.required if choice.mode == "any" else 0
        tokens += frame.sequential if choice.allows_parallel is False else 0
        return max(0, tokens - (frame.shared if has_system else 0))

    def _around(
        self, others: int, calls: Sequence[JsonObject], results: int = 0, *, is_reply: bool
    ) -> int:
        """Return the tokens around the parts; each call, and each result, has its own frame."""
        frame, number = self.frame, len(calls)
        tokens = number * frame.call + (frame.several if number > 1 else 0)
        if number > 1 and frame.parallel[0]:
            once, each = frame.parallel
            tokens = once + number * each - sum(self.count_text(call["name"]) for call in calls)
        extras: JsonObject = (calls[0].get("extras") or {}) if number == 1 else {}
        kept: JsonObject = extras.get("openai_responses") or {}
        tokens += frame.kept_id if kept.get("id") else 0
        if others or not (calls or results):
            tokens += frame.message + (frame.reply if is_reply else 0)
        if others > 1:
            splits = frame.splits_replies and is_reply
            tokens += (others - 1) * (max(frame.joint, frame.message) if splits else frame.joint)
        return tokens + results * self._plain[-1]

    def _count_call(self, call: JsonObject) -> int:
        """Count the longer form: some providers get the model's own text, some the arguments."""
        frame, count = self.frame, self.count_text
        arguments: JsonObject = call.get("arguments") or {}
        own: Json = call.get("arguments_json")
        tokens = frame.names * count(call["name"])
        if own is None or (arguments and (frame.argument or frame.reads_words)):
            return tokens + self._count_arguments(arguments)
        written = compact_json(arguments) if arguments else own
        return tokens + max(count(own), 0 if written == own else count(written))

    def _count_arguments(self, arguments: JsonObject) -> int:
        each, count = self.frame.argument, self.count_text
        if self.frame.reads_words:
            from context_assembler.tokens.definitions import words_of

            return sum(map(count, words_of(arguments)))
        if not each or len(arguments) > _MANY_ARGUMENTS:
            return self.count_text(_compact(arguments)) + each * len(arguments)
        texts = ((k, v if isinstance(v, str) else _compact(v)) for k, v in arguments.items())
        return sum(each + count(name) + count(value) for name, value in texts)

    def _count_result(self, result: JsonObject) -> int:
        content: Sequence[JsonObject] = result.get("content", ())
        texts = [part["text"] for part in content if part["type"] == "text"]
        others = [part for part in content if part["type"] != "text"]
        tokens = sum(map(self._count_other, others)) if others else 0
        if self.frame.reads_words:
            words = _response_words(texts, is_error=bool(result.get("is_error")))
            return tokens + len(others) * _ATTACHMENT_TOKENS + sum(map(self.count_text, words))
        tokens += _ATTACHMENT_TOKENS * sum(part["type"] != "opaque" for part in others)
        # A renderer may put a line break between two texts.
        tokens += sum(map(self.count_text, texts)) + max(0, len(content) - 1)
        tokens += _ERROR_TOKENS if result.get("is_error") else 0
        is_blank = tokens < _EMPTY_TOKENS and not any(map(str.strip, texts))
        return _EMPTY_TOKENS if is_blank else tokens

    def _count_other(self, part: JsonObject) -> int:
        """Count an image, a document, or a block that we do not interpret."""
        from context_assembler.tokens import media

        rule = self._settings.image_rule
        if part["type"] == "image":
            return media.count_image(part, rule=rule)
        if part["type"] == "document":
            title = self.count_text(part.get("title") or "")
            if (text := part.get("text")) is not None:
                return title + self.count_text(text) + self.frame.document
            provider = self._settings.provider
            return title + media.count_document(part, provider=provider, image_rule=rule)
        block = part["block"]
        text, hidden = media.split_sealed(_compact(block))
        next_to = _BLOCK_TOKENS.get(str(block.get("type")), 0)
        return max(self.count_text(part.get("text", "")), self.count_text(text) + hidden + next_to)


class TokenCounter(Family):
    """Counts as a model does, by itself.

        counter = TokenCounter("gpt-6-sol")
        counter.count_text("Hello") + counter.count_message(user_event("Hello"))

    Args:
        model: An id that `get_model_limits` knows, or limits.
        counter: `auto` counts exactly if the vocabulary is public and estimates else; `exact` insists
            on one; `estimate` uses none; `simple` takes four characters for a token.
        protocol: The provider that renders the request: the same model frames it differently in
            OpenAI's two protocols. By default the usual one.

    Raises:
        ConfigurationError: `exact`, and the model's vocabulary is not public.
    """

    def __init__(
        self,
        model: str | ModelLimits,
        *,
        counter: CounterName | CountsText = "auto",
        protocol: str | None = None,
    ) -> None:
        limits = get_model_limits(model) if isinstance(model, str) else model
        settings = _settings_of(limits, counter, protocol or protocol_for(limits))
        count = _counting(settings.text) if isinstance(counter, str) else counter.count_text
        super().__init__(settings, count, tool_prompt=limits.tool_prompt_tokens)

    def count_message(self, event: SessionEvent) -> int:
        """Return the tokens of an event as a message of its own, reasoning included."""
        body = events.body_of(event)
        return self.count_event(events.kind_of(event.type, body), body) + self.count_reasoning(body)

    def count_messages(self, messages: Iterable[SessionEvent]) -> int:
        """Return the tokens of a request that holds these messages."""
        return self.request_tokens + sum(map(self.count_message, messages))


def estimate_tokens(text: str, *, model: str | ModelLimits) -> int:
    """Return the tokens of a text: exact if the model's vocabulary is public."""
    return TokenCounter(model).count_text(text)


def truncate_to_tokens(text: str, max_tokens: int, *, model: str | ModelLimits) -> str:
    """Return the beginning of a text that has at most so many tokens; no character is parted."""
    count = TokenCounter(model).count_text
    if count(text) <= max_tokens:
        return text
    end = bisect_right(range(len(text)), max_tokens, key=lambda at: count(text[:at])) - 1
    while (end := whole_end(text, end)) > 0 and count(text[:end]) > max_tokens:
        end -= 1
    return text[: max(0, end)]


def _settings_of(limits: ModelLimits, counter: Any, protocol: str) -> _Settings:
    tokenizer = TOKENIZERS.get(limits.encoding, OTHER_TOKENIZER)
    exact, estimate = tokenizer.exact, f"~{tokenizer.family}"
    texts = {"auto": exact or estimate, "exact": exact, "estimate": estimate, "simple": "simple"}
    if not isinstance(counter, str):
        text = f"own {counter.name}".replace("|", " ")
    elif counter not in texts:
        raise UnknownOptionError(counter, kind="token counter", known=texts)
    elif not (text := texts[counter]):
        raise ConfigurationError(
            f"The vocabulary {limits.encoding!r} of {limits.id} is not public.",
            remedy="Use counter='auto', which estimates for this model.",
        )
    # As recorded requests were charged, Gemini 3 reads the reasoning that signatures keep, and on
    # Vertex AI Gemini 2.5 alone. Its own API charges Gemini 2.5 for it if the reply is streamed,
    # which nothing in a request tells.
    is_google, features = limits.provider == "google", limits.features
    host = "vertex_ai" if is_google and limits.host == "vertex_ai" else ""
    takes = {
        "v": features.get("vision") is not False,
        "p": features.get("pdf") is not False,
        "s": limits.provider == "openai",
        "t": limits.thinking.back is not None,
        "r": is_google and ("effort" in limits.thinking.kinds) != bool(host),
    }
    frame, letters = frame_name(limits, protocol), "".join(k for k, taken in takes.items() if taken)
    provider = limits.provider if limits.provider in ("anthropic", "google") else ""
    if limits.provider == "openai" and limits.host in (None, "azure"):
        provider = "openai"
    return _Settings(text, frame, protocol, provider, limits.image_rule, host, letters)


def _counting(text: str) -> Callable[[str], int]:
    """Return what counts by a vocabulary, by weights, or simply."""
    if text == "simple":
        return lambda text: -(-len(text) // 4)
    if not text.startswith("~"):
        from context_assembler.tokens.bpe import vocabulary

        return vocabulary(text).count
    from context_assembler.tokens.estimate import estimate_text

    estimate = partial(estimate_text, family=text[1:])
    short = lru_cache(maxsize=20_000)(estimate)  # names and words come again and again
    return lambda text: short(text) if len(text) <= 48 else estimate(text)


_families: Final[dict[tuple[Any, ...], TokenCounter]] = {}


def family_for(
    limits: ModelLimits,
    *,
    counter: CounterName | CountsText = "auto",
    protocol: str | None = None,
) -> TokenCounter:
    """Return the family that counts for a model; models that count alike share one.

    See `TokenCounter` for the arguments and errors.
    """
    made = TokenCounter(limits, counter=counter, protocol=protocol)
    if not isinstance(counter, str):
        return made
    return _families.setdefault((made.key, limits.tool_prompt_tokens), made)


@lru_cache(64)
def family_by_key(key: str) -> Family | None:
    """Return the bundled family of that key; `None` for another version's, or a counter of your own."""
    version, *fields = key.split("|")
    if version != _VERSION or len(fields) != len(_Settings._fields) or fields[1] not in FRAMES:
        return None
    settings = _Settings(*fields)
    is_own = settings.text.startswith("own ")
    return None if is_own else Family(settings, _counting(settings.text))


# What a new session is counted by at append, since most are sent to one of these: Claude from Opus 4.7
# on, and GPT-5.6 and later over Responses.
DEFAULT_FAMILIES: Final = (
    "7|~claude_v48|claude|anthropic|anthropic|claude-4784||vp",
    "7|o200k_base|openai-5/openai_responses|openai_responses|openai|openai-patches-1.2||vps",
)


def _response_words(texts: Sequence[str], *, is_error: bool) -> Iterator[str]:
    """Return the words of the object that Gemini is sent as a function's response.

    Text that is the compact JSON of an object is sent as that object; several texts are a list.
    """
    from context_assembler.tokens.definitions import words_of

    written: Json = list(texts) if len(texts) > 1 else "".join(texts)
    parsed: Json = None
    if isinstance(written, str) and written.startswith("{"):
        with suppress(ValueError, RecursionError):
            parsed = json.loads(written)
    response = written if parsed is None or compact_json(parsed) != written else parsed
    if is_error:
        return words_of({"error": response})
    is_whole = is_object(response) and set(response) not in _RESERVED
    return words_of(response if is_whole else {"output": written})


def _plain(value: object) -> Json:
    return dict(value) if is_object(value) else str(value)


# What JSON cannot say counts by its text.
_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode
