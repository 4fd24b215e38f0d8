"""The one formula by which text, messages, prompts and tools are counted."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, assert_never

from context_assembler.tokens.bpe import count_bpe
from context_assembler.tokens.documents import pages_tokens
from context_assembler.tokens.estimate import estimate_text
from context_assembler.tokens.framing import (
    JOINT_TOKENS,
    escaped,
    frame_of,
    frame_tokens,
    reads_signatures,
)
from context_assembler.tokens.hosted_tools import BLOCK_TOKENS, hosted_tool_tokens
from context_assembler.tokens.images import count_image
from context_assembler.tokens.memo import BoundedMemo
from context_assembler.tokens.sealed import sealed_tokens, signature_tokens, split_sealed
from context_assembler.tokens.tokenizers import (
    OTHER_TOKENIZER,
    TOKEN_COUNTERS,
    CountingMode,
    chosen_vocabulary,
)
from context_assembler.tokens.tool_text import tool_as_typescript, tool_as_words, words_of
from context_assembler.values.json_shapes import is_object
from context_assembler.values.limits import ModelLimits
from context_assembler.values.message_counts import NO_COUNTS, recall_count
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Document,
    Image,
    Json,
    JsonObject,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.tools import ToolChoice, ToolSpec

ERROR_TOKENS: Final = 10  # "ERROR: " and a sentence, where a provider has no flag for it
EMPTY_TOKENS: Final = 3  # what stands for a result without content
ATTACHMENT_TOKENS: Final = 48  # the two lines about media that a tool returned, and a message
LEFT_OUT_TOKENS: Final = 80  # the line that names what the model does not take, its name clipped

_MEMO_FROM_CHARS: Final = 256
# Whose own tools a vendor's models can be offered.
_PROTOCOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("anthropic",),
    "google": ("gemini",),
}
_OTHER_PROTOCOLS: Final = ("openai_responses", "openai_chat")
_MEMO_MAX_CHARS: Final = 8_000_000


class ModelTokenCounter:
    """Counts as one model does: exactly, or by an estimate fitted to its tokenizer.

    Counts of longer texts are kept, those of messages on the messages themselves, so that counting a
    history again (`count_each`) costs little.
    Safe to use from several threads. A schema for the reply (`response_format`, `text.format` …) is
    not counted: no option sends one, and who adds one to a payload must leave room for it.
    """

    def __init__(
        self, limits: ModelLimits, *, mode: CountingMode = "auto", protocol: str | None = None
    ) -> None:
        """Prepare the counter; no vocabulary is loaded before the first text.

        Args:
            protocol: In which a request is spelled, where the model's vendor has several.

        Raises:
            ConfigurationError: `exact` is asked for and the model's vocabulary is not public.
            UnknownOptionError: There is no such mode.
        """
        vocabulary = chosen_vocabulary(limits, mode=mode)
        tokenizer = TOKEN_COUNTERS.get(limits.encoding, OTHER_TOKENIZER)
        self.name = vocabulary or f"~{tokenizer.family}"
        self.is_exact = vocabulary is not None
        self._count: Callable[[str], int] = (
            partial(count_bpe, encoding=vocabulary)
            if vocabulary
            else partial(estimate_text, family=tokenizer.family)
        )
        self._limits = limits
        self._frame = frame_of(limits, protocol=protocol)
        self.request_overhead_tokens = self._frame.request
        self._reads_signatures = reads_signatures(limits)
        self._texts = BoundedMemo[str](max_weight=_MEMO_MAX_CHARS)
        self.rest_key: str | None = None  # of its counts in a store; `None`: they are not kept
        self.counts_key = object()  # its counts on messages, never those of another counter

    def count_text(self, text: str) -> int:
        """Return the tokens of the text; any string is accepted."""
        if len(text) < _MEMO_FROM_CHARS:
            return self._count(text) if text else 0
        tokens = self._texts.get(text)
        if tokens is None:
            tokens = self._count(text)
            self._texts.put(text, tokens, weight=len(text))
        return tokens

    def count_message(self, message: Message) -> int:
        """Return the tokens of the message with its own overhead.

        Of models that are spoken to in Chat Completions it is never less than the message takes
        there, where each result is a message of its own.
        """
        kept = getattr(message, "kept_counts", NO_COUNTS)
        if kept[0] is self.counts_key:
            return kept[1]
        return recall_count(message, self.counts_key, self._count_parts)

    def _count_parts(self, message: Message) -> int:
        tokens = frame_tokens(message, frame=self._frame, limits=self._limits)
        tokens += sum(map(self._count_part, escaped(message)))
        if len(message.parts) > 1 and any(self._frame.parallel):
            tokens += self._parallel_tokens(message.tool_calls, message.tool_results)
        return tokens

    def _parallel_tokens(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> int:
        """Return what several calls, or several results, cost more than one by one."""
        names = sum(self.count_text(call.name) for call in calls) if len(calls) > 1 else 0
        quotes = sum(map(self._quoting_tokens, results)) if len(results) > 1 else 0
        return quotes - (self._frame.names - 1) * names

    def _quoting_tokens(self, result: ToolResult) -> int:
        """Return what a result's text costs more as a JSON string."""
        text = result.text
        quoted = json.dumps(text, ensure_ascii=False)
        return max(0, self.count_text(quoted) - self.count_text(text))

    def count_system(self, text: str) -> int:
        """Return the tokens of a system prompt; 0 when there is none."""
        return self.count_text(text) + self._frame.system if text else 0

    def count_tool(self, tool: ToolSpec) -> int:
        """Return the tokens of one tool's definition; 0 where this model cannot be offered it."""
        return recall_count(tool, self.counts_key, self._count_definition)

    def _count_definition(self, tool: ToolSpec) -> int:
        if tool.native_specs:
            protocols = _PROTOCOLS.get(self._limits.provider, _OTHER_PROTOCOLS)
            specs = [tool.native_specs[name] for name in protocols if name in tool.native_specs]
            return self._count_native(specs[0]) if specs else 0
        if self._frame.tool_form in ("typescript", "harmony"):
            marks_lines = self._frame.tool_form == "harmony"
            typed = tool_as_typescript(tool, marks_lines=marks_lines)
            return self.count_text(typed) + self._frame.tool
        if self._frame.tool_form == "words":
            words, types = tool_as_words(tool)
            tokens = sum(map(self.count_text, words))
            return tokens + self._frame.tool + types * self._frame.type
        definition = {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
        }
        return self._count_json(definition) + self._frame.tool

    def count_tools_overhead(
        self,
        tools: Sequence[ToolSpec],
        *,
        has_system: bool = False,
        choice: ToolChoice | None = None,
    ) -> int:
        """Return what having tools costs beside their definitions; 0 without tools."""
        if not tools:
            return 0
        frame, stated = self._frame, self._limits.tool_prompt_tokens
        tokens = frame.tools if stated is None else stated
        tokens -= frame.shared if has_system else 0
        if choice is not None:
            tokens += frame.required if choice.mode == "any" else 0
            tokens += frame.sequential if choice.allows_parallel is False else 0
        return max(0, tokens)

    def _count_native(self, spec: JsonObject) -> int:
        beside = BLOCK_TOKENS.get(str(spec.get("type")), 0)
        written = max(0, self._count_json(spec) + self._frame.tool + beside)
        return max(written, hosted_tool_tokens(spec))

    def _count_part(self, part: Part) -> int:
        match part:
            case Text(text):
                return self.count_text(text) + self._count_signature(part)
            case Image():
                return self._count_image(part)
            case Document():
                return self._count_document(part)
            case Thinking():
                return self._count_thinking(part)
            case ToolCall():
                return self._count_call(part)
            case ToolResult():
                return self._count_result(part)
            case Opaque():
                return self._count_opaque(part)
            case _:
                assert_never(part)

    def _count_call(self, call: ToolCall) -> int:
        """Count the longer spelling: some providers get the model's own, some the arguments."""
        names = self._frame.names * self.count_text(call.name)
        return names + self._count_call_arguments(call) + self._count_signature(call)

    def _count_call_arguments(self, call: ToolCall) -> int:
        own = call.arguments_json
        if own is None or (call.arguments and (self._frame.argument or self._frame.reads_words)):
            return self._count_arguments(call.arguments)
        spelled = _compact(call.arguments) if call.arguments else own
        tokens = self.count_text(own)
        return tokens if spelled == own else max(tokens, self.count_text(spelled))

    def _count_arguments(self, arguments: JsonObject) -> int:
        if self._frame.reads_words:
            return sum(map(self.count_text, words_of(arguments)))
        if not (each := self._frame.argument):
            return self._count_json(arguments)
        spelled = ((k, v if isinstance(v, str) else _compact(v)) for k, v in arguments.items())
        return sum(each + self.count_text(name) + self.count_text(value) for name, value in spelled)

    def _count_signature(self, part: Text | ToolCall) -> int:
        """Count what a signature keeps; only Gemini is ever sent one."""
        if not self._reads_signatures:
            return 0
        return signature_tokens(part.signature, host=self._limits.host)

    def _count_result(self, result: ToolResult) -> int:
        if self._frame.reads_words:
            return self._count_response(result)
        tokens = max(0, len(result.content) - 1) * JOINT_TOKENS
        tokens += ERROR_TOKENS if result.is_error else 0
        for part in result.content:
            tokens += self._count_part(part)
            if isinstance(part, Image | Document):
                tokens += ATTACHMENT_TOKENS
        is_blank = tokens < EMPTY_TOKENS and not result.text.strip()
        return EMPTY_TOKENS if is_blank else tokens

    def _count_response(self, result: ToolResult) -> int:
        """Count the words of the object that a result is sent as, and its media."""
        from context_assembler.values.native.gemini_parts import spell_response  # noqa: PLC0415 - Gemini's

        texts = [part.text for part in result.content if isinstance(part, Text)]
        media = [part for part in result.content if not isinstance(part, Text)]
        spelled = spell_response(texts, is_error=result.is_error)
        tokens = sum(map(self._count_part, media)) + len(media) * ATTACHMENT_TOKENS
        return tokens + sum(map(self.count_text, words_of(spelled)))

    def _count_image(self, image: Image) -> int:
        if self._limits.features.get("vision") is False:
            return LEFT_OUT_TOKENS
        return count_image(image, rule=self._limits.image_rule)

    def _count_document(self, document: Document) -> int:
        title = self.count_text(document.title or "")
        if document.text is not None:
            return title + self.count_text(document.text) + self._frame.document
        if self._limits.features.get("pdf") is False:
            return LEFT_OUT_TOKENS
        return title + pages_tokens(
            document, provider=self._limits.provider, image_rule=self._limits.image_rule
        )

    def _count_thinking(self, thinking: Thinking) -> int:
        """Count the text, or what is sealed: beside encrypted reasoning a text is a summary only."""
        block = thinking.block
        if block is None or (block.get("type") == "reasoning" and "encrypted_content" not in block):
            return 0  # goes back to no model
        readable = self.count_text(thinking.text)
        if readable and "encrypted_content" not in block:
            return readable
        return max(readable, sealed_tokens(block))

    def _count_opaque(self, opaque: Opaque) -> int:
        shown = self.count_text(opaque.text)
        text, hidden = split_sealed(_compact(opaque.block))
        beside = BLOCK_TOKENS.get(str(opaque.block.get("type")), 0)
        return max(shown, self.count_text(text) + hidden + beside)

    def _count_json(self, value: Json) -> int:
        return self.count_text(_compact(value))


def _compact(value: Json) -> str:
    """Return JSON text; what JSON cannot say counts by its text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> Json:
    return dict(value) if is_object(value) else str(value)
