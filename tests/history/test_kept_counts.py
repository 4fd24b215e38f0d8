"""Counts that are kept with a session are those of its counter, and are not taken twice."""

from collections.abc import Hashable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from context_assembler.history import KeptCounts
from context_assembler.testing import WordCounter
from context_assembler.values.messages import Message
from context_assembler.values.parts import Text
from tests.strategies import paired_conversations


class Tally(WordCounter):
    """A counter that says what it was asked to count."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def count_message(self, message: Message) -> int:
        self.asked.append(message.text)
        return super().count_message(message)


def message(text: str) -> Message:
    return Message(role="user", parts=(Text(text),))


def test_a_message_is_counted_once_in_all_steps_of_its_session() -> None:
    tally, derived, told = Tally(), dict[Hashable, Any](), message("find a flight")

    counts = [
        KeptCounts(tally, derived=derived, event_count=1).count_message(told) for _ in range(3)
    ]

    assert counts == [WordCounter().count_message(told)] * 3
    assert tally.asked == ["find a flight"]


def test_another_counter_counts_for_itself() -> None:
    derived, told = dict[Hashable, Any](), message("find a flight")
    tallies = [Tally(), Tally()]

    for tally in (*tallies, *tallies):
        KeptCounts(tally, derived=derived, event_count=1).count_message(told)

    assert [tally.asked for tally in tallies] == [["find a flight"]] * 2


def test_what_is_kept_is_bounded_by_the_length_of_the_session() -> None:
    tally, derived = Tally(), dict[Hashable, Any]()

    for number in range(5_000):
        counter = KeptCounts(tally, derived=derived, event_count=10)
        counter.count_message(message(str(number)))
        KeptCounts(Tally(), derived=derived, event_count=10).count_message(message("x"))

    [kept] = derived.values()
    assert len(kept) == 4
    assert all(len(rows) <= 1_031 for _, rows in kept)


@given(talk=paired_conversations, rounds=st.integers(1, 3))
def test_counts_are_those_of_the_counter(talk: list[Message], rounds: int) -> None:
    plain, derived = WordCounter(), dict[Hashable, Any]()

    for _ in range(rounds):
        kept = KeptCounts(plain, derived=derived, event_count=len(talk))

        assert [kept.count_message(one) for one in talk] == list(map(plain.count_message, talk))
        assert kept.count_text("two words") == plain.count_text("two words")
        assert kept.count_system("be kind") == plain.count_system("be kind")
        assert kept.count_tools_overhead(()) == plain.count_tools_overhead(())
        assert (kept.name, kept.is_exact) == (plain.name, plain.is_exact)
