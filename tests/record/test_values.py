"""Values of events: they cannot be changed, and equal ones are one."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from context_assembler import SessionEvent, Text, Thinking, ToolCall, UrlSource, user_event
from context_assembler.events import Provenance, Usage, part_from_json, to_json


def test_a_value_cannot_be_changed() -> None:
    event: Any = user_event("Hello.")

    with pytest.raises(AttributeError, match="cannot assign to field 'id'"):
        event.id = "e1"

    assert replace(event, id="e1").id == "e1"
    assert event.id == ""


def test_values_are_equal_if_their_fields_are() -> None:
    assert Text("a") == Text("a")
    assert hash(Text("a")) == hash(Text("a"))
    assert Text("a") not in (Text("b"), Thinking(text="a"), "a")


def pickled(event: SessionEvent) -> SessionEvent:
    read: SessionEvent = pickle.loads(pickle.dumps(event))
    return read


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_is_equal(copied: Callable[[SessionEvent], SessionEvent]) -> None:
    parts = (Text("a"), ToolCall(call_id="c", name="look", arguments={"at": 1}))
    event = replace(user_event("b"), parts=parts)

    assert copied(event) == event


def test_json_has_the_fields_that_hold_something() -> None:
    made_by = Provenance(provider="anthropic", model="m", usage=Usage(input_tokens=3))

    assert to_json(made_by) == {"provider": "anthropic", "model": "m", "usage": {"input_tokens": 3}}
    part: Any = {"type": "image", "source": {"type": "url", "url": "u"}}
    assert to_json(part_from_json(part)) == part
    assert to_json(UrlSource(url="u")) == {"type": "url", "url": "u"}


def test_what_json_cannot_hold_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="function cannot be written as JSON"):
        to_json([test_values_are_equal_if_their_fields_are])
