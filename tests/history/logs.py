"""Hypothesis strategies: sessions as a store holds them, sound ones and broken ones."""

from dataclasses import replace
from itertools import chain
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from context_assembler import Opaque, SessionEvent, Text, Thinking, ToolCall
from context_assembler.events import Covers, Provenance
from tests.history.talk import block, call, result

texts = st.sampled_from(["look", "a longer text, of several words", "héllo 😀", "1\n2\n3"])
any_texts = st.one_of(texts, st.sampled_from(["", " \n", "a\0b", "\ud800x"]))
ids = st.sampled_from(["a", "b", "c", "a\0"])
makers = st.sampled_from(
    [None, *(Provenance(provider="anthropic", model="m", response_id=name) for name in "rs")]
)


def numbered(events: list[SessionEvent]) -> list[SessionEvent]:
    """Return the events as a store numbers them."""
    return [replace(event, id=f"e{n}", seq=n) for n, event in enumerate(events, 1)]


def _call(call_id: str, text: str) -> ToolCall:
    return call(call_id, arguments={"at": text})


def _results(calls: list[ToolCall], text: str) -> list[SessionEvent]:
    return [
        SessionEvent(type="tool_result", parts=(result(one.call_id, text),), origin="tool")
        for one in calls
    ]


@st.composite
def _sound_turn(draw: DrawFn) -> list[SessionEvent]:
    turn = [SessionEvent(type="user", parts=(Text(draw(texts)),))]
    for step in range(draw(st.integers(0, 3))):
        calls = [_call(f"{step}{n}", draw(texts)) for n in range(draw(st.integers(1, 3)))]
        reply = SessionEvent(type="assistant", parts=(Text(draw(texts)), *calls), origin="model")
        turn += [reply, *_results(calls, draw(texts))]
    if draw(st.booleans()):
        turn.append(SessionEvent(type="system", parts=(Text(draw(texts)),), note="reminder"))
    turn.append(SessionEvent(type="assistant", parts=(Text(draw(texts)),), origin="model"))
    return turn


sound_logs: SearchStrategy[list[SessionEvent]] = st.lists(
    _sound_turn(), min_size=1, max_size=4
).map(lambda ts: numbered([*chain(*ts)]))
"""Sessions that need no repair: from the user, paired, nothing blank."""


def _blocks(kind: str, key: str, **fields: Any) -> SearchStrategy[Opaque]:
    return ids.map(
        lambda name: block("anthropic", type=kind, **{key: f"srvtoolu_{name}"}, **fields)
    )


_parts: SearchStrategy[tuple[Any, ...]] = st.lists(
    st.one_of(
        st.builds(Text, any_texts),
        st.builds(Text, any_texts),
        st.builds(_call, ids, any_texts),
        st.builds(result, ids, any_texts),
        st.builds(Thinking, text=any_texts),
        _blocks("server_tool_use", "id", name="web_search", input={}),
        _blocks("web_search_tool_result", "tool_use_id", content=[]),
    ),
    max_size=3,
).map(tuple)
_any_event: SearchStrategy[SessionEvent] = st.one_of(
    st.builds(SessionEvent, type=st.sampled_from(["user", "user", "system"]), parts=_parts),
    st.builds(SessionEvent, type=st.just("assistant"), parts=_parts, made_by=makers),
    st.builds(
        SessionEvent,
        type=st.just("tool_call"),
        parts=st.builds(_call, ids, texts).map(lambda c: (c,)),
    ),
    st.builds(
        SessionEvent,
        type=st.just("tool_result"),
        parts=st.builds(result, ids, any_texts).map(lambda r: (r,)),
        origin=st.just("tool"),
    ),
    st.builds(
        SessionEvent,
        type=st.just("system"),
        parts=any_texts.map(lambda text: (Text(text),)),
        note=st.sampled_from(["clock", "reminder", "tools"]),
    ),
    st.builds(
        SessionEvent,
        type=st.just("compaction"),
        parts=texts.map(lambda text: (Text(text),)),
        covers=st.tuples(st.integers(1, 6), st.integers(1, 12)).map(
            lambda span: Covers(first_seq=span[0], last_seq=span[1], excluded_ids=("e2",))
        ),
    ),
)


@st.composite
def _damaged(draw: DrawFn) -> list[SessionEvent]:
    """A sound log with events lost, doubled, moved, or put in."""
    log = draw(sound_logs)
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, max(0, len(log) - 1)))
        match draw(st.sampled_from(["lose", "double", "move", "add"])):
            case "lose":
                del log[at : at + 1]
            case "double":
                log[at:at] = log[at : at + 1]
            case "move":
                log.insert(draw(st.integers(0, len(log))), log.pop(at)) if log else None
            case _:
                log.insert(at, draw(_any_event))
    return log


@st.composite
def _answering(draw: DrawFn, logs: SearchStrategy[list[SessionEvent]]) -> list[SessionEvent]:
    """A log of which some replies answer an earlier moment."""
    backs = st.sampled_from([0] * 9 + [1, 2, 3])
    log = numbered(draw(logs))
    return [
        replace(e, answers_seq=max(0, e.seq - back) if (back := draw(backs)) else 0) for e in log
    ]


broken_logs: SearchStrategy[list[SessionEvent]] = _answering(
    st.one_of(st.lists(_any_event, max_size=10), _damaged(), _damaged())
)
"""Sessions with anything in them, as crashed, merged or imported ones have."""
