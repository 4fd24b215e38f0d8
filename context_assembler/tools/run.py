"""Running the functions that a reply calls: arguments checked, a deadline for each, always a result."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from context_assembler.events import SessionEvent, ToolCall, ToolResult, read_object_text
from context_assembler.ports import ToolSpec
from context_assembler.tools.functions import binder_of, name_of_function, settings_of
from context_assembler.tools.sources import ListedTools, call_away

_CUT_OFF: Final = "The call did not run: the reply was cut off inside it. Call again."
_CANCELLED: Final = "The call was cancelled; it may or may not have run."

Outcome: TypeAlias = tuple[Any, bool]  # what came of a call, and whether it failed
Work: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]
Planned: TypeAlias = tuple[ToolCall, Work]


def plan_calls(
    events: Iterable[SessionEvent],
    *,
    later: Iterable[SessionEvent],
    offered: Sequence[ToolSpec],
    sources: Iterable[Any],
    approved: Collection[str] = (),
) -> tuple[list[Planned], list[ToolCall]]:
    """Return the calls to answer with what does it, and those that remain for the caller.

    Args:
        later: What was stored since; a call that has a result there is neither.
        offered: The tools that the model could call.
        sources: Where they come from; functions are run, and what has `call_tool`.
        approved: Ids of calls whose tools need approval.
    """
    specs, by_source = {tool.name: tool for tool in offered}, dict[str, list[Any]]()
    for source in sources:
        by_source.setdefault(source.name, []).append(source)
    stored = (part for event in later for part in event.parts)
    answered = Counter(part.call_id for part in stored if isinstance(part, ToolResult))
    planned, left = list[Planned](), list[ToolCall]()
    for event in events:
        ready = {id(call) for call in event.tool_calls}
        for call in (p for p in event.parts if event.has_calls and isinstance(p, ToolCall)):
            answered[call.call_id] -= 1
            if answered[call.call_id] >= 0:  # ids may repeat: the first calls have the results
                continue
            spec, error, extras = specs.get(call.name), "", call.extras or {}
            is_native = any("type" in fields for fields in extras.values())  # has a name of its own
            if id(call) not in ready:
                error = call.error or _CUT_OFF
            elif specs and spec is None and not is_native:
                error = (
                    f"There is no tool {call.name!r}. The tools are: {', '.join(sorted(specs))}."
                )
            work: Work | None = partial(_refuse, error) if error else None
            if work is None and spec is not None:
                work = _work_of(call, spec, by_source.get(spec.source, ()), approved)
            if work is None:
                left.append(call)
            else:
                planned.append((call, work))
    return planned, left


def _work_of(
    call: ToolCall, spec: ToolSpec, sources: Sequence[Any], approved: Collection[str]
) -> Work | None:
    """Return what runs a call; `None`: that is the caller's."""
    name = spec.own_name or spec.name
    given = call.arguments or read_object_text(call.arguments_json or "{}")[0] or {}
    # Of two functions with one name the first source's has it; the other one was renamed.
    for source in reversed(sources) if spec.own_name else sources:
        if hasattr(source, "call_tool"):
            return partial(source.call_tool, spec, given, call_id=call.call_id)
        for entry in source.entries if isinstance(source, ListedTools) else ():
            is_function = callable(entry) and not isinstance(entry, type)
            if is_function and name_of_function(entry) == name:
                needs_approval = settings_of(entry).get("needs_approval")
                is_held = needs_approval and call.call_id not in approved
                return None if is_held else partial(_run_function, entry, source.binders, given)
    return None


async def run_planned(
    planned: Sequence[Planned],
    *,
    seconds: float,
    keep: Callable[[ToolCall, Outcome], Coroutine[Any, Any, object]],
) -> None:
    """Run all at once, and keep what came of each, in order, even if this is cancelled.

    Args:
        seconds: How long each may take.
    """
    loop, is_cancelled = asyncio.get_running_loop(), False
    end, late = loop.time() + seconds, f"The call took longer than {seconds:g} s; it may still run."
    tasks = [loop.create_task(_outcome(work)) for _, work in planned]
    try:
        for (call, _), task in zip(planned, tasks, strict=True):
            try:
                wait = 0 if is_cancelled else max(0, end - loop.time())
                await asyncio.wait([task], timeout=wait)
            except asyncio.CancelledError:
                is_cancelled = True
            outcome: Outcome = (_CANCELLED if is_cancelled else late, True)
            if task.done():
                outcome = (_CANCELLED, True) if task.cancelled() else task.result()
            storing = loop.create_task(keep(call, outcome))
            while not storing.done():
                try:
                    await asyncio.shield(storing)
                except asyncio.CancelledError:
                    is_cancelled = True
    finally:
        for task in tasks:
            task.cancel()
    if is_cancelled:
        raise asyncio.CancelledError


class _RefusalError(Exception):
    """Why a call failed, in words for the model."""


async def _refuse(why: str) -> None:
    raise _RefusalError(why)


async def _outcome(work: Work) -> Outcome:
    try:
        return await work(), False
    except _RefusalError as error:
        return str(error), True
    except (Exception, SystemExit) as error:  # foreign code: whatever it raises is its result
        with suppress(Exception, SystemExit):  # what it says of itself is foreign code as well
            return f"{type(error).__name__}: {error}".removesuffix(": "), True
        return type(error).__name__, True


async def _run_function(
    function: Callable[..., Any], binders: dict[int, Any], arguments: Mapping[str, Any]
) -> Any:
    bind = binders.get(id(function)) or binders.setdefault(id(function), binder_of(function))
    bound = bind(arguments)
    if isinstance(bound, str):
        raise _RefusalError(f"The call did not run: its arguments do not fit. {bound}")
    return await call_away(bound)
