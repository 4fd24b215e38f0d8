"""The step from a session's events to canonical messages."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Final, TypeAlias, assert_never

from context_assembler.values.compactions import ReadsCompaction, reads_no_compaction, told_blocks
from context_assembler.values.covered_events import about_tokens, covered_by_each
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    Provenance,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.given import listed
from context_assembler.values.messages import Message, MessageKind, Role
from context_assembler.values.parts import Part, Text
from context_assembler.values.reading import as_object
from context_assembler.values.report import Decision, ReportEntry
from context_assembler.values.standing import count_leading_system, in_order, standing_events
from context_assembler.values.texts.cleaning import clean_text

_Group: TypeAlias = list[SessionEvent]  # the events of one message

_ROLES: Final[dict[type, Role]] = {
    UserBody: "user",
    AssistantBody: "assistant",
    ToolCallBody: "assistant",
    ToolResultBody: "tool",
    CompactionBody: "user",
    SystemBody: "system",
}
_SETTINGS_OF_SYSTEM: Final = ("clear_at", "output_config")
_IS_PINNED: Final = attrgetter("is_pinned")
_MADE: Final = (AssistantBody, ToolCallBody, CompactionBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed:
    """A session as messages, oldest first.

    `leading_system` holds the texts of the system messages that the session begins with: its own
    system prompt, which does not appear among `messages`. `entries` says what every
    summary stands for, which compactions of a provider's cannot be sent as they are, and which
    settings an imported message had.
    """

    messages: tuple[Message, ...]
    leading_system: tuple[str, ...] = ()
    entries: tuple[ReportEntry, ...] = ()


class MessageTransformer:
    """Turns events into messages.

    Args:
        takes_leading_system: Whether the session's own prompt is set apart.
        reads: Whether the request goes to somebody who can read the blocks of a compaction that a
            provider wrote; by default to nobody. What stands of a session depends on it.
    """

    def __init__(
        self,
        *,
        takes_leading_system: bool = True,
        reads: ReadsCompaction = reads_no_compaction,
    ) -> None:
        self._takes_leading_system = takes_leading_system
        self._reads = reads

    def transform(self, events: Iterable[SessionEvent]) -> Transformed:
        """Return the events as messages.

        Their order, and which of them stand, is what `in_order` and `standing_events` say. The
        session's own system prompt is never covered by a compaction. A summary that a provider wrote
        holds its plain text and, for those who can read them, its blocks.
        """
        ordered = in_order(listed("events", events, SessionEvent, such_as="a list of events"))
        lead = count_leading_system(ordered) if self._takes_leading_system else 0
        texts = [_text_of(event) for event in ordered[:lead]]
        standing = standing_events(ordered[lead:], reads=self._reads)
        groups = _group_by_message(standing)
        return Transformed(
            messages=tuple(_message_of(group, self._reads) for group in groups),
            leading_system=tuple(text for text in texts if text.strip()),
            entries=(
                *_covers(ordered[lead:], standing),
                *_unread(ordered[lead:], standing, self._reads),
                *_unsent_fields(standing),
            ),
        )


def _text_of(event: SessionEvent) -> str:
    return clean_text("\n".join(p.text for p in _parts_of(event) if isinstance(p, Text)))


def _group_by_message(events: Iterable[SessionEvent | None]) -> list[_Group]:
    groups: list[_Group] = []
    is_parted = False  # whether something was left out behind the newest group
    for event in events:
        if event is None:
            is_parted = True
            continue
        home = None if is_parted else _home_of(event, groups)
        if home is None:
            groups.append([event])
        else:
            home.append(event)
        is_parted = False
    return groups


def _home_of(event: SessionEvent, groups: Sequence[_Group]) -> _Group | None:
    """Return the message that a call or a result belongs to, if there is one.

    Results join the results directly before them, calls the reply directly before them. A call
    behind results is the next step of the model, since it could see them: it joins the reply
    before those results only where both are known to come from one response.
    """
    if not groups:
        return None
    last = groups[-1]
    match event.body:
        case ToolResultBody():
            return last if isinstance(last[0].body, ToolResultBody) else None
        case ToolCallBody(made_by=made_by):
            if _is_reply(last):
                return last if _may_share_reply(last, made_by) else None
            before = groups[-2] if len(groups) > 1 else last
            is_answered = isinstance(last[0].body, ToolResultBody) and _is_reply(before)
            return before if is_answered and _is_one_response(before, made_by) else None
        case _:
            return None


def _is_reply(group: _Group) -> bool:
    return isinstance(group[0].body, AssistantBody | ToolCallBody)


def _may_share_reply(group: _Group, made_by: Provenance | None) -> bool:
    made_before = _provenance_of(group)
    if made_before is None or made_by is None:
        return True
    if made_before.response_id and made_by.response_id:
        return made_before.response_id == made_by.response_id
    return (made_before.provider, made_before.model) == (made_by.provider, made_by.model)


def _is_one_response(group: _Group, made_by: Provenance | None) -> bool:
    made_before = _provenance_of(group)
    if made_before is None or made_by is None or made_by.response_id is None:
        return False
    return made_before.response_id == made_by.response_id


def _provenance_of(group: _Group) -> Provenance | None:
    for event in group:
        if isinstance(event.body, _MADE) and event.body.made_by:
            return event.body.made_by
    return None


def _message_of(group: _Group, reads: ReadsCompaction) -> Message:
    first = group[0]
    parts = _parts_of(first, reads)
    if len(group) > 1:
        parts = (*parts, *chain.from_iterable(_parts_of(event, reads) for event in group[1:]))
    note = _note_of(first)
    return Message(
        role=_ROLES[type(first.body)],
        parts=parts,
        kind=_kind_of(first, note),
        id=first.id,
        seq=first.seq,
        created_at=first.created_at,
        made_by=_provenance_of(group),
        origin=first.origin,
        is_pinned=any(map(_IS_PINNED, group)),
        note=note,
    )


def _parts_of(
    event: SessionEvent, reads: ReadsCompaction = reads_no_compaction
) -> tuple[Part, ...]:
    match event.body:
        case UserBody(parts=parts) | AssistantBody(parts=parts) | SystemBody(parts=parts):
            return parts
        case ToolCallBody(call=call):
            return (call,)
        case ToolResultBody(result=result):
            return (result,)
        case CompactionBody():
            return _summary_parts(event.body, reads)
        case _:
            assert_never(event.body)


def _summary_parts(body: CompactionBody, reads: ReadsCompaction) -> tuple[Part, ...]:
    """Return the plain text, then the blocks for those who can read them."""
    is_readable = bool(body.native) and reads(body)
    blocks = told_blocks(body.native, twin=body.summary) if is_readable else ()
    has_text = bool(body.summary.strip()) or not blocks
    return (*((Text(body.summary),) if has_text else ()), *blocks)


def _covers(
    events: Sequence[SessionEvent], standing: Sequence[SessionEvent | None]
) -> Iterator[ReportEntry]:
    """Yield a row for each summary that stands: what is not sent because of it."""
    for summary, covered in covered_by_each(events, standing):
        messages = len(_group_by_message(covered))
        first, last = covered[0].seq if covered else 0, covered[-1].seq if covered else 0
        tokens = about_tokens(covered)
        places = f"event {first}" if first == last else f"events {first} to {last}"
        yield ReportEntry(
            kind="message",
            id=summary.id,
            decision="kept",
            rule="compaction.covers",
            reason=f"It stands for {messages:,} message{'' if messages == 1 else 's'}, {places}, of "
            f"about {tokens:,} token{'' if tokens == 1 else 's'}."
            if covered
            else "It stands for nothing: the events that it covers are not there.",
        )


def _unread(
    events: Sequence[SessionEvent],
    standing: Iterable[SessionEvent | None],
    reads: ReadsCompaction,
) -> Iterator[ReportEntry]:
    """Yield a row for each compaction whose blocks somebody else can read, unless it is replaced."""
    seqs = [e.seq for e in standing if e is not None and isinstance(e.body, CompactionBody)]
    newest_seq = max(seqs, default=-1)
    for event in events:
        body = event.body
        if not isinstance(body, CompactionBody) or not body.native or reads(body):
            continue
        has_twin = bool(body.summary.strip())
        if event.seq in seqs if has_twin else event.seq > newest_seq:
            yield _unread_row(event, body.made_by, has_twin=has_twin)


def _unsent_fields(standing: Iterable[SessionEvent | None]) -> Iterator[ReportEntry]:
    """Yield a row for each system message that was imported with settings of its own.

    Source:
        types of the anthropic package 2.14, BetaSystemMessageParam (read 2026-11-27): what they do
        depends on what the rest of that request asked for, and is the application's to ask again.
    """
    for event in standing:
        if event is None or not isinstance(event.body, SystemBody):
            continue
        fields = as_object(event.metadata.get("anthropic"))
        unsent = [name for name in _SETTINGS_OF_SYSTEM if fields.get(name) is not None]
        if unsent:
            yield ReportEntry(
                kind="message",
                id=event.id,
                decision="repaired",
                rule="system.fields",
                reason=f"Its text is sent without its {' and '.join(unsent)}.",
            )


def _unread_row(event: SessionEvent, made_by: Provenance | None, *, has_twin: bool) -> ReportEntry:
    maker = "a provider" if made_by is None else f"{made_by.model} ({made_by.provider})"
    decision: Decision = "repaired" if has_twin else "dropped"
    instead = (
        "its plain text is sent instead"
        if has_twin
        else "it has no plain text, so what it covers is sent instead"
    )
    return ReportEntry(
        kind="message",
        id=event.id,
        decision=decision,
        rule="compaction.twin" if has_twin else "compaction.sealed",
        reason=f"The compaction by {maker} cannot be read here; {instead}.",
    )


def _note_of(event: SessionEvent) -> str | None:
    return event.body.note if isinstance(event.body, UserBody | SystemBody) else None


def _kind_of(event: SessionEvent, note: str | None) -> MessageKind:
    if isinstance(event.body, CompactionBody):
        return "summary"
    return "said" if note is None else "note"
