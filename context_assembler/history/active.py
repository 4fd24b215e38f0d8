"""Which events of a session are active, and in which order they are read."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from context_assembler.events import COMPACTION, KIND_MASK, Body, JsonObject
from context_assembler.ports import StoredColumns
from context_assembler.report import ReportEntry


def reading_order(
    answers: Sequence[int], *, first: int, high: int
) -> tuple[Sequence[int] | None, int]:
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
    """A compaction and the numbers that it covers."""

    seq: int
    first: int
    last: int
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
    kinds, tokens = columns.kinds, columns.tokens
    is_covered = bytearray(len(kinds) + 2)
    standing: dict[int, tuple[_Cover, int]] = {}  # by event, with the place that it stands before
    for at, place in enumerate(order):
        if kinds[place] & KIND_MASK != COMPACTION:
            continue
        held, seq = body(place + 1), place + 1
        has_blocks = any(part["type"] == "opaque" for part in held["parts"])
        is_readable = has_blocks and reads(held)
        parts = summary_parts(held, is_readable=is_readable)
        if has_blocks and not is_readable:
            log.append(_unread(seq, held, has_text=bool(parts)))
        if not parts:
            continue
        covers: JsonObject = held.get("covers") or {"first_seq": 1, "last_seq": 0}
        first, last = max(1, covers["first_seq"]), min(covers["last_seq"], seq - 1)
        names: Sequence[str] = covers.get("excluded_ids", ())
        ids = seqs_by_id(first, last) if names else {}
        excluded = frozenset(ids.get(name, 0) for name in names)
        found = (i for i, p in enumerate(order) if first <= p + 1 <= last)
        start = next((i for i in found if order[i] + 1 not in excluded), at)
        cover = _Cover(seq, first, last, excluded, parts)
        for earlier in [one for one in standing if cover.replaces(standing[one][0])]:
            start = min(start, standing.pop(earlier)[1])
        standing[seq] = cover, start
        covered = [one for one in range(first, last + 1) if one not in excluded]
        for one in covered:
            is_covered[one] = 1
        events = [one for one in covered if kinds[one - 1] & KIND_MASK != COMPACTION]
        log.append(_covers(seq, events, sum(tokens[one - 1] for one in events)))
    active: list[tuple[int, list[JsonObject] | None]] = []
    for at, place in enumerate(order):
        active += [(one.seq - 1, one.parts) for one, start in standing.values() if start == at]
        if kinds[place] & KIND_MASK != COMPACTION and not is_covered[place + 1]:
            active.append((place, None))
    return active


def _covers(seq: int, events: Sequence[int], tokens: int) -> ReportEntry:
    reason = "It stands for nothing: the events that it covers are not there."
    if events:
        named = f"event {events[0]}"
        if len(events) > 1:
            named = f"{len(events):,} events, {events[0]} to {events[-1]}"
        reason = f"It stands for {named}, of {tokens:,} tokens."
    return ReportEntry("message", str(seq), "kept", reason=reason, rule="compaction.covers")


def _unread(seq: int, body: Body, *, has_text: bool) -> ReportEntry:
    made_by = body.get("made_by")
    maker = f"{made_by['model']} ({made_by['provider']})" if made_by else "a provider"
    about = f"The compaction by {maker} cannot be read here;"
    if has_text:
        said = f"{about} its plain text is sent instead."
        return ReportEntry("message", str(seq), "repaired", 0, 0, said, "compaction.twin")
    said = f"{about} it has no plain text, so what it covers is sent instead."
    return ReportEntry("message", str(seq), "dropped", 0, 0, said, "compaction.sealed")
