"""`memory eval`: how much of what questions need is recalled."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from rich.progress import Progress
from rich.table import Table

from context_assembler.cli.memory_eval_remarks import EvalSettings, remarks_on
from context_assembler.cli.memory_options import opened_embedder
from context_assembler.cli.opening import read_text
from context_assembler.cli.screen import (
    counted,
    notes,
    one_line,
    people,
    print_heading,
    print_json,
    print_note,
)
from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.memory.sqlite import SqliteMemoryStore
from context_assembler.memory_assembler import MemoryAssembler
from context_assembler.memory_assembler.evaluation import evaluate_recall
from context_assembler.ports import Embed, OpenedMemoryStore
from context_assembler.recall.evaluate import (
    DEFAULT_BUDGETS_TOKENS,
    Conversations,
    Evaluation,
    Grade,
    Question,
    read_questions,
)
from context_assembler.recall.read_locomo import WITHOUT_ANSWER, is_locomo, read_locomo
from context_assembler.values.parts import Json

_SHOWN_MISSED: Final = 10
_BATCH: Final = 500

OpenStore = Callable[[], AbstractAsyncContextManager[OpenedMemoryStore]]


async def evaluate_file(
    file: Path, *, open_store: OpenStore, settings: EvalSettings, as_json: bool
) -> None:
    """Grade recall by the questions of a file, and print the grades.

    A file of conversations brings what is searched; questions alone are asked of the opened store.
    """
    asked = _read(file)
    questions = _chosen(asked.questions, settings.categories, file)
    async with (
        opened_embedder(settings.embedder) as embed,
        _filled(asked, embed, settings) if asked.turns else open_store() as store,
        MemoryAssembler(store, preset=settings.preset, embed=embed) as assembler,
    ):
        remarks = [*asked.remarks, *await remarks_on(asked, questions, store, embed, settings)]
        for remark in remarks:
            print_note(f"{file}: {remark}.")
        with Progress(console=notes(), transient=True) as progress:
            task = progress.add_task("Asking", total=len(questions))
            result = await evaluate_recall(
                assembler,
                questions,
                context_types=_kinds(asked, settings),
                budgets_tokens=tuple(dict.fromkeys(settings.budgets or DEFAULT_BUDGETS_TOKENS)),
                stands_for=asked.turns_by_fact,
                on_answer=lambda: progress.advance(task),
            )
    if as_json:
        print_json(_as_json(result) | {"remarks": remarks})
        return
    people().print(_grades(result))
    if result.missed:
        missed = counted(len(result.missed), "question")
        print_heading(people(), f"Not wholly recalled: {missed}")
        for question in result.missed[:_SHOWN_MISSED]:
            people().print(f"  {one_line(question.question, max_chars=90)}")


def _read(file: Path) -> Conversations:
    text = read_text(file)
    try:
        whole: Json = json.loads(text) if text.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        whole = None
    if is_locomo(whole):
        return read_locomo(whole, name=str(file))
    return Conversations(
        turns=(), questions=tuple(read_questions(text.splitlines(), name=str(file)))
    )


def _chosen(questions: Sequence[Question], categories: Sequence[str], file: Path) -> list[Question]:
    if not questions:
        raise ConfigurationError(f"{file} holds no question.", remedy="Name another file.")
    known = sorted({question.category for question in questions})
    for category in categories:
        if category not in known:
            raise UnknownOptionError(category, kind="category", known=known)
    if not categories and WITHOUT_ANSWER in known and len(known) > 1:
        left_out = sum(question.category == WITHOUT_ANSWER for question in questions)
        print_note(
            f"Left out: {counted(left_out, 'question')} that nothing answers; "
            f"--category {WITHOUT_ANSWER} asks for such."
        )
        categories = [category for category in known if category != WITHOUT_ANSWER]
    return [q for q in questions if not categories or q.category in categories]


def _kinds(asked: Conversations, settings: EvalSettings) -> Sequence[str] | None:
    if not asked.turns:
        return settings.kinds or None
    return ("events", "observations") if settings.with_facts else ("events",)


@asynccontextmanager
async def _filled(
    asked: Conversations, embed: Embed | None, settings: EvalSettings
) -> AsyncGenerator[SqliteMemoryStore, None]:
    """Keep what the file holds in a store that lives as long as it is asked."""
    records = [*asked.turns, *(asked.facts if settings.with_facts else ())]
    async with SqliteMemoryStore(None) as store:
        assembler = MemoryAssembler(store, embed=embed)
        with Progress(console=notes(), transient=True) as progress:
            task = progress.add_task("Remembering", total=len(records))
            for start in range(0, len(records), _BATCH):
                batch = records[start : start + _BATCH]
                await assembler.remember(batch)
                progress.advance(task, len(batch))
        yield store


def _grades(result: Evaluation) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("questions", min_width=len("questions"))
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
