"""Whether a step stands on the same ground as the one before: settings, instructions, tools, counts."""

from collections.abc import Iterable, Iterator, Sequence

from context_assembler.continuing.last_step import LastStep
from context_assembler.gathered import Gathered
from context_assembler.providers import other_protocols
from context_assembler.tokens import CountOnce, calibrate
from context_assembler.values.changing import changed
from context_assembler.values.epochs import EPOCH, SentEpoch
from context_assembler.values.events import (
    AssistantBody,
    Provenance,
    SessionEvent,
    ToolCallBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.factors import TokenFactors, read_factors
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import JsonObject
from context_assembler.values.readers import has_spoken


def way_on(
    last: LastStep, gathered: Gathered, later: Sequence[SessionEvent]
) -> tuple[Gathered, TokenFactors] | None:
    """Return what a step is made from, told as for the last one; `None` where more has changed.

    Args:
        gathered: For this step, before any event was read.
        later: The events since the last one.
    """
    if not (
        asks_alike(gathered, last.asked)
        and all(map(_only_adds, later))
        and not any(has_spoken(other, later) for other in other_protocols(gathered.limits))
        and all(_sends_the_same(last, *found) for found in _recorded(later))
    ):
        return None
    factors = _factors_since(last, gathered, later)
    if factors is None:
        return None
    sent = _sent_since(last, later)
    way = last.made.way
    told = way.told_tools
    if told.is_anew:  # tools are declared as in a first call, behind all that came before it
        told = changed(told, plan=changed(told.plan, after_seq=gathered.last_seq))
    elif told.sent is not sent:
        told = changed(told, sent=sent)
    way = changed(
        way,
        last_seq=gathered.last_seq,
        last_mark=gathered.last_mark,
        counter=CountOnce(calibrate(gathered.counter, factors)),
        token_factor=gathered.token_factor,
        told_tools=told,
        last_call=changed(way.last_call, sent=sent),
        derived=gathered.derived,
    )
    return way, factors


def asks_alike(one: Gathered, other: Gathered) -> bool:
    """Whether two steps were asked for alike, and found the same files, tools and skills."""
    return one is other or (
        one.incarnation == other.incarnation
        and one.agent_id == other.agent_id
        and one.ground == other.ground
        and one.parameters == other.parameters
        and one.active_skills == other.active_skills
    )


def _only_adds(event: SessionEvent) -> bool:
    """Whether an event adds to a message or makes one, and tells nothing of those before it."""
    match event.body:
        case UserBody(note=None) | AssistantBody() | ToolCallBody() | ToolResultBody():
            return not event.is_pinned
        case _:
            return False


def _recorded(
    events: Iterable[SessionEvent],
) -> Iterator[tuple[SessionEvent, Provenance, JsonObject]]:
    """Yield the replies that have recorded what stood in front of the conversation."""
    for event in events:
        record = event.metadata.get(EPOCH)
        if is_object(record) and isinstance(event.body, AssistantBody) and event.body.made_by:
            yield event, event.body.made_by, record


def _sends_the_same(
    last: LastStep, event: SessionEvent, made_by: Provenance, record: JsonObject
) -> bool:
    """Whether a reply's call had in front what the last two calls had, and told nothing of it anew."""
    epoch, before = last.context.epoch, last.context.epoch_before
    return (
        before is not None
        and event.answers_seq > before.answers_seq
        and record.keys() <= {"id", "tools_after_seq", "cut_for_tokens"}
        and record.get("id") == last.epoch_id
        and record.get("tools_after_seq", 0) == epoch.tools_after_seq
        and record.get("cut_for_tokens", 0) == epoch.cut_for_tokens
        and (made_by.provider, made_by.model) == (before.made_by.provider, before.made_by.model)
        and not any(file.warnings for file in last.made.shaped.files)
    )


def _sent_since(last: LastStep, later: Sequence[SessionEvent]) -> SentEpoch | None:
    sent = last.context.epoch_before
    for event, made_by, _ in _recorded(later):
        assert sent is not None, "a first record makes the whole anew"
        sent = changed(sent, made_by=made_by, answers_seq=event.answers_seq)
    return sent


def _factors_since(
    last: LastStep, gathered: Gathered, later: Sequence[SessionEvent]
) -> TokenFactors | None:
    """Return what corrects the counts from here on; `None` where any count made before changes."""
    before, now = last.factors, gathered.token_factor
    stored = read_factors(later, model=gathered.limits.id, current=now)
    factors = before.followed_by(stored)
    answered = stored.seqs[-1] if stored.seqs else 0
    has_notes = last.rows.has_ending
    keeps_current = now == before.current or (answered >= last.last_event.seq and not has_notes)
    is_same = factors.first == before.first and set(stored.stored) <= {before.current}
    return factors if keeps_current and is_same and not stored.places else None
