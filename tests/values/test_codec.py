"""Values survive the way to JSON and back."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given

from context_assembler.errors import EventFormatError
from context_assembler.values.codec import (
    FORMAT_VERSION,
    decode_event,
    decode_session,
    dump_event,
    dump_json,
    dump_session,
    encode_event,
    encode_session,
    load_event,
    load_json,
    load_session,
    to_json,
)
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    Session,
    SessionEvent,
    UserBody,
    user_event,
)
from context_assembler.values.ledger import Ledger, LedgerRow
from context_assembler.values.messages import Message
from context_assembler.values.parts import Base64Source, Image, Json, Text, ToolCall
from context_assembler.values.report import CompactionCheck, Report, ResolvedParameter, Violation
from tests.event_strategies import events, json_values, sessions

AT = datetime(2026, 5, 4, tzinfo=UTC)


@given(event=events)
def test_an_event_comes_back_as_it_was(event: SessionEvent) -> None:
    assert decode_event(encode_event(event), where="it") == event


@given(event=events)
def test_an_event_comes_back_from_bytes_as_it_was(event: SessionEvent) -> None:
    assert load_event(dump_event(event), where="it") == event


@given(session=sessions)
def test_a_session_comes_back_as_it_was(session: Session) -> None:
    assert decode_session(encode_session(session), where="it") == session
    assert load_session(dump_session(session), where="it") == session


@given(value=json_values)
def test_json_comes_back_from_bytes_with_its_types(value: Json) -> None:
    assert repr(load_json(dump_json(value))) == repr(value)


@given(event=events)
def test_the_encoded_form_is_plain_json(event: SessionEvent) -> None:
    assert json.loads(json.dumps(encode_event(event), allow_nan=False)) is not None


def test_surrogates_that_look_like_a_pair_stay_two() -> None:
    event = user_event("\ud83d" + "\ude00")

    body = load_event(dump_event(event), where="it").body

    assert isinstance(body, UserBody)
    assert len(body.parts[0].text) == 2 if isinstance(body.parts[0], Text) else False


def test_integers_over_64_bits_stay_integers() -> None:
    event = user_event("hi")
    event = replace(event, metadata={"n": 2**64, "deep": [[-(2**80)]]})

    assert load_event(dump_event(event), where="it").metadata == {"n": 2**64, "deep": [[-(2**80)]]}


def test_ordinary_events_are_compact_utf8_that_any_json_parser_reads() -> None:
    dumped = dump_event(user_event("今天"))

    assert dumped == (
        b'{"version":1,"body":{"kind":"user","parts":[{"kind":"text","text":"'
        + "今天".encode()
        + b'"}]}}'
    )


def test_read_only_mappings_and_tuples_are_encoded_as_objects_and_lists() -> None:
    arguments = MappingProxyType({"to": ("Graz", MappingProxyType({"x": 1.5}))})
    event = SessionEvent(
        body=AssistantBody(parts=(ToolCall(call_id="c", name="n", arguments=arguments),))
    )

    encoded = encode_event(event)

    assert encoded["body"]["parts"][0]["arguments"] == {"to": ["Graz", {"x": 1.5}]}


GOOD: dict[str, Any] = {
    "version": 1,
    "body": {"kind": "user", "parts": [{"kind": "text", "text": "hi"}]},
}
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no version": ({"body": GOOD["body"]}, "None is not a format version"),
    "a version that is no number": ({**GOOD, "version": "1"}, "is not a format version"),
    "a version that is a truth value": ({**GOOD, "version": True}, "is not a format version"),
    "version zero": ({**GOOD, "version": 0}, "is not a format version"),
    "a newer version": ({**GOOD, "version": FORMAT_VERSION + 1}, "format version 2"),
    "an unknown event type": (
        {"version": 1, "body": {"kind": "thought"}},
        "body.kind: unknown kind 'thought', known are assistant, compaction",
    ),
    "an unknown part": (
        {"version": 1, "body": {"kind": "user", "parts": [{"kind": "hologram"}]}},
        r"body.parts\[0\].kind: unknown kind 'hologram'",
    ),
    "a part without its tag": (
        {"version": 1, "body": {"kind": "user", "parts": [{"text": "hi"}]}},
        r"body.parts\[0\].kind: unknown kind None",
    ),
    "a missing body": ({"version": 1}, "body: missing"),
    "a body that is no object": ({"version": 1, "body": []}, "body: not an object"),
    "a missing field": ({"version": 1, "body": {"kind": "user"}}, "body.parts: missing"),
    "parts that are no list": (
        {"version": 1, "body": {"kind": "user", "parts": "hi"}},
        "body.parts: not a list",
    ),
    "a wrong type": ({**GOOD, "seq": "4"}, "seq: '4' is not of type int"),
    "a truth value for a number": ({**GOOD, "seq": True}, "seq: True is not of type int"),
    "an unknown field": ({**GOOD, "colour": 1}, "colour: unknown field"),
    "an origin that does not exist": ({**GOOD, "origin": "moon"}, "origin: 'moon' is none of"),
    "a time that is none": ({**GOOD, "created_at": "soon"}, "created_at: 'soon' is not an ISO"),
    "a time that is a number": ({**GOOD, "created_at": 5}, "created_at: 5 is not an ISO"),
    "metadata that is a list": ({**GOOD, "metadata": []}, "metadata: not an object"),
}


@pytest.mark.parametrize(("encoded", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_damaged_record_says_where_and_why(encoded: dict[str, Any], reason: str) -> None:
    with pytest.raises(EventFormatError, match=reason) as caught:
        decode_event(encoded, where="event 7 of 'trip'")

    assert caught.value.where == "event 7 of 'trip'"


def test_a_newer_record_asks_for_an_upgrade() -> None:
    with pytest.raises(EventFormatError) as caught:
        decode_session({"version": 9, "id": "s"}, where="it")

    assert "pip install --upgrade" in caught.value.remedy


def test_a_damaged_session_record_is_refused() -> None:
    with pytest.raises(EventFormatError, match="id: missing"):
        decode_session({"version": 1}, where="it")


NOT_RECORDS = {
    "no json": (b"{", "not JSON"),
    "cut off": (dump_event(user_event("hi"))[:-1], "not JSON"),
    "cut off in the long form": (dump_event(user_event("\ud800"))[:-1], "not JSON"),
    "a list": (b"[]", "not a JSON object"),
    "nothing": (b"", "not JSON"),
    "nested without end": (b" " + b"[" * 200_000, "nested too deeply"),
}


@pytest.mark.parametrize(("dumped", "reason"), NOT_RECORDS.values(), ids=NOT_RECORDS.keys())
def test_bytes_that_are_no_record_are_refused(dumped: bytes, reason: str) -> None:
    with pytest.raises(EventFormatError, match=reason):
        load_event(dumped, where="it")


NOT_JSON: dict[str, tuple[Any, str]] = {
    "a number without end": (float("inf"), "metadata: float inf is not JSON"),
    "not a number": ([float("nan")], "metadata: float nan is not JSON"),
    "bytes": (b"x", "metadata: bytes b'x' is not JSON"),
    "a set": ({1}, r"metadata: set \{1\} is not JSON"),
    "a key that is no text": ({1: 2}, "metadata: the key 1 is not text"),
}


@pytest.mark.parametrize(("value", "reason"), NOT_JSON.values(), ids=NOT_JSON.keys())
def test_what_json_cannot_say_is_refused_before_it_is_stored(value: Any, reason: str) -> None:
    event = replace(user_event("hi"), metadata={"x": value})

    with pytest.raises(EventFormatError, match=reason):
        encode_event(event)
    with pytest.raises(EventFormatError, match="defaults"):
        encode_session(Session(id="s", defaults={"x": value}))


def test_deep_nesting_is_kept_as_far_as_python_follows_and_refused_beyond() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    endless: list[Any] = []
    for _ in range(100_000):
        endless = [endless]

    assert load_json(dump_json(deep)) == deep
    with pytest.raises(EventFormatError, match="nested too deeply"):
        dump_json(endless)
    with pytest.raises(EventFormatError, match="nested too deeply"):
        encode_event(replace(user_event("hi"), metadata={"x": endless}))


def test_our_values_have_a_plain_json_form() -> None:
    ledger = Ledger(
        window_tokens=100,
        reserve_tokens=20,
        budget_tokens=80,
        rows=(LedgerRow(kind="history", name="history", tokens=5),),
    )
    report = Report(
        ledger=ledger,
        parameters=(ResolvedParameter(name="temperature", value=0.5, layer="agent"),),
        timings_ms=MappingProxyType({"all": 1.5}),
    )

    shown = to_json(report)

    assert json.loads(json.dumps(shown)) == shown
    assert shown["ledger"]["rows"] == [{"kind": "history", "name": "history", "tokens": 5}]
    assert shown["timings_ms"] == {"all": 1.5}


def test_parts_sources_and_bodies_carry_their_kind() -> None:
    picture = Image(source=Base64Source(media_type="image/png", data="AA=="))
    message = Message(role="user", parts=(Text("look"), picture), created_at=datetime.now(UTC))

    shown = to_json(message)

    assert [part["kind"] for part in shown["parts"]] == ["text", "image"]
    assert shown["parts"][1]["source"]["kind"] == "base64"
    assert to_json(CompactionBody(summary="s", first_seq=1, last_seq=2))["kind"] == "compaction"
    assert shown["kind"] == "said"


def test_checks_and_violations_have_a_plain_json_form() -> None:
    check = CompactionCheck(
        needed=False,
        reason=None,
        current_tokens=1,
        threshold=2,
        feasible=True,
        floor_tokens=0,
        details={"share": float("inf"), "on": date(2026, 1, 2), "of": (1, 2)},
    )

    assert to_json(check)["details"] == {"share": "inf", "on": "2026-01-02", "of": [1, 2]}
    assert to_json([Violation(rule="A1", level="avoid", where="x", message="m", source="s")]) == [
        {"rule": "A1", "level": "avoid", "where": "x", "message": "m", "source": "s"}
    ]


@pytest.mark.parametrize(
    "value", [object(), {1}, Text, print], ids=["object", "set", "class", "function"]
)
def test_what_is_no_value_of_ours_has_no_json_form(value: object) -> None:
    with pytest.raises(TypeError, match="has no JSON form"):
        to_json(value)


REFUSED_TO_STORE: dict[str, tuple[SessionEvent, str]] = {
    "an overlong integer": (
        replace(user_event("hi"), metadata={"n": [10**5_000]}),
        "metadata: an integer has more than 4300 digits",
    ),
    "an overlong number": (replace(user_event("hi"), seq=10**5_000), "seq: an integer has more"),
    "infinity": (replace(user_event("hi"), metadata={"n": float("inf")}), "metadata: float inf"),
    "parts that are plain text": (
        SessionEvent(body=UserBody(parts=("hi",))),  # type: ignore[arg-type]
        r"body.parts\[0\]: 'hi' is of no known kind; known are",
    ),
    "parts that are no sequence": (
        SessionEvent(body=UserBody(parts=5)),  # type: ignore[arg-type]
        "body.parts: 5 is no sequence",
    ),
    "a body that is text": (
        SessionEvent(body="hi"),  # type: ignore[arg-type]
        "body: 'hi' is of no known kind",
    ),
    "a maker that is a dict": (
        SessionEvent(body=AssistantBody(parts=(), made_by={"provider": "x"})),  # type: ignore[arg-type]
        "body.made_by: {'provider': 'x'} is not of type Provenance",
    ),
    "metadata that is a list": (
        replace(user_event("hi"), metadata=[1]),  # type: ignore[arg-type]
        "metadata: not an object",
    ),
    "a time that is text": (
        replace(user_event("hi"), created_at="now"),  # type: ignore[arg-type]
        "created_at: 'now' is not a datetime",
    ),
}


@pytest.mark.parametrize(
    ("event", "reason"), REFUSED_TO_STORE.values(), ids=REFUSED_TO_STORE.keys()
)
def test_what_cannot_be_stored_says_so_and_where(event: SessionEvent, reason: str) -> None:
    with pytest.raises(EventFormatError, match=f"^The third event cannot be stored: {reason}"):
        dump_event(event, where="The third event")


def test_a_value_with_an_overlong_integer_cannot_be_dumped() -> None:
    with pytest.raises(EventFormatError, match="The value cannot be stored: Exceeds the limit"):
        dump_json([10**5_000])


SESSION_RECORDS: dict[str, tuple[Session, str]] = {
    "defaults with a set": (
        Session(id="trip", defaults={"tools": {"b", "a"}}),
        "defaults: set {'a', 'b'} is not JSON",
    ),
    "defaults that are a list": (
        Session(id="trip", defaults=["a"]),  # type: ignore[arg-type]
        "defaults: not an object",
    ),
    "metadata with an object of the caller's": (
        Session(id="trip", metadata={"at": AT}),
        "metadata: datetime ",
    ),
    "an agent that is a number": (
        Session(id="trip", agent_id=7),  # type: ignore[arg-type]
        "agent_id: 7 is not of type str",
    ),
}


@pytest.mark.parametrize(
    ("session", "reason"), SESSION_RECORDS.values(), ids=SESSION_RECORDS.keys()
)
def test_a_session_that_cannot_be_stored_says_which_and_why(session: Session, reason: str) -> None:
    with pytest.raises(
        EventFormatError, match=f"^The record of session 'trip' cannot be stored: {reason}"
    ):
        dump_session(session)
