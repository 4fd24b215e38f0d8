"""Transcripts in which one value is of another kind than its format says."""

import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from context_assembler.errors import TranscriptError
from context_assembler.transcripts import TRANSCRIPTS, read_sessions
from context_assembler.values.events import (
    AssistantBody,
    SessionEvent,
    SystemBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Text, Thinking, ToolCall, ToolResult

SESSION = (
    SessionEvent(body=SystemBody(parts=(Text("Be brief."),)), id="1", origin="developer"),
    SessionEvent(body=UserBody(parts=(Text("Look it up."), Text("Now."))), id="2"),
    SessionEvent(
        body=AssistantBody(
            parts=(
                Thinking(text="So.", provider="anthropic"),
                Text("I look."),
                ToolCall(call_id="c", name="look", arguments={"q": "a"}),
            )
        ),
        id="3",
        origin="model",
    ),
    SessionEvent(
        body=ToolResultBody(result=ToolResult(call_id="c", content=(Text("found"),))),
        id="4",
        origin="tool",
    ),
)


@pytest.mark.parametrize("kind", [{"a": 1}, ["a"], 7, None], ids=str)
@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_value_of_another_kind_is_read_or_refused_in_words(name: str, kind: Any) -> None:
    whole = _parsed(TRANSCRIPTS[name].write(SESSION))
    places = list(_places(whole, ()))
    assert len(places) > 10

    for place in places:
        for format_name in (name, None):
            try:
                sessions = read_sessions(_replaced(whole, place, kind), format=format_name)
            except TranscriptError:
                continue
            assert all(transcript.events for _, transcript in sessions), place


def _parsed(text: str) -> Any:
    """Return a document, or JSON Lines as a list."""
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def _places(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    inner: Iterable[tuple[Any, Any]] = ()
    if is_object(value):
        inner = value.items()
    elif is_array(value):
        inner = enumerate(value)
    for key, held in inner:
        yield (*place, key)
        yield from _places(held, (*place, key))


def _replaced(whole: Any, place: tuple[Any, ...], value: Any) -> Any:
    *path, last = place
    copy = holder = deepcopy(whole)
    for key in path:
        holder = holder[key]
    holder[last] = value
    return copy
