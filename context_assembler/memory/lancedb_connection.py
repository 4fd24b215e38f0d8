"""LanceDB's connections and tables, and rows as it spells them."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from context_assembler.errors import AssemblyError, MemoryUnavailableError, MissingExtraError
from context_assembler.memory.asked_parts import check_location, check_options
from context_assembler.memory.rows import Row, RowTest

_CHECK: Final = "Check the location, its permissions, and the version of lancedb."


class LanceConnection:
    """A connection to LanceDB that is opened at its first use; reading makes no folder."""

    def __init__(self, location: str | Path, *, options: Mapping[str, Any] | None) -> None:
        check_location(location)
        check_options(options)
        is_remote = "://" in str(location)
        self._folder = None if is_remote else Path(location).expanduser().absolute()
        self.location = str(location) if self._folder is None else str(self._folder)
        self._options = dict(options or {})
        self._opened: Any = None

    def open_table(self, name: str) -> Any:
        """Return the table; `None` where there is none."""
        load_lancedb()  # who lacks it is to hear of it, even where there is nothing to read
        if self._folder is not None and not self._folder.exists():
            return None
        try:
            return self._connect().open_table(name)
        except ValueError as error:
            if "was not found" in str(error):
                return None
            raise

    def create_table(self, name: str, schema: Any) -> Any:
        """Return the table, made where it is not there."""
        return self._connect().create_table(name, schema=schema, exist_ok=True)

    def close(self) -> None:
        """Let go of it; the next call opens it again."""
        self._opened = None

    def _connect(self) -> Any:
        if self._opened is None:
            # Other processes' writes are to be seen at once.
            given = {"read_consistency_interval": timedelta(0), **self._options}
            self._opened = load_lancedb().connect(self.location, **given)
        return self._opened


def load_lancedb(module: str = "lancedb") -> Any:
    """Return a module of LanceDB, or of pyarrow, which it brings along.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError("Keeping memories in LanceDB", extra="lancedb") from error


@contextmanager
def explained(location: str) -> Generator[None]:
    """Turn what LanceDB raises into the error of a store.

    Raises:
        MemoryUnavailableError: LanceDB refused.
    """
    try:
        yield
    except AssemblyError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0].strip().rstrip(".") or type(error).__name__
        raise MemoryUnavailableError(location, reason=reason, remedy=_CHECK) from error


def sql_of(tests: Sequence[RowTest]) -> str:
    """Return the tests as a condition in SQL."""
    return " AND ".join(map(sql_of_test, tests))


def sql_of_test(test: RowTest) -> str:
    """Return the test as a condition in SQL."""
    column = column_of(test.column)
    match test.operator:
        case "in":
            return f"{column} IN ({listed(test.value)})"
        case "not in":
            return f"({column} IS NULL OR {column} NOT IN ({listed(test.value)}))"
        case _:
            return f"{column} {test.operator} {_literal(test.value)}"


def column_of(path: str) -> str:
    """Return a column as SQL names it; a dot leads inside of one."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in path.split("."))


def listed(values: Sequence[Any]) -> str:
    """Return the values as SQL writes them, with commas between."""
    return ", ".join(map(_literal, values))


def where(query: Any, tests: Sequence[RowTest]) -> Any:
    """Return the query for rows that meet the tests alone."""
    return query.where(sql_of(tests), prefilter=True) if tests else query


def rows_of(table: Any) -> list[Row]:
    """Return the rows of an Arrow table, vectors as arrays of numbers."""
    plain = [name for name in table.schema.names if not _is_vector(table.schema.field(name).type)]
    rows: list[Row] = table.select(plain).to_pylist()
    for name in table.schema.names:
        if name not in plain:
            for row, numbers in zip(rows, _arrays(table.column(name)), strict=True):
                row[name] = numbers
    return rows


def _is_vector(kind: Any) -> bool:
    return str(kind).startswith("fixed_size_list")


def _arrays(column: Any) -> list[Any]:
    return [
        numbers if is_there else None
        for chunk in column.chunks
        for numbers, is_there in zip(
            _rows_of_chunk(chunk), chunk.is_valid().to_pylist(), strict=True
        )
    ]


def _rows_of_chunk(chunk: Any) -> Any:
    size = chunk.type.list_size
    values = chunk.values.slice(chunk.offset * size, len(chunk) * size)
    return values.to_numpy(zero_copy_only=False).reshape(-1, size)


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
