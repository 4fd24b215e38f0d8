"""The rows of a memory store as a table of LanceDB."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

from context_assembler.errors import MemoryUnavailableError
from context_assembler.memory.asked_parts import check_place_name
from context_assembler.memory.lancedb_connection import (
    LanceConnection,
    explained,
    load_lancedb,
    rows_of,
    sql_of,
    where,
)
from context_assembler.memory.rows import (
    COLUMNS,
    TEXT_COLUMNS,
    WHOLE_COLUMNS,
    Row,
    RowTest,
    VectorModel,
    unit_numbers,
)
from context_assembler.values.memories.vectors import Vector

FORMAT: Final = 1
CONTEXT_WEIGHT: Final = 0.3  # of a word beside the record's own
_FORMAT_KEY: Final = b"context_assembler_format"
_MODEL_KEY: Final = b"context_assembler_model"
_WORDS: Final = ("words", "context")
_INDEXED: Final = ("id", "line", "digest")
_VECTOR: Final = "vector"
_ROWS_BETWEEN_TIDYINGS: Final = 2_000
_SHARE_BETWEEN_TIDYINGS: Final = 20  # of a larger table a twentieth
_WRITES_BETWEEN_TIDYINGS: Final = 200  # each makes a file
_READERS: Final = 4
_UPGRADE: Final = "Upgrade the package: pip install --upgrade context-assembler"
_OTHERS: Final = "Name another table, or recall from this one with open_lancedb_table()."


class LanceTable:
    """The rows of a memory store as a table of LanceDB."""

    readers = _READERS

    def __init__(
        self,
        location: str | Path,
        *,
        table: str,
        options: Mapping[str, Any] | None = None,
        rows_between_tidyings: int = _ROWS_BETWEEN_TIDYINGS,
        writes_between_tidyings: int = _WRITES_BETWEEN_TIDYINGS,
    ) -> None:
        self._connection = LanceConnection(location, options=options)
        check_place_name("table", table)
        self._name = table
        self._lock = Lock()
        self._opened: Any = None
        self._rows_between_tidyings = rows_between_tidyings
        self._writes_between_tidyings = writes_between_tidyings
        self._is_counted = False
        self._rows_untidied = self._writes_untidied = 0

    @property
    def location(self) -> str:
        """What the table is called in errors."""
        return f"{self._connection.location}#{self._name}"

    def load(self) -> None:
        """Import the engine's package, which takes seconds."""
        load_lancedb()

    def read_model(self) -> VectorModel | None:
        """Return which vectors are kept; `None` where none ever were."""
        with explained(self.location):
            opened = self._table()
            if opened is None or _VECTOR not in opened.schema.names:
                return None
            field = opened.schema.field(_VECTOR)
            told: dict[bytes, bytes] = field.metadata or {}
            return VectorModel(told.get(_MODEL_KEY, b"").decode(), field.type.list_size)

    def find(
        self,
        tests: Sequence[RowTest],
        *,
        columns: Sequence[str] | None = None,
        order: Sequence[str] = (),
        is_descending: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows that meet all tests."""
        if limit == 0:
            return []
        with explained(self.location):
            opened = self._table()
            if opened is None:
                return []
            found = where(opened.search(), tests).select([*(columns or _whole(opened))])
            if order:
                ordering = load_lancedb("lancedb.query").ColumnOrdering
                found = found.order_by(
                    [ordering(column_name=name, ascending=not is_descending) for name in order]
                )
            return rows_of(found.limit(limit).to_arrow())

    def find_by_words(
        self, stems: Sequence[str], tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        """Return the rows that hold any of the stems, with positive scores, best first."""
        with explained(self.location):
            opened = self._table()
            if opened is None:
                return []
            match = load_lancedb("lancedb.query").MultiMatchQuery(
                " ".join(stems), list(_WORDS), boosts=[1.0, CONTEXT_WEIGHT]
            )
            found = where(opened.search(match, query_type="fts"), tests)
            found = found.select([*_whole(opened), "_score"]).limit(limit)
            return [(row, row["_score"]) for row in rows_of(found.to_arrow())]

    def find_by_vector(
        self, vector: Vector, tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        """Return the rows whose vectors lie nearest, with their cosines, best first."""
        with explained(self.location):
            opened = self._table()
            if opened is None:
                return []
            found = opened.search(unit_numbers(vector), vector_column_name=_VECTOR)
            found = where(found.distance_type("cosine"), tests).limit(limit)
            found = found.select([*_whole(opened), "_distance"])
            return [(row, 1 - row["_distance"]) for row in rows_of(found.to_arrow())]

    def put(self, rows: Sequence[Row], *, model: VectorModel | None) -> None:
        """Keep the rows in the place of those of their ids, with the vectors of that model."""
        with explained(self.location):
            opened = self._table()
            if opened is None:  # a table without rows is false by itself
                opened = self._create(model)
            if model is not None and _VECTOR not in opened.schema.names:
                arrow = load_lancedb("pyarrow")
                opened.add_columns(arrow.schema([_vector_field(arrow, model)]))
            self._merge(opened, rows)
            self._tidy(opened, rows=len(rows))

    def remove(self, memory_ids: Sequence[str]) -> None:
        """Remove the rows of these ids."""
        with explained(self.location):
            opened = self._table()
            if opened is not None:
                opened.delete(sql_of([RowTest("id", "in", list(memory_ids))]))
                self._tidy(opened, rows=0)

    def touch(self, memory_ids: Sequence[str], *, times: int, stamp: int) -> None:
        """Count that the rows were used that often, the last time at that moment."""
        with explained(self.location):
            opened = self._table()
            if opened is None:
                return
            last = f"greatest(coalesce(last_access_at, {stamp}), {stamp})"
            opened.update(
                where=sql_of([RowTest("id", "in", list(memory_ids))]),
                values_sql={"access_count": f"access_count + {times}", "last_access_at": last},
            )
            self._tidy(opened, rows=len(memory_ids))

    def drop_vectors(self) -> None:
        """Forget all vectors, and which they were."""
        with explained(self.location):
            opened = self._table()
            if opened is not None and _VECTOR in opened.schema.names:
                opened.drop_columns([_VECTOR])

    def count_vectors(self) -> int:
        """Return how many rows have a vector."""
        with explained(self.location):
            opened = self._table()
            return 0 if opened is None else int(opened.count_rows(f"{_VECTOR} IS NOT NULL"))

    def count_bytes(self) -> int:
        """Return the size of the rows' files, without that of the indexes."""
        with explained(self.location):
            opened = self._table()
            return 0 if opened is None else int(opened.stats()["total_bytes"])

    def close(self) -> None:
        """Let go of files and connections; the next call opens them again."""
        with self._lock:
            opened, self._opened = self._opened, None
            self._connection.close()
        if self._rows_untidied >= self._rows_between_tidyings:
            self._rows_untidied = self._writes_untidied = 0
            with explained(self.location):
                opened.optimize()

    def _table(self) -> Any:
        """Return the open table; `None` where there is none yet."""
        with self._lock:
            if self._opened is None:
                found = self._connection.open_table(self._name)
                if found is not None:
                    _check_format(found, self.location)
                self._opened = found
            return self._opened

    def _create(self, model: VectorModel | None) -> Any:
        arrow = load_lancedb("pyarrow")
        index = load_lancedb("lancedb.index")
        fields = [arrow.field(name, arrow.string()) for name in (*TEXT_COLUMNS, *_WORDS)]
        fields += [arrow.field(name, arrow.int64()) for name in WHOLE_COLUMNS]
        fields.append(arrow.field("importance", arrow.float64()))
        if model is not None:
            fields.append(_vector_field(arrow, model))
        schema = arrow.schema(fields, metadata={_FORMAT_KEY: str(FORMAT).encode()})
        created = self._connection.create_table(self._name, schema)
        as_cut = index.FTS(
            base_tokenizer="whitespace",
            max_token_length=None,
            lower_case=False,
            stem=False,
            remove_stop_words=False,
            ascii_folding=False,
        )
        for column in _WORDS:
            created.create_index(column, config=as_cut)
        for column in _INDEXED:
            created.create_index(column, config=index.BTree())
        return self._table()

    def _merge(self, opened: Any, rows: Sequence[Row]) -> None:
        arrow = load_lancedb("pyarrow")
        written = [
            row | {name: " ".join(row[name]) for name in _WORDS} | {_VECTOR: row.get(_VECTOR)}
            for row in rows
        ]
        merging = opened.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        # To LanceDB a vector that is not there is a bad one; ours were measured before.
        merging.execute(
            arrow.Table.from_pylist(written, schema=opened.schema), on_bad_vectors="null"
        )

    def _tidy(self, opened: Any, *, rows: int) -> None:
        """Bring what was written into the indexes, and small files together, once in a while."""
        if self._is_counted:
            self._rows_untidied += rows
            self._writes_untidied += 1
        else:  # other processes may have left some, too
            indexed = opened.index_stats(f"{_WORDS[0]}_idx")
            self._rows_untidied = indexed.num_unindexed_rows if indexed else 0
            self._writes_untidied = opened.stats()["fragment_stats"]["num_fragments"]
            self._is_counted = True
        # Tidying takes time for every row, and reading untidied ones takes it for each search.
        many_rows = max(self._rows_between_tidyings, opened.count_rows() // _SHARE_BETWEEN_TIDYINGS)
        many_writes = self._writes_between_tidyings
        if self._rows_untidied >= many_rows or self._writes_untidied >= many_writes:
            self._rows_untidied = self._writes_untidied = 0
            opened.optimize()


def _whole(opened: Any) -> list[str]:
    return [*COLUMNS, _VECTOR] if _VECTOR in opened.schema.names else list(COLUMNS)


def _vector_field(arrow: Any, model: VectorModel) -> Any:
    kind = arrow.list_(arrow.float32(), model.dimension)
    return arrow.field(_VECTOR, kind, metadata={_MODEL_KEY: model.name.encode()})


def _check_format(opened: Any, location: str) -> None:
    told: dict[bytes, bytes] = opened.schema.metadata or {}
    found = told.get(_FORMAT_KEY)
    if found is None:
        reason = "it is a table of something else"
        raise MemoryUnavailableError(location, reason=reason, remedy=_OTHERS)
    if int(found) > FORMAT:
        reason = f"it has format version {int(found)}, this package reads {FORMAT}"
        raise MemoryUnavailableError(location, reason=reason, remedy=_UPGRADE)
