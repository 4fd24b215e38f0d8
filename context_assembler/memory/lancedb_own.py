"""A table of one's own in LanceDB, as memories."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil
from pathlib import Path
from threading import Lock
from typing import Any, Final

from context_assembler.errors import MemoryUnavailableError
from context_assembler.memory.asked_parts import check_place_name
from context_assembler.memory.field_names import (
    FieldNames,
    field_at,
    found_row,
    since_1970,
)
from context_assembler.memory.lancedb_connection import (
    LanceConnection,
    column_of,
    explained,
    listed,
    load_lancedb,
    rows_of,
    sql_of_test,
)
from context_assembler.memory.lancedb_scan import MOST_ROWS, sql_of_words, weigh_texts
from context_assembler.memory.rows import Row, RowTest, unit_numbers
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.memories.words import query_terms

_ROW: Final = "_rowid"


class OwnLanceTable:
    """Searches a table by the words of its text, and by its vectors."""

    is_shared = True

    def __init__(
        self,
        location: str | Path,
        *,
        table: str,
        fields: FieldNames,
        model: str | None,
        options: Mapping[str, Any] | None,
    ) -> None:
        self._connection = LanceConnection(location, options=options)
        check_place_name("table", table)
        self._name = table
        self._fields = fields
        self._model = model
        self._lock = Lock()
        self._opened: Any = None

    @property
    def location(self) -> str:
        """What the table is called in errors."""
        return f"{self._connection.location}#{self._name}"

    def load(self) -> None:
        """Import the engine's package, which takes seconds."""
        load_lancedb()

    def dimension(self) -> int | None:
        """Return how many numbers a vector has; `None` where there are none."""
        if self._fields.vector is None:
            return None
        with explained(self.location):
            kind = self._table().schema.field(self._fields.vector).type
            size: int | None = getattr(kind, "list_size", None)
        if size is None:
            raise MemoryUnavailableError(
                self.location,
                reason=f"its column {self._fields.vector!r} is {kind}, not vectors of one length",
                remedy="Name the column of the vectors in FieldNames(vector=…), or None.",
            )
        return size

    def find_by_words(
        self, query: str, tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        """Return the rows that hold any of the words, by the table's own index where it has one."""
        terms = [term.removesuffix("*") for term in query_terms(query)]
        if not terms:
            return []
        with explained(self.location):
            if not self._is_indexed():
                return self._find_in_rows(terms, tests, limit=limit)
            match = load_lancedb("lancedb.query").MatchQuery(" ".join(terms), self._fields.text)
            asked = self._table().search(match, query_type="fts")
            return self._read(asked, tests, limit=limit, score="_score", sign=1)

    def find_by_vector(
        self, vector: Vector, tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        """Return the rows whose vectors lie nearest."""
        if self._fields.vector is None:
            return []
        with explained(self.location):
            asked = self._table().search(
                unit_numbers(vector), vector_column_name=self._fields.vector
            )
            asked = asked.distance_type("cosine")
            return self._read(asked, tests, limit=limit, score="_distance", sign=-1)

    def close(self) -> None:
        """Let go of the table; the next call opens it again."""
        with self._lock:
            self._opened = None
            self._connection.close()

    def _is_indexed(self) -> bool:
        """Whether the table has an index of its texts' words, which may come at any time."""
        return any(
            index.index_type == "FTS" and self._fields.text in index.columns
            for index in self._table().list_indices()
        )

    def _find_in_rows(
        self, terms: Sequence[str], tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        table = self._table()
        conditions = [sql_of_words(terms, self._fields.text), *map(self._sql_of_test, tests)]
        asked = table.search().where(" AND ".join(conditions), prefilter=True)
        found = self._fetch(asked, limit=MOST_ROWS)
        texts = [str(field_at(values, self._fields.text)) for values in found]
        scores = weigh_texts(texts, terms, rows=table.count_rows())
        scored = zip(found, scores, strict=True)
        best = sorted(scored, key=lambda pair: (-pair[1], pair[0][_ROW]))
        return [(self._row(values), score) for values, score in best[:limit] if score > 0]

    def _read(
        self, asked: Any, tests: Sequence[RowTest], *, limit: int, score: str, sign: int
    ) -> list[tuple[Row, float]]:
        if tests:
            condition = " AND ".join(self._sql_of_test(test) for test in tests)
            asked = asked.where(condition, prefilter=True)
        found = self._fetch(asked, score, limit=limit)
        return [(self._row(values), sign * values[score]) for values in found]

    def _fetch(self, asked: Any, *more: str, limit: int) -> list[Row]:
        vector = self._fields.vector
        columns = [*self._fields.columns, *([vector] if vector else []), *more]
        return rows_of(asked.with_row_id(True).select(columns).limit(limit).to_arrow())

    def _row(self, values: Row) -> Row:
        vector = self._fields.vector
        return found_row(
            values,
            self._fields,
            own_id=values[_ROW],
            model=self._model,
            vector=None if vector is None else values.get(vector),
            place=values[_ROW],
        )

    def _sql_of_test(self, test: RowTest) -> str:
        if isinstance(test.value, datetime):
            return self._sql_of_time(test.column, test.operator, test.value)
        if test.operator == "not in" and test.column == (self._fields.id or "id"):
            column = _ROW if self._fields.id is None else column_of(test.column)
            return f"CAST({column} AS STRING) NOT IN ({listed(test.value)})"
        return sql_of_test(test)

    def _sql_of_time(self, path: str, operator: str, moment: datetime) -> str:
        types = load_lancedb("pyarrow").types
        kind = self._table().schema.field(path.partition(".")[0]).type
        column = column_of(path)
        if types.is_integer(kind) or types.is_floating(kind):
            number = since_1970(moment, self._fields.time_unit)
            # Of whole numbers the same pass either bound when it is rounded up.
            bound = ceil(number) if types.is_integer(kind) else number
            return f"{column} {operator} {bound!r}"
        stamp = f"CAST('{moment.isoformat()}' AS TIMESTAMP)"
        return f"CAST({column} AS TIMESTAMP) {operator} {stamp}"

    def _table(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = self._connection.open_table(self._name)
            if self._opened is None:
                raise MemoryUnavailableError(
                    self.location,
                    reason="there is no such table",
                    remedy="Check the folder, and the name of the table.",
                )
            return self._opened
