"""Recalled memories as Markdown that a model reads well, within a budget of tokens.

One heading for each kind, lists below it; what happened on one day stands under that day. No tables,
and no ids but those that lead somewhere: files with lines, short hashes.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from context_assembler.memory.kinds import KINDS, MemoryKind
from context_assembler.memory.records import MemoryRecord, reference_of
from context_assembler.memory.score import Candidate, RecallSettings, SourceState, share_of
from context_assembler.memory.words import MONTHS, Signals
from context_assembler.texts import CountText, clean_text, escape_tag, fence

RECALL_TAG: Final = "recalled-memory"
CHARS_PER_TOKEN: Final = 16  # no token of a text has more characters than that, on the average
NO_ROOM: Final = "there was no room left in the budget"
MISSING_SHARE: Final = 0.1  # of the budget, for naming the sources that could not answer
_NOTHING_RELEVANT: Final = "Nothing relevant was found in memory."
_NOTHING_IN_PART: Final = "Nothing relevant was found in what of memory answered."
_NOTHING_ANSWERED: Final = "Memory could not be searched."
_NOTHING_HAD_ROOM: Final = "What was found in memory had no room."
_ANSWERED: Final = ("ok", "empty", "below_floor")
_MOST_NAMES: Final = 3
_NAME_CHARS: Final = 40

RecallOutcome: TypeAlias = Literal["kept", "shortened", "left_out"]
Condense: TypeAlias = Callable[[str, int], Awaitable[str]]
"""Says the same as a text in at most so many tokens."""


# ---- values ----


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledMemory:
    """A record as it is shown.

    Attributes:
        text: Its text, shortened if it was too long.
        tokens: What it takes, without the headers above it.
        is_beginning: Whether its source keeps more of the text than the record has here.
    """

    record: MemoryRecord
    source: str
    score: float
    text: str
    tokens: int
    scores: Mapping[str, float]
    found_in: tuple[str, ...]
    is_truncated: bool = False
    is_beginning: bool = False

    @property
    def kind(self) -> MemoryKind:
        """The record's kind."""
        return self.record.kind


class RecallExplanation(NamedTuple):
    """Why one candidate is in the context, or not."""

    memory_id: str
    kind: MemoryKind
    source: str
    outcome: RecallOutcome
    reason: str
    score: float
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedContext:
    """Recalled memories as Markdown, and what came of every source and candidate.

    Attributes:
        markdown: Never more than the budget, by the counter it was made with.
        items: In the order of their rank, best first.
        source_status: What came of each source that was asked.
        source_notes: The reason if a source gave no answer, or not all of it.
        budget_exceeded: Whether something that fits the query was cut or left out for want of room.
        truncated_items: Ids of the records that are shown shortened.
        explanations: One for every candidate, in the order of their rank; after many updates, for
            the last thousand.
        task_path: Where an agent stands, as the Markdown says above what was recalled.
    """

    markdown: str
    items: tuple[RecalledMemory, ...] = ()
    token_count: int = 0
    sources_used: tuple[str, ...] = ()
    source_status: Mapping[str, SourceState] = field(default_factory=dict[str, SourceState])
    source_notes: Mapping[str, str] = field(default_factory=dict[str, str])
    budget_exceeded: bool = False
    truncated_items: tuple[str, ...] = ()
    explanations: tuple[RecallExplanation, ...] = ()
    signals: Signals | None = None
    task_path: str = ""

    def __repr__(self) -> str:
        states = dict(Counter(self.source_status.values()))
        return f"FormattedContext({len(self.items)} items, {self.token_count} tokens, {states})"

    @property
    def is_empty(self) -> bool:
        """Whether nothing is shown: nothing relevant was found, or nothing had room."""
        return not self.items

    @property
    def fenced(self) -> str:
        """The Markdown between tags that nothing in it can close."""
        return fence(RECALL_TAG, self.markdown)

    def with_items(
        self, items: Sequence[RecalledMemory], markdown: str, token_count: int
    ) -> "FormattedContext":
        """Return the context with other items."""
        return replace(
            self,
            markdown=markdown,
            token_count=token_count,
            items=tuple(items),
            sources_used=tuple(dict.fromkeys(shown.source for shown in items)),
            truncated_items=tuple(shown.record.id for shown in items if shown.is_truncated),
        )


# ---- times ----

_UNITS: Final = (
    ("year", 365 * 86_400),
    ("month", 30 * 86_400),
    ("week", 7 * 86_400),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
)


def relative_time(seconds: float) -> str:
    """Return how long ago something was, in the largest unit."""
    for unit, length in _UNITS:
        if count := int(abs(seconds) // length):
            counted = f"{count} {unit}{'s' * (count != 1)}"
            return f"{counted} ago" if seconds > 0 else f"in {counted}"
    return "just now"


def date_of(moment: datetime) -> str:
    """Return the day on which something was."""
    return f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}"


def _day_of(moment: datetime | None, *, now: datetime, is_relative: bool) -> str:
    """Return the line that stands above what was on one day, with how long ago in the last year."""
    if moment is None:
        return "Undated:"
    if not is_relative or abs((now - moment).days) >= 365:
        return f"{date_of(moment)}:"  # "3 years ago" would say less than the date next to it
    days = (now.astimezone(moment.tzinfo).date() - moment.date()).days
    ago = {0: "today", 1: "yesterday"}.get(days) or relative_time(days * 86_400)
    return f"{date_of(moment)} ({ago}):"


# ---- sources that could not answer ----


def missing_sources(
    states: Mapping[str, SourceState], *, fits: Callable[[str], bool] = lambda _: True
) -> str:
    """Return a sentence that names each source that could not answer; empty if there is none.

    A source is named once, whatever it was asked for. If the names would be too long, the sentence
    gives only their number, and if that is too long as well, it is empty.

    Args:
        states: By kind, with the source's name before it if there are several.
        fits: Whether a sentence is short enough.
    """
    names = [*_missing(states)]
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    listed = f"{', '.join(names[:_MOST_NAMES])}{more}"
    number = f"{len(names)} source{'s' * (len(names) != 1)}"
    sentences = (f"Not available: {told}." for told in (listed, number))
    return next(filter(fits, sentences), "")


def _missing(states: Mapping[str, SourceState]) -> Iterator[str]:
    """Yield each source that could not answer with its state; of one that answered in part, the part."""
    by_source: dict[str, dict[str, SourceState]] = {}
    for name, state in states.items():
        by_source.setdefault(name.rpartition("/")[0], {})[name] = state
    for source, asked in by_source.items():
        missing = {name: state for name, state in asked.items() if state not in _ANSWERED}
        all_states = " or ".join(dict.fromkeys(missing.values())).replace("_", " ")
        if 1 < len(asked) == len(missing):
            yield f"{_short(source or 'memory')} ({all_states})"
        elif source and len(missing) > 1:
            yield f"{_short(source)} ({all_states} for {len(missing)} of {len(asked)} kinds)"
        else:
            yield from (f"{_short(n)} ({state.replace('_', ' ')})" for n, state in missing.items())


def _short(name: str) -> str:
    flat = escape_tag(RECALL_TAG, " ".join(clean_text(name).split()))
    return flat if len(flat) <= _NAME_CHARS else f"{flat[: _NAME_CHARS - 1]}…"


def nothing_found(states: Mapping[str, SourceState]) -> str:
    """Return the sentence for an empty result: only if all sources answered, nothing is relevant."""
    answered = [state in _ANSWERED for state in states.values()]
    if all(answered):
        return _NOTHING_RELEVANT
    return _NOTHING_IN_PART if any(answered) else _NOTHING_ANSWERED


# ---- the layout ----

_BREAKS: Final = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")  # besides the line feed
_HEADING: Final = re.compile(r"(?m)^([ \t]*)(#{1,6}(?=\s)|>|(?:-{3,}|={3,}|\*{3,})[ \t]*$)")


class Layout:
    """How the items of one context are written.

    Args:
        now: What relative times are counted from.
        states: What came of the sources; those that could not answer are named at the end.
        fits: Whether that sentence is short enough.
    """

    def __init__(
        self,
        settings: RecallSettings,
        states: Mapping[str, SourceState],
        *,
        now: datetime,
        fits: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._now, self._states = now, states
        self._is_relative = settings.times == "relative"
        self._is_best_last = settings.order == "best_last"
        self._missing = missing_sources(states, fits=fits)
        self._shown: dict[str, str] = {}

    def headers(self, record: MemoryRecord) -> tuple[str, ...]:
        """Return the lines that stand above an item, the outermost first."""
        spec = KINDS[record.kind]
        if not spec.is_by_day:
            return (f"## {spec.heading}",)
        day = _day_of(record.created_at, now=self._now, is_relative=self._is_relative)
        return (f"## {spec.heading}", day)

    def entry(self, record: MemoryRecord, text: str) -> str:
        """Return the lines of an item, showing that text."""
        if text not in self._shown:  # nothing in it may read as a heading, a rule or our tag
            lines = _BREAKS.sub("\n", clean_text(text).strip())
            self._shown[text] = _HEADING.sub(r"\1\\\2", escape_tag(RECALL_TAG, lines))
        spec, made = KINDS[record.kind], record.created_at
        when = ""
        if made is not None and not spec.is_by_day:
            seconds = (self._now - made).total_seconds()
            when = relative_time(seconds) if self._is_relative else date_of(made)
        metadata = record.metadata or spec.metadata()
        entry: str = metadata.entry(self._shown[text], record.author, when)
        return entry

    def write(self, items: Sequence[RecalledMemory], *, had_more: bool = False) -> str:
        """Return all of the items as Markdown, and a line that counts them."""
        sections: dict[str, dict[str, list[RecalledMemory]]] = {}
        for shown in items:
            heading, day = (*self.headers(shown.record), "")[:2]
            sections.setdefault(heading, {}).setdefault(day, []).append(shown)
        turn = reversed if self._is_best_last else iter
        lines: list[str] = []
        for heading in turn([*sections]):
            lines += (heading, "")
            for day in turn([*sections[heading]]):
                told = [*turn(sections[heading][day])]
                if day:
                    lines.append(day)
                    told.sort(key=_time_order)
                lines += (self.entry(shown.record, shown.text) for shown in told)
            lines.append("")
        if items:
            sources = len({shown.source for shown in items})
            counted = f"{len(items)} item{'s' * (len(items) != 1)}"
            closing = f"{counted} from {sources} source{'s' * (sources != 1)}."
        else:
            closing = _NOTHING_HAD_ROOM if had_more else nothing_found(self._states)
        return "\n".join((*lines, " ".join(filter(None, (closing, self._missing)))))


def _time_order(shown: RecalledMemory) -> tuple[str, float]:
    """Sort what happened on one day as it happened, session by session."""
    made = shown.record.created_at
    return shown.record.session_id or "", 0.0 if made is None else made.timestamp()


# ---- texts that are too long ----

_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s+|(?<=[。!?।])|\n+")
_WORD_END: Final = re.compile(r"\s+")


def cut_text(text: str, *, fits: Callable[[str], bool], reference: str = "") -> str:
    """Return the longest beginning that fits with a pointer to the whole; empty if nothing does.

    It ends with a sentence or a line, or at least with a word, unless that gives up half of it.

    Args:
        reference: What the whole text is found by; empty for nothing.
    """
    pointer = f" […] (full text: {reference})" if reference else " […]"

    def is_short(size: int) -> bool:
        return fits(text[:size].rstrip() + pointer)

    size, high = 0, min(256, len(text))
    while high < len(text) and is_short(high):  # long texts are never measured whole
        size, high = high, min(2 * high, len(text))
    while size < high:
        middle = (size + high + 1) // 2
        size, high = (middle, high) if is_short(middle) else (size, middle - 1)
    if size == 0:
        return ""
    for pattern in (_SENTENCE_END, _WORD_END):
        starts = [match.start() for match in pattern.finditer(text[: size + 1])]
        ends = [start for start in starts if size // 2 <= start <= size]
        if ends and is_short(ends[-1]):
            return text[: ends[-1]].rstrip() + pointer
    return text[:size].rstrip() + pointer


class Packing:
    """Chooses what is shown: by rank, within each kind's share, never over the budget.

    Each kind that has any candidate gets its share. What does not fit is passed over, and the next
    is tried: to fill the room by density would lose what was asked for. What a kind leaves unused
    goes to the best that are left, whatever their kind. A long item takes at most its part of its
    kind's share: it is cut at the end of a sentence or line. A short one is shown whole.
    """

    def __init__(
        self,
        settings: RecallSettings,
        layout: Layout,
        *,
        max_tokens: int,
        limit: int,
        count: CountText,
    ) -> None:
        self._settings, self._layout, self._count = settings, layout, count
        self._max_tokens, self._limit = max_tokens, limit
        self._spent = 0
        self._taken: dict[int, RecalledMemory] = {}
        self._reasons: dict[int, str] = {}
        self._headers: set[str] = set()
        self._tokens_by_header: dict[str, int] = {}
        self._entry_tokens: dict[int, int] = {}  # by rank, of a whole entry
        self._cut: dict[int, tuple[str, int]] = {}

    def pack(
        self, ranked: Sequence[Candidate]
    ) -> tuple[list[RecalledMemory], list[tuple[Candidate, str]], str, int]:
        """Return what is shown, best first, what is not and why, the Markdown and its tokens."""
        self._spent = self._count(f"{self._layout.write(())}\n") if ranked else 0
        rooms = self._rooms({candidate.record.kind for candidate in ranked})
        free = dict(rooms)
        waiting: list[int] = []
        for rank, candidate in enumerate(ranked):
            kind = candidate.record.kind
            used = self._take(rank, candidate, room=free[kind], share=rooms[kind])
            if used:
                free[kind] -= used
            else:
                waiting.append(rank)
        for rank in waiting:
            share = rooms[ranked[rank].record.kind]
            self._take(rank, ranked[rank], room=self._max_tokens, share=share)
        ranks = sorted(self._taken)
        while True:
            items = [self._taken[rank] for rank in ranks]
            markdown = self._layout.write(items, had_more=NO_ROOM in self._reasons.values())
            tokens = self._count(markdown)
            if tokens <= self._max_tokens or not ranks:
                break
            self._reasons[ranks.pop()] = NO_ROOM  # the whole takes more than its parts
        if tokens > self._max_tokens:
            markdown, tokens = "", 0
        shown = set(ranks)
        left_out = [
            (candidate, self._reasons.get(rank, NO_ROOM))
            for rank, candidate in enumerate(ranked)
            if rank not in shown
        ]
        return items, left_out, markdown, tokens

    def _rooms(self, kinds: Collection[MemoryKind]) -> dict[MemoryKind, int]:
        """Return the tokens of each kind that is there: percentages first, the rest by weight.

        Percentages of more than the whole are taken as weights.
        """
        shares = {name: share_of(name, self._settings.shares.get(name, 1.0)) for name in kinds}
        fixed = sum(part for _, part in shares.values())
        scale = 1 / fixed if fixed > 1 else 1.0
        weights = sum(weight for weight, _ in shares.values()) or 1.0
        rest = max(1 - fixed * scale, 0.0)
        room = max(self._max_tokens - self._spent, 0)
        return {
            name: int(room * (part * scale + weight / weights * rest))
            for name, (weight, part) in shares.items()
        }

    def _take(self, rank: int, candidate: Candidate, *, room: int, share: int) -> int:
        """Take the candidate, shortened if it must be, and return what it takes; 0 for no room."""
        record = candidate.record
        if len(self._taken) >= self._limit:
            self._reasons[rank] = "the limit of items was reached"
            return 0
        if not record.text.strip():
            self._reasons[rank] = "it says nothing"
            return 0
        room = min(room, self._max_tokens - self._spent)
        headers = [head for head in self._layout.headers(record) if head not in self._headers]
        above = sum(map(self._header_tokens, headers))
        cap = int(share * self._settings.largest_share)
        text, tokens = self._within(cap, rank, candidate) if above < room else ("", 0)
        if not text or above + tokens > room:
            self._reasons[rank] = NO_ROOM
            return 0
        self._headers.update(headers)
        self._spent += above + tokens
        self._reasons.pop(rank, None)
        self._taken[rank] = RecalledMemory(
            record=record,
            source=candidate.source,
            score=candidate.score,
            text=text,
            tokens=tokens,
            scores=candidate.scores,
            found_in=candidate.found_in,
            is_truncated=text != record.text,
            is_beginning=candidate.is_beginning,
        )
        return above + tokens

    def _within(self, cap: int, rank: int, candidate: Candidate) -> tuple[str, int]:
        """Return the text, cut to the cap if it takes more, and its tokens; empty for neither."""
        record = candidate.record
        most = max(cap, self._settings.whole_tokens)
        if not candidate.is_beginning and len(record.text) <= most * CHARS_PER_TOKEN:
            if rank not in self._entry_tokens:
                self._entry_tokens[rank] = self._tokens_of(record, record.text)
            if self._entry_tokens[rank] <= most:
                return record.text, self._entry_tokens[rank]
        if rank not in self._cut:
            self._cut[rank] = self._shortened(record, record.text, cap)
        return self._cut[rank]

    def _shortened(self, record: MemoryRecord, text: str, most: int) -> tuple[str, int]:
        text = cut_text(
            text,
            fits=lambda shorter: self._tokens_of(record, shorter) <= most,
            reference=reference_of(record),
        )
        return text, self._tokens_of(record, text) if text else 0

    def _header_tokens(self, header: str) -> int:
        if header not in self._tokens_by_header:
            self._tokens_by_header[header] = self._count(f"{header}\n\n")
        return self._tokens_by_header[header]

    def _tokens_of(self, record: MemoryRecord, text: str) -> int:
        return self._count(f"{self._layout.entry(record, text)}\n")

    async def compress(
        self, context: FormattedContext, condense: Condense | None
    ) -> FormattedContext:
        """Return the context with the lowest scores cut to a third first, then left out, until it fits.

        Args:
            condense: Shortens a text; without it, and if it returns too much, the text is cut.
        """
        kept = sorted(context.items, key=lambda shown: (-shown.score, shown.record.id))
        cut: set[tuple[str, str]] = set()
        at, had_more = len(kept) - 1, bool(context.items)
        while True:
            markdown = self._layout.write(kept, had_more=had_more)
            tokens = self._count(markdown)
            if tokens <= self._max_tokens or not kept:
                break
            if at < 0:
                kept.pop()
                continue
            shown = kept[at]
            most = max(shown.tokens // 3, 1)
            text = "" if condense is None else (await condense(shown.text, most)).strip()
            tokens = self._tokens_of(shown.record, text) if text else 0
            if not text or tokens > most:
                text, tokens = self._shortened(shown.record, shown.text, most)
            if text:
                kept[at] = replace(shown, text=text, tokens=tokens, is_truncated=True)
                cut.add((shown.source, shown.record.id))
            at -= 1
        if tokens > self._max_tokens:
            markdown, tokens = "", 0
        left = {(shown.source, shown.record.id) for shown in kept}
        explanations = tuple(
            one._replace(outcome="left_out", reason="it was left out to make the context smaller")
            if one.outcome != "left_out" and (one.source, one.memory_id) not in left
            else one._replace(outcome="shortened")
            if one.outcome == "kept" and (one.source, one.memory_id) in cut
            else one
            for one in context.explanations
        )
        is_less = bool(cut) or len(kept) < len(context.items)
        return replace(
            context.with_items(kept, markdown, tokens),
            budget_exceeded=context.budget_exceeded or is_less,
            explanations=explanations,
        )


def explain(
    ranked: Sequence[Candidate],
    items: Sequence[RecalledMemory],
    left_out: Iterable[tuple[Candidate, str]],
) -> tuple[RecallExplanation, ...]:
    """Return one explanation for each candidate, the best first.

    Args:
        ranked: All that could be shown.
        left_out: What is not shown, and why, in any order; also candidates that are not in `ranked`.
    """
    shown = {(one.source, one.record.id): one.is_truncated for one in items}
    found: list[tuple[Candidate, RecallOutcome, str]] = [(c, "left_out", r) for c, r in left_out]
    for candidate in ranked:
        is_cut = shown.get((candidate.source, candidate.record.id))
        if is_cut is not None:
            found.append((candidate, "shortened" if is_cut else "kept", candidate.reason))
    found.sort(key=lambda one: one[0].rank)
    return tuple(
        RecallExplanation(c.record.id, c.record.kind, c.source, outcome, reason, c.score, c.scores)
        for c, outcome, reason in found
    )
