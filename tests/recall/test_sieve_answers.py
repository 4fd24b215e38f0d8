"""What of an answer can be used, and what is said of the rest."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, get_type_hints

import pytest

from context_assembler.recall.sieve_answers import sieve_hits, sieve_records
from context_assembler.values.memories.kinds import KINDS, MemoryKind
from context_assembler.values.memories.metadata import LearningMetadata
from context_assembler.values.memories.records import MemoryHit, MemoryRecord
from tests.recall.building import hit, record

GOOD = hit(record("tea is green", kind="learnings"), bm25=1.0)


def odd_hit(**fields: Any) -> Any:
    given: dict[str, Any] = {"record": GOOD.record, "order": 0, **fields}
    return MemoryHit(**given)


class Nothing:
    """Is of no use anywhere, and cannot even be told."""

    def __repr__(self) -> str:
        raise RuntimeError


UNUSABLE: dict[str, tuple[Any, str]] = {
    "no record": (odd_hit(record=None), "its record is a 'NoneType'"),
    "a dictionary": (odd_hit(record={"text": "tea"}), "its record is a 'dict'"),
    "a text for a score": (odd_hit(bm25="high"), "its bm25 is a 'str'"),
    "something for a score": (odd_hit(similarity=Nothing()), "its similarity is a 'Nothing'"),
    "a score without end": (odd_hit(bm25=10**400), "its bm25 is too large"),
    "a text for a number in metadata": (
        hit(record("x", kind="learnings", metadata=LearningMetadata(confidence="high"))),  # type: ignore[arg-type]
        "the confidence in its metadata is a 'str'",
    ),
}


@pytest.mark.parametrize(("one", "problem"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_what_cannot_be_used_is_left_out_and_said(one: Any, problem: str) -> None:
    sieved = sieve_hits([one, GOOD], limit=10)

    assert sieved.found == (GOOD,)
    assert sieved.notes == (f"1 of 2 cannot be used: {problem}",)


@pytest.mark.parametrize(("one", "problem"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_an_answer_of_which_nothing_can_be_used_is_none(one: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=f"nothing that it answered can be used: {problem}"):
        sieve_hits([one], limit=10)


WRONG = (Nothing(), 10**400, "text", 0.5, ["a", 7], {"a": 1}, None)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_stands_in_metadata_is_told_or_refused(kind: MemoryKind) -> None:
    from context_assembler.recall.kind_formats import KIND_FORMATS  # noqa: PLC0415

    metadata: Any = KINDS[kind].metadata
    for name in get_type_hints(metadata):
        for wrong in WRONG:
            odd = record("x", kind=kind, metadata=metadata(**{name: wrong}))
            try:
                [found] = sieve_records([odd], limit=1).found
            except TypeError:
                continue
            assert KIND_FORMATS[kind](found, "x", "just now").startswith("- ")


def test_numbers_of_any_type_are_numbers() -> None:
    [found] = sieve_hits([odd_hit(bm25=Decimal("1.5"), similarity=1)], limit=1).found

    assert (found.bm25, found.similarity) == (1.5, 1.0)
    assert type(found.similarity) is float


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1e308])
def test_scores_that_nothing_can_be_worked_out_with_are_none(number: float) -> None:
    [found] = sieve_hits([odd_hit(bm25=number, similarity=0.5)], limit=1).found

    assert (found.bm25, found.similarity) == (None, 0.5)


def test_an_answer_without_end_is_cut_to_what_was_asked_for() -> None:
    def endless() -> Iterator[MemoryHit]:
        while True:
            yield GOOD

    sieved = sieve_hits(endless(), limit=3)

    assert len(sieved.found) == 3
    assert sieved.notes == ("only the first 3 of its answers count",)


def test_records_without_an_id_are_told_apart_by_what_they_say() -> None:
    bare = [MemoryRecord(text=text) for text in ("one", "two", "one")]

    one, two, again = sieve_records(bare, limit=9).found

    assert one.id
    assert one.id == again.id != two.id
