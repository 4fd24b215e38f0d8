"""An object that runs tools, and lists them, as a source of tools."""

from collections.abc import Iterable, Mapping, Sequence
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Final, Protocol

from context_assembler.errors import InvalidToolError
from context_assembler.errors.base import with_article
from context_assembler.tools.entries import ReadEntries, read_entries
from context_assembler.tools.threads import call_in_thread
from context_assembler.values.tools import ToolSpec


class Executor(Protocol):
    """Whatever has `list_tools()`; entries may be specs of any shape, functions or SDK objects."""

    def list_tools(self) -> Any:
        """Return the tools or an object that carries them as `tools`, at once or awaited."""
        ...


class ExecutorTools:
    """The tools of an executor, asked for anew each time.

    Attributes:
        stands_for: The executor: another source of the same one lists the same tools.
        problems: What could not be offered of the last list.
        notes: What of the last list is not carried over.
    """

    kind: Final = "executor"

    def __init__(self, executor: Executor, *, name: str | None = None) -> None:
        self.name = name or _name_of(executor) or "executor"
        self.stands_for = executor
        self._read = ReadEntries()

    @property
    def problems(self) -> Sequence[InvalidToolError]:
        """What could not be offered of the last list."""
        return self._read.problems

    @property
    def notes(self) -> Sequence[str]:
        """What of the last list is not carried over."""
        return self._read.notes

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools offered at this moment.

        A `list_tools` that is no coroutine function is called in a thread of its own, since it may
        block.
        """
        act = self.stands_for.list_tools
        listed = act() if iscoroutinefunction(act) else await call_in_thread(lambda: _held(act()))
        if isawaitable(listed):
            listed = await listed
        self._read = read_entries(_entries_of(listed))
        return self._read.specs


def _name_of(executor: object) -> str:
    try:
        name = getattr(executor, "name", None)
    except Exception:  # noqa: BLE001 - a foreign property: whatever it raises, there is no name
        return ""
    return name if isinstance(name, str) else ""


def _held(listed: Any) -> Any:
    """Return an answer with everything in it read, for that may block as well."""
    return listed if isawaitable(listed) else list(_entries_of(listed))


def _entries_of(listed: Any) -> Iterable[Any]:
    entries: Iterable[Any] = getattr(listed, "tools", listed)
    if not _are_several(entries):
        given = with_article(type(entries).__name__)
        raise TypeError(f"list_tools() returned {given}, and no list")
    return entries


def _are_several(entries: object) -> bool:
    return isinstance(entries, Iterable) and not isinstance(entries, str | bytes | Mapping)
