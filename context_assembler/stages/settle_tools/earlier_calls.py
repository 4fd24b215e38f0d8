"""What earlier calls of a session told the model of its tools, read from the events alone."""

from collections.abc import Iterator, Sequence

from context_assembler.values.epochs import last_epoch
from context_assembler.values.events import SessionEvent, SystemBody
from context_assembler.values.parts import Opaque
from context_assembler.values.standing import in_order
from context_assembler.values.tool_changes import TOOLS_NOTE, ToolChange, read_change
from context_assembler.values.tools import ToolSpec


def learnt_tools(events: Sequence[SessionEvent]) -> tuple[ToolSpec, ...]:
    """Return every tool that the model was told of in the epoch of the last reply, as told last.

    Those that went are among them: their names stay theirs until the tools are declared anew.

    Args:
        events: In the order of the store.
    """
    sent = last_epoch(events)
    if sent is None:
        return ()
    known = {tool.name: tool for tool in sent.epoch.tools}
    for change in changes_behind(events, sent.epoch.tools_after_seq):
        if change is not None:
            known |= {tool.name: tool for tool in change.added}
    return tuple(known[name] for name in sorted(known))


def changes_behind(events: Sequence[SessionEvent], after_seq: int) -> Iterator[ToolChange | None]:
    """Yield what the notes behind an event tell, oldest first; `None` for one that cannot be read."""
    for event in in_order(event for event in events if event.seq > after_seq):
        if isinstance(event.body, SystemBody) and event.body.note == TOOLS_NOTE:
            told = (read_change(part) for part in event.parts if isinstance(part, Opaque))
            yield next(told, None)
