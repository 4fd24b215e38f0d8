"""Memories from and to files, the URLs of stores, and what is done to a record before it is kept."""

import asyncio
import json
import os
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from context_assembler.errors import (
    AssemblyError,
    ConfigurationError,
    MemoryFormatError,
    MemoryUnavailableError,
    MissingExtraError,
    VectorModelError,
)
from context_assembler.memory import (
    SqliteMemoryStore,
    export_memories,
    import_memories,
    open_memory,
)
from context_assembler.memory.preparing import text_leaves
from context_assembler.values.memories.metadata import CodeMetadata
from context_assembler.values.memories.records import NO_FILTERS, MemoryFilters, MemoryRecord
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.texts.secret_masking import _patterns, mask_secrets
from context_assembler.values.texts.secret_signs import may_hold_secret

SECRET = "ghp_" + "a1B2" * 9
MASKED = "[masked: GitHub Token]"


async def test_what_is_exported_can_be_imported_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    async with SqliteMemoryStore(None) as one, SqliteMemoryStore(None) as two:
        await one.remember([MemoryRecord(text=f"fact {i}") for i in range(4_100)])
        await one.touch([(await one.search("4000"))[0].record.id])

        written = await export_memories(one, path)
        outcomes = await import_memories(two, path)

        assert written == len(outcomes) == 4_100
        assert {row.outcome for row in outcomes} == {"added"}
        assert [r async for r in one.export()] == [r async for r in two.export()]
        assert {row.outcome for row in await import_memories(two, path)} == {"replaced"}


async def test_an_export_may_be_of_a_part_or_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    async with SqliteMemoryStore(None) as store:
        assert await export_memories(store, path) == 0
        assert path.read_bytes() == b""
        await store.remember([MemoryRecord(text="a"), MemoryRecord(text="b", namespace="shop")])

        only_shop = MemoryFilters(namespaces=("shop",))
        assert await export_memories(store, path, filters=only_shop) == 1


async def test_what_says_nothing_is_not_in_the_way_of_moving(tmp_path: Path) -> None:
    async with SqliteMemoryStore(None) as store, SqliteMemoryStore(None) as other:
        turns = [MemoryRecord(text=t, kind="events", session_id="s") for t in ("one", " ", "two")]
        await store.remember(turns)

        written = await export_memories(store, tmp_path / "out.jsonl")
        moved = await import_memories(other, tmp_path / "out.jsonl")

    assert written == len(moved) == 2


async def test_one_bad_line_and_nothing_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    path.write_bytes(b'{"text": "a"}\n' * 3_000 + b'{"txt": "b"}\n')
    async with SqliteMemoryStore(None) as store:
        with pytest.raises(MemoryFormatError, match="line 3001"):
            await import_memories(store, path)

        assert (await store.stats()).records == 0


def spelled_vector(model: str) -> dict[str, str]:
    vector = Vector.pack(model, [1.0, 0.5])
    return {"model": vector.model, "codes": b64encode(vector.codes).decode()}


BAD_ENDS: dict[str, tuple[dict[str, object], type[AssemblyError]]] = {
    "a vector of another model": ({"vector": spelled_vector("m2")}, VectorModelError),
    "a kind that does not exist": ({"kind": "dreams"}, MemoryFormatError),
    "an endless id": ({"id": "x" * 600}, MemoryFormatError),
    "a newer version": ({"version": 99}, MemoryFormatError),
}


@pytest.mark.parametrize(("wrong", "error"), BAD_ENDS.values(), ids=BAD_ENDS.keys())
async def test_whatever_is_wrong_with_the_last_line_nothing_is_imported(
    tmp_path: Path, wrong: dict[str, object], error: type[AssemblyError]
) -> None:
    rows: list[dict[str, object]] = [{"id": f"r{n}", "text": f"fact {n}"} for n in range(4_500)]
    rows[0]["vector"] = spelled_vector("m1")
    rows[-1] |= wrong
    path = tmp_path / "memories.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    async with SqliteMemoryStore(tmp_path / "m.db") as store:
        with pytest.raises(error):
            await import_memories(store, path)

        assert (await store.stats()).records == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
async def test_a_file_of_any_encoding_that_says_so_is_read(tmp_path: Path, encoding: str) -> None:
    # ਊ and ஊ have the byte of a line's end in UTF-16.
    told = ["tea", "ਊ and ஊ", "Kaffee für Jürgen"]
    path = tmp_path / "memories.jsonl"
    lines = "\r\n".join(json.dumps({"text": text}, ensure_ascii=False) for text in told)
    path.write_bytes(lines.encode(encoding))

    async with SqliteMemoryStore(None) as store:
        await import_memories(store, path)
        again = await import_memories(store, BytesIO(path.read_bytes()))

        assert [record.text async for record in store.export()] == told
    assert {row.outcome for row in again} == {"duplicate"}


async def test_bytes_that_are_not_what_the_file_says_are_named_with_their_line() -> None:
    half = '{"text": "tea"}\n{"text": "cof'.encode("utf-16") + b"\x00"

    async with SqliteMemoryStore(None) as store:
        with pytest.raises(MemoryFormatError, match="line 2, cannot be read: not UTF-16"):
            await import_memories(store, BytesIO(half))


async def test_a_stream_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = asyncio.create_task(asyncio.to_thread(path.write_bytes, b'{"text": "tea"}\n' * 3))
    async with SqliteMemoryStore(None) as store:
        piped = await import_memories(store, path)
        streamed = await import_memories(store, BytesIO(b'{"text": "coffee"}\n'))
        await writer

    assert [row.outcome for row in (*piped, *streamed)] == [
        "added",
        "duplicate",
        "duplicate",
        "added",
    ]


async def test_a_stream_is_written_to(tmp_path: Path) -> None:
    stream = BytesIO()
    async with SqliteMemoryStore(None) as store:
        await store.remember([MemoryRecord(text="tea")])

        assert await export_memories(store, stream) == 1
        assert await export_memories(store, "/dev/null") == 1

    assert json.loads(stream.getvalue())["text"] == "tea"


class Breaking(SqliteMemoryStore):
    """A store whose rows can be read up to the third."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(None)
        self.error = error

    async def export(self, *, filters: MemoryFilters = NO_FILTERS) -> AsyncIterator[MemoryRecord]:
        del filters
        for n in range(2):
            yield MemoryRecord(text=f"fact {n}")
        raise self.error


FAILURES: dict[str, BaseException] = {
    "the store": MemoryUnavailableError("m.db", reason="the disk is gone", remedy=""),
    "the program": ZeroDivisionError(),
    "who waits": asyncio.CancelledError(),
}


@pytest.mark.parametrize("error", FAILURES.values(), ids=FAILURES.keys())
async def test_an_export_that_fails_leaves_what_was_there(
    tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "backup.jsonl"
    path.write_text("precious")
    async with Breaking(error) as store:
        with pytest.raises(type(error)):
            await export_memories(store, path)

    assert path.read_text() == "precious"
    assert os.listdir(tmp_path) == ["backup.jsonl"]  # noqa: PTH208 – pathlib's way is told to wait


async def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    async with SqliteMemoryStore(None) as store:
        with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
            await import_memories(store, tmp_path / "no.jsonl")
        with pytest.raises(ConfigurationError, match="cannot be written: Is a directory"):
            await export_memories(store, tmp_path)


def path_of(location: str | Path) -> Path | None:
    store = open_memory(location)
    assert isinstance(store, SqliteMemoryStore)
    return store.path


def test_a_url_names_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert path_of("memory:") is None
    assert path_of("sqlite::memory:") is None
    assert path_of("sqlite:a.db") == tmp_path / "a.db"
    assert path_of("SQLITE:///var/a.db") == Path("/var/a.db")
    assert path_of(tmp_path / "b.db") == tmp_path / "b.db"


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("a.db", "Did you mean 'sqlite:a.db'"),
        *((url, "Write 'memory:") for url in ("redis:x", "memory:x", "sqlite:", "sqlite://x")),
    ],
)
def test_a_url_that_names_no_store_says_how_one_looks(url: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError, match=remedy):
        open_memory(url) if "sqlite" not in url else open_memory("memory:x")
    with pytest.raises(ConfigurationError):
        open_memory(url)


async def test_secrets_are_masked_everywhere_before_they_are_kept() -> None:
    record = MemoryRecord(
        text=f"use {SECRET} to log in",
        kind="code",
        metadata=CodeMetadata(path=f"/tmp/{SECRET}.py"),
        extras={"notes": [{"deep": SECRET}, 3]},
    )
    async with SqliteMemoryStore(None) as store:
        [kept] = await store.remember([record])
        found = await store.get(kept.id)

    assert found.text == f"use {MASKED} to log in"
    assert found.metadata == CodeMetadata(path=f"/tmp/{MASKED}.py")
    assert found.extras == {"notes": [{"deep": MASKED}, 3]}
    assert kept.notices == ("3 secrets were masked (GitHub Token).",)


async def test_secrets_stay_where_nobody_wants_them_masked() -> None:
    async with SqliteMemoryStore(None, masks_secrets=False) as store:
        [kept] = await store.remember([MemoryRecord(text=SECRET, extras={"x": SECRET})])
        found = await store.get(kept.id)

        assert (found.text, found.extras) == (SECRET, {"x": SECRET})
        assert kept.notices == ()


async def test_without_detect_secrets_nothing_is_kept_that_was_to_be_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_text: str) -> None:
        raise MissingExtraError("Masking secrets", extra="secrets")

    monkeypatch.setattr("context_assembler.memory.preparing.mask_secrets", fail)
    async with SqliteMemoryStore(None) as store:
        with pytest.raises(MissingExtraError, match=r"context-assembler\[secrets\]"):
            await store.remember([MemoryRecord(text=SECRET)])

        assert (await store.stats()).records == 0


async def test_what_no_text_may_hold_is_taken_out_and_told() -> None:
    async with SqliteMemoryStore(None) as store:
        kept = await store.remember(
            [
                MemoryRecord(text="a\0b \ud83d"),
                MemoryRecord(text="c", extras={"x": "d\0"}),
                MemoryRecord(text="e", extras={"x": "f"}),
            ]
        )
        first, second = await store.get(kept[0].id), await store.get(kept[1].id)

    assert (first.text, second.extras) == ("ab \ufffd", {"x": "d"})
    assert [len(row.notices) for row in kept] == [1, 1, 0]
    assert "were taken out" in kept[0].notices[0]


SIGNS = (
    "AKIA" + "A" * 16,
    "sk-ant-" + "a" * 16,
    "https://user:pw123@host",
    "xoxb-1-a",
    "eyJa.b.",
    "TOKEN=12345678",
    'key = "abcdefgh"',
    "-----BEGIN PRIVATE KEY-----",
    "Bearer " + "a" * 20,
    "//host/:_authToken=abcdefgh",
)


@pytest.mark.parametrize("secret", SIGNS)
def test_no_known_secret_goes_by_unseen(secret: str) -> None:
    assert mask_secrets(f"see {secret} there").kinds or mask_secrets(secret).kinds
    assert may_hold_secret(f"see {secret} there")


@pytest.mark.parametrize(("kind", "pattern"), _patterns(), ids=[kind for kind, _ in _patterns()])
def test_no_pattern_of_a_secret_is_passed_over(kind: str, pattern: re.Pattern[str]) -> None:
    @settings(max_examples=10, deadline=None, database=None, phases=[Phase.generate])
    @given(st.from_regex(pattern))
    def check(text: str) -> None:
        assert may_hold_secret(text), kind

    check()


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.sampled_from("aA1:=/.-_ \n\"'keytoknsrpwdxb{"), max_size=60))
def test_what_is_not_looked_at_holds_no_secret(text: str) -> None:
    assert may_hold_secret(text) or not mask_secrets(text).kinds


def test_every_text_inside_a_value_is_a_leaf() -> None:
    value = {"b": ["x", {"c": "y"}], "a": 3, "d": "z"}

    assert list(text_leaves(value)) == ["x", "y", "z"]


async def test_masked_twins_are_one(tmp_path: Path) -> None:
    async with SqliteMemoryStore(tmp_path / "m.db") as store:
        record = MemoryRecord(text=f"log in with {SECRET}")
        [first] = await store.remember([record])
        [second] = await store.remember([replace(record, text=f"log in with ghp_{'b' * 36}")])

    assert (second.id, second.outcome) == (first.id, "duplicate")
