"""A report whose sizes are those of another provider's spelling: ledger and rows by one counter."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from context_assembler.ports import TokenCounter
from context_assembler.stages.split_window import add_messages, measure_window
from context_assembler.stages.tell_changes import overlay_rows
from context_assembler.stages.write_report import size_pieces
from context_assembler.values.draft import Draft
from context_assembler.values.ledger import Ledger
from context_assembler.values.messages import Message
from context_assembler.values.offered_tools import known_tools
from context_assembler.values.report import OFFERED, PieceKind, ReportEntry, find_bearers

# Why a definition is elsewhere than in front of the history, or not there whole.
_TOLD_OTHERWISE: Final = frozenset({"tool.added", "tool.deferred"})

_Piece: TypeAlias = tuple[PieceKind, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """One request twice: as it was made, and as another provider is sent it."""

    provider: str
    before: Draft
    after: Draft
    counter: TokenCounter

    def recount(self, ledger: Ledger) -> Ledger:
        """Return the ledger with everything that is sent counted anew.

        What was charged for another payload, or counted for it, goes.
        """
        draft = self.after
        fixed = measure_window(
            draft.limits,
            system=draft.system,
            tools=draft.tools,
            counter=self.counter,
            max_tokens=0,
            parameters=draft.parameters,
        )
        bare = replace(
            ledger,
            rows=fixed.rows,
            counter=fixed.counter,
            is_exact=fixed.is_exact,
            anchored_tokens=None,
            counted_tokens=None,
        )
        return add_messages(bare, draft.messages, counter=self.counter)

    def tell(
        self, entries: Iterable[ReportEntry], changes: Collection[ReportEntry], *, ledger: Ledger
    ) -> tuple[ReportEntry, ...]:
        """Return the entries with the changes in their places, and every size as it is sent.

        Of a message's several entries the last one bears what it takes in the end.

        Args:
            changes: What the other provider could not take, with sizes.
            ledger: Of what it is sent.
        """
        told = [row for row in changes if row.kind == "message"]
        others = [row for row in changes if row.kind != "message"]
        laid = overlay_rows(entries, others)
        tools = {row.id for row in others if row.kind == "tool"}
        sized = size_pieces(self._tell_tools(laid, told=tools), ledger)
        return tuple(self._tell_messages(list(sized), told))

    def _tell_tools(
        self, entries: Sequence[ReportEntry], *, told: Collection[str]
    ) -> Iterator[ReportEntry]:
        """Yield the entries, those of tools as they stand in front of the history there."""
        known = {tool.name for tool in known_tools(self.before)}
        sent = {tool.name: tool for tool in self.after.tools}
        bearers = find_bearers(entries)
        for at, entry in enumerate(entries):
            is_known = entry.kind == "tool" and bearers[entry.kind, entry.id] == at
            if not is_known or entry.id not in known:
                yield entry
            elif entry.id in sent:
                yield self._declared(entry, self.counter.count_tool(sent[entry.id]))
            else:
                yield entry if entry.id in told else self._withdrawn(entry)

    def _declared(self, entry: ReportEntry, tokens: int) -> ReportEntry:
        """Return the row of a tool that is sent; one that the model's provider was told otherwise."""
        if entry.decision in OFFERED and entry.rule not in _TOLD_OTHERWISE:
            is_whole = entry.tokens_before == entry.tokens_after
            before = tokens if is_whole else max(entry.tokens_before, tokens)
            return replace(entry, tokens_before=before, tokens_after=tokens)
        return ReportEntry(
            kind="tool",
            id=entry.id,
            decision="kept",
            tokens_before=tokens,
            tokens_after=tokens,
            reason=f"{self.provider} is told of it whole, in front of the history.",
            rule="tool.declared",
        )

    def _withdrawn(self, entry: ReportEntry) -> ReportEntry:
        reason = (
            f"It cannot be called any more, and is not in the list that {self.provider} is sent."
        )
        return replace(
            entry,
            decision="dropped",
            tokens_after=0,
            reason=reason,
            rule=entry.rule or "tool.withdrawn",
        )

    def _tell_messages(
        self, entries: Sequence[ReportEntry], told: Sequence[ReportEntry]
    ) -> Iterator[ReportEntry]:
        sizes = self._sizes_by_place(entries)
        waiting = list(told)
        for at, entry in enumerate(entries):
            if at not in sizes:
                yield entry
                continue
            rows = [row for row in waiting if row.id == entry.id]
            waiting = [row for row in waiting if row.id != entry.id]
            yield from _borne_by_one(rows, _resized(entry, *sizes[at]))
        yield from map(_unsized, waiting)

    def _sizes_by_place(self, entries: Iterable[ReportEntry]) -> dict[int, tuple[int, int]]:
        """Return what each sent message takes before and after, by the entry that says so."""
        places: defaultdict[_Piece, list[int]] = defaultdict(list)
        for at, entry in enumerate(entries):
            places[entry.kind, entry.id].append(at)
        sizes: dict[int, tuple[int, int]] = {}
        pairs = zip(self.before.messages, self.after.messages, strict=True)
        for old, new in reversed(list(pairs)):
            if waiting := places[_piece_of(old)]:
                sizes[waiting.pop()] = (
                    self.counter.count_message(old),
                    self.counter.count_message(new),
                )
        return sizes


def _piece_of(message: Message) -> _Piece:
    """Return what names a message in the report; those without an event may share a name."""
    is_noted = message.is_fresh_note or message.kind == "marker"
    if is_noted:
        return "note", message.note or message.kind
    return "message", message.id or message.note or message.kind


def _resized(entry: ReportEntry, before: int, after: int) -> ReportEntry:
    """Return the entry with the size that is sent; what was cut was larger before that."""
    is_whole = entry.tokens_before == entry.tokens_after
    tokens_before = before if is_whole else max(entry.tokens_before, after)
    return replace(entry, tokens_before=tokens_before, tokens_after=after)


def _borne_by_one(rows: Sequence[ReportEntry], entry: ReportEntry) -> Iterator[ReportEntry]:
    """Yield a message's changes and its own entry, of which one has what the message takes.

    That is the last change, instead of an entry that says only that the message is kept.
    """
    is_plain = entry.kind == "message" and entry.decision == "kept" and not entry.reason
    if rows and is_plain:
        *rows, bearer = rows
        sizes = entry.tokens_before, entry.tokens_after
        entry = replace(bearer, tokens_before=sizes[0], tokens_after=sizes[1])
    yield from map(_unsized, rows)
    yield entry


def _unsized(row: ReportEntry) -> ReportEntry:
    return replace(row, tokens_before=0, tokens_after=0)
