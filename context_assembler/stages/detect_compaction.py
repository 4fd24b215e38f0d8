"""Whether a session should be compacted, whether that can help, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from context_assembler.ports import TokenCounter
from context_assembler.values.exchanges import split_exchanges
from context_assembler.values.ledger import Ledger
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.options import CompactionSettings
from context_assembler.values.parts import Json
from context_assembler.values.report import CompactionCheck

_MAX_CULPRITS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFacts:
    """What a detector asks of the history that a payload is made from.

    Attributes:
        messages: Messages, less notes and markers; a summary is one.
        tool_calls: Calls that the model made.
        compactable_tokens: What a summary could replace: all but the latest summary, pinned
            messages, the last message of the user and the exchange in flight. In a long run of an
            agent on one task that is the run's finished exchanges.
        grown_tokens: What came in since the last compaction; `None` when there was none.
    """

    messages: int = 0
    tool_calls: int = 0
    compactable_tokens: int = 0
    grown_tokens: int | None = None


def read_history(messages: Sequence[Message], *, counter: TokenCounter) -> HistoryFacts:
    """Return the facts of a history as it stands after the last compaction, before any cut."""
    summary = next((m for m in reversed(messages) if m.kind == "summary"), None)
    exchanges = split_exchanges(messages)
    asked = next((m for m in reversed(messages) if m.is_from_user), None)
    finished = [message for exchange in exchanges[:-1] for message in exchange]
    loose = [m for m in finished if m is not summary and m is not asked and not m.is_pinned]
    arrived = [m for m in messages if summary and (m.seq > summary.seq or m.seq == 0)]
    return HistoryFacts(
        messages=sum(m.kind not in ("note", "marker") for m in messages),
        tool_calls=sum(len(m.tool_calls) for m in messages if m.role == "assistant"),
        compactable_tokens=sum(map(counter.count_message, loose)),
        grown_tokens=sum(map(counter.count_message, arrived)) if summary else None,
    )


class CompactionDetector:
    """Advises when to compact."""

    def __init__(self, settings: CompactionSettings | None = None) -> None:
        self._settings = settings or CompactionSettings()

    def find_reason(
        self, ledger: Ledger, *, history: HistoryFacts, limits: ModelLimits | None = None
    ) -> str | None:
        """Return why to compact, as `check` says it, without its figures; `None`: it is not needed."""
        reason, threshold = self._reason(ledger, history, limits)
        if reason is None or ledger.fixed_tokens >= threshold:
            return None
        return reason if self._declined(ledger, history) is None else None

    def check(
        self,
        ledger: Ledger,
        *,
        history: HistoryFacts,
        limits: ModelLimits | None = None,
        is_explicit: bool = False,
    ) -> CompactionCheck:
        """Return the advice; the same facts always give the same.

        Where the fixed part alone is over the threshold the answer is not needed and not feasible,
        with the culprits, however often it is asked: no compaction can change it. Otherwise a
        reason is followed only if enough came in since the last compaction and enough can be freed;
        `why` among the details says it with its figures.

        Args:
            ledger: With the rows of the whole history, before any cut; where it is anchored in what
                the provider charged last, that is the total.
            limits: The model's row, for its price steps.
            is_explicit: The caller asks for it; needed as long as there is anything to summarise.
        """
        reason, threshold = self._reason(ledger, history, limits)
        feasible = ledger.fixed_tokens < threshold
        declined = self._declined(ledger, history) if feasible else _infeasible(ledger, threshold)
        if is_explicit:
            reason = "explicit"
            declined = None if history.compactable_tokens else "There is nothing to summarise."
        details = self._details(ledger, history, threshold)
        if declined is not None and (reason is not None or not feasible):
            details["declined"] = declined
        if not feasible:
            details["culprits"] = _culprits(ledger)
        if reason is not None and declined is None:
            details["why"] = self._say_why(reason, ledger, history, threshold)
        return CompactionCheck(
            needed=reason is not None and declined is None,
            reason=reason if declined is None else None,
            current_tokens=ledger.expected_tokens,
            threshold=threshold,
            feasible=feasible,
            floor_tokens=ledger.fixed_tokens,
            details=details,
        )

    def _reason(
        self, ledger: Ledger, history: HistoryFacts, limits: ModelLimits | None
    ) -> tuple[str | None, int]:
        """Return the first reason there is, and the token threshold that holds."""
        settings = self._settings
        threshold = int(settings.trigger_share * max(ledger.budget_tokens, 0))
        price_step = self._price_step(ledger, limits)
        name = "token_limit"
        if price_step is not None and price_step < threshold:
            name, threshold = "price_step", price_step
        if ledger.expected_tokens > threshold:
            return name, threshold
        if history.messages > settings.max_messages:
            return "message_count", threshold
        if history.tool_calls > settings.max_tool_calls:
            return "tool_count", threshold
        return None, threshold

    def _say_why(self, reason: str, ledger: Ledger, history: HistoryFacts, threshold: int) -> str:
        """Say a reason with its figures and the setting behind it."""
        settings = self._settings
        over = f"{ledger.expected_tokens:,} tokens, more than {threshold:,}"
        sentences = {
            "token_limit": f"{over} ([compaction] trigger_share = {settings.trigger_share:g})",
            "price_step": f"{over}, above which the model's price is higher "
            "([compaction] uses_price_steps)",
            "message_count": f"{history.messages:,} messages, more than {settings.max_messages:,} "
            "([compaction] max_messages)",
            "tool_count": f"{history.tool_calls:,} tool calls, more than "
            f"{settings.max_tool_calls:,} ([compaction] max_tool_calls)",
            "explicit": "it was asked for",
        }
        return sentences[reason]

    def _price_step(self, ledger: Ledger, limits: ModelLimits | None) -> int | None:
        """Return the lowest step of the model's price that the fixed part is not over already."""
        if limits is None or not self._settings.uses_price_steps:
            return None
        steps = [price.above_input_tokens for price in limits.prices]
        return min((step for step in steps if step > ledger.fixed_tokens), default=None)

    def _declined(self, ledger: Ledger, history: HistoryFacts) -> str | None:
        """Say why compaction would not be worth it; `None` when it would."""
        settings = self._settings
        grown = history.grown_tokens
        if grown is not None and grown < settings.min_growth_tokens:
            return (
                f"Only {grown:,} tokens came in since the last compaction; "
                f"min_growth_tokens is {settings.min_growth_tokens:,}."
            )
        least = settings.min_gain_share * ledger.tokens_of("history")
        if history.compactable_tokens <= least:
            return (
                f"A summary could replace {history.compactable_tokens:,} tokens at most, no more "
                f"than min_gain_share ({settings.min_gain_share:g}) of the history."
            )
        return None

    def _details(self, ledger: Ledger, history: HistoryFacts, threshold: int) -> dict[str, Json]:
        return {
            "system_tokens": ledger.tokens_of("system"),
            "tools_tokens": ledger.tokens_of("tools"),
            "overhead_tokens": ledger.tokens_of("overhead"),
            "history_tokens": ledger.tokens_of("history"),
            "notes_tokens": ledger.tokens_of("notes"),
            "counted_tokens": ledger.used_tokens,
            "anchored_tokens": ledger.anchored_tokens,
            "messages": history.messages,
            "tool_calls": history.tool_calls,
            "compactable_tokens": history.compactable_tokens,
            "grown_tokens": history.grown_tokens,
            "target_tokens": int(
                threshold * self._settings.target_share / self._settings.trigger_share
            ),
        }


def _infeasible(ledger: Ledger, threshold: int) -> str:
    return (
        f"System prompt {ledger.tokens_of('system'):,}, tools {ledger.tokens_of('tools'):,} and "
        f"overhead {ledger.tokens_of('overhead'):,} tokens are over the threshold of {threshold:,} "
        "by themselves: compaction cannot help. Offer fewer tools, shorten the instructions, or "
        "raise the window."
    )


def _culprits(ledger: Ledger) -> list[Json]:
    """List the largest users of the fixed part, largest first."""
    fixed = [row for row in ledger.rows if row.kind in ("system", "tools", "overhead")]
    largest = sorted(fixed, key=lambda row: -row.tokens)[:_MAX_CULPRITS]
    return [{"kind": row.kind, "name": row.name, "tokens": row.tokens} for row in largest]
