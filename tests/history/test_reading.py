"""Events become turns: which are active, in which order, and what joins what."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from context_assembler import (
    Image,
    Opaque,
    SessionEvent,
    Text,
    system_event,
    user_event,
)
from context_assembler.events import Body, Covers, Provenance, UrlSource
from tests.history.logs import broken_logs
from tests.history.talk import cases, rules, shown, talk, transform

LOGS = cases(
    """
one event, one turn
    U a; A[c1] b; T[c1] found; A d → U a; A[c1] b; T[c1] found; A d
calls join the reply before them
    U a; A b; C[c1]; C[c2]; T[c1] one; T[c2] two → U a; A[c1 c2] b; T[c1 c2] one|two
calls without a reply make one
    U a; C[c1]; C[c2]; T[c1] one; T[c2] two → U a; A[c1 c2]; T[c1 c2] one|two
a call behind something else makes a reply of its own
    U a; A b; U c; C[c1]; T[c1] d → U a; A b; U c; A[c1]; T[c1] d
a call behind results is the model's next step
    U a; C[c1]; T[c1] one; C[c2]; T[c2] two → U a; A[c1]; T[c1] one; A[c2]; T[c2] two
instructions in the middle stay there
    U a; S be brief; A b → U a; S be brief; A b
a summary stands where the first event that it covers stood
    U a; A b; U c; A d; M1-2 so far → M so far; U c; A d
excluded events stay, and the summary stands behind the first of them
    U task; A b; U c; A d; M1-4!1,3 so far → U task; M so far; U c
what follows a compaction is active
    U a; M1-1 so far; U b → M so far; U b
a compaction covers nothing behind it
    U a; M1-9 so far; U b → M so far; U b
a compaction of nothing stands at its own place
    U a; M7-9 nothing; U b → U a; M nothing; U b
a compaction of nothing but excluded events stands at its own place
    U a; M1-1!1 nothing; U b → U a; M nothing; U b
a later compaction covers an earlier summary with its event
    U a; M1-1 one; U b; M2-3 two; U c → M two; U c
a later compaction covers an earlier summary with all that it covered
    U a; U b; U c; M1-2 one; M1-3 two → M two
the second of two compactions of one range replaces the first
    U a; M1-1 one; M1-1 two; U c → M two; U c
a later summary stands where the earlier one stood
    U a; U b; M1-2!2 one; U c; M3-4 two → M two; U b
an excluded summary stays
    U a; M1-1 one; U b; M1-3!2 two → M one; M two
compactions side by side are both active
    U a; U b; U c; M1-1 one; M2-2 two → M one; M two; U c
the session's own prompt is never covered
    S be brief; U a; M1-2 so far; U b → M so far; U b
a covered call takes its result along
    U a; A[c1]; T[c1] one; A b; U c; M1-3 so far → M so far; A b; U c
"""
)


@pytest.mark.parametrize(("events", "rows", "_"), LOGS.values(), ids=LOGS.keys())
def test_events_become_turns(events: list[str], rows: list[str], _: object) -> None:
    assert shown(transform(talk(*events)).turns) == rows


def test_every_summary_says_what_it_stands_for() -> None:
    done = transform(talk("U a", "A b", "U c", "M1-2 so far", "M9-9 nothing"))

    assert rules(done) == ["compaction.covers"] * 2
    assert "2 events, 1 to 2" in done.entries[0].reason
    assert "nothing" in done.entries[1].reason


SEALED = Opaque(provider="anthropic", block={"type": "compaction", "encrypted_content": "E"})


@pytest.mark.parametrize("is_readable", [True, False])
@pytest.mark.parametrize("text", ["so far", ""])
def test_a_sealed_summary_counts_for_whom_can_read_it(*, is_readable: bool, text: str) -> None:
    sealed = SessionEvent(
        type="compaction",
        parts=(*([Text(text)] if text else []), SEALED),
        covers=Covers(first_seq=1, last_seq=2),
        made_by=Provenance(provider="anthropic", model="claude-opus-5-5"),
    )

    def reads(_: Body) -> bool:
        return is_readable

    done = transform(talk("U a", "A b", sealed, "U c"), reads=reads)

    if is_readable or text:
        assert shown(done.turns) == [f"M {text}".strip(), "U c"]
        kinds = [part["type"] for part in done.turns[0]["parts"]]
        assert kinds == ["text"] * bool(text) + ["opaque"] * is_readable
    else:
        assert shown(done.turns) == ["U a", "A b", "U c"]
    assert ("compaction.sealed" in rules(done)) == (not is_readable and not text)
    assert ("compaction.twin" in rules(done)) == (not is_readable and bool(text))


# ---- the session's own prompt ----


def test_leading_instructions_are_the_sessions_own_prompt() -> None:
    events = talk("S You book flights.", "S", system_event(" "), "S b", "U a")

    done = transform(events)
    kept = transform(events, takes_leading_system=False)

    assert done.leading_system == ("You book flights.", "b")
    assert shown(done.turns) == ["U a"]
    assert (shown(kept.turns)[0], kept.leading_system) == ("S You book flights.", ())


def test_a_leading_note_or_a_picture_is_not_the_sessions_prompt() -> None:
    picture = SessionEvent(
        type="system", parts=(Image(source=UrlSource(url="https://example.com/a.png")),)
    )

    assert transform([picture]).leading_system == ()
    assert transform([system_event("9:00", note="clock")]).leading_system == ()


# ---- what a turn carries ----


def test_notes_and_summaries_say_so() -> None:
    go_on = SessionEvent(type="user", parts=(Text("Continue."),), note="continue")

    turns = transform(talk("M7-9 so far", "U a", system_event("9:00", note="clock"), go_on)).turns

    assert [(turn["role"], turn.get("kind"), turn.get("note")) for turn in turns] == [
        ("user", "summary", None),
        ("user", "said", None),
        ("system", "note", "clock"),
        ("user", "note", "continue"),
    ]


def test_events_are_read_by_their_numbers_and_new_ones_last() -> None:
    one, two, three = talk("U a", "A b", "U c")

    events = [user_event("new"), three, one, two, user_event("newer")]

    assert shown(transform(events).turns) == ["U a", "A b", "U c", "U new", "U newer"]


@pytest.mark.parametrize("by", [0, 40])
def test_a_compaction_covers_by_the_numbers_of_its_session(by: int) -> None:
    events = talk("U a", "A b", f"M{1 + by}-{1 + by} so far")

    assert shown(transform([replace(e, seq=e.seq + by) for e in events]).turns)[0] == "M so far"
    new = [replace(event, seq=0) for event in talk("U a", "A b", "M1-1 so far")]
    assert shown(transform(new).turns)[0] == "M so far"


def test_a_reply_stands_behind_what_it_answers() -> None:
    events = talk("U a", "U meanwhile", "A b", "N the time", "U c")
    events[2] = replace(events[2], answers_seq=1)
    events[3] = replace(events[3], answers_seq=1)

    assert shown(transform(events).turns) == ["U a", "A b", "N the time", "U meanwhile", "U c"]


@given(events=broken_logs)
@settings(max_examples=60)
def test_a_longer_log_only_adds_turns(events: list[SessionEvent]) -> None:
    spoken = [replace(event, answers_seq=0) for event in events if event.type in ("user", "system")]
    whole = transform(spoken, takes_leading_system=False).turns

    for end in range(len(spoken)):
        part = transform(spoken[:end], takes_leading_system=False).turns
        assert part == whole[: len(part)]


@given(events=broken_logs)
@settings(max_examples=60)
def test_any_log_reads_the_same_again(events: list[SessionEvent]) -> None:
    assert transform(events) == transform(list(events))
