"""Which words of a query a full-text index is asked for, so that any query takes bounded time."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from context_assembler.memory.sqlite_index import kind_tag, may_be_tag, namespace_tag
from context_assembler.values.memories.kinds import KINDS, MemoryKind
from context_assembler.values.memories.records import NO_FILTERS, MemoryFilters

FLOOR_ROWS: Final = 1_000
"""A word in so many records is never too common to be looked for."""

SMALL_ROWS: Final = 20_000
"""Up to so many records no word is too common where a condition leaves few of them.

Which of the common words is in the fewest records is counted among as many."""

COMMON_SHARE: Final = 0.02
"""A word in more of the records than this is looked for only where rarer ones find too few.

Ranking takes time for every record that has any of the words; those that are everywhere add little
to the order, and most of the time.
"""

_MOST_TERMS: Final = 32
_FILTERED_SHARE: Final = 0.3  # of the records; above it, filtering by the index costs more
_MOST_REMEMBERED: Final = 50_000
_COUNTED_AT_ONCE: Final = 64


class TermCounts:
    """How many records have a word; counted once for as long as nothing is written."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int, int], int] = {}
        self._state: tuple[int, int] | None = None
        self._connection: sqlite3.Connection | None = None
        self.rows = 0

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Forget the counts where something was written since."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        state = (int(version), connection.total_changes)
        if connection is self._connection and state == self._state:
            return
        self._connection, self._state = connection, state
        self._counts.clear()
        (rows,) = connection.execute("SELECT max(key) FROM memory_records").fetchone()
        self.rows = rows or 0

    def count_each(
        self,
        connection: sqlite3.Connection,
        matches: Sequence[str],
        *,
        most: int,
        after_key: int = 0,
    ) -> dict[str, int]:
        """Return how many records behind that key each matches, or `most` where there are more."""
        unknown = [match for match in matches if (match, most, after_key) not in self._counts]
        if len(self._counts) + len(unknown) > _MOST_REMEMBERED:
            self._counts.clear()
            unknown = list(matches)
        for start in range(0, len(unknown), _COUNTED_AT_ONCE):
            some = unknown[start : start + _COUNTED_AT_ONCE]
            found = _count(connection, some, most=most, after_key=after_key)
            for match, count in zip(some, found, strict=True):
                self._counts[match, most, after_key] = count
        return {match: self._counts[match, most, after_key] for match in matches}

    def count(self, connection: sqlite3.Connection, match: str, *, most: int) -> int:
        """Return how many records match, or `most` where there are more."""
        return self.count_each(connection, [match], most=most)[match]


def _count(
    connection: sqlite3.Connection, matches: Sequence[str], *, most: int, after_key: int
) -> tuple[int, ...]:
    """Return each count; a statement for each would take half as long again."""
    behind = [after_key] if after_key else []  # a bound that leaves out nothing takes time as well
    place = f"MATCH ?{' AND rowid > ?' * len(behind)}"
    count = (
        f"(SELECT count(*) FROM (SELECT 1 FROM memory_words WHERE memory_words {place} LIMIT ?))"  # noqa: S608 – our own words
    )
    found: tuple[int, ...] = connection.execute(
        f"SELECT {', '.join([count] * len(matches))}",
        [value for match in matches for value in (match, *behind, most)],
    ).fetchone()
    return found


def present_kinds(
    connection: sqlite3.Connection, filters: MemoryFilters, counts: TermCounts
) -> frozenset[MemoryKind]:
    """Return the kinds of which there may be records that the filters allow.

    Of the filters only namespaces count, where they leave few records: what takes long to find out
    is left to the search.
    """
    counts.refresh(connection)
    of_namespaces = _tags_of(replace(NO_FILTERS, namespaces=filters.namespaces))
    before = "".join(
        f"{tags} AND "
        for tags in of_namespaces
        if counts.count(connection, tags, most=FLOOR_ROWS) < FLOOR_ROWS
    )
    kind_by_match: dict[str, MemoryKind] = {
        f"{before}tags : {quoted(kind_tag(kind))}": kind for kind in KINDS
    }
    found = counts.count_each(connection, list(kind_by_match), most=1)
    return frozenset(kind_by_match[match] for match, count in found.items() if count)


def match_expression(
    connection: sqlite3.Connection,
    terms: Sequence[str],
    filters: MemoryFilters,
    counts: TermCounts,
    *,
    allows_everywhere: bool = True,
) -> str | None:
    """Return what to look for; `None` where no record has any of the words.

    Args:
        allows_everywhere: Whether a word that more than half of the records have is looked for
            where rarer ones find too few.
    """
    counts.refresh(connection)
    tags = _selective_tags(connection, filters, counts)
    # Where a condition leaves few records, what is common in the store may be rare among them.
    is_small = bool(tags) and counts.rows <= SMALL_ROWS
    least = counts.rows if is_small else FLOOR_ROWS
    most = max(least, int(counts.rows * COMMON_SHARE))
    chosen, common = _choose(connection, [quoted(term) for term in terms], counts, most=most)
    if common:
        added = _least_common(connection, common, counts)
        if added is None and allows_everywhere:
            added = min(common)
        chosen += [added] if added is not None else []
    if not chosen:
        return None
    words = f"({' OR '.join(chosen)})"
    if any(map(may_be_tag, terms)):  # to look at columns takes time for every record
        words = f"{{text context}} : {words}"
    return " AND ".join((*tags, words))


def quoted(term: str) -> str:
    """Return a word as the index's query language writes it; `*` at its end means a beginning."""
    word = term.removesuffix("*").replace('"', '""')
    return f'"{word}" *' if term.endswith("*") else f'"{word}"'


def _choose(
    connection: sqlite3.Connection, matches: Sequence[str], counts: TermCounts, *, most: int
) -> tuple[list[str], list[str]]:
    """Return the rare words, rarest first, and the common ones where the rare find too few."""
    found = counts.count_each(connection, matches, most=most + 1)
    rare = sorted((count, match) for match, count in found.items() if 0 < count <= most)
    chosen = [match for _, match in rare[:_MOST_TERMS]]
    if sum(count for count, _ in rare[:_MOST_TERMS]) >= FLOOR_ROWS:
        return chosen, []
    return chosen, [match for match, count in found.items() if count > most]


def _least_common(
    connection: sqlite3.Connection, common: Sequence[str], counts: TermCounts
) -> str | None:
    """Return the word in the fewest records; `None` where each is in more than half of them.

    The newest speak for all: counting what is common in a million takes longer than searching it.
    """
    after_key = max(counts.rows - SMALL_ROWS, 0)
    looked_at = counts.rows - after_key
    found = counts.count_each(connection, common, most=looked_at, after_key=after_key)
    count, match = min((count, match) for match, count in found.items())
    return match if 2 * count <= looked_at else None


def meets_filters(match: str, filters: MemoryFilters) -> bool:
    """Whether what matches meets the filters, unless two namespaces share a tag."""
    if replace(filters, kinds=(), namespaces=()) != NO_FILTERS:
        return False
    tags = _tags_of(filters)
    is_told = len(tags) == bool(filters.kinds) + bool(filters.namespaces)
    return is_told and match.startswith(" AND ".join(tags))


def _selective_tags(
    connection: sqlite3.Connection, filters: MemoryFilters, counts: TermCounts
) -> list[str]:
    """Return the conditions that leave few records; the others are left to the rows."""
    most = int(counts.rows * _FILTERED_SHARE) + 1
    return [
        match for match in _tags_of(filters) if counts.count(connection, match, most=most) < most
    ]


def _tags_of(filters: MemoryFilters) -> list[str]:
    """Return the conditions that the index can tell, each short enough to be asked for."""
    tags_by_filter = (
        [namespace_tag(namespace) for namespace in filters.namespaces],
        [kind_tag(kind) for kind in filters.kinds],
    )
    return [
        f"tags : ({' OR '.join(map(quoted, tags))})"
        for tags in tags_by_filter
        if 0 < len(tags) <= _MOST_TERMS
    ]
