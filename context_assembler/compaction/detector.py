"""Whether a session should be compacted, and why."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from context_assembler.context import Ledger, LedgerRow
from context_assembler.errors import brief_repr
from context_assembler.events import Json
from context_assembler.models import ModelLimits
from context_assembler.options import CompactionSettings
from context_assembler.truncation import History

_MAX_CULPRITS: Final = 5
_KINDS: Final = ("system", "tools", "overhead", "history", "notes")
_NEVER: Final = 1 << 62  # later than any event
# https://platform.claude.com/docs/en/build-with-claude/preserved-thinking#keep-tail-compaction
# https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (read 2026-11-30)
_PREFER: Final = (
    "Let the provider compact (provider_compaction='now', or a number of tokens): the model has "
    "signed its reasoning for what stood before it, and takes it only behind the provider's own "
    "compaction. Behind a summary of yours the reasoning of what stays is left out."
)
TASK_SHARE: Final = 0.1  # of the target: a first message of the user up to that size stays
LEAST_COVERED_TOKENS: Final = 200  # less than that is not worth a summary


class HistoryFacts(NamedTuple):
    """What a detector asks of the history that a payload is made from.

    Attributes:
        messages: Messages, notes not counted; a summary is one.
        tool_calls: Calls that the model made.
        compactable_tokens: What a summary could replace: all but the latest summary, pinned
            messages, the last message of the user and the exchange in flight. In a long run of an
            agent on one task that is the run's finished exchanges.
        grown_tokens: What was added since the last compaction; `None`: there was none.
        pinned_tokens: What pinned messages take.
        last_turn_tokens: What the last message of the user and the exchange in flight take.
        task_tokens: Of the compactable ones, those of the user's first message.
    """

    messages: int = 0
    tool_calls: int = 0
    compactable_tokens: int = 0
    grown_tokens: int | None = None
    pinned_tokens: int = 0
    last_turn_tokens: int = 0
    task_tokens: int = 0


class CompactionCheck(NamedTuple):
    """Whether a session should be compacted.

    Attributes:
        reason: `token_limit`, `price_step`, `message_count`, `tool_count` or `explicit`; `None`: it
            is not needed.
        feasible: False if what no compaction can free is over the threshold.
        floor_tokens: What no compaction can free: system prompt, tools, overhead, notes, pinned
            messages and the last turn. If it is too much, `details["culprits"]` names who uses it.
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

    They are read from sums: a history of any length takes the same time.

    Args:
        seqs: The sequence number of each line; 0: no event holds it yet.
    """
    tokens, starts = history.tokens, history.starts
    if not starts:
        return HistoryFacts()
    summary = starts[history.summaries[-1]] if history.summaries else -1
    fixed = {summary} - {-1}
    pins = {line for line in history.pins if line not in fixed}
    asked = {starts[number] for number in history.users[-1:]} - pins
    last = starts[-1]
    grown = None
    if summary >= 0:
        order = range(1, len(history) + 1) if seqs is None else seqs
        # The first exchange that is newer than the summary; what has no event yet goes by the next.
        first = bisect_right(
            starts,
            order[summary],
            lo=history.summaries[-1] + 1,
            key=lambda at: next((order[n] for n in range(at, len(order)) if order[n]), _NEVER),
        )
        grown = history.ends[-1] - history.ends[first]

    def size(*lines: int) -> int:
        return sum(tokens[line] for line in lines)

    task = {starts[number] for number in history.users[:1]} - pins - asked - {last}
    pinned, earlier = size(*pins), [line for line in pins | fixed | asked if line < last]
    in_last = size(*(line for line in pins | fixed if line >= last))
    asked_tokens = size(*(line for line in asked if line < last))
    return HistoryFacts(
        messages=history.heads[-1] - history.notes,
        tool_calls=tool_calls,
        compactable_tokens=history.ends[-2] - size(*earlier),
        grown_tokens=grown,
        pinned_tokens=pinned,
        last_turn_tokens=asked_tokens + history.size(history.count - 1) - in_last,
        task_tokens=size(*task),
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

        If what no compaction can free is over the threshold, the answer is not needed and not
        feasible, with the culprits, the largest first. Otherwise a reason counts only if enough was
        added since the last compaction and enough can be freed. `details["why"]` says the reason with
        its figures, `details["declined"]` why a reason does not count, `details["prefer"]` why the
        provider should make the compaction.

        Args:
            ledger: With the whole history, before any cut.
            limits: The model's row, for its price steps.
            is_explicit: The caller asks for it; needed as long as there is anything to summarise.
        """
        settings, sums = self.settings, dict.fromkeys(_KINDS, 0)
        for row in ledger.rows:
            sums[row.kind] += row.tokens
        fixed = sums["system"] + sums["tools"] + sums["overhead"]
        floor = fixed + sums["notes"] + history.pinned_tokens + history.last_turn_tokens
        used, current = sum(sums.values()), ledger.expected_tokens
        usable, kept = max(ledger.budget_tokens, 0), sums["history"]
        threshold = int(settings.trigger_share * usable)
        name, source = "token_limit", f"trigger_share = {settings.trigger_share:g}"
        # The lowest step of the model's price that what must stay is not over already.
        prices = limits.prices if limits is not None and settings.uses_price_steps else ()
        steps = [p.above_input_tokens for p in prices if floor < p.above_input_tokens < threshold]
        if steps:
            threshold, name = min(steps), "price_step"
            source = "uses_price_steps: above it the model's price is higher"
        counts = [(name, current, threshold, "tokens", source)]
        if kept > settings.min_history_share * usable:
            messages, calls = settings.max_messages, settings.max_tool_calls
            counts += [
                ("message_count", history.messages, messages, "messages", "max_messages"),
                ("tool_count", history.tool_calls, calls, "tool calls", "max_tool_calls"),
            ]
        due = (
            (name, f"{number:,} {what}, more than {most:,} ([compaction] {source})")
            for name, number, most, what, source in counts
            if number > most
        )
        reason, why = next(due, (None, ""))
        feasible = floor < threshold
        target = int(threshold * settings.target_share / settings.trigger_share)
        if history.task_tokens <= TASK_SHARE * target:  # it stays, as `plan_range` plans it
            compactable = history.compactable_tokens - history.task_tokens
            history = history._replace(compactable_tokens=compactable)
        declined = self._declined(sums["history"], history)
        details: dict[str, Json] = {
            **{f"{kind}_tokens": sums[kind] for kind in _KINDS},
            "counted_tokens": used,
            **dict(zip(HistoryFacts._fields, history, strict=True)),
            "target_tokens": target,
        }
        if not feasible:
            culprits = _culprits(ledger, history)
            details["culprits"] = [row._asdict() for row in culprits[:_MAX_CULPRITS]]
            declined = _infeasible(culprits, floor, threshold)
        if is_explicit:
            reason, why = "explicit", "it was asked for"
            declined = None if history.compactable_tokens > 0 else "There is nothing to summarise."
        if declined is not None and (reason is not None or not feasible):
            details["declined"] = declined
        needed = reason is not None and declined is None
        if needed:
            details["why"] = why
        if needed and limits and limits.thinking.is_prefix_bound and limits.supports("compaction"):
            details["prefer"] = _PREFER
        return CompactionCheck(
            needed, reason if needed else None, current, threshold, feasible, floor, details
        )

    def _declined(self, history_tokens: int, history: HistoryFacts) -> str | None:
        """Say why compaction would not be worth it; `None`: it would."""
        settings, grown = self.settings, history.grown_tokens
        if grown is not None and grown < max(1, settings.min_growth_tokens):
            return (
                f"Only {grown:,} tokens were added since the last compaction; "
                f"min_growth_tokens is {settings.min_growth_tokens:,}."
            )
        least = max(LEAST_COVERED_TOKENS, int(settings.min_gain_share * history_tokens))
        if history.compactable_tokens <= least:
            return (
                f"A summary could replace {history.compactable_tokens:,} tokens at most, no more "
                f"than {least:,} (min_gain_share = {settings.min_gain_share:g} of the history)."
            )
        return None


_REMEDIES: Final = {
    "system": "Shorten the instructions",
    "tools": "Offer fewer tools",
    "overhead": "Offer fewer tools",
    "notes": "Send fewer notes, or recall less",
    "pinned": "Pin fewer messages",
    "last turn": "Shorten the last message or result ([truncation] max_result_tokens)",
    "reserve": "Lower max_tokens or reserve_tokens",
}


def _culprits(ledger: Ledger, history: HistoryFacts) -> list[LedgerRow]:
    """Return who uses what no compaction can free, and the window, the largest first."""
    rows = [row for row in ledger.rows if row.kind != "history" and row.tokens]
    reserve = min(ledger.reserve_tokens, ledger.window_tokens - ledger.budget_tokens)
    rows += [
        LedgerRow("history", "pinned", history.pinned_tokens),
        LedgerRow("history", "last turn", history.last_turn_tokens),
        LedgerRow("overhead", "reserve", reserve),
    ]
    return sorted((row for row in rows if row.tokens > 0), key=lambda row: -row.tokens)


def _infeasible(culprits: Sequence[LedgerRow], floor: int, threshold: int) -> str:
    """Say what is too large, by its kind, and what to do about the largest."""
    sums = Counter[str]()
    for row in culprits:
        is_ours = row.kind in ("history", "overhead") and row.name in _REMEDIES
        sums[row.name if is_ours else row.kind] += row.tokens
    parts = [f"{name} {tokens:,}" for name, tokens in sums.most_common()]
    return (
        f"What must stay takes {floor:,} tokens, and the threshold is {threshold:,}: compaction "
        f"cannot help ({', '.join(parts)}). {_REMEDIES[sums.most_common(1)[0][0]]}, or raise the "
        "window."
    )
