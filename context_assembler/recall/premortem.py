"""What went wrong before, told before it is tried again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from context_assembler.recall.tell_sources import have_all_answered, tell_missing
from context_assembler.values.memories.metadata import (
    ExperienceMetadata,
    LearningMetadata,
    PatternMetadata,
    ValueMetadata,
)
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import RECALL_TAG, SourceState
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.fences import escape_tag, fence

SURPRISING: Final = 0.5
_SHOWN_CHARS: Final = 400
_TOLD_CHARS: Final = 250  # of an attempt, where a lesson follows
NOTHING_KNOWN: Final = "Nothing is known of earlier attempts."
NOTHING_KNOWN_IN_PART: Final = "Nothing is known of earlier attempts in what of memory answered."
_ENDS: Final = (*".!?:;…。।", "\uff01", "\uff1f", "\uff1a", "\uff1b")


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

    @property
    def is_empty(self) -> bool:
        """Whether nothing is shown: nothing is known, or nothing had room."""
        return not self.lines

    @property
    def fenced(self) -> str:
        """The Markdown between tags that nothing in it can close."""
        return fence(RECALL_TAG, self.markdown)


def is_of_domain(record: MemoryRecord, *, domain: str, strategy: str | None = None) -> bool:
    """Whether the record is about the domain, and about the strategy where both name one."""
    metadata = record.metadata
    if not isinstance(
        metadata, ExperienceMetadata | ValueMetadata | PatternMetadata | LearningMetadata
    ):
        return False
    own = (metadata.domain or "").casefold()
    if own != domain.casefold():
        return False
    named = metadata.strategy if isinstance(metadata, ExperienceMetadata) else None
    return strategy is None or named is None or named.casefold() == strategy.casefold()


def premortem_lines(records: Sequence[MemoryRecord]) -> list[PremortemLine]:
    """Return what the records tell, what matters most first.

    Failures, how each strategy did, outcomes that surprised, causes by how often they were, what
    other attempts taught, and principles by how sure they are.
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
        *_lessons(tried),
        *_principles(records),
    ]


_Tried = tuple[MemoryRecord, ExperienceMetadata]


def _failures(tried: Sequence[_Tried]) -> Iterator[PremortemLine]:
    failed = [(r, m) for r, m in tried if m.succeeded is False]
    for record, metadata in sorted(failed, key=lambda pair: (-pair[0].importance, pair[0].id)):
        told = record.text
        if metadata.lesson:
            told = f"{_as_sentence(_shortened(told, _TOLD_CHARS))} Lesson: {metadata.lesson}"
        yield _line("Past failures", told.strip(), [record])


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


def _lessons(tried: Sequence[_Tried]) -> Iterator[PremortemLine]:
    taught = [(r, m.lesson) for r, m in tried if m.lesson and m.succeeded is not False]
    for record, lesson in sorted(taught, key=lambda pair: (-pair[0].importance, pair[0].id)):
        yield _line("Lessons", lesson, [record])


def _principles(records: Iterable[MemoryRecord]) -> Iterator[PremortemLine]:
    sure = [
        (record, metadata, metadata.confidence if metadata.confidence is not None else 0.5)
        for record in records
        if isinstance(
            metadata := record.metadata, ValueMetadata | PatternMetadata | LearningMetadata
        )
    ]
    for record, metadata, _ in sorted(sure, key=lambda row: (-row[2], row[0].id)):
        known = "" if metadata.confidence is None else f" ({metadata.confidence:.0%} sure)"
        yield _line("Principles", f"{record.text}{known}", [record])


def _line(heading: str, text: str, records: Sequence[MemoryRecord]) -> PremortemLine:
    ids = tuple(record.id for record in records)
    return PremortemLine(heading=heading, text=_shortened(text, _SHOWN_CHARS), memory_ids=ids)


def _shortened(text: str, most: int) -> str:
    """Return the text in one line of at most so many characters, in whole words if it has such."""
    flat = " ".join(escape_tag(RECALL_TAG, clean_text(text)).split())
    if len(flat) <= most:
        return flat
    words, _, rest = flat[: most - 1].rpartition(" ")
    return f"{words if len(rest) < most // 2 else flat[: most - 1]}…"


def _as_sentence(text: str) -> str:
    return text if not text or text.endswith(_ENDS) else f"{text}."


def tell_unanswered(states: Mapping[str, SourceState]) -> tuple[str, str]:
    """Return what is said where nothing is known, and which sources could not answer if any."""
    if have_all_answered(states):
        return NOTHING_KNOWN, ""
    return NOTHING_KNOWN_IN_PART, tell_missing(states, fits=lambda _: True)


def write_premortem(
    lines: Iterable[PremortemLine], *, title: str, nothing: str = NOTHING_KNOWN, missing: str = ""
) -> str:
    """Return the lines under their headings; a sentence where there are none.

    Args:
        missing: A last sentence.
    """
    sections: dict[str, list[str]] = {}
    for line in lines:
        sections.setdefault(line.heading, []).append(f"- {line.text}")
    told = [f"## {heading}\n\n" + "\n".join(entries) for heading, entries in sections.items()]
    parts = (f"# Before you begin: {title}", *(told or [nothing]), missing)
    return "\n\n".join(filter(None, parts))
