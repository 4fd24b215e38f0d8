"""Many records at once are kept as they are one by one."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.memory.preparing import prepare_record
from context_assembler.memory.sqlite_index import add_to_index
from context_assembler.memory.sqlite_rows import to_moment
from context_assembler.memory.sqlite_schema import SCHEMA
from context_assembler.memory.sqlite_writes import (
    forget_records,
    optimize_index,
    remember_records,
)
from context_assembler.sqlite.files import open_in_memory
from context_assembler.values.memories.metadata import CommitMetadata
from context_assembler.values.memories.records import MemoryRecord, Remembered
from context_assembler.values.memories.vectors import Vector
from tests.memory.test_memory_sqlite import words_in

NOON = to_moment(1_780_000_000_000_000)


def remember(connection: sqlite3.Connection, *records: MemoryRecord) -> list[Remembered]:
    prepared = [
        prepare_record(record, now=NOON, masks_secrets=False, finds_duplicates=True)
        for record in records
    ]
    return remember_records(connection, prepared)


def contents(connection: sqlite3.Connection) -> tuple[list[object], list[object]]:
    rows = connection.execute("SELECT * FROM memory_records ORDER BY key").fetchall()
    return rows, list(words_in(connection))


records = st.builds(
    MemoryRecord,
    text=st.sampled_from(["one", "ONE", "two words", "parseToolCalls", "我喜欢徒步", "x" * 2_100]),
    kind=st.sampled_from(["events", "events", "chunks", "memories", "commits"]),
    id=st.sampled_from(["", "", "", "a", "b", "c"]),
    session_id=st.sampled_from([None, "s", "t"]),
    parent_id=st.sampled_from([None, "p"]),
    author=st.sampled_from([None, "Ada"]),
    importance=st.sampled_from([0.2, 0.9]),
    vector=st.sampled_from([None, Vector.pack("tiny", [1.0, 0.5])]),
    extras=st.sampled_from([{}, {"note": "Sort by camelCase"}]),
)
batches = st.lists(st.lists(records, min_size=1, max_size=8), max_size=3)


@settings(max_examples=150, deadline=None)
@given(batches, st.sets(st.sampled_from(["a", "b"])))
def test_a_batch_is_kept_as_its_records_are_one_by_one(
    given_batches: list[list[MemoryRecord]], forgotten: set[str]
) -> None:
    with closing(open_in_memory(SCHEMA)) as whole, closing(open_in_memory(SCHEMA)) as single:
        for batch in given_batches:
            together = remember(whole, *batch)
            apart = [outcome for record in batch for outcome in remember(single, record)]
            for connection in (whole, single):
                forget_records(connection, sorted(forgotten))

            assert together == apart
            assert contents(whole) == contents(single)


def outcomes(kept: Sequence[Remembered]) -> list[str]:
    return [row.outcome for row in kept]


def test_a_twin_in_the_same_batch_is_found_and_gives_its_importance() -> None:
    said = MemoryRecord(text="Tea at five.", importance=0.2)
    with closing(open_in_memory(SCHEMA)) as connection:
        first, twin = remember(
            connection, said, replace(said, text="tea  AT five.", importance=0.7)
        )

        rows = connection.execute("SELECT id, importance FROM memory_records").fetchall()

    assert outcomes([first, twin]) == ["added", "duplicate"]
    assert rows == [(first.id, 0.7)]
    assert twin.id == first.id


def test_what_a_record_said_before_it_was_replaced_has_no_twin() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        remember(connection, MemoryRecord(id="a", text="tea"))
        kept = remember(
            connection,
            MemoryRecord(id="a", text="coffee"),
            MemoryRecord(text="tea"),
            MemoryRecord(text="coffee"),
        )

    assert outcomes(kept) == ["replaced", "added", "duplicate"]
    assert kept[2].id == "a"


def test_of_several_twins_the_one_stored_first_is_told() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        remember(connection, *(MemoryRecord(id=name, text="tea") for name in "ba"))
        kept = remember(connection, MemoryRecord(id="b", text="TEA"), MemoryRecord(text="tea"))

    assert [row.id for row in kept] == ["b", "b"]


def test_equal_texts_of_two_commits_are_two_records() -> None:
    commits = [
        MemoryRecord(text="fix", kind="commits", metadata=CommitMetadata(sha=sha)) for sha in "ab"
    ]
    with closing(open_in_memory(SCHEMA)) as connection:
        assert outcomes(remember(connection, *commits)) == ["added", "added"]


def test_keys_are_never_used_twice() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        remember(connection, *(MemoryRecord(id=name, text=name) for name in "abc"))
        forget_records(connection, ["b", "c"])
        remember(connection, MemoryRecord(id="d", text="d"))

        rows = connection.execute("SELECT key, id FROM memory_records ORDER BY key").fetchall()

    assert rows == [(1, "a"), (4, "d")]


@pytest.mark.parametrize("texts", [("tea",), ("tea", "coffee")])
def test_looking_for_twins_and_ids_reads_an_index(texts: tuple[str, ...]) -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        asked: list[str] = []
        connection.set_trace_callback(asked.append)
        remember(connection, *(MemoryRecord(text=text) for text in texts))
        connection.set_trace_callback(None)
        looks = [query for query in asked if query.startswith("SELECT id") and " IN (" in query]
        plans = [
            step[3]
            for query in looks
            for step in connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
            if "memory_records" in step[3]
        ]

    assert len(looks) == 2
    assert [plan.partition(" ")[0] for plan in plans] == ["SEARCH", "SEARCH"]


def count_pieces(connection: sqlite3.Connection) -> int:
    (pieces,) = connection.execute("SELECT count(DISTINCT segid) FROM memory_words_idx").fetchone()
    return int(pieces)


def test_records_that_come_and_change_one_by_one_leave_few_pieces_in_the_index() -> None:
    pieces: list[int] = []
    with closing(open_in_memory(SCHEMA)) as connection:
        for changes in range(3):
            for number in range(200):
                record = MemoryRecord(id=str(number), text=f"number {number} {changes}")
                remember(connection, record)
                pieces.append(count_pieces(connection))
        forget_records(connection, [str(number) for number in range(0, 200, 2)])
        pieces.append(count_pieces(connection))

        found = connection.execute(
            "SELECT count(*) FROM memory_words WHERE memory_words MATCH 'number'"
        ).fetchone()

        assert max(pieces) <= 16
        assert found == (100,)


def pieces_in(connection: sqlite3.Connection) -> set[int]:
    return {piece for (piece,) in connection.execute("SELECT DISTINCT segid FROM memory_words_idx")}


def test_what_comes_one_by_one_leaves_the_piece_of_many_at_once_as_it_is() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        for start in (0, 600):
            many = range(start, start + 600)
            remember(connection, *(MemoryRecord(text=f"number {number}") for number in many))

        large = pieces_in(connection)
        for number in range(100):
            remember(connection, MemoryRecord(text=f"one more {number}"))

        assert len(large) == 1
        assert large < pieces_in(connection)


def test_an_optimized_index_is_of_one_piece_and_holds_the_same_words() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        for start in range(0, 1_500, 50):
            some = range(start, start + 50)
            remember(connection, *(MemoryRecord(text=f"number {number}") for number in some))
        before, pieces = contents(connection), count_pieces(connection)

        optimize_index(connection)

        assert pieces > 1 == count_pieces(connection)
        assert contents(connection) == before


def test_an_index_can_be_optimized_as_often_as_one_likes() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        for number in range(1_100):
            remember(connection, MemoryRecord(text=f"number {number}", kind="events"))
            optimize_index(connection)

        found = connection.execute(
            "SELECT count(*) FROM memory_words WHERE memory_words MATCH 'number'"
        ).fetchone()
        words, pieces = list(words_in(connection)), count_pieces(connection)
        connection.execute("INSERT INTO memory_words (memory_words) VALUES ('delete-all')")
        add_to_index(connection, range(1, 1_101))

        assert pieces == 1
        assert found == (1_100,)
        assert words == list(words_in(connection))


def test_records_that_change_one_by_one_never_merge_the_whole_index() -> None:
    with closing(open_in_memory(SCHEMA)) as connection:
        remember(connection, *(MemoryRecord(id=str(n), text=f"number {n}") for n in range(400)))
        [large] = pieces_in(connection)

        for number in range(100):
            remember(connection, MemoryRecord(id=str(number % 8), text=f"changed {number}"))
        forget_records(connection, ["3", "7"])

        assert large in pieces_in(connection)
