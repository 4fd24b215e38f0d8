"""What the answers of several sources are worth beside each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.recall.read_signals import read_signals
from context_assembler.recall.weigh_sources import weigh_sources
from context_assembler.values.recall import SourceAnswer
from tests.recall.building import answer, hit, record

WHOLE = answer(hit(record("the boat leaves the harbour at nine"), bm25=2.0), source="whole")
CHANCE = answer(
    hit(record("the harbour was built long ago by nobody knows whom"), bm25=90.0), source="chance"
)
UNSEEN = answer(hit(record("Fähre um neun"), bm25=1.0), source="unseen")
UNJUDGED = answer(hit(record("Fähre um neun")), source="unjudged")
QUERY = "When leaves the boat in the harbour?"


def fits(*answers: SourceAnswer, query: str = QUERY) -> dict[str, float]:
    return weigh_sources(answers, read_signals(query))


def test_a_source_is_worth_what_its_best_is_beside_the_best_of_all() -> None:
    found = fits(WHOLE, CHANCE)

    assert found["whole"] == 1.0
    assert 0 < found["chance"] < 0.4


def test_the_numbers_of_sources_are_not_compared() -> None:
    louder = answer(hit(CHANCE.hits[0].record, bm25=1e6), source="chance")

    assert fits(WHOLE, louder) == fits(WHOLE, CHANCE)


def test_a_source_that_cannot_be_judged_is_worth_as_much_as_the_best() -> None:
    found = fits(WHOLE, UNSEEN, UNJUDGED)

    assert found == {"whole": 1.0, "unseen": 1.0, "unjudged": 1.0}


def test_cosines_count_beside_words() -> None:
    near = answer(hit(record("a ship at the pier"), similarity=0.6), source="near")
    far = answer(hit(record("a cake"), similarity=0.1), source="far")

    found = fits(WHOLE, near, far)

    assert found["whole"] > found["near"] > found["far"] > 0


def test_one_answer_is_beside_no_other() -> None:
    assert fits(WHOLE) == {}
    assert fits(WHOLE, answer(source="empty")) == {}


def test_without_a_query_all_are_worth_the_same() -> None:
    listed = [answer(hit(record(name)), source=name) for name in ("a", "b")]

    assert fits(*listed, query="") == {"a": 1.0, "b": 1.0}


@given(
    texts=st.lists(st.lists(st.text(max_size=12), max_size=3), max_size=4),
    query=st.text(max_size=20),
    cosine=st.none() | st.floats(-1, 1),
)
def test_every_source_that_answered_is_worth_something(
    texts: list[list[str]], query: str, cosine: float | None
) -> None:
    answers = [
        answer(*(hit(record(text, id=f"{n}"), bm25=1.0, similarity=cosine) for n, text in some))
        for some in map(list, map(enumerate, texts))
    ]
    named = [
        SourceAnswer(source=f"{at}", kind="memories", state="ok", hits=one.hits)
        for at, one in enumerate(answers)
    ]

    found = weigh_sources(named, read_signals(query))

    assert all(0 < fit <= 1 for fit in found.values())
    assert not found or max(found.values()) == pytest.approx(1.0)
