"""What the parts for tests are given is refused by its name where it cannot be right."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from context_assembler import ToolCall
from context_assembler.errors import InvalidParameterError
from context_assembler.testing import ManualClock, ScriptedError, ScriptedReply, serve_providers
from tests.wrong_types import Call, call_of, find_bare_errors


def _served(*args: Any, **kwargs: Any) -> None:
    with serve_providers(*args, **kwargs) as server:
        assert server.url


CALLS: Mapping[str, Call] = {
    "clock": call_of(ManualClock),
    "advance": call_of(ManualClock().advance, 1.0),
    "reply": call_of(ScriptedReply),
    "error": call_of(ScriptedError),
    "server": Call(function=_served, others=("script", "counter", "today")),
}


@pytest.mark.parametrize("name", CALLS)
async def test_nothing_for_tests_raises_a_bare_error(name: str) -> None:
    found = await find_bare_errors(CALLS[name])
    # That time runs backwards is told by the error that is promised; so is a script without hearers.
    promised = ("ValueError('a clock moves forward only", "AssertionError(")
    assert [one for one in found if not one.startswith(promised)] == []


REFUSED: Mapping[str, tuple[Callable[[], object], str]] = {
    "a clock that is text": (lambda: ManualClock("x"), "seconds must be"),  # type: ignore[arg-type]
    "a clock that shows no number": (lambda: ManualClock(float("nan")), "seconds must be"),
    "a reply of bytes": (lambda: ScriptedReply(text=b"x"), "text must be text"),  # type: ignore[arg-type]
    "calls of text": (lambda: ScriptedReply(tool_calls="x"), "tool_calls must be several"),  # type: ignore[arg-type]
    "an error without an error's status": (lambda: ScriptedError(status=200), "from 400 to 599"),
    "a script of text": (lambda: _served(["Hello."]), "script must be several of: ScriptedReply"),
    "a reply alone": (lambda: _served(ScriptedReply(text="hi")), "script must be several"),
    "a counter that does not count": (lambda: _served(counter=3), "counter must be an object"),
    "a day that is text": (lambda: _served(today="2026-01-01"), "today must be date"),
}


@pytest.mark.parametrize(("make", "complaint"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_named(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(InvalidParameterError, match=complaint):
        make()


def test_calls_may_come_in_a_list() -> None:
    call = ToolCall(call_id="c1", name="look", arguments={})

    assert ScriptedReply(tool_calls=[call]).tool_calls == (call,)  # type: ignore[arg-type]
