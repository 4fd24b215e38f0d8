"""Several sources under one budget: none hides, ends or drowns what another one knows."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from context_assembler import (
    ContextAssembler,
    FormattedContext,
    MemoryAssembler,
    RecallSettings,
    open_memory,
)
from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.memories.metadata import (
    EntityMetadata,
    ExperienceMetadata,
    RelationMetadata,
)
from context_assembler.values.memories.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryHit,
    MemoryRecord,
)
from tests.recall.building import NOW, Alarm, Answering, Listing, hit, record

GREEN = record("tea is green", id="g")


def recalling(*sources: Any, **given: Any) -> MemoryAssembler:
    arguments: dict[str, Any] = {"sleep": Alarm(), "clock": NOW.timestamp, **given}
    return MemoryAssembler(list(sources), **arguments)


class Source:
    """Does what it is told to when it is asked for one kind."""

    def __init__(
        self, act: Callable[[], Awaitable[Sequence[MemoryHit]]], kind: MemoryKind = "memories"
    ) -> None:
        self.name = "wiki"
        self.act = act
        self.kind = kind

    async def search(
        self,
        query: str,  # noqa: ARG002 - the port
        *,
        limit: int = 20,  # noqa: ARG002 - the port
        filters: MemoryFilters = NO_FILTERS,
        **_: Any,
    ) -> Sequence[MemoryHit]:
        return await self.act() if self.kind in filters.kinds else []


# ---- ids ----


def numbered(*texts: str, name: str) -> Listing:
    return Listing(*(record(text, id=str(at)) for at, text in enumerate(texts)), name=name)


async def test_sources_that_number_their_records_do_not_hide_each_other() -> None:
    wiki = numbered("The ferry leaves at nine.", "A ferry ticket costs ten euros.", name="wiki")
    desk = numbered("Ada wants money back for the ferry ticket", "No ferry in storms.", name="desk")

    context = await recalling(wiki, desk).assemble_context("ferry", context_types="memories")

    assert len(context.items) == 4
    assert {row.outcome for row in context.explanations} == {"kept"}


async def test_a_context_of_records_that_are_numbered_alike_is_made_smaller() -> None:
    wiki = numbered("The ferry leaves at nine " + "and nine " * 40, name="wiki")
    desk = numbered("ferry ferry", name="desk")
    recall = recalling(wiki, desk)
    context = await recall.assemble_context("ferry", context_types="memories")

    smaller = await recall.compress(context, target_tokens=60)

    outcomes = {row.source: row.outcome for row in smaller.explanations}
    shown = {item.source: item.is_truncated for item in smaller.items}
    assert outcomes == {
        name: "left_out" if name not in shown else "shortened" if shown[name] else "kept"
        for name in ("wiki/memories", "desk/memories")
    }


async def test_relations_are_walked_in_the_source_of_their_entity() -> None:
    class Graph(Listing):
        async def get(self, memory_id: str) -> MemoryRecord:
            return next(r for r in self.records if r.id == memory_id)

        async def search(self, query: str, **given: Any) -> Sequence[MemoryHit]:
            if given["filters"].kinds == ("relations",):
                return [hit(r, bm25=1.0) for r in self.records if r.kind == "relations"]
            return await super().search(query, **given)

    def graph(start: str, end: str, *, name: str) -> Graph:
        way = RelationMetadata(source_id="1", target_id="2", relation="knows")
        return Graph(
            record(start, id="1", kind="entities", metadata=EntityMetadata(name=start)),
            record(end, id="2", kind="entities", metadata=EntityMetadata(name=end)),
            record(f"{start} knows {end}", id="3", kind="relations", metadata=way),
            name=name,
        )

    sources = (graph("Acme", "Zoe", name="own"), graph("Quark", "Lepton", name="other"))
    context = await recalling(*sources).assemble_context("Acme", context_types="entities")

    assert {item.record.text for item in context.items} == {"Acme", "Acme knows Zoe", "Zoe"}


async def test_hits_without_an_id_are_told_apart() -> None:
    texts = ("The ferry leaves at nine.", "Customers get a refund for the ferry.")
    source = Answering([hit(MemoryRecord(text=text), bm25=1.0) for text in texts])

    context = await recalling(source).assemble_context("ferry", context_types="memories")

    assert len(context.items) == len({row.memory_id for row in context.explanations}) == 2


async def test_the_whole_text_of_a_record_without_an_id_is_found_by_nothing() -> None:
    source = Answering([hit(MemoryRecord(text="ferry " + "and words " * 2_000), bm25=1.0)])

    context = await recalling(source).assemble_context("ferry", context_types="memories")

    assert "[…]\n" in context.markdown
    assert "full text" not in context.markdown


# ---- a source whose own work is cancelled ----


async def cancelled() -> Sequence[MemoryHit]:
    inner = asyncio.ensure_future(asyncio.Event().wait())
    inner.cancel()
    await inner
    return []


async def recalled(source: Any) -> FormattedContext:
    return await recalling(Listing(GREEN), source).assemble_context("tea")


async def test_a_source_whose_own_work_was_cancelled_costs_its_part_alone() -> None:
    context = await recalled(Source(cancelled))

    assert "tea is green" in context.markdown
    assert context.source_status["wiki/memories"] == "failed"
    assert context.source_notes == {"wiki/memories": "its own work was cancelled"}


async def test_a_premortem_goes_on_without_a_source_whose_own_work_was_cancelled() -> None:
    recall = recalling(Source(cancelled, kind="values"), Listing())

    context = await recall.get_premortem_context("tea")

    assert context.source_status == {"wiki": "failed", "listing": "empty"}


async def test_a_call_goes_out_without_a_source_whose_own_work_was_cancelled() -> None:
    memory = recalling(Listing(GREEN), Source(cancelled))
    assembler = ContextAssembler(memory=memory, now=lambda: NOW)
    await assembler.add_user("s", "tea?")

    context = await assembler.assemble("s", model="gpt-5.5", max_tokens=100, query="tea")

    assert "tea is green" in str(context.to_request())


async def test_words_are_searched_where_an_embedder_s_own_work_was_cancelled() -> None:
    class Embedder:
        model = "m"
        dimension = 2

        async def embed(self, texts: Sequence[str], **_: Any) -> Any:  # noqa: ARG002 - the port
            return await cancelled()

        async def close(self) -> None: ...

    context = await recalling(Listing(GREEN), embed=Embedder()).assemble_context("tea")

    assert "tea is green" in context.markdown
    assert "its own work was cancelled" in context.source_notes["embedding"]


@pytest.mark.parametrize("call", ["assemble_context", "get_premortem_context"])
async def test_who_cancels_a_recall_ends_it(call: str) -> None:
    begun = asyncio.Event()

    async def hang() -> Sequence[MemoryHit]:
        begun.set()
        await asyncio.Event().wait()
        return []

    kind: MemoryKind = "memories" if call == "assemble_context" else "values"
    asking = asyncio.ensure_future(getattr(recalling(Source(hang, kind)), call)("tea"))
    await begun.wait()
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking


# ---- answers that nobody can use ----


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


async def silent() -> Sequence[MemoryHit]:
    raise SilentError


async def test_an_error_that_cannot_be_told_is_named() -> None:
    recall = recalling(Listing(GREEN), Source(silent))

    context = await recall.assemble_context("tea")
    premortem = await recalling(Source(silent, kind="values")).get_premortem_context("tea")

    assert "tea is green" in context.markdown
    assert context.source_notes == {"wiki/memories": "SilentError"}
    assert premortem.source_notes == {"wiki": "SilentError"}


async def test_hits_that_cannot_be_used_leave_the_others() -> None:
    garbage: Any = [MemoryHit(record=None, order=0, bm25=1.0), hit(GREEN, bm25=1.0)]  # type: ignore[arg-type]

    context = await recalling(Answering(garbage)).assemble_context("tea", context_types="memories")

    assert "tea is green" in context.markdown
    assert context.source_status == {"memories": "ok"}
    assert context.source_notes == {"memories": "1 of 2 cannot be used: its record is a 'NoneType'"}


# ---- premortems ----


async def test_a_premortem_asks_for_one_kind_at_a_time() -> None:
    asked: list[tuple[str, ...]] = []

    class Noting(Listing):
        async def search(self, query: str, **given: Any) -> Sequence[MemoryHit]:
            asked.append(given["filters"].kinds)
            return await super().search(query, **given)

    await recalling(Noting()).get_premortem_context("tea")

    assert sorted(asked) == [("experiences",), ("learnings",), ("patterns",), ("values",)]


async def test_attempts_without_ids_or_numbered_alike_are_each_told() -> None:
    def attempts(*texts: str, id: str = "") -> list[MemoryHit]:  # noqa: A002 - the field
        failed = ExperienceMetadata(domain="tea", succeeded=False, strategy="boil")
        return [
            hit(MemoryRecord(id=id, text=text, kind="experiences", metadata=failed))
            for text in texts
        ]

    class Lessons(Answering):
        async def search(self, query: str, **given: Any) -> Sequence[MemoryHit]:
            return await super().search(query) if "experiences" in given["filters"].kinds else []

    sources = (
        Lessons(attempts("too hot", "too weak"), name="bare"),
        Lessons(attempts("spilt", id="1"), name="one"),
        Lessons(attempts("cold", id="1"), name="other"),
        Lessons(attempts("cold", id="1"), name="copy"),
    )
    context = await recalling(*sources).get_premortem_context("tea")

    assert "- boil: 0 of 4 succeeded (0%)" in context.markdown


# ---- what could not answer, and what had no room ----


async def test_a_source_that_is_down_leaves_the_room_to_the_others() -> None:
    own = Listing(record("Ada likes window seats."), record("Ada sits at seat 42 on the train."))
    down = [Answering(ConnectionError("down"), name=f"wiki {at}") for at in range(9)]

    for max_tokens in (50, 80, 300):
        alone = await recalling(own).assemble_context("Ada seat", max_tokens=max_tokens)
        beside = await recalling(own, *down).assemble_context("Ada seat", max_tokens=max_tokens)

        assert [i.record.id for i in beside.items] == [i.record.id for i in alone.items]
        assert len(alone.items) == 2
        assert ("wiki 0 (failed)" in beside.markdown) == (max_tokens == 300)


NEEDED = record("Ada must never be given penicillin, see the hospital's letter of 2019.", id="n")


@pytest.mark.parametrize("max_tokens", range(1, 30))
async def test_what_had_no_room_is_not_called_irrelevant(max_tokens: int) -> None:
    context = await recalling(Listing(NEEDED)).assemble_context("Ada", max_tokens=max_tokens)

    assert context.budget_exceeded or context.items
    assert context.token_count <= max_tokens
    assert "Nothing relevant" not in context.markdown
    assert context.items or context.markdown in ("", "What was found in memory had no room.")


async def test_a_context_without_room_for_its_items_does_not_call_them_irrelevant() -> None:
    recall = recalling(Listing(NEEDED))
    context = await recall.assemble_context("Ada")

    smaller = await recall.compress(context, target_tokens=12)
    updated = recall.update_context(context, "Ada sits.", max_tokens=12)

    assert smaller.markdown == updated.markdown == "What was found in memory had no room."


@pytest.mark.parametrize("end", [{"id": "zoe"}, None, "zoe"])
async def test_relations_to_what_cannot_be_used_are_not_walked(end: Any) -> None:
    way = RelationMetadata(source_id="acme", target_id="zoe", relation="knows")
    acme = record("Acme", id="acme", kind="entities", metadata=EntityMetadata(name="Acme"))

    class Graph(Listing):
        async def get(self, memory_id: str) -> Any:  # noqa: ARG002 - the port
            return end

    context = await recalling(
        Graph(acme, record("acme knows zoe", id="r", kind="relations", metadata=way))
    ).assemble_context("acme", context_types="entities")

    assert [item.record.id for item in context.items] == ["acme"]


async def test_a_kind_that_shares_a_word_by_chance_takes_no_room_from_what_fits() -> None:
    kinds: tuple[MemoryKind, ...] = ("code", "commits", "learnings", "values")
    kept = MemoryRecord(id="fits", text="Okafor Logistics has a contract for 40 seats until March.")
    chance = [
        MemoryRecord(id=kind, kind=kind, text=f"The contract test of {kind} is slow on some days.")
        for kind in kinds
    ]
    async with open_memory("memory:") as store:
        await store.remember([kept, *chance])

        context = await MemoryAssembler(store).assemble_context(
            "Until when is the contract of Okafor for 40 seats?", max_tokens=200
        )

    assert [found.record.id for found in context.items] == ["fits"]
    assert context.source_status["code"] == "below_floor"
    assert {row.reason for row in context.explanations if row.outcome == "left_out"} == {
        "it is below the floor of relevance"
    }


async def test_without_a_floor_everything_that_was_found_is_ranked() -> None:
    kinds: tuple[MemoryKind, ...] = ("memories", "code")
    texts = ("the boat leaves the harbour at nine", "the harbour was built long ago by nobody")
    kept = [MemoryRecord(id=k, kind=k, text=text) for k, text in zip(kinds, texts, strict=True)]
    async with open_memory("memory:") as store:
        await store.remember(kept)
        recall = MemoryAssembler(store, settings=RecallSettings(floor=0))

        context = await recall.assemble_context("When leaves the boat in the harbour?")

    assert [found.record.id for found in context.items] == ["memories", "code"]
