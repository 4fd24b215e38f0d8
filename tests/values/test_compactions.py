"""Compactions that a provider wrote: who can read them, and what stands of a session for whom."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from context_assembler.stages.transform_messages import MessageTransformer, Transformed
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.codec import decode_event, encode_event
from context_assembler.values.compactions import (
    compacted_window,
    find_compaction,
    reads_no_compaction,
    twin_of,
)
from context_assembler.values.events import (
    CompactionBody,
    Provenance,
    SessionEvent,
    assistant_event,
    user_event,
)
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import Opaque, Part, Text
from context_assembler.values.readers import Reader

SONNET = ModelLimits(id="claude-sonnet-5", provider="anthropic", window_tokens=1_000_000)
READER = Reader(provider="anthropic", limits=SONNET, account="main")
BLOCK = Opaque(
    provider="anthropic", block={"type": "compaction", "content": "They met.", "signature": "s"}
)
SEALED = Opaque(
    provider="openai_responses", block={"type": "compaction", "id": "c", "encrypted_content": "g"}
)
FAILED = Opaque(provider="anthropic", block={"type": "compaction", "content": None})
MADE_BY = Provenance(provider="anthropic", model="claude-sonnet-5", account="main")


def compaction(
    summary: str = "They met.",
    *native: Opaque,
    last_seq: int = 2,
    made_by: Provenance | None = MADE_BY,
) -> SessionEvent:
    body = CompactionBody(
        summary=summary,
        first_seq=1,
        last_seq=last_seq,
        native=native or (BLOCK,),
        made_by=made_by,
    )
    return SessionEvent(body=body)


def stored(*events: SessionEvent) -> list[SessionEvent]:
    return [replace(event, id=f"e{seq}", seq=seq) for seq, event in enumerate(events, start=1)]


TALK = (user_event("hello"), assistant_event("hi"))


def transform(events: Sequence[SessionEvent], reader: Reader | None = READER) -> Transformed:
    reads = reads_no_compaction if reader is None else reader.reads_compaction
    return MessageTransformer(reads=reads).transform(events)


def rows(transformed: Transformed) -> list[tuple[str, str, str]]:
    """Return what the rows are about, as id, decision and rule."""
    return [(row.id, row.decision, row.rule) for row in transformed.entries]


def texts(events: Sequence[SessionEvent], reader: Reader | None = READER) -> list[str]:
    return [message.text for message in transform(events, reader).messages]


REPLIES: dict[str, tuple[Sequence[Part], tuple[int, int] | None]] = {
    "nothing of the kind": ((Text("hi"),), None),
    "at the head": ((BLOCK, Text("hi")), (0, 1)),
    "alone": ((BLOCK,), (0, 0)),
    "in the middle": ((Text("a"), BLOCK, Text("b"), Text("c")), (1, 2)),
    "the latest of two": ((BLOCK, Text("a"), BLOCK), (2, 0)),
    "a failed one is none": ((FAILED, Text("hi")), None),
    "a sealed one": ((SEALED, Text("hi")), (0, 1)),
    "a sealed one without content is none": (
        (replace(SEALED, block={"type": "compaction", "encrypted_content": ""}),),
        None,
    ),
    "another provider's is none": ((replace(BLOCK, provider="gemini"),), None),
    "a block of another type": ((replace(BLOCK, block={"type": "server_tool_use"}),), None),
}


@pytest.mark.parametrize(("parts", "around"), REPLIES.values(), ids=REPLIES.keys())
def test_a_compaction_is_found_in_a_reply(
    parts: Sequence[Part], around: tuple[int, int] | None
) -> None:
    found = find_compaction(parts)

    assert (None if found is None else (len(found.before), len(found.rest))) == around


def test_only_readable_compactions_have_a_twin_of_their_own() -> None:
    assert twin_of(BLOCK) == "They met."
    assert twin_of(SEALED) == ""


def test_a_compacted_window_is_kept_whole_and_in_order() -> None:
    said: dict[str, Any] = {"type": "message", "role": "user", "content": []}
    body: dict[str, Any] = {"object": "response.compaction", "output": [said, dict(SEALED.block)]}

    window = compacted_window(body, provider="openai_responses")

    assert [part.block["type"] for part in window] == ["message", "compaction"]
    assert compacted_window({"object": "response", "output": []}, provider="x") == ()


OTHERS: dict[str, Reader | None] = {
    "nobody in particular": None,
    "another provider": replace(READER, provider="openai_chat"),
    "another model": replace(READER, limits=replace(SONNET, id="claude-opus-5")),
    "another account": replace(READER, account="other"),
}


def test_who_wrote_a_compaction_gets_its_block() -> None:
    log = stored(*TALK, compaction(), user_event("go on"))

    transformed = transform(log)

    assert transformed.messages[0].parts == (
        Text("They met."),
        replace(BLOCK, text="They met."),
    )
    assert transformed.messages[0].kind == "summary"
    assert transformed.messages[0].made_by == MADE_BY
    assert rows(transformed) == [("e3", "kept", "compaction.covers")]


@pytest.mark.parametrize("reader", OTHERS.values(), ids=OTHERS.keys())
def test_everybody_else_gets_the_plain_text_and_the_report_says_so(reader: Reader | None) -> None:
    log = stored(*TALK, compaction(), user_event("go on"))

    transformed = transform(log, reader)

    assert transformed.messages[0].parts == (Text("They met."),)
    assert rows(transformed) == [
        ("e3", "kept", "compaction.covers"),
        ("e3", "repaired", "compaction.twin"),
    ]
    assert "claude-sonnet-5" in transformed.entries[1].reason


@pytest.mark.parametrize("reader", OTHERS.values(), ids=OTHERS.keys())
def test_without_plain_text_everybody_else_gets_the_whole_history(reader: Reader | None) -> None:
    log = stored(*TALK, compaction(" "), user_event("go on"))

    transformed = transform(log, reader)

    assert texts(log) == ["", "go on"]
    assert [message.text for message in transformed.messages] == ["hello", "hi", "go on"]
    [row] = transformed.entries
    assert (row.id, row.decision, row.rule) == ("e3", "dropped", "compaction.sealed")


def test_a_block_of_unknown_origin_is_read_by_nobody() -> None:
    log = stored(*TALK, compaction("", made_by=None), user_event("go on"))

    assert texts(log) == ["hello", "hi", "go on"]
    assert "a provider" in transform(log).entries[0].reason


def test_a_sealed_compaction_leaves_an_older_summary_standing_for_others() -> None:
    plain = SessionEvent(body=CompactionBody(summary="S", first_seq=1, last_seq=2))
    log = stored(*TALK, plain, user_event("more"), compaction("", last_seq=4), user_event("go on"))

    assert texts(log) == ["", "go on"]
    assert texts(log, None) == ["S", "more", "go on"]


def test_what_a_later_summary_replaced_is_not_reported() -> None:
    later = SessionEvent(body=CompactionBody(summary="All.", first_seq=1, last_seq=4))
    log = stored(*TALK, compaction(), compaction(""), later, user_event("go on"))

    transformed = transform(log, None)

    assert [message.text for message in transformed.messages] == ["All.", "go on"]
    assert rows(transformed) == [("e5", "kept", "compaction.covers")]


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_an_export_without_plain_text_holds_the_whole_history(name: str) -> None:
    transcript = TRANSCRIPTS[name]

    written = transcript.write(stored(*TALK, compaction("", SEALED), user_event("go on")))

    assert [event.text for event in transcript.read(written).events] == ["hello", "hi", "go on"]


def test_rows_of_the_earlier_format_are_read() -> None:
    encoded = {
        "version": 1,
        "body": {"kind": "compaction", "summary": "S", "first_seq": 1, "last_seq": 2},
    }

    event = decode_event(encoded, where="row")

    assert event.body == CompactionBody(summary="S", first_seq=1, last_seq=2)
    assert encode_event(event) == encoded


def test_blocks_and_their_maker_are_stored() -> None:
    event = compaction("", BLOCK, SEALED)

    assert decode_event(encode_event(event), where="row") == event
    assert event.parts == (BLOCK, SEALED)
    assert compaction("S", BLOCK).text == "S"


covers = st.tuples(st.booleans(), st.integers(1, 10), st.integers(1, 10))


@example(log=[(True, 1, 1), (False, 1, 1), (False, 1, 1)])
@given(log=st.lists(st.none() | covers, max_size=10))
@settings(max_examples=100, deadline=None)
def test_sealed_compactions_change_nothing_for_those_who_cannot_read_them(
    log: list[tuple[bool, int, int] | None],
) -> None:
    def event(place: int, cover: tuple[bool, int, int] | None) -> SessionEvent:
        if cover is None:
            return user_event(f"U{place}")
        is_sealed, first, last = cover
        native = (SEALED,) if is_sealed else ()
        summary = "" if is_sealed else f"S{place}"
        body = CompactionBody(summary=summary, first_seq=first, last_seq=last, native=native)
        return SessionEvent(body=body)

    events = stored(*(event(place, cover) for place, cover in enumerate(log)))
    unsealed = [
        e for e in events if not (isinstance(e.body, CompactionBody) and bool(e.body.native))
    ]

    assert sorted(texts(events, None)) == sorted(texts(unsealed, None))
