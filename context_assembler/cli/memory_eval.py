"""`memory eval`: how much of what questions need is recalled."""

from collections.abc import Sequence
from pathlib import Path

from rich.progress import Progress
from rich.table import Table

from context_assembler.cli.opening import read_text
from context_assembler.cli.screen import notes, one_line, people, print_heading, print_json
from context_assembler.errors import ConfigurationError
from context_assembler.memory_assembler import MemoryAssembler
from context_assembler.memory_assembler.evaluation import evaluate_recall
from context_assembler.recall.evaluate import (
    DEFAULT_BUDGETS_TOKENS,
    Evaluation,
    Grade,
    read_questions,
)
from context_assembler.values.parts import Json

_SHOWN_MISSED = 10


async def evaluate_file(
    assembler: MemoryAssembler,
    file: Path,
    *,
    kinds: Sequence[str] | None,
    budgets: Sequence[int] | None,
    as_json: bool,
) -> None:
    """Grade the assembler by the questions of a file, and print the grades."""
    questions = read_questions(read_text(file).splitlines(), name=str(file))
    if not questions:
        raise ConfigurationError(f"{file} holds no question.", remedy="Name another file.")
    with Progress(console=notes(), transient=True) as progress:
        task = progress.add_task("Asking", total=len(questions))
        result = await evaluate_recall(
            assembler,
            questions,
            context_types=kinds or None,
            budgets_tokens=tuple(dict.fromkeys(budgets or DEFAULT_BUDGETS_TOKENS)),
            on_answer=lambda: progress.advance(task),
        )
    if as_json:
        print_json(_as_json(result))
        return
    people().print(_grades(result))
    if result.missed:
        print_heading(people(), f"Not wholly recalled: {len(result.missed):,} questions")
        for question in result.missed[:_SHOWN_MISSED]:
            people().print(f"  {one_line(question.question, max_chars=90)}")


def _grades(result: Evaluation) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("questions")
    table.add_column("n", justify="right")
    for budget in result.overall.whole:
        table.add_column(f"whole @{budget:,}", justify="right")
    for depth in result.overall.recall_at:
        table.add_column(f"r@{depth}", justify="right")
    table.add_column("MRR", justify="right")
    names = {name: grade for name, grade in result.by_category.items() if name != "all"}
    for name, grade in {**names, "all": result.overall}.items():
        table.add_row(
            one_line(name, max_chars=30),
            f"{grade.questions:,}",
            *(f"{share:.1%}" for share in grade.whole.values()),
            *(f"{share:.1%}" for share in grade.recall_at.values()),
            f"{grade.mrr:.3f}",
        )
    return table


def _as_json(result: Evaluation) -> dict[str, Json]:
    return {
        "overall": _grade_as_json(result.overall),
        "by_category": {name: _grade_as_json(grade) for name, grade in result.by_category.items()},
        "missed": [question.id for question in result.missed],
    }


def _grade_as_json(grade: Grade) -> dict[str, Json]:
    return {
        "questions": grade.questions,
        "whole_evidence": {str(budget): share for budget, share in grade.whole.items()},
        "evidence_recalled": {str(budget): share for budget, share in grade.recalled.items()},
        "recall_at": {str(depth): share for depth, share in grade.recall_at.items()},
        "mrr": grade.mrr,
    }
