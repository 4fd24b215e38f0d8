"""How well each record of an answer fits."""

from dataclasses import replace

import pytest

from context_assembler.recall.read_signals import read_signals
from context_assembler.recall.score import (
    NEIGHBOUR_WEIGHTS,
    UNSEEN_FACTOR,
    is_relevant,
    recency_of,
    score_answer,
)
from context_assembler.values.memories.fusion import WORDS_WEIGHT
from context_assembler.values.memories.metadata import EventMetadata
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import Neighbour, SourceAnswer
from tests.recall.building import NOW, answer, hit, hours_ago, record

DOG, CAT, COW = record("a dog"), record("a cat"), record("a cow")


def relevance(given: SourceAnswer, query: str = "dog") -> dict[str, float]:
    weighed = score_answer(given, read_signals(query), now=NOW, half_life_hours=24, floor=0.0)
    return {c.record.id: c.scores["relevance"] for c in weighed.candidates}


def test_scores_are_parts_of_the_best_of_the_source() -> None:
    both = record("a dog that met another dog", id="both")

    scores = relevance(answer(hit(DOG, bm25=8.0), hit(both, bm25=2.0)))

    assert scores["both"] == 1.0
    assert 0.5 < scores["a dog"] < 1.0


def test_what_only_the_source_sees_counts_in_part() -> None:
    scores = relevance(answer(hit(DOG, bm25=8.0), hit(CAT, bm25=2.0)))

    assert scores == {"a dog": 1.0, "a cat": pytest.approx(UNSEEN_FACTOR / 4)}


def test_what_stands_far_behind_in_a_long_text_counts_in_full() -> None:
    long = record(f"{'filler ' * 400} dog", id="long")

    assert relevance(answer(hit(DOG, bm25=8.0), hit(long, bm25=8.0))) == {"a dog": 1, "long": 1}


def test_a_long_text_is_read_where_it_has_the_words() -> None:
    text = f"{'filler ' * 400} the limit for hotels in Oslo is high {'filler ' * 400}"
    answering, beside = record(text, id="long"), record("inns for the night")

    scores = relevance(
        answer(hit(answering, bm25=8.0), hit(beside, bm25=0.0)),
        "What is the limit for inns in Oslo?",
    )

    assert scores["long"] == 1.0
    assert scores[beside.id] < 0.9


def test_what_means_the_same_makes_a_source_relevant() -> None:
    close = replace(read_signals("pets"), related={"pets": {"dogs": 0.8, "zebras": 0.5}})

    assert is_relevant([hit(DOG, bm25=0.0)], close, floor=0.5)
    assert not is_relevant([hit(record("a zebra"), bm25=0.0)], close, floor=0.5)


def test_words_that_all_count_nothing_are_equal() -> None:
    found = answer(hit(DOG, bm25=0.0), hit(CAT, bm25=0.0))

    assert relevance(found, "zebra") == {"a dog": 1, "a cat": 1}


def test_meaning_counts_above_what_is_usual() -> None:
    scores = relevance(
        answer(hit(DOG, similarity=0.9), hit(CAT, similarity=0.5), hit(COW, similarity=0.7))
    )

    assert scores == {"a dog": 1.0}


def test_meanings_count_by_how_seldom_they_are_so_close_by_chance() -> None:
    others = [hit(record(f"zebra {at}"), similarity=0.5 + at % 2 / 10) for at in range(40)]

    scores = relevance(answer(hit(DOG, similarity=0.9), hit(CAT, similarity=0.7), *others))

    assert scores["a dog"] == 1.0
    assert scores["a cat"] < (0.7 - 0.55) / (0.9 - 0.55)  # less than in proportion
    assert scores["zebra 1"] < scores["a cat"] / 4


def test_meanings_beyond_all_measure_are_still_told() -> None:
    others = [hit(record(f"zebra {at}"), similarity=0.0) for at in range(3_000)]

    assert relevance(answer(hit(DOG, similarity=1.0), *others)) == {"a dog": 1.0}


def test_meanings_that_are_all_alike_count_as_they_are() -> None:
    assert relevance(answer(hit(DOG, similarity=0.5), hit(CAT, similarity=0.5))) == {
        "a dog": 1,
        "a cat": 1,
    }


def test_both_sides_are_weighed_together() -> None:
    found = answer(hit(DOG, bm25=4.0, similarity=0.9), hit(CAT, bm25=4.0, similarity=0.1))

    assert relevance(found, "dog cat")["a cat"] == pytest.approx(WORDS_WEIGHT)


def test_what_was_listed_is_worth_the_same() -> None:
    assert relevance(answer(hit(DOG), hit(CAT)), "") == {"a dog": 1.0, "a cat": 1.0}


def test_what_stands_beside_a_hit_comes_in() -> None:
    beside = {"a dog": (Neighbour(record=CAT, distance=1), Neighbour(record=COW, distance=-2))}

    scores = relevance(answer(hit(DOG, bm25=1.0), neighbours=beside))

    assert scores == {"a dog": 1.0, "a cat": NEIGHBOUR_WEIGHTS[1], "a cow": NEIGHBOUR_WEIGHTS[2]}


def test_the_best_of_a_session_lifts_the_others() -> None:
    mine = record("of the session", session_id="s")
    other = record("of none")
    parent = record("of a parent", parent_id="p")
    best = record("the best", session_id="s")

    scores = relevance(
        answer(
            hit(best, bm25=1.0), hit(mine, bm25=0.5), hit(other, bm25=0.5), hit(parent, bm25=0.5)
        )
    )

    assert scores["of the session"] > scores["of a parent"] > scores["of none"]


def test_who_is_asked_about_is_heard_first() -> None:
    ann, bob = record("Ann: dogs are fine"), record("dogs are fine", author="Bob")

    scores = relevance(answer(hit(bob, bm25=1.0), hit(ann, bm25=1.0)), "What says Ann of dogs?")

    assert max(scores, key=lambda memory_id: scores[memory_id]) == ann.id


def test_a_named_date_lifts_what_is_of_it() -> None:
    then, now = record("then", created_at=hours_ago(24 * 60)), record("now")

    scores = relevance(answer(hit(now, bm25=1.0), hit(then, bm25=1.0)), "dogs in April")

    assert scores["then"] > scores["now"]


def test_a_named_date_lifts_what_names_it_in_another_notation() -> None:
    sent, other = record("Order 7 was sent on 2026-03-05"), record("Order 8 was sent on 2026-03-07")

    scores = relevance(
        answer(hit(other, bm25=1.0), hit(sent, bm25=1.0)), "What was sent on March 5, 2026?"
    )

    assert scores[sent.id] > scores[other.id]


def test_who_asks_when_is_told_of_times_first() -> None:
    timeless, timed = record("dogs came with cats"), record("dogs came last week")

    scores = relevance(answer(hit(timeless, bm25=1.0), hit(timed, bm25=1.0)), "When came dogs?")

    assert scores["dogs came last week"] > scores["dogs came with cats"]


def test_events_of_the_kind_that_is_asked_for_come_first() -> None:
    plain = record("it failed", id="plain", kind="events")
    error = record("it failed", id="error", kind="events", metadata=EventMetadata(is_error=True))
    test = record("it failed", id="test", kind="events", metadata=EventMetadata(event_type="test"))

    scores = relevance(
        answer(*(hit(found, bm25=1.0) for found in (plain, error, test))), "Which tests failed?"
    )

    assert scores["test"] > scores["plain"]
    assert scores["error"] > scores["plain"]


def test_a_word_by_chance_is_below_the_floor() -> None:
    query = "alpha bravo charlie delta foxtrot golf hotel india juliett dog"

    weighed = score_answer(
        answer(hit(DOG, bm25=1.0)), read_signals(query), now=NOW, half_life_hours=24, floor=0.2
    )

    assert weighed.candidates == ()
    assert [c.record for c in weighed.below_floor] == [DOG]


RELEVANT: dict[str, tuple[str, dict[str, float], bool]] = {
    "a word of two": ("dog house", {"bm25": 1.0}, True),
    "alike in meaning": ("hound", {"similarity": 0.6}, True),
    "hardly alike": ("hound", {"similarity": 0.1}, False),
    "one of many stop words": ("And what about a?", {"bm25": 1.0}, False),
    "all of the stop words": ("A", {"bm25": 1.0}, True),
    "no query": ("", {}, True),
}


@pytest.mark.parametrize(("query", "fields", "expected"), RELEVANT.values(), ids=RELEVANT.keys())
def test_relevance_needs_more_than_chance(
    query: str, fields: dict[str, float], *, expected: bool
) -> None:
    hits = [hit(DOG, bm25=fields.get("bm25"), similarity=fields.get("similarity"))]

    assert is_relevant(hits, read_signals(query), floor=0.2) is expected


PAIRS = {
    "Chinese": (
        "User: 今天我去了附近的公园慢跑了一个小时。",
        "在4月27号这天,我在公园里跑了多久?",
        "你知道如何修理汽车发动机吗?",
    ),
    "Japanese": (
        "田中さんは大阪に住んでいて、毎朝公園を走っています。",
        "大阪の田中さんは朝にどこを走りますか?",
        "フランスの首都はどこにありますか?",
    ),
}


@pytest.mark.parametrize(("kept", "asked", "other"), PAIRS.values(), ids=PAIRS.keys())
def test_pairs_of_characters_are_not_taken_for_as_many_words(
    kept: str, asked: str, other: str
) -> None:
    hits = [hit(record(kept), bm25=1.0)]

    assert is_relevant(hits, read_signals(asked), floor=0.15)
    assert not is_relevant(hits, read_signals(other), floor=0.15)


def test_what_is_far_less_relevant_than_the_best_is_below_the_floor() -> None:
    weighed = score_answer(
        answer(hit(DOG, bm25=100.0), hit(CAT, bm25=1.0)),
        read_signals("dog"),
        now=NOW,
        half_life_hours=24,
        floor=0.0,
    )

    assert [c.record for c in weighed.below_floor] == [CAT]


RECENCY = {
    "just made": (record("x", created_at=NOW), 1.0),
    "a half-life ago": (record("x", created_at=hours_ago(24)), 0.5),
    "from the future": (record("x", created_at=hours_ago(-99)), 1.0),
    "of no time": (record("x", created_at=None), 0.0),
}


@pytest.mark.parametrize(("given", "expected"), RECENCY.values(), ids=RECENCY.keys())
def test_recency_halves_with_time(given: MemoryRecord, expected: float) -> None:
    assert recency_of(given, now=NOW, half_life_hours=24) == expected
