"""Who says a turn, and which of them a query names."""

import re
from collections.abc import Collection, Iterable
from typing import Final

from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import Signals

_PREFIX: Final = re.compile(r"([^\W\d_][\w.'’-]{0,30}(?: [\w.'’-]{1,30}){0,2}):\s")


def speaker_of(record: MemoryRecord) -> str | None:
    """Return who says the record: its author, or the name that its text begins with."""
    if record.author:
        return record.author
    match = _PREFIX.match(record.text)
    return None if match is None else match[1]


def mentioned_speakers(signals: Signals, records: Iterable[MemoryRecord]) -> frozenset[str]:
    """Return the words of the query that are names of those who say the records, lower-cased."""
    said = {
        word
        for name in {speaker_of(record) for record in records}
        if name is not None
        for word in _words(name)
    }
    return frozenset(said & {word for name in signals.entities for word in _words(name)})


def without_names(text: str, names: Collection[str]) -> str:
    """Return the text without those words."""
    if not names:
        return text
    listed = "|".join(map(re.escape, sorted(names)))
    return re.sub(rf"\b(?:{listed})(?:['’]s)?\b", " ", text, flags=re.IGNORECASE)


def is_said_by(record: MemoryRecord, names: Collection[str]) -> bool:
    """Whether one of those words names who says the record."""
    speaker = speaker_of(record)
    return speaker is not None and any(word in names for word in _words(speaker))


def _words(name: str) -> list[str]:
    return [word for word in re.findall(r"[^\W_]+", name.lower()) if len(word) > 1]
