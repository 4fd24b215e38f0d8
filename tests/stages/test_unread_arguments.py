"""Calls whose arguments are no JSON object are sent without any, and what was written is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.stages.repair_history import repair_history
from context_assembler.values.messages import Message
from context_assembler.values.parts import Json, Part, Text, ToolCall
from tests.providers.drafts import assistant, result, results, user

UNREAD = {
    "cut off": '{"text":"long precious te',
    "no object": "[1]",
    "not a number": '{"x": NaN}',
    "an overlong integer": '{"x": ' + "9" * 5_000 + "}",
    "deep nesting": '{"x": ' + "[" * 900 + "]" * 900 + "}",
    "text within text": '"no object"',
}


def written(call_id: str, spelled: str) -> ToolCall:
    return ToolCall(call_id=call_id, name="write", arguments_json=spelled)


def talk(*calls: Part) -> list[Message]:
    named = [call.call_id for call in calls if isinstance(call, ToolCall)]
    answers = results(*(result(call_id, "bad arguments") for call_id in named))
    return [user("go"), assistant("well", *calls, id="evt_2"), answers, user("and?")]


@pytest.mark.parametrize("spelled", UNREAD.values(), ids=UNREAD.keys())
def test_the_result_tells_what_was_written(spelled: str) -> None:
    repaired = repair_history(talk(written("c1", spelled)))

    [call], [answer] = repaired.messages[1].tool_calls, repaired.messages[2].tool_results
    note, said = answer.content
    assert (call.arguments, call.arguments_json) == ({}, None)
    assert isinstance(note, Text)
    assert note.text.endswith(f"As they were written: {spelled}]")
    assert said == Text("bad arguments")
    [row] = repaired.entries
    assert (row.id, row.decision, row.rule) == ("evt_2", "repaired", "repair.arguments")
    assert "its result tells what they were" in row.reason


READ: dict[str, tuple[str, dict[str, Json]]] = {
    "an object": ('"{\\"path\\": \\"a\\"}"', {"path": "a"}),
    "an empty one": ('"{}"', {}),
}


@pytest.mark.parametrize(("spelled", "arguments"), READ.values(), ids=READ.keys())
def test_json_within_json_is_read(spelled: str, arguments: dict[str, Json]) -> None:
    before = talk(written("c1", spelled))

    repaired = repair_history(before)

    assert repaired.messages[1].tool_calls[0].arguments == arguments
    assert repaired.messages[2] == before[2]
    assert [row.reason for row in repaired.entries] == [
        "The arguments of the call 'c1' were JSON within JSON."
    ]


def test_of_several_calls_each_result_is_told_its_own() -> None:
    fine = ToolCall(call_id="c2", name="read", arguments={"path": "a"})

    repaired = repair_history(talk(written("c1", "{one"), fine, written("c3", "{three")))

    spoken, answers = repaired.messages[1:3]
    assert spoken.tool_calls[1] is fine
    assert ["{one" in answers.tool_results[0].text, "{three" in answers.tool_results[2].text] == [
        True,
        True,
    ]
    assert answers.tool_results[1].text == "bad arguments"


def test_a_call_without_a_result_is_told_as_well() -> None:
    repaired = repair_history([user("go"), assistant(written("c1", "{cut")), user("and?")])

    assert "{cut" in repaired.messages[2].tool_results[0].text
    assert sorted(row.rule for row in repaired.entries) == [
        "repair.arguments",
        "repair.missing_result",
    ]


def test_two_unread_calls_of_one_id_are_two() -> None:
    both = [user("go"), assistant(written("c1", "{one"), written("c1", "{two")), user("and?")]

    repaired = repair_history(both)

    assert [call.call_id for call in repaired.messages[1].tool_calls] == ["c1", "c1_2"]
    assert ["{one" in repaired.messages[2].tool_results[0].text] == [True]


@given(spelled=st.text(max_size=12) | st.sampled_from(list(UNREAD.values())))
def test_repairing_twice_changes_nothing_more(spelled: str) -> None:
    once = repair_history(talk(written("c1", spelled))).messages

    again = repair_history(once)

    assert again.messages == once
    assert again.entries == ()
