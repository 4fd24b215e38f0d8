"""What a session was recorded with and a command line does not give."""

from collections.abc import AsyncIterable, Iterable, Sequence
from typing import Final

from context_assembler.cli.screen import one_line
from context_assembler.values.context import AssembledContext
from context_assembler.values.epochs import FROZEN
from context_assembler.values.events import SessionEvent

_MOST_NAMES_SHOWN: Final = 5
# Rows of pieces that only the recorded call knows of.
_OF_THE_RECORD: Final = frozenset({"tool.withdrawn", FROZEN})


def missing_pieces_warning(context: AssembledContext) -> str | None:
    """Say which tools and sections the session's last call had and this one was not given.

    A program gives them in code; without them much of a report is about their being gone. `None`:
    nothing is missing, or no call was recorded.
    """
    if context.epoch_before is None:
        return None
    last = context.epoch_before.epoch
    rows = [row for row in context.report.entries if row.rule not in _OF_THE_RECORD]
    tools = _missing(
        [tool.name for tool in last.tools],
        given=[tool.name for tool in context.tools]
        + [row.id for row in rows if row.kind == "tool"],
    )
    sections = _missing(
        [section.name for section in last.sections],
        given=[section.name for section in context.draft.system.sections]
        + [row.id for row in rows if row.kind == "section"],
    )
    if not tools and not sections:
        return None
    kinds = {"tools": tools, "sections": sections}
    options = {"tools": "--tools FILE", "sections": "--bootstrap FOLDER"}
    missing = [kind for kind, names in kinds.items() if names]
    return (
        f"This session was recorded with {' and '.join(missing)} that are not given here "
        f"({'; '.join(_listed(kinds[kind]) for kind in missing)}): pass "
        f"{' and '.join(options[kind] for kind in missing)}, or read what follows as about a "
        "request without them."
    )


async def uncounted_tools_warning(
    context: AssembledContext, events: AsyncIterable[SessionEvent]
) -> str | None:
    """Say that the figures of a session that calls tools are those of requests without any.

    `None`: the context has tools, or the session calls none.
    """
    if context.tools:
        return None
    called = {call.name: True async for event in events for call in event.tool_calls}
    if not called:
        return None
    return (
        f"The session calls tools that are not given here ({_listed(list(called))}): pass --tools "
        "FILE, or read the figures as those of requests without them."
    )


def _missing(recorded: Iterable[str], *, given: Iterable[str]) -> list[str]:
    known = frozenset(given)
    return [name for name in recorded if name not in known]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name, max_chars=40) for name in names[:_MOST_NAMES_SHOWN])
    more = len(names) - _MOST_NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
