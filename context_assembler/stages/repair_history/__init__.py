"""The step that makes any history valid: one result behind every call, none elsewhere."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count
from operator import is_

from context_assembler.stages.repair_history.both_ends import (
    drop_unsent_end,
    end_with_user,
    open_with_user,
)
from context_assembler.stages.repair_history.pairing import (
    Pairing,
    Place,
    are_paired,
    pair_results,
)
from context_assembler.stages.repair_history.repairs import RepairLog, fit_message
from context_assembler.stages.repair_history.server_calls import pair_server_calls
from context_assembler.stages.repair_history.unread_arguments import settle_arguments
from context_assembler.values.exchanges import NO_RESULT
from context_assembler.values.messages import Message, MessageKind
from context_assembler.values.parts import Part, Text, ToolCall, ToolResult
from context_assembler.values.report import ReportEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """A valid history, and one entry for every repair, in order of appearance."""

    messages: tuple[Message, ...]
    entries: tuple[ReportEntry, ...] = ()


def repair_history(
    messages: Sequence[Message], *, accepts_prefill: bool = False, provider: str | None = None
) -> Repaired:
    """Return the history as every provider can take it.

    Idempotent. A message that needs no repair is returned as the same object. Neighbours of one
    role stay apart: merging them is the renderer's part.

    Args:
        accepts_prefill: Whether the model takes a history that ends on the assistant. A reply with
            its reasoning is nothing to go on from: a model that may not think just then refuses it.
        provider: Whom the history is sent to; by default whoever wrote the last reply. It goes on
            from a call of its own that waits for it at the end, and from nobody else's.
    """
    log = RepairLog()
    fitting = [fit_message(at, message, log) for at, message in enumerate(messages)]
    paired = fitting if are_paired(fitting) else _pair(fitting, log, provider=provider)
    opened = open_with_user(drop_unsent_end(paired, log), log)
    ended = end_with_user(opened, log, accepts_prefill=accepts_prefill, provider=provider)
    return Repaired(messages=tuple(ended), entries=log.entries())


# ---- calls and results ----


def _pair(messages: Sequence[Message], log: RepairLog, *, provider: str | None) -> list[Message]:
    """Return the messages with one result behind every call, and none elsewhere."""
    answered, places = _pair_calls(messages, log)
    called = settle_arguments(answered, log, places=places)
    return pair_server_calls(called, log, places=places, provider=provider)


@dataclass(frozen=True, slots=True, kw_only=True)
class _History:
    """Messages with their calls and results matched.

    `standing[i]` counts the messages before message *i* that are more than results.
    """

    messages: Sequence[Message]
    pairing: Pairing
    standing: Sequence[int]
    log: RepairLog

    def part(self, place: Place) -> Part:
        return self.messages[place[0]].parts[place[1]]

    def stands_apart(self, at: int, place: Place) -> bool:
        """Whether the result at `place` is not directly behind the message at `at`."""
        return place[0] < at or self.standing[place[0]] > self.standing[at + 1]


def _pair_calls(messages: Sequence[Message], log: RepairLog) -> tuple[list[Message], list[int]]:
    """Put one `tool` message right behind every message with calls, and none anywhere else.

    Each comes with the place of the message that it was, or that its calls were, in the history.
    """
    standing = list(accumulate(map(_stands, messages), initial=0))
    history = _History(
        messages=messages, pairing=pair_results(messages), standing=standing, log=log
    )
    _report_left_over(history)
    paired: list[Message] = []
    places: list[int] = []
    for at, message in enumerate(messages):
        if message.role == "tool" or not message.parts:
            continue
        spoken = _without_results(at, message, log)
        if message.role == "assistant":  # nobody else calls
            spoken = _with_distinct_ids(at, spoken, log)
        if spoken.parts:
            paired.append(spoken)
        if message.role == "assistant" and (calls := spoken.tool_calls):
            paired.append(_results_behind(history, at, calls))
        places += [at] * (len(paired) - len(places))
    return paired, places


def _stands(message: Message) -> bool:
    return message.role != "tool" and len(message.tool_results) < len(message.parts)


def _report_left_over(history: _History) -> None:
    for places, rule, reason in (
        (history.pairing.duplicates, "duplicate_result", "has a result already; the first counts"),
        (history.pairing.orphans, "orphan_result", "does not exist"),
    ):
        for place in places:
            result = history.part(place)
            assert isinstance(result, ToolResult)
            message = history.messages[place[0]]
            sentence = f"The result was left out: its call {result.call_id!r} {reason}."
            history.log.add(place[0], message, "dropped", rule, sentence)


def _without_results(at: int, message: Message, log: RepairLog) -> Message:
    if not message.tool_results:
        return message
    kept = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    reason = f"Tool results were taken out of a message of role {message.role}."
    log.add(at, message, "repaired", "misplaced", reason)
    return replace(message, parts=kept)


def _with_distinct_ids(at: int, message: Message, log: RepairLog) -> Message:
    """Number the ids of different calls that share one in the same message."""
    taken = [call.call_id for call in message.tool_calls]
    if len(set(taken)) == len(taken):
        return message
    used: set[str] = set()
    parts: list[Part] = []
    for part in message.parts:
        named = part
        if isinstance(part, ToolCall):
            named = _with_free_id(part, used=used, taken=taken)
            used.add(named.call_id)
            if named is not part:
                reason = f"Two calls shared the id {part.call_id!r}; one became {named.call_id!r}."
                log.add(at, message, "repaired", "shared_call_id", reason)
        parts.append(named)
    return replace(message, parts=tuple(parts))


def _with_free_id(call: ToolCall, *, used: Collection[str], taken: Collection[str]) -> ToolCall:
    if call.call_id not in used:
        return call
    numbered = (f"{call.call_id}_{number}" for number in count(2))
    return replace(call, call_id=next(n for n in numbered if n not in used and n not in taken))


def _results_behind(history: _History, at: int, calls: Sequence[ToolCall]) -> Message:
    """Return the message with one result for each of the calls, in their order."""
    message = history.messages[at]
    sources = [
        history.pairing.result_places.get((at, index))
        for index, part in enumerate(message.parts)
        if isinstance(part, ToolCall)
    ]
    results: list[ToolResult] = []
    for call, source in zip(calls, sources, strict=True):
        result = None if source is None else history.part(source)
        if isinstance(result, ToolResult):
            is_same = result.call_id == call.call_id
            results.append(result if is_same else replace(result, call_id=call.call_id))
        else:
            reason = (
                f"The call {call.call_id!r} ({call.name}) has no result; an error stands in for it."
            )
            history.log.add(at, message, "repaired", "missing_result", reason)
            results.append(_no_result(call))
    found = [source for source in sources if source is not None]
    return _tool_message(history, at, tuple(results), found)


def _no_result(call: ToolCall) -> ToolResult:
    return ToolResult(
        call_id=call.call_id, content=(Text(NO_RESULT),), is_error=True, tool_name=call.name
    )


def _tool_message(
    history: _History, at: int, results: tuple[ToolResult, ...], found: Sequence[Place]
) -> Message:
    """Return the results as a message: the stored one where it holds just these."""
    if not found:
        return Message(role="tool", parts=results, kind="synthetic", origin="assembler")
    holders = [history.messages[index] for index in sorted({index for index, _ in found})]
    first = holders[0]
    if any(history.stands_apart(at, place) for place in found):
        reason = "Tool results stood apart from their calls; they were moved right behind them."
        history.log.add(min(found)[0], first, "repaired", "moved_result", reason)
    elif list(found) != sorted(found) or len(holders) > 1:
        reason = "The results of one set of calls were put together, in the order of the calls."
        history.log.add(min(found)[0], first, "repaired", "grouped_results", reason)
    if len(holders) == 1 and first.role == "tool" and _holds_just(first, results):
        return first
    is_ours = all(holder.kind == "synthetic" for holder in holders)
    kind: MessageKind = "synthetic" if is_ours else "said"
    return replace(
        first,
        role="tool",
        parts=results,
        kind=kind,
        made_by=None,
        note=None,
        origin=first.origin if first.role == "tool" else "tool",
        is_pinned=any(holder.is_pinned for holder in holders),
    )


def _holds_just(message: Message, results: tuple[ToolResult, ...]) -> bool:
    return len(message.parts) == len(results) and all(map(is_, message.parts, results))
