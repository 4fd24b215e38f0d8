"""How much of what questions need is really recalled: graded by evidence, not by a model's taste."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from context_assembler.errors import MemoryFormatError
from context_assembler.values.given import listed
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.parts import Json
from context_assembler.values.recall import FormattedContext

DEFAULT_BUDGETS_TOKENS: Final = (500, 1_000, 2_000, 4_000)
DEFAULT_DEPTHS: Final = (1, 5, 10, 20)
UNNAMED: Final = "all"

_CORRECT: Final = (
    'Write one JSON object a line: {"question": "…", "evidence": ["memory id", …]}, and where '
    'wanted "id", "category" and "namespace".'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the ids of all the memories that its answer needs.

    Attributes:
        category: Questions are also graded by it.
        namespace: Where the memories are looked for; everywhere without it.
    """

    question: str
    evidence: tuple[str, ...]
    id: str = ""
    category: str = UNNAMED
    namespace: str | None = None


Recall: TypeAlias = Callable[[Question, Sequence[int]], Awaitable[Sequence[FormattedContext]]]
"""Recalls for a question, once under each budget of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """What a published file of conversations asks, and what the answers are to be found in.

    Attributes:
        turns: What was said, in order, each conversation in a namespace of its own.
        facts: What somebody noted of the turns; a second source beside them.
        turns_by_fact: By the id of a fact, the turns that say it: whoever has it has them.
        remarks: What was repaired or left out, in sentences.
    """

    turns: tuple[MemoryRecord, ...]
    questions: tuple[Question, ...]
    facts: tuple[MemoryRecord, ...] = ()
    turns_by_fact: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """How well questions were answered; every figure is a share from 0 to 1.

    Attributes:
        whole: By budget: of the questions, those whose whole evidence lies within it.
        recalled: By budget: the part of a question's evidence that does, on average.
        recall_at: By depth: the part of a question's evidence among so many best candidates.
        mrr: One through the rank of the first evidence, on average.
    """

    questions: int
    whole: Mapping[int, float] = field(default_factory=dict[int, float])
    recalled: Mapping[int, float] = field(default_factory=dict[int, float])
    recall_at: Mapping[int, float] = field(default_factory=dict[int, float])
    mrr: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The grade of all questions, of each category, and what was missed at the largest budget."""

    overall: Grade
    by_category: Mapping[str, Grade]
    missed: tuple[Question, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    question: Question
    ids_by_budget: Mapping[int, frozenset[str]]
    ranked: tuple[str, ...]


async def evaluate(
    questions: Sequence[Question],
    recall: Recall,
    *,
    budgets_tokens: Sequence[int] = DEFAULT_BUDGETS_TOKENS,
    depths: Sequence[int] = DEFAULT_DEPTHS,
    stands_for: Mapping[str, Sequence[str]] = MappingProxyType({}),
    on_answer: Callable[[], object] = lambda: None,
) -> Evaluation:
    """Return how much of the questions' evidence is recalled.

    A memory that is shown shortened does not count as recalled.

    Args:
        stands_for: By the id of a memory, those that are recalled with it.
        on_answer: Called after each question, for those who wait.
    """
    answered: list[_Answered] = []
    for question in questions:
        budgets = sorted(set(budgets_tokens))
        contexts = dict(zip(budgets, await recall(question, budgets), strict=True))
        answered.append(_answered(question, contexts, stands_for))
        on_answer()
    by_category: dict[str, list[_Answered]] = {}
    for answer in answered:
        by_category.setdefault(answer.question.category, []).append(answer)
    largest = max(budgets_tokens, default=0)
    return Evaluation(
        overall=_grade(answered, budgets_tokens, depths),
        by_category={
            name: _grade(group, budgets_tokens, depths)
            for name, group in sorted(by_category.items())
        },
        missed=tuple(
            answer.question
            for answer in answered
            if not answer.ids_by_budget.get(largest, frozenset()).issuperset(
                answer.question.evidence
            )
        ),
    )


def read_questions(lines: Iterable[str], *, name: str = "The questions") -> list[Question]:
    """Return the questions of JSON Lines; blank lines are passed over.

    Raises:
        MemoryFormatError: A line is no question; the error names it.
    """
    lines = listed("lines", lines, str, such_as="the lines of a file, each a string")
    questions: list[Question] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            questions.append(_read_question(line, name=name, number=number))
    return questions


def _read_question(line: str, *, name: str, number: int) -> Question:
    try:
        read: Json = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _unreadable(f"it is not JSON ({error})", name=name, number=number) from None
    if not is_object(read):
        raise _unreadable("it is no object", name=name, number=number)
    question, evidence = read.get("question"), read.get("evidence")
    if not isinstance(question, str) or not question.strip():
        raise _unreadable("it has no 'question'", name=name, number=number)
    ids = [entry for entry in evidence if isinstance(entry, str)] if is_array(evidence) else []
    if not ids or not is_array(evidence) or len(ids) != len(evidence):
        raise _unreadable("its 'evidence' is no list of ids", name=name, number=number)
    named = {key: read.get(key) for key in ("id", "category", "namespace")}
    for key, value in named.items():
        if value is not None and not isinstance(value, str):
            raise _unreadable(f"its {key!r} is no text", name=name, number=number)
    return Question(
        question=question,
        evidence=tuple(dict.fromkeys(ids)),
        id=str(named["id"] or number),
        category=str(named["category"] or UNNAMED),
        namespace=None if named["namespace"] is None else str(named["namespace"]),
    )


def _unreadable(reason: str, *, name: str, number: int) -> MemoryFormatError:
    return MemoryFormatError(where=name, line=number, reason=reason, remedy=_CORRECT)


def _answered(
    question: Question,
    contexts: Mapping[int, FormattedContext],
    stands_for: Mapping[str, Sequence[str]],
) -> _Answered:
    last = contexts[max(contexts)] if contexts else FormattedContext(markdown="")
    return _Answered(
        question=question,
        ids_by_budget={
            budget: frozenset(
                memory_id
                for shown in context.items
                if not shown.is_truncated
                for memory_id in (shown.record.id, *stands_for.get(shown.record.id, ()))
            )
            for budget, context in contexts.items()
        },
        ranked=tuple(
            dict.fromkeys(
                memory_id
                for explained in last.explanations
                for memory_id in stands_for.get(explained.memory_id, (explained.memory_id,))
            )
        ),
    )


def _grade(answers: Sequence[_Answered], budgets: Sequence[int], depths: Sequence[int]) -> Grade:
    return Grade(
        questions=len(answers),
        whole={
            budget: _mean(float(_found(a, a.ids_by_budget[budget]) == 1) for a in answers)
            for budget in budgets
        },
        recalled={
            budget: _mean(_found(a, a.ids_by_budget[budget]) for a in answers) for budget in budgets
        },
        recall_at={
            depth: _mean(_found(a, frozenset(a.ranked[:depth])) for a in answers)
            for depth in depths
        },
        mrr=_mean(_reciprocal_rank(a) for a in answers),
    )


def _found(answer: _Answered, ids: frozenset[str]) -> float:
    evidence = answer.question.evidence
    return sum(memory_id in ids for memory_id in evidence) / len(evidence)


def _reciprocal_rank(answer: _Answered) -> float:
    ranks = (at for at, found in enumerate(answer.ranked, 1) if found in answer.question.evidence)
    return 1 / next(ranks, float("inf"))


def _mean(numbers: Iterable[float]) -> float:
    listed = list(numbers)
    return sum(listed) / len(listed) if listed else 0.0
