"""What holds for the PostgreSQL memory store beyond the contract: processes, rights, bad databases."""

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler.errors import (
    ConfigurationError,
    MemoryFormatError,
    MemoryUnavailableError,
    MissingExtraError,
    UnknownMemoryError,
)
from context_assembler.memory import PostgresMemoryStore, SqliteMemoryStore, open_memory
from context_assembler.memory.postgres_words import CUT_NOTICE
from context_assembler.values.memories.records import (
    FIRST_MOMENT,
    LAST_MOMENT,
    MemoryFilters,
    MemoryRecord,
)
from context_assembler.values.memories.vectors import Vector
from tests.postgres_server import PostgresServer

REPOSITORY = Path(__file__).parents[2]
ONE = Vector.pack("tiny", [1.0, 0.0])


def store_at(url: str, *, busy_seconds: float = 60) -> PostgresMemoryStore:
    return PostgresMemoryStore(url, busy_seconds=busy_seconds)


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.memory.remember_in_process", *map(str, arguments)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def everything(store: PostgresMemoryStore) -> list[MemoryRecord]:
    return [record async for record in store.export()]


async def test_memories_survive_closing_and_opening(postgres_url: str) -> None:
    async with store_at(postgres_url) as store:
        await store.remember([MemoryRecord(text="a zebra")])
        await store.close()

        assert len(await store.search("zebra")) == 1


async def test_reading_creates_no_tables(postgres: PostgresServer, postgres_url: str) -> None:
    async with store_at(postgres_url) as store:
        assert await store.search("zebra", vector=ONE) == []
        assert await store.list_records() == []
        assert await store.neighbours(["x"]) == {}
        assert await everything(store) == []
        assert (await store.stats()).records == 0
        with pytest.raises(UnknownMemoryError):
            await store.get("x")

    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
    assert postgres.execute(tables, url=postgres_url) == [(0,)]


async def test_two_stores_over_one_database_see_each_other_at_once(postgres_url: str) -> None:
    async with store_at(postgres_url) as one, store_at(postgres_url) as two:
        assert await two.search("zebra", vector=ONE) == []
        await one.remember([MemoryRecord(id="z", text="a zebra", vector=ONE)])
        assert len(await two.search("zebra")) == 1
        assert len(await two.search("", vector=ONE)) == 1
        await two.forget(["z"])

        assert await one.search("zebra", vector=ONE) == []


def test_many_processes_remember_into_a_new_database_at_once(postgres_url: str) -> None:
    writers = [start(postgres_url, f"writer{n}", 8, 3) for n in range(3)]
    for writer in writers:
        _, complaint = writer.communicate(timeout=110)
        assert (writer.returncode, complaint) == (0, "")

    async def read() -> tuple[int, list[MemoryRecord]]:
        async with store_at(postgres_url) as store:
            own = await store.search("writer1", limit=1_000)
            return sum("writer1" in hit.record.text for hit in own), await everything(store)

    by_writer, records = asyncio.run(read())
    texts = [record.text for record in records]
    assert (by_writer, len(texts)) == (24, 72)
    assert texts[::3] == texts[1::3] == texts[2::3]


def test_a_killed_process_leaves_all_of_a_batch_or_nothing(postgres_url: str) -> None:
    writer = start(postgres_url, "w", 0, 40)
    assert writer.stdout is not None
    for _ in range(2):
        writer.stdout.readline()
    writer.kill()
    writer.communicate(timeout=60)

    async def read() -> list[str]:
        async with store_at(postgres_url) as store:
            await store.remember([MemoryRecord(text="after")])
            return [record.text for record in await everything(store)]

    said = asyncio.run(read())[:-1]
    batches = len(said) // 40
    assert batches >= 2
    assert said == [f"w said word{n}" for n in range(1, batches + 1) for _ in range(40)]


async def test_the_same_said_by_many_at_once_is_kept_once(postgres_url: str) -> None:
    async with store_at(postgres_url) as one, store_at(postgres_url) as two:
        kept = await asyncio.gather(
            *(store.remember([MemoryRecord(text="tea")]) for store in (one, two) for _ in range(5))
        )

        outcomes = sorted(row.outcome for [row] in kept)
        assert outcomes == ["added", *["duplicate"] * 9]
        assert len(await everything(one)) == 1


async def test_who_waits_too_long_for_a_writer_is_told_and_readers_do_not_wait(
    postgres: PostgresServer, postgres_url: str
) -> None:
    import psycopg  # noqa: PLC0415 – an extra

    async with store_at(postgres_url, busy_seconds=2) as store:
        await store.remember([MemoryRecord(text="a zebra")])
        async with await psycopg.AsyncConnection.connect(postgres_url) as other:
            await other.execute("LOCK TABLE memory_records IN SHARE ROW EXCLUSIVE MODE")

            with pytest.raises(MemoryUnavailableError, match="another process holds its lock"):
                await store.remember([MemoryRecord(text="no")])
            found = await store.search("zebra")

        assert len(found) == 1
        assert len(await everything(store)) == 1


async def test_who_waits_too_long_for_a_connection_is_told(postgres_url: str) -> None:
    async with PostgresMemoryStore(postgres_url, busy_seconds=2, max_connections=1) as store:
        await store.remember([MemoryRecord(text="a")])
        async with store._pools.connection():
            with pytest.raises(MemoryUnavailableError, match="all of the store's connections"):
                await store.search("a")

        assert len(await store.search("a")) == 1


def test_a_store_is_used_in_one_event_loop_after_the_other(postgres_url: str) -> None:
    store = store_at(postgres_url)

    asyncio.run(store.remember([MemoryRecord(text="a zebra")]))
    found = asyncio.run(store.search("zebra"))
    asyncio.run(store.close())

    assert len(found) == 1


def test_closing_closes_the_connections_of_other_loops(
    postgres: PostgresServer, postgres_url: str
) -> None:
    store = store_at(postgres_url)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(store.remember([MemoryRecord(text="a")]), loop).result(60)
    place = postgres_url.rpartition("%3D")[2]
    count = (
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%memory_%' "
        "AND pid <> pg_backend_pid()"
    )

    asyncio.run(store.close())

    assert place
    assert postgres.execute(count) == [(0,)]
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_connects_anew(postgres_url: str) -> None:
    code = (
        "import asyncio, os\n"
        "from context_assembler.memory import MemoryRecord, PostgresMemoryStore\n"
        f"store = PostgresMemoryStore({postgres_url!r})\n"
        "loop = asyncio.new_event_loop()\n"
        "loop.run_until_complete(store.remember([MemoryRecord(text='parent')]))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    asyncio.run(store.remember([MemoryRecord(text='child')]))\n"
        "    asyncio.run(store.close())\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "hits = loop.run_until_complete(store.search('parent child'))\n"
        "print(sorted(hit.record.text for hit in hits))\n"
        "loop.run_until_complete(store.close())\n"
    )

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        check=False,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert (done.stdout, done.returncode) == ("['child', 'parent']\n", 0), done.stderr


async def test_an_unreachable_server_is_told_without_the_password(tmp_path: Path) -> None:
    url = f"postgresql://ada:secret@/agents?host={tmp_path}"
    async with PostgresMemoryStore(url, busy_seconds=2) as store:
        with pytest.raises(MemoryUnavailableError, match="cannot be reached") as caught:
            await store.search("a")

    assert "secret" not in str(caught.value)
    assert caught.value.location == f"postgresql:///agents?host={tmp_path}"
    assert "host, port, user" in caught.value.remedy


async def test_a_url_that_cannot_be_read_is_told() -> None:
    async with PostgresMemoryStore("postgresql://127.0.0.1:1/agents?wrong=1") as store:
        with pytest.raises(MemoryUnavailableError, match=r'psycopg says: .*"wrong"'):
            await store.search("a")

    assert PostgresMemoryStore("postgresql://host:port/agents").location == "postgresql:"


async def test_a_server_that_was_restarted_is_connected_to_anew(
    postgres: PostgresServer, postgres_url: str
) -> None:
    async with store_at(postgres_url) as store:
        store._pools._used_at.clear()
        await store.remember([MemoryRecord(text="a zebra")])
        store._pools._used_at.clear()
        postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE query LIKE '%memory_%' AND pid <> pg_backend_pid()"
        )

        assert len(await store.search("zebra")) == 1


async def test_however_many_connections_a_restart_broke_nobody_waits_for_them(
    postgres: PostgresServer, postgres_url: str
) -> None:
    async with PostgresMemoryStore(postgres_url, busy_seconds=5, max_connections=4) as store:
        await store.remember([MemoryRecord(text="a zebra")])
        async with AsyncExitStack() as lent:
            for _ in range(4):
                await lent.enter_async_context(store._pools.connection())
        store._pools._used_at.clear()
        postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )

        found = await asyncio.gather(*(store.search("zebra") for _ in range(8)))

    assert [len(hits) for hits in found] == [1] * 8


async def test_however_long_a_store_waits_the_server_understands_it(postgres_url: str) -> None:
    async with PostgresMemoryStore(postgres_url, busy_seconds=1e9) as store:
        await store.remember([MemoryRecord(text="a zebra")])

        assert len(await store.search("zebra")) == 1


async def test_whoever_has_locked_the_tables_is_waited_for_so_long_and_no_longer(
    postgres_url: str,
) -> None:
    import psycopg  # noqa: PLC0415 - an extra

    async with PostgresMemoryStore(postgres_url, busy_seconds=1) as store:
        await store.remember([MemoryRecord(text="a zebra")])
        with psycopg.connect(postgres_url) as other:
            other.execute("LOCK TABLE memory_records IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(MemoryUnavailableError, match="holds its lock"):
                await store.search("zebra")
            with pytest.raises(MemoryUnavailableError, match="holds its lock"):
                await store.remember([MemoryRecord(text="another zebra")])
            other.rollback()

        assert len(await store.search("zebra")) == 1


async def test_an_unknown_database_is_told(postgres: PostgresServer) -> None:
    async with store_at(postgres.url_of(database="nowhere")) as store:
        with pytest.raises(MemoryUnavailableError, match='"nowhere" does not exist'):
            await store.remember([MemoryRecord(text="a")])


BAD_TABLES = {
    "a newer schema": (
        "CREATE TABLE memory_records (); CREATE TABLE memory_versions AS SELECT 99 AS version",
        "version 99, this package knows 1",
        "--upgrade",
    ),
    "records of another program": (
        "CREATE TABLE memory_records (token text)",
        "another program",
        "another schema",
    ),
    "versions of another program": (
        "CREATE TABLE memory_versions (token text)",
        "another program",
        "another schema",
    ),
}


@pytest.mark.parametrize(("make", "reason", "remedy"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
async def test_tables_in_bad_shape_are_refused_with_a_remedy(
    postgres: PostgresServer, postgres_url: str, make: str, reason: str, remedy: str
) -> None:
    postgres.execute(make, url=postgres_url)
    async with store_at(postgres_url) as store:
        with pytest.raises(MemoryUnavailableError, match=reason) as writing:
            await store.remember([MemoryRecord(text="hi")])
        with pytest.raises(MemoryUnavailableError, match=reason):
            await store.search("hi")

    assert remedy in writing.value.remedy


async def test_a_database_of_another_encoding_is_refused(postgres: PostgresServer) -> None:
    latin = ("ENCODING 'LATIN1'", "LOCALE 'C'", "TEMPLATE template0")
    with postgres.new_database(*latin) as url:
        async with store_at(url) as store:
            with pytest.raises(MemoryUnavailableError, match="encoded in LATIN1") as caught:
                await store.remember([MemoryRecord(text="a")])

    assert "--encoding=UTF8" in caught.value.remedy


async def test_without_the_extension_words_still_find_and_vectors_say_what_is_missing(
    postgres: PostgresServer,
) -> None:
    with postgres.new_database("TEMPLATE template0") as url:
        postgres.execute("CREATE ROLE plain LOGIN")
        postgres.execute("GRANT CREATE ON SCHEMA public TO plain", url=url)
        async with store_at(_as_user(url, "plain")) as store:
            await store.remember([MemoryRecord(text="a pear")])
            found = await store.search("pear", vector=ONE)
            with pytest.raises(MemoryUnavailableError, match="no extension 'vector'") as caught:
                await store.remember([MemoryRecord(text="a fig", vector=ONE)])
            kept = await everything(store)
        postgres.execute("DROP OWNED BY plain", url=url)
        postgres.execute("DROP ROLE plain")

    assert (len(found), len(kept)) == (1, 1)
    assert "CREATE EXTENSION vector" in caught.value.remedy


async def test_rights_that_are_missing_are_told_and_reading_needs_few(
    postgres: PostgresServer,
) -> None:
    with postgres.new_database("TEMPLATE template0") as url:
        postgres.execute("CREATE ROLE reader LOGIN")
        async with store_at(_as_user(url, "reader")) as reader, store_at(url) as owner:
            with pytest.raises(MemoryUnavailableError, match="has not the rights") as creating:
                await reader.remember([MemoryRecord(text="a")])
            await owner.remember([MemoryRecord(text="a pear")])
            postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", url=url)
            found = await reader.search("pear")
            with pytest.raises(MemoryUnavailableError, match="has not the rights"):
                await reader.remember([MemoryRecord(text="b")])
        postgres.execute("DROP OWNED BY reader", url=url)
        postgres.execute("DROP ROLE reader")

    assert len(found) == 1
    assert "grant" in creating.value.remedy


async def test_a_search_path_to_nowhere_is_told(postgres: PostgresServer) -> None:
    async with store_at(postgres.url_of(options="-csearch_path=nowhere")) as store:
        with pytest.raises(MemoryUnavailableError, match="no schema of its search_path"):
            await store.remember([MemoryRecord(text="a")])


async def test_what_a_server_complains_of_is_told(
    postgres: PostgresServer, postgres_url: str
) -> None:
    async with store_at(postgres_url) as store:
        await store.remember([MemoryRecord(text="a")])
        postgres.execute("ALTER TABLE memory_records DROP COLUMN author", url=postgres_url)

        with pytest.raises(MemoryUnavailableError, match="PostgreSQL says: column"):
            await store.search("a")


DAMAGES = {
    "no object": ("details = '[]'", "not an object"),
    "a wrong field": ("""details = '{"metadata":{"tags":3}}'""", "metadata: tags"),
    "a newer row": ("format_version = 9", "format version 9"),
    "a kind of tomorrow": ("kind = 'dreams'", "'dreams' is not known"),
}


@pytest.mark.parametrize(("change", "complaint"), DAMAGES.values(), ids=DAMAGES.keys())
async def test_a_damaged_memory_is_named(
    postgres: PostgresServer, postgres_url: str, change: str, complaint: str
) -> None:
    async with store_at(postgres_url) as store:
        await store.remember([MemoryRecord(id="mine", text="a zebra")])
        postgres.execute(f"UPDATE memory_records SET {change}", url=postgres_url)

        with pytest.raises(MemoryFormatError, match="The memory 'mine'") as caught:
            await store.get("mine")

    assert complaint in str(caught.value)


records = st.builds(
    MemoryRecord,
    text=st.sampled_from(["one", "two words", "parseToolCalls", "我喜欢徒步", ""]),
    kind=st.sampled_from(["events", "events", "chunks", "memories"]),
    id=st.sampled_from(["", "a", "b", "c", "d"]),
    session_id=st.sampled_from([None, "s", "t"]),
    parent_id=st.sampled_from([None, "p"]),
    author=st.sampled_from([None, "Ada"]),
    vector=st.sampled_from([None, ONE, Vector.pack("tiny", [0.0, 1.0])]),
)
steps = st.lists(
    st.one_of(
        st.lists(records, min_size=1, max_size=5), st.sets(st.sampled_from(["a", "b", "c", "d"]))
    ),
    max_size=8,
)
_WORDS = "SELECT id, words::text FROM memory_records ORDER BY key"
_VECTORS = "SELECT key, direction::text FROM memory_vectors ORDER BY key"


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=steps)
async def test_every_step_does_what_the_sqlite_store_does(
    postgres: PostgresServer, steps: list[list[MemoryRecord] | set[str]]
) -> None:
    clock = iter(range(1, 100)).__next__
    other_clock = iter(range(1, 100)).__next__
    with postgres.new_schema() as url:
        async with (
            PostgresMemoryStore(url, clock=clock, busy_seconds=60) as store,
            SqliteMemoryStore(None, clock=other_clock) as model,
        ):
            for step in steps:
                if isinstance(step, set):
                    assert await store.forget(sorted(step)) == await model.forget(sorted(step))
                else:
                    assert await store.remember(step) == await model.remember(step)

            kept = await everything(store)
            assert kept == [record async for record in model.export()]
            ids = [record.id for record in kept]
            assert await store.neighbours(ids) == await model.neighbours(ids)
            for query in ("one", "words", "tool calls", "徒", "Ada"):
                found = await store.search(query, vector=ONE, limit=100)
                wanted = await model.search(query, vector=ONE, limit=100)
                assert {hit.record.id: _shown(hit.bm25, hit.similarity) for hit in found} == {
                    hit.record.id: _shown(hit.bm25, hit.similarity) for hit in wanted
                }


def _shown(score: float | None, similarity: float | None) -> tuple[bool, float | None]:
    return score is not None, None if similarity is None else round(similarity, 6)


async def test_vectors_are_dropped_so_that_another_model_can_come(postgres_url: str) -> None:
    async with store_at(postgres_url) as store:
        await store.drop_vectors()
        await store.remember([MemoryRecord(id="a", text="a", vector=Vector.pack("old", [1.0]))])
        assert len(await store.search("", vector=Vector.pack("old", [1.0]))) == 1

        await store.drop_vectors()

        assert (await store.get("a")).vector is None
        await store.remember([MemoryRecord(id="b", text="b", vector=Vector.pack("new", [1.0, 2]))])
        [hit] = await store.search("", vector=Vector.pack("new", [1.0, 2]))
        assert hit.record.id == "b"


async def test_an_index_of_vectors_answers_as_well(
    postgres: PostgresServer, postgres_url: str
) -> None:
    async with store_at(f"{postgres_url}%20-chnsw.iterative_scan%3Dstrict_order") as store:
        vectors = [Vector.pack("tiny", [1.0, at / 10]) for at in range(1, 200)]
        await store.remember([MemoryRecord(text=str(at), vector=v) for at, v in enumerate(vectors)])
        postgres.execute(
            "CREATE INDEX ON memory_vectors USING hnsw (direction public.halfvec_cosine_ops)",
            url=postgres_url,
        )

        hits = await store.search("", vector=ONE, limit=5)

    assert [hit.record.text for hit in hits] == ["0", "1", "2", "3", "4"]


async def test_a_text_of_more_words_than_the_index_takes_is_kept_and_told(
    postgres_url: str,
) -> None:
    text = " ".join(f"word{number}" for number in range(90_000))
    async with store_at(postgres_url) as store:
        [kept] = await store.remember([MemoryRecord(text=text, id="long")])

        assert kept.notices == (CUT_NOTICE,)
        assert (await store.get("long")).text == text
        assert len(await store.search("word17")) == 1
        assert await store.search("word89999") == []


async def test_words_longer_than_the_index_takes_are_found_by_their_beginning(
    postgres_url: str,
) -> None:
    async with store_at(postgres_url) as store:
        await store.remember([MemoryRecord(text="x" * 5_000), MemoryRecord(text="y" * 9_000)])

        assert len(await store.search("x" * 5_000)) == 1


async def test_names_that_no_database_can_hold_are_nobodys(postgres_url: str) -> None:
    async with store_at(postgres_url) as store:
        await store.remember([MemoryRecord(id="a", text="a pear", session_id="s")])
        hostile = ("\0", "\ud800")

        assert await store.forget(hostile) == []
        assert await store.neighbours(hostile) == {}
        assert await store.search("pear", filters=MemoryFilters(namespaces=hostile)) == []
        excluding = MemoryFilters(excluded_ids=hostile, excluded_session_ids=hostile)
        assert len(await store.search("pear", filters=excluding)) == 1
        await store.touch(hostile)
        with pytest.raises(UnknownMemoryError):
            await store.get("\0")


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
async def test_the_first_and_last_moments_are_read_in_whatever_zone_the_server_stands(
    postgres_url: str, zone: str
) -> None:
    more = quote(f" -ctimezone={zone}", safe="")  # behind the options that the URL ends in
    async with store_at(f"{postgres_url}{more}") as store:
        moments = (FIRST_MOMENT, LAST_MOMENT)
        await store.remember([MemoryRecord(text=f"{m}", created_at=m) for m in moments])

        found = [record.created_at async for record in store.export()]

    assert found == [FIRST_MOMENT, LAST_MOMENT]


async def test_common_words_are_only_looked_for_where_rare_ones_find_too_few(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("context_assembler.memory.postgres_match.FLOOR_ROWS", 5)
    async with store_at(postgres_url) as store:
        await store.remember(
            [MemoryRecord(text=f"common half{at % 2} number{at}") for at in range(12)]
        )

        by_rare = await store.search("common number7 number8 number3 number1 number5")
        by_common = await store.search("common number7")

    assert len(by_rare) == 5
    assert len(by_common) == 12
    assert by_common[0].record.text == "common half1 number7"


async def test_without_the_driver_a_store_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    store = PostgresMemoryStore("postgresql://localhost/agents")

    with pytest.raises(MissingExtraError, match=r"context-assembler\[postgres\]"):
        await store.search("a")


@pytest.mark.parametrize("url", ["postgresql:agents", "postgres:", "POSTGRESQL:/agents"])
def test_a_url_without_slashes_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is no URL of a database"):
        open_memory(url)


def test_a_store_is_opened_by_either_name_of_its_scheme() -> None:
    for scheme in ("postgres", "postgresql", "PostgreSQL"):
        store = open_memory(f"{scheme}://ada:secret@db.example.com:5433/agents?sslmode=require")

        assert isinstance(store, PostgresMemoryStore)
        assert store.location == "postgresql://db.example.com:5433/agents"


def _as_user(url: str, user: str) -> str:
    return url.replace("postgres:@", f"{user}@")
