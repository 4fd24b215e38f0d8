"""The full-text index of a SQLite memory store: what a record goes into it as, and out again.

The index keeps no texts, so that a record can only be taken out by the very words that it went in
with. They depend on the record and, for records that are only understood with their neighbours, on
those: whoever is about to change a row takes it and its neighbours out first, and puts them in after.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final, TypeAlias

from context_assembler.memory.damage import DAMAGES
from context_assembler.memory.preparing import text_leaves
from context_assembler.memory.sqlite_rows import fetch_rows
from context_assembler.memory.sqlite_schema import read_state, write_state
from context_assembler.values.codec import load_json
from context_assembler.values.memories.kinds import KINDS
from context_assembler.values.memories.words import index_text

Entry: TypeAlias = tuple[int, str, str, str]
"""A key, the words of its own, those of its neighbours, and its tags."""

CONTEXT_CHARS: Final = 2_000  # of a neighbour; changing this, or any word below, needs a new index

# Where an index keeps no lengths, SQLite's bm25() takes each column for -1 word long, and divides by
# the average: in a store of very short texts its measure would turn negative, and the order around.
# These words raise the average; nobody looks for them. To go when bm25() can leave lengths out.
# Source: fts5ApiColumnSize in https://github.com/sqlite/sqlite/blob/master/ext/fts5/fts5_main.c
# (read 2026-11-28)
_FILLER: Final = " ".join(["f0"] * 12)

_MERGED_EVERY: Final = 4  # records: where they come one by one, each is a piece of its own
_MERGED_PAGES: Final = 32  # more than those take, each time that the store grows fourfold
_RECORDS_PER_PAGE: Final = 2  # that is merged beyond those, where many records come at once
_LEAST_AT_ONCE: Final = 50  # records: behind so many, and an eighth of the store, all is merged
_LEAST_SHARE: Final = 8

# Each time that all is merged SQLite counts two levels more, and takes an index with 2,000 for
# damaged: long before, it is made anew. Newer versions than 3.40 stop counting at 64.
# Source: fts5IndexOptimizeStruct, fts5StructureDecode in
# https://github.com/sqlite/sqlite/blob/version-3.40.1/ext/fts5/fts5_index.c (read 2026-11-29)
_MOST_WHOLE_MERGES: Final = 200
_WHOLE_MERGES: Final = "whole_merges"
_MERGE_ALL: Final = "INSERT INTO memory_words (memory_words) VALUES ('optimize')"

_TEXT_OR_NONE: Final = (str, type(None))
_WHOLE_OR_NONE: Final = (int, type(None))
_TURN_LIKE: Final = frozenset(kind for kind, spec in KINDS.items() if spec.is_turn_like)
_SELECT: Final = "SELECT kind, namespace, author, text, details, line FROM memory_records"
_INSERT: Final = "INSERT INTO memory_words (rowid, text, context, tags) VALUES (?, ?, ?, ?)"
_DELETE: Final = (
    "INSERT INTO memory_words (memory_words, rowid, text, context, tags) "
    "VALUES ('delete', ?, ?, ?, ?)"
)
_SIDES: Final[Mapping[str, str]] = {
    "before": "key < ? ORDER BY key DESC LIMIT ?",
    "after": "key > ? ORDER BY key LIMIT ?",
}


def add_to_index(connection: sqlite3.Connection, keys: Iterable[int]) -> None:
    """Put the rows as they are into the index."""
    add_entries(connection, (_entry(connection, key)[0] for key in keys))


def add_entries(connection: sqlite3.Connection, entries: Iterable[Entry]) -> None:
    """Put rows into the index, by what they go into it as; in the order of their keys it is fast."""
    connection.executemany(_INSERT, entries)


def merge_index(connection: sqlite3.Connection, *, first_key: int, last_key: int) -> None:
    """Let the index go on merging its pieces, by so much as changed records of these keys call for.

    Every piece takes time in every search, so there should be few. By itself SQLite would do
    several times as much of it where records come one by one: it counts pages, however empty.
    """
    if last_key // _MERGED_EVERY == (first_key - 1) // _MERGED_EVERY:
        return
    pages = _MERGED_PAGES + (last_key - first_key + 1) // _RECORDS_PER_PAGE
    connection.execute(
        "INSERT INTO memory_words (memory_words, rank) VALUES ('merge', ?)", (pages,)
    )


def merge_added(connection: sqlite3.Connection, *, first_key: int, last_key: int) -> None:
    """Merge the pieces of the index behind records that were added: all of them behind many at once.

    SQLite goes by how often a piece was merged, not by its size: the large pieces that many records
    leave would be written again with the first few that come behind them one by one.
    """
    count = last_key - first_key + 1
    # No key is used twice: a store is so much larger each time, and the times are few.
    if count >= _LEAST_AT_ONCE and count * _LEAST_SHARE >= last_key:
        connection.execute(_MERGE_ALL)
    else:
        merge_index(connection, first_key=first_key, last_key=last_key)


def merge_whole_index(connection: sqlite3.Connection) -> None:
    """Leave one piece of the index, which takes some five microseconds for each record."""
    if _times_merged(connection) >= _MOST_WHOLE_MERGES:
        _make_anew(connection)
    connection.execute(_MERGE_ALL)
    write_state(connection, _WHOLE_MERGES, _times_merged(connection) + 1)


def take_from_index(connection: sqlite3.Connection, keys: Iterable[int]) -> None:
    """Take the rows out of the index; neither they nor their neighbours may have changed.

    Of a damaged row nobody knows the words that it went in with: the index is made anew before, of
    what the rows still say.
    """
    entries = [_entry(connection, key) for key in keys]
    if not all(is_whole for _, is_whole in entries):
        _make_anew(connection)
    connection.executemany(_DELETE, (entry for entry, _ in entries))


def _times_merged(connection: sqlite3.Connection) -> int:
    return int(read_state(connection, _WHOLE_MERGES) or 0)


def _make_anew(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO memory_words (memory_words) VALUES ('delete-all')")
    keys = connection.execute("SELECT key FROM memory_records ORDER BY key").fetchall()
    add_to_index(connection, (key for (key,) in keys))
    write_state(connection, _WHOLE_MERGES, 0)


def is_turn_like(kind: str) -> bool:
    """Whether the words of the neighbours count for records of that kind."""
    return kind in _TURN_LIKE


def keys_beside(connection: sqlite3.Connection, line: int, key: int) -> list[int]:
    """Return the keys of the nearest record on each side of a place in a line."""
    return [
        found
        for side in _SIDES.values()
        for (found,) in connection.execute(
            f"SELECT key FROM memory_records WHERE line = ? AND {side}",  # noqa: S608 – our own words
            (line, key, 1),
        )
    ]


def last_of_line(connection: sqlite3.Connection, line: int) -> tuple[int, str] | None:
    """Return key and text of the last record of a line."""
    rows = fetch_rows(
        connection,
        "SELECT key, text FROM memory_records WHERE line = ? ORDER BY key DESC LIMIT 1",
        (line,),
    )
    return next(((key, _text(text)) for key, text in rows), None)


def entry_of(
    key: int,
    *,
    kind: str,
    namespace: str,
    author: str | None,
    words: str,
    details: bytes | None,
    context: str,
) -> Entry:
    """Return what a record goes into the index as.

    Args:
        words: Its text as `index_text` returns it.
        context: The words of its neighbours, the earlier one's first.
    """
    if details is not None:
        words = " ".join((words, *map(index_text, text_leaves(load_json(details)))))
    if author is not None:
        words = f"{words} {index_text(author)}"
    return key, words, context, _tags(namespace, kind)


def context_words(text: str) -> str:
    """Return the words that a record adds to those of its neighbours."""
    return index_text(text[:CONTEXT_CHARS])


def namespace_tag(namespace: str) -> str:
    """Return the word that stands for a namespace in the index."""
    return f"n{blake2b(namespace.encode(errors='surrogatepass'), digest_size=6).hexdigest()}0"


def kind_tag(kind: str) -> str:
    """Return the word that stands for a kind in the index."""
    return f"k{kind.replace('_', '')}0"


def may_be_tag(term: str) -> bool:
    """Whether a word of a query, however the index cuts it, may be one of those among the tags."""
    return "0" in term  # in which each of them ends


@lru_cache(1_024)
def _tags(namespace: str, kind: str) -> str:
    return f"{namespace_tag(namespace)} {kind_tag(kind)} {_FILLER}"


def _entry(connection: sqlite3.Connection, key: int) -> tuple[Entry, bool]:
    """Return what a row goes into the index as, and whether the row is whole, as far as that goes."""
    [row] = fetch_rows(connection, f"{_SELECT} WHERE key = ?", (key,))
    kind, namespace, author, text, details, line = row
    is_whole = isinstance(author, _TEXT_OR_NONE) and isinstance(line, _WHOLE_OR_NONE)
    is_whole = is_whole and isinstance(namespace, str) and isinstance(text, str) and kind in KINDS
    if details is not None and not _is_readable(details):
        details, is_whole = None, False
    around: list[str | None] = []
    if line is not None and is_turn_like(kind):
        around = _texts_beside(connection, line, key)
    entry = entry_of(
        key,
        kind=_text(kind),
        namespace=_text(namespace),
        author=author if isinstance(author, str) else None,
        words=index_text(_text(text)),
        details=details,
        context=" ".join(context_words(text) for text in around if text is not None),
    )
    return entry, is_whole and None not in around


def _texts_beside(connection: sqlite3.Connection, line: int, key: int) -> list[str | None]:
    """Return the texts of the nearest record on each side, `None` for a damaged one."""
    return [
        text if isinstance(text, str) else None
        for side in _SIDES.values()
        for (text,) in fetch_rows(
            connection,
            f"SELECT text FROM memory_records WHERE line = ? AND {side}",  # noqa: S608 – our own words
            (line, key, 1),
        )
    ]


def _is_readable(details: bytes) -> bool:
    try:
        list(text_leaves(load_json(details)))
    except DAMAGES:
        return False
    return True


def _text(stored: object) -> str:
    """Return what stands in a row in the place of a text; nothing where that is none."""
    return stored if isinstance(stored, str) else ""
