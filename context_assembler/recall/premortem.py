"""What went wrong before, told before it is tried again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from context_assembler.values.memories.metadata import (
    ExperienceMetadata,
    PatternMetadata,
    ValueMetadata,
)
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import RECALL_TAG, SourceState
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.fences import escape_tag

SURPRISING: Final = 0.5
_SHOWN_CHARS: Final = 400
NOTHING_KNOWN: Final = "Nothing is known of earlier attempts."


@dataclass(frozen=True, slots=True, kw_only=True)
class PremortemLine:
    """One thing to know, under one of the headings, and the records that it was made of."""

    heading: str
    text: str
    memory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PremortemContext:
    """What to know before something is tried; `left_out` lines had no room.

    Attributes:
        source_status: What came of each source that was asked.
        source_notes: The reason where a source gave no answer, or not all of it.
    """

    markdown: str
    lines: tuple[PremortemLine, ...] = ()
    left_out: tuple[PremortemLine, ...] = ()
    token_count: int = 0
    source_status: Mapping[str, SourceState] = field(default_factory=dict[str, SourceState])
    source_notes: Mapping[str, str] = field(default_factory=dict[str, str])


def is_of_domain(record: MemoryRecord, *, domain: str, strategy: str | None = None) -> bool:
    """Whether the record is about the domain, and about the strategy where both name one."""
    metadata = record.metadata
    if not isinstance(metadata, ExperienceMetadata | ValueMetadata | PatternMetadata):
        return False
    own = (metadata.domain or "").casefold()
    if own != domain.casefold():
        return False
    named = metadata.strategy if isinstance(metadata, ExperienceMetadata) else None
    return strategy is None or named is None or named.casefold() == strategy.casefold()


def premortem_lines(records: Sequence[MemoryRecord]) -> list[PremortemLine]:
    """Return what the records tell, what matters most first.

    Failures, how each strategy did, outcomes that surprised, causes by how often they were, and
    principles by how sure they are.
    """
    tried = [
        (record, record.metadata)
        for record in records
        if isinstance(record.metadata, ExperienceMetadata)
    ]
    return [
        *_failures(tried),
        *_strategies(tried),
        *_surprises(tried),
        *_causes(tried),
        *_principles(records),
    ]


_Tried = tuple[MemoryRecord, ExperienceMetadata]


def _failures(tried: Sequence[_Tried]) -> Iterator[PremortemLine]:
    failed = [(r, m) for r, m in tried if m.succeeded is False]
    for record, metadata in sorted(failed, key=lambda pair: (-pair[0].importance, pair[0].id)):
        lesson = f" Lesson: {metadata.lesson}" if metadata.lesson else ""
        yield _line("Past failures", f"{record.text}{lesson}", [record])


def _strategies(tried: Sequence[_Tried]) -> Iterator[PremortemLine]:
    by_strategy: dict[str, list[_Tried]] = {}
    for record, metadata in tried:
        if metadata.strategy and metadata.succeeded is not None:
            by_strategy.setdefault(metadata.strategy, []).append((record, metadata))
    for name, group in sorted(by_strategy.items(), key=lambda row: (-len(row[1]), row[0])):
        good = sum(metadata.succeeded is True for _, metadata in group)
        surprises = [m.surprise for _, m in group if m.surprise is not None]
        often = f"{name}: {good} of {len(group)} succeeded ({good / len(group):.0%})"
        off = f", {fmean(surprises):.0%} off its predictions" if surprises else ""
        yield _line("How strategies did", f"{often}{off}", [record for record, _ in group])


def _surprises(tried: Sequence[_Tried]) -> Iterator[PremortemLine]:
    surprising = [
        (record, metadata, metadata.surprise or 0.0)
        for record, metadata in tried
        if (metadata.surprise or 0.0) >= SURPRISING
        and (metadata.outcome or metadata.succeeded is not False)  # told as a failure already
    ]
    for record, metadata, _ in sorted(surprising, key=lambda row: (-row[2], row[0].id)):
        if metadata.prediction and metadata.outcome:
            told = f"expected {metadata.prediction}; got {metadata.outcome}"
        else:
            told = metadata.outcome or record.text
        yield _line("Unexpected outcomes", told, [record])


def _causes(tried: Sequence[_Tried]) -> Iterator[PremortemLine]:
    by_cause: dict[str, list[MemoryRecord]] = {}
    spelled: dict[str, str] = {}
    for record, metadata in tried:
        if metadata.root_cause:
            key = metadata.root_cause.casefold().strip()
            spelled.setdefault(key, metadata.root_cause)
            by_cause.setdefault(key, []).append(record)
    for key, group in sorted(by_cause.items(), key=lambda row: (-len(row[1]), row[0])):
        often = f" ({len(group)} times)" if len(group) > 1 else ""
        yield _line("Root causes", f"{spelled[key]}{often}", group)


def _principles(records: Iterable[MemoryRecord]) -> Iterator[PremortemLine]:
    sure = [
        (record, metadata, metadata.confidence if metadata.confidence is not None else 0.5)
        for record in records
        if isinstance(metadata := record.metadata, ValueMetadata | PatternMetadata)
    ]
    for record, metadata, _ in sorted(sure, key=lambda row: (-row[2], row[0].id)):
        known = "" if metadata.confidence is None else f" ({metadata.confidence:.0%} sure)"
        yield _line("Principles", f"{record.text}{known}", [record])


def _line(heading: str, text: str, records: Sequence[MemoryRecord]) -> PremortemLine:
    flat = " ".join(escape_tag(RECALL_TAG, clean_text(text)).split())
    shown = flat if len(flat) <= _SHOWN_CHARS else f"{flat[: _SHOWN_CHARS - 1]}…"
    ids = tuple(record.id for record in records)
    return PremortemLine(heading=heading, text=shown, memory_ids=ids)


def write_premortem(lines: Iterable[PremortemLine], *, title: str) -> str:
    """Return the lines under their headings; a sentence where there are none."""
    sections: dict[str, list[str]] = {}
    for line in lines:
        sections.setdefault(line.heading, []).append(f"- {line.text}")
    if not sections:
        return f"# Before you begin: {title}\n\n{NOTHING_KNOWN}"
    told = [f"## {heading}\n\n" + "\n".join(entries) for heading, entries in sections.items()]
    return "\n\n".join((f"# Before you begin: {title}", *told))
