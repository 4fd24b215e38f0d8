"""Memories in a PostgreSQL database that any number of machines may use at once.

Words are cut here, as in every bundled store: neither the server's language nor its parser has a
say. Vectors are compared by pgvector, exactly.
"""

import math
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import local
from typing import Any, Final

from context_assembler.errors import MemoryUnavailableError
from context_assembler.memory import stores
from context_assembler.memory.kinds import KINDS, MemoryKind
from context_assembler.memory.records import MemoryFilters, Vector, WordCounts
from context_assembler.memory.stores import Entry, Row, Scores, SqlTable
from context_assembler.memory.words import query_stems, record_stems
from context_assembler.sessions.postgres import PostgresServer

_READERS: Final = 4
_LOCK: Final = 0x6D656D6F  # ours among the locks of a database
_VERSION: Final = "2"
# What a word of each label counts: D stands before the record, A is its own.
_WEIGHTS: Final = f"'{{{stores.CONTEXT_WEIGHT}, 0, 0, 1}}'::real[]"
_MOST_STEM_CHARS: Final = 400  # a word may have 2,046 bytes
_MOST_TIMES: Final = 8  # that a word counts: from there on the rank hardly grows
_MOST_BYTES: Final = 900_000  # of the 1 MB that a tsvector may have
_TABLES: Final = (
    """CREATE {} TABLE memory_records (
        key bigint PRIMARY KEY, id text COLLATE "C" NOT NULL, kind text COLLATE "C" NOT NULL,
        namespace text COLLATE "C" NOT NULL, session_id text COLLATE "C",
        parent_id text COLLATE "C", author text COLLATE "C", line bigint, digest bigint,
        text text NOT NULL, details text, created_at bigint NOT NULL,
        importance double precision NOT NULL, codes bytea, access_count bigint NOT NULL,
        last_access_at bigint, format_version integer NOT NULL, words tsvector,
        UNIQUE (id, namespace)) {}""",
    "CREATE {} TABLE memory_state (name text PRIMARY KEY, value text NOT NULL) {}",
    f"INSERT INTO memory_state VALUES ('version', '{_VERSION}'), ('next_key', '1')",
)
_INDEXES: Final = (
    "CREATE INDEX memory_words ON memory_records USING gin (words)",
    "CREATE INDEX memory_lines ON memory_records (line, key) WHERE line IS NOT NULL",
    "CREATE INDEX memory_digests ON memory_records (digest) WHERE digest IS NOT NULL",
    "CREATE INDEX memory_times ON memory_records (created_at)",
    "CREATE INDEX memory_sessions ON memory_records (session_id) WHERE session_id IS NOT NULL",
)
_MIGRATION: Final = (  # from version 1; an id is one of its namespace
    "ALTER TABLE memory_records DROP CONSTRAINT memory_records_id_key, ADD UNIQUE (id, namespace)",
    f"UPDATE memory_state SET value = '{_VERSION}' WHERE name = 'version'",
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
    pairs = "(SELECT (p->>0)::bigint AS line, (p->>1)::bigint AS key FROM json_array_elements(?) p)"

    def __init__(self, url: str) -> None:
        vector = "Install pgvector 0.7 or newer, or keep records without vectors."
        self._server = PostgresServer(
            url,
            "A memory store on PostgreSQL",
            MemoryUnavailableError,
            down=stores.AGAIN,
            remedies={"vector": vector, "halfvec": vector},
        )
        self._here = local()
        self.close = self._server.close

    @property
    def details(self) -> str:
        """Where a row's details have a field; before version 16 damaged ones are an error."""
        version = getattr(self._here, "version", 0)
        found = "r.details::json #>> '{{metadata,{}}}'"
        return (
            f"({found})" if version < 160_000 else f"(CASE WHEN r.details IS JSON THEN {found} END)"
        )

    def reading(self) -> AbstractContextManager[None]:
        """Let every look inside see one moment."""
        return self._inside(writes=False)

    def writing(self) -> AbstractContextManager[None]:
        """Keep all that is done inside, or nothing; nobody else writes meanwhile."""
        return self._inside(writes=True)

    def run(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows that a statement finds."""
        cursor = self._here.link.execute(sql, values)
        return cursor.fetchall() if cursor.description else []

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        self._here.link.executemany(sql, [*rows])

    def given(self, values: Sequence[Any]) -> tuple[str, Any]:
        """Return what comes behind a column for "is one of these", and its one parameter."""
        return "= ANY(?)", [*values]

    def unindex(self, entries: Sequence[Entry]) -> None:
        """The words are in the rows."""

    def index(self, entries: Sequence[Entry]) -> None:
        """Write the words that the rows are found by."""
        own = record_stems([entry.own for entry in entries])
        before = record_stems([entry.before for entry in entries])
        words = zip(map(_tsvector, own, before), [entry.key for entry in entries], strict=True)
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

    def by_words(self, query: str, filters: MemoryFilters, limit: int) -> Scores:
        """Return keys and scores above 0 of the rows that fit by words, best first."""
        words = [*map(_quoted, query_stems(query))]
        [(rows,)] = self.run("SELECT coalesce(max(key), 0) FROM memory_records")
        most = max(stores.FLOOR_ROWS, int(rows * stores.COMMON_SHARE))
        found = dict(self.run(_COUNTS, most + 1, words)) if words else {}
        chosen, common = stores.rare_words(found, most)
        if common:
            word, count = min(self.run(_COUNTS, rows, common), key=lambda one: (one[1], one[0]))
            chosen[word] = count
        if not chosen:
            return []
        values: list[Any] = []
        for word, count in chosen.items():
            rest = max(rows, count) - count
            values += [math.log(1 + (rest + 0.5) / (count + 0.5)), word]
        rank = " + ".join([f"? * ts_rank({_WEIGHTS}, r.words, ?::tsquery)"] * len(chosen))
        condition, parameters = stores.conditions_of(filters, self)
        sql = (
            f"SELECT r.key, {rank} AS score FROM memory_records r WHERE r.words @@ ?::tsquery "
            f"AND {condition or 'true'} ORDER BY score DESC, r.key LIMIT ?"
        )
        return self.run(sql, *values, " | ".join(chosen), *parameters, limit)

    def by_vector(self, vector: Vector, filters: MemoryFilters, limit: int) -> list[int]:
        """Return the keys of the rows whose vectors lie nearest, best first."""
        condition, parameters = stores.conditions_of(filters, self)
        sql = (
            "SELECT v.key FROM memory_vectors v JOIN memory_records r USING (key) "
            f"WHERE {condition or 'true'} ORDER BY v.direction <=> ?::halfvec, v.key LIMIT ?"
        )
        found = self.run(sql, *parameters, _literal(vector.codes), limit)
        return [key for (key,) in found]

    def word_counts(self, words: Sequence[str]) -> WordCounts:
        """Return how many rows there are, and how many have each word; too many are not counted."""
        with self.reading():
            [(rows,)] = self.run("SELECT coalesce(max(key), 0) FROM memory_records")
            most = max(stores.FLOOR_ROWS, int(rows * stores.COMMON_SHARE)) + 1
            cut = {word: [*map(_quoted, query_stems(word))][:1] for word in words}
            found = dict(self.run(_COUNTS, most, [*{one for own in cut.values() for one in own}]))
            counts = {word: sum(found[one] for one in own) for word, own in cut.items()}
            return WordCounts(rows, counts)

    def kinds(self, filters: MemoryFilters) -> frozenset[MemoryKind]:
        """Return the kinds of which there may be rows."""
        return frozenset(filters.kinds or KINDS)  # to find out takes as long as to search

    def state(self) -> object:
        """Return what is equal only if no transaction of the server was committed meanwhile."""
        with self.reading():
            return self.run("SELECT txid_current_snapshot()::text")

    def optimize(self) -> None:
        """Let the server look again at what the table holds."""
        with self.writing():
            self.run("ANALYZE memory_records")

    @contextmanager
    def _inside(self, *, writes: bool) -> Generator[None]:
        if getattr(self._here, "link", None):
            yield
            return
        with self._server.lent() as link, link.raw.transaction():
            self._here.link, self._here.version = link, link.raw.info.server_version
            try:
                self._begin(writes=writes)
                yield
            finally:
                self._here.link = None

    def _begin(self, *, writes: bool) -> None:
        lock = f"SELECT pg_advisory_xact_lock({_LOCK})"
        self.run(lock if writes else "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        [(has_tables,)] = self.run("SELECT to_regclass('memory_records') IS NOT NULL")
        if not has_tables:  # reading creates nothing
            kind = ("", "") if writes else ("TEMPORARY", "ON COMMIT DROP")
            for statement in (*_TABLES, *(_INDEXES if writes else ())):
                self.run(statement.format(*kind))
        [(version,)] = self.run("SELECT value FROM memory_state WHERE name = 'version'")
        if version == "1":  # which is read as it is
            for statement in _MIGRATION if writes else ():
                self.run(statement)
        elif version != _VERSION:
            remedy = "Upgrade the package, or give the URL of another database."
            reason = f"its tables are of version {version}"
            raise MemoryUnavailableError(self._server.url, reason=reason, remedy=remedy)


def _tsvector(own: Sequence[str], before: Sequence[str]) -> str:
    """Return a `tsvector`: where a word stands makes no difference to the rank, only how often."""
    mine, others = Counter(own), Counter(before)
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
