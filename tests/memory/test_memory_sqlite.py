"""What holds for the SQLite memory store beyond the contract: processes, crashes, bad files."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.errors import (
    MemoryFormatError,
    MemoryUnavailableError,
    MissingExtraError,
    UnknownMemoryError,
)
from context_assembler.memory import SqliteMemoryStore, export_memories
from context_assembler.memory.preparing import prepare_record
from context_assembler.memory.sqlite_index import add_to_index, namespace_tag
from context_assembler.memory.sqlite_match import (
    FLOOR_ROWS,
    TermCounts,
    match_expression,
    meets_filters,
)
from context_assembler.memory.sqlite_rows import to_moment
from context_assembler.memory.sqlite_schema import SCHEMA
from context_assembler.memory.sqlite_search import Recollection, search_records
from context_assembler.memory.sqlite_writes import forget_records, remember_records
from context_assembler.memory.vector_scan import VectorScan
from context_assembler.memory_assembler import MemoryAssembler
from context_assembler.sessions import SqliteStore
from context_assembler.sqlite.files import open_in_memory
from context_assembler.values.events import user_event
from context_assembler.values.memories.records import (
    FIRST_MOMENT,
    LAST_MOMENT,
    NO_FILTERS,
    MemoryFilters,
    MemoryHit,
    MemoryRecord,
)
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.memories.words import query_terms

REPOSITORY = Path(__file__).parents[2]
FEW_WORDS = ["pear", "pears", "apple", "Kiwi", "f1", "memories", "梨", "梨子"]
NOON = to_moment(1_780_000_000_000_000)


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.memory.remember_in_process", *map(str, arguments)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def search(connection: sqlite3.Connection, query: str) -> list[MemoryHit]:
    return search_records(
        connection,
        query,
        limit=20,
        filters=NO_FILTERS,
        vector=None,
        recollection=Recollection(),
    )


def ranked(connection: sqlite3.Connection, match: str) -> list[tuple[int, float]]:
    return connection.execute(
        "SELECT rowid, bm25(memory_words, 1.0, 0.3, 0.0) FROM memory_words "
        "WHERE memory_words MATCH ? ORDER BY rowid",
        (match,),
    ).fetchall()


async def everything(store: SqliteMemoryStore) -> list[MemoryRecord]:
    return [record async for record in store.export()]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def remember(connection: sqlite3.Connection, records: Sequence[MemoryRecord]) -> None:
    prepared = [
        prepare_record(record, now=NOON, masks_secrets=False, finds_duplicates=True)
        for record in records
    ]
    remember_records(connection, prepared)


def words_in(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    """Return every word of the index with its record and place."""
    connection.execute(
        "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, memory_words, instance)"
    )
    rows = connection.execute("SELECT term, doc, col, offset FROM words ORDER BY 1, 2, 3, 4")
    found = rows.fetchall()
    connection.execute("DROP TABLE temp.words")
    return found


async def test_memories_survive_closing_and_opening(tmp_path: Path) -> None:
    async with SqliteMemoryStore(tmp_path / "memory.db") as first:
        await first.remember([MemoryRecord(text="a zebra")])

    async with SqliteMemoryStore(tmp_path / "memory.db") as second:
        assert len(await second.search("zebra")) == 1


async def test_reading_creates_no_file(tmp_path: Path) -> None:
    async with SqliteMemoryStore(tmp_path / "memory.db") as store:
        assert await store.search("zebra") == []
        assert (await store.stats()).records == 0
        with pytest.raises(UnknownMemoryError):
            await store.get("x")

    assert names_in(tmp_path) == []


async def test_two_stores_over_one_file_see_each_other_at_once(tmp_path: Path) -> None:
    one = SqliteMemoryStore(tmp_path / "memory.db")
    two = SqliteMemoryStore(tmp_path / "memory.db")
    vector = Vector.pack("tiny", [1.0])

    assert await two.search("zebra", vector=vector) == []
    await one.remember([MemoryRecord(id="z", text="a zebra", vector=vector)])
    assert len(await two.search("zebra")) == 1
    assert len(await two.search("", vector=vector)) == 1
    await two.forget(["z"])

    assert await one.search("zebra", vector=vector) == []
    await one.close()
    await two.close()


def test_many_processes_remember_into_a_new_file_at_once(tmp_path: Path) -> None:
    writers = [start(tmp_path / "memory.db", f"writer{n}", 8, 3) for n in range(3)]
    for writer in writers:
        _, complaint = writer.communicate(timeout=90)
        assert (writer.returncode, complaint) == (0, "")

    async def read() -> tuple[int, int, list[MemoryRecord]]:
        async with SqliteMemoryStore(tmp_path / "memory.db") as store:
            own = await store.search("writer1", limit=1_000)
            one_batch = await store.search("word8", limit=1_000)
            said = [hit for hit in one_batch if "word8" in hit.record.text]
            by_own = [hit for hit in own if "writer1" in hit.record.text]
            return len(by_own), len(said), await everything(store)

    by_writer, by_batch, records = asyncio.run(read())
    texts = [record.text for record in records]
    assert (by_writer, by_batch, len(texts)) == (24, 9, 72)
    assert texts[::3] == texts[1::3] == texts[2::3]


@pytest.mark.parametrize("acknowledged", [1, 5])
def test_a_killed_process_leaves_all_of_a_batch_or_nothing(
    tmp_path: Path, acknowledged: int
) -> None:
    writer = start(tmp_path / "memory.db", "w", 0, 40)
    assert writer.stdout is not None
    for _ in range(acknowledged):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=60)

    async def read() -> list[str]:
        async with SqliteMemoryStore(tmp_path / "memory.db") as store:
            await store.remember([MemoryRecord(text="after")])
            return [record.text for record in await everything(store)]

    said = asyncio.run(read())[:-1]
    batches = len(said) // 40
    assert batches >= acknowledged
    assert said == [f"w said word{n}" for n in range(1, batches + 1) for _ in range(40)]


async def test_a_reader_does_not_wait_for_a_writer_that_holds_the_lock(tmp_path: Path) -> None:
    store = SqliteMemoryStore(tmp_path / "memory.db", busy_seconds=0.05)
    await store.remember([MemoryRecord(text="a zebra")])
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(MemoryUnavailableError, match="another process holds its lock"):
            await store.remember([MemoryRecord(text="no")])
        found = await store.search("zebra")
        other.execute("ROLLBACK")

    assert len(found) == 1
    await store.close()


async def test_memories_and_sessions_may_share_a_file(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "agent.db") as sessions:
        await sessions.append("trip", [user_event("hi")])
    async with SqliteMemoryStore(tmp_path / "agent.db") as store:
        await store.remember([MemoryRecord(text="a zebra")])
        assert len(await store.search("zebra")) == 1

    async with SqliteStore(tmp_path / "agent.db") as sessions:
        assert (await sessions.head("trip")).last_seq == 1


def _not_a_database(path: Path) -> None:
    path.write_bytes(b"this is a letter, no database\n" * 100)


def _folder(path: Path) -> None:
    path.mkdir()


def _newer_schema(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE memory_records (key INTEGER)")
        connection.execute("PRAGMA user_version = 99")


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE memory_records (token TEXT)")


def _other_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 7")


BAD_FILES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "not a database": (_not_a_database, "not a SQLite database", "another file"),
    "a folder": (_folder, "it is a folder", "a file in it"),
    "a newer schema": (
        _newer_schema,
        f"version 99, this package knows {len(SCHEMA.migrations)}",
        "--upgrade",
    ),
    "a table of that name": (_foreign, "another program", "another file"),
    "another program's version": (_other_program, "another program", "another file"),
}


@pytest.mark.parametrize(("make", "reason", "remedy"), BAD_FILES.values(), ids=BAD_FILES.keys())
async def test_a_memory_file_in_bad_shape_is_refused_with_a_remedy(
    tmp_path: Path, make: Callable[[Path], None], reason: str, remedy: str
) -> None:
    make(tmp_path / "memory.db")
    async with SqliteMemoryStore(tmp_path / "memory.db", busy_seconds=0.05) as store:
        with pytest.raises(MemoryUnavailableError, match=reason) as writing:
            await store.remember([MemoryRecord(text="hi")])
        with pytest.raises(MemoryUnavailableError, match=reason) as reading:
            await store.search("hi")

    assert remedy in writing.value.remedy
    assert remedy in reading.value.remedy
    assert str(tmp_path) in writing.value.location


DAMAGES = {
    "no JSON": ("details = x'7b'", "cannot be read"),
    "no object": ("details = x'5b5d'", "not an object"),
    "a wrong field": ("""details = CAST('{"metadata":{"tags":3}}' AS BLOB)""", "metadata: tags"),
    "a newer row": ("format_version = 9", "format version 9"),
    "a kind of tomorrow": ("kind = 'dreams'", "'dreams' is not known"),
}


@pytest.mark.parametrize(("change", "complaint"), DAMAGES.values(), ids=DAMAGES.keys())
async def test_a_damaged_memory_is_named(tmp_path: Path, change: str, complaint: str) -> None:
    store = SqliteMemoryStore(tmp_path / "memory.db")
    await store.remember([MemoryRecord(id="mine", text="a zebra")])
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection, connection:
        connection.execute(f"UPDATE memory_records SET {change}")

    with pytest.raises(MemoryFormatError, match="The memory 'mine'") as caught:
        await store.get("mine")

    assert complaint in str(caught.value)
    await store.close()


records = st.builds(
    MemoryRecord,
    text=st.sampled_from(["one", "two words", "parseToolCalls", "我喜欢徒步", ""]),
    kind=st.sampled_from(["events", "events", "chunks", "memories"]),
    id=st.sampled_from(["", "a", "b", "c", "d"]),
    session_id=st.sampled_from([None, "s", "t"]),
    parent_id=st.sampled_from([None, "p"]),
    author=st.sampled_from([None, "Ada"]),
)
steps = st.lists(
    st.one_of(
        st.lists(records, min_size=1, max_size=5), st.sets(st.sampled_from(["a", "b", "c", "d"]))
    ),
    max_size=8,
)


@settings(max_examples=120, deadline=None)
@given(steps=steps)
def test_the_index_is_what_indexing_everything_anew_would_give(
    steps: list[list[MemoryRecord] | set[str]],
) -> None:
    with (
        closing(open_in_memory(SCHEMA)) as connection,
        closing(open_in_memory(SCHEMA)) as fresh,
    ):
        for step in steps:
            if isinstance(step, set):
                forget_records(connection, sorted(step))
            else:
                remember(connection, step)

        rows = connection.execute("SELECT * FROM memory_records").fetchall()
        for row in rows:
            fresh.execute(f"INSERT INTO memory_records VALUES ({', '.join('?' * len(row))})", row)
        add_to_index(fresh, [row[0] for row in rows])

        assert words_in(connection) == words_in(fresh)


def test_common_words_are_only_looked_for_where_rare_ones_find_too_few() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        remember(
            connection,
            [
                MemoryRecord(text=f"common half{i % 2} third{i % 3} number{i}")
                for i in range(3 * FLOOR_ROWS)
            ],
        )

        def expression(*terms: str, filters: MemoryFilters = NO_FILTERS) -> str | None:
            return match_expression(connection, terms, filters, TermCounts())

        assert expression("nothing") is None
        assert expression("common", "number7") == '("number7" OR "common")'
        assert expression("common", "half1", "third2") == '("third2")'
        assert expression("half1", "common") == '("half1")'
        few = expression("number7", filters=MemoryFilters(namespaces=("elsewhere",)))
        assert few is not None
        assert few.startswith("tags : ")
        there = expression("common", "third2", filters=MemoryFilters(namespaces=("elsewhere",)))
        assert there is not None
        assert there.endswith('("third2" OR "common")')
        every = expression("number7", filters=MemoryFilters(kinds=("memories",)))
        assert every == '("number7")'


WORDS_OF_TAGS = {
    "the filler": ("f0", "F0", "f0s", "\u1e1e0"),
    "a kind": ("kmemories0", "kchunks0", "kmemories"),
    "a project": (namespace_tag("here"), namespace_tag(""), namespace_tag("here").upper()),
}


@pytest.mark.parametrize("words", WORDS_OF_TAGS.values(), ids=WORDS_OF_TAGS.keys())
def test_nothing_is_found_by_the_words_that_stand_for_its_project_or_kind(
    words: tuple[str, ...],
) -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        remember(connection, [MemoryRecord(text="pear", namespace="here")])

        found = [search(connection, word) for word in words]

        assert found == [[]] * len(words)


@settings(max_examples=60)
@given(
    texts=st.lists(st.lists(st.sampled_from(FEW_WORDS), max_size=5), min_size=1, max_size=12),
    query=st.lists(st.sampled_from(FEW_WORDS), min_size=1, max_size=5),
)
def test_a_search_finds_the_same_whether_it_looks_at_columns_or_not(
    texts: list[list[str]], query: list[str]
) -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        remember(
            connection,
            [
                MemoryRecord(text=" ".join(words) or "-", kind="events", session_id="one")
                for words in texts
            ],
        )
        terms = query_terms(" ".join(query))
        match = match_expression(connection, terms, NO_FILTERS, TermCounts()) or '"nothing"'

        found = ranked(connection, match)

        assert found == ranked(connection, f"{{text context}} : {match}")


def test_counts_are_remembered_until_something_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_assembler.memory.sqlite_match._MOST_REMEMBERED", 2)
    with closing(open_in_memory(SCHEMA)) as connection:
        remember(connection, [MemoryRecord(text="pear")])
        counts = TermCounts()
        counts.refresh(connection)
        asked: list[str] = []
        connection.set_trace_callback(asked.append)

        for match in ('"pear"', '"pear"', '"fig"', '"plum"', '"pear"'):
            counts.count(connection, match, most=5)
        counts.refresh(connection)
        counts.count(connection, '"pear"', most=5)
        assert sum("MATCH" in statement for statement in asked) == 4
        remember(connection, [MemoryRecord(text="pear tree")])
        counts.refresh(connection)

        assert counts.count(connection, '"pear"', most=5) == 2


def test_more_vectors_than_a_block_holds_are_all_compared() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        scan = VectorScan()
        wanted = Vector.pack("tiny", [1.0, 0.0])
        remember(connection, [MemoryRecord(text="first", vector=Vector.pack("tiny", [1.0, 0.2]))])
        assert [key for key, _ in scan.nearest(connection, wanted, count=3)] == [1]
        remember(
            connection,
            [
                MemoryRecord(text=str(i), vector=Vector.pack("tiny", [1.0, i / 10]))
                for i in range(3, 9_000)
            ],
        )

        nearest = scan.nearest(connection, wanted, count=3)

        assert [key for key, _ in nearest] == [1, 2, 3]
        assert nearest[0][1] == pytest.approx(wanted.cosine(Vector.pack("tiny", [1.0, 0.2])), 1e-5)


def test_the_nearest_that_a_filter_leaves_are_found_however_few() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        scan, chance = VectorScan(), random.Random(3)
        vectors = [
            Vector.pack("tiny", [chance.gauss(0, 1) for _ in range(8)]) for _ in range(3_000)
        ]
        remember(
            connection,
            [
                MemoryRecord(text=str(i), namespace=f"project{i % 500}", vector=vector)
                for i, vector in enumerate(vectors)
            ],
        )
        wanted = vectors[7]

        def nearest(filters: MemoryFilters, among: Sequence[int]) -> bool:
            expected = sorted(among, key=lambda i: (-wanted.cosine(vectors[i]), i))[:10]
            found = scan.nearest(connection, wanted, count=10, filters=filters)
            return [key - 1 for key, _ in found] == expected

        assert nearest(NO_FILTERS, range(3_000))
        assert nearest(MemoryFilters(namespaces=("project3",)), range(3, 3_000, 500))
        assert nearest(
            MemoryFilters(namespaces=("project3", "project4")),
            [i for i in range(3_000) if i % 500 in {3, 4}],
        )
        assert nearest(MemoryFilters(namespaces=("elsewhere",)), [])


FILTERS_IN_THE_INDEX = {
    "none": (NO_FILTERS, True),
    "a namespace": (MemoryFilters(namespaces=("here",)), True),
    "a namespace and a kind": (MemoryFilters(namespaces=("here",), kinds=("events",)), True),
    "a kind that most records have": (MemoryFilters(kinds=("memories",)), False),
    "that kind, in a namespace": (
        MemoryFilters(namespaces=("here",), kinds=("memories",)),
        False,
    ),
    "more namespaces than are asked for": (
        MemoryFilters(namespaces=tuple(f"here{i}" for i in range(40))),
        False,
    ),
    "another condition beside": (
        MemoryFilters(namespaces=("here",), excluded_ids=("a",)),
        False,
    ),
}


@pytest.mark.parametrize(
    ("filters", "is_met"), FILTERS_IN_THE_INDEX.values(), ids=FILTERS_IN_THE_INDEX.keys()
)
def test_the_index_tells_some_filters_alone(filters: MemoryFilters, is_met: bool) -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        remember(connection, [MemoryRecord(text=f"pear {i}") for i in range(9)])

        match = match_expression(connection, ["pear"], filters, TermCounts())

        assert match is not None
        assert meets_filters(match, filters) == is_met


def test_a_word_that_is_everywhere_ranks_nothing_and_finds_the_newest() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        remember(
            connection,
            [MemoryRecord(text=f"common number{i}") for i in range(3 * FLOOR_ROWS)],
        )

        def found(query: str, filters: MemoryFilters = NO_FILTERS) -> list[int]:
            hits = search_records(
                connection,
                query,
                limit=3,
                filters=filters,
                vector=None,
                recollection=Recollection(),
            )
            assert all(hit.bm25 is not None and hit.bm25 > 0 for hit in hits)
            return [hit.order for hit in hits]

        newest = 3 * FLOOR_ROWS
        assert set(found("common")) == {newest, newest - 1, newest - 2}
        assert found("common number7")[0] == 8
        assert set(found("common number7")) == {8, newest, newest - 1}
        assert len(found("common", MemoryFilters(kinds=("memories",)))) == 3
        assert found("common", MemoryFilters(kinds=("events",))) == []


def test_vectors_are_looked_for_under_the_kind_and_namespace_that_records_have_now() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        scan, vector = VectorScan(), Vector.pack("tiny", [1.0, 0.5])
        remember(
            connection,
            [
                MemoryRecord(id="a", text="a", namespace="here", vector=vector),
                MemoryRecord(id="b", text="b", namespace="here", kind="events", vector=vector),
                MemoryRecord(id="c", text="c", namespace="here", author="Ada"),
            ],
        )

        def nearest(filters: MemoryFilters) -> list[int]:
            found = scan.nearest(connection, vector, count=5, filters=filters)
            return [key for key, _ in found]

        assert nearest(MemoryFilters(namespaces=("here",))) == [1, 2]
        assert nearest(MemoryFilters(namespaces=("here",), kinds=("events",))) == [2]
        assert list(scan.similarities(vector, [3, 2, 9, 1])) == [2, 1]
        remember(connection, [MemoryRecord(id="a", text="a", namespace="there", vector=vector)])
        assert nearest(MemoryFilters(namespaces=("there",))) == [1]
        assert nearest(MemoryFilters(namespaces=("here",), excluded_ids=("b",))) == []


async def test_vectors_are_dropped_so_that_another_model_can_come(tmp_path: Path) -> None:
    async with SqliteMemoryStore(tmp_path / "memory.db") as store:
        await store.remember([MemoryRecord(id="a", text="a", vector=Vector.pack("old", [1.0]))])
        assert len(await store.search("", vector=Vector.pack("old", [1.0]))) == 1

        await store.drop_vectors()

        assert (await store.get("a")).vector is None
        await store.remember([MemoryRecord(id="b", text="b", vector=Vector.pack("new", [1.0, 2]))])
        [hit] = await store.search("", vector=Vector.pack("new", [1.0, 2]))
        assert hit.record.id == "b"


async def test_without_numpy_words_still_find_and_vectors_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    async with SqliteMemoryStore(":memory:") as store:
        await store.remember([MemoryRecord(text="a pear", vector=Vector.pack("tiny", [1.0]))])

        assert len(await store.search("pear")) == 1
        with pytest.raises(MissingExtraError, match=r"context-assembler\[memory\]"):
            await store.search("pear", vector=Vector.pack("tiny", [1.0]))


async def test_times_are_the_clocks(tmp_path: Path) -> None:
    moments = iter([100.0, 200.0, 150.0])
    async with SqliteMemoryStore(tmp_path / "m.db", clock=lambda: next(moments)) as store:
        [kept] = await store.remember([MemoryRecord(text="a")])
        await store.touch([kept.id])
        await store.touch([kept.id])

        found = await store.get(kept.id)

    assert found.created_at == to_moment(100_000_000)
    assert found.last_access_at == to_moment(200_000_000)
    assert found.access_count == 2


@pytest.mark.parametrize("stamp", [-62_135_646_800_000_000, 2**62])
async def test_a_file_with_a_time_beyond_all_years_is_read(tmp_path: Path, stamp: int) -> None:
    path = tmp_path / "m.db"
    async with SqliteMemoryStore(path) as store:
        await store.remember([MemoryRecord(id="a", text="tea is old"), MemoryRecord(text="no")])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE memory_records SET created_at = ?, last_access_at = ? WHERE id = 'a'",
            (stamp, stamp),
        )
    nearest = FIRST_MOMENT if stamp < 0 else LAST_MOMENT

    async with SqliteMemoryStore(path) as store:
        found = await store.get("a")
        stats = await store.stats()
        context = await MemoryAssembler(store).assemble_context("tea")
        exported = await export_memories(store, tmp_path / "out.jsonl")

    assert found.created_at == found.last_access_at == nearest
    assert nearest in (stats.oldest_at, stats.newest_at)
    assert [shown.record.id for shown in context.items] == ["a"]
    assert exported == 2


async def test_duplicates_are_kept_where_nobody_wants_them_found() -> None:
    async with SqliteMemoryStore(None, finds_duplicates=False) as store:
        kept = await store.remember([MemoryRecord(text="tea", created_at=NOON)] * 2)

        assert [row.outcome for row in kept] == ["added", "added"]
        assert kept[1].id == f"{kept[0].id}-2"


def test_a_query_is_answered_alike_in_every_process(tmp_path: Path) -> None:
    async def ask() -> list[tuple[str, float | None]]:
        async with SqliteMemoryStore(tmp_path / "memory.db") as store:
            await store.remember(
                [MemoryRecord(id=str(i), text=f"pear {i % 7}", created_at=NOON) for i in range(50)]
            )
            return [(hit.record.id, hit.bm25) for hit in await store.search("pear 3")]

    expected = asyncio.run(ask())
    code = (
        "import asyncio\n"
        "from context_assembler.memory import SqliteMemoryStore\n"
        "async def main():\n"
        f"    async with SqliteMemoryStore({str(tmp_path / 'memory.db')!r}) as store:\n"
        "        print([(h.record.id, h.bm25) for h in await store.search('pear 3')])\n"
        "asyncio.run(main())\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )

    assert done.stdout.strip() == str(expected)
