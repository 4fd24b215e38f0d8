"""What went wrong before, told before it is tried again."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.memory.format import MISSING_SHARE, RECALL_TAG, missing_sources
from context_assembler.memory.kinds import (
    ExperienceMetadata,
    LearningMetadata,
    PatternMetadata,
    ValueMetadata,
)
from context_assembler.memory.recall import Deadline, Listing, problem_of, usable_hits
from context_assembler.memory.records import MemoryFilters, MemoryRecord, MemorySource, identified
from context_assembler.memory.score import SourceState
from context_assembler.texts import CountText, clean_text, escape_tag, fence

_LESSONS: Final = 1_000
_LESSON_KINDS: Final = ("experiences", "values", "patterns", "learnings")
_WORST_FIRST: Final[tuple[SourceState, ...]] = ("failed", "timed_out", "skipped", "ok", "empty")
_SURPRISING: Final = 0.5
_SHOWN_CHARS: Final = 400
_TOLD_CHARS: Final = 250  # of an attempt, if a lesson follows
_NOTHING_KNOWN: Final = "Nothing is known of earlier attempts."
_NOTHING_IN_PART: Final = "Nothing is known of earlier attempts in what of memory answered."
_ENDS: Final = (*".!?:;…。।", "\uff01", "\uff1f", "\uff1a", "\uff1b")


class PremortemLine(NamedTuple):
    """One thing to know, under one of the headings, and the records that it was made of."""

    heading: str
    text: str
    memory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PremortemContext:
    """What to know before something is tried; `left_out` lines had no room.

    Attributes:
        source_status: What came of each source that was asked.
        source_notes: The reason if a source gave no answer, or not all of it.
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


# ---- asking ----


class Lessons(NamedTuple):
    """What a source taught."""

    records: Sequence[MemoryRecord]
    state: SourceState
    note: str = ""


async def gather_lessons(
    sources: Mapping[str, MemorySource], domain: str, filters: MemoryFilters, deadline: Deadline
) -> dict[str, Lessons]:
    """Return what each source teaches of a domain; one that fails or is late costs its part alone.

    Sources are searched for the domain, and those that can list are read newest first.
    """
    kinds = [name for name in _LESSON_KINDS if not filters.kinds or name in filters.kinds]
    if not kinds:
        note = f"the filters name none of the kinds that teach: {', '.join(_LESSON_KINDS)}"
        return dict.fromkeys(sources, Lessons((), "skipped", note))
    found = await asyncio.gather(
        *(
            _ask(source, domain, replace(filters, kinds=(name,)), deadline)
            for source in sources.values()
            for name in kinds
        )
    )
    groups = [found[at : at + len(kinds)] for at in range(0, len(found), len(kinds))]
    return {
        name: Lessons(
            [record for one in group for record in one.records],
            min((one.state for one in group), key=_WORST_FIRST.index),
            "; ".join(dict.fromkeys(one.note for one in group if one.note)),
        )
        for name, group in zip(sources, groups, strict=True)
    }


async def _ask(
    source: MemorySource, domain: str, filters: MemoryFilters, deadline: Deadline
) -> Lessons:
    records: list[MemoryRecord] = []  # what was said in time is not lost

    async def fill() -> None:
        hits = await source.search(domain, limit=_LESSONS, filters=filters)
        records.extend(hit.record for hit in usable_hits(hits, _LESSONS))
        if isinstance(source, Listing):
            listed = await source.list_records(order="newest", limit=_LESSONS, filters=filters)
            records.extend(map(identified, listed))

    try:
        await deadline.wait_for(fill())
    except TimeoutError as error:
        return Lessons(records, "timed_out", problem_of(error))
    except Exception as error:  # whatever a source does, the others are still heard
        return Lessons(records, "failed", problem_of(error))
    return Lessons(records, "ok" if records else "empty")


# ---- writing ----

_Tried: TypeAlias = tuple[MemoryRecord, ExperienceMetadata]


def fit_premortem(
    records: Sequence[MemoryRecord],
    lessons: Mapping[str, Lessons],
    *,
    domain: str,
    strategy: str | None,
    max_tokens: int,
    count: CountText,
    clean: Callable[[str], str],
) -> PremortemContext:
    """Return the lines that fit; one of each heading comes before the second of any."""
    distinct = {(record.id, record.text): record for record in records}.values()
    lines = [*_lines_of([r for r in distinct if _is_of_domain(r, domain, strategy)])]
    states = {name: one.state for name, one in lessons.items()}
    title = clean(domain if strategy is None else f"{domain}, {strategy}")
    title = escape_tag(RECALL_TAG, " ".join(title.split()))
    missing = missing_sources(states)
    nothing = _NOTHING_IN_PART if missing else _NOTHING_KNOWN
    if count(missing) > max_tokens * MISSING_SHARE:
        missing = ""
    room = max_tokens - count(f"# Before you begin: {title}\n\n{missing}")
    kept: list[int] = []
    headings: set[str] = set()
    for at in _turn_by_turn(lines):
        line = lines[at]
        above = "" if line.heading in headings else f"\n## {line.heading}\n\n"
        tokens = count(f"{above}- {line.text}\n")
        if tokens <= room:
            room -= tokens
            headings.add(line.heading)
            kept.append(at)
    while True:
        shown = [line for at, line in enumerate(lines) if at in kept]
        sections: dict[str, list[str]] = {}
        for line in shown:
            sections.setdefault(line.heading, []).append(f"- {line.text}")
        told = [f"## {heading}\n\n" + "\n".join(entries) for heading, entries in sections.items()]
        parts = (f"# Before you begin: {title}", *(told or [nothing]), missing)
        markdown = "\n\n".join(filter(None, parts))
        tokens = count(markdown)
        if tokens <= max_tokens or not kept:
            break
        kept.pop()  # the whole takes more than its parts
    if tokens > max_tokens or (lines and not kept):  # what had no room is not unknown
        markdown, tokens = "", 0
    return PremortemContext(
        markdown=markdown,
        lines=tuple(shown),
        left_out=tuple(line for at, line in enumerate(lines) if at not in kept),
        token_count=tokens,
        source_status=states,
        source_notes={name: one.note for name, one in lessons.items() if one.note},
    )


def _turn_by_turn(lines: Sequence[PremortemLine]) -> list[int]:
    """Return the places of the first line of each heading, then of the second, and so on."""
    seen: dict[str, int] = {}
    turns: list[tuple[int, int]] = []
    for at, line in enumerate(lines):
        seen[line.heading] = seen.get(line.heading, 0) + 1
        turns.append((seen[line.heading], at))
    return [at for _, at in sorted(turns)]


def _is_of_domain(record: MemoryRecord, domain: str, strategy: str | None) -> bool:
    """Whether the record is about the domain, and about the strategy if both name one."""
    known: Any = record.metadata
    if (getattr(known, "domain", None) or "").casefold() != domain.casefold():
        return False
    named = getattr(known, "strategy", None)
    return strategy is None or named is None or named.casefold() == strategy.casefold()


def _lines_of(records: Sequence[MemoryRecord]) -> Iterator[PremortemLine]:
    """Yield what the records teach, what matters most first.

    Failures, how each strategy did, outcomes that surprised, causes by how often they were, what
    other attempts taught, and principles by how sure they are.
    """
    tried = [(r, r.metadata) for r in records if isinstance(r.metadata, ExperienceMetadata)]
    weightiest = sorted(tried, key=lambda pair: (-pair[0].importance, pair[0].id))
    for record, known in weightiest:
        if known.succeeded is False:
            told = record.text
            if known.lesson:
                told = _flat(told, _TOLD_CHARS)
                told = told if not told or told.endswith(_ENDS) else f"{told}."
                told = f"{told} Lesson: {known.lesson}"
            yield _line("Past failures", told.strip(), [record])
    yield from _strategies(tried)
    surprising = [(r, k) for r, k in tried if (k.surprise or 0.0) >= _SURPRISING]
    for record, known in sorted(
        surprising, key=lambda pair: (-(pair[1].surprise or 0), pair[0].id)
    ):
        if known.prediction and known.outcome:
            told = f"expected {known.prediction}; got {known.outcome}"
            yield _line("Unexpected outcomes", told, [record])
        elif known.outcome or known.succeeded is not False:  # otherwise it is among the failures
            yield _line("Unexpected outcomes", known.outcome or record.text, [record])
    causes: dict[str, list[_Tried]] = {}
    for record, known in tried:
        if known.root_cause:
            causes.setdefault(known.root_cause.casefold().strip(), []).append((record, known))
    for _, group in sorted(causes.items(), key=lambda one: (-len(one[1]), one[0])):
        often = f" ({len(group)} times)" if len(group) > 1 else ""
        yield _line("Root causes", f"{group[0][1].root_cause}{often}", [r for r, _ in group])
    for record, known in weightiest:
        if known.lesson and known.succeeded is not False:
            yield _line("Lessons", known.lesson, [record])
    yield from _principles(records)


def _strategies(tried: Iterable[_Tried]) -> Iterator[PremortemLine]:
    by_name: dict[str, list[_Tried]] = {}
    for record, known in tried:
        if known.strategy and known.succeeded is not None:
            by_name.setdefault(known.strategy, []).append((record, known))
    for name, group in sorted(by_name.items(), key=lambda one: (-len(one[1]), one[0])):
        good = sum(known.succeeded is True for _, known in group)
        surprises = [known.surprise for _, known in group if known.surprise is not None]
        off = f", {fmean(surprises):.0%} off its predictions" if surprises else ""
        often = f"{name}: {good} of {len(group)} succeeded ({good / len(group):.0%}){off}"
        yield _line("How strategies did", often, [record for record, _ in group])


def _principles(records: Iterable[MemoryRecord]) -> Iterator[PremortemLine]:
    known = [
        (record, record.metadata.confidence)
        for record in records
        if isinstance(record.metadata, ValueMetadata | PatternMetadata | LearningMetadata)
    ]
    known.sort(key=lambda pair: (-(0.5 if pair[1] is None else pair[1]), pair[0].id))
    for record, confidence in known:
        sure = "" if confidence is None else f" ({confidence:.0%} sure)"
        yield _line("Principles", f"{record.text}{sure}", [record])


def _line(heading: str, text: str, records: Iterable[MemoryRecord]) -> PremortemLine:
    return PremortemLine(heading, _flat(text, _SHOWN_CHARS), tuple(r.id for r in records))


def _flat(text: str, most: int) -> str:
    """Return the text in one line of at most so many characters, in whole words if it has any."""
    flat = " ".join(escape_tag(RECALL_TAG, clean_text(text)).split())
    if len(flat) <= most:
        return flat
    words, _, rest = flat[: most - 1].rpartition(" ")
    return f"{words if len(rest) < most // 2 else flat[: most - 1]}…"
