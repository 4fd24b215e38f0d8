"""How a history begins and ends, so that a provider takes it."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from context_assembler.stages.repair_history.repairs import RepairLog
from context_assembler.stages.repair_history.server_calls import waits_for_server
from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque, Text, Thinking

_OPENING: Final = Message(
    role="user",
    kind="synthetic",
    origin="assembler",
    parts=(Text("(The conversation begins with the assistant.)"),),
)
_CONTINUE: Final = Message(
    role="user", kind="note", note="continue", origin="assembler", parts=(Text("Continue."),)
)


def open_with_user(messages: list[Message], log: RepairLog) -> list[Message]:
    """Put a minimal turn of the user in front of a history that begins with the assistant."""
    first = next((m for m in messages if m.role != "system"), None)
    if first is None or first.role == "user":
        return messages
    reason = "The history began with the assistant; a minimal user turn was put in front."
    log.add(-1, first, "repaired", "first_user", reason)
    return [_OPENING, *messages]


def drop_unsent_end(messages: Sequence[Message], log: RepairLog) -> list[Message]:
    """Drop a last reply that was aborted before it said anything but unsigned thinking."""
    kept = list(messages)
    while (at := _last_spoken(kept)) is not None and _is_unsent(kept[at]):
        reason = "The last reply was aborted before it said anything."
        log.add_at_end(kept.pop(at), "dropped", "aborted", reason)
    return kept


def _is_unsent(message: Message) -> bool:
    return message.role == "assistant" and all(
        isinstance(part, Thinking) and not part.is_signed for part in message.parts
    )


def end_with_user(
    messages: list[Message], log: RepairLog, *, accepts_prefill: bool, provider: str | None
) -> list[Message]:
    """Put a minimal turn of the user behind a reply that the model does not go on from."""
    at = _last_spoken(messages)
    if at is None or not _is_of_assistant(messages[at]):
        return messages
    if accepts_prefill and not _ends_on_reasoning(messages, provider=provider):
        return messages
    if waits_for_server(messages[at:], provider=provider):
        return messages
    reason = "The model refuses a history that ends on such a reply; a user turn was added."
    log.add_at_end(messages[at], "repaired", "prefill", reason)
    return [*messages, _CONTINUE]


def _ends_on_reasoning(messages: Sequence[Message], *, provider: str | None) -> bool:
    """Whether the replies at the end, which are sent as one, hold signed reasoning.

    Left out it would break the prefix of the next call, where it may stand again.

    Source:
        https://github.com/tailcallhq/forgecode/issues/1853 (read 2026-11-27)
    """
    spoken = (message for message in reversed(messages) if message.role != "system")
    return any(
        isinstance(part, Thinking) and part.is_signed and provider in (None, part.provider)
        for message in takewhile(_is_of_assistant, spoken)
        for part in message.parts
    )


def _is_of_assistant(message: Message) -> bool:
    """Whether the message is sent as the assistant's, as a compaction that a provider wrote is."""
    is_native = message.kind == "summary" and any(isinstance(p, Opaque) for p in message.parts)
    return message.role == "assistant" or is_native


def _last_spoken(messages: Sequence[Message]) -> int | None:
    backwards = range(len(messages) - 1, -1, -1)
    return next((at for at in backwards if messages[at].role != "system"), None)
