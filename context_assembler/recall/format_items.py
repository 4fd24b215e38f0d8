"""The step that writes recalled records as Markdown that a model reads well.

One heading for each kind, below it lists; what happened on one day stands under that day. No
tables, and no ids but those that lead somewhere: files with lines, short hashes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from context_assembler.recall.kind_formats import KIND_FORMATS
from context_assembler.recall.tell_sources import tell_missing, tell_nothing
from context_assembler.recall.times import date_of, day_of, relative_time
from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import (
    NOTHING_HAD_ROOM,
    RECALL_TAG,
    Layout,
    RecalledMemory,
    SourceState,
)
from context_assembler.values.recall_settings import RecallOrder, RecallTimes
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.fences import escape_tag

KIND_HEADINGS: Final[Mapping[MemoryKind, str]] = {
    "memories": "Memories",
    "code": "Code",
    "experiences": "Experiences",
    "values": "Principles",
    "commits": "Commits",
    "events": "Events",
    "chunks": "Documents",
    "entities": "Entities",
    "relations": "Relations",
    "patterns": "Patterns",
    "sessions": "Sessions",
    "changed_functions": "Changed functions",
    "learnings": "Learnings",
    "observations": "Observations",
}
_BY_DAY: Final = frozenset[MemoryKind](("memories", "events", "observations"))
_BREAKS: Final = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")  # beside the line feed
_HEADING: Final = re.compile(r"(?m)^([ \t]*)(#{1,6}(?=\s)|>|(?:-{3,}|={3,}|\*{3,})[ \t]*$)")

Clean = Callable[[str], str]
Fits = Callable[[str], bool]


def make_layout(
    *,
    now: datetime,
    order: RecallOrder,
    states: Mapping[str, SourceState],
    times: RecallTimes = "relative",
    clean: Clean = clean_text,
    fits: Fits = lambda _: True,
) -> Layout:
    """Return how the items of one context are written.

    Args:
        now: What relative times are counted from.
        states: What came of the sources; those that could not answer are named at the end.
        times: How it is said when something was.
        clean: What is done to a text before it is shown.
        fits: Whether a sentence about sources that could not answer is short enough.
    """
    memo: dict[str, str] = {}
    missing = tell_missing(states, fits=fits)

    def shown(text: str) -> str:
        if text not in memo:
            memo[text] = _harmless(clean(text))
        return memo[text]

    def entry(record: MemoryRecord, text: str) -> str:
        when = "" if record.kind in _BY_DAY else _when(record.created_at, now=now, times=times)
        return KIND_FORMATS[record.kind](record, shown(text), when)

    def headers(record: MemoryRecord) -> tuple[str, ...]:
        heading = f"## {KIND_HEADINGS[record.kind]}"
        if record.kind not in _BY_DAY:
            return (heading,)
        if times == "dates":
            return (heading, f"{date_of(record.created_at) or 'Undated'}:")
        return (heading, day_of(record.created_at, now=now))

    def write(items: Sequence[RecalledMemory], /, *, had_more: bool = False) -> str:
        told = (_closing(items, states, had_more=had_more), missing)
        return _write(items, headers, entry, order=order, closing=" ".join(filter(None, told)))

    return Layout(headers=headers, entry=entry, write=write)


def _when(moment: datetime | None, *, now: datetime, times: RecallTimes) -> str:
    return date_of(moment) if times == "dates" else relative_time(moment, now=now)


def _write(
    items: Sequence[RecalledMemory],
    headers: Callable[[MemoryRecord], tuple[str, ...]],
    entry: Callable[[MemoryRecord, str], str],
    *,
    order: RecallOrder,
    closing: str,
) -> str:
    sections: dict[str, dict[str, list[RecalledMemory]]] = {}
    for shown in items:
        heading, day = (*headers(shown.record), "")[:2]
        sections.setdefault(heading, {}).setdefault(day, []).append(shown)
    if order == "best_last":
        sections = {name: _reversed(sections[name]) for name in reversed(list(sections))}
    lines: list[str] = []
    for heading, days in sections.items():
        lines += (heading, "")
        for day, members in days.items():
            told = sorted(members, key=_told_order) if day else members
            lines += [day] * bool(day)
            lines += (entry(shown.record, shown.text) for shown in told)
        lines.append("")
    return "\n".join((*lines, closing))


def _reversed(days: Mapping[str, list[RecalledMemory]]) -> dict[str, list[RecalledMemory]]:
    return {day: list(reversed(days[day])) for day in reversed(list(days))}


def _told_order(shown: RecalledMemory) -> tuple[str, float, int]:
    """Sort what happened on one day as it happened, session by session."""
    record = shown.record
    moment = 0.0 if record.created_at is None else record.created_at.timestamp()
    return (record.session_id or "", moment, 0)


def _closing(
    items: Sequence[RecalledMemory], states: Mapping[str, SourceState], *, had_more: bool
) -> str:
    if not items:
        return NOTHING_HAD_ROOM if had_more else tell_nothing(states)
    sources = len({shown.source for shown in items})
    counted = f"{len(items)} item{'s' * (len(items) != 1)}"
    return f"{counted} from {sources} source{'s' * (sources != 1)}."


def _harmless(text: str) -> str:
    """Return the text so that nothing in it is taken for a heading, a rule or the end of a fence."""
    lines = _BREAKS.sub("\n", text.strip())
    return _HEADING.sub(r"\1\\\2", escape_tag(RECALL_TAG, lines))
