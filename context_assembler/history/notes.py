"""Notes after what was said: the clock, recalled memory, reminders."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

from context_assembler.events import JsonObject, Origin
from context_assembler.options import ClockSettings
from context_assembler.ports import PromptSection
from context_assembler.texts import clean_text

MEMORY_NOTE: Final = "memory"
_DAY_SECONDS: Final = 86_400
_EARLIEST, _LATEST = -62_100_000_000.0, 253_360_000_000.0  # in the years 2 and 9998
_DAYS: Final = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS: Final = (
    "January February March April May June July August September October November December"
).split()


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

    def moment(self, created: float) -> float | None:
        """Return when a message was written; `None`: not known.

        The first and the last year stand for "not known", as the zero time of some languages does.
        """
        return created if created and _EARLIEST < created < _LATEST else None

    def is_due(self, moment: float, *, last: float | None) -> bool:
        """Whether a note is due: the last one is too long ago, or tells of another day."""
        if last is None or moment - last > self._gap:
            return True
        if self._zone is UTC:
            return moment // _DAY_SECONDS != last // _DAY_SECONDS
        return self._day(moment) != self._day(last)

    def is_quiet(self, moments: Sequence[float], *, last: float) -> bool:
        """Whether no note is due at any of these moments."""
        ends = min(moments), max(moments)
        return not any(self.is_due(moment, last=last) for moment in ends) and ends[0] > 0

    def _day(self, moment: float) -> int:
        return datetime.fromtimestamp(moment, self._zone).toordinal()

    def text(self, moment: float) -> str:
        """Return the text of the note."""
        local = datetime.fromtimestamp(moment, UTC).astimezone(self._zone)
        # `strftime` names days and months as the process's locale does; ours are always English.
        named = re.sub("%(.)", lambda match: _name(match, local), self._format)
        return f"Time: {local.strftime(named)}"


def _name(match: re.Match[str], local: datetime) -> str:
    day, month = _DAYS[local.weekday()], _MONTHS[local.month - 1]
    names = {"A": day, "a": day[:3], "B": month, "b": month[:3]}
    names["p"] = "AM" if local.hour < 12 else "PM"
    return names.get(match[1], match[0])


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
        if section.origin == "memory" and section.name == MEMORY_NOTE:
            text = without_shown(text, recalled)
        if section.placement != "note" or not text.strip() or latest.get(section.name) == text:
            continue
        latest[section.name] = text
        fresh.append((section.name, section.origin, [{"type": "text", "text": text}]))
    return fresh


# ---- recalled memory ----

RECALLED_LABEL: Final = "Recalled from memory."
_HEADING: Final = "## "


def without_shown(content: str, shown: Iterable[str]) -> str:
    """Return the text of a note about memory without what earlier notes say; empty: all of it.

    What such a note says are the entries of its lists, under their headings.
    """
    known = {entry for note in shown for entry in _entries(note)}
    entries = list(_entries(content))
    fresh = [entry for entry in entries if entry not in known]
    if len(fresh) == len(entries) or not content.startswith(RECALLED_LABEL):
        return content
    if not fresh:
        return ""
    *_, closing, end = content.split("\n")
    written, before = [content.partition(f"\n{_HEADING}")[0]], ("", "")
    for heading, above, text in fresh:
        if heading != before[0]:
            written += [*([""] * bool(before[0])), heading, ""]
        if above and (heading, above) != before:
            written.append(above)
        written.append(text)
        before = heading, above
    missing = closing.partition(". ")[2]
    counted = f"{len(fresh)} of {len(entries)}; the others were told before. {missing}".rstrip()
    return "\n".join([*written, "", counted, end])


def _entries(note: str) -> Iterator[tuple[str, str, str]]:
    """Yield the entries of a note's lists, each with its heading and the line above it."""
    heading = above = ""
    for block in re.findall(r"(?m)^(?:- .*(?:\n(?:  .*)?)*|.+)$", note):
        if block.startswith(_HEADING):
            heading, above = block, ""
        elif block.startswith("- "):
            yield heading, above, block.rstrip()
        else:
            above = block
