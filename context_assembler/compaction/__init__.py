"""Whether a session should be compacted, and the event by which a summary replaces what it covers.

detector = CompactionDetector(CompactionSettings(max_messages=200))
check = detector.check(context.metadata.ledger, history=HistoryFacts(messages=250))
if check.needed:
    events = [event async for event in store.load("trip-42")]
    await store.append("trip-42", [compaction_event(summary, events[:-10])])
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from context_assembler.context import Ledger
from context_assembler.errors import InvalidParameterError, brief_repr
from context_assembler.events import KIND_MASK, NOTE, Covers, Json, SessionEvent, Text, ToolResult
from context_assembler.models import ModelLimits
from context_assembler.options import CompactionSettings
from context_assembler.truncation import History

__all__ = [
    "CompactionCheck",
    "CompactionDetector",
    "HistoryFacts",
    "compaction_event",
    "history_facts",
]

_MAX_CULPRITS: Final = 5


class HistoryFacts(NamedTuple):
    """What a detector asks of the history that a payload is made from.

    Attributes:
        messages: Messages, notes not counted; a summary is one.
        tool_calls: Calls that the model made.
        compactable_tokens: What a summary could replace: all but the latest summary, pinned
            messages, the last message of the user and the exchange in flight. In a long run of an
            agent on one task that is the run's finished exchanges.
        grown_tokens: What was added since the last compaction; `None`: there was none.
    """

    messages: int = 0
    tool_calls: int = 0
    compactable_tokens: int = 0
    grown_tokens: int | None = None


class CompactionCheck(NamedTuple):
    """Whether a session should be compacted.

    Attributes:
        reason: `token_limit`, `price_step`, `message_count`, `tool_count` or `explicit`; `None`: it
            is not needed.
        feasible: False if the fixed part alone is over the threshold.
        floor_tokens: What no compaction can free; `details` names who uses it.
    """

    needed: bool
    reason: str | None
    current_tokens: int
    threshold: int
    feasible: bool
    floor_tokens: int
    details: Mapping[str, Json]

    def __repr__(self) -> str:
        return brief_repr(self)


def history_facts(
    history: History, *, tool_calls: int = 0, seqs: Sequence[int] | None = None
) -> HistoryFacts:
    """Return the facts of a history as it is after the last compaction, before any cut.

    Args:
        seqs: The sequence number of each line; 0: no event holds it yet.
    """
    kinds, tokens, starts = history.kinds, history.tokens, history.starts
    notes = sum(number * (kind & KIND_MASK == NOTE) for kind, number in Counter(kinds).items())
    if not starts:
        return HistoryFacts()
    summary = starts[history.summaries[-1]] if history.summaries else None
    asked = {starts[number] for number in history.users[-1:]}
    fixed = {*history.pins, *asked, *([] if summary is None else [summary])}
    grown = None
    if summary is not None:
        order = range(1, len(history) + 1) if seqs is None else seqs
        after = order[summary]
        grown = sum(t for t, seq in zip(tokens, order, strict=True) if seq > after or seq == 0)
    return HistoryFacts(
        messages=history.heads[-1] - notes,
        tool_calls=tool_calls,
        compactable_tokens=history.ends[-2]
        - sum(tokens[line] for line in fixed if line < starts[-1]),
        grown_tokens=grown,
    )


class CompactionDetector:
    """Advises when to compact; the same facts always give the same advice."""

    def __init__(self, settings: CompactionSettings | None = None) -> None:
        self.settings = settings or CompactionSettings()

    def check(
        self,
        ledger: Ledger,
        *,
        history: HistoryFacts,
        limits: ModelLimits | None = None,
        is_explicit: bool = False,
    ) -> CompactionCheck:
        """Return the advice.

        If the fixed part alone is over the threshold, the answer is not needed and not feasible, with
        the culprits: no compaction can change it. Otherwise a reason counts only if enough was added
        since the last compaction and enough can be freed. `details["why"]` says the reason with its
        figures, `details["declined"]` why a reason does not count.

        Args:
            ledger: With the whole history, before any cut.
            limits: The model's row, for its price steps.
            is_explicit: The caller asks for it; needed as long as there is anything to summarise.
        """
        settings = self.settings
        reason, why, threshold = self._reason(ledger, history, limits)
        fixed = ledger.fixed_tokens
        feasible = fixed < threshold
        declined = self._declined(ledger, history) if feasible else _infeasible(ledger, threshold)
        if is_explicit:
            reason, why = "explicit", "it was asked for"
            declined = None if history.compactable_tokens else "There is nothing to summarise."
        details: dict[str, Json] = {
            "system_tokens": ledger.tokens_of("system"),
            "tools_tokens": ledger.tokens_of("tools"),
            "overhead_tokens": ledger.tokens_of("overhead"),
            "history_tokens": ledger.tokens_of("history"),
            "notes_tokens": ledger.tokens_of("notes"),
            "counted_tokens": ledger.used_tokens,
            **history._asdict(),
            "target_tokens": int(threshold * settings.target_share / settings.trigger_share),
        }
        if declined is not None and (reason is not None or not feasible):
            details["declined"] = declined
        if not feasible:
            rows = [row for row in ledger.rows if row.kind in ("system", "tools", "overhead")]
            rows.sort(key=lambda row: -row.tokens)
            details["culprits"] = [row._asdict() for row in rows[:_MAX_CULPRITS]]
        needed = reason is not None and declined is None
        if needed:
            details["why"] = why
        return CompactionCheck(
            needed,
            reason if needed else None,
            ledger.expected_tokens,
            threshold,
            feasible,
            fixed,
            details,
        )

    def _reason(
        self, ledger: Ledger, history: HistoryFacts, limits: ModelLimits | None
    ) -> tuple[str | None, str, int]:
        """Return the first reason there is, with its figures, and the token threshold that holds."""
        settings = self.settings
        threshold = int(settings.trigger_share * max(ledger.budget_tokens, 0))
        name, where = "token_limit", f" ([compaction] trigger_share = {settings.trigger_share:g})"
        # The lowest step of the model's price that the fixed part is not over already.
        prices = limits.prices if limits is not None and settings.uses_price_steps else ()
        steps = (price.above_input_tokens for price in prices)
        step = min((one for one in steps if one > ledger.fixed_tokens), default=threshold)
        if step < threshold:
            name, threshold = "price_step", step
            where = ", above which the model's price is higher ([compaction] uses_price_steps)"
        counts = (
            (name, ledger.expected_tokens, "tokens", threshold, where),
            ("message_count", history.messages, "messages", settings.max_messages, "max_messages"),
            (
                "tool_count",
                history.tool_calls,
                "tool calls",
                settings.max_tool_calls,
                "max_tool_calls",
            ),
        )
        for reason, number, what, most, source in counts:
            if number > most:
                said = source if source is where else f" ([compaction] {source})"
                return reason, f"{number:,} {what}, more than {most:,}{said}", threshold
        return None, "", threshold

    def _declined(self, ledger: Ledger, history: HistoryFacts) -> str | None:
        """Say why compaction would not be worth it; `None`: it would."""
        settings, grown = self.settings, history.grown_tokens
        if grown is not None and grown < settings.min_growth_tokens:
            return (
                f"Only {grown:,} tokens were added since the last compaction; "
                f"min_growth_tokens is {settings.min_growth_tokens:,}."
            )
        if history.compactable_tokens <= settings.min_gain_share * ledger.tokens_of("history"):
            return (
                f"A summary could replace {history.compactable_tokens:,} tokens at most, no more "
                f"than min_gain_share ({settings.min_gain_share:g}) of the history."
            )
        return None


def _infeasible(ledger: Ledger, threshold: int) -> str:
    return (
        f"System prompt {ledger.tokens_of('system'):,}, tools {ledger.tokens_of('tools'):,} and "
        f"overhead {ledger.tokens_of('overhead'):,} tokens are over the threshold of {threshold:,} "
        "by themselves: compaction cannot help. Offer fewer tools, shorten the instructions, or "
        "raise the window."
    )


def compaction_event(
    summary: str, covered: Sequence[SessionEvent], *, created_at: datetime | None = None
) -> SessionEvent:
    """Return the event by which a summary replaces stored events; they stay in the store.

    Pinned events among them are not covered: they are sent as before.

    Args:
        summary: What the model reads in their place.
        covered: Events of one session, oldest first and none left out between them. Leave out the
            last turn, which the model is about to answer.

    Raises:
        InvalidParameterError: The summary is blank; the events are none, not stored, or not in a row;
            or they hold a call without its result, or a result without its call.
    """
    if not summary.strip():
        rule, remedy = "must say something", "Ask for the summary again."
        raise InvalidParameterError("summary", summary, rule=rule, remedy=remedy)
    numbers = [event.seq for event in covered]
    first = numbers[0] if numbers else 0
    if first < 1 or numbers != list(range(first, first + len(numbers))):
        raise InvalidParameterError(
            "covered",
            numbers[:8],
            rule="must be stored events of one session in a row, oldest first",
            remedy="Pass events[:n] of what the store's load() yields.",
        )
    _check_pairs(covered)
    excluded = tuple(event.id for event in covered if event.is_pinned)
    return SessionEvent(
        type="compaction",
        parts=(Text(summary),),
        covers=Covers(first_seq=first, last_seq=numbers[-1], excluded_ids=excluded),
        created_at=created_at,
        origin="model",
    )


def _check_pairs(covered: Sequence[SessionEvent]) -> None:
    """Refuse a range that separates a call from its result: the model must see both or neither."""
    calls = [(call.call_id, event.seq) for event in covered for call in event.tool_calls]
    results = [
        (part.call_id, event.seq)
        for event in covered
        for part in event.parts
        if isinstance(part, ToolResult)
    ]
    called, answered = (Counter(call_id for call_id, _ in one) for one in (calls, results))
    if unanswered := called - answered:
        call_id, what = min(unanswered), "the result of every call"
        at = max(seq for one, seq in calls if one == call_id)
        remedy = f"End after its result, or before event {at}, which holds the call."
    elif uncalled := answered - called:
        call_id, what = min(uncalled), "the call of every result"
        at = min(seq for one, seq in results if one == call_id)
        remedy = f"Include its call, or begin after event {at}, which holds the result."
    else:
        return
    raise InvalidParameterError(
        "covered",
        [covered[0].seq, covered[-1].seq],
        rule=f"must hold {what} in it, but that of {call_id!r} is missing",
        remedy=remedy,
    )
