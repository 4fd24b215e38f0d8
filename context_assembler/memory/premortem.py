"""What went wrong before, told before it is tried again."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.memory import kinds
from context_assembler.memory.format import MISSING_SHARE, RECALL_TAG, missing_sources
from context_assembler.memory.kinds import worked
from context_assembler.memory.recall import Deadline, ask_sources
from context_assembler.memory.records import MemoryFilters, MemoryRecord, Vector
from context_assembler.memory.score import Recall, SourceState, States
from context_assembler.memory.words import read_signals
from context_assembler.texts import CountText, clean_text, escape_tag, fence

_LESSON_KINDS: Final = ("experiences", "values", "patterns", "learnings")
_WORST_FIRST: Final[tuple[SourceState, ...]] = ("failed", "timed_out", "skipped", "ok", "empty")
_SURPRISING: Final = 0.5
_ALIKE: Final = 0.3  # a cosine from which on a general principle fits a domain
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
    """What sources taught, and what came of each.

    Attributes:
        general: Keys of records of no domain that fit the one that is asked for, the best first.
    """

    records: Sequence[MemoryRecord]
    general: Sequence[str]
    states: States
    notes: Mapping[str, str]


async def gather_lessons(
    sources: Mapping[str, Any],
    recall: Recall,
    filters: MemoryFilters,
    vector: Vector | None,
    deadline: Deadline,
) -> Lessons:
    """Return what the sources teach of a domain; one that fails or is late costs its part alone.

    Sources are searched for the domain, and those that can list are read newest first.
    """
    wanted = [name for name in _LESSON_KINDS if not filters.kinds or name in filters.kinds]
    if not wanted:
        note = f"the filters name none of the kinds that teach: {', '.join(_LESSON_KINDS)}"
        return Lessons((), (), dict.fromkeys(sources, "skipped"), dict.fromkeys(sources, note))
    listing = recall._replace(signals=read_signals(""))
    records, states, notes = list[MemoryRecord](), dict[str, SourceState](), dict[str, str]()
    near = list[tuple[float, float, str]]()
    for name, source in sources.items():
        given = ({name: source}, replace(filters, kinds=wanted))
        answers = await asyncio.gather(
            ask_sources(*given, recall, vector, deadline),
            ask_sources(*given, listing, None, deadline),
        )
        for hit in (hit for answer in answers[0] for hit in answer.hits):
            alike = hit.similarity or 0.0
            if alike >= _ALIKE or hit.bm25:
                near.append((-alike, -(hit.bm25 or 0.0), hit.record.key))
        found = [one for group in answers for one in group if one.state != "skipped"]
        records += [hit.record for one in found for hit in one.hits]
        states[name] = next(one for one in _WORST_FIRST if one in {a.state for a in found})
        if told := dict.fromkeys(one.reason for one in found if one.reason):
            notes[name] = "; ".join(told)
    return Lessons(records, [key for *_, key in sorted(near)], states, notes)


# ---- writing ----

_Tried: TypeAlias = tuple[MemoryRecord, kinds.ExperienceMetadata]


def fit_premortem(
    lessons: Lessons,
    about: tuple[str, str | None, str],
    max_tokens: int,
    limit: int,
    count: CountText,
) -> PremortemContext:
    """Return the lines that fit; one of each heading comes before the second of any.

    Args:
        about: The domain, the strategy, and what both are called in the title.
        limit: The most lines under one heading.
    """
    domain, strategy, title = about
    distinct = {(record.key, record.text): record for record in lessons.records}.values()
    own = [record for record in distinct if _is_of_domain(record, domain, strategy)]
    places = {key: at for at, key in enumerate(lessons.general)}
    general = [r for r in distinct if r.key in places and _is_of_domain(r, "", None)]
    general.sort(key=lambda record: places[record.key])
    lines = [*_lines_of(own), *_principles("General principles", general)]
    tried = sum(isinstance(record.metadata, kinds.ExperienceMetadata) for record in own)
    title = escape_tag(RECALL_TAG, " ".join(title.split()))
    missing = missing_sources(lessons.states)
    where = " in what of memory answered" if missing else ""
    nothing = f"Nothing is known of earlier attempts{where}."
    if count(missing) > max_tokens * MISSING_SHARE:
        missing = ""
    if lines:
        based = f"Based on {tried} experience{'s' * (tried != 1)}."
        missing = " ".join(filter(None, (missing, based)))

    def write(kept: Iterable[int]) -> str:
        sections: dict[str, list[str]] = {}
        for at in sorted(kept):
            sections.setdefault(lines[at].heading, []).append(f"- {lines[at].text}")
        told = [f"## {heading}\n\n" + "\n".join(entries) for heading, entries in sections.items()]
        parts = (f"# Before you begin: {title}", *(told or [nothing]), missing)
        return "\n\n".join(filter(None, parts))

    seen, turns, kept = Counter[str](), list[tuple[int, int]](), list[int]()
    for at, line in enumerate(lines):
        seen[line.heading] += 1
        turns.append((seen[line.heading], at))
    for turn, at in sorted(turns):
        if turn <= limit and count(write([*kept, at])) <= max_tokens:
            kept.append(at)
    markdown = write(kept)
    tokens = count(markdown)
    if tokens > max_tokens or (lines and not kept):  # what had no room is not unknown
        markdown, tokens = "", 0
    shown = tuple(lines[at] for at in sorted(kept))
    left_out = tuple(line for at, line in enumerate(lines) if at not in kept)
    return PremortemContext(markdown, shown, left_out, tokens, lessons.states, lessons.notes)


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
    sure = [(r, r.metadata) for r in records if isinstance(r.metadata, _PRINCIPLES)]
    yield from _principles("Principles", [r for r, _ in sorted(sure, key=_sure_first)])


def _sure_first(known: tuple[MemoryRecord, Any]) -> tuple[float, float, str]:
    rate, confidence = getattr(known[1], "success_rate", None), known[1].confidence
    return -(rate or 0.0), -(0.5 if confidence is None else confidence), known[0].id


def _principles(heading: str, records: Iterable[MemoryRecord]) -> Iterator[PremortemLine]:
    for record in records:
        if record.kind in _LESSON_KINDS[1:]:
            confidence = getattr(record.metadata, "confidence", None)
            sure = "" if confidence is None else f"{confidence:.0%} sure"
            rate = worked(getattr(record.metadata, "success_rate", None))
            about = ", ".join(filter(None, (rate, sure)))
            yield _line(heading, f"{record.text} ({about})" if about else record.text, [record])


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
