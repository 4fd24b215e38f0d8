"""Encryption at rest: what a store keeps is read with its key alone, and no key is guessed."""

import asyncio
from base64 import b64encode
from contextlib import closing
from functools import partial
from pathlib import Path
from sqlite3 import connect
from typing import Any

import pytest

from context_assembler import ContextAssembler, Session, assistant_event, user_event
from context_assembler.errors import AssemblyError, StoreLockedError
from context_assembler.events import CallRow, Provenance, Thinking
from context_assembler.sessions import Encryption, SqlStore, open_store
from context_assembler.sessions.copying import copy_sessions
from context_assembler.tokens import DEFAULT_FAMILIES, family_by_key

KEYS = {"1": b"k" * 32, "2": b"l" * 16}
SECRETS = ("attack", "dawn", "retreat", "general", "plan")
each_that_lasts = pytest.mark.parametrize("location", ["sqlite", "postgresql"], indirect=True)


def opened(location: str, key_of: Any = KEYS.__getitem__, key_id: str = "1") -> SqlStore:
    store: SqlStore = open_store(location, encryption=Encryption(key_of, key_id=key_id))
    return store


async def fill(store: SqlStore) -> None:
    await store.create(Session(id="trip", metadata={"of": "the general"}))
    thought = Thinking(text="retreat", provider="p", block={"signature": "s"})
    reply = assistant_event([thought], made_by=Provenance(provider="p", model="m"))
    row = CallRow(provider="p", model="m", answers_seq=1, system_hash="h", details={"a": "plan"})
    await store.append("trip", [user_event("attack at dawn")])
    store.append_now("trip", [reply], call=row, texts={"h": "You are a general."})
    store.keep_derived("trip", "short", {1: "attack", 2: {"was": "retreat"}})


async def everything(store: SqlStore) -> list[Any]:
    family = family_by_key(DEFAULT_FAMILIES[0])
    assert family is not None
    return [
        await store.head("trip"),
        await store.list_sessions(),
        [event async for event in store.load("trip")],
        store.bodies("trip", [(1, 2)]),
        store.columns("trip", family),
        store.calls("trip"),
        store.last_call("trip"),
        store.text("h"),
        store.derived("trip", "short"),
        store.derived("trip", "signed"),
    ]


async def test_what_is_encrypted_comes_back_as_it_was(location: str) -> None:
    async with opened(location) as store:
        await fill(store)
        before = await everything(store)
        if location != "memory:":
            async with opened(location) as other:
                assert await everything(other) == before
        store.fork_now("trip", Session(id="fork"), at=2)
        assert store.bodies("fork", [(1, 2)]) == store.bodies("trip", [(1, 2)])
        assert store.text("h") == "You are a general."


def test_no_word_is_in_the_file_in_the_clear_and_columns_are(tmp_path: Path) -> None:
    async def filled() -> None:
        async with opened(f"sqlite:{tmp_path / 'agent.db'}") as store:
            await fill(store)

    asyncio.run(filled())
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    with closing(connect(tmp_path / "agent.db")) as db:
        [kind] = db.execute("SELECT kind FROM events WHERE id = 'evt_1'").fetchone()

    assert kind == 0
    assert not [word for word in SECRETS if word.encode() in held]


@each_that_lasts
async def test_without_its_key_a_store_is_neither_read_nor_written(location: str) -> None:
    async with opened(location) as store:
        await fill(store)
        family = family_by_key(DEFAULT_FAMILIES[0])
        assert family is not None
        columns = store.columns("trip", family)

    def nothing(_: str) -> bytes:
        raise LookupError("the KMS has no such key")

    ways = {
        "no key": (open_store(location), r"no key was given.* CONTEXT_ASSEMBLER_SESSIONS_KEY"),
        "another": (opened(location, lambda _: b"x" * 32), r"another one.* key_of return"),
        "a short one": (opened(location, lambda _: b"x"), "16, 24 or 32 bytes"),
        "none of that id": (opened(location, nothing), "the KMS has no such key"),
    }
    for store, told in ways.values():

        async def loaded(store: SqlStore = store) -> None:
            assert not [event async for event in store.load("trip")]

        acts = (
            store.head("trip"),
            loaded(),
            store.append("trip", [user_event("in the clear")]),
            store.append("new", [user_event("in the clear")]),
            store.create(Session(id="new")),
            ContextAssembler(store).assemble("trip", model="claude-haiku-4-5"),
        )
        for act in acts:
            with pytest.raises(StoreLockedError, match=told) as caught:
                await act
            assert caught.value.key_id == "1"
        for ask in (store.calls, store.last_call, partial(store.derived, purpose="short")):
            with pytest.raises(StoreLockedError):
                ask("trip")
        with pytest.raises(StoreLockedError):
            store.text("h")
        assert store.columns("trip", family) == columns
        await store.close()
    async with opened(location) as store:
        assert [head.session.id for head in await store.list_sessions()] == ["trip"]


@each_that_lasts
async def test_a_new_key_reads_on_as_long_as_the_earlier_one_is_there(location: str) -> None:
    asked = list[str]()

    def key_of(key_id: str) -> bytes:
        asked.append(key_id)
        return KEYS[key_id]

    async with opened(location) as store:
        await store.append("trip", [user_event("one")])
    async with opened(location, key_of, "2") as store:
        await store.append("trip", [user_event("two")])
        assert [event.text async for event in store.load("trip")] == ["one", "two"]
        assert sorted(asked) == ["1", "2"]
    async with opened(location, lambda key_id: {"2": KEYS["2"]}[key_id], "2") as store:
        with pytest.raises(StoreLockedError, match="'1'"):
            store.bodies("trip", [(1, 1)])


@each_that_lasts
async def test_what_was_stored_before_there_was_a_key_is_read_with_it(location: str) -> None:
    async with open_store(location) as store:
        await store.append("trip", [user_event("one")])
    async with opened(location) as store:
        await store.append("trip", [user_event("two")])
        assert [event.text async for event in store.load("trip")] == ["one", "two"]
    async with open_store(location) as store:
        with pytest.raises(StoreLockedError):
            await store.append("trip", [user_event("three")])


@each_that_lasts
@pytest.mark.parametrize(("before", "after"), [("", "1"), ("1", ""), ("1", "2")])
async def test_a_copy_is_encrypted_as_the_store_that_it_goes_to(
    location: str, tmp_path: Path, before: str, after: str
) -> None:
    def made(url: str, key_id: str) -> SqlStore:
        store: SqlStore = opened(url, key_id=key_id) if key_id else open_store(url)
        return store

    copy = f"sqlite:{tmp_path / 'copy.db'}"
    async with made(location, before) as source, made(copy, after) as target:
        await fill(source)
        await source.append("trip", [user_event("plan")])
        for _ in range(2):
            done = [*copy_sessions(source, target, await source.list_sessions())]
            assert [one.outcome for one in done] != ["differs"]
        await source.append("trip", [user_event("plan")])
        [last] = [*copy_sessions(source, target, await source.list_sessions())]
        assert last.outcome == "continued"
        assert [e.text async for e in target.load("trip")] == [
            e.text async for e in source.load("trip")
        ]
        assert (target.calls("trip"), target.text("h")) == (source.calls("trip"), source.text("h"))
    async with open_store(copy) as store:
        if not after:
            assert (await store.head("trip")).last_seq == 4
            return
        with pytest.raises(StoreLockedError, match=f"the key '{after}'"):
            await store.append("trip", [user_event("in the clear")])


@pytest.mark.parametrize("at", [0, 4, 6, 20, -1])
async def test_an_altered_value_is_no_text(tmp_path: Path, at: int) -> None:
    url = f"sqlite:{tmp_path / 'agent.db'}"
    async with opened(url) as store:
        await store.append("trip", [user_event("attack at dawn")])
    with closing(connect(tmp_path / "agent.db")) as db, db:
        [body] = db.execute("SELECT body FROM events").fetchone()
        altered = bytearray(body)
        altered[at] ^= 1
        db.execute("UPDATE events SET body = ?", (bytes(altered),))

    async with opened(url) as store:
        with pytest.raises(AssemblyError, match=r"damaged|cannot be decoded|no such key"):
            store.bodies("trip", [(1, 1)])


async def test_the_environment_may_have_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:{tmp_path / 'agent.db'}"
    one, two = (b64encode(key).decode() for key in KEYS.values())
    monkeypatch.setenv("CONTEXT_ASSEMBLER_SESSIONS_KEY", one)
    async with ContextAssembler(url) as assembler:
        await assembler.add_user("trip", "attack at dawn")
        context = await assembler.assemble("trip", model="claude-haiku-4-5")
        assert "attack at dawn" in str(context.to_request())
    async with opened(url) as store:
        assert store.bodies("trip", [(1, 1)])
    monkeypatch.setenv("CONTEXT_ASSEMBLER_SESSIONS_KEY", f"2:{two}, 1:{one}")
    async with open_store(url) as store:
        await store.append("trip", [user_event("retreat")])
    async with opened(url) as store:  # the program reads on what another one wrote
        assert [event.text async for event in store.load("trip")] == ["attack at dawn", "retreat"]
    monkeypatch.setenv("CONTEXT_ASSEMBLER_SESSIONS_KEY", f"2:{two}")
    async with open_store(url) as store:
        with pytest.raises(StoreLockedError, match="as CONTEXT_ASSEMBLER_SESSIONS_KEY=1:KEY"):
            await store.append("trip", [user_event("lost")])
    monkeypatch.setenv("CONTEXT_ASSEMBLER_SESSIONS_KEY", "no base64!")
    async with open_store(url) as store:
        with pytest.raises(StoreLockedError, match="16, 24 or 32 bytes"):
            await store.head("trip")
