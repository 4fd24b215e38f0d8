"""Keeping many records in one transaction: looked up, inserted and indexed together."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

from context_assembler.memory.preparing import PreparedRecord, normal_text
from context_assembler.memory.sqlite_index import (
    CONTEXT_CHARS,
    Entry,
    add_entries,
    add_to_index,
    context_words,
    entry_of,
    is_turn_like,
    last_of_line,
    merge_added,
    take_from_index,
)
from context_assembler.memory.sqlite_replacing import replace_record
from context_assembler.memory.sqlite_rows import ComingRow, fetch_rows, given, insert_rows, next_key
from context_assembler.values.memories.records import Remembered
from context_assembler.values.memories.words import index_text


class Batch:
    """Records that are kept in one transaction.

    What they may meet is looked up at once; what is added waits, so that rows and words go in
    together, in the order of their keys.
    """

    def __init__(self, connection: sqlite3.Connection, prepared: Sequence[PreparedRecord]) -> None:
        self._connection = connection
        self._next_key = next_key(connection)
        self._key_by_id = _find_ids(connection, (p.memory_id for p in prepared))
        self._twins = _Twins(connection, prepared)
        self._waiting: list[ComingRow] = []
        self._importance_by_id: dict[str, float] = {}

    def keep(self, prepared: PreparedRecord) -> Remembered:
        """Add the record, or replace the one of its id, unless it is there already."""
        memory_id, notices = prepared.memory_id, prepared.notices
        key = self._key_by_id.get(memory_id)
        if not prepared.record.id:
            twin = self._twins.find(prepared)
            if twin is not None:
                self._raise_importance(twin, prepared.record.importance)
                return Remembered(id=twin, outcome="duplicate", notices=notices)
            if key is not None:  # a made-up id: the same was said at the same moment
                memory_id = self._free_id(memory_id)
        elif key is not None:
            self.finish()
            notices = replace_record(self._connection, prepared, key)
            self._twins.forget(memory_id)
            self._twins.add(prepared, memory_id, key)
            return Remembered(id=memory_id, outcome="replaced", notices=notices)
        self._add(prepared, memory_id)
        return Remembered(id=memory_id, outcome="added", notices=notices)

    def finish(self) -> None:
        """Insert and index what waits."""
        if self._waiting:
            lasts = _last_of_lines(self._connection, self._waiting)
            before = sorted(key for key, _ in lasts.values())
            if before:
                take_from_index(self._connection, before)
            insert_rows(self._connection, self._waiting)
            if before:
                add_to_index(self._connection, before)
            add_entries(self._connection, _entries_of(self._waiting, lasts))
            first, last = self._waiting[0].key, self._waiting[-1].key
            merge_added(self._connection, first_key=first, last_key=last)
            self._waiting.clear()
        if self._importance_by_id:
            self._connection.executemany(
                "UPDATE memory_records SET importance = max(importance, ?) WHERE id = ?",
                ((importance, found) for found, importance in self._importance_by_id.items()),
            )
            self._importance_by_id.clear()

    def _add(self, prepared: PreparedRecord, memory_id: str) -> None:
        self._waiting.append(ComingRow(self._next_key, memory_id, prepared))
        self._key_by_id[memory_id] = self._next_key
        self._twins.add(prepared, memory_id, self._next_key)
        self._next_key += 1

    def _raise_importance(self, memory_id: str, importance: float) -> None:
        raised = max(importance, self._importance_by_id.get(memory_id, 0.0))
        self._importance_by_id[memory_id] = raised

    def _free_id(self, memory_id: str) -> str:
        free, number = memory_id, 1
        while free in self._key_by_id or _find_ids(self._connection, [free]):
            number += 1
            free = f"{memory_id}-{number}"
        return free


class _Twins:
    """The records that say what one of a batch says: those that are there, and those that come."""

    def __init__(self, connection: sqlite3.Connection, prepared: Sequence[PreparedRecord]) -> None:
        self._found: dict[int, dict[str, tuple[int, str]]] = {}  # key and text by id, by digest
        self._digest_by_id: dict[str, int] = {}
        digests = [p.digest for p in prepared if p.digest is not None and not p.record.id]
        if digests:
            place, values = given(digests)
            rows = fetch_rows(
                connection,
                f"SELECT id, digest, key, text FROM memory_records WHERE digest IN {place}",  # noqa: S608 – our own words
                values,
            )
            for memory_id, digest, key, text in rows:
                if isinstance(text, str):  # a damaged one says the same as nobody
                    self._add(memory_id, digest, key, text)

    def find(self, prepared: PreparedRecord) -> str | None:
        """Return the id of the twin that was stored first."""
        alike = None if prepared.digest is None else self._found.get(prepared.digest)
        if not alike:
            return None
        # A short hash alone does not prove anything.
        normal = normal_text(prepared.text)
        twins = [
            (key, found) for found, (key, text) in alike.items() if normal_text(text) == normal
        ]
        return min(twins)[1] if twins else None

    def add(self, prepared: PreparedRecord, memory_id: str, key: int) -> None:
        """Note a record that is kept."""
        if prepared.digest is not None:
            self._add(memory_id, prepared.digest, key, prepared.text)

    def forget(self, memory_id: str) -> None:
        """Let go of what a record said that is replaced."""
        digest = self._digest_by_id.pop(memory_id, None)
        if digest is not None:
            del self._found[digest][memory_id]

    def _add(self, memory_id: str, digest: int, key: int, text: str) -> None:
        self._found.setdefault(digest, {})[memory_id] = (key, text)
        self._digest_by_id[memory_id] = digest


def _find_ids(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, int]:
    """Return the keys of those that are there."""
    place, values = given(list(ids))
    return dict(
        connection.execute(
            f"SELECT id, key FROM memory_records WHERE id IN {place}",  # noqa: S608 – our own words
            values,
        ).fetchall()
    )


def _lines_of(rows: Iterable[ComingRow]) -> Iterator[tuple[int, ComingRow]]:
    """Yield the rows that are found by their neighbours' words, each with its line."""
    for row in rows:
        line = row.prepared.line
        if line is not None and is_turn_like(row.prepared.record.kind):
            yield line, row


def _last_of_lines(
    connection: sqlite3.Connection, rows: Iterable[ComingRow]
) -> dict[int, tuple[int, str]]:
    """Return key and text of what the rows come behind, by line."""
    lines = dict.fromkeys(line for line, _ in _lines_of(rows))
    lasts = ((line, last_of_line(connection, line)) for line in lines)
    return {line: last for line, last in lasts if last is not None}


def _entries_of(rows: Sequence[ComingRow], lasts: Mapping[int, tuple[int, str]]) -> Iterator[Entry]:
    """Yield what the rows go into the index as, given what stood last in their lines."""
    members: dict[int, list[int]] = {}
    for line, row in _lines_of(rows):
        members.setdefault(line, []).append(row.key)
    text_by_key = {row.key: row.prepared.text for row in rows}
    text_by_key |= dict(lasts.values())
    told: dict[int, str] = {}  # of each neighbour once, as it has two itself
    beside: dict[int, list[int]] = {}
    for line, keys in members.items():
        around = [*([lasts[line][0]] if line in lasts else []), *keys]
        told |= {key: context_words(text_by_key[key]) for key in around}
        for at in range(len(around) - len(keys), len(around)):
            beside[around[at]] = around[max(at - 1, 0) : at] + around[at + 1 : at + 2]
    for row in rows:
        record, prepared = row.prepared.record, row.prepared
        words = told.get(row.key) if len(prepared.text) <= CONTEXT_CHARS else None
        yield entry_of(
            row.key,
            kind=record.kind,
            namespace=record.namespace,
            author=record.author,
            words=index_text(prepared.text) if words is None else words,
            details=prepared.details,
            context=" ".join(told[key] for key in beside.get(row.key, ())),
        )
