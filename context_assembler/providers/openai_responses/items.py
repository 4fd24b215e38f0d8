"""The items that a reply becomes when it goes back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from context_assembler.providers.openai_responses.content import is_content
from context_assembler.providers.openai_responses.dialect import reasons
from context_assembler.values.cleaning import clean_text
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
from context_assembler.values.reading import as_text
from context_assembler.values.response_items import (
    PROVIDER,
    own_extras,
    without_nulls,
    write_call,
)
from context_assembler.values.wire import plain_json

Entry = dict[str, Json]

_PHASES: Final = frozenset({"commentary", "final_answer"})
_MESSAGE_IDS: Final = "msg_"
_CALL_IDS: Final = ("fc_", "ctc_", "tsc_", "sh_", "apc_")
_MAX_ID_CHARS: Final = 64
_OF_PIECES: Final = ("annotations", "logprobs")
_UNKNOWN_OF_REASONING: Final = frozenset({"status"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """What the messages of a draft need to know beside themselves.

    Attributes:
        names: Every tool's name with the one that goes over the wire.
        kinds_by_call: Ids as sent → the type of the call's item, where it is no function.
        sends_reasoning: Whether reasoning goes along; fingerprints are taken without it.
    """

    limits: ModelLimits
    names: Mapping[str, str]
    kinds_by_call: Mapping[str, str]
    sends_reasoning: bool = True


def reply_items(message: Message, call_ids: Sequence[str], spelling: Spelling) -> list[Entry]:
    """Return the items of a reply in its own order.

    A reasoning item and the items that follow it in the reply go back as they came, with their ids,
    or they go without ids and without the reasoning: an id whose reasoning is missing is refused,
    and so is reasoning that nothing follows.

    Args:
        call_ids: The ids of its calls as they go over the wire, in order.

    Source:
        https://github.com/openai/openai-agents-python/issues/1611
        https://github.com/mastra-ai/mastra/issues/15509 (read 2026-11-27)
    """
    is_whole = spelling.sends_reasoning and any(
        _reasoning(part, spelling.limits) is not None for part in message.parts
    )
    writer = _Writer(
        spelling=spelling,
        is_whole=is_whole,
        keeps_server_items=is_whole or not _may_miss_reasoning(message, spelling),
    )
    waiting_ids = iter(call_ids)
    for part in message.parts:
        writer.add(part, next(waiting_ids) if isinstance(part, ToolCall) else "")
    return writer.finish()


def _may_miss_reasoning(message: Message, spelling: Spelling) -> bool:
    """Whether the reply may have had reasoning that does not go back with it."""
    if not spelling.sends_reasoning or not reasons(spelling.limits):
        return False
    usage = message.made_by.usage if message.made_by is not None else None
    return usage is None or usage.reasoning_tokens > 0


def _reasoning(part: Part, limits: ModelLimits) -> Entry | None:
    """Return the reasoning item that the part goes back as; `None` where it cannot.

    Source:
        https://github.com/BerriAI/litellm/issues/13420 (read 2026-11-27): "Unknown parameter:
        'input[1].status'"; https://github.com/newo-ether/Agora/issues/141: "missing required field
        `summary`"
    """
    if not isinstance(part, Thinking) or part.provider != PROVIDER or part.block is None:
        return None
    is_sealed = bool(as_text(part.block.get("encrypted_content")))
    if not reasons(limits) or not is_sealed or part.block.get("type") != "reasoning":
        return None
    nothing: list[Json] = []
    entry = without_nulls(plain_json(part.block))
    return {"summary": nothing} | {k: v for k, v in entry.items() if k not in _UNKNOWN_OF_REASONING}


class _Writer:
    """Writes the items of one reply; `is_whole`: with its reasoning, and so with its ids."""

    def __init__(self, *, spelling: Spelling, is_whole: bool, keeps_server_items: bool) -> None:
        self._spelling = spelling
        self._is_whole = is_whole
        self._keeps_server_items = keeps_server_items
        self._items: list[Entry] = []
        self._open_id = ""

    def add(self, part: Part, call_id: str) -> None:
        before = len(self._items)
        match part:
            case Thinking():
                self._add_reasoning(part)
            case Text():
                self._add_text(part)
            case ToolCall():
                self._add_call(part, call_id)
            case Opaque():
                self._add_opaque(part)
            case ToolResult() | Image() | Document():
                pass  # results are items of their own; pictures and files became text before
            case _:
                assert_never(part)
        if not isinstance(part, Text) and len(self._items) > before:
            self._open_id = ""

    def finish(self) -> list[Entry]:
        """Return the items; reasoning that nothing follows stays away."""
        while self._items and self._items[-1].get("type") == "reasoning":
            self._items.pop()
        return self._items

    def _add_reasoning(self, part: Thinking) -> None:
        entry = _reasoning(part, self._spelling.limits) if self._is_whole else None
        if entry is not None:
            self._items.append(entry)

    def _add_text(self, part: Text) -> None:
        """Add a text; pieces of one message that keeps its id stay together."""
        if not part.text.strip():
            return
        extras = own_extras(part)
        message_id = as_text(extras.get("id"))
        if not self._is_whole or not _is_server_id(message_id, _MESSAGE_IDS):
            self._say(part.text, phase=extras.get("phase"))
            return
        piece = _output_text(part.text, extras)
        if message_id == self._open_id:
            self._items[-1]["content"].append(piece)
        else:
            self._items.append(_message(piece, extras))
        self._open_id = message_id

    def _say(self, text: str, *, phase: Json = None) -> None:
        if not text.strip():
            return
        entry: Entry = {"type": "message", "role": "assistant", "content": clean_text(text)}
        if as_text(phase) in _PHASES:
            entry["phase"] = phase
        self._items.append(entry)
        self._open_id = ""

    def _add_call(self, call: ToolCall, call_id: str) -> None:
        server_id = as_text(own_extras(call).get("id"))
        entry = write_call(
            call,
            call_id=call_id,
            name=self._spelling.names.get(call.name, call.name),
            with_id=self._is_whole and _is_server_id(server_id, _CALL_IDS),
        )
        self._items.append(plain_json(entry))

    def _add_opaque(self, part: Opaque) -> None:
        kind = part.block.get("type")
        if part.provider != PROVIDER or is_content(part) or kind in ("refusal", "output_text"):
            self._say(part.text)
        elif kind == "compaction" or self._keeps_entry(part.block):
            self._items.append(plain_json(part.block))
        else:
            self._say(part.text, phase=part.block.get("phase"))

    def _keeps_entry(self, block: JsonObject) -> bool:
        """Whether an item goes back as it came; a whole message needs its reasoning beside it."""
        if block.get("type") in ("message", None):
            return self._is_whole and _is_server_id(as_text(block.get("id")), _MESSAGE_IDS)
        return self._keeps_server_items


def _is_server_id(value: str, prefixes: str | tuple[str, ...]) -> bool:
    return value.startswith(prefixes) and len(value) <= _MAX_ID_CHARS


def _output_text(text: str, extras: JsonObject) -> Entry:
    nothing: list[Json] = []
    beside = {key: plain_json(extras[key]) for key in _OF_PIECES if extras.get(key)}
    return {"type": "output_text", "text": clean_text(text), "annotations": nothing} | beside


def _message(piece: Entry, extras: JsonObject) -> Entry:
    entry: Entry = {
        "type": "message",
        "id": extras["id"],
        "role": "assistant",
        "status": as_text(extras.get("status")) or "completed",
        "content": [piece],
    }
    if as_text(extras.get("phase")) in _PHASES:
        entry["phase"] = extras["phase"]
    return entry
