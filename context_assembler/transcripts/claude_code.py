"""Session files of Claude Code: JSON Lines with one row per content block.

Rows that share a reply's id are one reply. The active branch is read, the others are reported.
A compaction covers the events before it, counted from 1 as in a session of its own: import such a
transcript into a new session. Rows without a place in a session are counted by kind in the issues.
"""

from collections.abc import Iterable
from typing import Any, Final

from context_assembler.errors import TranscriptError
from context_assembler.ports import ReadTranscript
from context_assembler.transcripts.claude_code_events import EventBuilder
from context_assembler.transcripts.claude_code_rows import SAID, active_rows, collect_rows
from context_assembler.transcripts.claude_code_writing import write_rows
from context_assembler.transcripts.issues import IssueLog
from context_assembler.transcripts.message_lists import finish
from context_assembler.transcripts.parsing import as_mapping, dump_json_text, parse_source
from context_assembler.values.events import SessionEvent
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_text

_ROW_FIELDS: Final = frozenset({"uuid", "parentUuid", "sessionId", "leafUuid", "snapshot"})
_ROW_TYPES: Final = SAID | {"summary", "system", "attachment", "progress", "file-history-snapshot"}


class ClaudeCodeTranscript:
    """Reads Claude Code's session files, and writes the least that is one."""

    name: str = "claude_code"

    def read(self, source: Any, *, name: str = "transcript") -> ReadTranscript:
        """Turn a session file, or a list of its rows, into events.

        Events keep the `uuid` of their first row as id. A file that holds nothing but the rows of a
        sub-agent is read as that agent's session.

        Raises:
            TranscriptError: No row is one of Claude Code's.
        """
        log = IssueLog()
        parsed = parse_source(source, name=name, log=log)
        values = [row.value for row in parsed.rows]
        rows = parsed.rows
        if not parsed.has_lines and not is_object(values[0]):
            rows = tuple(rows[0]._replace(value=value) for value in values[0])
        if not any(_is_row(row.value) for row in rows):
            raise TranscriptError(
                source=name,
                reason="no line is a row of a Claude Code session",
                remedy="Give a .jsonl file of ~/.claude/projects, or name the right format.",
            )
        builder = EventBuilder(log)
        for row in active_rows(collect_rows(rows, log), log):
            builder.add(row)
        return finish(builder.finish(), log=log, metadata=builder.session)

    def write(self, events: Iterable[SessionEvent]) -> str:
        """Return the rows of a session; instructions become meta rows of the user."""
        return "".join(f"{dump_json_text(row)}\n" for row in write_rows(list(events)))

    def matches(self, source: Any) -> bool:
        """Whether the source holds a row of a session."""
        try:
            parsed = parse_source(source, name="transcript", log=IssueLog())
        except TranscriptError:
            return False
        values: list[Json] = [row.value for row in parsed.rows]
        if not parsed.has_lines and not is_object(values[0]):
            values = list(values[0])
        return any(map(_is_row, values))


def _is_row(value: Json) -> bool:
    fields = as_mapping(value)
    return as_text(fields.get("type")) in _ROW_TYPES and not _ROW_FIELDS.isdisjoint(fields)
