"""Notes after what was said: the clock, recalled memory, reminders."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

from context_assembler.events import JsonObject, Origin
from context_assembler.options import ClockSettings
from context_assembler.ports import PromptSection
from context_assembler.texts import clean_text

MEMORY_NOTE: Final = "memory"
_EARLIEST, _LATEST = -62_100_000_000.0, 253_360_000_000.0  # in the years 2 and 9998
_DAYS: Final = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS: Final = (
    "January February March April May June July August September October November December"
).split()
RECALLED: Final = "Recalled from memory."  # how a note about memory begins


def is_known(created: float) -> bool:
    """Whether somebody knows this time of a message.

    The first and the last year stand for "not known", as the zero time of some languages does.
    """
    return bool(created) and _EARLIEST < created < _LATEST


class Clock:
    """Places and writes clock notes.

    A note stands after the first user message with a time, and after each one on another day or
    more than the gap after the last note. It tells the time of the message before it and nothing
    else, so that it never changes.
    """

    def __init__(self, settings: ClockSettings) -> None:
        self._gap, self._format = settings.gap_seconds, settings.format
        self._zone: tzinfo = UTC
        if settings.time_zone != "UTC":
            from zoneinfo import ZoneInfo

            self._zone = ZoneInfo(settings.time_zone)

    def is_due(self, moment: float, *, last: float | None) -> bool:
        """Whether a note is due: the last one is too long ago, or tells of another day."""
        if last is None or moment - last > self._gap:
            return True
        return self._local(moment).date() != self._local(last).date()

    def is_quiet(self, moments: Sequence[float], *, last: float) -> bool:
        """Whether no note is due at any of these moments."""
        ends = min(moments), max(moments)
        are_known = ends[0] > 0 and ends[1] < _LATEST
        return are_known and not any(self.is_due(moment, last=last) for moment in ends)

    def text(self, moment: float) -> str:
        """Return the text of the note."""
        local = self._local(moment)
        day, month = _DAYS[local.weekday()], _MONTHS[local.month - 1]
        names = {"A": day, "a": day[:3], "B": month, "b": month[:3]}
        names["p"] = "AM" if local.hour < 12 else "PM"
        # `strftime` names days and months as the process's locale does; ours are always English.
        named = re.sub("%(.)", lambda found: names.get(found[1], found[0]), self._format)
        return f"Time: {local.strftime(named)}"

    def _local(self, moment: float) -> datetime:
        return datetime.fromtimestamp(moment, self._zone)


def fresh_notes(
    sections: Sequence[PromptSection], shown: Iterable[tuple[str, str]]
) -> list[tuple[str, Origin, Sequence[JsonObject]]]:
    """Return name, origin and parts of the notes that a call adds.

    A blank note is left out, and so is one that says what the latest note of its name says, so
    that assembling again adds nothing. What memory recalled is sent once as long as it is shown.

    Args:
        shown: Name and text of the notes that the model sees already, oldest first.
    """
    known = list(shown)
    latest = dict(known)
    recalled = [text for name, text in known if name == MEMORY_NOTE]
    fresh: list[tuple[str, Origin, Sequence[JsonObject]]] = []
    for section in sections:
        text = clean_text(section.content)
        if text.startswith(RECALLED) and section.name == MEMORY_NOTE:
            text = _without_shown(text, recalled)
        if section.placement != "note" or not text.strip() or latest.get(section.name) == text:
            continue
        latest[section.name] = text
        fresh.append((section.name, section.origin, [{"type": "text", "text": text}]))
    return fresh


def _without_shown(note: str, shown: Iterable[str]) -> str:
    """Return a note about memory without the entries of its lists that earlier notes have.

    Empty: they have all of them.
    """
    entry = re.compile(r"^- .*\n(?:\n*  .*\n)*", re.MULTILINE)
    known = {found for text in shown for found in entry.findall(text)}
    entries = entry.findall(note)
    number = sum(found not in known for found in entries)
    if number == len(entries):
        return note
    note = entry.sub(lambda found: "" if found[0] in known else found[0], note)
    note = re.sub(r"(?m)^## .*\n\n\n", "", note)  # headings of nothing
    written, _, fence = note.rpartition("\n")
    counted = f"{number} of {len(entries)} are new; the others were told before."
    return f"{written} {counted}\n{fence}" if number else ""
