"""Hypothesis strategies: conversations and event logs, well-formed ones and broken ones.

Well-formed: `paired_conversations` (what repair hands on), `event_logs` (what a store holds).
Broken: `broken_histories`, `broken_event_logs`: orphans, duplicates, anything reordered or empty,
surrogates, NULs, repeated ids, parts in the wrong role, overlapping compactions.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    EventBody,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.messages import Message, MessageKind
from context_assembler.values.parts import Origin, Part, Text, ToolCall, ToolResult
from tests.damage_strategies import damaged
from tests.part_strategies import (
    clean_arguments,
    clean_result_contents,
    clean_texts,
    dirty_parts,
    dirty_texts,
    documents,
    few_call_ids,
    images,
    opaque_blocks,
    provenances,
    server_tool_blocks,
    signed_thinking,
    tool_calls,
    tool_results,
    unsigned_thinking,
)

START: Final = datetime(2026, 3, 28, 22, 30, tzinfo=UTC)
_RARELY: Final = st.integers(0, 5).map(lambda number: number == 5)

_user_parts: SearchStrategy[tuple[Part, ...]] = st.one_of(
    clean_texts.map(lambda text: (Text(text),)),
    clean_texts.map(lambda text: (Text(text),)),
    st.lists(
        st.one_of(st.builds(Text, clean_texts), images, documents), min_size=1, max_size=3
    ).map(tuple),
)

_moments: SearchStrategy[datetime | None] = st.none() | st.integers(0, 4000).map(
    lambda minutes: START + timedelta(minutes=minutes)
)

# ---- well-formed conversations ----


_thinking: SearchStrategy[tuple[Part, ...]] = st.one_of(
    st.just(()),
    st.just(()),
    signed_thinking.map(lambda part: (part,)),
    unsigned_thinking.map(lambda part: (part,)),
)
_said: SearchStrategy[tuple[Part, ...]] = st.one_of(
    st.just(()),
    clean_texts.map(lambda text: (Text(text),)),
    st.tuples(clean_texts, opaque_blocks).map(lambda pair: (Text(pair[0]), pair[1])),
)


def _clean_call(draw: DrawFn, call_id: str) -> ToolCall:
    arguments = draw(clean_arguments)
    spelled = json.dumps(arguments) if draw(st.booleans()) else None
    name = draw(st.sampled_from(["search_flights", "read_file", "book"]))
    return ToolCall(call_id=call_id, name=name, arguments=arguments, arguments_json=spelled)


def _clean_result(draw: DrawFn, call: ToolCall) -> ToolResult:
    return ToolResult(
        call_id=call.call_id,
        content=draw(clean_result_contents),
        is_error=draw(st.booleans()),
        tool_name=call.name,
    )


@st.composite
def _exchange(draw: DrawFn, number: int) -> list[Message]:
    """An assistant message, the results of its calls, perhaps a note behind them."""
    parts: list[Part] = [*draw(_thinking), *draw(_said)]
    shape = draw(st.sampled_from(["plain", "calls", "calls", "repeated ids", "server tool"]))
    if shape == "server tool":
        parts += server_tool_blocks(number)
    if shape in ("calls", "repeated ids"):
        prefix = f"call_{number}_" if shape == "calls" else "c"
        parts += [_clean_call(draw, f"{prefix}{i}") for i in range(draw(st.integers(1, 3)))]
    made_by = draw(st.none() | provenances)
    reply = Message(
        role="assistant", parts=tuple(parts or [Text("Done.")]), origin="model", made_by=made_by
    )
    if not reply.tool_calls:
        return [reply]
    results = tuple(_clean_result(draw, call) for call in reply.tool_calls)
    exchange = [reply, Message(role="tool", parts=results, origin="tool")]
    if draw(_RARELY):
        exchange.append(_note("reminder", draw(clean_texts)))
    return exchange


def _note(name: str, text: str) -> Message:
    return Message(role="system", parts=(Text(text),), kind="note", note=name, origin="assembler")


@st.composite
def _turn(draw: DrawFn, number: int) -> list[Message]:
    talk = [Message(role="user", parts=draw(_user_parts), is_pinned=draw(_RARELY))]
    if draw(_RARELY):
        talk.append(_note("clock", "Saturday, 2026-03-28 22:30 UTC"))
    for step in range(draw(st.integers(0, 3))):
        talk += draw(_exchange(10 * number + step))
    return talk


def _made(kind: MessageKind, text: str) -> Message:
    note = "continue" if kind == "note" else None
    return Message(role="user", parts=(Text(text),), kind=kind, note=note, origin="assembler")


@st.composite
def _paired_conversation(draw: DrawFn) -> list[Message]:
    talk = [_made("summary", draw(clean_texts))] if draw(_RARELY) else []
    for number in range(draw(st.integers(1, 4))):
        talk += draw(_turn(number))
    if talk[-1].role == "assistant":
        talk.append(_made("note", "Continue."))
    moment = draw(_moments)
    return [
        replace(message, id=f"evt_{seq}", seq=seq, created_at=moment)
        for seq, message in enumerate(talk, start=1)
    ]


paired_conversations: SearchStrategy[list[Message]] = _paired_conversation()
"""Histories that need no repair: from the user, paired, nothing blank, not ending on the assistant."""

# ---- broken conversations ----

_any_message: SearchStrategy[Message] = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "tool", "system"]),
    parts=st.lists(dirty_parts, max_size=4).map(tuple),
    kind=st.sampled_from(["said", "said", "said", "summary", "note", "synthetic"]),
    created_at=_moments,
    made_by=st.none() | provenances,
    is_pinned=st.booleans(),
)


@st.composite
def _damaged_conversation(draw: DrawFn) -> list[Message]:
    """A conversation with damage among its messages and among their parts."""
    talk: list[Message] = []
    for message in draw(damaged(paired_conversations)):
        if draw(st.integers(0, 4)) == 0:
            parts: tuple[Part, ...] = tuple(draw(damaged(st.just(list(message.parts)))))
            talk.append(replace(message, parts=parts))
        else:
            talk.append(message)
    return talk


def _numbered(messages: list[Message]) -> list[Message]:
    return [replace(m, id=f"evt_{seq}", seq=seq) for seq, m in enumerate(messages, start=1)]


broken_histories: SearchStrategy[list[Message]] = st.one_of(
    st.lists(_any_message, max_size=8).map(_numbered),
    _damaged_conversation(),
)
"""Histories as crashed, trimmed, merged or imported sessions have them; repair must cope with all."""

# ---- event logs ----

_ORIGINS: Final[dict[type[EventBody], Origin]] = {
    UserBody: "user",
    AssistantBody: "model",
    ToolCallBody: "model",
    ToolResultBody: "tool",
    CompactionBody: "assembler",
    SystemBody: "developer",
}


def _bodies_of(message: Message) -> list[EventBody]:
    match message.role:
        case "user" if message.kind == "summary":
            return []
        case "user":
            return [UserBody(parts=message.parts, note=message.note)]
        case "assistant":
            return [AssistantBody(parts=message.parts, made_by=message.made_by)]
        case "tool":
            return [ToolResultBody(result=result) for result in message.tool_results]
        case "system":
            return [SystemBody(parts=message.parts, note=message.note)]


def _stored(bodies: list[EventBody]) -> list[SessionEvent]:
    return [
        SessionEvent(
            body=body,
            id=f"evt_{seq}",
            seq=seq,
            created_at=START + timedelta(minutes=7 * seq),
            origin=_ORIGINS[type(body)],
        )
        for seq, body in enumerate(bodies, start=1)
    ]


def _log_calls_apart(body: EventBody) -> list[EventBody]:
    """Return a reply that says something as one event, and each of its calls as another."""
    if not isinstance(body, AssistantBody):
        return [body]
    calls = [part for part in body.parts if isinstance(part, ToolCall)]
    said = tuple(part for part in body.parts if not isinstance(part, ToolCall))
    reply: list[EventBody] = [AssistantBody(parts=said, made_by=body.made_by)] if said else []
    return [*reply, *(ToolCallBody(call=call, made_by=body.made_by) for call in calls)]


@st.composite
def _event_log(draw: DrawFn) -> list[SessionEvent]:
    """A log, of which some beginning may be compacted at the boundary of a turn."""
    spoken = [body for message in draw(paired_conversations) for body in _bodies_of(message)]
    if draw(_RARELY):
        spoken = [part for body in spoken for part in _log_calls_apart(body)]
    turns = [seq for seq, body in enumerate(spoken, start=1) if isinstance(body, UserBody)]
    bodies: list[EventBody] = [SystemBody(parts=(Text("You are a travel agent."),))]
    bodies *= draw(st.integers(0, 1))
    shift = len(bodies)
    bodies += spoken
    if len(turns) > 1 and draw(st.booleans()):
        last = draw(st.sampled_from(turns[1:])) - 1 + shift
        bodies.append(CompactionBody(summary=draw(clean_texts), first_seq=1 + shift, last_seq=last))
    return _stored(bodies)


event_logs: SearchStrategy[list[SessionEvent]] = _event_log()
"""Logs as a store returns them: numbered from 1, in order, paired, perhaps compacted."""

_any_parts: SearchStrategy[tuple[Part, ...]] = st.lists(dirty_parts, max_size=3).map(tuple)
_any_body: SearchStrategy[EventBody] = st.one_of(
    st.builds(UserBody, parts=_any_parts),
    st.builds(AssistantBody, parts=_any_parts, made_by=st.none() | provenances),
    st.builds(ToolCallBody, call=tool_calls(few_call_ids, dirty_texts)),
    st.builds(ToolResultBody, result=tool_results(few_call_ids, dirty_texts)),
    st.builds(
        CompactionBody,
        summary=dirty_texts,
        first_seq=st.integers(-1, 9),
        last_seq=st.integers(-1, 9),
        excluded_ids=st.lists(st.sampled_from(["evt_1", "evt_3", "nobody"]), max_size=2).map(tuple),
    ),
    st.builds(SystemBody, parts=_any_parts, note=st.none() | st.just("clock")),
)


def _unstored(events: list[SessionEvent]) -> list[SessionEvent]:
    return [replace(event, id="", seq=0, created_at=None) for event in events]


broken_event_logs: SearchStrategy[list[SessionEvent]] = st.one_of(
    st.lists(_any_body, max_size=9).map(_stored),
    st.lists(_any_body, max_size=9).map(_stored).map(_unstored),
    damaged(st.lists(_any_body, max_size=9).map(_stored)),
    damaged(event_logs),
)
"""Logs with anything in them: in any order, with gaps, with repeated or missing numbers."""
