"""Epochs: what stood in front of the conversation in a call, as the reply's event keeps it.

The reply's event has it under `metadata["epoch"]`: always its `id`; the sections, what they were made
from, and the tools only where they are others than those of the reply before. It is read back from the events alone, so that
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

FROZEN: Final = "system.frozen"
"""The rule of a row whose piece changed, and waits for the next rewrite point."""

UNTIL_REWRITE: Final = (
    "it applies from the next rewrite point on: a cut, a compaction, another model, or refresh=True"
)
"""What such a row says of when the change applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPiece:
    """What a section of a system prompt was made from, so that a later call can tell what changed.

    Attributes:
        name: The section's.
        path: Of the instruction file that it is the text of; empty for any other section.
        source: Fingerprint of what that file said, before it was cut, masked or filled in.
        whole: Fingerprint of the section's text before it was cut to the window.
    """

    name: str
    path: str = ""
    source: str = ""
    whole: str


# What a record has only where it is another one than before, and what it is found by.
_IDS: Final = {"sections": "system_id", "tools": "tools_id", "pieces": "pieces_id"}

_Value = TypeVar("_Value", PromptSection, PromptPiece, ToolSpec)


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The system prompt and the tools of one call.

    Attributes:
        sections: Of the system prompt, as they were sent.
        pieces: What these were made from, with those that the window left no room for.
        cut_for_tokens: The input budget that sections were shortened for, or left out; 0: none was.
        tools: As they stood in front of the history, in the order sent.
        tools_after_seq: Notes of changed tools behind this event add to them; earlier ones do not.
        asked: Fingerprint of what the caller chose for this prompt (agent, skills); a caller who
            chooses otherwise asks for another prompt.
        told: Fingerprints of what the report has warned of, by piece, so that it warns once.
    """

    sections: tuple[PromptSection, ...] = ()
    pieces: tuple[PromptPiece, ...] = ()
    cut_for_tokens: int = 0
    tools: tuple[ToolSpec, ...] = ()
    tools_after_seq: int = 0
    asked: str = ""
    told: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
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
    for name in ("tools_after_seq", "cut_for_tokens"):
        if number := getattr(epoch, name):
            record[name] = number
    if new["id"] != old.get("id"):
        record |= {name: new[name] for name in (*_IDS.values(), "asked") if name in new}
        record |= {name: new[name] for name in _IDS if name in new and new[name] != old.get(name)}
    if epoch.told != (before.epoch.told if before else {}):
        record["told"] = dict(epoch.told)
    return record


def _spell(epoch: Epoch) -> dict[str, Any]:
    spelled: dict[str, Any] = {
        "sections": [encode_fields(section) for section in epoch.sections],
        "tools": [encode_fields(tool) for tool in epoch.tools],
    }
    if epoch.pieces:  # records of older versions have none, and their ids were made without
        spelled["pieces"] = [encode_fields(piece) for piece in epoch.pieces]
    ids = {_IDS[name]: digest_json(values) for name, values in spelled.items()}
    made_of = [ids["system_id"], ids["tools_id"], epoch.asked]
    made_of += [ids["pieces_id"]] if epoch.pieces else []
    return {**spelled, **ids, "asked": epoch.asked, "id": digest_json(made_of)}


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
    epoch = replace(
        epoch,
        tools_after_seq=count_of(record.get("tools_after_seq")),
        cut_for_tokens=count_of(record.get("cut_for_tokens")),
    )
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
    lists: dict[str, Json] = field(default_factory=dict[str, Json])
    told: Json = None

    @property
    def is_done(self) -> bool:
        if self.head is None or self.told is None:
            return False
        return self.lists.keys() == {name for name, of in _IDS.items() if of in self.head}

    def take(self, record: JsonObject) -> None:
        if self.told is None:
            self.told = record.get("told")
        if self.head is None and record["id"] == self.wanted_id and "system_id" in record:
            self.head = record
        if self.head is None:
            return
        for name, of in _IDS.items():
            is_meant = of in self.head and record.get(of) == self.head[of]
            if is_meant and name in record:
                self.lists.setdefault(name, record[name])

    def epoch(self) -> Epoch | None:
        if self.head is None:
            return None
        sections, tools = self.lists.get("sections"), self.lists.get("tools")
        pieces: Json = self.lists.get("pieces") if "pieces_id" in self.head else ()
        if not is_array(sections) or not is_array(tools) or not is_array(pieces):
            return None
        told: JsonObject = self.told if is_object(self.told) else {}
        try:
            return Epoch(
                sections=_decode(PromptSection, sections),
                pieces=_decode(PromptPiece, pieces),
                tools=_decode(ToolSpec, tools),
                asked=str(self.head.get("asked", "")),
                told={piece: str(state) for piece, state in told.items()},
            )
        except FieldError:  # written by a newer version
            return None


def _decode(wanted: type[_Value], encoded: Iterable[Json]) -> tuple[_Value, ...]:
    return tuple(decode_fields(wanted, entry) for entry in encoded)
