"""What each call of a session sends, under one policy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from context_assembler.errors import ContextOverflowError
from context_assembler.gathered import Gathered
from context_assembler.pipeline import ContextPipeline
from context_assembler.shaped import Shaped
from context_assembler.simulation.calls import Call, Segment
from context_assembler.stages.split_window import check_feasible
from context_assembler.truncation import GrowingHistory, Truncator
from context_assembler.values.events import SessionEvent
from context_assembler.values.messages import Message
from context_assembler.values.report import ReportEntry

_NO_BOUND: Final = 1 << 62
# What these did to a message may depend on what came behind it.
_LOOKING_AHEAD: Final = frozenset(
    f"repair.{rule}"
    for rule in (
        "moved_result",
        "orphan_result",
        "duplicate_result",
        "server_call",
        "prefill",
        "aborted",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What one call sends; `change` says in words what a cut did."""

    messages: Sequence[Message]
    message_tokens: tuple[int, ...]
    head_tokens: int
    budget_tokens: int
    level: int = 0
    change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grown:
    """The history of a segment, whose beginnings are what its calls were made from.

    Attributes:
        lengths: By the reply of a call, how many messages stand before it.
    """

    shaped: Shaped
    growing: GrowingHistory
    lengths: Mapping[int, int]

    def payload(self, call: Call) -> Payload | None:
        """Return what a call sends; `None` where its beginning of the history does not tell."""
        length = self.lengths.get(call.seq, 0)
        if not _ends_with_input(self.shaped.messages, length):
            return None
        cut = self.growing.fit(length)
        return Payload(
            messages=cut.messages,
            message_tokens=cut.message_tokens,
            head_tokens=self.shaped.ledger.fixed_tokens,
            budget_tokens=self.shaped.ledger.budget_tokens,
            level=cut.level,
            change=_tell_cut(cut.dropped, cut.shortened),
        )


def _lengths(messages: Sequence[Message], last: Call) -> dict[int, int]:
    lengths = {message.seq: at for at, message in enumerate(messages) if message.seq}
    return {**lengths, last.seq: len(messages)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """Makes the payloads of a session's calls; without a bound everything is sent.

    Attributes:
        gathered: What every call is made from besides the events; its options are the policy.
    """

    pipeline: ContextPipeline
    gathered: Gathered
    is_bounded: bool = True

    def of(self, segment: Segment) -> Iterator[tuple[Call, Payload | str]]:
        """Yield what each call sends, or why it cannot be sent."""
        try:
            gathered, shaped = self._shape(segment.calls[-1], segment.events)
        except ContextOverflowError as error:
            yield from ((call, error.problem) for call in segment.calls)
            return
        grown = None
        if self._is_settled(gathered, shaped):
            grown = _Grown(
                shaped=shaped,
                growing=self._grow(gathered, shaped),
                lengths=_lengths(shaped.messages, segment.calls[-1]),
            )
        for call in segment.calls:
            try:
                payload = None if grown is None else grown.payload(call)
                payload = payload or self._from_scratch(call, segment.events[: call.at])
            except ContextOverflowError as error:
                yield call, error.problem
            else:
                yield call, payload

    def _shape(self, call: Call, events: Sequence[SessionEvent]) -> tuple[Gathered, Shaped]:
        """Return the history behind these events, without notes that are not recorded yet."""
        gathered, made_by = self.gathered, call.made_by
        if made_by is not None and made_by.model == gathered.limits.id:  # counted as it was then
            gathered = replace(gathered, token_factor=made_by.token_factor or 1.0)
        gathered, shaped = self.pipeline.prepare(gathered, events)
        if self.is_bounded:
            check_feasible(shaped.ledger, gathered.tools)
        unrecorded = {section.name for section in shaped.notes}
        kept = tuple(
            message
            for message in shaped.messages
            if not (message.is_fresh_note and message.note in unrecorded)
        )
        return gathered, replace(shaped, messages=kept, notes=())

    def _is_settled(self, gathered: Gathered, shaped: Shaped) -> bool:
        """Whether nothing of the history depends on what follows it, or on how it is cut."""
        if any(row.rule in _LOOKING_AHEAD for row in shaped.repairs):
            return False
        is_bound = gathered.limits.thinking.is_prefix_bound
        if is_bound and any(message.is_signed for message in shaped.messages):
            return False
        return _is_as_it_was(shaped.messages, shaped.adapted(gathered).messages)

    def _grow(self, gathered: Gathered, shaped: Shaped) -> GrowingHistory:
        room_tokens = shaped.ledger.room_tokens if self.is_bounded else _NO_BOUND
        return Truncator(self.pipeline.truncation.asked(gathered.settled.options)).grow(
            shaped.messages, room_tokens=room_tokens, counter=gathered.counter
        )

    def _from_scratch(self, call: Call, events: Sequence[SessionEvent]) -> Payload:
        """Return what the pipeline makes of these events."""
        gathered, shaped = self._shape(call, events)
        shaped = shaped.adapted(gathered)
        messages, level = shaped.messages, 0
        entries: tuple[ReportEntry, ...] = ()
        if self.is_bounded:
            shaped, cut = self.pipeline.cut(gathered, shaped)
            messages, level, entries = cut.messages, cut.level, cut.entries
        reader = self.pipeline.reader_of(gathered.limits)
        draft, _ = shaped.draft(gathered, messages, reader)
        decisions = [entry.decision for entry in entries]
        return Payload(
            messages=draft.messages,
            message_tokens=tuple(map(gathered.counter.count_message, draft.messages)),
            head_tokens=shaped.ledger.fixed_tokens,
            budget_tokens=shaped.ledger.budget_tokens,
            level=level,
            change=_tell_cut(decisions.count("dropped"), decisions.count("shortened")),
        )


def _is_as_it_was(before: Sequence[Message], after: Sequence[Message]) -> bool:
    return len(before) == len(after) and all(
        old is new for old, new in zip(before, after, strict=True)
    )


def _ends_with_input(messages: Sequence[Message], length: int) -> bool:
    """Whether the first so many messages end with what a model answers."""
    spoken = (m for m in reversed(messages[:length]) if m.role != "system")
    last = next(spoken, None)
    return last is not None and last.role != "assistant"


def _tell_cut(dropped: int, shortened: int) -> str:
    if not dropped and not shortened:
        return ""
    return f"The history is cut: {dropped} messages left out, {shortened} shortened."
