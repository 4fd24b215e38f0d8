"""Which events of a session are active, and in which order they are read."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from context_assembler.events import COMPACTION, KIND_MASK, Body, JsonObject
from context_assembler.ports import StoredColumns
from context_assembler.report import ReportEntry


def reading_order(answers: Sequence[int], *, first: int, high: int) -> tuple[list[int] | None, int]:
    """Return the places of events in reading order, and the latest position so far.

    A reply and its notes stand right after the last event that they were made from, all others where
    they were stored. `None` instead of an order: that of the store.

    Args:
        answers: `answers_seq` of each event.
        first: How many events came before them.
        high: The latest position of those.
    """
    if not any(answers):
        return None, max(high, first + len(answers))
    is_stored_order = True
    for seq, answered in enumerate(answers, first + 1):
        place = answered if 0 < answered < seq else seq
        if place < high:
            is_stored_order = False
        else:
            high = place
    if is_stored_order:
        return None, high
    keys = [
        (answered, seq) if 0 < answered < seq else (seq, 0)
        for seq, answered in enumerate(answers, first + 1)
    ]
    return sorted(range(len(keys)), key=keys.__getitem__), high


class _Cover(NamedTuple):
    """A compaction, the numbers that it covers, and the first place of them."""

    seq: int
    first: int
    last: int
    place: int
    excluded: frozenset[int]
    parts: list[JsonObject]

    def replaces(self, earlier: "_Cover") -> bool:
        """Whether the earlier compaction's summary is part of what this one covers."""
        covers_event = self.first <= earlier.seq <= self.last
        covers_range = (
            earlier.first <= earlier.last
            and self.first <= earlier.first
            and earlier.last <= self.last
        )
        return (covers_event or covers_range) and earlier.seq not in self.excluded


def summary_parts(body: Body, *, is_readable: bool) -> list[JsonObject]:
    """Return what is sent of a compaction: its text, then the blocks for those who can read them."""
    text = "\n".join(part["text"] for part in body["parts"] if part["type"] == "text")
    blocks = [part for part in body["parts"] if part["type"] == "opaque"] if is_readable else []
    said: list[JsonObject] = [{"type": "text", "text": text}] if text.strip() else []
    told = [
        {**block, "text": text} if block["block"].get("type") == "compaction" else block
        for block in blocks
    ]
    return [*said, *told]


def active_order(
    order: Sequence[int],
    columns: StoredColumns,
    *,
    body: Callable[[int], Body],
    reads: Callable[[Body], bool],
    seqs_by_id: Callable[[int, int], dict[str, int]],
    log: list[ReportEntry],
) -> list[tuple[int, list[JsonObject] | None]]:
    """Return the places of the events that no compaction replaced; of summaries, what is sent too.

    A summary stands at the place of the first event that it covers. A compaction covers only what
    was stored before it, and replaces an earlier one if it covers that event or everything that
    the earlier one covered. A provider's sealed compaction without text counts only for who can
    read it.
    """
    covers: list[_Cover] = []
    kinds, tokens = columns.kinds, columns.tokens
    for at, place in enumerate(order):
        if kinds[place] & KIND_MASK != COMPACTION:
            continue
        held, seq = body(place + 1), place + 1
        has_blocks = any(part["type"] == "opaque" for part in held["parts"])
        is_readable = has_blocks and reads(held)
        parts = summary_parts(held, is_readable=is_readable)
        range_ = held.get("covers") or {"first_seq": 1, "last_seq": 0}
        first, last = range_["first_seq"], min(range_["last_seq"], seq - 1)
        ids = seqs_by_id(first, last) if range_.get("excluded_ids") else {}
        excluded = frozenset(ids.get(one, 0) for one in range_.get("excluded_ids", ()))
        if has_blocks and not is_readable:
            log.append(_unread(seq, held, has_text=bool(parts)))
        if parts:
            found = (i for i, p in enumerate(order) if first <= p + 1 <= last)
            start = next((i for i in found if order[i] + 1 not in excluded), at)
            covers.append(_Cover(seq, first, last, start, excluded, parts))
    return list(
        _active(order, kinds, covers, lambda cover: log.append(_covers(cover, kinds, tokens)))
    )


def _active(
    order: Sequence[int],
    kinds: Sequence[int],
    covers: Sequence[_Cover],
    report: Callable[[_Cover], None],
) -> Iterator[tuple[int, list[JsonObject] | None]]:
    starts: list[int] = []
    replaced = set[int]()
    for number, cover in enumerate(covers):
        gone = [k for k in range(number) if cover.replaces(covers[k])]
        replaced.update(gone)
        starts.append(min([cover.place, *(starts[k] for k in gone)]))
    summaries: dict[int, list[_Cover]] = {}
    for number, cover in enumerate(covers):
        if number not in replaced:
            summaries.setdefault(starts[number], []).append(cover)
    is_covered = bytearray(max(order, default=0) + 2)
    for cover in covers:
        spared = {seq: is_covered[seq] for seq in cover.excluded if seq < len(is_covered)}
        last = min(cover.last, len(is_covered) - 1)
        is_covered[cover.first : last + 1] = b"\1" * max(0, last + 1 - cover.first)
        for seq, before in spared.items():
            is_covered[seq] = before
    for at, place in enumerate(order):
        for cover in summaries.get(at, ()):
            report(cover)
            yield cover.seq - 1, cover.parts
        if kinds[place] & KIND_MASK != COMPACTION and not is_covered[place + 1]:
            yield place, None


def _covers(cover: _Cover, kinds: Sequence[int], tokens: Sequence[int]) -> ReportEntry:
    covered = [
        seq
        for seq in range(cover.first, cover.last + 1)
        if seq not in cover.excluded and kinds[seq - 1] & KIND_MASK != COMPACTION
    ]
    reason = "It stands for nothing: the events that it covers are not there."
    if covered:
        count = sum(tokens[seq - 1] for seq in covered)
        events = f"event {covered[0]}" if len(covered) == 1 else f"{len(covered):,} events"
        if len(covered) > 1:
            events += f", {covered[0]} to {covered[-1]}"
        reason = f"It stands for {events}, of {count:,} tokens."
    return ReportEntry("message", str(cover.seq), "kept", reason=reason, rule="compaction.covers")


def _unread(seq: int, body: Body, *, has_text: bool) -> ReportEntry:
    made_by = body.get("made_by")
    maker = f"{made_by['model']} ({made_by['provider']})" if made_by else "a provider"
    instead = (
        "its plain text is sent instead"
        if has_text
        else "it has no plain text, so what it covers is sent instead"
    )
    return ReportEntry(
        "message",
        str(seq),
        "repaired" if has_text else "dropped",
        reason=f"The compaction by {maker} cannot be read here; {instead}.",
        rule="compaction.twin" if has_text else "compaction.sealed",
    )
