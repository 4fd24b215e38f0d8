"""Laws about when what was sent is rewritten, over sessions that grow exchange by exchange."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from context_assembler.errors import ContextOverflowError
from context_assembler.ports import Truncation
from context_assembler.ports.truncation import CHECKPOINT_LEVELS
from context_assembler.truncation import Truncator
from context_assembler.truncation.growing import GrownCut
from context_assembler.values.exchanges import split_exchanges
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings
from tests.truncation.conversations import (
    WordCounter,
    assistant,
    calling,
    conversations,
    numbered,
    total,
    user,
    words,
)

COUNTER = WordCounter()
USUAL = TruncationSettings()
MARKER_TOKENS = 20
shares = st.sampled_from([0.15, 0.25, USUAL.step_share, 0.5, 0.7])


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session, and the room that it has to fit."""

    talk: list[Message] = field(repr=False)
    room_tokens: int

    def step_tokens(self, step_share: float) -> float:
        """Return a step: a share of the room behind the task."""
        return step_share * (self.room_tokens - COUNTER.count_message(self.talk[0]))

    def payloads(self, step_share: float = USUAL.step_share) -> list[GrownCut]:
        """Return what is sent at each length."""
        fitter = Truncator(TruncationSettings(step_share=step_share))
        growing = fitter.grow(self.talk, room_tokens=self.room_tokens, counter=COUNTER)
        return [growing.fit(length) for length in lengths(self.talk)]


def lengths(talk: Sequence[Message]) -> Iterator[int]:
    """Yield every length at which an exchange ends."""
    length = 0
    for exchange in split_exchanges(talk):
        length += len(exchange)
        yield length


def drawn(seed: int, *, room_share: float, dwarfing: float = 0.0, pinned: float = 0.0) -> Session:
    """Draw a session; so many of its exchanges are many times as large as the others, or pinned."""
    draw = random.Random(seed)
    mean_tokens = draw.choice([20, 60, 120])
    talk = [user(words(draw.randint(1, 40)))]
    for number in range(draw.randint(40, 120)):
        size = 1 + int(draw.expovariate(1 / mean_tokens))
        size = draw.randint(5, 30) * mean_tokens if draw.random() < dwarfing else size
        is_pinned = draw.random() < pinned
        talk += draw.choice(
            [
                calling((f"c{number}", words(size)), is_pinned=is_pinned),
                calling((f"c{number}", words(size))),
                [assistant(words(min(size, 8 * mean_tokens)))],
                [user(words(min(size, 8 * mean_tokens)), is_pinned=is_pinned)],
            ]
        )
    talk = numbered(talk)
    room_tokens = max(int(room_share * total(talk, COUNTER)), 40 * mean_tokens)
    return Session(talk=talk, room_tokens=room_tokens)


def rewrites(payloads: Sequence[GrownCut]) -> int:
    """Count the payloads that do not begin with the one before."""
    return sum(
        now.messages[: len(before.messages)] != before.messages
        for before, now in pairwise(payloads)
    )


seeds = st.integers(0, 1 << 32)
room_shares = st.sampled_from([0.1, 0.2, 0.35, 0.5, 0.8])
sessions = st.builds(
    drawn,
    seeds,
    room_share=room_shares,
    dwarfing=st.sampled_from([0, 0.02, 0.08, 0.2]),
    pinned=st.sampled_from([0, 0.03]),
)


def beyond_tokens(session: Session) -> int:
    return max(0, total(session.talk, COUNTER) - session.room_tokens)


def crowded(session: Session) -> int:
    """Count the exchanges that leave no step beside the task, the pins and the user's last message."""
    count, pins_tokens, asked_tokens = 0, 0, 0
    least_tokens = COUNTER.count_message(session.talk[0]) + MARKER_TOKENS
    for exchange in split_exchanges(session.talk)[1:]:
        tokens = total(exchange, COUNTER)
        pins_tokens += tokens if any(message.is_pinned for message in exchange) else 0
        stay_tokens = least_tokens + pins_tokens + asked_tokens + tokens
        count += stay_tokens + session.step_tokens(USUAL.step_share) > session.room_tokens
        asked_tokens = tokens if exchange[0].is_from_user else asked_tokens
    return count


@pytest.mark.parametrize("dwarfing", [0, 0.02, 0.08, 0.2])
@pytest.mark.parametrize("room_share", [0.1, 0.35, 0.8])
def test_there_is_at_most_one_rewrite_and_one_for_each_step_beyond_the_room(
    dwarfing: float, room_share: float
) -> None:
    for seed in range(12):
        session = drawn(seed, room_share=room_share, dwarfing=dwarfing)

        steps = beyond_tokens(session) / session.step_tokens(USUAL.step_share)

        assert rewrites(session.payloads()) <= 1 + steps


@given(session=sessions)
@settings(max_examples=60)
def test_only_what_leaves_no_step_beside_it_costs_a_rewrite_more(session: Session) -> None:
    steps = beyond_tokens(session) / session.step_tokens(USUAL.step_share)

    payloads = session.payloads()

    assert rewrites(payloads) <= 1 + steps + crowded(session)


@given(seed=seeds, room_share=room_shares, step_share=shares)
@settings(max_examples=60)
def test_at_every_length_rewrites_are_as_rare_where_exchanges_are_small(
    seed: int, room_share: float, step_share: float
) -> None:
    session = drawn(seed, room_share=room_share)
    step_tokens = session.step_tokens(step_share)

    payloads = session.payloads(step_share)

    for number, length in enumerate(lengths(session.talk), start=1):
        beyond = max(0, total(session.talk[:length], COUNTER) - session.room_tokens)
        assert rewrites(payloads[:number]) <= 1 + beyond / step_tokens


@given(session=sessions, step_share=shares)
@settings(max_examples=40)
def test_a_rewrite_is_a_new_level_and_comes_where_something_has_to_go(
    session: Session, step_share: float
) -> None:
    payloads = session.payloads(step_share)

    for before, now in pairwise(payloads):
        grows = now.messages[: len(before.messages)] == before.messages
        assert grows or now.level != before.level
    for payload, length in zip(payloads, lengths(session.talk), strict=True):
        fits = total(session.talk[:length], COUNTER) <= session.room_tokens
        assert fits == (payload.level == 0)


@given(session=sessions)
@settings(max_examples=40)
@example(session=drawn(3, room_share=0.1, dwarfing=0.08, pinned=0.03))
@example(session=drawn(14, room_share=0.1, dwarfing=0.2))
def test_an_opening_that_is_given_up_does_not_come_back(session: Session) -> None:
    levels = [payload.level for payload in session.payloads()]

    # Beside an exchange that leaves no step there is no checkpoint, and its number tells of none.
    given_up = [level < 0 for level in levels if 0 < abs(level) < CHECKPOINT_LEVELS]

    assert given_up == sorted(given_up)


@pytest.mark.parametrize("step_share", [0.15, 1 / 3, 0.7])
@given(session=sessions)
@settings(max_examples=8)
def test_every_length_is_cut_anew_as_it_was_cut_while_it_grew(
    step_share: float, session: Session
) -> None:
    fitter = Truncator(TruncationSettings(step_share=step_share))

    payloads = session.payloads(step_share)

    for payload, length in [*zip(payloads, lengths(session.talk), strict=True)][::5]:
        anew = fitter.truncate(
            session.talk[:length], room_tokens=session.room_tokens, counter=COUNTER
        )
        assert (anew.messages, anew.level) == (payload.messages, payload.level)


def arguing(number: int, count: int) -> list[Message]:
    """Return an exchange whose call has so many words."""
    call, results = calling((f"c{number}", "ok"))
    [part] = call.tool_calls
    return [replace(call, parts=(replace(part, arguments={"text": words(count)}),)), results]


OVERSIZED: dict[str, Callable[[int], list[Message]]] = {
    "a result": lambda number: calling((f"c{number}", words(2_000))),
    "results": lambda number: calling(*((f"c{number}.{part}", words(700)) for part in range(3))),
    "arguments": lambda number: arguing(number, 2_000),
    "a question": lambda _: [user(words(2_000))],
}


@pytest.mark.parametrize("oversized", OVERSIZED.values(), ids=OVERSIZED.keys())
@pytest.mark.parametrize("strategy", ["smart", "simple"])
@pytest.mark.parametrize("before", [0, 1, 4, 30])
def test_what_does_not_fit_even_alone_stands_as_it_was_sent_until_a_step_has_come_in(
    oversized: Callable[[int], list[Message]], strategy: str, before: int
) -> None:
    ordinary = [calling((f"c{number}", words(30))) for number in range(before + 12)]
    talk = numbered(
        [user("Go."), *chain(*ordinary[:before]), *oversized(before), *chain(*ordinary[before:])]
    )
    fitter = Truncator(TruncationSettings(strategy=strategy, on_overflow="shorten", stub_tokens=40))
    growing = fitter.grow(talk, room_tokens=1_000, counter=COUNTER)

    first, *later = [growing.fit(length) for length in lengths(talk)][before + 1 :]

    holding = 1_000 * USUAL.step_share // total(ordinary[-1], COUNTER)
    for payload in later[: int(holding) - 1]:
        assert payload.messages[: len(first.messages)] == first.messages
        assert payload.level == first.level
    assert later[-1].level != first.level
    assert sum(first.message_tokens) > 0.5 * 1_000


@pytest.mark.parametrize("strategy", ["smart", "simple"])
@given(talk=conversations, percent=st.integers(1, 100), stub_tokens=st.sampled_from([10, 40, 200]))
@settings(max_examples=60)
def test_a_cut_that_holds_is_left_only_where_there_is_no_room_behind_it(
    strategy: str, talk: list[Message], percent: int, stub_tokens: int
) -> None:
    room_tokens = total(talk, COUNTER) * percent // 100
    fitter = Truncator(
        TruncationSettings(strategy=strategy, stub_tokens=stub_tokens, on_overflow="shorten")
    )
    start, before = 0, Truncation(messages=())
    for length in lengths(talk):
        new = talk[start:length]
        try:
            now = fitter.truncate(talk[:length], room_tokens=room_tokens, counter=COUNTER)
        except ContextOverflowError:
            now = Truncation(messages=())
        taken_tokens = total([*before.messages, *new], COUNTER) + before.spare_tokens
        if before.holds and taken_tokens <= room_tokens:
            assert (*before.messages, *new) == now.messages
            assert (now.level, now.holds) == (before.level, True)
        assert abs(now.level) < 1 << 53  # exact in JSON
        start, before = length, now


def test_without_checkpoints_an_exchange_that_does_not_fit_has_all_of_the_room() -> None:
    talk = numbered([user("Go."), *calling(("c1", words(2_000)))])
    fitter = Truncator(TruncationSettings(cache_stable=False))

    kept = fitter.truncate(talk, room_tokens=1_000, counter=COUNTER)

    assert not kept.holds
    assert 900 < total(kept.messages, COUNTER) <= 1_000


class FickleCounter(WordCounter):
    """Counts more each time it is asked for the same message."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}

    def count_message(self, message: Message) -> int:
        times = self.asked[message.id] = self.asked.get(message.id, 0) + 1
        return super().count_message(message) + 3 * (times - 1)


@pytest.mark.parametrize("room_tokens", [200, 500, 900])
def test_a_counter_that_changes_its_mind_is_taken_at_its_first_word(room_tokens: int) -> None:
    talk = numbered([user(words(20)), *(assistant(words(30)) for _ in range(60))])

    fickle = Truncator().truncate(talk, room_tokens=room_tokens, counter=FickleCounter())

    assert 0.4 * room_tokens < total(fickle.messages, COUNTER) <= room_tokens
    assert (fickle.messages[0], fickle.messages[-1]) == (talk[0], talk[-1])
