"""Grading recall by evidence."""

from collections.abc import Sequence

import pytest

from context_assembler.errors import MemoryFormatError
from context_assembler.recall.evaluate import Question, evaluate, read_questions
from context_assembler.values.recall import FormattedContext, RecalledMemory, RecallExplanation
from tests.recall.building import record


def context(*ids: str, cut: str = "", ranked: tuple[str, ...] = ()) -> FormattedContext:
    items = tuple(
        RecalledMemory(
            record=record(name),
            source="memories",
            score=1.0,
            text=name,
            tokens=1,
            scores={},
            found_in=(),
            is_truncated=name == cut,
        )
        for name in ids
    )
    explanations = tuple(
        RecallExplanation(
            memory_id=name,
            kind="memories",
            source="memories",
            outcome="kept",
            reason="",
            score=1.0,
            scores={},
        )
        for name in (ranked or ids)
    )
    return FormattedContext(markdown="", items=items, explanations=explanations)


ASKED = [
    Question(question="one?", evidence=("a",), category="single"),
    Question(question="two?", evidence=("a", "b"), category="multi"),
]


async def test_only_whole_evidence_counts_as_whole() -> None:
    async def recall(question: Question, budgets: Sequence[int]) -> list[FormattedContext]:
        return [context("x", "a", "b", cut="b" if budget == 10 else "") for budget in budgets]

    seen: list[int] = []
    result = await evaluate(
        ASKED, recall, budgets_tokens=(20, 10), depths=(2,), on_answer=lambda: seen.append(1)
    )

    assert result.overall.whole == {20: 1.0, 10: 0.5}
    assert result.overall.recalled == {20: 1.0, 10: 0.75}
    assert result.overall.recall_at == {2: 0.75}
    assert result.overall.mrr == 0.5
    assert result.by_category["multi"].whole == {20: 1.0, 10: 0.0}
    assert (result.missed, len(seen)) == ((), 2)


async def test_what_was_missed_is_named() -> None:
    async def recall(question: Question, budgets: Sequence[int]) -> list[FormattedContext]:
        return [context("a") for _ in budgets]

    result = await evaluate(ASKED, recall, budgets_tokens=(10,))

    assert result.missed == (ASKED[1],)


async def test_what_stands_for_another_counts_as_it() -> None:
    async def recall(question: Question, budgets: Sequence[int]) -> list[FormattedContext]:
        return [context("fact") for _ in budgets]

    result = await evaluate(ASKED, recall, budgets_tokens=(10,), stands_for={"fact": ("b", "a")})

    assert result.overall.whole == {10: 1.0}
    assert result.overall.recall_at[5] == 1.0


async def test_no_questions_and_no_budgets_grade_nothing() -> None:
    async def recall(question: Question, budgets: Sequence[int]) -> list[FormattedContext]:
        return [context() for _ in budgets]

    nothing = await evaluate([], recall)
    without_budget = await evaluate(ASKED, recall, budgets_tokens=())

    assert (nothing.overall.questions, nothing.overall.mrr) == (0, 0.0)
    assert without_budget.overall.mrr == 0.0


def test_questions_are_read_from_lines() -> None:
    lines = [
        '{"question": "who?", "evidence": ["a", "a"], "category": "multi", "namespace": "n"}',
        "",
        '{"id": "x", "question": "when?", "evidence": ["b"]}',
    ]

    assert read_questions(lines) == [
        Question(id="1", question="who?", evidence=("a",), category="multi", namespace="n"),
        Question(id="x", question="when?", evidence=("b",)),
    ]


BAD_LINES = {
    "no JSON": ("{", "not JSON"),
    "no object": ("[1]", "no object"),
    "no question": ('{"question": " ", "evidence": ["a"]}', "'question'"),
    "no evidence": ('{"question": "who?"}', "'evidence'"),
    "an empty evidence": ('{"question": "who?", "evidence": []}', "'evidence'"),
    "no ids": ('{"question": "who?", "evidence": ["a", 1]}', "'evidence'"),
    "a number for a name": ('{"question": "who?", "evidence": ["a"], "category": 1}', "'category'"),
}


@pytest.mark.parametrize(("line", "reason"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_line_that_is_no_question_is_named(line: str, reason: str) -> None:
    with pytest.raises(MemoryFormatError, match=reason) as caught:
        read_questions([line], name="q.jsonl")

    assert caught.value.line == 1
