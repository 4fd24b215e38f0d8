"""Where tools come from: one file per member, one row per member."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from context_assembler.errors import ConfigurationError
from context_assembler.ports import ToolSource
from context_assembler.tools.executor import ExecutorTools
from context_assembler.tools.functions import FunctionTools
from context_assembler.tools.listed import ListedTools
from context_assembler.tools.signatures import spec_from_function, tool
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.tools import ToolSpec

__all__ = ["TOOL_SOURCES", "open_tool_sources", "spec_from_function", "tool"]

TOOL_SOURCES: Final[Mapping[str, Callable[[Any], ToolSource]]] = {
    "functions": FunctionTools,
    "executor": ExecutorTools,
    "listed": ListedTools,
}


def open_tool_sources(given: Any) -> list[ToolSource]:
    """Open the short forms of tools: functions, specs, executors, sources, and lists that mix them.

    Returns:
        One source for all functions, one for all literal specs, and one for each executor; a list
        in which nothing is given is empty.

    Raises:
        ConfigurationError: Something is none of these.
    """
    members: dict[str, list[Any]] = {"functions": [], "executor": [], "listed": []}
    for entry in _flatten(given):
        members[_member_of(entry)].append(entry)
    sources: list[ToolSource] = []
    if members["functions"]:
        sources.append(FunctionTools(members["functions"]))
    sources += [
        entry if isinstance(entry, _OWN) else ExecutorTools(entry) for entry in members["executor"]
    ]
    if members["listed"]:
        sources.append(ListedTools(members["listed"]))
    return sources


_OWN: Final = (ExecutorTools, FunctionTools, ListedTools)


def _flatten(given: Any) -> Iterable[Any]:
    if given is None:
        return
    if is_array(given):
        for entry in given:
            yield from _flatten(entry)
    else:
        yield given


def _member_of(entry: Any) -> str:
    if isinstance(entry, ToolSpec) or is_object(entry):
        return "listed"
    if callable(getattr(entry, "list_tools", None)):
        return "executor"
    if callable(entry):
        return "functions"
    if callable(getattr(entry, "model_dump", None)):
        return "listed"
    raise ConfigurationError(
        f"A {type(entry).__name__} is no source of tools: {str(entry)[:80]!r}.",
        remedy="Pass functions, tool specs, an object with list_tools(), or a list of these.",
    )
