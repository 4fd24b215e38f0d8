"""Counts are kept on messages, and are no part of them."""

import copy
import pickle
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.testing import WordCounter
from context_assembler.values.message_counts import (
    MAX_KEPT,
    count_each,
    keep_count,
    kept_count,
)
from context_assembler.values.messages import Message
from context_assembler.values.parts import Text
from tests.strategies import paired_conversations


class Keeping(WordCounter):
    """A counter that keeps its counts, and says what it was asked to count."""

    def __init__(self) -> None:
        super().__init__()
        self.counts_key = object()
        self.asked: list[str] = []

    def count_message(self, message: Message) -> int:
        self.asked.append(message.text)
        tokens = super().count_message(message)
        keep_count(message, self.counts_key, tokens)
        return tokens


def message(text: str) -> Message:
    return Message(role="user", parts=(Text(text),))


def test_what_is_kept_is_found_by_its_key_alone() -> None:
    told, key = message("a b"), object()

    keep_count(told, key, 7)

    assert (kept_count(told, key), kept_count(told, object())) == (7, None)
    assert kept_count(message("a b"), key) is None


def test_what_is_kept_is_no_part_of_the_message() -> None:
    told, key = message("a b"), object()
    plain = message("a b")

    keep_count(told, key, 7)

    assert (told, hash(told), repr(told)) == (plain, hash(plain), repr(plain))
    assert "kept_counts" not in {field.name for field in fields(Message)}
    assert pickle.dumps(told) == pickle.dumps(plain)


COPIES: dict[str, Callable[[Message], Message]] = {
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
    "pickled": lambda told: pickle.loads(pickle.dumps(told)),
    "replaced": lambda told: replace(told, parts=(Text("more than that"),)),
}


@pytest.mark.parametrize("again", COPIES.values(), ids=COPIES.keys())
def test_no_copy_has_the_counts_of_its_original(again: Callable[[Message], Message]) -> None:
    told, key = message("a b"), object()
    keep_count(told, key, 7)

    assert kept_count(again(told), key) is None


def test_counters_take_turns_and_the_oldest_count_goes() -> None:
    told, keys = message("a"), [object() for _ in range(MAX_KEPT + 1)]

    for tokens, key in enumerate(keys):
        keep_count(told, key, tokens)

    assert [kept_count(told, key) for key in keys] == [None, *range(1, MAX_KEPT + 1)]


def test_a_count_that_is_kept_again_stands_once() -> None:
    told, one, other = message("a"), object(), object()

    for _ in range(MAX_KEPT):
        keep_count(told, one, 1)
        keep_count(told, other, 2)

    assert told.kept_counts == (other, 2, (one, 1, None))


def test_a_history_that_is_unchanged_is_not_counted_again() -> None:
    counter, talk = Keeping(), [message("find a flight"), message("to Oslo")]

    first, second = count_each(talk, counter), count_each(talk, counter)

    assert first == second == [WordCounter().count_message(one) for one in talk]
    assert counter.asked == ["to Oslo", "find a flight"]


def test_what_is_new_in_the_middle_is_counted_too() -> None:
    counter, talk = Keeping(), [message("find a flight"), message("a"), message("to Oslo")]
    count_each(talk[::2], counter)

    assert count_each(talk, counter) == [3, 1, 2]


def test_only_what_is_new_is_counted_where_counts_are_looked_up() -> None:
    counter, talk = Keeping(), [message("find a flight")]
    count_each(talk, counter)
    keep_count(new := message("to Oslo"), object(), 99)

    assert count_each([*talk, new], counter) == [*count_each(talk, counter), 2]
    assert counter.asked == ["find a flight", "to Oslo"]


@given(talk=paired_conversations, turns=st.lists(st.integers(0, 2), max_size=6))
def test_counts_are_those_of_whoever_counts(talk: Sequence[Message], turns: list[int]) -> None:
    counters = [Keeping(), Keeping(), WordCounter()]
    expected = list(map(WordCounter().count_message, talk))

    for turn in turns:
        assert count_each(iter(talk), counters[turn]) == expected
