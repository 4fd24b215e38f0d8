"""Epochs: what stood in front of the conversation in a call, as the reply's event keeps it.

The reply's event has it under `metadata["epoch"]`: always its `id`; the sections and the tools only
where they are others than those of the reply before. It is read back from the events alone, so that
every process finds the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    Provenance,
    SessionEvent,
)
from context_assembler.values.field_codecs import FieldError, decode_fields, encode_fields
from context_assembler.values.fingerprints import digest_json
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.prompt import PromptSection
from context_assembler.values.tools import ToolSpec
from context_assembler.values.wire import count_of

EPOCH: Final = "epoch"
"""Where the metadata of a reply's event has the epoch."""

_Value = TypeVar("_Value", PromptSection, ToolSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """The system prompt and the tools of one call.

    Attributes:
        sections: Of the system prompt, as they were sent.
        tools: As they stood in front of the history, in the order sent.
        tools_after_seq: Notes of changed tools behind this event add to them; earlier ones do not.
        asked: Fingerprint of what the caller chose for this prompt (agent, skills); a caller who
            chooses otherwise asks for another prompt.
        told: Fingerprints of what the report has warned of, by piece, so that it warns once.
    """

    sections: tuple[PromptSection, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    tools_after_seq: int = 0
    asked: str = ""
    told: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEpoch:
    """The epoch of a call that was answered.

    `answers_seq` is the last event that the call was made from, `made_by` says what its reply was
    made by and behind which prefix.
    """

    epoch: Epoch
    made_by: Provenance
    answers_seq: int


def epoch_record(epoch: Epoch, *, before: SentEpoch | None) -> JsonObject:
    """Return what a reply's event keeps of its call's epoch; nothing where it cannot be kept.

    Args:
        before: The epoch of the reply before.
    """
    try:
        new = _spell(epoch)
        old = _spell(before.epoch) if before else {}
    except FieldError:  # a schema that JSON cannot say; no provider takes it either
        return {}
    record: dict[str, Json] = {"id": new["id"]}
    if epoch.tools_after_seq:
        record["tools_after_seq"] = epoch.tools_after_seq
    if new["id"] != old.get("id"):
        record |= {name: new[name] for name in ("system_id", "tools_id", "asked")}
        record |= {name: new[name] for name in ("sections", "tools") if new[name] != old.get(name)}
    if epoch.told != (before.epoch.told if before else {}):
        record["told"] = dict(epoch.told)
    return record


def _spell(epoch: Epoch) -> dict[str, Any]:
    sections = [encode_fields(section) for section in epoch.sections]
    tools = [encode_fields(tool) for tool in epoch.tools]
    system_id, tools_id = digest_json(sections), digest_json(tools)
    return {
        "id": digest_json([system_id, tools_id, epoch.asked]),
        "system_id": system_id,
        "tools_id": tools_id,
        "asked": epoch.asked,
        "sections": sections,
        "tools": tools,
    }


def last_epoch(events: Sequence[SessionEvent]) -> SentEpoch | None:
    """Return the epoch of the last recorded reply; `None`: there is none, or it was not kept.

    Args:
        events: In the order of the store.
    """
    records = _records_backwards(events)
    last = next(records, None)
    if last is None:
        return None
    event, record = last
    reading = _Reading(wanted_id=record["id"])
    reading.take(record)
    while not reading.is_done and (earlier := next(records, None)):
        reading.take(earlier[1])
    epoch = reading.epoch()
    made_by = _made_by(event)
    if epoch is None or made_by is None:
        return None
    epoch = replace(epoch, tools_after_seq=count_of(record.get("tools_after_seq")))
    return SentEpoch(epoch=epoch, made_by=made_by, answers_seq=event.answers_seq)


def _records_backwards(
    events: Sequence[SessionEvent],
) -> Iterator[tuple[SessionEvent, JsonObject]]:
    for event in reversed(events):
        record = event.metadata.get(EPOCH)
        if is_object(record) and isinstance(record.get("id"), str) and _made_by(event):
            yield event, record


def _made_by(event: SessionEvent) -> Provenance | None:
    body = event.body
    return body.made_by if isinstance(body, AssistantBody | CompactionBody) else None


@dataclass(slots=True, kw_only=True)
class _Reading:
    """What is known of one epoch while the records are gone through, newest first."""

    wanted_id: Json
    head: JsonObject | None = None
    sections: Json = None
    tools: Json = None
    told: Json = None

    @property
    def is_done(self) -> bool:
        return None not in (self.head, self.sections, self.tools, self.told)

    def take(self, record: JsonObject) -> None:
        if self.told is None:
            self.told = record.get("told")
        if self.head is None and record["id"] == self.wanted_id and "system_id" in record:
            self.head = record
        if self.head is None:
            return
        if self.sections is None and record.get("system_id") == self.head["system_id"]:
            self.sections = record.get("sections")
        if self.tools is None and record.get("tools_id") == self.head.get("tools_id"):
            self.tools = record.get("tools")

    def epoch(self) -> Epoch | None:
        if self.head is None or not is_array(self.sections) or not is_array(self.tools):
            return None
        told: JsonObject = self.told if is_object(self.told) else {}
        try:
            return Epoch(
                sections=_decode(PromptSection, self.sections),
                tools=_decode(ToolSpec, self.tools),
                asked=str(self.head.get("asked", "")),
                told={piece: str(state) for piece, state in told.items()},
            )
        except FieldError:  # written by a newer version
            return None


def _decode(wanted: type[_Value], encoded: Iterable[Json]) -> tuple[_Value, ...]:
    return tuple(decode_fields(wanted, entry) for entry in encoded)
