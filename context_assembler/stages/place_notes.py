"""The step that puts notes behind what was said: the clock, recalled memory, reminders."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, tzinfo
from typing import Final

from context_assembler.values.messages import CLOCK, Message
from context_assembler.values.options import ClockSettings
from context_assembler.values.parts import Origin, Text
from context_assembler.values.prompt import PromptSection
from context_assembler.values.recalled_notes import MEMORY_NOTE, leave_out_told
from context_assembler.values.texts.cleaning import clean_text

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def place_clock(
    messages: Sequence[Message], *, settings: ClockSettings, last: datetime | None = None
) -> tuple[Message, ...]:
    """Return the messages with clock notes behind the user messages that need one.

    That is the first user message with a time, and each one on another day or more than the gap after
    the last clock note. A note tells the time of the message before it and nothing else, so
    that it is the same at every later call. A clock note that is stored there already stays.

    Args:
        last: The time of the last clock note before these messages; see `last_told`.
    """
    if not settings.is_enabled:
        return tuple(messages)
    clock = _Clock(
        zone=settings.zone,
        format=settings.format,
        gap=timedelta(seconds=settings.gap_seconds),
    )
    placed: list[Message] = []
    for at, message in enumerate(messages):
        placed.append(message)
        moment = _moment_of(message) if message.is_from_user else None
        if moment is None:
            continue
        if _has_clock(messages, at):
            last = moment
        elif last is None or clock.is_due(moment, last=last):
            placed.append(_note(CLOCK, clock.tell(moment), created_at=message.created_at))
            last = moment
    return tuple(placed)


def last_told(messages: Sequence[Message]) -> datetime | None:
    """Return the time of the last user message that a clock note stands behind; `None`: there is none.

    Args:
        messages: With their clock notes.
    """
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        moment = _moment_of(message) if message.is_from_user else None
        if moment is not None and _has_clock(messages, at):
            return moment
    return None


def tell_date(messages: Sequence[Message], *, settings: ClockSettings) -> str:
    """Return the day on which the messages begin, for the system prompt; empty unless it is wanted."""
    moments = (_moment_of(message) for message in messages)
    first = next((moment for moment in moments if moment is not None), None)
    if first is None or not settings.date_in_system:
        return ""
    return f"The conversation begins on {first.astimezone(settings.zone).date().isoformat()}."


def append_notes(
    messages: Sequence[Message],
    notes: Sequence[PromptSection],
    *,
    seen: Sequence[Message] | None = None,
) -> tuple[Message, ...]:
    """Return the messages with the sections whose placement is `note` behind the last turn.

    They stand behind the last message of the user or of tools and the notes that follow it. A blank
    note is left out, and so is one that says what the latest note of its name says, so that
    assembling again adds nothing. What is recalled is told once as long as it is seen.

    Args:
        seen: The messages that the model will really see, where some were cut; all by default.
    """
    shown = messages if seen is None else seen
    latest = {m.note: m.text for m in shown if m.kind == "note" and m.note is not None}
    recalled = [m.text for m in shown if m.kind == "note" and m.note == MEMORY_NOTE]
    fresh: list[Message] = []
    for section in notes:
        text = clean_text(section.content)
        if section.origin == "memory" and section.name == MEMORY_NOTE:
            text = leave_out_told(text, recalled)
        is_known = latest.get(section.name) == text
        if section.placement != "note" or not text.strip() or is_known:
            continue
        latest[section.name] = text
        fresh.append(_note(section.name, text, origin=section.origin))
    end = _end_of_turn(messages)
    return (*messages[:end], *fresh, *messages[end:])


def _end_of_turn(messages: Sequence[Message]) -> int:
    """Return the index behind the last message of the user or of tools and what belongs to it."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role in ("user", "tool"):
            end = at + 1
            while end < len(messages) and messages[end].role == "system":
                end += 1
            return end
    return len(messages)


def _note(
    name: str, text: str, *, origin: Origin = "assembler", created_at: datetime | None = None
) -> Message:
    return Message(
        role="system",
        kind="note",
        note=name,
        origin=origin,
        created_at=created_at,
        parts=(Text(text),),
    )


# ---- the clock ----


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clock:
    """A clock as the settings want it."""

    zone: tzinfo
    format: str
    gap: timedelta

    def is_due(self, moment: datetime, *, last: datetime) -> bool:
        """Whether a new day began since the last note, or the gap has passed."""
        is_other_day = self._date_of(moment) != self._date_of(last)
        return is_other_day or moment - last > self.gap

    def tell(self, moment: datetime) -> str:
        """Return the text of the note."""
        local = moment.astimezone(self.zone)
        # `strftime` spells names as the process's locale does; ours are the same everywhere.
        spelled = re.sub("%(.)", lambda match: _spell(match, local), self.format)
        return f"Time: {local.strftime(spelled)}"

    def _date_of(self, moment: datetime) -> tuple[int, int, int]:
        return moment.astimezone(self.zone).timetuple()[:3]


def _spell(match: re.Match[str], local: datetime) -> str:
    match match[1]:
        case "A":
            return _DAYS[local.weekday()]
        case "a":
            return _DAYS[local.weekday()][:3]
        case "B":
            return _MONTHS[local.month - 1]
        case "b":
            return _MONTHS[local.month - 1][:3]
        case "p":
            return "AM" if local.hour < 12 else "PM"
        case _:
            return match[0]


def _moment_of(message: Message) -> datetime | None:
    """Return when the message was written, in UTC, where differences between moments are true.

    A time without a zone is taken for UTC. The first and the last year stand for "not known", as
    the zero time of some languages does; no zone can be applied to them.
    """
    moment = message.created_at
    if moment is None or not MINYEAR < moment.year < MAXYEAR:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _has_clock(messages: Sequence[Message], at: int) -> bool:
    for behind in range(at + 1, len(messages)):
        if messages[behind].role != "system":
            return False
        if messages[behind].note == CLOCK:
            return True
    return False
