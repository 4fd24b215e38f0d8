"""Which words of a query PostgreSQL is asked for, and what each counts."""

import math
from collections.abc import Sequence
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
    SELECT term.word, (SELECT count(*) FROM (
        SELECT FROM memory_records r WHERE r.words @@ term.word::tsquery LIMIT %(most)s
    ) AS found)
    FROM unnest(%(words)s::text[]) AS term (word)
"""


class TermCounts:
    """How many records have a word; counted once for as long as nothing is written."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._snapshot = ""
        self.rows = 0

    async def refresh(self, connection: "AsyncConnection[Any]") -> None:
        """Forget the counts where something was written since."""
        cursor = await run(connection, _STATE)
        snapshot, self.rows = await cursor.fetchone() or ("", 0)
        if snapshot != self._snapshot or len(self._counts) > _MOST_REMEMBERED:
            self._snapshot = snapshot
            self._counts = {}

    async def read(
        self, connection: "AsyncConnection[Any]", words: Sequence[str], *, most: int
    ) -> dict[str, int]:
        """Return how many records have each of the words, or `most` where there are more."""
        counts = self._counts
        missing = [word for word in words if (word, most) not in counts]
        if missing:
            cursor = await run(connection, _COUNTS, {"words": missing, "most": most})
            counts |= {(word, most): count for word, count in await cursor.fetchall()}
        return {word: counts[word, most] for word in words}


async def weigh_words(
    connection: "AsyncConnection[Any]", words: Sequence[str], counts: TermCounts
) -> dict[str, float]:
    """Return what to look for, and what each word counts: rarer ones more.

    None where no record has any of the words.
    """
    await counts.refresh(connection)
    rows = counts.rows
    most = max(FLOOR_ROWS, int(rows * COMMON_SHARE))
    found = await counts.read(connection, words, most=most + 1)
    rare = sorted((count, word) for word, count in found.items() if 0 < count <= most)
    chosen = {word: count for count, word in rare[:_MOST_TERMS]}
    common = [word for word, count in found.items() if count > most]
    if common and sum(chosen.values()) < FLOOR_ROWS:
        by_word = await counts.read(connection, common, most=rows)
        word = min(common, key=lambda word: (by_word[word], word))
        chosen[word] = by_word[word]
    return {word: _weight(count, max(rows, count)) for word, count in chosen.items()}


def _weight(count: int, rows: int) -> float:
    return math.log(1 + (rows - count + 0.5) / (count + 0.5))
