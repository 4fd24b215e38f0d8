"""Which words of a query PostgreSQL is asked for, and what each counts."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from context_assembler.memory.postgres_pool import run

if TYPE_CHECKING:
    from psycopg import AsyncConnection

FLOOR_ROWS: Final = 1_000
"""A word in so many records is never too common to be looked for."""

COMMON_SHARE: Final = 0.02
"""A word in more of the records than this is looked for only where rarer ones find too few.

Ranking takes time for every record that has any of the words; those that are everywhere add little
to the order, and most of the time.
"""

_MOST_TERMS: Final = 32
_MOST_REMEMBERED: Final = 50_000

# A snapshot of the server says which transactions are seen: two that are alike see the same rows.
_STATE: Final = """
    SELECT pg_current_snapshot()::text, coalesce((SELECT max(key) FROM memory_records), 0)
"""
_COUNTS: Final = """
    SELECT term.word, (SELECT count(*) FROM memory_records r WHERE r.words @@ term.word::tsquery)
    FROM unnest(%(words)s::text[]) AS term (word)
"""


class TermCounts:
    """How many records have a word; counted once for as long as nothing is written."""

    def __init__(self) -> None:
        self._count_by_word: dict[str, int] = {}
        self._snapshot = ""
        self.rows = 0

    async def read(
        self, connection: "AsyncConnection[Any]", words: Iterable[str]
    ) -> dict[str, int]:
        """Return how many records have each of the words."""
        cursor = await run(connection, _STATE)
        snapshot, self.rows = await cursor.fetchone() or ("", 0)
        if snapshot != self._snapshot or len(self._count_by_word) > _MOST_REMEMBERED:
            self._snapshot = snapshot
            self._count_by_word = {}
        counts = self._count_by_word
        missing = [word for word in words if word not in counts]
        if missing:
            counts.update(await (await run(connection, _COUNTS, {"words": missing})).fetchall())
        return {word: counts[word] for word in words}


async def weigh_words(
    connection: "AsyncConnection[Any]", words: Sequence[str], counts: TermCounts
) -> dict[str, float]:
    """Return what to look for, and what each word counts: rarer ones more.

    None where no record has any of the words.
    """
    found = await counts.read(connection, words)
    rows = max(counts.rows, *found.values())
    return {word: _weight(found[word], rows) for word in _choose(found, rows)}


def _choose(count_by_word: dict[str, int], rows: int) -> list[str]:
    most = max(FLOOR_ROWS, int(rows * COMMON_SHARE))
    rare = sorted((count, word) for word, count in count_by_word.items() if 0 < count <= most)
    chosen = [word for _, word in rare[:_MOST_TERMS]]
    common = sorted((count, word) for word, count in count_by_word.items() if count > most)
    if common and sum(count for count, _ in rare[:_MOST_TERMS]) < FLOOR_ROWS:
        chosen.append(common[0][1])
    return chosen


def _weight(count: int, rows: int) -> float:
    return math.log(1 + (rows - count + 0.5) / (count + 0.5))
