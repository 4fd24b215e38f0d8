"""The step from a session's events to canonical messages."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias, assert_never

from context_assembler.values.cleaning import clean_text
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
from context_assembler.values.messages import Message, MessageKind, Role
from context_assembler.values.parts import Part, Text

_Group: TypeAlias = list[SessionEvent]  # the events of one message

_ROLES: Final[dict[type, Role]] = {
    UserBody: "user",
    AssistantBody: "assistant",
    ToolCallBody: "assistant",
    ToolResultBody: "tool",
    CompactionBody: "user",
    SystemBody: "system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed:
    """A session as messages, oldest first.

    `leading_system` holds the texts of the system messages that the session begins with: its own
    system prompt, which does not appear among `messages`.
    """

    messages: tuple[Message, ...]
    leading_system: tuple[str, ...] = ()


class MessageTransformer:
    """Turns events into messages; `takes_leading_system` sets the session's own prompt apart."""

    def __init__(self, *, takes_leading_system: bool = True) -> None:
        self._takes_leading_system = takes_leading_system

    def transform(self, events: Iterable[SessionEvent]) -> Transformed:
        """Return the events as messages.

        Events are read in the order of their sequence numbers, those without one last, in the order
        given. What a compaction covers is left out, its summary stands where the first event
        it covers stood. The session's own system prompt is never covered.
        """
        ordered = sorted(events, key=_position)
        lead = _count_leading_system(ordered) if self._takes_leading_system else 0
        texts = [_text_of(event) for event in ordered[:lead]]
        groups = _group_by_message(_apply_compactions(ordered[lead:]))
        return Transformed(
            messages=tuple(_message_of(group) for group in groups),
            leading_system=tuple(text for text in texts if text.strip()),
        )


def _position(event: SessionEvent) -> float:
    return event.seq if event.seq > 0 else float("inf")


def _count_leading_system(events: Sequence[SessionEvent]) -> int:
    for index, event in enumerate(events):
        body = event.body
        if not isinstance(body, SystemBody) or body.note is not None:
            return index
        if not all(isinstance(part, Text) for part in body.parts):
            return index
    return len(events)


def _text_of(event: SessionEvent) -> str:
    return clean_text("\n".join(p.text for p in _parts_of(event) if isinstance(p, Text)))


# ---- compactions ----


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cover:
    """A compaction at `index` and the run of earlier events in its range (`end` excluded).

    `place` is the index of the first event that is really covered.
    """

    index: int
    start: int
    end: int
    place: int
    event: SessionEvent
    excluded_ids: frozenset[str]

    def replaces(self, earlier: "_Cover") -> bool:
        """Whether the earlier compaction's summary has gone into this one.

        It has when this one covers that event, or everything that it covered.
        """
        covers_event = self.start <= earlier.index < self.end
        covers_range = (
            earlier.start < earlier.end and self.start <= earlier.start and earlier.end <= self.end
        )
        return (covers_event or covers_range) and earlier.event.id not in self.excluded_ids


def _apply_compactions(events: Sequence[SessionEvent]) -> list[SessionEvent | None]:
    """Return the events that still stand; `None` where some were left out.

    A summary stands at the place of the first event that it stands for.
    """
    covers = _find_covers(events)
    if not covers:
        return list(events)
    summaries = _place_summaries(covers)
    depths = _count_covers(events, covers)
    standing: list[SessionEvent | None] = []
    for index, event in enumerate(events):
        standing += summaries.get(index, ())
        if isinstance(event.body, CompactionBody):
            continue
        standing.append(None if depths[index] else event)
    return standing


def _find_covers(events: Sequence[SessionEvent]) -> list[_Cover]:
    positions = [_position(event) for event in events]
    covers: list[_Cover] = []
    for index, event in enumerate(events):
        if isinstance(body := event.body, CompactionBody):
            start = bisect_left(positions, body.first_seq)
            end = min(bisect_right(positions, body.last_seq), index)
            excluded_ids = frozenset(body.excluded_ids)
            covered = (i for i in range(start, end) if events[i].id not in excluded_ids)
            place = next(covered, index)
            covers.append(
                _Cover(
                    index=index,
                    start=start,
                    end=max(start, end),
                    place=place,
                    event=event,
                    excluded_ids=excluded_ids,
                )
            )
    return covers


def _place_summaries(covers: Sequence[_Cover]) -> dict[int, list[SessionEvent]]:
    """Return the summaries that still stand, by the index of the event they stand before."""
    places: list[int] = []
    replaced: set[int] = set()
    for number, cover in enumerate(covers):
        gone = [k for k in range(number) if cover.replaces(covers[k])]
        replaced.update(gone)
        places.append(min([cover.place, *(places[k] for k in gone)]))
    by_index: dict[int, list[SessionEvent]] = {}
    for number, cover in enumerate(covers):
        if number not in replaced:
            by_index.setdefault(places[number], []).append(cover.event)
    return by_index


def _count_covers(events: Sequence[SessionEvent], covers: Sequence[_Cover]) -> list[int]:
    """Return for each event how many compactions cover it."""
    steps = [0] * (len(events) + 1)
    spared = [0] * len(events)
    index_by_id = {event.id: index for index, event in enumerate(events) if event.id}
    for cover in covers:
        steps[cover.start] += 1
        steps[cover.end] -= 1
        for event_id in cover.excluded_ids:
            index = index_by_id.get(event_id, -1)
            if cover.start <= index < cover.end:
                spared[index] += 1
    depths = accumulate(steps[:-1])
    return [depth - free for depth, free in zip(depths, spared, strict=True)]


# ---- messages ----


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
        if isinstance(event.body, AssistantBody | ToolCallBody) and event.body.made_by:
            return event.body.made_by
    return None


def _message_of(group: _Group) -> Message:
    first = group[0]
    return Message(
        role=_ROLES[type(first.body)],
        parts=tuple(part for event in group for part in _parts_of(event)),
        kind=_kind_of(first),
        id=first.id,
        seq=first.seq,
        created_at=first.created_at,
        made_by=_provenance_of(group),
        origin=first.origin,
        is_pinned=any(event.is_pinned for event in group),
        note=_note_of(first),
    )


def _parts_of(event: SessionEvent) -> tuple[Part, ...]:
    match event.body:
        case UserBody(parts=parts) | AssistantBody(parts=parts) | SystemBody(parts=parts):
            return parts
        case ToolCallBody(call=call):
            return (call,)
        case ToolResultBody(result=result):
            return (result,)
        case CompactionBody(summary=summary):
            return (Text(summary),)
        case _:
            assert_never(event.body)


def _note_of(event: SessionEvent) -> str | None:
    return event.body.note if isinstance(event.body, UserBody | SystemBody) else None


def _kind_of(event: SessionEvent) -> MessageKind:
    if isinstance(event.body, CompactionBody):
        return "summary"
    return "said" if _note_of(event) is None else "note"
