"""Writing: what is exported is read again as it was, and is what its provider takes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler import (
    Base64Source,
    Image,
    SessionEvent,
    Text,
    Thinking,
    ToolCall,
    assistant_event,
    system_event,
    tool_result_event,
    user_event,
)
from context_assembler.events import Usage
from context_assembler.transcripts import FORMATS, read_transcript, write_transcript
from tests.transcripts.shapes import PIXEL

WRITTEN = [name for name, known in FORMATS.items() if known.write]
every_format = pytest.mark.parametrize("name", WRITTEN)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
values = st.one_of(st.none(), st.booleans(), st.integers(-99, 99), texts, st.lists(texts))
image = Image(source=Base64Source(media_type="image/png", data=PIXEL))
said = st.lists(st.one_of(st.builds(Text, texts), st.just(image)), min_size=1, max_size=3)


@st.composite
def exchanges(draw: st.DrawFn) -> list[SessionEvent]:
    """Draw a message of the user, and a reply with its calls and their results."""
    count = draw(st.integers(0, 3))
    ids = draw(st.lists(st.from_regex(r"[a-z]{9}", fullmatch=True), min_size=3, unique=True))
    arguments = st.dictionaries(texts, values, max_size=3)
    calls = [ToolCall(call_id=ids[n], name="look", arguments=draw(arguments)) for n in range(count)]
    thought = Thinking(
        text=draw(texts),
        provider="anthropic",
        block={"type": "thinking", "thinking": draw(texts), "signature": "c2ln"},
    )
    events = [user_event(draw(said))]
    if draw(st.booleans()):
        events.append(system_event(draw(texts)))
    events.append(assistant_event([*draw(st.just([thought]) | st.just([])), Text("So."), *calls]))
    results = [
        tool_result_event(one.call_id, draw(texts), is_error=draw(st.booleans())) for one in calls
    ]
    return [*events, *results]


sessions = st.lists(exchanges(), min_size=1, max_size=3).map(
    lambda turns: [event for turn in turns for event in turn]
)


@every_format
@settings(max_examples=30)
@given(events=sessions)
def test_what_is_written_is_recognised_and_written_again_alike(
    name: str, events: list[SessionEvent]
) -> None:
    written = write_transcript(events, format=name)

    read = read_transcript(written)

    assert read._replace(format=name) == read_transcript(written, format=name)
    assert write_transcript(read.events, format=name) == written


def test_usage_of_nothing_is_written_and_read() -> None:
    reply = {"role": "assistant", "model": "claude-opus-5-5", "content": [], "usage": {"odd": 1}}
    rows = [{"type": "assistant", "uuid": "a", "sessionId": "s", "message": reply}]

    [event] = read_transcript(rows).events

    assert event.made_by
    assert event.made_by.usage == Usage()
