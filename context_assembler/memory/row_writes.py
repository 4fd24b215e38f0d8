"""What a memory store tells a table of rows; each function is one change of the table."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from math import inf
from typing import Final

from context_assembler.memory.preparing import PreparedRecord, moved_notices, normal_text
from context_assembler.memory.row_search import find_all, read_lines
from context_assembler.memory.row_tables import RowTable
from context_assembler.memory.row_words import record_stems
from context_assembler.memory.rows import (
    Row,
    VectorModel,
    make_row,
    number_in,
    place_of,
    tests_of,
    text_of,
    to_stamp,
)
from context_assembler.values.memories.kinds import KINDS
from context_assembler.values.memories.records import Remembered, Retention

CONTEXT_CHARS: Final = 2_000  # of a neighbour
_MICROSECONDS_PER_DAY: Final = timedelta(days=1) // timedelta(microseconds=1)
_TURN_LIKE: Final = frozenset(kind for kind, spec in KINDS.items() if spec.is_turn_like)


def remember_rows(
    table: RowTable, prepared: Sequence[PreparedRecord], *, place: int
) -> list[Remembered]:
    """Keep the records, and return what became of each.

    Args:
        place: Where the first of them stands in the order of storing.

    Raises:
        VectorModelError: The table keeps vectors of another model.
    """
    model = _agree_on_model(table, prepared)
    batch = _Batch(table, prepared)
    outcomes = [batch.keep(record, place=place + at) for at, record in enumerate(prepared)]
    if rows := batch.changed_rows():
        table.put(rows, model=model)
    return outcomes


def forget_rows(table: RowTable, memory_ids: Iterable[str]) -> list[str]:
    """Remove the records, and return the ids of those that were there."""
    wanted = list(dict.fromkeys(memory_ids))
    row_by_id = {
        row["id"]: row
        for row in find_all(table, "id", wanted, columns=("id", "kind", "line", "place"))
    }
    found = [memory_id for memory_id in wanted if memory_id in row_by_id]
    if not found:
        return []
    lines = _Lines(table, (row["line"] for row in row_by_id.values() if _is_turn(row)))
    for row in row_by_id.values():
        lines.take_out(row)
    table.remove(found)
    if beside := lines.changed_ids():
        rows = find_all(table, "id", beside)
        lines.fill_context(rows)
        _fill_words(rows)
        table.put(rows, model=table.read_model())
    return found


def touch_rows(table: RowTable, memory_ids: Sequence[str], *, stamp: int) -> None:
    """Note that the records were used; ids that are not there are passed over."""
    ids_by_times: dict[int, list[str]] = {}
    for memory_id, times in Counter(memory_ids).items():
        ids_by_times.setdefault(times, []).append(memory_id)
    for times, ids in sorted(ids_by_times.items()):
        table.touch(ids, times=times, stamp=stamp)


def prune_rows(table: RowTable, retention: Retention, *, now_stamp: int) -> list[str]:
    """Remove what the bounds do not cover, and return the ids, the oldest first."""
    columns = ("id", "created_at", "importance", "place")
    rows = table.find(tests_of(retention.filters), columns=columns)
    rows.sort(
        key=lambda row: (number_in(row, "created_at", otherwise=inf), place_of(row)), reverse=True
    )
    most, least = retention.max_records, retention.kept_importance
    oldest = (
        None
        if retention.max_age_days is None
        else now_stamp - int(retention.max_age_days * _MICROSECONDS_PER_DAY)
    )
    surplus = [
        row["id"]
        for rank, row in enumerate(rows)
        if (
            (most is not None and rank >= most)
            or (oldest is not None and number_in(row, "created_at", otherwise=inf) < oldest)
        )
        and (least is None or number_in(row, "importance", otherwise=inf) < least)
    ]
    return forget_rows(table, reversed(surplus))


class _Batch:
    """Records that are kept at once, and the rows that they change."""

    def __init__(self, table: RowTable, prepared: Sequence[PreparedRecord]) -> None:
        self._table = table
        known = find_all(table, "id", (record.memory_id for record in prepared))
        digests = {r.digest for r in prepared if r.digest is not None and not r.record.id}
        twins = sorted(find_all(table, "digest", digests), key=place_of)
        self._rows: dict[str, Row] = {row["id"]: row for row in (*twins, *known)}
        self._ids_by_digest: dict[int, list[str]] = {}
        for row in twins:
            self._ids_by_digest.setdefault(row["digest"], []).append(row["id"])
        self._changed: dict[str, None] = {}
        self._lines = _Lines(
            table,
            (
                *(record.line for record in prepared if record.record.kind in _TURN_LIKE),
                *(row["line"] for row in known if _is_turn(row)),
            ),
        )

    def keep(self, prepared: PreparedRecord, *, place: int) -> Remembered:
        """Insert the record, or replace the one of its id, unless it is there already."""
        row, notices = make_row(prepared, place=place), prepared.notices
        if prepared.record.id:
            if (old := self._rows.get(row["id"])) is not None:
                self._lines.take_out(old)
                self._insert(_replacing(old, row, prepared))
                notices = moved_notices(prepared, before=old["namespace"])
                return Remembered(id=row["id"], outcome="replaced", notices=notices)
        elif (twin := self._find_twin(row)) is not None:
            if row["importance"] > number_in(twin, "importance", otherwise=0.0):
                twin["importance"] = row["importance"]
                self._changed[twin["id"]] = None
            return Remembered(id=twin["id"], outcome="duplicate", notices=notices)
        else:
            row["id"] = self._free_id(row["id"])
        self._insert(row)
        return Remembered(id=row["id"], outcome="added", notices=notices)

    def changed_rows(self) -> list[Row]:
        """Return what is to be put, with what it is found by."""
        beside = self._lines.changed_ids()
        missing = [memory_id for memory_id in beside if memory_id not in self._rows]
        self._rows |= {row["id"]: row for row in find_all(self._table, "id", missing)}
        rows = [self._rows[memory_id] for memory_id in dict.fromkeys((*self._changed, *beside))]
        self._lines.fill_context(rows)
        _fill_words(rows)
        return rows

    def _insert(self, row: Row) -> None:
        self._rows[row["id"]] = row
        self._changed[row["id"]] = None
        self._lines.put_in(row)
        if row["digest"] is not None:
            ids = self._ids_by_digest.setdefault(row["digest"], [])
            if row["id"] not in ids:
                ids.append(row["id"])

    def _find_twin(self, row: Row) -> Row | None:
        if row["digest"] is None:
            return None
        normal = normal_text(row["text"])
        twins = (self._rows[memory_id] for memory_id in self._ids_by_digest.get(row["digest"], ()))
        # A short hash alone does not prove anything, and a row may have been replaced meanwhile.
        return next(
            (
                t
                for t in twins
                if t["digest"] == row["digest"] and normal_text(_text_in(t)) == normal
            ),
            None,
        )

    def _free_id(self, memory_id: str) -> str:
        """Return an id for what was said at the same moment as another."""
        free, number = memory_id, 2
        while free in self._rows or (number > 2 and find_all(self._table, "id", [free])):
            free = f"{memory_id}-{number}"
            number += 1
        return free


class _Lines:
    """Who stands beside whom, of records that are found by their neighbours' words too."""

    def __init__(self, table: RowTable, lines: Iterable[int | None]) -> None:
        self._table = table
        self._lines = read_lines(table, {line for line in lines if line is not None})
        self._touched: dict[int, set[str]] = {}

    def put_in(self, row: Row) -> None:
        if _is_turn(row):
            own = place_of(row)
            line = self._lines.setdefault(row["line"], [])
            at = bisect_left(line, own)
            line.insert(at, own)
            self._note(row["line"], at)

    def take_out(self, row: Row) -> None:
        at = self._place_of(row)
        if at is not None:
            self._note(row["line"], at)
            del self._lines[row["line"]][at]

    def changed_ids(self) -> list[str]:
        """Return whose neighbours are others than before."""
        return [
            memory_id
            for line, touched in self._touched.items()
            for _, memory_id in self._lines[line]
            if memory_id in touched
        ]

    def fill_context(self, rows: Sequence[Row]) -> None:
        """Give each row the words that stand beside it."""
        beside = {row["id"]: self._beside(row) for row in rows}
        text_by_id = {row["id"]: _text_in(row) for row in rows}
        missing = {n for ids in beside.values() for n in ids if n not in text_by_id}
        text_by_id |= {
            row["id"]: _text_in(row)
            for row in find_all(self._table, "id", missing, columns=("id", "text"))
        }
        texts = [
            "\n".join(text_by_id.get(n, "")[:CONTEXT_CHARS] for n in beside[row["id"]])
            for row in rows
        ]
        for row, stems in zip(rows, record_stems(texts), strict=True):
            row["context"] = stems

    def _beside(self, row: Row) -> list[str]:
        at = self._place_of(row)
        if at is None:
            return []
        line = self._lines[row["line"]]
        return [memory_id for _, memory_id in (*line[max(at - 1, 0) : at], *line[at + 1 : at + 2])]

    def _place_of(self, row: Row) -> int | None:
        """Return where in its line the row stands; `None` where it stands in none."""
        own = place_of(row)
        line = self._lines.get(row["line"], []) if _is_turn(row) else []
        at = bisect_left(line, own)
        return at if line[at : at + 1] == [own] else None

    def _note(self, line: int, at: int) -> None:
        around = self._lines[line][max(at - 1, 0) : at + 2]
        self._touched.setdefault(line, set()).update(memory_id for _, memory_id in around)


def _fill_words(rows: Sequence[Row]) -> None:
    for row, stems in zip(rows, record_stems([text_of(row) for row in rows]), strict=True):
        row["words"] = stems


def _replacing(old: Row, row: Row, prepared: PreparedRecord) -> Row:
    """Return the row in the place of another, whose time stays where the new one has none."""
    given = prepared.record.created_at
    times = [t for t in (old["last_access_at"], row["last_access_at"]) if isinstance(t, int)]
    created_at = old["created_at"] if isinstance(old["created_at"], int) else row["created_at"]
    return row | {
        "place": place_of(old)[0] or row["place"],
        "created_at": created_at if given is None else to_stamp(given),
        "access_count": max(int(number_in(old, "access_count", otherwise=0)), row["access_count"]),
        "last_access_at": max(times, default=None),
    }


def _agree_on_model(table: RowTable, prepared: Sequence[PreparedRecord]) -> VectorModel | None:
    model = table.read_model()
    for vector in (record.record.vector for record in prepared):
        if vector is not None:
            model = model or VectorModel(vector.model, vector.dimension)
            model.check(vector)
    return model


def _is_turn(row: Row) -> bool:
    line, kind = row["line"], row["kind"]
    return isinstance(line, int) and isinstance(kind, str) and kind in _TURN_LIKE


def _text_in(row: Row) -> str:
    """Return the text of a row; nothing where it is damaged."""
    return row["text"] if isinstance(row["text"], str) else ""
