"""Records, vectors, words and their form as JSON: what holds for the values alone."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.errors import (
    InvalidContextTypeError,
    InvalidParameterError,
    MemoryFormatError,
)
from context_assembler.values.memories.codec import (
    decode_memory,
    encode_memory,
    read_memories,
    says_something,
    write_memories,
)
from context_assembler.values.memories.kinds import KINDS, check_kind
from context_assembler.values.memories.metadata import CodeMetadata, FactMetadata, SessionMetadata
from context_assembler.values.memories.records import MemoryFilters, MemoryRecord, Retention
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.memories.words import (
    MAX_QUERY_TERMS,
    index_text,
    query_terms,
)

AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
WRONG: Any = "dreams"
SEVEN: Any = 7
TEXT: Any = "shop"
LIST: Any = [1, 2]
END = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
EAST_OF_UTC, WEST_OF_UTC = (timezone(timedelta(hours=hours)) for hours in (14, -14))
NOTHING: Any = None


def test_an_unknown_kind_names_the_valid_ones() -> None:
    with pytest.raises(InvalidContextTypeError, match="valid are memories, code, ") as caught:
        MemoryRecord(text="x", kind=WRONG)
    with pytest.raises(InvalidContextTypeError, match="Did you mean 'learnings'"):
        check_kind("learning")
    with pytest.raises(InvalidContextTypeError):
        MemoryFilters(kinds=(WRONG,))

    assert caught.value.known == tuple(KINDS)
    assert [check_kind(kind) for kind in KINDS] == list(KINDS)


BAD_RECORDS: dict[str, tuple[Callable[[], object], str]] = {
    "metadata of another kind": (
        lambda: MemoryRecord(text="x", kind="code", metadata=FactMetadata()),
        "metadata must be CodeMetadata for 'code'",
    ),
    "importance beyond one": (lambda: MemoryRecord(text="x", importance=1.5), "from 0 to 1"),
    "importance that is no number": (
        lambda: MemoryRecord(text="x", importance=math.nan),
        "from 0 to 1",
    ),
    "a time without a zone": (
        lambda: MemoryRecord(text="x", created_at=datetime(2026, 1, 1)),  # noqa: DTZ001 – the mistake
        "created_at must have a time zone",
    ),
    "a filter without a zone": (
        lambda: MemoryFilters(since=datetime(2026, 1, 1)),  # noqa: DTZ001 – the mistake
        "since must have a time zone",
    ),
    "an id with NUL": (lambda: MemoryRecord(text="x", id="a\0"), "must not hold NUL"),
    "an endless id": (lambda: MemoryRecord(text="x", id="a" * 513), "longer than 512"),
    "a session that is no text": (
        lambda: MemoryRecord(text="x", session_id=SEVEN),
        "session_id must be text",
    ),
    "no namespace at all": (
        lambda: MemoryRecord(text="x", namespace=NOTHING),
        "namespace must be text",
    ),
    "a retention below nothing": (lambda: Retention(max_records=-1), "must not be negative"),
    "a retention without an age": (lambda: Retention(max_age_days=math.nan), "max_age_days must"),
    "a text that is none": (lambda: MemoryRecord(text=SEVEN), "text must be text"),
    "a time before the first of UTC": (
        lambda: MemoryRecord(text="x", created_at=datetime(1, 1, 1, tzinfo=EAST_OF_UTC)),
        "created_at must lie in the years 1 to 9999 of UTC",
    ),
    "a use after the last of UTC": (
        lambda: MemoryRecord(text="x", last_access_at=END.replace(tzinfo=WEST_OF_UTC)),
        "last_access_at must lie in the years 1 to 9999 of UTC",
    ),
    "a filter beyond UTC": (
        lambda: MemoryFilters(until=END.replace(tzinfo=WEST_OF_UTC)),
        "until must lie",
    ),
    "a time as text": (lambda: MemoryRecord(text="x", created_at=TEXT), "must be datetime"),
    "an importance as text": (lambda: MemoryRecord(text="x", importance=TEXT), "from 0 to 1"),
    "a count without end": (lambda: MemoryRecord(text="x", access_count=10**20), "access_count"),
    "a count below nothing": (lambda: MemoryRecord(text="x", access_count=-1), "access_count"),
    "a count as text": (lambda: MemoryRecord(text="x", access_count=TEXT), "access_count"),
    "a vector as numbers": (lambda: MemoryRecord(text="x", vector=LIST), "vector must be Vector"),
    "extras as a list": (lambda: MemoryRecord(text="x", extras=LIST), "extras must be Mapping"),
    "one name for several": (
        lambda: MemoryFilters(namespaces=TEXT),
        r"namespaces must be several texts; got 'shop'. Pass a tuple, such as \('shop',\).",
    ),
    "a kind for several": (lambda: MemoryFilters(kinds=TEXT), "kinds must be several texts"),
    "an id for several": (lambda: MemoryFilters(excluded_ids=TEXT), "excluded_ids must be"),
    "a number for several": (lambda: MemoryFilters(authors=SEVEN), "authors must be several"),
    "names that are numbers": (lambda: MemoryFilters(session_ids=LIST), "session_ids must be str"),
    "a filter as text": (lambda: MemoryFilters(since=TEXT), "since must be datetime"),
    "least as text": (lambda: MemoryFilters(least_importance=TEXT), "must be a number"),
    "an endless age": (lambda: Retention(max_age_days=math.inf), "Use None for no bound"),
    "an age of eons": (lambda: Retention(max_age_days=1e18), "must be at most 700000"),
    "an age as text": (lambda: Retention(max_age_days=TEXT), "max_age_days must be a number"),
    "spared as text": (lambda: Retention(kept_importance=TEXT), "kept_importance must be a"),
}


@pytest.mark.parametrize(("make", "rule"), BAD_RECORDS.values(), ids=BAD_RECORDS.keys())
def test_a_record_is_valid_or_is_not_made(make: Callable[[], object], rule: str) -> None:
    with pytest.raises(InvalidParameterError, match=rule):
        make()


names = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=8
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)
facts = st.builds(
    FactMetadata,
    category=st.none() | names,
    confidence=st.none() | st.floats(0, 1),
    tags=st.lists(names, max_size=2).map(tuple),
)
memories = st.builds(
    MemoryRecord,
    text=st.text(max_size=30),
    id=st.just("") | names,
    namespace=st.just("") | names,
    session_id=st.none() | names,
    author=st.none() | names,
    importance=st.floats(0, 1),
    created_at=st.none() | st.datetimes(timezones=st.just(UTC)),
    metadata=st.none() | facts.filter(lambda fact: fact != FactMetadata()),
    extras=st.dictionaries(names.map(lambda name: f"x_{name}"), json_values, max_size=2),
    vector=st.none() | st.just(Vector.pack("tiny", [0.5, -1.0])),
    access_count=st.integers(0, 10),
)


def test_what_is_as_deep_as_a_reader_goes_comes_back() -> None:
    records = [MemoryRecord(text="x", extras=deep(199))]

    assert list(read_memories(write_memories(records))) == records


@given(records=st.lists(memories, max_size=4))
def test_what_is_written_is_read(records: list[MemoryRecord]) -> None:
    told = [record for record in records if says_something(record)]

    assert list(read_memories(write_memories(told))) == told


def test_fields_that_nobody_knows_come_back_where_they_were() -> None:
    encoded = {
        "version": 1,
        "kind": "code",
        "text": "x",
        "mood": "calm",
        "metadata": {"path": "a.py", "owner": ["me"]},
    }

    record = decode_memory(encoded, where="here")

    assert record.metadata == CodeMetadata(path="a.py")
    assert record.extras == {"mood": "calm", "metadata": {"owner": ["me"]}}
    assert encode_memory(record) == encoded


def test_metadata_of_unknown_fields_alone_are_none_of_the_kind() -> None:
    record = decode_memory({"text": "x", "metadata": {"owner": "me"}}, where="here")

    assert (record.metadata, record.extras) == (None, {"metadata": {"owner": "me"}})
    assert decode_memory(encode_memory(record), where="here") == record


def test_a_line_needs_no_more_than_a_text() -> None:
    [record] = read_memories([b'{"text": "hi"}', b"  \n"])

    assert record == MemoryRecord(text="hi")


def test_metadata_holds_times_too() -> None:
    record = MemoryRecord(text="x", kind="sessions", metadata=SessionMetadata(started_at=AT))

    assert list(read_memories(write_memories([record]))) == [record]


BAD_LINES = {
    "no JSON": (b"{", "not JSON"),
    "not a number": (b'{"text": "x", "importance": NaN}', "not JSON"),
    "no object": (b"[]", "not an object"),
    "no text": (b'{"kind": "code"}', "text: missing"),
    "a number as text": (b'{"text": 3}', "text: 3 is not text"),
    "a newer version": (b'{"text": "x", "version": 2}', "version: 2 is newer than 1"),
    "no version": (b'{"text": "x", "version": "1"}', "'1' is not a format version"),
    "an unknown kind": (b'{"text": "x", "kind": "dreams"}', "no context type 'dreams'"),
    "importance in words": (b'{"text": "x", "importance": "high"}', "'high' is not a number"),
    "too much importance": (b'{"text": "x", "importance": 7}', "importance must be from 0 to 1"),
    "no time": (b'{"text": "x", "created_at": "today"}', "'today' is not an ISO 8601 time"),
    "a time without zone": (b'{"text": "x", "created_at": "2026-01-01"}', "time zone"),
    "metadata as a list": (b'{"text": "x", "metadata": []}', "metadata: not an object"),
    "a wrong field": (b'{"text": "x", "metadata": {"tags": 3}}', "metadata: tags"),
    "a vector as a list": (b'{"text": "x", "vector": [1]}', "vector: not an object"),
    "a vector of what": (b'{"text": "x", "vector": {"model": "m", "codes": "?"}}', "not base64"),
    "a count that no store can keep": (
        b'{"text": "x", "access_count": 100000000000000000000}',
        "access_count must be from 0 to",
    ),
    "a count of halves": (b'{"text": "x", "access_count": 1.5}', "1.5 is not a whole number"),
    "a count beyond numbers": (b'{"text": "x", "access_count": 1e999}', "no JSON number"),
    "a time that UTC cannot say": (
        b'{"text": "x", "created_at": "0001-01-01T00:00:00+14:00"}',
        "created_at must lie in the years 1 to 9999 of UTC",
    ),
    "an empty vector": (b'{"text": "x", "vector": {"model": "m", "codes": ""}}', "direction"),
    "a nameless vector": (b'{"text": "x", "vector": {"model": "", "codes": "AQ=="}}', "a name"),
}


@pytest.mark.parametrize(("line", "reason"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_named_with_a_remedy(line: bytes, reason: str) -> None:
    with pytest.raises(MemoryFormatError) as caught:
        list(read_memories([b'{"text": "good"}', b"", line], name="notes.jsonl"))

    assert reason in caught.value.reason
    assert caught.value.line == 3
    assert "notes.jsonl, line 3, cannot be read" in str(caught.value)
    assert caught.value.remedy


def test_a_newer_version_asks_for_an_upgrade() -> None:
    with pytest.raises(MemoryFormatError) as caught:
        decode_memory({"text": "x", "version": 9}, where="here")

    assert "--upgrade" in caught.value.remedy


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"x": value}
    return value


BAD_EXTRAS: dict[str, tuple[dict[str, Any], str]] = {
    "not JSON": ({"x": {1}}, "extras"),
    "a field of its own": ({"text": "y"}, "extras.text: is a field of its own"),
    "known metadata": ({"metadata": {"category": 1}}, "fields that the kind has not"),
    "metadata as text": ({"metadata": "y"}, "fields that the kind has not"),
    "deeper than a reader goes": (deep(250), "deeper than 200 levels"),
    "endless": (deep(100_000), "recursion"),
}


@pytest.mark.parametrize(("extras", "reason"), BAD_EXTRAS.values(), ids=BAD_EXTRAS.keys())
def test_extras_that_would_not_come_back_are_refused(extras: dict[str, Any], reason: str) -> None:
    with pytest.raises(MemoryFormatError) as caught:
        list(write_memories([MemoryRecord(text="x", id="mine", extras=extras)]))

    assert reason in str(caught.value)
    assert "'mine'" in str(caught.value)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=16).filter(any))
def test_a_packed_vector_points_where_it_pointed(numbers: list[float]) -> None:
    vector = Vector.pack("m", numbers)

    assert vector.dimension == len(numbers)
    assert vector.cosine(vector) == pytest.approx(1.0)
    assert vector.cosine(Vector.pack("m", [-n for n in numbers])) == pytest.approx(-1.0)
    assert Vector.pack("m", [n * 4 for n in numbers]) == vector


@pytest.mark.parametrize("numbers", [[], [0.0], [math.nan, 1.0], [1.0, math.nan], [math.inf]])
def test_numbers_without_a_direction_are_no_vector(numbers: list[float]) -> None:
    with pytest.raises(InvalidParameterError, match="direction"):
        Vector.pack("m", numbers)


def test_vectors_of_two_models_cannot_be_compared() -> None:
    with pytest.raises(InvalidParameterError, match="must be of one"):
        Vector.pack("one", [1.0]).cosine(Vector.pack("two", [1.0]))


TERMS: dict[str, tuple[str, list[str]]] = {
    "stop words out": ("What is the name of my dog?", ["name", "dog"]),
    "nothing but stop words": ("who is it", ["who", "is", "it"]),
    "German": (
        "Wann läuft der Vertrag mit der Firma Huber aus?",
        ["läuft", "vertrag", "firma", "huber"],
    ),
    "what is English elsewhere": (
        "die casting by hand in El Paso",
        ["die", "casting", "hand", "el", "paso"],
    ),
    "of two languages": ("¿Cuál es la receta?", ["receta"]),
    "one word of two languages": ("del locks car", ["del", "locks", "car"]),
    "names with a foreign word": ("Where is Guido de Graaf?", ["guido", "de", "graaf"]),
    "nothing but German stop words": ("wie ist das", ["wie", "ist", "das"]),
    "repetitions once": ("dog Dog DOG cat", ["dog", "cat"]),
    "identifiers and their parts": (
        "parseToolCalls max_tokens",
        ["parsetoolcalls", "max", "tokens", "parse", "tool", "calls"],
    ),
    "abbreviations": ("HTTPServer", ["httpserver", "http", "server"]),
    "pairs of characters": ("我喜欢", ["我喜", "喜欢"]),
    "pairs that say nothing": ("合同什么时候到期", ["合同", "同什", "候到", "到期"]),
    "a single character": ("猫", ["猫*"]),
    "two scripts": ("见Rex。犬", ["见*", "rex", "犬*"]),
    "no words": ('"*()', []),
}


@pytest.mark.parametrize(("query", "terms"), TERMS.values(), ids=TERMS.keys())
def test_a_query_looks_for(query: str, terms: list[str]) -> None:
    assert query_terms(query) == terms


def test_a_query_has_a_bounded_number_of_terms() -> None:
    assert len(query_terms(" ".join(f"w{i}" for i in range(5_000)))) == MAX_QUERY_TERMS


def test_encoded_bytes_are_no_identifier() -> None:
    encoded = "aB" * 500

    assert index_text(encoded) == encoded
    assert index_text("plain words") == "plain words"
    assert index_text("猫と犬 x") == " 猫と と犬 犬  x"
