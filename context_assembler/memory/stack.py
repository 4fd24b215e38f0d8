"""Where an agent stands: goals within goals, and what came of those that are done."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, TypeAlias

from context_assembler.errors import MemoryFormatError
from context_assembler.memory.format import RECALL_TAG, FormattedContext, cut_text
from context_assembler.memory.records import refuse
from context_assembler.memory.score import Clean
from context_assembler.texts import CountText, escape_tag

STACK_FORMAT_VERSION: Final = 1
MAX_DEPTH: Final = 64
_ROOT_SHARE: Final = 0.05
_PATH_SHARE: Final = 0.15
_SIBLINGS_SHARE: Final = 0.10

TaskState: TypeAlias = Literal["open", "blocked", "done", "failed"]
_STANDING: Final = ("open", "blocked")


class TaskFrame(NamedTuple):
    """One goal.

    Attributes:
        parent: The number of the goal that it serves; `None` for the first.
        result: What came of it, once it is closed; while it is blocked, why.
    """

    number: int
    goal: str
    parent: int | None = None
    state: TaskState = "open"
    result: str | None = None


class TaskStack(NamedTuple):
    """Goals within goals. Every change is a new stack; frames are never forgotten.

    The frames are numbered from 0 in order, and those that are open or blocked are one path from the
    first down.
    """

    frames: tuple[TaskFrame, ...] = ()

    @property
    def path(self) -> tuple[TaskFrame, ...]:
        """The open and blocked goals, from the first to the current one."""
        return tuple(frame for frame in self.frames if frame.state in _STANDING)

    @property
    def current(self) -> TaskFrame | None:
        """The goal that is worked on; `None` if everything is done."""
        return self.path[-1] if self.path else None

    @property
    def finished_siblings(self) -> tuple[TaskFrame, ...]:
        """What was done or failed below the current goal and next to it, oldest first."""
        current = self.current
        near: set[int | None] = {None} if current is None else {current.number}
        if current is not None and current.parent is not None:
            near.add(current.parent)
        return tuple(f for f in self.frames if f.state not in _STANDING and f.parent in near)

    def push(self, goal: str) -> "TaskStack":
        """Return the stack with a goal that serves the current one.

        Raises:
            InvalidParameterError: The goal says nothing, or lies too deep.
        """
        if not goal.strip() or len(self.path) >= MAX_DEPTH:
            rule = f"must say something, and not lie deeper than {MAX_DEPTH}"
            remedy = "Name what is to be reached; pop goals that are done."
            refuse("goal", goal, rule, remedy)
        parent = None if self.current is None else self.current.number
        return TaskStack((*self.frames, TaskFrame(len(self.frames), goal, parent)))

    def pop(self, result: str = "", *, failed: bool = False) -> "TaskStack":
        """Return the stack with the current goal closed, and what came of it.

        Raises:
            InvalidParameterError: There is no open goal.
        """
        return self._settled("failed" if failed else "done", result)

    def block(self, reason: str = "") -> "TaskStack":
        """Return the stack with the current goal blocked: it stays current until it is popped.

        What unblocks it can be pushed below it.

        Raises:
            InvalidParameterError: There is no open goal.
        """
        return self._settled("blocked", reason)

    def unblock(self) -> "TaskStack":
        """Return the stack with the current goal open again.

        Raises:
            InvalidParameterError: There is no open goal.
        """
        return self._settled("open", None)

    def _settled(self, state: TaskState, result: str | None) -> "TaskStack":
        current = self.current
        if current is None:
            refuse("result", result, "needs an open goal", "Push a goal first.")
        changed, at = current._replace(state=state, result=result), current.number
        return TaskStack((*self.frames[:at], changed, *self.frames[at + 1 :]))

    def dump(self) -> str:
        """Return the stack as JSON, to be kept."""
        frames = [frame._asdict() for frame in self.frames]
        return json.dumps({"version": STACK_FORMAT_VERSION, "frames": frames})

    @classmethod
    def load(cls, dumped: str, *, where: str = "The task stack") -> "TaskStack":
        """Return the stack that `dump` was called on.

        Raises:
            MemoryFormatError: It is no stack, or of a newer version.
        """
        reason = "it is not a stack, or is of a newer version"
        try:
            read = json.loads(dumped)
            if read["version"] == STACK_FORMAT_VERSION:
                return cls(tuple(TaskFrame(**frame) for frame in read["frames"]))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            reason = f"{reason} ({error})"
        remedy = "Pass what `TaskStack.dump` returned."
        raise MemoryFormatError(where=where, reason=reason, remedy=remedy)


# ---- above what is recalled ----


class TaskPath(NamedTuple):
    """Where the agent stands, as Markdown; `is_whole` if every frame had room."""

    markdown: str
    is_whole: bool

    def room(self, max_tokens: int, count: CountText) -> int:
        """Return how many tokens are left below it, at least 1."""
        return max(max_tokens - count(f"{self.markdown.rstrip()}\n\n"), 1)

    def above(self, below: FormattedContext, max_tokens: int, count: CountText) -> FormattedContext:
        """Return the task above what was recalled; alone if both do not fit."""
        alone = self.markdown.rstrip()
        joined = "\n\n".join(filter(None, (alone, below.markdown)))
        tokens = count(joined)
        ran_out = below.budget_exceeded or not self.is_whole
        below = replace(below, task_path=alone, budget_exceeded=ran_out)
        if tokens <= max_tokens:
            return replace(below, markdown=joined, token_count=tokens)
        reason = "there was no room next to the task"
        rows = (e._replace(outcome="left_out", reason=reason) for e in below.explanations)
        shown = replace(below, items=(), markdown=alone, token_count=count(alone) if alone else 0)
        return replace(shown, budget_exceeded=True, explanations=tuple(rows))


def write_task_path(stack: TaskStack, max_tokens: int, count: CountText, clean: Clean) -> TaskPath:
    """Return the first goal, the way to the current one, and what was finished next to it.

    Each has its share of `max_tokens`; together they take less than a third. The nearest goals and
    the latest results come first if not all fit.

    Args:
        clean: What is done to what a frame says before it is shown.
    """
    path = stack.path
    parts: tuple[tuple[str, Sequence[TaskFrame], float], ...] = (
        ("Root goal", path[:1], _ROOT_SHARE),
        ("Path", path[:0:-1], _PATH_SHARE),
        ("Finished nearby", stack.finished_siblings[::-1], _SIBLINGS_SHARE),
    )
    written: list[str] = []
    is_whole = True
    for heading, frames, share in parts:
        free = int(max_tokens * share) - count(f"## {heading}\n\n\n")
        lines: list[str] = []
        for frame in frames:
            line = _line_of(frame, clean)
            if count(f"{line}\n") > free:
                line = _cut(line, free, count)
            if not line:
                break
            lines.append(line)
            free -= count(f"{line}\n")
        is_whole = is_whole and len(lines) == len(frames)
        if lines:
            written.append("\n".join((f"## {heading}", "", *reversed(lines), "")))
    return TaskPath("\n".join(written), is_whole)


def cut_task_path(told: str, *, max_tokens: int, count: CountText) -> TaskPath:
    """Return the task as it was told, or as much of it as fits."""
    if count(told) <= max_tokens:
        return TaskPath(told, is_whole=True)
    return TaskPath(cut_text(told, fits=lambda text: count(text) <= max_tokens), is_whole=False)


def _cut(line: str, free: int, count: CountText) -> str:
    return cut_text(line, fits=lambda text: count(f"{text}\n") <= free)


def _line_of(frame: TaskFrame, clean: Clean) -> str:
    state = "" if frame.state == "open" else f" – {frame.state}"
    result = f": {frame.result}" if frame.result else ""
    text = " ".join(clean(f"{frame.goal}{state}{result}").split())
    return f"- {escape_tag(RECALL_TAG, text)}"
