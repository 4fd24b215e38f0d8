from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.stages.place_notes import append_notes, place_clock, tell_date
from context_assembler.values.messages import Message
from context_assembler.values.options import ClockSettings
from context_assembler.values.parts import Text
from context_assembler.values.prompt import PromptSection
from tests.shorthand import shown, talk
from tests.strategies import paired_conversations

MORNING = datetime(2026, 3, 27, 9, 59, 59, tzinfo=UTC)
UTC_CLOCK = ClockSettings()


def said_at(*moments: datetime | None) -> list[Message]:
    """Return a talk of one user message and one answer for each moment."""
    rows = talk(*("U ask", "A answer") * len(moments))
    times = [moment for moment in moments for _ in range(2)]
    return [replace(row, created_at=moment) for row, moment in zip(rows, times, strict=True)]


def after(**passed: float) -> datetime:
    return MORNING + timedelta(**passed)


PLACES: dict[str, tuple[list[datetime | None], list[bool]]] = {
    "the first turn": ([MORNING], [True]),
    "two seconds later": ([MORNING, after(seconds=2)], [True, False]),
    "just the gap later": ([MORNING, after(minutes=10)], [True, False]),
    "more than the gap later": ([MORNING, after(minutes=10, seconds=1)], [True, True]),
    "the gap counts from the last note": (
        [MORNING, after(minutes=6), after(minutes=12)],
        [True, False, True],
    ),
    "another day within the gap": (
        [datetime(2026, 3, 27, 23, 59, tzinfo=UTC), datetime(2026, 3, 28, 0, 1, tzinfo=UTC)],
        [True, True],
    ),
    "nobody knows when": ([None, None], [False, False]),
    "nobody knows when it began": ([None, MORNING], [False, True]),
    "the zero time of some languages": ([datetime(1, 1, 1, tzinfo=UTC)], [False]),
    "the end of time": ([datetime(9999, 12, 31, tzinfo=UTC)], [False]),
}


@pytest.mark.parametrize(("moments", "expected"), PLACES.values(), ids=PLACES.keys())
def test_the_clock_stands_behind_user_messages_that_need_it(
    moments: list[datetime | None], expected: list[bool]
) -> None:
    placed = place_clock(said_at(*moments), settings=UTC_CLOCK)

    rows = [row[0] for row in shown(placed)]
    assert rows == [letter for is_due in expected for letter in ("UNA" if is_due else "UA")]


def test_a_clock_note_tells_the_time_of_the_message_before_it() -> None:
    placed = place_clock(said_at(MORNING), settings=UTC_CLOCK)

    assert placed[1] == Message(
        role="system",
        kind="note",
        note="clock",
        origin="assembler",
        created_at=MORNING,
        parts=(Text("Time: Friday, 2026-03-27 09:59 UTC"),),
    )


def test_a_clock_that_is_switched_off_changes_nothing() -> None:
    history = said_at(MORNING)

    placed = place_clock(history, settings=ClockSettings(is_enabled=False))

    assert placed == tuple(history)


def test_a_stored_clock_note_stays_and_counts() -> None:
    clock = Message(role="system", kind="note", note="clock", parts=(Text("stored"),), seq=2)
    memory = Message(role="system", kind="note", note="memory", parts=(Text("known"),), seq=3)
    history = said_at(MORNING, after(minutes=1))
    stored = [history[0], memory, clock, *history[1:]]

    placed = place_clock(stored, settings=UTC_CLOCK)

    assert placed == tuple(stored)


def test_notes_and_summaries_of_the_user_role_get_no_clock() -> None:
    history = [replace(m, created_at=MORNING) for m in talk("M so far", "A ok")]

    assert place_clock(history, settings=UTC_CLOCK) == tuple(history)


ZONES: dict[str, tuple[str, str, datetime, str]] = {
    "winter time": (
        "Europe/Berlin",
        "%H:%M %Z",
        datetime(2026, 3, 28, 12, tzinfo=UTC),
        "13:00 CET",
    ),
    "summer time": (
        "Europe/Berlin",
        "%H:%M %Z",
        datetime(2026, 3, 30, 12, tzinfo=UTC),
        "14:00 CEST",
    ),
    "another offset in the event": (
        "UTC",
        "%H:%M",
        datetime(2026, 3, 28, 1, tzinfo=timezone(timedelta(hours=2))),
        "23:00",
    ),
    "a time without a zone is UTC": (
        "UTC",
        "%H:%M",
        datetime(2026, 3, 28, 1),  # noqa: DTZ001 – the case
        "01:00",
    ),
    "names of days and months": (
        "UTC",
        "%a %b %A %B %I %p 100%% %%A",
        datetime(2026, 9, 6, 23, tzinfo=UTC),
        "Sun Sep Sunday September 11 PM 100% %A",
    ),
    "the morning": ("UTC", "%I %p", datetime(2026, 9, 6, 3, tzinfo=UTC), "03 AM"),
}


@pytest.mark.parametrize(("zone", "form", "moment", "text"), ZONES.values(), ids=ZONES.keys())
def test_the_time_is_told_in_the_zone_and_format_set(
    zone: str, form: str, moment: datetime, text: str
) -> None:
    placed = place_clock(said_at(moment), settings=ClockSettings(time_zone=zone, format=form))

    assert placed[1].text == f"Time: {text}"


def test_the_gap_is_true_time_where_clocks_are_put_back() -> None:
    berlin = ClockSettings(time_zone="Europe/Berlin")
    before = datetime(2026, 10, 25, 0, 55, tzinfo=UTC)  # 02:55, five minutes before 02:00 again

    placed = place_clock(said_at(before, before + timedelta(minutes=70)), settings=berlin)

    assert [m.text for m in placed if m.kind == "note"] == [
        "Time: Sunday, 2026-10-25 02:55 CEST",
        "Time: Sunday, 2026-10-25 03:05 CET",
    ]


def test_a_day_is_a_day_of_the_zone() -> None:
    tokyo = ClockSettings(time_zone="Asia/Tokyo")
    midnight = datetime(2026, 3, 27, 15, 0, tzinfo=UTC)

    placed = place_clock(said_at(midnight - timedelta(minutes=1), midnight), settings=tokyo)

    assert [m.kind for m in placed].count("note") == 2


def test_the_prompt_tells_the_day_the_history_begins_on_where_that_is_wanted() -> None:
    tokyo = ClockSettings(time_zone="Asia/Tokyo", date_in_system=True)
    evening = datetime(2026, 3, 27, 22, 0, tzinfo=UTC)
    history = said_at(None, evening, evening + timedelta(days=3))

    assert tell_date(history, settings=tokyo) == "The conversation begins on 2026-03-28."
    assert tell_date(history, settings=ClockSettings()) == ""
    assert tell_date(said_at(None), settings=tokyo) == ""


@given(history=paired_conversations, gaps=st.lists(st.integers(0, 2000), max_size=30))
@settings(max_examples=60, deadline=None)
def test_a_longer_history_only_adds_to_the_shorter(history: list[Message], gaps: list[int]) -> None:
    moment, timed = MORNING, list[Message]()
    for at, message in enumerate(history):
        moment += timedelta(seconds=gaps[at % len(gaps)] if gaps else 0)
        timed.append(replace(message, created_at=moment))
    whole = place_clock(timed, settings=UTC_CLOCK)

    for end in range(len(timed)):
        if timed[end].role != "system":
            part = place_clock(timed[:end], settings=UTC_CLOCK)
            assert part == whole[: len(part)]


@given(history=paired_conversations)
@settings(max_examples=60, deadline=None)
def test_placing_the_clock_twice_adds_nothing(history: list[Message]) -> None:
    timed = [replace(message, created_at=MORNING) for message in history]

    once = place_clock(timed, settings=UTC_CLOCK)

    assert place_clock(once, settings=UTC_CLOCK) == once


def note(name: str, content: str) -> PromptSection:
    return PromptSection(name=name, content=content, placement="note", origin="memory")


def test_a_note_stands_behind_the_last_turn_with_its_name_and_origin() -> None:
    appended = append_notes(talk("U ask"), [note("memory", "The user likes trains.")])

    assert appended[1] == Message(
        role="system",
        kind="note",
        note="memory",
        origin="memory",
        parts=(Text("The user likes trains."),),
    )


ENDS: dict[str, tuple[list[str], list[str]]] = {
    "behind the user": (["U a"], ["U a", "N new"]),
    "behind results": (["U a", "A[c1]", "T[c1] b"], ["U a", "A[c1]", "T[c1] b", "N new"]),
    "behind notes": (["U a", "N old", "S x"], ["U a", "N old", "S x", "N new"]),
    "before an answer that the model is to continue": (
        ["U a", "S x", "A {"],
        ["U a", "S x", "N new", "A {"],
    ),
    "behind nothing": ([], ["N new"]),
    "behind an assistant alone": (["A b"], ["A b", "N new"]),
}


@pytest.mark.parametrize(("before", "rows"), ENDS.values(), ids=ENDS.keys())
def test_notes_stand_behind_the_user_or_tools(before: list[str], rows: list[str]) -> None:
    assert shown(append_notes(talk(*before), [note("memory", "new")])) == rows


def test_a_note_that_was_said_already_is_not_said_again() -> None:
    notes = [note("memory", "trains"), note("weather", "rain\0"), note("blank", " \n")]
    once = append_notes(talk("U a"), notes)

    again = append_notes([*once, *talk("A b", "U c")], notes)

    assert shown(again) == ["U a", "N trains", "N rain", "A b", "U c"]


def test_a_note_that_changed_is_said_again_even_if_it_was_so_before() -> None:
    history = append_notes(talk("U a"), [note("memory", "trains"), note("memory", "planes")])

    again = append_notes(history, [note("memory", "trains")])

    assert shown(again) == ["U a", "N trains", "N planes", "N trains"]


def test_a_section_of_the_system_prompt_is_no_note() -> None:
    section = PromptSection(name="soul", content="kind", placement="system")

    assert append_notes(talk("U a"), [section]) == tuple(talk("U a"))
