"""Memories in a PostgreSQL database that any number of machines may use at once.

Words are cut here, as in every bundled store: neither the server's language nor its parser has a
say. Vectors are compared by pgvector, exactly.
"""

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import local
from typing import Any, Final
from urllib.parse import urlsplit

from context_assembler.errors import AssemblyError, MemoryUnavailableError, MissingExtraError
from context_assembler.memory.kinds import KINDS, MemoryKind
from context_assembler.memory.records import MemoryFilters, Vector
from context_assembler.memory.stores import CONTEXT_WEIGHT, Entry, Row, SqlTable, conditions_of
from context_assembler.memory.words import query_stems, record_stems

_READERS: Final = 4
_PATIENCE: Final = ("lock_timeout", "10s")  # to wait for whoever writes
_LOCK: Final = 0x6D656D6F  # ours among the locks of a database
_VERSION: Final = "1"
# What a word of each label counts: D stands next to the record, A is its own.
_WEIGHTS: Final = f"'{{{CONTEXT_WEIGHT}, 0, 0, 1}}'::real[]"
_FLOOR_ROWS: Final = 1_000  # a word in so many records is never too common to be searched for
_COMMON_SHARE: Final = 0.02  # a word in more of them only if rarer ones find too few
_MOST_TERMS: Final = 32
_MOST_STEM_CHARS: Final = 400  # a word may have 2,046 bytes
_MOST_TIMES: Final = 8  # that a word counts: from there on the rank hardly grows
_MOST_BYTES: Final = 900_000  # of the 1 MB that a tsvector may have
_TABLES: Final = (
    """CREATE {} TABLE memory_records (
        key bigint PRIMARY KEY, id text COLLATE "C" NOT NULL UNIQUE, kind text COLLATE "C" NOT NULL,
        namespace text COLLATE "C" NOT NULL, session_id text COLLATE "C",
        parent_id text COLLATE "C", author text COLLATE "C", line bigint, digest bigint,
        text text NOT NULL, details text, created_at bigint NOT NULL,
        importance double precision NOT NULL, codes bytea, access_count bigint NOT NULL,
        last_access_at bigint, format_version integer NOT NULL, words tsvector) {}""",
    "CREATE {} TABLE memory_state (name text PRIMARY KEY, value text NOT NULL) {}",
    f"INSERT INTO memory_state VALUES ('version', '{_VERSION}'), ('next_key', '1')",
)
_INDEXES: Final = (
    "memory_words ON memory_records USING gin (words)",
    "memory_lines ON memory_records (line, key) WHERE line IS NOT NULL",
    "memory_digests ON memory_records (digest) WHERE digest IS NOT NULL",
    "memory_times ON memory_records (created_at)",
    "memory_sessions ON memory_records (session_id) WHERE session_id IS NOT NULL",
)
_COUNTS: Final = """
    SELECT term.word, (SELECT count(*) FROM (
        SELECT FROM memory_records r WHERE r.words @@ term.word::tsquery LIMIT ?) AS found)
    FROM unnest(?::text[]) AS term (word)
"""


def open_table(url: str) -> SqlTable:
    """Return the tables of a database; what the URL leaves open libpq's environment says."""
    return SqlTable(PostgresDatabase(url))


class PostgresDatabase:
    """A database with the tables of a memory store: a connection for each thread."""

    readers = _READERS
    pairs = (
        "(SELECT (value->>0)::bigint AS line, (value->>1)::bigint AS key "
        "FROM json_array_elements(?::json))"
    )

    def __init__(self, url: str) -> None:
        self._url = url
        self._here = local()
        self._open: list[Any] = []
        self._process_id = os.getpid()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let every look inside see one moment."""
        if self._is_inside:
            yield
            return
        with self._inside("ISOLATION LEVEL REPEATABLE READ"):
            if not self._has_tables():  # reading creates nothing
                for statement in _TABLES:
                    self.run(statement.format("TEMPORARY", "ON COMMIT DROP"))
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep all that is done inside, or nothing; nobody else writes meanwhile."""
        if self._is_inside:
            yield
            return
        with self._inside(""):
            self.run(f"SELECT pg_advisory_xact_lock({_LOCK})")
            if not self._has_tables():
                for statement in _TABLES:
                    self.run(statement.format("", ""))
                for index in _INDEXES:
                    self.run(f"CREATE INDEX {index}")
            yield

    def run(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows that a statement finds."""
        cursor = self._here.connection.execute(sql.replace("?", "%s"), values or None)
        return cursor.fetchall() if cursor.description else []

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        with self._here.connection.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), [*rows])

    def given(self, values: Sequence[Any]) -> tuple[str, Any]:
        """Return what comes behind a column for "is one of these", and its one parameter."""
        return "= ANY(?)", [*values]

    def unindex(self, entries: Sequence[Entry]) -> None:
        """The words are in the rows."""

    def index(self, entries: Sequence[Entry]) -> None:
        """Write the words that the rows are found by."""
        own, beside = (
            record_stems(texts) for texts in ([e.own for e in entries], [e.beside for e in entries])
        )
        words = [
            (_tsvector(mine, others), entry.key)
            for entry, mine, others in zip(entries, own, beside, strict=True)
        ]
        self.run_many("UPDATE memory_records SET words = ?::tsvector WHERE key = ?", words)

    def put_vectors(self, rows: Sequence[Row], gone: Sequence[int]) -> None:
        """Write the vectors of the rows; those of rows that are gone are forgotten."""
        [(tables,)] = self.run("SELECT to_regclass('memory_vectors') IS NOT NULL")
        if tables:
            self.run("DELETE FROM memory_vectors WHERE key = ANY(?)", [*gone])
            placed = [(row.key, _literal(row.codes)) for row in rows if row.codes]
            self.run_many("INSERT INTO memory_vectors VALUES (?, ?::halfvec)", placed)

    def use_model(self, dimension: int) -> None:
        """Make room for vectors."""
        self.run("CREATE EXTENSION IF NOT EXISTS vector")
        self.run(
            "CREATE TABLE memory_vectors (key bigint PRIMARY KEY REFERENCES memory_records (key) "
            f"ON DELETE CASCADE, direction halfvec({dimension}) NOT NULL)"
        )

    def drop_vectors(self) -> None:
        """Forget all vectors."""
        self.run("DROP TABLE IF EXISTS memory_vectors")

    def by_words(self, query: str, filters: MemoryFilters, limit: int) -> list[tuple[int, float]]:
        """Return keys and scores above 0 of the rows that fit by words, best first."""
        words = [*map(_quoted, query_stems(query))]
        [(rows,)] = self.run("SELECT coalesce(max(key), 0) FROM memory_records")
        most = max(_FLOOR_ROWS, int(rows * _COMMON_SHARE))
        found = dict(self.run(_COUNTS, most + 1, words)) if words else {}
        rare = sorted((count, word) for word, count in found.items() if 0 < count <= most)
        chosen = {word: count for count, word in rare[:_MOST_TERMS]}
        common = [word for word, count in found.items() if count > most]
        if common and sum(chosen.values()) < _FLOOR_ROWS:
            word, count = min(self.run(_COUNTS, rows, common), key=lambda one: (one[1], one[0]))
            chosen[word] = count
        if not chosen:
            return []
        values: list[Any] = []
        for word, count in chosen.items():
            rest = max(rows, count) - count
            values += [math.log(1 + (rest + 0.5) / (count + 0.5)), word]
        rank = " + ".join([f"? * ts_rank({_WEIGHTS}, r.words, ?::tsquery)"] * len(chosen))
        condition, parameters = conditions_of(filters, self)
        sql = (
            f"SELECT r.key, {rank} AS score FROM memory_records r WHERE r.words @@ ?::tsquery "
            f"AND {condition or 'true'} ORDER BY score DESC, r.key LIMIT ?"
        )
        return self.run(sql, *values, " | ".join(chosen), *parameters, limit)

    def by_vector(self, vector: Vector, filters: MemoryFilters, limit: int) -> list[int]:
        """Return the keys of the rows whose vectors lie nearest, best first."""
        condition, parameters = conditions_of(filters, self)
        sql = (
            "SELECT v.key FROM memory_vectors v JOIN memory_records r USING (key) "
            f"WHERE {condition or 'true'} ORDER BY v.direction <=> ?::halfvec, v.key LIMIT ?"
        )
        found = self.run(sql, *parameters, _literal(vector.codes), limit)
        return [key for (key,) in found]

    def kinds(self, filters: MemoryFilters) -> frozenset[MemoryKind]:
        """Return the kinds of which there may be rows."""
        return frozenset(filters.kinds or KINDS)  # to find out takes as long as to search

    def size_bytes(self) -> int:
        """Return how much room all of it takes."""
        tables = "('memory_records'), ('memory_vectors'), ('memory_state')"
        [(size,)] = self.run(
            "SELECT coalesce(sum(pg_total_relation_size(to_regclass(name))), 0)::bigint "
            f"FROM (VALUES {tables}) AS tables (name)"
        )
        return int(size)

    def optimize(self) -> None:
        """Let the server look again at what the table holds."""
        with self.writing():
            self.run("ANALYZE memory_records")

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        connections, self._open = self._open, []
        for connection in connections:
            connection.close()

    @property
    def _is_inside(self) -> bool:
        return getattr(self._here, "is_inside", False)

    def _has_tables(self) -> bool:
        [(tables,)] = self.run("SELECT to_regclass('memory_records') IS NOT NULL")
        if not tables:
            return False
        found = dict(self.run("SELECT name, value FROM memory_state"))
        if found.get("version") != _VERSION:
            raise self._unavailable(
                f"its tables are of version {found.get('version')}, not {_VERSION}",
                "Upgrade the package, or give the URL of another database.",
            )
        return True

    @contextmanager
    def _inside(self, isolation: str) -> Iterator[None]:
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtraError("A memory store on PostgreSQL", extra="postgres") from error
        try:
            connection = self._connection(psycopg)
            with connection.transaction():
                if isolation:
                    connection.execute(f"SET TRANSACTION {isolation}")
                self._here.is_inside = True
                try:
                    yield
                finally:
                    self._here.is_inside = False
        except psycopg.Error as error:
            said = " ".join(str(error).split())
            remedy = "Look into the server's log."
            if isinstance(error, psycopg.OperationalError):
                remedy = (
                    "Check that the server runs and is not locked, and host, port, user, password "
                    "and database in the URL."
                )
            if "halfvec" in said or "vector" in said:
                remedy = "Install pgvector 0.7 or newer, or keep records without vectors."
            raise self._unavailable(f"PostgreSQL says: {said}", remedy) from error

    def _connection(self, psycopg: Any) -> Any:
        if self._process_id != os.getpid():  # the sockets are the parent's
            self._process_id, self._here, self._open = os.getpid(), local(), []
        connection = getattr(self._here, "connection", None)
        if connection is not None and not connection.closed:
            try:
                connection.execute("SELECT 1")
            except psycopg.OperationalError:  # the server was started anew
                connection.close()
        if connection is None or connection.closed:
            connection = psycopg.connect(self._url, autocommit=True)
            # Compiling a query takes longer than any of ours does; and what is searched is mostly in
            # memory, where an index is worth it for a small table, too.
            for name, value in (("jit", "off"), ("random_page_cost", "1.1"), _PATIENCE):
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
            self._here.connection = connection
            self._open.append(connection)
        return connection

    def _unavailable(self, reason: str, remedy: str) -> AssemblyError:
        parts = urlsplit(self._url)
        where = f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"
        return MemoryUnavailableError(where, reason=reason, remedy=remedy)


def _tsvector(own: Sequence[str], beside: Sequence[str]) -> str:
    """Return a `tsvector`: where a word stands makes no difference to the rank, only how often."""
    mine, others = Counter(own), Counter(beside)
    lexemes: list[str] = []
    free = _MOST_BYTES
    for stem in dict.fromkeys((*mine, *others)):
        owned = min(mine[stem], _MOST_TIMES)
        in_all = owned + min(others[stem], _MOST_TIMES)
        free -= len(stem.encode()) + 2 * in_all + 8
        if free < 0:
            break
        places = ",".join(f"{at}{'A' if at <= owned else ''}" for at in range(1, in_all + 1))
        lexemes.append(f"{_quoted(stem)}:{places}")
    return " ".join(lexemes)


def _quoted(stem: str) -> str:
    inside = stem[:_MOST_STEM_CHARS].replace("\\", "\\\\").replace("'", "''")
    return f"'{inside}'"


def _literal(codes: bytes) -> str:
    return f"[{','.join(map(str, memoryview(codes).cast('b')))}]"
