"""The step that chooses what is shown: by rank, within each kind's share, never over the budget."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from context_assembler.recall.cutting import cut_text
from context_assembler.values.memories.identities import reference_of
from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.recall import Candidate, Layout, RecalledMemory
from context_assembler.values.recall_settings import share_of

CountText = Callable[[str], int]

CHARS_PER_TOKEN: Final = 16
"""So many characters are in no token of a text, on the average."""

_OVER_LIMIT = "the limit of items was reached"
_BLANK = "it says nothing"
_NO_ROOM = "there was no room left in the budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What is shown, best first, what is not and why, and the Markdown."""

    items: tuple[RecalledMemory, ...]
    left_out: tuple[tuple[Candidate, str], ...]
    markdown: str
    token_count: int

    @property
    def ran_out_of_room(self) -> bool:
        """Whether anything was cut or left out for want of room."""
        is_cut = any(shown.is_truncated for shown in self.items)
        return is_cut or any(reason == _NO_ROOM for _, reason in self.left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRules:
    """How the budget is divided.

    Attributes:
        limit: The most items.
        largest_share: The most that one item may take of its kind's share, if it is cut.
        whole_tokens: An item of at most so many tokens is not cut.
    """

    max_tokens: int
    limit: int
    shares: Mapping[MemoryKind, float | str]
    largest_share: float
    whole_tokens: int = 0


def fit_budget(
    ranked: Sequence[Candidate], *, rules: BudgetRules, layout: Layout, count_text: CountText
) -> Fitted:
    """Return the best candidates that fit.

    Each kind that has any gets its share of the budget. What does not fit is passed over, and the
    next tried: filling the room by density instead would lose what was asked for. What a kind
    leaves unused goes to the best that are left, whatever their kind. No long item takes more than its
    part of its kind's share: it is cut where a sentence or line ends. A short one is shown whole.

    Args:
        ranked: Best first.
        layout: Its headers count, and whatever else it writes.
    """
    packing = _Packing(rules=rules, layout=layout, count_text=count_text)
    packing.spent_tokens = count_text(f"{layout.write(())}\n") if ranked else 0
    room_tokens = max(rules.max_tokens - packing.spent_tokens, 0)
    rooms = divide_room([c.record.kind for c in ranked], shares=rules.shares, tokens=room_tokens)
    waiting = packing.take_within(ranked, rooms)
    packing.take_what_fits(waiting, rooms)
    return packing.finish(ranked)


def divide_room(
    kinds: Sequence[MemoryKind], *, shares: Mapping[MemoryKind, float | str], tokens: int
) -> dict[MemoryKind, int]:
    """Return the tokens of each kind that is there: percentages first, then the rest by weight.

    Percentages of more than the whole are taken as weights.
    """
    present = dict.fromkeys(kinds)
    given: dict[MemoryKind, tuple[float, float]] = {
        kind: share_of(kind, shares.get(kind, 1.0)) for kind in present
    }
    fixed = sum(part for _, part in given.values())
    scale = 1 / fixed if fixed > 1 else 1.0
    weights = sum(weight for weight, _ in given.values())
    rest = max(1 - fixed * scale, 0.0)
    rooms: dict[MemoryKind, int] = {}
    for kind, (weight, part) in given.items():
        by_weight = weight / weights * rest if weights else 0.0
        rooms[kind] = int(tokens * (part * scale + by_weight))
    return rooms


@dataclass(slots=True, kw_only=True)
class _Packing:
    """What was taken so far, and what it takes of the budget."""

    rules: BudgetRules
    layout: Layout
    count_text: CountText
    spent_tokens: int = 0
    taken: dict[int, RecalledMemory] = field(default_factory=dict[int, RecalledMemory])
    reasons: dict[int, str] = field(default_factory=dict[int, str])
    open_headers: set[str] = field(default_factory=set[str])
    header_tokens: dict[str, int] = field(default_factory=dict[str, int])
    whole_tokens: dict[int, int] = field(default_factory=dict[int, int])  # by rank, as told once
    cut: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])

    def take_within(
        self, ranked: Sequence[Candidate], rooms: Mapping[MemoryKind, int]
    ) -> list[tuple[int, Candidate]]:
        """Take what fits the share of its kind, and return the rest with their ranks."""
        free = dict(rooms)
        waiting: list[tuple[int, Candidate]] = []
        for rank, candidate in enumerate(ranked):
            kind = candidate.record.kind
            used = self._try(rank, candidate, room=free[kind], cap=self._cap(rooms[kind]))
            if used is None:
                waiting.append((rank, candidate))
            else:
                free[kind] -= used
        return waiting

    def take_what_fits(
        self, waiting: Sequence[tuple[int, Candidate]], rooms: Mapping[MemoryKind, int]
    ) -> None:
        """Take what fits what is left of the whole budget."""
        for rank, candidate in waiting:
            room = self.rules.max_tokens - self.spent_tokens
            self._try(rank, candidate, room=room, cap=self._cap(rooms[candidate.record.kind]))

    def finish(self, ranked: Sequence[Candidate]) -> Fitted:
        """Write what was taken, without the last ones where the whole takes more than its parts."""
        items = [self.taken[rank] for rank in sorted(self.taken)]
        ranks = sorted(self.taken)
        markdown = self._written(items)
        token_count = self.count_text(markdown)
        while token_count > self.rules.max_tokens and items:
            self.reasons[ranks.pop()] = _NO_ROOM
            items.pop()
            markdown = self._written(items)
            token_count = self.count_text(markdown)
        if token_count > self.rules.max_tokens:
            markdown, token_count = "", 0
        shown = set(ranks)
        return Fitted(
            items=tuple(items),
            left_out=tuple(
                (candidate, self.reasons.get(rank, _NO_ROOM))
                for rank, candidate in enumerate(ranked)
                if rank not in shown
            ),
            markdown=markdown,
            token_count=token_count,
        )

    def _written(self, items: Sequence[RecalledMemory]) -> str:
        return self.layout.write(items, had_more=_NO_ROOM in self.reasons.values())

    def _cap(self, room_tokens: int) -> int:
        return int(room_tokens * self.rules.largest_share)

    def _try(self, rank: int, candidate: Candidate, *, room: int, cap: int) -> int | None:
        """Take the candidate, shortened to the cap, and return what it takes; `None`: no room."""
        if len(self.taken) >= self.rules.limit:
            self.reasons[rank] = _OVER_LIMIT
            return None
        if not candidate.record.text.strip():
            self.reasons[rank] = _BLANK
            return None
        room = min(room, self.rules.max_tokens - self.spent_tokens)
        record = candidate.record
        headers = [h for h in self.layout.headers(record) if h not in self.open_headers]
        above = sum(map(self._header_tokens, headers))
        text, tokens = self._within(cap, rank, candidate) if above < room else ("", 0)
        if not text or above + tokens > room:
            self.reasons[rank] = _NO_ROOM
            return None
        self.open_headers.update(headers)
        self.spent_tokens += above + tokens
        self.reasons.pop(rank, None)
        self.taken[rank] = RecalledMemory(
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
        """Return the text, cut to the cap where it takes more, and its tokens; empty for neither."""
        text = candidate.record.text
        most_tokens = max(cap, self.rules.whole_tokens)
        if not candidate.is_beginning and len(text) <= most_tokens * CHARS_PER_TOKEN:
            if rank not in self.whole_tokens:
                self.whole_tokens[rank] = self._entry_tokens(candidate, text)
            if self.whole_tokens[rank] <= most_tokens:
                return text, self.whole_tokens[rank]
        if rank not in self.cut:
            text = cut_text(
                text,
                fits=lambda shorter: self._entry_tokens(candidate, shorter) <= cap,
                reference=reference_of(candidate.record),
            )
            self.cut[rank] = (text, self._entry_tokens(candidate, text) if text else 0)
        return self.cut[rank]

    def _entry_tokens(self, candidate: Candidate, text: str) -> int:
        return self.count_text(f"{self.layout.entry(candidate.record, text)}\n")

    def _header_tokens(self, header: str) -> int:
        if header not in self.header_tokens:
            self.header_tokens[header] = self.count_text(f"{header}\n\n")
        return self.header_tokens[header]
