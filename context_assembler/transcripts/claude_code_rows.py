"""The rows of a Claude Code transcript: which of them belong to the conversation as it stands.

A session file is append-only. Rows point to their parent; editing a prompt or rewinding starts a
branch. The active branch ends at the last message of the file. Parallel calls hang under each other
and their results under their calls, so the rows of one reply, and all results of its calls, belong
together wherever their parents point.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.parsing import Row, as_mapping
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_text

SAID: Final = frozenset({"user", "assistant"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRow:
    """One row: its line, its fields, and what the reader asks of every row."""

    line: int | None
    fields: JsonObject

    @property
    def spot(self) -> Spot:
        """Where the row stands."""
        return Spot(line=self.line, path=self.kind)

    @property
    def kind(self) -> str:
        """The row's type, with its subtype where it has one."""
        kind = str(self.fields.get("type"))
        inner = {
            "system": self.fields.get("subtype"),
            "attachment": as_mapping(self.fields.get("attachment")).get("type"),
        }.get(kind)
        return kind if inner is None else f"{kind}:{inner}"

    @property
    def uuid(self) -> str | None:
        """The row's own id."""
        return _text(self.fields.get("uuid"))

    @property
    def message(self) -> JsonObject:
        """The message, empty where the row has none."""
        return as_mapping(self.fields.get("message"))

    @property
    def is_said(self) -> bool:
        """Whether the row is part of a message of the user or the model."""
        return as_text(self.fields.get("type")) in SAID and bool(self.message)

    @property
    def is_sidechain(self) -> bool:
        """Whether a sub-agent wrote the row."""
        return self.fields.get("isSidechain") is True

    @property
    def is_boundary(self) -> bool:
        """Whether a compaction happened here."""
        return self.kind == "system:compact_boundary"

    @property
    def reply_id(self) -> str | None:
        """The id that the rows of one reply share."""
        return _text(self.message.get("id")) if self.fields.get("type") == "assistant" else None

    def ids_in(self, block_type: str, field: str) -> set[str]:
        """Return the ids that blocks of one type carry in a field."""
        content = self.message.get("content")
        blocks = [as_mapping(block) for block in content] if is_array(content) else []
        found = [block.get(field) for block in blocks if block.get("type") == block_type]
        return {call_id for call_id in found if isinstance(call_id, str)}


def collect_rows(rows: Iterable[Row], log: IssueLog) -> list[CodeRow]:
    """Return the rows of the conversation, once each; sub-agents' rows only if nobody else spoke."""
    kept: list[CodeRow] = []
    seen: set[str] = set()
    for row in rows:
        if not is_object(row.value):
            log.note(Spot(line=row.line, path="line"), "is no JSON object; left out")
            continue
        code_row = CodeRow(line=row.line, fields=row.value)
        if code_row.uuid in seen:
            log.count(code_row.spot, "repeated rows", "have the uuid of an earlier row; left out")
            continue
        seen.update({code_row.uuid} if code_row.uuid else ())
        kept.append(code_row)
    if not any(row.is_said and not row.is_sidechain for row in kept):
        return kept
    for code_row in kept:
        if code_row.is_sidechain:
            reason = "are sessions of their own; read their own files"
            log.count(code_row.spot, "rows of sub-agents", reason)
    return [code_row for code_row in kept if not code_row.is_sidechain]


def active_rows(rows: Sequence[CodeRow], log: IssueLog) -> list[CodeRow]:
    """Return the rows of the active branch in the order written; report what is left aside.

    Rows that belong to no branch, such as titles, are among them.
    """
    chain = set(_chain(rows, log))
    replies = {row.reply_id for row in rows if row.uuid in chain and row.reply_id}
    chain |= {row.uuid for row in rows if row.uuid and row.reply_id in replies}
    chain |= set(_side_results(rows, chain))
    active: list[CodeRow] = []
    for row in rows:
        if row.uuid is None or row.uuid in chain or _hangs_on(row, chain):
            active.append(row)
        elif row.is_said:
            log.count(
                row.spot, "rows of abandoned branches", "were edited away or cleared; left out"
            )
    return active


def _chain(rows: Sequence[CodeRow], log: IssueLog) -> Iterator[str]:
    """Yield the ids from the last message back to where the conversation began."""
    places = {row.uuid: place for place, row in enumerate(rows) if row.uuid}
    said = [place for place, row in enumerate(rows) if row.is_said and row.uuid]
    place = said[-1] if said else None
    while place is not None:
        row = rows[place]
        yield row.uuid or ""
        place = _parent_place(rows, place, places, log)


def _parent_place(
    rows: Sequence[CodeRow], place: int, places: Mapping[str, int], log: IssueLog
) -> int | None:
    row = rows[place]
    parent = row.fields.get("parentUuid") or row.fields.get("logicalParentUuid")
    if parent is None:
        return None
    found = places.get(parent) if isinstance(parent, str) else None
    if found is not None and found < place:
        return found
    earlier = next((at for at in range(place - 1, -1, -1) if rows[at].uuid), None)
    if earlier is not None:
        # The parent's line is damaged or missing: what stands before it is still the conversation.
        log.note(row.spot.key("parentUuid"), "names no earlier row; the row before is taken for it")
    return earlier


def _side_results(rows: Sequence[CodeRow], chain: Collection[str]) -> Iterator[str]:
    """Yield the rows off the chain that answer, or explain, a call on it."""
    on_chain = [row for row in rows if row.uuid in chain]
    calls = {call_id for row in on_chain for call_id in row.ids_in("tool_use", "id")}
    answered = {call_id for row in on_chain for call_id in row.ids_in("tool_result", "tool_use_id")}
    for row in rows:
        if row.uuid is None or row.uuid in chain:
            continue
        answers = row.ids_in("tool_result", "tool_use_id")
        if answers and answers <= calls and not answers & answered:
            answered |= answers
            yield row.uuid
        elif row.fields.get("isMeta") and row.fields.get("sourceToolUseID") in calls:
            yield row.uuid


def _hangs_on(row: CodeRow, chain: Collection[str]) -> bool:
    """Whether a row that is no message stands beside the active branch."""
    return not row.is_said and row.fields.get("parentUuid") in chain


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None
