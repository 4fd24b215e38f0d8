"""In which form the pieces of a reply go back: with the server's ids, as their own kind, or plain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from context_assembler.providers.openai_responses.dialect import ID_RULE
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.names import with_call_ids
from context_assembler.values.native.native_calls import NATIVE_CALLS, is_async
from context_assembler.values.native.response_items import (
    PROVIDER,
    own_extras,
    sendable,
    without_nulls,
)
from context_assembler.values.openai.own_models import can_reason
from context_assembler.values.parts import (
    Image,
    Json,
    JsonObject,
    Opaque,
    Part,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.reading import as_array, as_object, as_text

_MESSAGE_IDS: Final = ("msg_",)
_CALL_IDS: Final = ("fc_", "ctc_", "tsc_", "sh_", "lsh_", "apc_", "cu_")
_UNKNOWN_OF_REASONING: Final = frozenset({"status"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallForm:
    """How a call goes over the wire.

    Attributes:
        kind: The type of its item; empty for that of a function.
        caller: The program that called, which the answer names as well.
        is_open: Whether it may stay unanswered.
    """

    kind: str = ""
    caller: JsonObject | None = None
    is_open: bool = False


def call_forms(
    messages: Sequence[Message],
    ids: Sequence[tuple[str, ...]],
    *,
    limits: ModelLimits,
    sends_reasoning: bool,
) -> dict[str, CallForm]:
    """Return the form of every call, by its id as sent.

    A call that the server made an item of its own kind for goes back as that kind, unless its id
    is needed and cannot go, or its answer is none that this kind can have.
    """
    paired = list(zip(messages, ids, strict=True))
    answers = {
        call_id: part
        for message, own_ids in paired
        for part, call_id in with_call_ids(message, own_ids)
        if isinstance(part, ToolResult)
    }
    return {
        call_id: CallForm(
            kind=_kind_of(
                part,
                answer=answers.get(call_id),
                keeps_id=keeps_server_items(
                    message, limits=limits, sends_reasoning=sends_reasoning
                ),
            ),
            caller=as_object(own_extras(part).get("caller")) or None,
            is_open=is_async(part),
        )
        for message, own_ids in paired
        for part, call_id in with_call_ids(message, own_ids)
        if isinstance(part, ToolCall)
    }


def _kind_of(call: ToolCall, *, answer: ToolResult | None, keeps_id: bool) -> str:
    native = NATIVE_CALLS.get(as_text(own_extras(call).get("type")))
    if native is None:
        return ""
    if native.needs_id and not (keeps_id and has_server_id(call)):
        return ""
    return "" if native.takes_picture and not _is_picture(answer) else native.kind


def _is_picture(answer: ToolResult | None) -> bool:
    if answer is None or len(answer.content) != 1:
        return False
    [part] = answer.content
    if isinstance(part, Opaque):
        return part.provider == PROVIDER and part.block.get("type") == "computer_call_output"
    return isinstance(part, Image) and not answer.is_error


def has_server_id(part: ToolCall) -> bool:
    """Whether the call has an id as the server gives them."""
    return _is_id(own_extras(part).get("id"), _CALL_IDS)


def message_id(extras: JsonObject) -> str:
    """Return the id that the server gave a message; empty where it has none."""
    given = extras.get("id")
    return as_text(given) if _is_id(given, _MESSAGE_IDS) else ""


def _is_id(value: Json, prefixes: tuple[str, ...]) -> bool:
    given = as_text(value)
    return given.startswith(prefixes) and len(given) <= ID_RULE.max_chars


def goes_whole(message: Message, *, limits: ModelLimits, sends_reasoning: bool) -> bool:
    """Whether a reply goes back with its reasoning, and so with its ids."""
    return sends_reasoning and any(
        reasoning_entry(part, limits) is not None for part in message.parts
    )


def keeps_server_items(message: Message, *, limits: ModelLimits, sends_reasoning: bool) -> bool:
    """Whether the server's own items go back as they came: nothing that led to them is missing."""
    if goes_whole(message, limits=limits, sends_reasoning=sends_reasoning):
        return True
    if not sends_reasoning or not can_reason(limits):
        return True
    usage = message.made_by.usage if message.made_by is not None else None
    return usage is not None and usage.reasoning_tokens == 0


def reasoning_entry(part: Part, limits: ModelLimits) -> dict[str, Json] | None:
    """Return the reasoning item that the part goes back as; `None` where it cannot.

    Source:
        https://github.com/BerriAI/litellm/issues/13420 (read 2026-11-27): "Unknown parameter:
        'input[1].status'"; https://github.com/newo-ether/Agora/issues/141: "missing required field
        `summary`"
    """
    if not isinstance(part, Thinking) or part.provider != PROVIDER or part.block is None:
        return None
    is_sealed = bool(as_text(part.block.get("encrypted_content")))
    if not can_reason(limits) or not is_sealed or part.block.get("type") != "reasoning":
        return None
    entry = without_nulls(sendable(part.block))
    entry["summary"] = as_array(entry.get("summary"))
    return {key: value for key, value in entry.items() if key not in _UNKNOWN_OF_REASONING}
