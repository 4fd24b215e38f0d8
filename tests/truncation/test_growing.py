"""A history that grows is cut at each length as if it ended there."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.errors import ContextOverflowError
from context_assembler.truncation import TRUNCATIONS, GrowingHistory, Truncator
from context_assembler.truncation.growing import GrownCut
from context_assembler.values.exchanges import split_exchanges
from context_assembler.values.messages import Message
from context_assembler.values.options import OverflowPolicy, TruncationSettings
from tests.truncation.conversations import (
    WordCounter,
    calling,
    conversations,
    numbered,
    summary,
    total,
    user,
)

COUNTER = WordCounter()
STRATEGIES = list(product(TRUNCATIONS, (True, False)))


def truncator(strategy: str, is_stable: bool, on_overflow: OverflowPolicy = "error") -> Truncator:
    return Truncator(
        TruncationSettings(
            strategy=strategy,
            cache_stable=is_stable,
            on_overflow=on_overflow,
            stub_tokens=40,
            window_turns=3,
        )
    )


def lengths(talk: Sequence[Message]) -> list[int]:
    """Return every length at which an exchange ends."""
    ends: list[int] = []
    for exchange in split_exchanges(talk):
        ends.append((ends[-1] if ends else 0) + len(exchange))
    return ends


def grown(growing: GrowingHistory, length: int) -> tuple[Sequence[Message], int] | str:
    try:
        cut: GrownCut = growing.fit(length)
    except ContextOverflowError as error:
        return str(error)
    assert sum(cut.message_tokens) == total(cut.messages, COUNTER)
    return cut.messages, cut.level


def from_scratch(
    fitter: Truncator, talk: Sequence[Message], room_tokens: int
) -> tuple[Sequence[Message], int] | str:
    try:
        cut = fitter.truncate(talk, room_tokens=room_tokens, counter=COUNTER)
    except ContextOverflowError as error:
        return str(error)
    return cut.messages, cut.level


@pytest.mark.parametrize(("strategy", "is_stable"), STRATEGIES)
@given(
    talk=conversations, percent=st.integers(1, 100), policy=st.sampled_from(["error", "shorten"])
)
@settings(max_examples=25)
def test_each_length_is_cut_as_if_the_history_ended_there(
    strategy: str, is_stable: bool, talk: list[Message], percent: int, policy: OverflowPolicy
) -> None:
    talk = numbered(talk)
    room_tokens = total(talk, COUNTER) * percent // 100
    fitter = truncator(strategy, is_stable, policy)

    growing = fitter.grow(talk, room_tokens=room_tokens, counter=COUNTER)

    for length in lengths(talk):
        expected = from_scratch(fitter, talk[:length], room_tokens)
        assert grown(growing, length) == expected


@pytest.mark.parametrize(("strategy", "is_stable"), STRATEGIES)
@given(talk=conversations, percent=st.integers(10, 100))
@settings(max_examples=25)
def test_as_many_messages_are_left_out_and_shortened_as_are_told(
    strategy: str, is_stable: bool, talk: list[Message], percent: int
) -> None:
    room_tokens = total(talk, COUNTER) * percent // 100
    fitter = truncator(strategy, is_stable, "shorten")
    growing = fitter.grow(talk, room_tokens=room_tokens, counter=COUNTER)

    for length in lengths(talk):
        with suppress(ContextOverflowError):
            cut = growing.fit(length)
            told = fitter.truncate(talk[:length], room_tokens=room_tokens, counter=COUNTER)
            decisions = [entry.decision for entry in told.entries]
            assert cut.dropped == decisions.count("dropped")
            assert cut.shortened == decisions.count("shortened")


@pytest.mark.parametrize(("strategy", "is_stable"), STRATEGIES)
def test_a_summary_that_comes_later_is_no_anchor_before(strategy: str, is_stable: bool) -> None:
    said = [user(f"word {n} " * 20) for n in range(12)]
    talk = numbered([*said[:3], summary("first " * 9), *said[3:8], summary("then " * 9), *said[8:]])
    fitter = truncator(strategy, is_stable)

    growing = fitter.grow(talk, room_tokens=200, counter=COUNTER)

    for length in lengths(talk):
        assert grown(growing, length) == from_scratch(fitter, talk[:length], 200)


class SurprisingCounter(WordCounter):
    """Counts a message with a shortened result for more than its parts, as a tokenizer may."""

    def count_message(self, message: Message) -> int:
        return super().count_message(message) + (
            60 if message.id and "shortened:" in str(message.parts) else 0
        )


def test_a_cut_that_frees_less_than_it_promised_is_passed_over() -> None:
    exchanges = [calling((f"c{n}", f"found {n} " * 120)) for n in range(12)]
    talk = numbered([user("Go."), *(message for one in exchanges for message in one)])
    fitter, counter = truncator("smart", is_stable=True), SurprisingCounter()

    for room_tokens in range(500, 1500, 50):
        growing = fitter.grow(talk, room_tokens=room_tokens, counter=counter)
        for length in lengths(talk):
            cut = fitter.truncate(talk[:length], room_tokens=room_tokens, counter=counter)
            assert growing.fit(length).messages == cut.messages


def test_lengths_may_come_in_any_order() -> None:
    talk = numbered([user(f"word {n} " * 20) for n in range(30)])
    fitter = truncator("smart", is_stable=False)

    growing = fitter.grow(talk, room_tokens=300, counter=COUNTER)

    for length in (30, 10, 29, 30, 12):
        assert grown(growing, length) == from_scratch(fitter, talk[:length], 300)
