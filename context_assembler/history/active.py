"""Which events of a session are active, and in which order they are read."""

from collections.abc import Callable, Sequence

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
    positions = [
        answered if 0 < answered < seq else seq for seq, answered in enumerate(answers, first + 1)
    ]
    if positions[0] >= high and positions == sorted(positions):
        return None, positions[-1]
    order = sorted(range(len(positions)), key=positions.__getitem__)
    return order, max(high, *positions)


def _summary_parts(body: Body, *, is_readable: bool) -> list[JsonObject]:
    """Return what is sent of a compaction: its text, then the blocks for those who can read them."""
    text = "\n".join(part["text"] for part in body["parts"] if part["type"] == "text")
    parts: list[JsonObject] = [{"type": "text", "text": text}] if text.strip() else []
    for part in body["parts"] if is_readable else ():
        if part["type"] == "opaque":
            is_compaction = part["block"].get("type") == "compaction"
            parts.append({**part, "text": text} if is_compaction else part)
    return parts


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
    kinds = columns.kinds
    summaries = {place for place in order if kinds[place] & KIND_MASK == COMPACTION}
    covered = set[int]()  # numbers of events, as all that follows
    standing: dict[int, tuple[int, range, list[JsonObject]]] = {}  # with the place, of each summary
    for at, place in enumerate(order):
        if place not in summaries:
            continue
        seq, held = place + 1, body(place + 1)
        has_blocks = any(part["type"] == "opaque" for part in held["parts"])
        is_readable = has_blocks and reads(held)
        parts = _summary_parts(held, is_readable=is_readable)
        if has_blocks and not is_readable:
            log.append(_unread(seq, has_text=bool(parts)))
        if not parts:
            continue
        covers: JsonObject = held.get("covers") or {"first_seq": 1, "last_seq": 0}
        span = range(max(1, covers["first_seq"]), min(covers["last_seq"], seq - 1) + 1)
        names: Sequence[str] = covers.get("excluded_ids", ())
        ids = seqs_by_id(span.start, span.stop - 1) if names else {}
        own = set(span) - {ids.get(name, 0) for name in names}
        start = next((i for i, p in enumerate(order) if p + 1 in own), at)
        for earlier, (before, its_span, _) in list(standing.items()):
            is_within = bool(its_span) and its_span[0] in span and its_span[-1] in span
            if earlier in own or (is_within and earlier not in span):
                start = min(start, before)
                del standing[earlier]
        standing[seq] = start, span, parts
        covered |= own
        log.append(_covers(seq, sorted(one for one in own if one - 1 not in summaries), columns))
    active: list[tuple[int, list[JsonObject] | None]] = []
    for at, place in enumerate(order):
        active += [(seq - 1, parts) for seq, (start, _, parts) in standing.items() if start == at]
        if place not in summaries and place + 1 not in covered:
            active.append((place, None))
    return active


def _covers(seq: int, covered: Sequence[int], columns: StoredColumns) -> ReportEntry:
    said = "It stands for nothing: the events that it covers are not there."
    if covered:
        tokens, plural = sum(columns.tokens[one - 1] for one in covered), "s" * (len(covered) > 1)
        named = f"{len(covered):,} event{plural}, {covered[0]} to {covered[-1]}"
        said = f"It stands for {named}, of {tokens:,} tokens."
    return ReportEntry("message", str(seq), "kept", 0, 0, said, "compaction.covers")


def _unread(seq: int, *, has_text: bool) -> ReportEntry:
    said = "The compaction that a provider wrote cannot be read here; {} is sent instead."
    if has_text:
        said, rule = said.format("its plain text"), "compaction.twin"
        return ReportEntry("message", str(seq), "repaired", 0, 0, said, rule)
    said, rule = said.format("it has no plain text, so what it covers"), "compaction.sealed"
    return ReportEntry("message", str(seq), "dropped", 0, 0, said, rule)
