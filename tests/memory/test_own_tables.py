"""Tables and collections that somebody else made are recalled from as they are."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import (
    ConfigurationError,
    InvalidParameterError,
    MemoryFormatError,
    MemoryUnavailableError,
    VectorModelError,
)
from context_assembler.memory.field_names import FieldNames
from context_assembler.memory.lancedb import open_lancedb_table
from context_assembler.memory.qdrant import open_qdrant_collection
from context_assembler.memory.table_source import TableSource
from context_assembler.ports import MemorySource
from context_assembler.values.memories.metadata import ChunkMetadata
from context_assembler.values.memories.records import MemoryFilters, MemoryRecord
from context_assembler.values.memories.vectors import Vector
from tests.contracts.memory_factories import AT, DAY, FILTERED, PEARS
from tests.memory.embedders import Compass

lancedb: Any = pytest.importorskip("lancedb")
qdrant: Any = pytest.importorskip("qdrant_client")
arrow: Any = pytest.importorskip("pyarrow")

NAMES = FieldNames(
    text="body",
    id="key",
    kind="type",
    namespace="project",
    session_id="thread",
    parent_id="meta.doc",
    author="by",
    created_at="when",
    importance="weight",
    vector="emb",
)


def numbers_of(record: MemoryRecord) -> list[float]:
    assert record.vector is not None
    return [float(code) for code in memoryview(record.vector.codes).cast("b")]


def fields_of(record: MemoryRecord, when: object) -> dict[str, Any]:
    return {
        "key": record.id,
        "body": record.text,
        "type": record.kind,
        "project": record.namespace,
        "thread": record.session_id,
        "meta": {"doc": record.parent_id},
        "by": record.author,
        "when": when,
        "weight": record.importance,
    }


def open_pears_in_lancedb(folder: Path, times: Callable[[datetime], object]) -> TableSource:
    rows = [
        fields_of(record, times(record.created_at or AT)) | {"emb": numbers_of(record)}
        for record in PEARS
    ]
    table = arrow.Table.from_pylist(rows)
    column = arrow.array([row["emb"] for row in rows], arrow.list_(arrow.float32(), 2))
    at = table.schema.names.index("emb")
    lancedb.connect(folder).create_table("docs", table.set_column(at, "emb", column))
    return open_lancedb_table(folder, table="docs", fields=NAMES, vector_model="tiny")


def open_pears_in_qdrant(folder: Path, times: Callable[[datetime], object]) -> TableSource:
    models = qdrant.models
    client = qdrant.QdrantClient(path=str(folder))
    config = models.VectorParams(size=2, distance=models.Distance.COSINE)
    client.create_collection("docs", vectors_config={"emb": config})
    client.upsert(
        "docs",
        [
            models.PointStruct(
                id=number,
                payload=fields_of(record, times(record.created_at or AT)),
                vector={"emb": numbers_of(record)},
            )
            for number, record in enumerate(PEARS)
        ],
    )
    client.close()
    return open_qdrant_collection(folder, collection="docs", fields=NAMES, vector_model="tiny")


def with_unit(source: TableSource, unit: Any) -> TableSource:
    """Return the source, told of what its times are numbers."""
    fields = replace(NAMES, time_unit=unit)
    source._fields = fields
    source._table._fields = fields  # type: ignore[attr-defined]
    return source


TIMES: Mapping[str, tuple[str, Callable[[datetime], object]]] = {
    "ISO text": ("text", datetime.isoformat),
    "seconds": ("seconds", datetime.timestamp),
    "milliseconds": ("milliseconds", lambda moment: moment.timestamp() * 1_000),
    "microseconds": ("microseconds", lambda moment: round(moment.timestamp() * 1e6)),
}
every_time = pytest.mark.parametrize(("unit", "times"), TIMES.values(), ids=TIMES.keys())
every_filter = pytest.mark.parametrize(
    ("filters", "expected"), FILTERED.values(), ids=FILTERED.keys()
)


async def ids_found(source: TableSource, filters: MemoryFilters, query: str = "") -> list[str]:
    hits = await source.search(query, filters=filters, vector=PEARS[0].vector)
    return sorted(hit.record.id for hit in hits)


@every_filter
async def test_filters_hold_in_lancedb(
    tmp_path: Path, filters: MemoryFilters, expected: list[str]
) -> None:
    async with open_pears_in_lancedb(tmp_path, lambda moment: moment) as source:
        by_words = await source.search("pear", filters=filters)

        assert sorted(hit.record.id for hit in by_words) == expected
        assert await ids_found(source, filters) == expected


@every_filter
async def test_filters_hold_in_qdrant(
    tmp_path: Path, filters: MemoryFilters, expected: list[str]
) -> None:
    async with open_pears_in_qdrant(tmp_path, datetime.isoformat) as source:
        assert await ids_found(source, filters) == expected
        assert await source.search("pear", filters=filters) == []


@every_time
@pytest.mark.parametrize("open_pears", [open_pears_in_lancedb, open_pears_in_qdrant])
async def test_times_are_read_and_filtered_in_any_unit(
    tmp_path: Path,
    open_pears: Callable[[Path, Callable[[datetime], object]], TableSource],
    unit: str,
    times: Callable[[datetime], object],
) -> None:
    async with with_unit(open_pears(tmp_path, times), unit) as source:
        hits = await source.search("", vector=PEARS[0].vector)
        later = await ids_found(source, MemoryFilters(since=AT + DAY))
        earlier = await ids_found(source, MemoryFilters(until=AT + DAY))

    found = {hit.record.id: hit.record.created_at for hit in hits}
    assert found.keys() == {"a", "b", "c"}
    assert all(
        abs(moment - (record.created_at or AT)).total_seconds() < 1e-3
        for record in PEARS
        if (moment := found[record.id]) is not None
    )
    assert (later, earlier) == (["b", "c"], ["a"])


async def test_a_record_holds_what_is_named_and_only_that(tmp_path: Path) -> None:
    async with open_pears_in_lancedb(tmp_path, lambda moment: moment) as source:
        [hit] = await source.search("b")

    assert isinstance(source, MemorySource)
    assert source.name == "docs"
    assert replace(hit.record, vector=None) == replace(PEARS[1], vector=None)
    assert (hit.similarity, hit.bm25 is not None) == (None, True)


async def test_fields_without_names_hold_their_defaults(tmp_path: Path) -> None:
    rows = [{"text": "a pear", "source": "a.md", "size": 3}, {"text": None, "source": None}]
    lancedb.connect(tmp_path).create_table("docs", rows)
    fields = FieldNames(of_kind="chunks", metadata={"source": "source", "pages": "size"})
    async with open_lancedb_table(tmp_path, table="docs", fields=fields) as source:

        async def found(**filters: Any) -> int:
            return len(await source.search("pear", filters=MemoryFilters(**filters)))

        [hit] = await source.search("pear", filters=MemoryFilters(kinds=("chunks",)))

        assert hit.record.id == "0"
        assert hit.record.metadata == ChunkMetadata(source="a.md")
        assert hit.record.extras == {"metadata": {"pages": 3}}
        assert [await found(kinds=("code",)), await found(namespaces=("shop",))] == [0, 0]
        assert [await found(namespaces=("",)), await found(least_importance=0.5)] == [1, 1]
        assert [await found(since=AT), await found(session_ids=("s",))] == [0, 0]
        assert [await found(excluded_session_ids=("s",)), await found(excluded_ids=("0",))] == [
            1,
            0,
        ]
        assert await source.search("the ¿?!") == []


async def test_times_in_metadata_are_told_as_text(tmp_path: Path) -> None:
    lancedb.connect(tmp_path).create_table("docs", [{"text": "pear", "seen": AT}])
    fields = FieldNames(metadata={"seen": "seen"})
    async with open_lancedb_table(tmp_path, table="docs", fields=fields) as source:
        [hit] = await source.search("pear")

    assert hit.record.extras == {"metadata": {"seen": AT.isoformat()}}


async def test_a_table_without_vectors_is_searched_by_words_alone(tmp_path: Path) -> None:
    lancedb.connect(tmp_path).create_table("docs", [{"text": "pear"}, {"text": "bus"}])
    async with open_lancedb_table(tmp_path, table="docs") as source:
        hits = await source.search("pear", vector=Vector.pack("any", [1.0, 0.0]))

    assert [(hit.record.text, hit.similarity) for hit in hits] == [("pear", None)]


async def test_a_table_with_an_index_of_its_own_is_searched_by_it(tmp_path: Path) -> None:
    table = lancedb.connect(tmp_path).create_table("docs", [{"text": "Parsers parse."}])
    table.create_index("text", config=lancedb.index.FTS())
    async with open_lancedb_table(tmp_path, table="docs", name="wiki") as source:
        hits = await source.search("parsing")

    assert source.name == "wiki"
    assert [hit.record.text for hit in hits] == ["Parsers parse."]


PAGES = {
    "Ferry tickets cost ten euros.": ("Ferry", "ferry", "FERRY", "TICKETS", "ferry?"),
    "Die Fähre nach Rügen kostet zehn Euro.": ("Fähre", "fähre", "FÄHRE", "rügen", "rügen fähre"),
    "parseToolCalls of the GmbH's iPhone": ("parsetoolcalls", "tool", "gmbh", "iphone", "IPHONE"),
    "フェリーは九時に出ます": ("フェリー", "九時"),
    "snake_case_name": ("snake", "name"),
    "THE BUS LEAVES": ("bus", "leaves"),
}


@pytest.mark.parametrize(
    ("query", "text"), [(query, text) for text, queries in PAGES.items() for query in queries]
)
async def test_a_table_without_an_index_finds_words_whatever_their_case(
    tmp_path: Path, query: str, text: str
) -> None:
    lancedb.connect(tmp_path).create_table("docs", [{"text": page} for page in PAGES])
    async with open_lancedb_table(tmp_path, table="docs") as source:
        hits = await source.search(query)

    assert [hit.record.text for hit in hits] == [text]


async def test_without_an_index_rare_words_and_short_texts_come_first(tmp_path: Path) -> None:
    texts = ["a ferry", "The ferry and the bus", "a ferry " + "and more " * 30, "Ferryman", "boat"]
    table = lancedb.connect(tmp_path).create_table("docs", [{"text": text} for text in texts])
    async with open_lancedb_table(tmp_path, table="docs", fields=FieldNames(of_kind="chunks")) as s:
        hits = await s.search("ferry bus")
        one = await s.search("ferry", limit=1, filters=MemoryFilters(kinds=("chunks",)))
        none = await s.search("ferry", filters=MemoryFilters(excluded_ids=("0", "1", "2")))
        table.create_index("text", config=lancedb.index.FTS())
        indexed = await s.search("ferry")

    assert [hit.record.text for hit in hits] == [texts[1], texts[0], texts[2]]
    assert [hit.record.text for hit in one] == [texts[0]]
    assert none == []
    assert len(indexed) == 3


async def test_a_model_gives_the_query_its_vector(tmp_path: Path) -> None:
    models = qdrant.models
    client = qdrant.QdrantClient(path=str(tmp_path))
    config = models.VectorParams(size=2, distance=models.Distance.EUCLID)
    client.create_collection("docs", vectors_config=config)
    texts = {7: ("A boat.", [1.0, 0.1]), 8: ("A train.", [0.1, 1.0]), 9: ("Nowhere.", [0.0, 0.0])}
    points = [
        models.PointStruct(id=n, payload={"page_content": text}, vector=place)
        for n, (text, place) in texts.items()
    ]
    client.upsert("docs", points)
    client.close()
    fields = FieldNames(text="page_content", vector="")
    async with open_qdrant_collection(
        tmp_path, collection="docs", fields=fields, embed=Compass()
    ) as source:
        hits = await source.search("the ferry", filters=MemoryFilters(excluded_ids=("8", "x")))
        nothing = await source.search(" ")

    assert [(hit.record.id, hit.record.text) for hit in hits] == [
        ("7", "A boat."),
        ("9", "Nowhere."),
    ]
    assert hits[0].similarity == pytest.approx(1.0)
    assert hits[1].similarity is None
    assert nothing == []


async def test_ids_that_are_numbers_can_be_excluded(tmp_path: Path) -> None:
    client = qdrant.QdrantClient(path=str(tmp_path))
    models = qdrant.models
    config = models.VectorParams(size=2, distance=models.Distance.DOT)
    client.create_collection("docs", vectors_config=config)
    client.upsert(
        "docs",
        [models.PointStruct(id=n, payload={"text": "t", "n": n}, vector=[1, n]) for n in range(3)],
    )
    client.close()
    fields = FieldNames(id="n", vector="")
    async with open_qdrant_collection(
        tmp_path, collection="docs", fields=fields, vector_model="m"
    ) as source:
        excluded = MemoryFilters(excluded_ids=("1", "x"))
        hits = await source.search("", vector=Vector.pack("m", [1, 0]), filters=excluded)

    assert [hit.record.id for hit in hits] == ["0", "2"]


async def test_vectors_of_another_model_or_length_are_refused(tmp_path: Path) -> None:
    other, longer = Vector.pack("other", [1, 0]), Vector.pack("tiny", [1, 0, 0])
    async with open_pears_in_lancedb(tmp_path, lambda moment: moment) as source:
        for vector in (other, longer):
            with pytest.raises(VectorModelError, match="'tiny' with 2"):
                await source.search("", vector=vector)


async def test_limits_are_kept_and_checked(tmp_path: Path) -> None:
    async with open_pears_in_lancedb(tmp_path, lambda moment: moment) as source:
        assert len(await source.search("pear", limit=2)) == 2
        assert await source.search("pear", limit=0) == []
        with pytest.raises(InvalidParameterError, match="limit must be from 0"):
            await source.search("pear", limit=-1)


BAD_FIELDS: Mapping[str, tuple[dict[str, object], FieldNames, str]] = {
    "a time that is none": ({"when": "soon"}, FieldNames(created_at="when"), "soon"),
    "a number without a unit": ({"when": 12.5}, FieldNames(created_at="when"), "12.5 is no time"),
    "a number of another unit": (
        {"when": 1_780_000_000_000},
        FieldNames(created_at="when", time_unit="seconds"),
        "is that its time_unit",
    ),
    "a time that UTC cannot say": (
        {"when": "0001-01-01T00:00:00+14:00"},
        FieldNames(created_at="when"),
        "years 1 to 9999 of UTC",
    ),
    "a kind that is not there": ({"type": "dreams"}, FieldNames(kind="type"), "dreams"),
    "an importance beyond its bounds": (
        {"weight": 7.0},
        FieldNames(importance="weight"),
        "from 0 to 1",
    ),
    "an author that is a number": ({"by": 3}, FieldNames(author="by"), "author"),
}


@pytest.mark.parametrize(("row", "fields", "reason"), BAD_FIELDS.values(), ids=BAD_FIELDS.keys())
async def test_a_field_that_cannot_be_what_it_is_called_is_named(
    tmp_path: Path, row: dict[str, object], fields: FieldNames, reason: str
) -> None:
    lancedb.connect(tmp_path).create_table("docs", [{"text": "pear"} | row])
    async with open_lancedb_table(tmp_path, table="docs", fields=fields) as source:
        with pytest.raises(MemoryFormatError, match=reason):
            await source.search("pear")


async def test_times_without_a_zone_are_utc(tmp_path: Path) -> None:
    bare = AT.replace(tzinfo=None)
    lancedb.connect(tmp_path).create_table("docs", [{"text": "pear", "when": bare}])
    fields = FieldNames(created_at="when")
    async with open_lancedb_table(tmp_path, table="docs", fields=fields) as source:
        [hit] = await source.search("pear", filters=MemoryFilters(since=AT))
        later = await source.search("pear", filters=MemoryFilters(since=AT + DAY))

    assert (hit.record.created_at, later) == (AT, [])


async def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    fields = FieldNames(vector="emb")
    vector = Vector.pack("m", [1, 0])
    lancedb.connect(tmp_path / "lance").create_table("docs", [{"text": "a", "emb": "none"}])
    client = qdrant.QdrantClient(path=str(tmp_path / "qdrant"))
    client.create_collection("docs", vectors_config={})
    client.close()
    no_table = open_lancedb_table(tmp_path, table="nothing")
    no_vectors = open_lancedb_table(
        tmp_path / "lance", table="docs", fields=fields, vector_model="m"
    )
    no_folder = open_qdrant_collection(
        tmp_path / "no", collection="c", fields=fields, vector_model="m"
    )
    no_vector = open_qdrant_collection(
        tmp_path / "qdrant", collection="docs", fields=fields, vector_model="m"
    )

    with pytest.raises(MemoryUnavailableError, match="there is no such table"):
        await no_table.search("a")
    with pytest.raises(MemoryUnavailableError, match="'emb' is string, not vectors"):
        await no_vectors.search("a", vector=vector)
    with pytest.raises(MemoryUnavailableError, match="there is no such folder"):
        await no_folder.search("a", vector=vector)
    with pytest.raises(MemoryUnavailableError, match="no vector 'emb', but none at all"):
        await no_vector.search("a", vector=vector)


def test_settings_that_cannot_work_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Nobody says which embedding model"):
        open_lancedb_table(tmp_path, table="docs", fields=FieldNames(vector="emb"))
    with pytest.raises(ConfigurationError, match="none is named"):
        open_qdrant_collection(tmp_path, collection="docs", fields=FieldNames())
    with pytest.raises(InvalidParameterError, match="time_unit"):
        FieldNames(time_unit="days")  # type: ignore[arg-type]
