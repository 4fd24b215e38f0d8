"""What one step of a session leaves for the next one to go on from."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from context_assembler.continuing.running_facts import RunningFacts, read_facts
from context_assembler.gathered import Gathered
from context_assembler.pipeline import ContextPipeline
from context_assembler.shaped import Made
from context_assembler.stages.hold_system import WAITING
from context_assembler.stages.place_notes import last_told, tell_date
from context_assembler.values.answered_calls import AnsweredCall, answered_calls
from context_assembler.values.context import AssembledContext
from context_assembler.values.epochs import EPOCH
from context_assembler.values.events import SessionEvent
from context_assembler.values.factors import TokenFactors
from context_assembler.values.growing import Growing
from context_assembler.values.json_shapes import is_object
from context_assembler.values.ledger import Ledger
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings
from context_assembler.values.parts import Json
from context_assembler.values.report import ReportEntry
from context_assembler.values.summaries import is_sealed

_KEY: Final = "steps"
_MAX_STEPS: Final = 4  # per session: models and agents in turn


@dataclass(frozen=True, kw_only=True)
class LastStep:
    """A context, and what it takes to put new messages behind it.

    Attributes:
        asked: What was gathered for it, before any event was read.
        made: The context as it was made, and the way that led to it.
        event_count: How many events it was made from; `last_event` is the last of them.
        factors: What corrected the counts of its messages.
        facts: Of its history before it was cut; `uncut` is the ledger with all of that.
        message_tokens: Of each message that is sent.
        rows: Of the report; those of new messages go before those of notes and markers.
        clock: The time of its last clock note.
        is_dated: Whether its system prompt tells the day on which it begins.
        calls: The session's answered calls, the last one last.
        epoch_id: Of the last reply that recorded what stood in front of the conversation.
        has_usage: Whether a provider has reported what a call of it was charged.
        is_sealed: Whether it holds a summary that its own provider alone can read.
    """

    asked: Gathered
    made: Made
    event_count: int
    last_event: SessionEvent
    factors: TokenFactors
    facts: RunningFacts
    uncut: Ledger
    message_tokens: Growing[int]
    rows: Growing[ReportEntry]
    clock: datetime | None
    is_dated: bool
    calls: Growing[AnsweredCall]
    epoch_id: Json
    has_usage: bool
    is_sealed: bool

    @property
    def context(self) -> AssembledContext:
        """The context that the step before sent."""
        return self.made.context


def find_step(gathered: Gathered) -> LastStep | None:
    """Return the last step of the session that a step for the same model and agent may go on from."""
    kept: tuple[LastStep, ...] = (gathered.derived or {}).get(_KEY, ())
    return next((step for step in kept if _is_for(gathered, step)), None)


def leave_step(asked: Gathered, step: LastStep | None) -> None:
    """Keep a step for the next one of its model and agent, with the session's events; or none.

    Args:
        asked: What was gathered for the step, before any event was read.
    """
    if asked.derived is None:
        return
    kept: tuple[LastStep, ...] = asked.derived.get(_KEY, ())
    others = [one for one in kept if not _is_for(asked, one)]
    mine = () if step is None else (step,)
    asked.derived[_KEY] = (*mine, *others[: _MAX_STEPS - 1])


def _is_for(gathered: Gathered, step: LastStep) -> bool:
    asked = step.asked
    return (gathered.limits.id, gathered.agent_id) == (asked.limits.id, asked.agent_id)


def keep_step(
    made: Made,
    *,
    asked: Gathered,
    events: Sequence[SessionEvent],
    pipeline: ContextPipeline,
) -> LastStep | None:
    """Return what a later step can go on from; `None` where it has to begin anew.

    Args:
        asked: What was gathered for the context, before any event was read.
        events: All that it was made from.
        pipeline: What made it.
    """
    context, way = made.context, made.way
    truncation = pipeline.truncation.asked(way.settled.options)
    history = [message for message in made.shaped.messages if not message.is_fresh_note]
    if not events or not history or not _is_settled(made, truncation):
        return None
    row_count = _rows_before_notes(context, history[-1])
    if row_count is None:
        return None
    rows = context.report.entries
    return LastStep(
        asked=asked,
        made=made,
        event_count=len(events),
        last_event=events[-1],
        factors=way.factors(events),
        facts=read_facts(made.shaped.messages, count=way.counter.count_message),
        uncut=made.shaped.uncut(way),
        message_tokens=Growing(map(way.counter.count_message, context.messages)),
        rows=Growing(rows[:row_count], ending=rows[row_count:]),
        clock=last_told(made.shaped.messages),
        is_dated=bool(tell_date(made.shaped.messages, settings=pipeline.clock)),
        calls=Growing(answered_calls(events)),
        epoch_id=last_epoch_id(events),
        has_usage=any(m.made_by and m.made_by.usage for m in made.shaped.messages),
        is_sealed=is_sealed(context.messages),
    )


def last_epoch_id(events: Sequence[SessionEvent]) -> Json:
    """Return the id of the epoch that the last of the events with one has recorded."""
    records = (event.metadata.get(EPOCH) for event in reversed(events))
    return next((record.get("id") for record in records if is_object(record)), None)


def _is_settled(made: Made, truncation: TruncationSettings) -> bool:
    """Whether nothing of the context was meant for this one call alone."""
    context, told = made.context, made.way.told_tools
    draft = context.draft
    is_growing = truncation.cache_stable and truncation.strategy != "sliding"
    return not (
        context.notes
        or context.others
        or told.change
        or told.notes
        or told.needs_check
        or told.plan.added
        or any(tool.is_deferred for tool in told.plan.declared)
        or (draft.parameters.thinking_budget and "budget" in draft.limits.thinking.kinds)
        or (context.metadata.truncated and not (is_growing and made.holds))
        or any(_is_of_this_call(row) for row in context.report.entries)
    )


def _is_of_this_call(row: ReportEntry) -> bool:
    """Whether a row tells of a change since the last call, or of one that waits."""
    return row.rule.startswith("rewrite.") or row.rule in WAITING


def _rows_before_notes(context: AssembledContext, last: Message) -> int | None:
    """Return how many rows stand before those of notes and markers; `None`: the last is no message's."""
    rows: Sequence[ReportEntry] = context.report.entries
    count = len(rows) - sum(m.is_fresh_note or m.kind == "marker" for m in context.messages)
    name = last.id or last.note or last.kind
    return count if count and rows[count - 1].id == name else None
