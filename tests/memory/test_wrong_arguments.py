"""What makes a store, a source, filters or bounds is refused by its name where it cannot be one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import InvalidParameterError
from context_assembler.memory import (
    MemoryFilters,
    MemoryRecord,
    PostgresMemoryStore,
    Retention,
    SqliteMemoryStore,
    export_memories,
    import_memories,
    open_lancedb,
    open_lancedb_table,
    open_qdrant,
    open_qdrant_collection,
)
from context_assembler.memory.field_names import FieldNames
from context_assembler.values.recall_settings import RecallSettings, RecallWeights
from tests.wrong_types import Call, call_of, find_bare_errors

FIELDS = FieldNames(vector="")
FIXED = ["masks_secrets", "finds_duplicates"]
HUGE = 10**400


def calls(folder: Path) -> Mapping[str, Call]:
    return {
        "lancedb": call_of(open_lancedb, folder, without=FIXED),
        "qdrant": call_of(open_qdrant, without=FIXED),
        "postgres": call_of(PostgresMemoryStore, "postgresql://localhost/x", without=FIXED),
        "a table": call_of(open_lancedb_table, folder, table="t"),
        "a collection": call_of(
            open_qdrant_collection, ":memory:", collection="c", fields=FIELDS, vector_model="m"
        ),
        "fields": call_of(FieldNames),
        "filters": call_of(MemoryFilters),
        "bounds": call_of(Retention),
        "settings": call_of(RecallSettings),
    }


NAMES = [*calls(Path())]


@pytest.mark.parametrize("name", NAMES)
async def test_nothing_that_makes_a_store_raises_a_bare_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # "x" is a good name for a folder
    assert await find_bare_errors(calls(tmp_path)[name]) == []


async def _kept_in_qdrant(**arguments: Any) -> None:
    async with open_qdrant(**arguments) as store:
        await store.remember([MemoryRecord(text="a boat")])
        await store.search("boat")


async def _kept_in_lancedb(location: Any, **arguments: Any) -> None:
    async with open_lancedb(location, **arguments) as store:
        await store.search("boat")


async def test_no_store_that_could_be_made_raises_a_bare_error_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    others = ("collection", "name", "embed", "clock", "api_key", "timeout_seconds")
    assert await find_bare_errors(Call(function=_kept_in_qdrant, others=others)) == []
    lance = Call(function=_kept_in_lancedb, args=(tmp_path,), others=("table", "name", "clock"))
    assert await find_bare_errors(lance) == []


REFUSED: Mapping[str, tuple[Callable[[], object], str]] = {
    "a path with a NUL": (lambda: SqliteMemoryStore("a\0b"), "path must not hold NUL"),
    "a path with a surrogate": (lambda: SqliteMemoryStore("\ud800"), "path must not hold NUL"),
    "a folder with a NUL": (lambda: open_lancedb("a\0b"), "location must not hold NUL"),
    "a location that is a number": (lambda: open_qdrant(3), "location must be a path"),  # type: ignore[arg-type]
    "a collection without a name": (lambda: open_qdrant(collection=""), "name of a collection"),
    "a table without a name": (lambda: open_lancedb("x", table=" "), "name of a table"),
    "a URL with a surrogate": (lambda: PostgresMemoryStore("\ud800"), "url must not hold NUL"),
    "endless patience": (
        lambda: PostgresMemoryStore("x", busy_seconds=float("inf")),
        "busy_seconds must be more than 0",
    ),
    "no connections": (lambda: PostgresMemoryStore("x", max_connections=0), "max_connections"),
    "an importance of 2**63": (
        lambda: MemoryFilters(least_importance=2**63),
        "least_importance must be at most 1",
    ),
    "an endless importance": (
        lambda: MemoryFilters(least_importance=float("inf")),
        "least_importance must be at most 1",
    ),
    "an importance that is true": (
        lambda: MemoryFilters(least_importance=True),
        "least_importance must be a number",
    ),
    "a kind alone": (lambda: MemoryFilters(kinds="events"), "kinds must be several"),  # type: ignore[arg-type]
    "half a record": (lambda: Retention(max_records=1.5), "max_records must be int"),  # type: ignore[arg-type]
    "a record that is true": (lambda: Retention(max_records=True), "max_records must be a number"),
    "an endless number": (lambda: Retention(max_records=HUGE), "max_records must be at most"),
    "a half-life": (lambda: RecallSettings(half_life_hours=HUGE), "half_life_hours must be"),
    "a floor": (lambda: RecallSettings(floor=HUGE), "floor must be from 0 to 1"),
    "seconds": (lambda: RecallSettings(seconds_in_all=HUGE), "seconds_in_all must be"),
    "a share": (lambda: RecallSettings(shares={"events": HUGE}), "shares"),
    "weights": (
        lambda: RecallSettings(weights=RecallWeights(relevance=HUGE, recency=0.0, importance=0.0)),
        "weights must be 0 or more",
    ),
}


@pytest.mark.parametrize(("make", "complaint"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_named(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(InvalidParameterError, match=complaint):
        make()


async def test_filters_take_whatever_is_given_one_after_another() -> None:
    filters = MemoryFilters(
        kinds=(kind for kind in ("events", "code")),  # type: ignore[arg-type] # callers without types
        namespaces={"b", "a"},  # type: ignore[arg-type]
        authors=["Ada"],  # type: ignore[arg-type]
    )

    assert (filters.kinds, filters.namespaces) == (("events", "code"), ("a", "b"))
    assert filters.authors == ("Ada",)
    async with SqliteMemoryStore(None) as store:
        await store.remember([MemoryRecord(text="a boat", kind="code")])
        assert len(await store.search("boat", filters=MemoryFilters(kinds=["code"]))) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
async def test_no_file_of_memories_has_a_path_that_cannot_be(path: str) -> None:
    async with SqliteMemoryStore(None) as store:
        for act in (export_memories, import_memories):
            with pytest.raises(InvalidParameterError, match="file must not hold NUL"):
                await act(store, path)
