"""Reading LoCoMo's file of conversations."""

from typing import Any

import pytest

from context_assembler.errors import MemoryFormatError
from context_assembler.recall.read_locomo import is_locomo, read_locomo


def sample(**changes: Any) -> dict[str, Any]:
    conversation: dict[str, Any] = {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_10_date_time": "soon",
        "session_10": [{"speaker": "Ann", "dia_id": "D10:1", "text": "Bye."}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            {"speaker": "Ann", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a red kite"},
            {"speaker": "Ben", "dia_id": "D2:2", "text": "Nice."},
            {"speaker": "Ben", "dia_id": "D2:2", "text": "Twice the same id."},
            {"speaker": "Ben", "dia_id": "D2:3", "text": " "},
        ],
    }
    questions = [
        {"question": "What flies?", "evidence": ["D2:1"], "category": 4},
        {"question": "Who flies what?", "evidence": ["D:2:01; D2:2"], "category": 1},
        {"question": "When?", "evidence": ["D2:1", "D99:1"], "category": 2},
        {"question": "Nothing?", "evidence": ["D"], "category": 4},
        {"question": "Never said?", "evidence": "D10:1", "category": 5},
        {"question": "Other?", "evidence": ["D10:1"], "category": 9},
        {"question": "", "evidence": ["D2:1"], "category": 4},
    ]
    observation = {
        "session_2_observation": {
            "Ann": [["Ann has a kite.", "D2:1"], ["Nobody knows.", "D77:1"], "no pair"],
        },
    }
    fields = {"conversation": conversation, "qa": questions, "observation": observation}
    return {"sample_id": "conv", **fields, **changes}


def test_turns_stand_in_the_order_of_their_sessions() -> None:
    read = read_locomo([sample()])

    assert [(turn.id, turn.text) for turn in read.turns] == [
        ("conv/D2:1", "Ann: Look! [image: a red kite]"),
        ("conv/D2:2", "Ben: Nice."),
        ("conv/D10:1", "Ann: Bye."),
    ]
    assert read.turns[0].created_at is not None
    assert read.turns[0].created_at.isoformat() == "2023-05-08T13:56:00+00:00"
    assert read.turns[2].created_at is None
    assert {turn.namespace for turn in read.turns} == {"conv"}


def test_evidence_is_repaired_or_left_out() -> None:
    asked = {question.question: question for question in read_locomo([sample()]).questions}

    assert asked["What flies?"].evidence == ("conv/D2:1",)
    assert asked["Who flies what?"].evidence == ("conv/D2:1", "conv/D2:2")
    assert asked["When?"].evidence == ("conv/D2:1",)
    assert [question.category for question in asked.values()] == [
        "single-hop",
        "multi-hop",
        "temporal",
        "adversarial",
        "category 9",
    ]


def test_what_was_repaired_or_left_out_is_told() -> None:
    assert read_locomo([sample()]).remarks == (
        "2 observations were left out: no turn is said to say them",
        "1 question has evidence whose ids were repaired",
        "1 question names evidence that no turn is, which was left out",
        "2 questions were left out: no turn is their evidence",
        "1 session has no date that can be read",
        "2 turns were left out: they have no text, or no id of their own",
    )


def test_observations_stand_for_their_turns() -> None:
    read = read_locomo([sample()])

    [fact] = read.facts
    assert (fact.text, fact.author, fact.kind) == ("Ann has a kite.", "Ann", "observations")
    assert read.turns_by_fact == {fact.id: ("conv/D2:1",)}
    assert fact.session_id == read.turns[0].session_id


def test_each_sample_is_a_namespace_of_its_own() -> None:
    read = read_locomo([sample(), sample(sample_id="")])

    assert {turn.namespace for turn in read.turns} == {"conv", "sample-2"}
    assert len({turn.id for turn in read.turns}) == 6


@pytest.mark.parametrize("read", [None, {}, [], [1], [{"qa": []}], [{"conversation": {}}]])
def test_another_file_is_none(read: Any) -> None:
    assert not is_locomo(read)
    with pytest.raises(MemoryFormatError, match="no such samples"):
        read_locomo(read)


def test_a_sample_without_its_conversation_is_told() -> None:
    with pytest.raises(MemoryFormatError, match="sample 2 has no 'conversation'"):
        read_locomo([sample(), {"qa": []}], name="c.json")


def test_a_file_may_have_no_observations() -> None:
    assert read_locomo([sample(observation=None)]).facts == ()
    assert read_locomo([sample(observation={"session_2_observation": "x"})]).facts == ()
