"""The socket behind which an engine keeps the rows of a memory store."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from context_assembler.memory.rows import Row, RowTest, VectorModel
from context_assembler.values.memories.vectors import Vector

_Scored: TypeAlias = tuple[Row, float]

_SLACK: Final = 32  # rows asked for beyond the limit, as some of them may score alike
_MOST_ROWS: Final = 100_000


class RowTable(Protocol):
    """A table of an engine; its functions wait, so they run in threads of the store.

    A table that does not exist is empty: reading creates nothing. Each raises
    `MemoryUnavailableError` where the engine cannot be used, and `MissingExtraError` where its
    package is not installed.
    """

    @property
    def location(self) -> str:
        """What the table is called in errors."""
        ...

    @property
    def readers(self) -> int:
        """How many threads may read at once; 0: reading and writing share one thread."""
        ...

    def load(self) -> None:
        """Import the engine's package, which may take seconds; nothing else is touched."""
        ...

    def read_model(self) -> VectorModel | None:
        """Return which vectors are kept; `None` where none ever were."""
        ...

    def find(
        self,
        tests: Sequence[RowTest],
        *,
        columns: Sequence[str] | None = None,
        order: Sequence[str] = (),
        is_descending: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows that meet all tests.

        Args:
            columns: What to return of each; `None`: all of it, and the vector.
            order: Columns of numbers, the first of which decides first; empty: in no order.
        """
        ...

    def find_by_words(
        self, stems: Sequence[str], tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        """Return the rows that hold any of the stems, with positive scores, best first."""
        ...

    def find_by_vector(
        self, vector: Vector, tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        """Return the rows whose vectors lie nearest, with their cosines, best first."""
        ...

    def put(self, rows: Sequence[Row], *, model: VectorModel | None) -> None:
        """Keep the rows in the place of those of their ids, with the vectors of that model."""
        ...

    def remove(self, memory_ids: Sequence[str]) -> None:
        """Remove the rows of these ids."""
        ...

    def touch(self, memory_ids: Sequence[str], *, times: int, stamp: int) -> None:
        """Count that the rows were used that often, the last time at that moment."""
        ...

    def drop_vectors(self) -> None:
        """Forget all vectors, and which they were."""
        ...

    def count_vectors(self) -> int:
        """Return how many rows have a vector."""
        ...

    def count_bytes(self) -> int:
        """Return how much room the rows take, as nearly as the engine tells."""
        ...

    def close(self) -> None:
        """Let go of files and connections; the next call opens them again."""
        ...


def take_first(fetch: Callable[[int], list[_Scored]], limit: int) -> list[_Scored]:
    """Return the best rows, so many that whatever scores like the last of `limit` is there.

    Engines cut rows that score alike where it suits them; who sorts these has the same answer to
    the same question.

    Args:
        fetch: Returns at most so many rows with their scores, best first.
    """
    if limit <= 0:
        return []
    count = limit + _SLACK
    while True:
        found = fetch(count)
        is_whole = len(found) < count or found[-1][1] != found[limit - 1][1]
        if is_whole or count >= _MOST_ROWS:
            return found
        count = min(4 * count, _MOST_ROWS)
