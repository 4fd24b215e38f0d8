"""How much of what questions need is really recalled: graded by evidence, not by a model's taste."""

from collections.abc import Iterable, Mapping, Sequence
from json import loads
from typing import Any, Final, NamedTuple

from context_assembler.errors import MemoryFormatError, brief
from context_assembler.events import is_list, is_object
from context_assembler.memory.assembler import MemoryAssembler, RecallOptions
from context_assembler.memory.format import FormattedContext
from context_assembler.memory.records import MemoryFilters

DEFAULT_BUDGETS_TOKENS: Final = (500, 1_000, 2_000, 4_000)
_DEPTHS: Final = (1, 5, 10, 20)
_UNNAMED: Final = "all"
_CORRECT: Final = (
    'Write one JSON object a line: {"question": "…", "evidence": ["memory id", …]}, and if wanted '
    '"id", "category" and "namespace".'
)


class Question(NamedTuple):
    """A question, and the ids of all the memories that its answer needs.

    Attributes:
        category: Questions are also graded by it.
        namespace: Where the memories are searched; everywhere without it.
    """

    question: str
    evidence: tuple[str, ...]
    id: str = ""
    category: str = _UNNAMED
    namespace: str | None = None


class Grade(NamedTuple):
    """How well questions were answered; every figure is a share from 0 to 1.

    Attributes:
        whole: By budget: of the questions, those whose whole evidence lies within it.
        recalled: By budget: the part of a question's evidence that does, on average.
        recall_at: By depth: the part of a question's evidence among so many best candidates.
        mrr: One through the rank of the first evidence, on average.
    """

    questions: int
    whole: Mapping[int, float]
    recalled: Mapping[int, float]
    recall_at: Mapping[int, float]
    mrr: float


class Evaluation(NamedTuple):
    """The grade of all questions, of each category, and what was missed at the largest budget."""

    overall: Grade
    by_category: Mapping[str, Grade]
    missed: tuple[Question, ...]


class _Answered(NamedTuple):
    question: Question
    found: Mapping[int, float]  # by budget: the part of the evidence
    at: Mapping[int, float]  # by depth
    reciprocal_rank: float


def _part(question: Question, ids: Iterable[str | None]) -> float:
    known = {*ids}
    return sum(one in known for one in question.evidence) / len(question.evidence)


async def evaluate_recall(
    assembler: MemoryAssembler,
    questions: Sequence[Question],
    *,
    context_types: Sequence[str] | str | None = None,
    budgets_tokens: Sequence[int] = DEFAULT_BUDGETS_TOKENS,
) -> Evaluation:
    """Return how much of the questions' evidence is recalled within each budget.

    A memory that is shown shortened does not count as recalled.

    Args:
        context_types: The kinds to search; by default all.

    Raises:
        InvalidContextTypeError: There is no such kind.
        InvalidParameterError: A budget is no positive number.
    """
    budgets, answers = sorted({*budgets_tokens}), list[_Answered]()
    for question in questions:
        names = None if question.namespace is None else (question.namespace,)
        given: RecallOptions = {
            "context_types": context_types,
            "filters": MemoryFilters(namespaces=names),
        }
        contexts = {
            budget: await assembler.assemble_context(question.question, max_tokens=budget, **given)
            for budget in budgets
        }
        found = {b: _part(question, _shown(c)) for b, c in contexts.items()}
        explained = contexts[budgets[-1]].explanations if budgets else ()
        best = [*dict.fromkeys(one.memory_id for one in explained)]
        ranks = [at for at, name in enumerate(best, 1) if name in question.evidence]
        at = {depth: _part(question, best[:depth]) for depth in _DEPTHS}
        answers.append(_Answered(question, found, at, 1 / ranks[0] if ranks else 0.0))
    by_category: dict[str, list[_Answered]] = {}
    for answer in answers:
        by_category.setdefault(answer.question.category, []).append(answer)
    return Evaluation(
        overall=_grade(answers, budgets),
        by_category={name: _grade(by_category[name], budgets) for name in sorted(by_category)},
        missed=tuple(a.question for a in answers if budgets and a.found[budgets[-1]] < 1),
    )


def _shown(context: FormattedContext) -> list[str | None]:
    """Return the ids of what is shown whole, and of what the facts among it were read from."""
    records = [shown.record for shown in context.items if not shown.is_truncated]
    return [name for record in records for name in (record.id, record.parent_id)]


def _grade(answers: Sequence[_Answered], budgets: Sequence[int]) -> Grade:
    def mean(numbers: Iterable[float]) -> float:
        return sum(numbers) / max(len(answers), 1)

    return Grade(
        questions=len(answers),
        whole={b: mean(float(a.found[b] == 1) for a in answers) for b in budgets},
        recalled={b: mean(a.found[b] for a in answers) for b in budgets},
        recall_at={depth: mean(a.at[depth] for a in answers) for depth in _DEPTHS},
        mrr=mean(a.reciprocal_rank for a in answers),
    )


def read_questions(lines: Iterable[str], *, name: str = "The questions") -> list[Question]:
    """Return the questions of JSON Lines; blank lines are passed over.

    Raises:
        MemoryFormatError: A line is no question; the error names it.
    """
    questions: list[Question] = []
    for number, line in enumerate(lines, 1):
        try:
            read: Any = loads(line) if line.strip() else None
        except (ValueError, RecursionError) as error:
            read = str(error)
        if is_object(read):
            named = {key: read[key] for key in ("id", "category", "namespace") if read.get(key)}
            asked, evidence = read.get("question"), read.get("evidence")
            texts = [asked, *(evidence if is_list(evidence) else [None]), *named.values()]
            if evidence and asked and all(isinstance(text, str) for text in texts):
                given = {"id": str(number), **named}
                questions.append(Question(asked, tuple(dict.fromkeys(evidence)), **given))
                continue
        if read is not None:
            reason, remedy = f"it is not a question ({brief(read)})", _CORRECT
            raise MemoryFormatError(where=name, line=number, reason=reason, remedy=remedy)
    return questions
