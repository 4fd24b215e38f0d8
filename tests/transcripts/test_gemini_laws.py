"""What holds for any Gemini contents: nothing raises, nothing is lost, writing is reading's inverse."""

from typing import Any, Final, TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler.ports import ReadTranscript
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.codec import dump_event, load_event
from context_assembler.values.native.gemini_parts import read_response, spell_response
from context_assembler.values.parts import Text
from tests.event_strategies import json_values

Spelled: TypeAlias = dict[str, Any]

GEMINI: Final = TRANSCRIPTS["gemini"]
GO: Final[Spelled] = {"role": "user", "parts": [{"text": "go"}]}
PART_KEYS: Final = [
    "text",
    "thought",
    "thoughtSignature",
    "thought_signature",
    "inlineData",
    "file_data",
    "functionCall",
    "functionResponse",
    "executableCode",
    "toolCall",
    "id",
    "name",
    "args",
    "response",
    "parts",
    "mimeType",
    "data",
    "output",
    "error",
]


def content_of(role: Any, parts: Any) -> Spelled:
    return {"role": role, "parts": parts}


def text_of(text: str, extra: Spelled) -> Spelled:
    return {"text": text, **extra}


def call_of(name: str, call_id: str | None) -> Spelled:
    named = {"id": call_id} if call_id else {}
    return {"functionCall": {**named, "name": name, "args": {}}}


def response_of(name: str, output: Any, call_id: str | None) -> Spelled:
    named = {"id": call_id} if call_id else {}
    return {"functionResponse": {**named, "name": name, "response": {"output": output}}}


def has_distinct_ids(parts: list[Spelled]) -> bool:
    ids = [part.get("functionCall", {}).get("id") for part in parts]
    given = [one for one in ids if one is not None]
    return len(set(given)) == len(given)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(PART_KEYS)
    return st.dictionaries(keys, inner, max_size=4) | st.lists(inner, max_size=3)


junk_contents: st.SearchStrategy[Spelled] = st.builds(
    content_of,
    st.sampled_from(["user", "model", "function", "moon", None]),
    st.recursive(json_values, nested, max_leaves=12),
)
texts = st.text(max_size=6)
ids = st.none() | st.sampled_from(["a", "b", "c"])
marks: st.SearchStrategy[Spelled] = st.sampled_from(
    [{}, {"thought": True}, {"thoughtSignature": "c2ln"}]
)
outputs: st.SearchStrategy[Any] = st.one_of(
    texts, st.lists(texts, max_size=3), st.dictionaries(texts, st.integers(), max_size=2)
)
said: st.SearchStrategy[list[Spelled]] = st.lists(
    st.builds(text_of, texts, marks) | st.builds(call_of, st.sampled_from("fg"), ids),
    min_size=1,
    max_size=3,
).filter(has_distinct_ids)
answered: st.SearchStrategy[list[Spelled]] = st.lists(
    st.builds(response_of, st.sampled_from("fgh"), outputs, ids), min_size=1, max_size=3
)
asked: st.SearchStrategy[list[Spelled]] = st.lists(
    st.builds(text_of, texts, st.just({})), min_size=1, max_size=2
)
talks: st.SearchStrategy[list[Spelled]] = st.lists(
    st.one_of(
        st.builds(content_of, st.just("user"), asked),
        st.builds(content_of, st.just("user"), answered),
        st.builds(content_of, st.just("model"), said),
    ),
    max_size=6,
)


def read(contents: list[Spelled]) -> ReadTranscript:
    return GEMINI.read({"contents": [GO, *contents]})


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(contents=st.lists(junk_contents, max_size=4))
def test_any_contents_are_read_or_reported_and_can_be_stored(contents: list[Spelled]) -> None:
    found = read(contents)

    assert all(load_event(dump_event(event), where="it") == event for event in found.events)
    assert isinstance(GEMINI.write(found.events), str)
    assert len(found.events) + len(found.issues) > len(contents)


@settings(max_examples=150, deadline=None)
@given(contents=talks)
def test_what_is_written_reads_as_the_same(contents: list[Spelled]) -> None:
    events = read(contents).events

    text = GEMINI.write(events)

    again = GEMINI.read(text).events
    assert [event.body for event in again] == [event.body for event in events]
    assert GEMINI.write(again) == text


@given(given=st.lists(texts, max_size=3), is_error=st.booleans())
def test_texts_of_a_response_read_as_they_were_spelled(given: list[str], is_error: bool) -> None:
    content, was_error = read_response(spell_response(given, is_error=is_error))

    assert was_error == is_error
    assert content == (tuple(map(Text, given)) if given != [""] else ())
