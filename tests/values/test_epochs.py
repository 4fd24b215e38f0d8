"""What stood in front of a conversation is read back from the replies' events alone."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.codec import dump_event, load_event
from context_assembler.values.epochs import (
    EPOCH,
    Epoch,
    PromptPiece,
    SentEpoch,
    epoch_record,
    last_epoch,
)
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    Provenance,
    SessionEvent,
    user_event,
)
from context_assembler.values.fingerprints import digest_json
from context_assembler.values.parts import Text
from context_assembler.values.prompt import PromptSection
from context_assembler.values.tools import ToolSpec

MADE_BY = Provenance(provider="anthropic", model="claude-opus-5-5", prefix_fingerprint="f00d")
AGENT = PromptSection(name="agent", content="Book trips.", priority=1000, is_required=True)
PIECE = PromptPiece(name="agent", path="/app/AGENT.md", source="50", whole="11")
SEARCH = ToolSpec(name="search", input_schema={"type": "object", "properties": {}})


def reply(metadata: Any, *, seq: int = 2, made_by: Provenance | None = MADE_BY) -> SessionEvent:
    body = AssistantBody(parts=(Text("Yes."),), made_by=made_by)
    return SessionEvent(
        body=body, id=f"e{seq}", seq=seq, answers_seq=seq - 1, metadata={EPOCH: metadata}
    )


def record_all(epochs: Sequence[Epoch]) -> list[SessionEvent]:
    """Return the events of calls with these epochs, as a store would give them back."""
    events: list[SessionEvent] = []
    for epoch in epochs:
        record = epoch_record(epoch, before=last_epoch(events))
        event = reply(record, seq=len(events) + 1)
        events.append(load_event(dump_event(event), where="The event"))
    return events


def test_an_epoch_comes_back_with_its_call() -> None:
    epoch = Epoch(
        sections=(AGENT,),
        pieces=(PIECE,),
        cut_for_tokens=4_000,
        tools=(SEARCH,),
        asked="bot",
        told={"AGENT.md": "1"},
    )
    [event] = record_all([epoch])

    assert last_epoch([user_event("hi"), event, user_event("more")]) == SentEpoch(
        epoch=epoch, made_by=MADE_BY, answers_seq=0
    )


def test_a_session_without_records_has_none() -> None:
    assert last_epoch([]) is None
    assert last_epoch([user_event("hi"), SessionEvent(body=AssistantBody(parts=()))]) is None


def test_an_epoch_that_goes_on_keeps_its_id_alone() -> None:
    epoch = Epoch(sections=(AGENT,), tools=(SEARCH,))
    before = SentEpoch(epoch=epoch, made_by=MADE_BY, answers_seq=1)

    assert epoch_record(epoch, before=before).keys() == {"id"}


def test_warnings_that_are_over_are_forgotten() -> None:
    told, untold = Epoch(told={"AGENT.md": "1"}), Epoch()

    sent = last_epoch(record_all([told, untold]))

    assert sent is not None
    assert sent.epoch.told == {}


def test_a_provider_s_compaction_that_nothing_followed_may_bear_the_record() -> None:
    record = epoch_record(Epoch(sections=(AGENT,)), before=None)
    body = CompactionBody(summary="s", first_seq=1, last_seq=1, made_by=MADE_BY)

    sent = last_epoch([SessionEvent(body=body, seq=2, answers_seq=1, metadata={EPOCH: record})])

    assert sent is not None
    assert sent.epoch.sections == (AGENT,)


def test_a_reply_recorded_late_finds_its_epoch_behind_another_one() -> None:
    first, second = Epoch(sections=(AGENT,)), Epoch(tools=(SEARCH,))
    events = record_all([first, second])
    late = epoch_record(first, before=last_epoch(events[:1]))

    sent = last_epoch([*events, reply(late, seq=3)])

    assert sent is not None
    assert sent.epoch.sections == (AGENT,)
    assert sent.epoch.tools == ()


# As the version before pieces wrote it, ids included.
OLD_RECORD: dict[str, Any] = {
    "id": "b0dc",
    "system_id": "5157",
    "tools_id": "7001",
    "asked": "bot",
    "sections": [
        {"name": "agent", "content": "Book trips.", "priority": 1000, "is_required": True}
    ],
    "tools": [],
}


def test_a_record_from_before_pieces_were_kept_is_read_and_gone_on_from() -> None:
    first = Epoch(sections=(AGENT,), asked="bot")

    sent = last_epoch([reply(OLD_RECORD)])

    assert sent is not None
    assert sent.epoch == first


def test_the_id_of_an_epoch_without_pieces_is_that_of_older_versions() -> None:
    record = epoch_record(Epoch(sections=(AGENT,), asked="bot"), before=None)

    assert record["id"] == digest_json([record["system_id"], record["tools_id"], "bot"])
    assert "pieces_id" not in record


def test_pieces_that_cannot_be_found_are_no_epoch() -> None:
    record = epoch_record(Epoch(sections=(AGENT,), pieces=(PIECE,)), before=None)

    assert last_epoch([reply({name: record[name] for name in record if name != "pieces"})]) is None


UNREADABLE: dict[str, Any] = {
    "no object": "x",
    "no id": {"sections": []},
    "an id that is none": {"id": 7},
    "an id that nothing explains": {"id": "x"},
    "no lists": {"id": "x", "system_id": "s", "tools_id": "t", "sections": 1, "tools": []},
    "a section of a newer version": {
        "id": "x",
        "system_id": "s",
        "tools_id": "t",
        "tools": [],
        "sections": [{"name": "a", "content": "b", "colour": "red"}],
    },
}


def test_what_cannot_be_read_is_no_epoch() -> None:
    for record in UNREADABLE.values():
        assert last_epoch([reply(record)]) is None


def test_a_record_on_an_event_that_no_model_made_is_none() -> None:
    record = epoch_record(Epoch(sections=(AGENT,)), before=None)
    forged = SessionEvent(body=user_event("hi").body, metadata={EPOCH: record})

    assert last_epoch([forged]) is None
    assert last_epoch([reply(record, made_by=None)]) is None


def test_tools_that_json_cannot_say_are_not_kept() -> None:
    odd = ToolSpec(name="odd", input_schema={"type": object()})

    assert epoch_record(Epoch(tools=(odd,)), before=None) == {}


contents = st.sampled_from(["", "one", "two", "\ud800"])
sections = st.lists(
    st.builds(PromptSection, name=st.sampled_from("abc"), content=contents), max_size=2
)
pieces = st.lists(
    st.builds(PromptPiece, name=st.sampled_from("abc"), whole=st.sampled_from("12")), max_size=2
)
tools = st.lists(st.builds(ToolSpec, name=st.sampled_from("xyz")), max_size=2)
epochs = st.builds(
    Epoch,
    sections=sections.map(tuple),
    pieces=pieces.map(tuple),
    cut_for_tokens=st.sampled_from([0, 9]),
    tools=tools.map(tuple),
    asked=st.sampled_from(["", "bot"]),
    told=st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2),
)


@given(st.lists(epochs, min_size=1, max_size=6))
def test_the_last_epoch_is_the_last_one_recorded_whatever_came_before(given_: list[Epoch]) -> None:
    sent = last_epoch(record_all(given_))

    assert sent is not None
    assert sent.epoch == given_[-1]
