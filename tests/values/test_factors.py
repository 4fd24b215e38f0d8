"""A correction that comes later leaves every earlier count as it was."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.events import (
    AssistantBody,
    Provenance,
    SessionEvent,
    UserBody,
    system_event,
    user_event,
)
from context_assembler.values.factors import TokenFactors, read_factors
from context_assembler.values.messages import Message
from context_assembler.values.parts import Text

MODEL = "claude-opus-5-5"


def reply(seq: int, factor: float | None, *, answers: int = 0, model: str = MODEL) -> SessionEvent:
    made_by = Provenance(provider="anthropic", model=model, token_factor=factor)
    body = AssistantBody(parts=(Text("ok"),), made_by=made_by)
    return SessionEvent(body=body, seq=seq, answers_seq=answers, id=f"e{seq}")


def said(seq: int) -> SessionEvent:
    return replace(user_event("hi"), seq=seq)


def message(seq: int) -> Message:
    return Message(role="user", parts=(Text("hi"),), seq=seq)


def session(factors: list[float]) -> list[SessionEvent]:
    """Return turns of a user's message and a reply, each counted by its own factor."""
    events: list[SessionEvent] = []
    for turn, factor in enumerate(factors):
        events += [said(2 * turn + 1), reply(2 * turn + 2, factor, answers=2 * turn + 1)]
    return events


def test_a_session_without_replies_has_the_newest_factor_throughout() -> None:
    factors = read_factors([said(1)], model=MODEL, current=1.2)

    assert (factors.of(message(1)), factors.first) == (1.2, 1.2)
    assert not factors.is_neutral


def test_each_message_keeps_the_factor_of_the_call_that_it_was_first_sent_in() -> None:
    factors = read_factors([*session([1.1, 1.3]), said(5)], model=MODEL, current=1.5)

    assert [factors.of(message(seq)) for seq in range(1, 6)] == [1.1, 1.3, 1.3, 1.5, 1.5]
    assert factors.first == 1.1


def test_replies_from_before_there_were_corrections_were_counted_by_one() -> None:
    factors = read_factors([said(1), reply(2, None, answers=1)], model=MODEL, current=1.5)

    assert factors.of(message(1)) == factors.first == 1.0


def test_a_reply_that_was_logged_by_hand_answers_what_stands_before_it() -> None:
    factors = read_factors([said(1), reply(2, 1.2), said(3)], model=MODEL, current=1.4)

    assert [factors.of(message(seq)) for seq in (1, 2, 3)] == [1.2, 1.4, 1.4]


def test_replies_of_other_models_say_nothing() -> None:
    events = [said(1), reply(2, 1.9, answers=1, model="gpt-5.5")]

    assert read_factors(events, model=MODEL).is_neutral


def test_a_note_keeps_the_factor_it_was_sent_with_when_it_is_stored_later() -> None:
    note = replace(system_event("It is noon.", note="clock"), seq=2, answers_seq=1)
    events = [said(1), note, reply(3, 1.2, answers=1), said(4)]

    factors = read_factors(events, model=MODEL, current=1.6)

    fresh = Message(role="system", parts=(Text("now"),), kind="note")
    assert [factors.of(message(seq)) for seq in (1, 2, 4)] == [1.2, 1.2, 1.6]
    assert factors.of(fresh) == 1.6


def test_what_the_assembler_put_between_has_the_first_factor() -> None:
    marker = Message(role="user", parts=(Text("[…]"),), kind="marker")

    assert read_factors(session([1.1, 1.3]), model=MODEL, current=2.0).of(marker) == 1.1


a_factor = st.sampled_from([0.5, 0.9, 1.0, 1.1, 1.7, 2.0])


@given(stored=st.lists(a_factor, min_size=1, max_size=12), now=a_factor, later=a_factor)
def test_no_later_factor_moves_an_earlier_one(
    stored: list[float], now: float, later: float
) -> None:
    events = session(stored)
    at_the_time = read_factors(events, model=MODEL, current=now)
    said_next, answered = (
        said(len(events) + 1),
        reply(len(events) + 2, now, answers=len(events) + 1),
    )

    grown = read_factors([*events, said_next, answered], model=MODEL, current=later)

    sent = [message(seq) for seq in range(1, len(events) + 2)]
    assert list(map(at_the_time.of, sent)) == list(map(grown.of, sent))
    assert at_the_time.first == grown.first


@given(stored=st.lists(a_factor, min_size=2, max_size=12), current=a_factor)
def test_replaying_an_old_step_gives_the_factors_of_that_step(
    stored: list[float], current: float
) -> None:
    events, step = session(stored), len(stored) // 2
    then = read_factors(events[: 2 * step + 1], model=MODEL, current=stored[step])

    replayed = read_factors(events, model=MODEL, current=current)

    sent = [message(seq) for seq in range(1, 2 * step + 2)]
    assert list(map(then.of, sent)) == list(map(replayed.of, sent))


def test_without_any_factor_nothing_is_corrected() -> None:
    assert TokenFactors().is_neutral
    assert isinstance(said(1).body, UserBody)
