"""Where an agent stands, told above what is recalled: it stays when the rest is changed."""

from dataclasses import replace
from functools import partial

from context_assembler.memory_assembler.joining import join_task_path
from context_assembler.memory_assembler.recalling import Recalling
from context_assembler.memory_assembler.showing import show_text
from context_assembler.recall.compress import Condense
from context_assembler.recall.cutting import cut_text
from context_assembler.recall.task_path import TaskPath, write_task_path
from context_assembler.values.given import check_type
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import FormattedContext
from context_assembler.values.task_stack import TaskStack


def tell_task(recall: Recalling, stack: TaskStack) -> tuple[TaskPath, int]:
    """Return where the agent stands, without secrets, and how many tokens are left below it."""
    check_type("stack", stack, TaskStack, such_as="TaskStack().push('…')")
    clean = partial(show_text, masks_secrets=recall.masks_secrets)
    task = write_task_path(
        stack, max_tokens=recall.max_tokens, count_text=recall.count, clean=clean
    )
    return task, _room_below(recall, task)


def update_below(
    recall: Recalling, context: FormattedContext, event: MemoryRecord | str
) -> FormattedContext:
    """Return the context with one more record, below the task that stands above it if any does."""
    if not context.task_path:
        return recall.update(context, event)
    task, below = _divided(recall, context.task_path)
    updated = below.update(context, event)
    return join_task_path(task, updated, max_tokens=recall.max_tokens, count_text=recall.count)


async def compress_below(
    recall: Recalling, context: FormattedContext, *, condense: Condense | None
) -> FormattedContext:
    """Return the context in no more tokens than there may be; the task above it is cut last."""
    if not context.task_path:
        return await recall.compress(context, condense=condense)
    if recall.count(context.markdown) <= recall.max_tokens:
        return context
    task, below = _divided(recall, context.task_path)
    smaller = await below.compress(context, condense=condense)
    return join_task_path(task, smaller, max_tokens=recall.max_tokens, count_text=recall.count)


def _divided(recall: Recalling, told: str) -> tuple[TaskPath, Recalling]:
    """Return the task as it was told, or as much of it as fits, and the recall of what is below."""
    max_tokens, count = recall.max_tokens, recall.count
    fits = count(told) <= max_tokens
    text = told if fits else cut_text(told, fits=lambda t: count(t) <= max_tokens, reference="")
    task = TaskPath(markdown=text, token_count=count(text) if text else 0, left_out=int(not fits))
    return task, replace(recall, max_tokens=_room_below(recall, task))


def _room_below(recall: Recalling, task: TaskPath) -> int:
    return max(recall.max_tokens - recall.count(f"{task.markdown.rstrip()}\n\n"), 1)
