"""What stands around the parts of one message, as its model and protocol have it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from context_assembler.tokens.frames import Frame, frame_for
from context_assembler.tokens.tokenizers import OTHER_TOKENIZER, TOKEN_COUNTERS
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.native.response_items import own_extras
from context_assembler.values.parts import Opaque, Part, Text, ToolCall
from context_assembler.values.texts.fences import REMINDER_TAG, SUMMARY_TAG, escape_tag

JOINT_TOKENS: Final = 1  # what a renderer may put between two texts of one message
FENCE_TOKENS: Final = 16  # tags around text that a provider takes under no role of its own

# The frames of models that reason, and of those that do not, where a tokenizer serves both.
_OF_THINKERS: Final[Mapping[str, str]] = {"openai": "openai-o"}
_OF_OTHERS: Final[Mapping[str, str]] = {"gemini": "gemini-2"}


def frame_of(limits: ModelLimits, *, protocol: str | None = None) -> Frame:
    """Return what surrounds the text of a model's request, spelled in one protocol."""
    usual = TOKEN_COUNTERS.get(limits.encoding, OTHER_TOKENIZER).frame
    usual = (_OF_THINKERS if limits.thinking.kinds else _OF_OTHERS).get(usual, usual)
    return frame_for(limits.token_frame, usual=usual, protocol=protocol, host=limits.host)


def frame_tokens(message: Message, *, frame: Frame, limits: ModelLimits) -> int:
    """Return the tokens around the parts: each result, and each call, has a frame of its own."""
    calls, results = message.tool_calls, len(message.tool_results)
    others = len(message.parts) - len(calls) - results
    tokens = results * (frame.message + frame.result)
    if others or not message.parts:
        tokens += frame.message + (frame.reply if message.role == "assistant" else 0)
    if others > 1:
        is_split = frame.splits_replies and message.role == "assistant"
        joint = max(frame.joint, frame.message) if is_split else frame.joint
        tokens += (others - 1) * joint
    if message.kind == "summary" or _is_fenced(message, limits):
        tokens += FENCE_TOKENS
    return tokens + _call_tokens(calls, frame) if calls else tokens


def _call_tokens(calls: Sequence[ToolCall], frame: Frame) -> int:
    number, (once, each) = len(calls), frame.parallel
    if number > 1 and once:
        return once + number * each
    tokens = number * frame.call
    if number > 1:
        return tokens + frame.several
    has_own_id = any(own_extras(call).get("id") for call in calls)
    return tokens + (frame.kept_id if has_own_id else 0)


def escaped(message: Message) -> Sequence[Part]:
    """Return the parts as they are sent where the text stands between tags, which it cannot close."""
    if message.kind != "summary" and message.role != "system":
        return message.parts
    tag = SUMMARY_TAG if message.kind == "summary" else REMINDER_TAG
    blocks = [part for part in message.parts if isinstance(part, Opaque)]
    if blocks and message.kind == "summary":
        return blocks  # one of the two is sent: the blocks, or the text, which counts with them
    return [
        replace(part, text=escape_tag(tag, part.text)) if isinstance(part, Text) else part
        for part in message.parts
    ]


def takes_system_turns(limits: ModelLimits) -> bool:
    """Whether the model takes system messages wherever they stand in a conversation.

    Claude takes them behind a user's turn only; elsewhere they become text between tags.
    """
    return limits.provider == "openai"


def reads_signatures(limits: ModelLimits) -> bool:
    """Whether the model reads the reasoning that the signatures of its calls and texts keep.

    As recorded requests were charged: Gemini 3 does, and on Vertex AI Gemini 2.5 alone. Its own API
    charges Gemini 2.5 for them where the reply is streamed, which nothing of a request tells.
    """
    has_levels = "effort" in limits.thinking.kinds
    return limits.provider == "google" and has_levels != (limits.host == "vertex_ai")


def _is_fenced(message: Message, limits: ModelLimits) -> bool:
    """Whether a system message may have to be sent as text of the user, between tags."""
    if message.role != "system":
        return False
    has_authority = message.origin in ("developer", "assembler")
    return not (has_authority and takes_system_turns(limits))
