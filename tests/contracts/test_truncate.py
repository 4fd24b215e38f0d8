"""Laws that every truncation strategy keeps, cache-stable or not, over arbitrary conversations."""

from collections.abc import Callable, Sequence
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from context_assembler.errors import ContextOverflowError
from context_assembler.ports import Truncation
from context_assembler.truncation import TRUNCATIONS, Truncator
from context_assembler.truncation.shorten import result_tokens, shorten_result
from context_assembler.values.exchanges import Exchange, split_exchanges
from context_assembler.values.messages import Message
from context_assembler.values.options import OverflowPolicy, TruncationSettings
from context_assembler.values.parts import ToolResult
from tests.strategies import paired_conversations
from tests.truncation.conversations import WordCounter, conversations, numbered, summary, total

COUNTER = WordCounter()
STUB_TOKENS = 40

every_strategy = pytest.mark.parametrize(
    ("strategy", "is_stable"),
    list(product(TRUNCATIONS, (True, False))),
    ids=lambda value: value if isinstance(value, str) else ("stable" if value else "exact"),
)
rooms = st.integers(1, 110).map(lambda percent: percent / 100)
few = settings(max_examples=40)  # times three strategies, each stable and exact
policies = st.sampled_from(["error", "shorten"])


def truncator(
    strategy: str, is_stable: bool, *, on_overflow: OverflowPolicy = "error", window_turns: int = 3
) -> Truncator:
    return Truncator(
        TruncationSettings(
            strategy=strategy,
            cache_stable=is_stable,
            on_overflow=on_overflow,
            stub_tokens=STUB_TOKENS,
            window_turns=window_turns,
        )
    )


def attempt(
    fitter: Truncator, talk: Sequence[Message], room_tokens: int
) -> Truncation | ContextOverflowError:
    try:
        return fitter.truncate(talk, room_tokens=room_tokens, counter=COUNTER)
    except ContextOverflowError as error:
        return error


def fit(
    strategy: str,
    is_stable: bool,
    talk: Sequence[Message],
    room: float,
    on_overflow: OverflowPolicy = "error",
) -> Truncation:
    """Truncate to a share of the history; a case that cannot fit is no case for these laws."""
    fitter = truncator(strategy, is_stable, on_overflow=on_overflow)
    outcome = attempt(fitter, talk, int(room * total(talk, COUNTER)))
    assume(isinstance(outcome, Truncation))
    assert isinstance(outcome, Truncation)
    return outcome


def ids(messages: Sequence[Message]) -> list[str]:
    return [message.id for message in messages if message.kind != "marker"]


def first(talk: Sequence[Message], claim: Callable[[Message], bool]) -> Message | None:
    return next(filter(claim, talk), None)


def is_from_user(message: Message) -> bool:
    return message.is_from_user


@every_strategy
@few
@given(talk=conversations | paired_conversations, room=st.integers(-5, 1500), on_overflow=policies)
def test_it_fits_or_says_what_does_not(
    strategy: str, is_stable: bool, talk: list[Message], room: int, on_overflow: OverflowPolicy
) -> None:
    outcome = attempt(truncator(strategy, is_stable, on_overflow=on_overflow), talk, room)

    if isinstance(outcome, ContextOverflowError):
        assert outcome.needed_tokens == sum(outcome.sizes_tokens.values()) > room
        assert outcome.remedy
    else:
        assert total(outcome.messages, COUNTER) <= room


@every_strategy
@few
@given(talk=conversations)
def test_a_history_that_fits_is_sent_whole(
    strategy: str, is_stable: bool, talk: list[Message]
) -> None:
    kept = fit(strategy, is_stable, talk, 1.0)

    assert all(a is b for a, b in zip(kept.messages, talk, strict=True))
    assert (kept.entries, kept.level) == ((), 0)


@every_strategy
@few
@given(talk=conversations, room=rooms, on_overflow=policies)
def test_every_call_keeps_exactly_its_results_right_behind_it(
    strategy: str, is_stable: bool, talk: list[Message], room: float, on_overflow: OverflowPolicy
) -> None:
    kept = fit(strategy, is_stable, talk, room, on_overflow).messages

    for before, message in zip([None, *kept], [*kept, None], strict=True):
        calls = before.tool_calls if before else ()
        results = message.tool_results if message else ()
        assert [c.call_id for c in calls] == [r.call_id for r in results]


@every_strategy
@few
@given(talk=conversations, room=rooms, on_overflow=policies)
def test_order_is_kept_and_every_message_is_accounted_for(
    strategy: str, is_stable: bool, talk: list[Message], room: float, on_overflow: OverflowPolicy
) -> None:
    kept = fit(strategy, is_stable, talk, room, on_overflow)
    dropped = [entry.id for entry in kept.entries if entry.decision == "dropped"]
    shortened = {entry.id: entry for entry in kept.entries if entry.decision == "shortened"}
    by_id = {message.id: message for message in talk}

    assert [m.id for m in talk if m.id not in dropped] == ids(kept.messages)
    for message in kept.messages:
        if message.kind != "marker":
            assert (message.id in shortened) == (message != by_id[message.id])
    for entry in kept.entries:
        assert entry.tokens_before == COUNTER.count_message(by_id[entry.id])
        assert entry.tokens_after < entry.tokens_before
        assert entry.reason
        assert entry.rule.startswith((strategy, "overflow"))


@every_strategy
@few
@given(talk=conversations, room=rooms, on_overflow=policies)
def test_anchors_are_kept(
    strategy: str, is_stable: bool, talk: list[Message], room: float, on_overflow: OverflowPolicy
) -> None:
    kept = set(ids(fit(strategy, is_stable, talk, room, on_overflow).messages))

    assert {m.id for m in talk if m.is_pinned} <= kept
    assert {m.id for m in split_exchanges(talk)[-1]} <= kept
    assert {m.id for m in [*filter(is_from_user, talk)][-1:]} <= kept
    if strategy == "smart":
        assert {m.id for m in [*filter(is_from_user, talk)][:1]} <= kept


@every_strategy
@few
@given(talk=conversations, room=rooms)
def test_the_latest_summary_is_kept(
    strategy: str, is_stable: bool, talk: list[Message], room: float
) -> None:
    compacted = numbered([summary("what went before"), *talk])

    kept = fit(strategy, is_stable, compacted, room)

    assert kept.messages[0] == compacted[0]


@every_strategy
@few
@given(talk=conversations, room=rooms, on_overflow=policies)
def test_a_message_of_the_user_opens_what_is_kept(
    strategy: str, is_stable: bool, talk: list[Message], room: float, on_overflow: OverflowPolicy
) -> None:
    kept = fit(strategy, is_stable, talk, room, on_overflow).messages
    said = first(kept, lambda m: m.kind not in ("summary", "marker"))

    assert said is not None
    assert said.is_from_user


@every_strategy
@few
@given(talk=conversations, room=rooms)
def test_the_same_history_is_cut_the_same_and_what_fits_is_left_alone(
    strategy: str, is_stable: bool, talk: list[Message], room: float
) -> None:
    once = fit(strategy, is_stable, talk, room)
    again = fit(strategy, is_stable, list(talk), room)
    twice = fit(strategy, is_stable, once.messages, 1.0)

    assert again == once
    assert twice.messages == once.messages


@pytest.mark.parametrize("strategy", TRUNCATIONS)
@given(talk=conversations | paired_conversations, room=rooms, on_overflow=policies)
@settings(max_examples=60)
def test_without_checkpoints_no_less_is_kept(
    strategy: str, talk: list[Message], room: float, on_overflow: OverflowPolicy
) -> None:
    stable = fit(strategy, True, talk, room, on_overflow)
    exact = fit(strategy, False, talk, room, on_overflow)

    assert without_marker_tokens(exact.messages) >= without_marker_tokens(stable.messages)


def without_marker_tokens(messages: Sequence[Message]) -> int:
    return total([message for message in messages if message.kind != "marker"], COUNTER)


@pytest.mark.parametrize("strategy", TRUNCATIONS)
@given(talk=conversations, room=rooms)
@settings(max_examples=60)
def test_without_checkpoints_what_is_dropped_last_fits_not_even_as_a_stub(
    strategy: str, talk: list[Message], room: float
) -> None:
    kept = fit(strategy, False, talk, room)
    dropped = {entry.id for entry in kept.entries if entry.rule == f"{strategy}.drop"}
    if not dropped or any(entry.rule == "overflow.shorten" for entry in kept.entries):
        return  # all of it fits, or not even the exchange in flight does: the law says nothing

    exchanges = split_exchanges(talk)
    last = max(n for n, exchange in enumerate(exchanges) if exchange[0].id in dropped)
    openers = [one for one in exchanges[: last + 1] if is_opening(one)]  # one has to open the rest
    wanted = [exchanges[last], *(one for one in openers[-1:] if one is not exchanges[last])]
    missing = [one for one in wanted if one[0].id not in ids(kept.messages)]
    spared = 0 if dropped - {m.id for one in missing for m in one} else marker_tokens(kept)

    needed_tokens = sum(smallest_tokens(one, strategy) for one in missing) - spared
    assert total(kept.messages, COUNTER) + needed_tokens > int(room * total(talk, COUNTER))


def is_opening(exchange: Exchange) -> bool:
    return exchange[0].role == "user" and exchange[0].kind in ("said", "synthetic")


def marker_tokens(kept: Truncation) -> int:
    return total(kept.messages, COUNTER) - without_marker_tokens(kept.messages)


def smallest_tokens(exchange: Exchange, strategy: str) -> int:
    """Return what an exchange costs, as a stub where the strategy makes stubs."""
    return sum(
        COUNTER.count_message(message) - sum(saved_tokens(r) for r in message.tool_results)
        if strategy == "smart"
        else COUNTER.count_message(message)
        for message in exchange
    )


def saved_tokens(result: ToolResult) -> int:
    size = result_tokens(result, counter=COUNTER)
    if size <= 2 * STUB_TOKENS:
        return 0
    stub = shorten_result(result, max_tokens=STUB_TOKENS, counter=COUNTER)
    return size - result_tokens(stub, counter=COUNTER)


@every_strategy
@few
@given(talk=conversations, room=rooms, on_overflow=policies)
def test_while_the_level_stays_the_payload_only_grows(
    strategy: str, is_stable: bool, talk: list[Message], room: float, on_overflow: OverflowPolicy
) -> None:
    fitter = truncator(strategy, is_stable, on_overflow=on_overflow)
    room_tokens = int(room * total(talk, COUNTER))
    before: Truncation | None = None
    for end in range(1, len(talk) + 1):
        if talk[end - 1].tool_calls:
            continue  # a call whose results are missing is not sent
        outcome = attempt(fitter, talk[:end], room_tokens)
        now = outcome if isinstance(outcome, Truncation) else None
        if before is not None and now is not None and before.level == now.level:
            assert now.messages[: len(before.messages)] == before.messages
        before = now
