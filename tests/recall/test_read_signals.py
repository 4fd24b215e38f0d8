"""What is read from a query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.recall.read_signals import read_signals
from context_assembler.recall.word_forms import other_forms_of
from context_assembler.values.memories.words import MAX_QUERY_TERMS
from context_assembler.values.recall import DateMention
from tests.recall.building import NOW

INTENTS = {
    "Where did Ann go?": "question",
    "which colour is it": "question",
    "Fix the crash in the parser": "fix",
    "Why does the build take long?": "explain",
    "add a button": "action",
    "": "action",
}

DATES = {
    "on 2023-05-07": (DateMention(year=2023, month=5, day=7),),
    "on May 7, 2023": (DateMention(year=2023, month=5, day=7),),
    "on the 7th of May": (DateMention(month=5, day=7),),
    "On May 3rd, which movies?": (DateMention(month=5, day=3),),
    "in May 2023": (DateMention(year=2023, month=5),),
    "in late-August": (DateMention(month=8),),
    "in 2022": (DateMention(year=2022),),
    "what about yesterday": (DateMention(year=2026, month=6, day=14),),
    "today and tonight": (DateMention(year=2026, month=6, day=15),),
    "may I ask": (),
    "on 2023-13-45": (),
    "on 2023-00-10": (),
    "on 40 May": (),
    "on 0 May": (),
}


@pytest.mark.parametrize(("query", "intent"), INTENTS.items(), ids=INTENTS.keys())
def test_the_intent_is_read(query: str, intent: str) -> None:
    assert read_signals(query).intent == intent


@pytest.mark.parametrize(("query", "dates"), DATES.items(), ids=DATES.keys())
def test_dates_are_understood(query: str, dates: tuple[DateMention, ...]) -> None:
    assert read_signals(query, now=NOW).dates == dates


def test_relative_days_need_a_clock() -> None:
    assert read_signals("what was yesterday?").dates == ()


def test_a_date_matches_what_it_leaves_open() -> None:
    assert DateMention(month=6).matches(NOW)
    assert not DateMention(month=6, day=1).matches(NOW)


def test_names_are_entities_without_the_words_before_them() -> None:
    signals = read_signals('When did Caroline\'s friend Mel Smith edit `parse_tree` in "the cage"?')

    assert signals.entities == ("Caroline", "Mel Smith", "parse_tree", "the cage")
    assert signals.wants_time


def test_kinds_of_events_are_read() -> None:
    assert read_signals("Which tests failed?").event_types == ("error", "test")


def test_other_forms_of_irregular_words_are_searched_too() -> None:
    assert "ran" in read_signals("When did she run?").search_text.split()
    assert read_signals("Run the tests").search_text == "Run the tests"
    assert other_forms_of(["run", "ran"]) == {"run": ("running",), "ran": ("running",)}
    assert other_forms_of(["walk"]) == {}


def test_of_a_long_query_both_ends_are_read() -> None:
    signals = read_signals("alpha " + "filler " * 200_000 + " omega")

    assert {"alpha", "omega"} <= set(signals.terms)
    assert len(signals.query) < 10_000


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_is_a_query(query: str) -> None:
    signals = read_signals(query, now=NOW)

    assert len(signals.terms) <= MAX_QUERY_TERMS
    signals.search_text.encode()
