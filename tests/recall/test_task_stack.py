"""Goals within goals, and how they are written."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.errors import (
    ConfigurationError,
    InvalidParameterError,
    MemoryFormatError,
)
from context_assembler.memory_assembler.stack_files import load_stack, save_stack
from context_assembler.recall.task_path import write_task_path
from context_assembler.values.task_stack import MAX_DEPTH, TaskFrame, TaskStack

DEEP = (
    TaskStack()
    .push("Ship the parser")
    .push("Write tests")
    .pop("40 tests")
    .push("Measure")
    .push("Find a corpus")
    .pop("none", failed=True)
    .push("Make a corpus")
)


def count_words(text: str) -> int:
    return len(text.split())


def test_the_path_leads_from_the_first_goal_to_the_current_one() -> None:
    assert [frame.goal for frame in DEEP.path] == ["Ship the parser", "Measure", "Make a corpus"]
    assert DEEP.current == DEEP.path[-1]


def test_a_closed_goal_keeps_its_result() -> None:
    closed = {frame.goal: (frame.state, frame.result) for frame in DEEP.frames if frame.result}

    assert closed == {"Write tests": ("done", "40 tests"), "Find a corpus": ("failed", "none")}


def test_what_was_finished_nearby_is_known() -> None:
    assert [frame.goal for frame in DEEP.finished_siblings] == ["Find a corpus"]
    assert [frame.goal for frame in DEEP.pop().finished_siblings] == [
        "Write tests",
        "Find a corpus",
        "Make a corpus",
    ]
    assert [f.goal for f in DEEP.pop().pop().finished_siblings] == ["Write tests", "Measure"]
    assert [f.goal for f in DEEP.pop().pop().pop().finished_siblings] == ["Ship the parser"]


def test_an_empty_stack_has_nothing_to_close() -> None:
    assert TaskStack().current is None
    with pytest.raises(InvalidParameterError, match="needs an open goal"):
        TaskStack().pop()


def test_a_goal_says_something_and_lies_not_too_deep() -> None:
    deepest = TaskStack()
    for number in range(MAX_DEPTH):
        deepest = deepest.push(f"goal {number}")

    with pytest.raises(InvalidParameterError, match="deeper"):
        deepest.push("one more")
    with pytest.raises(InvalidParameterError, match="say something"):
        TaskStack().push(" ")


def test_open_goals_are_one_path() -> None:
    with pytest.raises(InvalidParameterError, match="one path"):
        TaskStack(frames=(TaskFrame(number=0, goal="a"), TaskFrame(number=1, goal="b")))


steps = st.lists(st.text(min_size=1).filter(str.strip) | st.none(), max_size=20)


@given(steps)
def test_a_stack_is_the_same_after_it_was_kept(moves: list[str | None]) -> None:
    stack = TaskStack()
    for move in moves:
        if move is not None:
            stack = stack.push(move)
        elif stack.current is not None:
            stack = stack.pop("done")

    assert TaskStack.load(stack.dump()) == stack


FRAME = {"number": 0, "goal": "a", "parent": None, "state": "open", "result": None}
DAMAGED = {
    "no JSON": ("{", "not JSON"),
    "no object": ("[]", "no frames"),
    "no frames": ('{"version": 1}', "no frames"),
    "another version": ('{"version": 9, "frames": []}', "version is 9"),
    "another field": (json.dumps({"version": 1, "frames": [{"goal": "a"}]}), "other fields"),
    "a wrong type": (json.dumps({"version": 1, "frames": [{**FRAME, "goal": 1}]}), "wrong type"),
    "no path": (json.dumps({"version": 1, "frames": [{**FRAME, "number": 3}]}), "one path"),
}


@pytest.mark.parametrize(("dumped", "reason"), DAMAGED.values(), ids=DAMAGED.keys())
def test_what_is_no_stack_is_refused(dumped: str, reason: str) -> None:
    with pytest.raises(MemoryFormatError, match=reason):
        TaskStack.load(dumped)


def test_the_way_is_written_with_its_results() -> None:
    path = write_task_path(DEEP, max_tokens=1_000, count_text=count_words)

    assert path.markdown == (
        "## Root goal\n\n- Ship the parser\n\n"
        "## Path\n\n- Measure\n- Make a corpus\n\n"
        "## Finished nearby\n\n- Find a corpus – failed: none\n"
    )
    assert path.left_out == 0


def test_the_nearest_goals_come_first_where_room_is_short() -> None:
    stack = TaskStack().push("root")
    for number in range(30):
        stack = stack.push(f"goal number {number}")

    path = write_task_path(stack, max_tokens=200, count_text=count_words)

    assert path.left_out > 0
    assert "goal number 29" in path.markdown
    assert "goal number 0" not in path.markdown


def test_a_long_goal_is_cut_to_its_share() -> None:
    path = write_task_path(TaskStack().push("word " * 500), max_tokens=400, count_text=count_words)

    assert path.token_count <= 20
    assert "[…]" in path.markdown


def test_nothing_is_written_of_nothing() -> None:
    path = write_task_path(TaskStack(), max_tokens=100, count_text=count_words)

    assert (path.markdown, path.token_count) == ("", 0)


def test_a_stack_is_kept_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "stack.json"

    assert load_stack(path) == TaskStack()
    save_stack(DEEP, path)

    assert load_stack(path) == DEEP
    assert [found.name for found in tmp_path.iterdir()] == ["stack.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99, "frames": []}', "\0"])
def test_a_file_that_holds_no_stack_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stack.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(MemoryFormatError, match="move this one away") as caught:
        load_stack(path)

    assert repr(str(path)) in str(caught.value)
    assert "TaskStack.dump" not in str(caught.value)


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_stack(tmp_path)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        save_stack(DEEP, tmp_path / "no" / "stack.json")
