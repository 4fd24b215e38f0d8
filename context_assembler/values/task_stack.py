"""What an agent is at: goals within goals, and what came of those that are done."""

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Final, Literal, TypeAlias

from context_assembler.errors import InvalidParameterError, MemoryFormatError
from context_assembler.values.given import check_type, listed
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json

STACK_FORMAT_VERSION: Final = 1
MAX_DEPTH: Final = 64

TaskState: TypeAlias = Literal["open", "done", "failed"]
_STATES: Final = ("open", "done", "failed")
_REMEDY: Final = "Pass what `TaskStack.dump` returned."


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFrame:
    """One goal.

    Attributes:
        parent: The number of the goal that it serves; `None` for the first.
        result: What came of it, once it is closed.
    """

    number: int
    goal: str
    parent: int | None = None
    state: TaskState = "open"
    result: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStack:
    """Goals within goals. Every change is a new stack; frames are never forgotten.

    Whoever holds a stack may rely on its frames being numbered from 0 in order, and on the open
    ones being one path from the first down.
    """

    frames: tuple[TaskFrame, ...] = ()

    def __post_init__(self) -> None:
        listed("frames", self.frames, TaskFrame, such_as=_REMEDY)
        open_numbers = [frame.number for frame in self.frames if frame.state == "open"]
        parents = [frame.parent for frame in self.frames if frame.state == "open"]
        is_numbered = all(at == frame.number for at, frame in enumerate(self.frames))
        comes_after = all(f.parent is None or 0 <= f.parent < f.number for f in self.frames)
        if not is_numbered or not comes_after or parents != [None, *open_numbers][: len(parents)]:
            raise InvalidParameterError(
                "frames", self.frames, rule="must be one path of open goals", remedy=_REMEDY
            )

    @property
    def path(self) -> tuple[TaskFrame, ...]:
        """The open goals, from the first to the current one."""
        return tuple(frame for frame in self.frames if frame.state == "open")

    @property
    def current(self) -> TaskFrame | None:
        """The goal that is worked on; `None` where everything is done."""
        path = self.path
        return path[-1] if path else None

    @property
    def finished_siblings(self) -> tuple[TaskFrame, ...]:
        """What was done or failed below the current goal and beside it, oldest first."""
        current = self.current
        if current is None:
            return tuple(frame for frame in self.frames if frame.parent is None)
        beside = {current.number} if current.parent is None else {current.number, current.parent}
        return tuple(f for f in self.frames if f.state != "open" and f.parent in beside)

    def push(self, goal: str) -> "TaskStack":
        """Return the stack with a goal that serves the current one.

        Raises:
            InvalidParameterError: The goal says nothing, or lies too deep.
        """
        if not isinstance(goal, str) or not goal.strip():  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise InvalidParameterError(
                "goal", goal, rule="must say something", remedy="Name what is to be reached."
            )
        if len(self.path) >= MAX_DEPTH:
            raise InvalidParameterError(
                "goal",
                goal,
                rule=f"must not lie deeper than {MAX_DEPTH}",
                remedy="Pop goals first.",
            )
        current = self.current
        parent = None if current is None else current.number
        return TaskStack(
            frames=(*self.frames, TaskFrame(number=len(self.frames), goal=goal, parent=parent))
        )

    def pop(self, result: str = "", *, failed: bool = False) -> "TaskStack":
        """Return the stack with the current goal closed, and what came of it.

        Raises:
            InvalidParameterError: There is no open goal.
        """
        current = self.current
        if current is None:
            raise InvalidParameterError(
                "result", result, rule="needs an open goal", remedy="Push a goal first."
            )
        check_type("result", result, str, such_as="what came of it; '' for nothing")
        closed = replace(current, state="failed" if failed else "done", result=result)
        return TaskStack(
            frames=(
                *self.frames[: current.number],
                closed,
                *self.frames[current.number + 1 :],
            )
        )

    def dump(self) -> str:
        """Return the stack as JSON, to be kept."""
        return json.dumps(
            {"version": STACK_FORMAT_VERSION, "frames": [asdict(frame) for frame in self.frames]},
            ensure_ascii=True,
        )

    @classmethod
    def load(cls, dumped: str) -> "TaskStack":
        """Return the stack that `dump` was called on.

        Raises:
            MemoryFormatError: It is no stack, or of a newer version.
        """
        check_type("dumped", dumped, str, such_as="what TaskStack.dump() returned")
        try:
            read: Json = json.loads(dumped)
        except (ValueError, RecursionError) as error:
            raise _unreadable(f"it is not JSON ({error})") from None
        frames = read.get("frames") if is_object(read) else None
        if not is_object(read) or not is_array(frames):
            raise _unreadable("it has no frames")
        if read.get("version") != STACK_FORMAT_VERSION:
            raise _unreadable(f"its version is {read.get('version')!r}")
        try:
            return cls(frames=tuple(map(_read_frame, frames)))
        except InvalidParameterError as error:
            raise _unreadable(error.problem.rstrip(".")) from None


def _read_frame(read: Json) -> TaskFrame:
    names = {field.name for field in fields(TaskFrame)}
    if not is_object(read) or set(read) != names:
        raise _unreadable("a frame has other fields")
    number, goal, parent, state, result = (read[name] for name in names_in_order())
    if (
        not isinstance(number, int)
        or not isinstance(goal, str)
        or not (parent is None or isinstance(parent, int))
        or state not in _STATES
        or not (result is None or isinstance(result, str))
    ):
        raise _unreadable("a field of a frame is of the wrong type")
    return TaskFrame(
        number=number,
        goal=goal,
        parent=parent,
        state="open" if state == "open" else "done" if state == "done" else "failed",
        result=result,
    )


def names_in_order() -> tuple[str, ...]:
    """Return the names of a frame's fields."""
    return tuple(field.name for field in fields(TaskFrame))


def _unreadable(reason: str) -> MemoryFormatError:
    return MemoryFormatError(where="The task stack", reason=reason, remedy=_REMEDY)
