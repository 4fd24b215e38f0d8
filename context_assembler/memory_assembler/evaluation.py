"""Grading a memory assembler by questions and the evidence that they need."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from context_assembler.memory_assembler import MAX_LIMIT, MemoryAssembler
from context_assembler.memory_assembler.arguments import check_number
from context_assembler.recall.evaluate import (
    DEFAULT_BUDGETS_TOKENS,
    Evaluation,
    Question,
    evaluate,
    read_questions,
)
from context_assembler.values.given import check_callable, check_type, listed
from context_assembler.values.memories.records import NO_FILTERS, MemoryFilters
from context_assembler.values.recall import FormattedContext

__all__ = ["evaluate_recall", "read_questions"]


async def evaluate_recall(
    assembler: MemoryAssembler,
    questions: Sequence[Question],
    *,
    context_types: Sequence[str] | str | None = None,
    budgets_tokens: Sequence[int] = DEFAULT_BUDGETS_TOKENS,
    stands_for: Mapping[str, Sequence[str]] = MappingProxyType({}),
    on_answer: Callable[[], object] = lambda: None,
) -> Evaluation:
    """Return how much of the questions' evidence is recalled within each budget.

    Args:
        context_types: The kinds to look for; by default all.
        stands_for: By the id of a memory, those that are recalled with it: the turns of a fact.
        on_answer: Called after each question, for those who wait.

    Raises:
        InvalidContextTypeError: There is no such kind.
        InvalidParameterError: A budget is no number of tokens.
    """

    async def recall(question: Question, budgets: Sequence[int]) -> list[FormattedContext]:
        namespace = question.namespace
        ranked = await assembler.rank(
            question.question,
            context_types=context_types,
            limit=MAX_LIMIT,
            filters=NO_FILTERS if namespace is None else MemoryFilters(namespaces=(namespace,)),
        )
        return await ranked.within(*budgets)

    check_type("assembler", assembler, MemoryAssembler, such_as="MemoryAssembler(…)")
    questions = listed("questions", questions, Question, such_as="what read_questions() returned")
    budgets_tokens = listed(
        "budgets_tokens", budgets_tokens, int, such_as="numbers such as (500, 2000)"
    )
    check_type("stands_for", stands_for, Mapping, such_as="a mapping of ids to ids")
    check_callable("on_answer", on_answer, such_as="a function without arguments")
    for budget in budgets_tokens:
        check_number("budgets_tokens", budget)
    return await evaluate(
        questions,
        recall,
        budgets_tokens=budgets_tokens,
        stands_for=stands_for,
        on_answer=on_answer,
    )
