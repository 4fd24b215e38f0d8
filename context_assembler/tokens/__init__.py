"""Token counts: one formula, one family per tokenizer and request format.

    TokenCounter("claude-sonnet-5-5").count_text("How many tokens is this?")

A family counts stored events, the system prompt and tools as one model reads them: exactly if its
vocabulary is public, else by an estimate that is fitted to its tokenizer. A schema for the reply
(`response_format`, `text.format` …) is not counted: no option sends one, and whoever adds one to a
payload must leave room for it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    KIND_MASK,
    NOTE,
    SYSTEM,
    TOOL_CALL,
    Body,
    Json,
    JsonObject,
    SessionEvent,
    body_of,
    compact_json,
    kind_of,
)
from context_assembler.models import ModelLimits, get_model_limits, protocol_for
from context_assembler.ports import TokenCounter as CountsText
from context_assembler.ports import ToolChoice, ToolSpec
from context_assembler.texts import REMINDER_TAG, SUMMARY_TAG, escape_tag
from context_assembler.tokens.frames import FRAMES, OTHER_TOKENIZER, TOKENIZERS, Frame, frame_name

__all__ = [
    "COUNTERS",
    "DEFAULT_FAMILIES",
    "FRAMES",
    "CounterName",
    "Family",
    "Frame",
    "TokenCounter",
    "family_by_key",
    "family_for",
]

CounterName: TypeAlias = Literal["auto", "exact", "estimate", "simple"]
COUNTERS: Final = ("auto", "exact", "estimate", "simple")

_VERSION: Final = "5"  # goes up if any count changes: of the vocabularies, the weights, or the code
_ERROR_TOKENS: Final = 10  # "ERROR: " and a sentence, for a provider without a flag for it
_EMPTY_TOKENS: Final = 3  # what stands for a result without content
_ATTACHMENT_TOKENS: Final = 48  # the two lines about media that a tool returned, and a message
_LEFT_OUT_TOKENS: Final = 80  # the line that names what the model does not take, its name clipped
_FENCE_TOKENS: Final = 16  # tags around text that a provider takes under no role of its own
_JOINT_TOKENS: Final = 1  # what a renderer may put between two texts of one result
_SHORT_CHARS: Final = 48  # names and words that are counted again and again
_MANY_ARGUMENTS: Final = 64  # from here on they are counted as one text
# By type, what a block is charged next to its own JSON, as recorded requests were.
_BLOCK_TOKENS: Final = {"additional_tools": 55, "custom": 6}
# Whose own tools a vendor's models can be offered.
_PROTOCOLS: Final = {"anthropic": ("anthropic",), "google": ("gemini",)}
_OTHER_PROTOCOLS: Final = ("openai_responses", "openai_chat")


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
        self._plain = (frame.message, frame.message + frame.reply)  # of a user's text, of a reply

    def count_text(self, text: str) -> int:
        """Return the tokens of the text; any string is accepted."""
        return self._count(text) if text else 0

    def count_event(self, kind: int, body: Body) -> int:
        """Return the tokens of a stored event with what surrounds it, without its reasoning."""
        parts, number = body["parts"], kind & KIND_MASK
        if number <= ASSISTANT and len(parts) == 1 and parts[0]["type"] == "text":
            text = parts[0]["text"]
            return self._plain[number] + (self._count(text) if text else 0)
        tag = ""
        if number >= COMPACTION:
            is_system = number == SYSTEM or (number == NOTE and body.get("note") != "continue")
            tag = REMINDER_TAG if is_system else SUMMARY_TAG if number == COMPACTION else ""
        tokens = others = results = thoughts = 0
        calls: list[JsonObject] = []
        blocks = number == COMPACTION and [p for p in parts if self._reads(p)]
        for part in parts:
            match part["type"]:
                case "tool_call":
                    calls.append(part)
                    tokens += self._count_call(part)
                    continue
                case "tool_result":
                    results += 1
                    tokens += self._count_result(part)
                    continue
                case "thinking":
                    thoughts += 1
                    continue
                case "text" if not blocks:
                    tokens += self.count_text(
                        escape_tag(tag, part["text"]) if tag else part["text"]
                    )
                case "text":
                    pass  # one of the two is sent: the blocks, or the text, which counts with them
                case "opaque" if number == COMPACTION and not self._reads(part):
                    continue
                case _:
                    tokens += self._count_other(part)
            others += 1
        if thoughts == len(parts) > 0:
            return 0
        if tag and (number == COMPACTION or not self._takes_system(body)):
            tokens += _FENCE_TOKENS
        if results > 1 and any(self.frame.parallel):
            tokens += sum(self._quoting_tokens(p) for p in parts if p["type"] == "tool_result")
        is_reply = number in (ASSISTANT, TOOL_CALL)
        return tokens + self._around(others, calls, results, is_reply=is_reply)

    def count_reasoning(self, body: Body) -> int:
        """Return the tokens that an event's signed and encrypted parts add if they are sent."""
        tokens = thoughts = others = 0
        calls: list[JsonObject] = []
        for part in body["parts"]:
            kind = part["type"]
            if kind == "thinking":
                thoughts += 1
                tokens += self._count_thinking(part)
            elif kind == "tool_call":
                calls.append(part)
            elif kind != "tool_result":
                others += 1
            if "r" in self._settings.takes and (signature := part.get("signature")):
                from context_assembler.tokens.media import count_signature

                tokens += count_signature(signature, host=self._settings.host)
        if thoughts:
            tokens += self._around(others + thoughts, calls, 0, is_reply=True)
            if others or calls:
                tokens -= self._around(others, calls, 0, is_reply=True)
        return tokens

    def count_system(self, text: str) -> int:
        """Return the tokens of a system prompt; 0 if there is none."""
        return self._count(text) + self.frame.system if text else 0

    def count_tool(self, spec: ToolSpec) -> int:
        """Return the tokens of one tool's definition; 0 if this model cannot be offered it."""
        from context_assembler.tokens.definitions import (
            hosted_tool_tokens,
            tool_as_typescript,
            tool_as_words,
        )

        frame = self.frame
        if natives := spec.native_specs:
            protocols = _PROTOCOLS.get(self._settings.provider, _OTHER_PROTOCOLS)
            native = next((natives[name] for name in protocols if name in natives), None)
            if native is None:
                return 0
            next_to = _BLOCK_TOKENS.get(str(native.get("type")), 0)
            written = max(0, self._count_json(native) + frame.tool + next_to)
            return max(written, hosted_tool_tokens(native))
        if frame.tool_form in ("typescript", "harmony"):
            typed = tool_as_typescript(spec, marks_lines=frame.tool_form == "harmony")
            return self.count_text(typed) + frame.tool
        if frame.tool_form == "words":
            words, types = tool_as_words(spec)
            return sum(map(self.count_text, words)) + frame.tool + types * frame.type
        definition = {
            "name": spec.name,
            "description": spec.description,
            "input_schema": spec.input_schema,
        }
        return self._count_json(definition) + frame.tool

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
        frame = self.frame
        tokens = frame.tools if self._tool_prompt is None else self._tool_prompt
        tokens -= frame.shared if has_system else 0
        if choice is not None:
            tokens += frame.required if choice.mode == "any" else 0
            tokens += frame.sequential if choice.allows_parallel is False else 0
        return max(0, tokens)

    def _reads(self, part: JsonObject) -> bool:
        return part["type"] == "opaque" and part["provider"] == self._settings.protocol

    def _takes_system(self, body: Body) -> bool:
        """Whether a system message keeps its role; else it becomes the user's text, between tags.

        Claude takes system messages after a user's turn only.
        """
        has_authority = body.get("origin", "developer") in ("developer", "assembler")
        return has_authority and "s" in self._settings.takes

    def _around(
        self, others: int, calls: Sequence[JsonObject], results: int, *, is_reply: bool
    ) -> int:
        """Return the tokens around the parts: each result, and each call, has a frame of its own."""
        frame, number = self.frame, len(calls)
        tokens = results * (frame.message + frame.result)
        if others or not (number or results):
            tokens += frame.message + (frame.reply if is_reply else 0)
        if others > 1:
            splits = frame.splits_replies and is_reply
            tokens += (others - 1) * (max(frame.joint, frame.message) if splits else frame.joint)
        if number > 1 and frame.parallel[0]:
            names = sum(self.count_text(call["name"]) for call in calls)
            return tokens + frame.parallel[0] + number * frame.parallel[1] - names
        tokens += number * frame.call + (frame.several if number > 1 else 0)
        if number == 1 and ((calls[0].get("extras") or {}).get("openai_responses") or {}).get("id"):
            tokens += frame.kept_id
        return tokens

    def _quoting_tokens(self, result: JsonObject) -> int:
        """Return what a result's text costs more as a JSON string."""
        text = "\n".join(p["text"] for p in result.get("content", ()) if p["type"] == "text")
        return max(0, self.count_text(compact_json(text)) - self.count_text(text))

    def _count_call(self, call: JsonObject) -> int:
        """Count the longer form: some providers get the model's own text, some the arguments."""
        frame, count = self.frame, self.count_text
        arguments, own = call.get("arguments") or {}, call.get("arguments_json")
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
            return self._count_json(arguments) + each * len(arguments)
        texts = ((k, v if isinstance(v, str) else _compact(v)) for k, v in arguments.items())
        return sum(each + count(name) + count(value) for name, value in texts)

    def _count_result(self, result: JsonObject) -> int:
        content: Sequence[JsonObject] = result.get("content", ())
        if self.frame.reads_words:
            texts = [part["text"] for part in content if part["type"] == "text"]
            words = _response_words(texts, is_error=bool(result.get("is_error")))
            media = [part for part in content if part["type"] != "text"]
            tokens = sum(map(self._count_other, media)) + len(media) * _ATTACHMENT_TOKENS
            return tokens + sum(map(self.count_text, words))
        tokens = max(0, len(content) - 1) * _JOINT_TOKENS
        tokens += _ERROR_TOKENS if result.get("is_error") else 0
        for part in content:
            is_text = part["type"] == "text"
            tokens += self.count_text(part["text"]) if is_text else self._count_other(part)
            tokens += _ATTACHMENT_TOKENS if part["type"] in ("image", "document") else 0
        is_blank = tokens < _EMPTY_TOKENS and not any(p.get("text", "").strip() for p in content)
        return _EMPTY_TOKENS if is_blank else tokens

    def _count_other(self, part: JsonObject) -> int:
        """Count an image, a document, or a block that we do not interpret."""
        from context_assembler.tokens import media

        settings = self._settings
        if part["type"] == "image":
            is_taken = "v" in settings.takes
            return (
                media.count_image(part, rule=settings.image_rule) if is_taken else _LEFT_OUT_TOKENS
            )
        if part["type"] == "document":
            title = self.count_text(part.get("title") or "")
            if (text := part.get("text")) is not None:
                return title + self.count_text(text) + self.frame.document
            if "p" not in settings.takes:
                return _LEFT_OUT_TOKENS
            rule, provider = settings.image_rule, settings.provider
            return title + media.count_document(part, provider=provider, image_rule=rule)
        block = part["block"]
        text, hidden = media.split_sealed(_compact(block))
        next_to = _BLOCK_TOKENS.get(str(block.get("type")), 0)
        return max(self.count_text(part.get("text", "")), self.count_text(text) + hidden + next_to)

    def _count_thinking(self, part: JsonObject) -> int:
        """Count the text, or what is encrypted: next to that a text is a summary only."""
        block = part.get("block")
        if block is None or (block.get("type") == "reasoning" and "encrypted_content" not in block):
            return 0  # goes back to no model
        from context_assembler.tokens.media import count_sealed

        readable = self.count_text(part.get("text", ""))
        if readable and "encrypted_content" not in block:
            return readable
        return max(readable, count_sealed(block))

    def _count_json(self, value: Json) -> int:
        return self.count_text(_compact(value))


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
        body = body_of(event)
        return self.count_event(kind_of(event.type, body), body) + self.count_reasoning(body)

    def count_messages(self, events: Iterable[SessionEvent]) -> int:
        """Return the tokens of a request that holds these messages."""
        return self.request_tokens + sum(map(self.count_message, events))


def _settings_of(limits: ModelLimits, counter: Any, protocol: str) -> _Settings:
    tokenizer = TOKENIZERS.get(limits.encoding, OTHER_TOKENIZER)
    text = tokenizer.exact if counter in ("auto", "exact") else ""
    if not isinstance(counter, str):
        text = f"own {counter.name}".replace("|", " ")
    elif counter not in COUNTERS:
        raise UnknownOptionError(counter, kind="token counter", known=COUNTERS)
    elif counter == "exact" and not text:
        raise ConfigurationError(
            f"The vocabulary {limits.encoding!r} of {limits.id} is not public.",
            remedy="Use counter='auto', which estimates for this model.",
        )
    elif counter == "simple":
        text = "simple"
    # As recorded requests were charged, Gemini 3 reads the reasoning that signatures keep, and on
    # Vertex AI Gemini 2.5 alone. Its own API charges Gemini 2.5 for it if the reply is streamed,
    # which nothing in a request tells.
    is_google = limits.provider == "google"
    host = limits.host if is_google and limits.host == "vertex_ai" else ""
    takes = {
        "v": limits.features.get("vision") is not False,
        "p": limits.features.get("pdf") is not False,
        "s": limits.provider == "openai",
        "r": is_google and ("effort" in limits.thinking.kinds) != bool(host),
    }
    return _Settings(
        text=text or f"~{tokenizer.family}",
        frame=frame_name(limits, protocol),
        protocol=protocol,
        provider=limits.provider if limits.provider in _PROTOCOLS else "",
        image_rule=limits.image_rule,
        host=host or "",
        takes="".join(letter for letter, is_taken in takes.items() if is_taken),
    )


def _counting(text: str) -> Callable[[str], int]:
    """Return what counts by a vocabulary, by weights, or simply."""
    if text == "simple":
        return lambda text: -(-len(text) // 4)
    if not text.startswith("~"):
        from context_assembler.tokens.bpe import vocabulary

        return vocabulary(text).count
    from context_assembler.tokens.estimate import estimate_text

    family = text[1:]
    short = lru_cache(maxsize=20_000)(lambda text: estimate_text(text, family=family))
    return lambda text: (
        short(text) if len(text) <= _SHORT_CHARS else estimate_text(text, family=family)
    )


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
    protocol = protocol or protocol_for(limits)
    known = (*_settings_of(limits, counter, protocol), limits.tool_prompt_tokens)
    if not isinstance(counter, str):
        return TokenCounter(limits, counter=counter, protocol=protocol)
    if known not in _families:
        _families[known] = TokenCounter(limits, counter=counter, protocol=protocol)
    return _families[known]


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
    "5|~claude_v48|claude|anthropic|anthropic|claude-4784||vp",
    "5|o200k_base|openai-5/openai_responses|openai_responses||openai-patches-1.2||vps",
)


def _response_words(texts: Sequence[str], *, is_error: bool) -> Iterable[str]:
    """Return the words of the object that Gemini is sent as a function's response.

    Text that is the compact JSON of an object is sent as that object; several texts are a list.
    """
    from context_assembler.tokens.definitions import words_of

    written: Json = list(texts) if len(texts) > 1 else "".join(texts)
    parsed: Json = None
    if isinstance(written, str) and written.startswith("{"):
        try:
            parsed = json.loads(written)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict) or compact_json(parsed) != written:
            parsed = None
    if is_error:
        return words_of({"error": written if parsed is None else parsed})
    is_reserved = parsed is None or set(parsed) in ({"output"}, {"error"}, set())
    return words_of({"output": written} if is_reserved else parsed)


def _compact(value: Json) -> str:
    """Return JSON text; what JSON cannot say counts by its text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> Json:
    return dict(value) if isinstance(value, Mapping) else str(value)
