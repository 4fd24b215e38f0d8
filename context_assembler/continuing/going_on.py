"""One step further: the last context with the new messages behind it, or a plain no."""

from collections.abc import Sequence

from context_assembler.continuing.behind import Behind
from context_assembler.continuing.last_step import LastStep
from context_assembler.continuing.same_front import way_on
from context_assembler.gathered import Gathered
from context_assembler.history import HistoryWay, shape_history
from context_assembler.pipeline import ContextPipeline
from context_assembler.providers import PROVIDERS
from context_assembler.stages.bind_reasoning import bind_reasoning
from context_assembler.stages.place_notes import place_clock, tell_date
from context_assembler.stages.write_report import rows_of_kept
from context_assembler.values.answered_calls import answered_calls
from context_assembler.values.changing import changed
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import SessionEvent
from context_assembler.values.growing import begin
from context_assembler.values.ledger import Ledger
from context_assembler.values.messages import Message
from context_assembler.values.parts import Part, Text, Thinking, ToolCall, ToolResult
from context_assembler.values.readers import Reader
from context_assembler.values.spelled_facts import is_taken_by_all


def go_on(
    last: LastStep,
    gathered: Gathered,
    events: Sequence[SessionEvent],
    *,
    pipeline: ContextPipeline,
) -> LastStep | None:
    """Return the step behind the last one; `None` where the whole has to be made anew.

    Args:
        gathered: For this step, before any event was read.
        events: All of the session, in the order of the store.
    """
    later = events[last.event_count :]
    if not later or events[last.event_count - 1] is not last.last_event:
        return None
    ground = way_on(last, gathered, later)
    if ground is None:
        return None
    way, factors = ground
    reader = pipeline.reader_of(way.limits)
    before = last.made.shaped.history
    history = shape_history(
        events,
        HistoryWay(
            reader=reader,
            masker=pipeline.masker,
            tools=way.told_tools,
            caps=pipeline.truncation,
        ),
        derived=gathered.derived,
    )
    if not history.goes_on_from(before):
        return None
    new = history.messages[len(before.messages) :]
    if not (new and _is_plain(new, last, reader, pipeline)):
        return None
    grown = _put_behind(last, way, new, pipeline)
    if grown is None:
        return None
    shaped = last.made.shaped
    shaped = changed(shaped, history=history, messages=begin(shaped.messages).followed_by(new))
    return changed(
        grown,
        asked=gathered,
        made=changed(grown.made, way=way, shaped=shaped),
        event_count=len(events),
        last_event=events[-1],
        factors=factors,
        calls=last.calls.followed_by(answered_calls(later)),
    )


def _is_plain(
    new: Sequence[Message], last: LastStep, reader: Reader, pipeline: ContextPipeline
) -> bool:
    """Whether new messages are sent as they are, and change nothing about those before them."""
    return (
        last.context.draft.messages[-1].role != "system"
        and all(map(_is_said, new))
        and place_clock(new, settings=pipeline.clock, last=last.clock) == new
        and (last.is_dated or not tell_date(new, settings=pipeline.clock))
        and (all(map(is_taken_by_all, new)) or _is_taken(new, last, reader))
    )


def _is_said(message: Message) -> bool:
    is_turn = message.role != "system" and message.kind == "said" and bool(message.id)
    return is_turn and all(map(_has_no_bytes, message.parts))


def _has_no_bytes(part: Part) -> bool:
    """Whether it is told from the part alone how it is sent: media crowd each other, blocks pair up."""
    if isinstance(part, ToolResult):
        return all(isinstance(inner, Text) for inner in part.content)
    return isinstance(part, Text | Thinking | ToolCall)


def _is_taken(new: Sequence[Message], last: LastStep, reader: Reader) -> bool:
    """Whether the provider takes the messages as they are, with all reasoning in them."""
    if bind_reasoning(new, reader=reader)[1]:
        return False
    draft = changed(last.context.draft, messages=tuple(new), tools=(), tool_plan=None)
    adapted, rows = PROVIDERS[reader.provider].adapt(draft)
    return adapted.messages == draft.messages and not any(row.kind == "message" for row in rows)


def _put_behind(
    last: LastStep, way: Gathered, new: Sequence[Message], pipeline: ContextPipeline
) -> LastStep | None:
    """Return the step with messages behind its history; `None` where that has to be cut or bound anew."""
    context, counter = last.context, way.counter
    tokens = tuple(map(counter.count_message, new))
    cut_tokens = last.made.cut_tokens + sum(tokens)
    facts = last.facts.followed_by(new, count=counter.count_message)
    room_tokens = last.made.shaped.ledger.room_tokens
    is_cut_anew = not context.metadata.truncated and facts.total_tokens > room_tokens
    if is_cut_anew or cut_tokens > room_tokens:
        return None
    plan = context.draft.tool_plan
    if plan is not None:
        plan = changed(plan, after_seq=way.told_tools.plan.after_seq)
    messages = begin(context.draft.messages).followed_by(new)
    draft = changed(context.draft, messages=messages, tool_plan=plan)
    behind = Behind(last=last, way=way, draft=draft, new=new, tokens=sum(tokens))
    ledger, uncut = behind.ledger, behind.uncut
    if ledger is None or uncut is None or not behind.keeps_reasoning:
        return None
    reason = pipeline.detector.find_reason(uncut, history=facts.facts, limits=way.limits)
    context = _told(last, way, ledger, reason)
    rows = last.rows.followed_by(rows_of_kept(new, counter=counter))
    report = changed(context.report, entries=rows)
    context = changed(context, draft=draft, report=report)
    return changed(
        last,
        made=changed(last.made, context=context, cut_tokens=cut_tokens),
        facts=facts,
        uncut=uncut,
        message_tokens=last.message_tokens.followed_by(tokens),
        rows=rows,
        has_usage=behind.has_usage,
    )


def _told(last: LastStep, way: Gathered, ledger: Ledger, reason: str | None) -> AssembledContext:
    """Return the last context with this step's figures, and why to compact the session."""
    context = last.context
    return changed(
        context,
        metadata=changed(
            context.metadata,
            ledger=ledger,
            should_compact=reason is not None,
            compaction_reason=reason,
            last_seq=way.last_seq,
            last_mark=way.last_mark,
        ),
        report=changed(context.report, ledger=ledger),
        epoch=changed(context.epoch, tools_after_seq=way.told_tools.plan.after_seq),
        epoch_before=way.last_call.sent,
    )
