"""The items that a reply becomes when it goes back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import not_
from typing import Final, assert_never

from context_assembler.providers.openai_responses.content import is_content
from context_assembler.providers.openai_responses.forms import (
    CallForm,
    goes_whole,
    has_server_id,
    keeps_server_items,
    message_id,
    reasoning_entry,
)
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.native.response_items import (
    MARKS_OF_TEXT,
    PROVIDER,
    Entry,
    is_complete,
    is_sealed_compaction,
    own_extras,
    sendable,
    write_call,
)
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
from context_assembler.values.reading import as_array, as_text, objects_in
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.wire import plain_json

_PHASES: Final = frozenset({"commentary", "final_answer"})
_SAID: Final = ("output_text", "refusal")
_CALLS: Final = ("function_call", "custom_tool_call")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """What the messages of a draft need to know beside themselves.

    Attributes:
        names: Every tool's name with the one that goes over the wire.
        forms: Ids of calls as sent → the form they go in.
        sends_reasoning: Whether reasoning goes along; fingerprints are taken without it.
    """

    limits: ModelLimits
    names: Mapping[str, str]
    forms: Mapping[str, CallForm]
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
    limits, sends_reasoning = spelling.limits, spelling.sends_reasoning
    writer = _Writer(
        spelling=spelling,
        is_whole=goes_whole(message, limits=limits, sends_reasoning=sends_reasoning),
        keeps_server_items=keeps_server_items(
            message, limits=limits, sends_reasoning=sends_reasoning
        ),
    )
    waiting_ids = iter(call_ids)
    for part in message.parts:
        writer.add(part, next(waiting_ids) if isinstance(part, ToolCall) else "")
    return writer.finish()


class _Writer:
    """Writes the items of one reply.

    `is_whole`: with its reasoning, and so with its ids; `keeps_server_items`: nothing is missing
    that what the server made itself would be refused without.
    """

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
        return self._items if self._is_whole else _texts_before_calls(self._items)

    def _add_reasoning(self, part: Thinking) -> None:
        entry = reasoning_entry(part, self._spelling.limits) if self._is_whole else None
        if entry is not None:
            self._items.append(entry)

    def _add_text(self, part: Text) -> None:
        """Add a text; pieces of one message that keeps its id stay together."""
        if not part.text.strip():
            return
        extras = own_extras(part)
        own_id = message_id(extras)
        has_marks = self._keeps_server_items and any(extras.get(key) for key in MARKS_OF_TEXT)
        if not own_id or not (self._is_whole or has_marks):
            self._say(part.text, phase=extras.get("phase"))
            return
        piece = _output_text(part.text, extras)
        if own_id == self._open_id:
            self._items[-1]["content"].append(piece)
        else:
            self._items.append(_message(piece, extras))
        self._open_id = own_id

    def _say(self, text: str, *, phase: Json = None) -> None:
        if not text.strip():
            return
        entry: Entry = {"type": "message", "role": "assistant", "content": clean_text(text)}
        if as_text(phase) in _PHASES:
            entry["phase"] = phase
        self._items.append(entry)
        self._open_id = ""

    def _add_call(self, call: ToolCall, call_id: str) -> None:
        form = self._spelling.forms[call_id]
        keeps_id = self._keeps_server_items if form.kind else self._is_whole
        entry = write_call(
            call,
            call_id=call_id,
            name=self._spelling.names.get(call.name, call.name),
            with_id=keeps_id and has_server_id(call),
            as_function=not form.kind,
        )
        self._items.append(plain_json(entry))

    def _add_opaque(self, part: Opaque) -> None:
        kind = part.block.get("type")
        if part.provider != PROVIDER or is_content(part) or kind in _SAID:
            self._say(part.text)
        elif self._keeps_entry(part.block):
            self._items.append(sendable(part.block))
        else:
            self._say(part.text, phase=part.block.get("phase"))

    def _keeps_entry(self, block: JsonObject) -> bool:
        """Whether an item goes back as it came; a message only with the id it was given."""
        if block.get("type") == "compaction":
            return is_sealed_compaction(block)
        if block.get("type") in ("message", None):
            is_said = block.get("role") == "assistant" and _is_output(block.get("content"))
            return self._keeps_server_items and is_said and bool(message_id(block))
        return self._keeps_server_items and is_complete(block)


def _texts_before_calls(items: list[Entry]) -> list[Entry]:
    """Put what was said behind a call before it, unless the server gave it an id in its place.

    Outputs follow the reply, and DeepSeek refuses a message between a call and its output.

    Source:
        https://github.com/pydantic/pydantic-ai, recorded for
        test_deepseek_responses_rejects_interleaved_function_calls (read 2026-11-29): "No tool
        output found for tool call call-a."
    """
    first = next((at for at, one in enumerate(items) if one.get("type") in _CALLS), len(items))
    is_said = [one.get("type") == "message" and "id" not in one for one in items[first:]]
    said = list(compress(items[first:], is_said))
    if not said:
        return items
    return [*items[:first], *said, *compress(items[first:], map(not_, is_said))]


def _is_output(content: Json) -> bool:
    """Whether content is of pieces that an assistant can say, and of nothing else."""
    pieces = as_array(content)
    known = (piece for _, piece in objects_in(content) if piece.get("type") in _SAID)
    return bool(pieces) and len(list(known)) == len(pieces)


def _output_text(text: str, extras: JsonObject) -> Entry:
    nothing: list[Json] = []
    beside = {key: plain_json(extras[key]) for key in MARKS_OF_TEXT if extras.get(key)}
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
