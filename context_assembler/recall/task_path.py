"""The step that writes where an agent stands: its first goal, the way to the current one, its results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from context_assembler.recall.cutting import cut_text
from context_assembler.values.recall import RECALL_TAG
from context_assembler.values.task_stack import TaskFrame, TaskStack
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.fences import escape_tag

ROOT_SHARE: Final = 0.05
PATH_SHARE: Final = 0.15
SIBLINGS_SHARE: Final = 0.10

CountText = Callable[[str], int]
Clean = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPath:
    """Where the agent stands, as Markdown, and how many frames had no room."""

    markdown: str
    token_count: int
    left_out: int


def write_task_path(
    stack: TaskStack, *, max_tokens: int, count_text: CountText, clean: Clean = clean_text
) -> TaskPath:
    """Return the first goal, the way to the current one, and what was finished beside it.

    Each has its share of `max_tokens`; together they take less than a third. The nearest goals and
    the latest results come first where not all fit.

    Args:
        clean: What is done to what a frame tells before it is shown.
    """
    path = stack.path
    parts = (
        ("Root goal", [_told(frame, clean) for frame in path[:1]], ROOT_SHARE),
        ("Path", [_told(frame, clean) for frame in reversed(path[1:])], PATH_SHARE),
        (
            "Finished nearby",
            [_told(frame, clean) for frame in reversed(stack.finished_siblings)],
            SIBLINGS_SHARE,
        ),
    )
    written: list[str] = []
    left_out = 0
    for heading, lines, share in parts:
        fitting = _fitting(
            heading, lines, max_tokens=int(max_tokens * share), count_text=count_text
        )
        left_out += len(lines) - len(fitting)
        if fitting:
            written.append("\n".join((f"## {heading}", "", *reversed(fitting), "")))
    markdown = "\n".join(written)
    return TaskPath(
        markdown=markdown,
        token_count=count_text(markdown) if markdown else 0,
        left_out=left_out,
    )


def _fitting(
    heading: str, lines: Sequence[str], *, max_tokens: int, count_text: CountText
) -> list[str]:
    """Return the first lines that fit below the heading, each cut to what is left where it must."""
    fitting: list[str] = []
    free = max_tokens - count_text(f"## {heading}\n\n\n")

    def fits(text: str) -> bool:
        return count_text(f"{text}\n") <= free

    for line in lines:
        shown = line if fits(line) else cut_text(line, fits=fits, reference="")
        if not shown:
            break
        fitting.append(shown)
        free -= count_text(f"{shown}\n")
    return fitting


def _told(frame: TaskFrame, clean: Clean) -> str:
    state = {"open": "", "done": " – done", "failed": " – failed"}[frame.state]
    result = f": {frame.result}" if frame.result else ""
    text = " ".join(clean(f"{frame.goal}{state}{result}").split())
    return f"- {escape_tag(RECALL_TAG, text)}"
