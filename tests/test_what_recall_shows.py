"""What is told of a record: nothing secret, no more than fits, and the task above it."""

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_type_hints

import pytest

from context_assembler import (
    ContextAssembler,
    InvalidParameterError,
    MemoryAssembler,
    MissingExtraError,
    SqliteMemoryStore,
    TaskStack,
)
from context_assembler.memory_assembler.recalling import MOST_EXPLAINED
from context_assembler.memory_assembler.showing import chars_within
from context_assembler.memory_assembler.thinking import think
from context_assembler.testing import WordCounter
from context_assembler.values.memories.kinds import KINDS, MemoryKind
from context_assembler.values.memories.metadata import ChunkMetadata, ExperienceMetadata
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import FormattedContext
from context_assembler.values.texts import secret_masking
from tests.memory.embedders import Compass
from tests.recall.building import NOW, Alarm, Listing, record

KEY = "AKIA" + "Q3EGRIJMZLWNTYUP"
SAID = f"deploy with {KEY}"


def recalling(*sources: Any, **given: Any) -> MemoryAssembler:
    arguments: dict[str, Any] = {"sleep": Alarm(), "clock": NOW.timestamp, **given}
    return MemoryAssembler(list(sources), **arguments)


@pytest.fixture
def _nothing_that_masks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "detect_secrets.core.plugins.util", None)
    secret_masking._patterns.cache_clear()
    yield
    secret_masking._patterns.cache_clear()


without_the_extra = pytest.mark.usefixtures("_nothing_that_masks")


def leaky(kind: MemoryKind) -> MemoryRecord:
    """Return a record with a secret wherever there may be a text."""
    hints = get_type_hints(KINDS[kind].metadata)
    texts = {name: SAID for name, hint in hints.items() if "str" in str(hint)}
    lists = {name: (SAID, SAID) for name, hint in hints.items() if "tuple" in str(hint)}
    metadata: Any = KINDS[kind].metadata
    told = {"change": "modified"} if "change" in hints else {}
    return record(
        f"the text {SAID}",
        id="leaky",
        kind=kind,
        author=SAID,
        metadata=metadata(**{**texts, **lists, **told}),
    )


# ---- secrets ----


@pytest.mark.parametrize("kind", KINDS)
async def test_no_field_of_a_record_tells_a_secret(kind: MemoryKind) -> None:
    context = await recalling(Listing(leaky(kind))).assemble_context("deploy", context_types=kind)

    assert "the text deploy with [masked: AWS Access Key]" in context.markdown
    assert KEY not in repr(context.items)
    assert KEY not in context.markdown


async def test_no_secret_is_told_to_the_model() -> None:
    heading = record("deploy", kind="chunks", metadata=ChunkMetadata(heading=SAID))
    assembler = ContextAssembler(memory=recalling(Listing(heading)), now=lambda: NOW)
    await assembler.add_user("s", "deploy?")

    context = await assembler.assemble("s", model="gpt-5.5", max_tokens=100, query="deploy")

    assert "[masked: AWS Access Key]" in str(context.to_request())
    assert KEY not in str(context.to_request())


LESSON = ExperienceMetadata(
    domain="deploy",
    succeeded=False,
    strategy=SAID,
    root_cause=SAID,
    lesson=SAID,
    prediction=SAID,
    outcome=SAID,
    surprise=0.9,
)


async def test_a_premortem_tells_no_secret() -> None:
    tried = record(f"deploy {SAID}", id="e", kind="experiences", metadata=LESSON)

    premortem = await recalling(Listing(tried)).get_premortem_context("deploy")

    assert premortem.markdown.count("[masked: AWS Access Key]") >= 5
    assert KEY not in repr(premortem)


async def test_goals_tell_no_secret() -> None:
    stack = TaskStack().push(SAID).push("a part").pop(SAID).push(SAID)

    context = await recalling(Listing()).assemble_stack(stack, max_tokens=1_000)

    assert context.markdown.count("[masked: AWS Access Key]") == 3
    assert KEY not in context.markdown


async def test_a_text_that_is_cut_does_not_point_to_a_secret() -> None:
    long = record("deploy " + "and words " * 2_000, id=f"file-{KEY}")

    context = await recalling(Listing(long)).assemble_context("deploy")

    assert context.truncated_items
    assert KEY not in context.markdown


async def test_who_said_it_is_kept_without_a_secret() -> None:
    async with SqliteMemoryStore(None) as store:
        [kept] = await store.remember([MemoryRecord(text="deploy", author=f"bot {KEY}")])

        assert (await store.get(kept.id)).author == "bot [masked: AWS Access Key]"
        assert kept.notices == ("A secret was masked (AWS Access Key).",)


@without_the_extra
async def test_what_cannot_be_masked_is_left_out_and_told() -> None:
    sources = Listing(record("deploy on Friday", id="good"), leaky("memories"))

    context = await recalling(sources).assemble_context("deploy", context_types="memories")

    assert [item.record.id for item in context.items] == ["good"]
    assert KEY not in repr(context.items) + context.markdown
    [row] = [row for row in context.explanations if row.outcome == "left_out"]
    assert row.reason.startswith("it may hold a secret: Masking secrets needs a package")
    assert context.source_notes["secrets"].startswith("1 left out: it may hold a secret")


REMEMBERING: dict[str, dict[str, Any]] = {
    "as they are": {},
    "with vectors": {"embed": Compass()},
    "those alike once": {"merges_alike": 0.9},
}


@without_the_extra
@pytest.mark.parametrize("given", REMEMBERING.values(), ids=REMEMBERING.keys())
async def test_without_the_extra_remembering_names_what_cannot_be_masked(
    given: dict[str, Any],
) -> None:
    async with SqliteMemoryStore(None) as store:
        with pytest.raises(MissingExtraError) as refused:
            await recalling(store, **given).remember(["tea", "coffee", SAID])

        assert "[2]" in refused.value.problem
        assert "masks_secrets=False" in refused.value.remedy
        assert KEY not in str(refused.value)
        assert (await store.stats()).records == 0


@without_the_extra
async def test_without_the_extra_contexts_are_updated_and_made_smaller() -> None:
    recall = recalling(Listing(record("deploy on Friday", id="good")))
    context = await recall.assemble_context("deploy", context_types="memories")

    updated = recall.update_context(context, SAID)
    smaller = await recall.compress(updated, target_tokens=100)

    assert [item.record.id for item in smaller.items] == ["good"]
    assert KEY not in smaller.markdown


@without_the_extra
async def test_without_the_extra_goals_and_lessons_go_on_without_what_may_be_secret() -> None:
    lessons = [
        record(
            "deploy broke",
            kind="experiences",
            metadata=ExperienceMetadata(domain="deploy", succeeded=False),
        ),
        record(f"deploy {SAID}", kind="experiences", metadata=LESSON),
    ]
    recall = recalling(Listing(*lessons))

    premortem = await recall.get_premortem_context("deploy")
    context = await recall.assemble_stack(TaskStack().push("Ship").push(SAID), max_tokens=1_000)

    assert "deploy broke" in premortem.markdown
    assert "secrets" in premortem.source_notes
    assert "- Ship" in context.markdown
    assert "- [left out: it may hold a secret]" in context.markdown
    assert KEY not in premortem.markdown + context.markdown


# ---- the task above ----

STACK = TaskStack().push("Release version 2").push("approve the deploy")


async def at_work() -> tuple[MemoryAssembler, FormattedContext]:
    needs = record("The deploy of version 2 needs approval.", id="needs")
    recall = recalling(Listing(needs, record("The deploy is on Friday at noon.", id="when")))
    return recall, await recall.assemble_stack(STACK, max_tokens=600)


async def test_a_context_that_is_updated_keeps_its_goals() -> None:
    recall, context = await at_work()

    updated = recall.update_context(context, "the deploy was approved", max_tokens=600)
    again = recall.update_context(updated, "Ada said thanks", max_tokens=600)

    assert again.markdown.startswith(context.task_path)
    assert "the deploy was approved" in again.markdown
    assert "Ada said thanks" in again.markdown
    assert again.token_count <= 600


async def test_a_context_that_fits_is_not_made_smaller() -> None:
    recall, context = await at_work()

    assert await recall.compress(context, target_tokens=context.token_count) == context


async def test_a_context_that_is_made_smaller_keeps_its_goals_to_the_last() -> None:
    recall, context = await at_work()

    for target in range(1, context.token_count):
        smaller = await recall.compress(context, target_tokens=target)
        updated = recall.update_context(context, "news of the deploy", max_tokens=target)

        for changed in (smaller, updated):
            assert changed.token_count <= target
            assert changed.markdown.startswith(context.task_path[:14]) or target < 12


EVENTS: dict[str, Any] = {
    "a dictionary": {"text": "tea"},
    "nothing": None,
    "odd metadata": record("x", kind="chunks", metadata=ChunkMetadata(heading=["x"])),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS.keys())
async def test_what_is_no_event_is_refused(event: Any) -> None:
    recall, context = await at_work()

    with pytest.raises(InvalidParameterError, match="event must be a record or a text"):
        recall.update_context(context, event)


# ---- long records ----


async def test_a_record_that_is_too_long_is_cut_before_it_is_read() -> None:
    most = chars_within(500)
    long = record("alpha " + "and more words " * 100_000, id="long", kind="chunks")

    context = await recalling(Listing(long)).assemble_context("alpha", max_tokens=500)

    [item] = context.items
    assert len(item.record.text) == most
    assert item.text.endswith("[…] (full text: long)")
    assert [row.outcome for row in context.explanations] == ["shortened"]


async def test_a_beginning_that_fits_is_said_to_be_one() -> None:
    blank = record("alpha" + " " * 1_000_000 + "omega", id="blank", kind="chunks")
    recall = recalling(Listing(blank))

    context = await recall.assemble_context("alpha", max_tokens=900)
    updated = recall.update_context(context, "news", max_tokens=900)

    for one in (context, updated):
        assert one.truncated_items == ("blank",)
        assert "alpha […] (full text: blank)" in one.markdown


@pytest.mark.parametrize("before", [-30, -10, 0])
async def test_no_secret_is_cut_in_two(before: int) -> None:
    text = "alpha".ljust(chars_within(900) + before) + f"{KEY} is the key " + "word " * 9_000

    context = await recalling(Listing(record(text, id="k"))).assemble_context(
        "alpha", max_tokens=900
    )

    assert KEY[:8] not in repr(context)


async def test_long_work_holds_nobody_up() -> None:
    short, long = [await think(threading.get_ident, chars=chars) for chars in (10, 10**6)]

    assert short == threading.get_ident() != long


async def test_others_go_on_while_much_is_read() -> None:
    loop_thread = threading.get_ident()
    counted_in: set[int] = set()

    class Counter(WordCounter):
        def count_text(self, text: str) -> int:
            counted_in.add(threading.get_ident())
            return super().count_text(text)

    lesson = ExperienceMetadata(domain="alpha", succeeded=False)
    records = [
        record(
            f"alpha {at} " + f"page{at} " * 4_000, id=f"{at}", kind="experiences", metadata=lesson
        )
        for at in range(30)
    ]
    recall = recalling(Listing(*records), counter=Counter())

    context = await recall.assemble_context("alpha")
    premortem = await recall.get_premortem_context("alpha")

    assert context.items
    assert premortem.lines
    assert counted_in
    assert loop_thread not in counted_in


async def test_an_agent_that_goes_on_updating_keeps_a_bounded_number_of_reasons() -> None:
    context = await recalling(Listing(record("the deploy"))).assemble_context("the deploy")
    [row] = context.explanations
    reasons = [replace(row, memory_id=f"{at}") for at in range(MOST_EXPLAINED)]
    context = replace(context, explanations=(row, *reasons[1:]))

    updated = recalling(Listing()).update_context(context, record("news", id="news"))

    told = [row.memory_id for row in updated.explanations]
    assert len(told) == MOST_EXPLAINED
    assert {"news", "the deploy", "1"} <= set(told)
    assert f"{MOST_EXPLAINED - 1}" not in told
