"""What speaks for a record beside its words: who says it, its date, that it tells a time, its kind."""

import re
from collections.abc import Collection
from typing import Final

from context_assembler.recall.date_mentions import find_dates
from context_assembler.recall.speakers import is_said_by
from context_assembler.values.memories.metadata import EventMetadata
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import DateMention, Signals

SPEAKER_FACTOR: Final = 1.5
DATE_FACTOR: Final = 1.3
TIME_FACTOR: Final = 1.15
EVENT_FACTOR: Final = 1.2
_SEEN_CHARS: Final = 2_000
_TELLS_TIME: Final = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|ago|(last|next|this|past) \w+|\w+days?|(19|20)\d\d"
    r"|january|february|march|april|june|july|august|september|october|november|december)\b",
    re.IGNORECASE,
)


def lift_of(record: MemoryRecord, signals: Signals, speakers: Collection[str]) -> float:
    """Return the factor of a record's worth: 1 where nothing speaks for it.

    Args:
        speakers: Names in the query that are of those who say the records.
    """
    factor = SPEAKER_FACTOR if speakers and is_said_by(record, speakers) else 1.0
    if signals.dates and _is_of_date(record, signals.dates):
        factor *= DATE_FACTOR
    if signals.wants_time and _TELLS_TIME.search(record.text[:_SEEN_CHARS]):
        factor *= TIME_FACTOR
    return factor * (EVENT_FACTOR if _is_wanted_event(record, signals) else 1.0)


def _is_of_date(record: MemoryRecord, dates: Collection[DateMention]) -> bool:
    """Whether the record is of one of the dates, or names one, in whatever notation."""
    moment = record.created_at
    if moment is not None and any(date.matches(moment) for date in dates):
        return True
    named = find_dates(record.text[:_SEEN_CHARS], now=None)
    return any(date.matches_mention(other) for date in dates for other in named)


def _is_wanted_event(record: MemoryRecord, signals: Signals) -> bool:
    metadata = record.metadata
    if not isinstance(metadata, EventMetadata):
        return False
    is_error = metadata.is_error is True and "error" in signals.event_types
    return is_error or metadata.event_type in signals.event_types
