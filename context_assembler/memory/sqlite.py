"""Memories in one SQLite file that several processes may use at once, or in memory.

Words are found by a full-text index that keeps no texts, vectors by comparing all of them in memory.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from json import dumps
from sqlite3 import Connection
from threading import local
from typing import Any, Final

from context_assembler.errors import MemoryUnavailableError
from context_assembler.memory import stores
from context_assembler.memory.kinds import KINDS, MemoryKind
from context_assembler.memory.records import (
    NO_FILTERS,
    MemoryFilters,
    Vector,
    WordCounts,
    load_package,
)
from context_assembler.memory.stores import Entry, Row, Scores, SqlTable
from context_assembler.memory.words import TOKENIZER, query_terms
from context_assembler.sessions.files import Schema, SqliteFile, path_of

# If an index keeps no lengths, SQLite's bm25() takes each column for -1 word long, and divides by
# the average: in a store of very short texts its measure would turn negative, and the order around.
# These words raise the average; nobody searches for them. To go when bm25() can leave lengths out.
# Source: fts5ApiColumnSize in https://github.com/sqlite/sqlite/blob/master/ext/fts5/fts5_main.c
# (read 2026-11-28)
_FILLER: Final = " ".join(["f0"] * 12)
_RANK: Final = f"bm25(memory_words, 1.0, {stores.CONTEXT_WEIGHT}, 0.0)"
_JOINED: Final = "CROSS JOIN memory_records r ON r.key = memory_words.rowid"
_SAYS_NOTHING: Final = 1e-6  # as bm25() weighs a word that more than half of the records have
_SMALL_ROWS: Final = 20_000  # up to here no word is too common among the few that a filter leaves
_BUSY_SECONDS: Final = 10.0  # to wait for another process that writes
_FILTERED_SHARE: Final = 0.3  # of the records; above it, to filter by the index costs more
_MOST_COUNTS: Final = 50_000
_LEAST_AT_ONCE: Final = 50
_LEAST_SHARE: Final = 8  # an eighth of the store
# Each time that all is merged SQLite counts two levels more, and takes an index with 2,000 for
# damaged. Newer versions than 3.40 stop counting at 64.
# Source: fts5IndexOptimizeStruct, fts5StructureDecode in
# https://github.com/sqlite/sqlite/blob/version-3.40.1/ext/fts5/fts5_index.c (read 2026-11-29)
_MOST_MERGES: Final = 900
_ROWS_READ_AT_ONCE: Final = 8_192
_ROWS_AT_ONCE: Final = 2_048  # as floats they fit a processor's cache, where products are fastest

_ROWS: Final = """kind TEXT NOT NULL,
    namespace TEXT NOT NULL, session_id TEXT, parent_id TEXT, author TEXT,
    line INTEGER, digest INTEGER, text TEXT NOT NULL, details TEXT,
    created_at INTEGER NOT NULL, importance REAL NOT NULL, codes BLOB,
    access_count INTEGER NOT NULL, last_access_at INTEGER, format_version INTEGER NOT NULL"""
_INDEXES: Final = """
    CREATE INDEX memory_lines ON memory_records (line, key) WHERE line IS NOT NULL;
    CREATE INDEX memory_digests ON memory_records (digest) WHERE digest IS NOT NULL;
    CREATE INDEX memory_times ON memory_records (created_at);
    CREATE INDEX memory_sessions ON memory_records (session_id) WHERE session_id IS NOT NULL;
    CREATE INDEX memory_vectors ON memory_records (key) WHERE codes IS NOT NULL"""
_INDEX: Final = "INSERT INTO memory_words (rowid, text, context, tags) VALUES (?, ?, ?, ?)"


def _index_anew(db: Connection) -> None:
    """Index all records: those of earlier versions by what stands behind them as well."""
    db.execute("INSERT INTO memory_words (memory_words) VALUES ('delete-all')")
    found = db.execute(stores.ENTRIES.format("> 0"))
    db.executemany(_INDEX, (_words_of(stores.found_entry(row)) for row in found))


# The index holds no texts, and no lengths: on short texts a ranking without them is as good, and
# several times faster.
SCHEMA: Final = Schema(
    store="memories",
    migrations=(
        f"""
        CREATE TABLE memory_records (
            key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, {_ROWS});
        {_INDEXES};
        CREATE VIRTUAL TABLE memory_words USING fts5 (
            text, context, tags, content = '', columnsize = 0, tokenize = '{TOKENIZER}');
        CREATE TABLE memory_state (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        INSERT INTO memory_state VALUES ('next_key', '1'), ('vector_epoch', '0'), ('merges', '0')
        """,
        # An id is one of its namespace.
        f"""
        CREATE TABLE memory_moved (
            key INTEGER PRIMARY KEY, id TEXT NOT NULL, {_ROWS}, UNIQUE (id, namespace));
        INSERT INTO memory_moved SELECT * FROM memory_records;
        DROP TABLE memory_records;
        ALTER TABLE memory_moved RENAME TO memory_records;
        {_INDEXES}
        """,
        _index_anew,
    ),
    table="memory_records",
    unavailable=MemoryUnavailableError,
)


def open_table(url: str) -> SqlTable:
    """Return the table of `sqlite:FILE`, or of `memory:`, gone when the process ends.

    Raises:
        ConfigurationError: The URL names no file.
    """
    place = path_of(url)
    return SqlTable(SqliteDatabase(SqliteFile(place, SCHEMA, busy_seconds=_BUSY_SECONDS)))


class SqliteDatabase:
    """A file with the tables of a memory store."""

    readers = 1  # so that what one question counted, and the vectors that it read, serve the next
    details = "CASE WHEN json_valid(r.details) THEN json_extract(r.details, '$.metadata.{}') END"
    pairs = (
        "(SELECT json_extract(value, '$[0]') AS line, json_extract(value, '$[1]') AS key "
        "FROM json_each(?))"
    )

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._here = local()
        self._counts = _TermCounts()
        self._scan = _VectorScan()

    def reading(self) -> AbstractContextManager[None]:
        """Let every look inside see one moment."""
        return self._inside(self._file.reading, "BEGIN")

    def writing(self) -> AbstractContextManager[None]:
        """Keep all that is done inside, or nothing; nobody else writes meanwhile."""
        return self._inside(self._file.writing, "")

    @contextmanager
    def _inside(self, opening: Callable[[], Any], begin: str) -> Generator[None]:
        if getattr(self._here, "db", None) is not None:
            yield
            return
        with opening() as db:
            self._here.db = db
            try:
                db.execute(begin)
                yield
            finally:
                self._here.db = None
                if begin and db.in_transaction:
                    db.execute("COMMIT")

    def run(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows that a statement finds."""
        return self._db.execute(sql, values).fetchall()

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        self._db.executemany(sql, rows)

    def given(self, values: Sequence[Any]) -> tuple[str, Any]:
        """Return what comes behind a column for "is one of these", and its one parameter."""
        if len(values) == 1:  # found in a third of the time that a list takes
            return "IN (?)", values[0]
        return "IN (SELECT value FROM json_each(?))", dumps([*values])

    def unindex(self, entries: Sequence[Entry]) -> None:
        """Take entries out of the index of words: exactly what was put in."""
        columns = "(memory_words, rowid, text, context, tags) VALUES ('delete', ?, ?, ?, ?)"
        self.run_many(f"INSERT INTO memory_words {columns}", map(_words_of, entries))

    def index(self, entries: Sequence[Entry]) -> None:
        """Put entries into the index of words; in the order of their keys it is fast."""
        self.run_many(_INDEX, map(_words_of, entries))
        # Every piece of the index takes time in every search: behind many at once all are merged.
        if len(entries) >= _LEAST_AT_ONCE and _LEAST_SHARE * len(entries) >= entries[-1].key:
            self.optimize()

    def put_vectors(self, rows: Sequence[Row], gone: Sequence[int]) -> None:
        """Note whose vectors are not those of before; the vectors are in the rows."""
        _ = rows
        if gone:  # whoever keeps vectors in memory reads them again
            self.drop_vectors()

    def drop_vectors(self) -> None:
        """Let vectors that are kept in memory be read again."""
        self.run("UPDATE memory_state SET value = value + 1 WHERE name = 'vector_epoch'")

    def use_model(self, dimension: int) -> None:
        """There is room for vectors in the rows."""

    def by_words(self, query: str, filters: MemoryFilters, limit: int) -> Scores:
        """Return keys and scores above 0 of the rows that fit by words, best first."""
        terms, counts = query_terms(query), self._counts
        counts.refresh(self._db)
        # Conditions that leave few records; the others are left to the rows. If there are any, what
        # is common in the store may be rare among those few.
        found = counts.of(self._db, _tags_of(filters), int(counts.rows * _FILTERED_SHARE) + 1)
        tags = [match for match, count in found.items() if count <= counts.rows * _FILTERED_SHARE]
        least = counts.rows if tags and counts.rows <= _SMALL_ROWS else stores.FLOOR_ROWS
        most = max(least, int(counts.rows * stores.COMMON_SHARE))
        found = counts.of(self._db, [_quoted(term) for term in terms], most + 1)
        rare, common = stores.rare_words(found, most)
        chosen, everywhere = [*rare], list[str]()
        if common:
            # The newest speak for all: to count what is common takes longer than to search it.
            after = max(counts.rows - _SMALL_ROWS, 0)
            newest = counts.of(self._db, common, counts.rows - after, after)
            count, match = min((count, match) for match, count in newest.items())
            if 2 * count <= counts.rows - after:
                chosen.append(match)
            else:
                everywhere.append(min(common))
        # The tags' words hold a 0: to look at columns takes time for every record.
        column = "{text context} : " if any("0" in term for term in terms) else ""

        def any_of(words: Sequence[str]) -> str:
            return " AND ".join((*tags, f"{column}({' OR '.join(words)})"))

        ranked = self._ranked(any_of(chosen), filters, limit) if chosen else []
        if everywhere and len(ranked) < limit:  # a word that is everywhere ranks nothing
            condition, values = stores.conditions_of(filters, self)
            where = f"WHERE memory_words MATCH ? AND {condition or 'true'}"
            sql = f"SELECT memory_words.rowid FROM memory_words {_JOINED} {where} ORDER BY 1 DESC LIMIT ?"
            known = dict(ranked)
            newest_keys = self.run(sql, any_of([*chosen, *everywhere]), *values, limit)
            ranked += [(key, _SAYS_NOTHING) for (key,) in newest_keys if key not in known]
        return ranked[:limit]

    def by_vector(self, vector: Vector, filters: MemoryFilters, limit: int) -> list[int]:
        """Return the keys of the rows whose vectors lie nearest, best first."""
        [(epoch,)] = self.run("SELECT value FROM memory_state WHERE name = 'vector_epoch'")
        self._scan.refresh(self._db, epoch, vector.dimension)
        others = replace(filters, kinds=(), namespaces=None)
        condition, values = stores.conditions_of(others, self)
        best = self._scan.nearest(vector, filters, 8 * limit if condition else limit)
        if not condition:
            return best
        sql = f"SELECT r.key FROM memory_records r WHERE r.codes IS NOT NULL AND {condition}"
        allowed = {key for (key,) in self.run(sql, *values)}
        chosen = [key for key in best if key in allowed]
        if len(chosen) < limit and len(best) == 8 * limit:
            chosen = self._scan.nearest(vector, filters, None)
            chosen = [key for key in chosen if key in allowed]
        return chosen[:limit]

    def word_counts(self, words: Sequence[str]) -> WordCounts:
        """Return how many rows there are, and how many have each word; too many are not counted."""
        with self.reading():
            self._counts.refresh(self._db)
            rows = self._counts.rows
            most = max(stores.FLOOR_ROWS, int(rows * stores.COMMON_SHARE)) + 1
            found = self._counts.of(self._db, [_quoted(word) for word in words], most)
            return WordCounts(rows, {word: found[_quoted(word)] for word in words})

    def kinds(self, filters: MemoryFilters) -> frozenset[MemoryKind]:
        """Return the kinds of which there may be rows; there are surely none of the others."""
        with self.reading():
            counts = self._counts
            counts.refresh(self._db)
            # Of the filters only namespaces count, if they leave few records: what takes long to
            # find out is left to the search.
            tags = _tags_of(replace(NO_FILTERS, namespaces=filters.namespaces))
            known = counts.of(self._db, tags, stores.FLOOR_ROWS).items()
            few = [f"{tag} AND " for tag, count in known if count < stores.FLOOR_ROWS]
            matches = {f"{''.join(few)}tags : {_quoted(_kind_tag(kind))}": kind for kind in KINDS}
            found = counts.of(self._db, [*matches], 1)
            return frozenset(matches[match] for match, count in found.items() if count)

    def state(self) -> object:
        """Return what is equal only if nothing was written meanwhile, by whatever process."""
        with self.reading():
            return self._counts.refresh(self._db)

    def optimize(self) -> None:
        """Merge the pieces of the full-text index into one."""
        with self.writing():
            bound = f"name = 'merges' AND CAST(value AS INTEGER) < {_MOST_MERGES}"
            if self.run(f"UPDATE memory_state SET value = value + 1 WHERE {bound} RETURNING 1"):
                self.run("INSERT INTO memory_words (memory_words) VALUES ('optimize')")

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._file.close()

    @property
    def _db(self) -> Connection:
        db: Connection = self._here.db
        return db

    def _ranked(self, match: str, filters: MemoryFilters, limit: int) -> Scores:
        condition, values = stores.conditions_of(filters, self)
        # Only the best are read whole: to sort rows with their texts would copy all that match. By
        # the index's own rank all that match would be sorted, to the last: twice the time.
        best = f"SELECT memory_words.rowid, {_RANK} AS score FROM memory_words"
        where = "WHERE memory_words MATCH ?"
        order = "ORDER BY score, memory_words.rowid LIMIT ?"
        tags = _tags_of(filters)
        is_told = replace(filters, kinds=(), namespaces=None) == NO_FILTERS
        is_told = is_told and len(tags) == bool(filters.kinds) + bool(filters.namespaces)
        if not condition:
            found = self.run(f"{best} {where} {order}", match, limit)
        elif is_told and match.startswith(" AND ".join(tags)):
            # What matches meets the filters, unless two namespaces share a tag: a look at the rows
            # that are found is enough.
            check = f"CROSS JOIN memory_records r ON r.key = w.rowid WHERE {condition}"
            sql = f"SELECT w.rowid, w.score FROM ({best} {where} {order}) AS w {check}"
            found = self.run(sql, match, limit, *values)
        else:
            sql = f"{best} {_JOINED} {where} AND {condition} {order}"
            found = self.run(sql, match, *values, limit)
        return [(key, -score) for key, score in found]


# ---- what rows go into the index as ----


def _words_of(entry: Entry) -> tuple[int, str, str, str]:
    return entry.key, entry.own, entry.before, _tags(entry.namespace, entry.kind)


@lru_cache(1_024)
def _tags(namespace: str, kind: str) -> str:
    return f"{_namespace_tag(namespace)} {_kind_tag(kind)} {_FILLER}"


def _namespace_tag(namespace: str) -> str:
    return f"n{blake2b(namespace.encode(errors='surrogatepass'), digest_size=6).hexdigest()}0"


def _kind_tag(kind: str) -> str:
    return f"k{kind.replace('_', '')}0"


def _tags_of(filters: MemoryFilters) -> list[str]:
    """Return the conditions that the index can test, each short enough to be asked for."""
    groups = (map(_namespace_tag, filters.namespaces or ()), map(_kind_tag, filters.kinds))
    listed = [[_quoted(tag) for tag in group] for group in groups]
    return [f"tags : ({' OR '.join(one)})" for one in listed if 0 < len(one) <= stores.MOST_TERMS]


def _quoted(term: str) -> str:
    """Return a word as the index's query language writes it; `*` at its end means a beginning."""
    word = term.removesuffix("*").replace('"', '""')
    return f'"{word}" *' if term.endswith("*") else f'"{word}"'


class _TermCounts:
    """How many records have a word; counted once for as long as nothing is written."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int, int], int] = {}
        self._state: tuple[object, ...] = ()
        self.rows = 0

    def refresh(self, db: Connection) -> tuple[object, ...]:
        """Forget the counts if something was written since; return what every write changes."""
        (version,) = db.execute("PRAGMA data_version").fetchone()
        state = (db, version, db.total_changes)
        if state != self._state:
            self._state = state
            self._counts.clear()
            (rows,) = db.execute("SELECT max(key) FROM memory_records").fetchone()
            self.rows = rows or 0
        return state

    def of(self, db: Connection, words: Sequence[str], most: int, after: int = 0) -> dict[str, int]:
        """Return how many records behind that key each words, or `most` if there are more."""
        if len(self._counts) + len(words) > _MOST_COUNTS:
            self._counts.clear()
        behind = [after] * bool(after)  # a bound that excludes nothing takes time as well
        place = f"MATCH ?{' AND rowid > ?' * len(behind)}"
        some_of = f"SELECT 1 FROM memory_words WHERE memory_words {place} LIMIT ?"
        for match in words:
            if (match, most, after) not in self._counts:
                found = db.execute(f"SELECT count(*) FROM ({some_of})", (match, *behind, most))
                self._counts[match, most, after] = found.fetchone()[0]
        return {match: self._counts[match, most, after] for match in words}


class _VectorScan:
    """Compares every vector; what was loaded stays, and only what is added is read again.

    A byte for each dimension: 13 MB for 100,000 vectors of 128. Next to each vector stand the kind
    and the namespace of its record, as numbers: the others need not be compared if one is asked for.
    """

    def __init__(self) -> None:
        self._state: tuple[object, ...] = ()
        self._last_key = 0
        self._columns: tuple[Any, ...] = ()  # keys, codes, lengths, kinds, namespaces
        self._numbers: dict[str, int] = {}

    def refresh(self, db: Connection, epoch: str, dimension: int) -> None:
        """Read the vectors that are not known yet; all of them if some were changed."""
        np = load_package("numpy", "Comparing vectors")
        if (db, epoch, dimension) != self._state:
            self._state, self._last_key = (db, epoch, dimension), 0
            none = np.zeros(0)
            self._columns = none, np.zeros((0, dimension), dtype=np.int8), none, none, none
        parts = [self._columns]
        select = (
            "SELECT key, codes, kind, namespace FROM memory_records INDEXED BY memory_vectors "
            "WHERE codes IS NOT NULL AND key > ? ORDER BY key LIMIT ?"
        )
        while rows := db.execute(select, (self._last_key, _ROWS_READ_AT_ONCE)).fetchall():
            self._last_key = rows[-1][0]
            rows = [row for row in rows if len(row[1]) == dimension]
            codes = np.frombuffer(b"".join(row[1] for row in rows), dtype=np.int8)
            codes = codes.reshape(-1, dimension)
            floats = codes.astype(np.float32)
            ids = self._numbers
            labels = [np.array([ids.setdefault(r[at], len(ids)) for r in rows]) for at in (2, 3)]
            keys, lengths = np.array([row[0] for row in rows]), (floats * floats).sum(axis=1)
            parts.append((keys, codes, np.sqrt(lengths), *labels))
        if len(parts) > 1:
            self._columns = tuple(map(np.concatenate, zip(*parts, strict=True)))

    def nearest(self, vector: Vector, filters: MemoryFilters, count: int | None) -> list[int]:
        """Return so many keys with the largest cosines, the older record first if they agree."""
        np = load_package("numpy", "Comparing vectors")
        wanted = np.frombuffer(vector.codes, dtype=np.int8).astype(np.float32)
        keys, codes, lengths, *labels = self._columns
        fits = np.ones(len(keys), dtype=bool)
        for own, names in zip(labels, (filters.kinds, filters.namespaces), strict=True):
            if names:
                fits &= np.isin(own, [self._numbers.get(name, -1) for name in names])
        if filters.kinds or filters.namespaces:
            keys, codes, lengths = keys[fits], codes[fits], lengths[fits]
        starts = range(0, len(keys), _ROWS_AT_ONCE)
        blocks = [codes[at : at + _ROWS_AT_ONCE].astype(np.float32) @ wanted for at in starts]
        cosines = np.concatenate(blocks) / lengths if blocks else lengths
        if count is not None and count < len(keys):
            least = np.partition(cosines, len(keys) - count)[len(keys) - count]
            keys, cosines = keys[cosines >= least], cosines[cosines >= least]
        return [int(key) for key in keys[np.lexsort((keys, -cosines))][:count]]
