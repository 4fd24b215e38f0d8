"""What went wrong before, told before it is tried again."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.memory import kinds
from context_assembler.memory.format import MISSING_SHARE, RECALL_TAG, missing_sources
from context_assembler.memory.recall import Deadline, ask_sources
from context_assembler.memory.records import MemoryFilters, MemoryRecord
from context_assembler.memory.score import Recall, SourceState, States
from context_assembler.memory.words import read_signals
from context_assembler.texts import CountText, clean_text, escape_tag, fence

_LESSON_KINDS: Final = ("experiences", "values", "patterns", "learnings")
_WORST_FIRST: Final[tuple[SourceState, ...]] = ("failed", "timed_out", "skipped", "ok", "empty")
_SURPRISING: Final = 0.5
_SHOWN_CHARS: Final = 400
_TOLD_CHARS: Final = 250  # of an attempt, if a lesson follows
_ENDS: Final = (*".!?:;…。।", "\uff01", "\uff1f", "\uff1a", "\uff1b")
_PRINCIPLES: Final = (kinds.ValueMetadata, kinds.PatternMetadata, kinds.LearningMetadata)


class PremortemLine(NamedTuple):
    """One thing to know, under one of the headings, and the records that it was made of."""

    heading: str
    text: str
    memory_ids: tuple[str, ...]


class PremortemContext(NamedTuple):
    """What to know before something is tried; `left_out` lines had no room.

    Attributes:
        source_status: What came of each source that was asked.
        source_notes: The reason if a source gave no answer, or not all of it.
    """

    markdown: str
    lines: tuple[PremortemLine, ...]
    left_out: tuple[PremortemLine, ...]
    token_count: int
    source_status: States
    source_notes: Mapping[str, str]

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
    """What sources taught, and what came of each."""

    records: Sequence[MemoryRecord]
    states: States
    notes: Mapping[str, str]


async def gather_lessons(
    sources: Mapping[str, Any], recall: Recall, filters: MemoryFilters, deadline: Deadline
) -> Lessons:
    """Return what the sources teach of a domain; one that fails or is late costs its part alone.

    Sources are searched for the domain, and those that can list are read newest first.
    """
    wanted = [name for name in _LESSON_KINDS if not filters.kinds or name in filters.kinds]
    if not wanted:
        note = f"the filters name none of the kinds that teach: {', '.join(_LESSON_KINDS)}"
        return Lessons((), dict.fromkeys(sources, "skipped"), dict.fromkeys(sources, note))
    listing = recall._replace(signals=read_signals(""))
    records, states, notes = list[MemoryRecord](), dict[str, SourceState](), dict[str, str]()
    for name, source in sources.items():
        given = ({name: source}, replace(filters, kinds=wanted))
        answers = await asyncio.gather(
            *(ask_sources(*given, one, None, deadline) for one in (recall, listing))
        )
        found = [one for group in answers for one in group if one.state != "skipped"]
        records += [hit.record for one in found for hit in one.hits]
        states[name] = next(one for one in _WORST_FIRST if one in {a.state for a in found})
        if told := dict.fromkeys(one.reason for one in found if one.reason):
            notes[name] = "; ".join(told)
    return Lessons(records, states, notes)


# ---- writing ----

_Tried: TypeAlias = tuple[MemoryRecord, kinds.ExperienceMetadata]


def fit_premortem(
    lessons: Lessons, about: tuple[str, str | None, str], max_tokens: int, count: CountText
) -> PremortemContext:
    """Return the lines that fit; one of each heading comes before the second of any.

    Args:
        about: The domain, the strategy, and what both are called in the title.
    """
    domain, strategy, title = about
    distinct = {(record.key, record.text): record for record in lessons.records}.values()
    lines = [*_lines_of([r for r in distinct if _is_of_domain(r, domain, strategy)])]
    title = escape_tag(RECALL_TAG, " ".join(title.split()))
    missing = missing_sources(lessons.states)
    where = " in what of memory answered" if missing else ""
    nothing = f"Nothing is known of earlier attempts{where}."
    if count(missing) > max_tokens * MISSING_SHARE:
        missing = ""
    room = max_tokens - count(f"# Before you begin: {title}\n\n{missing}")
    seen, turns = dict[str, int](), list[tuple[int, int]]()
    for at, line in enumerate(lines):
        seen[line.heading] = seen.get(line.heading, 0) + 1
        turns.append((seen[line.heading], at))
    kept, headings = list[int](), set[str]()
    for _, at in sorted(turns):
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
    left_out = tuple(line for at, line in enumerate(lines) if at not in kept)
    return PremortemContext(markdown, tuple(shown), left_out, tokens, lessons.states, lessons.notes)


def _is_of_domain(record: MemoryRecord, domain: str, strategy: str | None) -> bool:
    """Whether the record is about the domain, and about the strategy if both name one."""
    own = (getattr(record.metadata, "domain", None) or "").casefold()
    named = getattr(record.metadata, "strategy", None)
    names = {one.casefold() for one in (strategy, named) if one is not None}
    return own == domain.casefold() and len(names) < 2


def _lines_of(records: Sequence[MemoryRecord]) -> Iterator[PremortemLine]:
    """Yield what the records teach, what matters most first.

    Failures, how each strategy did, outcomes that surprised, causes by how often they were, what
    other attempts taught, and principles by how sure they are.
    """
    tried = [(r, r.metadata) for r in records if isinstance(r.metadata, kinds.ExperienceMetadata)]
    weightiest = sorted(tried, key=lambda pair: (-pair[0].importance, pair[0].id))
    for record, known in weightiest:
        if known.succeeded is False:
            told = record.text
            if known.lesson:
                told = _flat(told, _TOLD_CHARS)
                told = told if not told or told.endswith(_ENDS) else f"{told}."
                told = f"{told} Lesson: {known.lesson}"
            yield _line("Past failures", told.strip(), [record])
    for name, group in _grouped((t for t in tried if t[1].succeeded is not None), "strategy"):
        good = sum(known.succeeded is True for _, known in group)
        surprises = [known.surprise for _, known in group if known.surprise is not None]
        off = f", {fmean(surprises):.0%} off its predictions" if surprises else ""
        often = f"{name}: {good} of {len(group)} succeeded ({good / len(group):.0%}){off}"
        yield _line("How strategies did", often, [record for record, _ in group])
    surprising = [(-(k.surprise or 0.0), r.id, r, k) for r, k in tried]
    for surprise, _, record, known in sorted(surprising, key=lambda one: one[:2]):
        told = known.outcome or ("" if known.succeeded is False else record.text)
        if known.prediction and known.outcome:
            told = f"expected {known.prediction}; got {known.outcome}"
        if -surprise >= _SURPRISING and told:
            yield _line("Unexpected outcomes", told, [record])
    for _, group in _grouped(tried, "root_cause"):
        often = f" ({len(group)} times)" if len(group) > 1 else ""
        yield _line("Root causes", f"{group[0][1].root_cause}{often}", [r for r, _ in group])
    for record, known in weightiest:
        if known.lesson and known.succeeded is not False:
            yield _line("Lessons", known.lesson, [record])
    sure = [(r, r.metadata.confidence) for r in records if isinstance(r.metadata, _PRINCIPLES)]
    sure.sort(key=lambda pair: (-(0.5 if pair[1] is None else pair[1]), pair[0].id))
    for record, confidence in sure:
        how_sure = "" if confidence is None else f" ({confidence:.0%} sure)"
        yield _line("Principles", f"{record.text}{how_sure}", [record])


def _grouped(tried: Iterable[_Tried], field: str) -> list[tuple[str, list[_Tried]]]:
    """Return the attempts by a field, the largest group first; case makes no difference to causes."""
    groups: dict[str, list[_Tried]] = {}
    for record, known in tried:
        if name := getattr(known, field):
            key = name.casefold().strip() if field == "root_cause" else name
            groups.setdefault(key, []).append((record, known))
    return sorted(groups.items(), key=lambda one: (-len(one[1]), one[0]))


def _line(heading: str, text: str, records: Iterable[MemoryRecord]) -> PremortemLine:
    return PremortemLine(heading, _flat(text, _SHOWN_CHARS), tuple(r.id for r in records))


def _flat(text: str, most: int) -> str:
    """Return the text in one line of at most so many characters, in whole words if it has any."""
    flat = " ".join(escape_tag(RECALL_TAG, clean_text(text)).split())
    if len(flat) <= most:
        return flat
    words, _, rest = flat[: most - 1].rpartition(" ")
    return f"{words if len(rest) < most // 2 else flat[: most - 1]}…"
