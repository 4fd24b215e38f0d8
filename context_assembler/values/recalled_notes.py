"""What one call recalls of memory, as a note behind the history."""

from dataclasses import dataclass
from typing import Final

from context_assembler.values.prompt import PromptSection
from context_assembler.values.report import ReportEntry

MEMORY_NOTE: Final = "memory"
"""The name of the section, and of the note that it becomes."""

NO_ROOM: Final = ReportEntry(
    kind="memory",
    id=MEMORY_NOTE,
    decision="dropped",
    reason="There is no room for what was recalled beside what may not be dropped.",
    rule="memory.no_room",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledNote:
    """The sections to be placed, one if anything was recalled, and what the report says of them."""

    sections: tuple[PromptSection, ...] = ()
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()


NOTHING_RECALLED: Final = RecalledNote()
