"""The one formula by which text, messages, prompts and tools are counted."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, assert_never

from context_assembler.tokens.bpe import count_bpe
from context_assembler.tokens.documents import count_pages, page_tokens
from context_assembler.tokens.estimate import estimate_text
from context_assembler.tokens.frames import Frame, frame_for
from context_assembler.tokens.hosted_tools import hosted_tool_tokens
from context_assembler.tokens.images import count_image
from context_assembler.tokens.memo import BoundedMemo, MessageMemo
from context_assembler.tokens.sealed import sealed_tokens, signature_tokens, split_sealed
from context_assembler.tokens.tokenizers import (
    OTHER_TOKENIZER,
    TOKEN_COUNTERS,
    CountingMode,
    chosen_vocabulary,
)
from context_assembler.tokens.tool_text import tool_as_typescript, tool_as_words
from context_assembler.values.json_shapes import is_object
from context_assembler.values.limits import ModelLimits
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
from context_assembler.values.texts.fences import REMINDER_TAG, SUMMARY_TAG, escape_tag
from context_assembler.values.tools import ToolSpec

ERROR_TOKENS: Final = 10  # "ERROR: " and a sentence, where a provider has no flag for it
EMPTY_TOKENS: Final = 3  # what stands for a result without content
JOINT_TOKENS: Final = 1  # what a renderer may put between two texts of one message
FENCE_TOKENS: Final = 16  # tags around text that a provider takes under no role of its own
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
_MEMO_MAX_TOKENS: Final = 2_000_000


class ModelTokenCounter:
    """Counts as one model does: exactly, or by an estimate fitted to its tokenizer.

    Counts of messages and of longer texts are kept, so that counting a history again costs little.
    Safe to use from several threads.
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
        tokenizer = TOKEN_COUNTERS.get(limits.encoding, OTHER_TOKENIZER)
        vocabulary = chosen_vocabulary(limits, mode=mode)
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
        self._texts = BoundedMemo[str](max_weight=_MEMO_MAX_CHARS)
        self._messages = MessageMemo(max_weight=_MEMO_MAX_TOKENS)

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
        tokens = self._messages.get(message)
        if tokens is None:
            tokens = self._count_frames(message) + sum(map(self._count_part, _escaped(message)))
            self._messages.put(message, tokens)
        return tokens

    def _count_frames(self, message: Message) -> int:
        """Count what stands around the parts: each result, and each call, has a frame of its own."""
        frame, calls, results = self._frame, len(message.tool_calls), len(message.tool_results)
        says_more = len(message.parts) > calls + results or not message.parts
        tokens = results * (frame.message + frame.result)
        if says_more:
            tokens += frame.message + (frame.reply if message.role == "assistant" else 0)
        if calls > 1 and frame.parallel:
            tokens += frame.parallel
        else:
            tokens += calls * frame.call
        is_split = frame.splits_replies and message.role == "assistant"
        joint = max(JOINT_TOKENS, frame.message) if is_split else JOINT_TOKENS
        tokens += max(0, len(message.parts) - calls - results - 1) * joint
        if message.kind == "summary" or self._is_fenced(message):
            tokens += FENCE_TOKENS
        return tokens

    def count_system(self, text: str) -> int:
        """Return the tokens of a system prompt; 0 when there is none."""
        return self.count_text(text) + self._frame.system if text else 0

    def count_tool(self, tool: ToolSpec) -> int:
        """Return the tokens of one tool's definition; 0 where this model cannot be offered it."""
        if tool.native_specs:
            protocols = _PROTOCOLS.get(self._limits.provider, _OTHER_PROTOCOLS)
            specs = [tool.native_specs[name] for name in protocols if name in tool.native_specs]
            return self._count_native(specs[0]) if specs else 0
        if self._frame.tool_form == "typescript":
            return self.count_text(tool_as_typescript(tool)) + self._frame.tool
        if self._frame.tool_form == "words":
            return self.count_text(tool_as_words(tool)) + self._frame.tool
        definition = {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
        }
        return self._count_json(definition) + self._frame.tool

    def count_tools_overhead(self, tools: Sequence[ToolSpec]) -> int:
        """Return what having tools costs beside their definitions; 0 without tools."""
        if not tools:
            return 0
        stated = self._limits.tool_prompt_tokens
        return self._frame.tools if stated is None else stated

    def _count_native(self, spec: JsonObject) -> int:
        written = max(0, self._count_json(spec) + self._frame.tool)
        return max(written, hosted_tool_tokens(spec))

    def _is_fenced(self, message: Message) -> bool:
        """Whether a system message may have to be sent as text of the user, between tags."""
        has_authority = message.origin in ("developer", "assembler")
        return message.role == "system" and not (has_authority and takes_system_turns(self._limits))

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
        arguments = 0
        if call.arguments or call.arguments_json is None:
            arguments = self._count_json(call.arguments)
        if call.arguments_json is not None:
            arguments = max(arguments, self.count_text(call.arguments_json))
        names = self._frame.names * self.count_text(call.name)
        return names + arguments + self._count_signature(call)

    def _count_signature(self, part: Text | ToolCall) -> int:
        """Count what a signature keeps; only Gemini is ever sent one."""
        return signature_tokens(part.signature) if reads_signatures(self._limits) else 0

    def _count_result(self, result: ToolResult) -> int:
        tokens = max(0, len(result.content) - 1) * JOINT_TOKENS
        tokens += ERROR_TOKENS if result.is_error else 0
        for part in result.content:
            tokens += self._count_part(part)
            if isinstance(part, Image | Document):
                tokens += ATTACHMENT_TOKENS
        is_blank = tokens < EMPTY_TOKENS and not result.text.strip()
        return EMPTY_TOKENS if is_blank else tokens

    def _count_image(self, image: Image) -> int:
        if self._limits.features.get("vision") is False:
            return LEFT_OUT_TOKENS
        return count_image(image, rule=self._limits.image_rule)

    def _count_document(self, document: Document) -> int:
        title = self.count_text(document.title or "")
        if document.text is not None:
            return title + self.count_text(document.text)
        if self._limits.features.get("pdf") is False:
            return LEFT_OUT_TOKENS
        return title + count_pages(document) * page_tokens(
            self._limits.provider, image_rule=self._limits.image_rule
        )

    def _count_thinking(self, thinking: Thinking) -> int:
        """Count the text, or what is sealed: beside encrypted reasoning a text is a summary only."""
        readable, block = self.count_text(thinking.text), thinking.block
        if block is None or (readable and "encrypted_content" not in block):
            return readable
        return max(readable, sealed_tokens(block))

    def _count_opaque(self, opaque: Opaque) -> int:
        shown = self.count_text(opaque.text)
        text, hidden = split_sealed(_compact(opaque.block))
        return max(shown, self.count_text(text) + hidden)

    def _count_json(self, value: Json) -> int:
        return self.count_text(_compact(value))


def _escaped(message: Message) -> Sequence[Part]:
    """Return the parts as they are sent where the text stands between tags, which it cannot close."""
    tag = SUMMARY_TAG if message.kind == "summary" else REMINDER_TAG
    if message.kind != "summary" and message.role != "system":
        return message.parts
    blocks = [part for part in message.parts if isinstance(part, Opaque)]
    if blocks and message.kind == "summary":
        return blocks  # one of the two is sent: the blocks, or the text, which counts with them
    return [
        replace(part, text=escape_tag(tag, part.text)) if isinstance(part, Text) else part
        for part in message.parts
    ]


def frame_of(limits: ModelLimits, *, protocol: str | None = None) -> Frame:
    """Return what surrounds the text of a model's request, spelled in one protocol."""
    usual = TOKEN_COUNTERS.get(limits.encoding, OTHER_TOKENIZER).frame
    return frame_for(limits.token_frame, usual=usual, protocol=protocol, host=limits.host)


def reads_signatures(limits: ModelLimits) -> bool:
    """Whether the model reads the reasoning that the signatures of its calls and texts keep."""
    is_read = "effort" in limits.thinking.kinds or limits.host == "vertex_ai"
    return limits.provider == "google" and is_read


def takes_system_turns(limits: ModelLimits) -> bool:
    """Whether the model takes system messages wherever they stand in a conversation.

    Claude takes them behind a user's turn only; elsewhere they become text between tags.
    """
    return limits.provider == "openai"


def _compact(value: Json) -> str:
    """Return JSON text; what JSON cannot say counts by its text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> Json:
    return dict(value) if is_object(value) else str(value)
