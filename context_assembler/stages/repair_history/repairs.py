"""Repairs of single messages, with the log of everything that was repaired."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Final

from context_assembler.errors.base import with_article
from context_assembler.stages.repair_history.clean_parts import clean_part
from context_assembler.values.arguments import is_unread
from context_assembler.values.messages import Message, Role
from context_assembler.values.native.part_signatures import bears_signature
from context_assembler.values.parts import (
    JsonObject,
    Part,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.report import Decision, ReportEntry

_AT_END: Final = 1 << 62  # behind any message


@dataclass(slots=True)
class RepairLog:
    """The repairs made so far, each with the place in the history of the message it was made at."""

    rows: list[tuple[int, ReportEntry]] = field(default_factory=list[tuple[int, ReportEntry]])

    def add(self, at: int, message: Message, decision: Decision, rule: str, reason: str) -> None:
        entry = ReportEntry(
            kind="message", id=message.id, decision=decision, rule=f"repair.{rule}", reason=reason
        )
        self.rows.append((at, entry))

    def add_at_end(self, message: Message, decision: Decision, rule: str, reason: str) -> None:
        self.add(_AT_END, message, decision, rule, reason)

    def entries(self) -> tuple[ReportEntry, ...]:
        return tuple(entry for _, entry in sorted(self.rows, key=lambda row: row[0]))


def fit_message(at: int, message: Message, log: RepairLog) -> Message:
    """Return the message with clean text and only parts that belong into its role."""
    if _fits(message):
        return message
    if not message.parts:
        log.add(at, message, "dropped", "empty", f"The {message.role} message was empty.")
        return message
    parts = tuple(map(clean_part, message.parts))
    if not all(map(is_, parts, message.parts)):
        log.add(at, message, "repaired", "clean_text", _tell_cleaned(message.parts, parts))
    parts = _drop_blank(at, message, parts, log)
    parts = _drop_misplaced(at, message, parts, log)
    parts = _drop_repeated_calls(at, message, parts, log)
    return replace(message, parts=parts)


def _tell_cleaned(before: Iterable[Part], after: Iterable[Part]) -> str:
    count = sum(map(_is_sealed, before)) - sum(map(_is_sealed, after))
    lost = f" {count} signature(s) of what was cleaned are not sent." if count else ""
    return f"NULs or lone surrogates were cleaned away.{lost}"


def _is_sealed(part: Part) -> bool:
    return bears_signature(part) or (isinstance(part, Thinking) and part.is_signed)


def _fits(message: Message) -> bool:
    for part in message.parts:
        if _is_blank(part) or not _belongs(part, message.role) or clean_part(part) is not part:
            return False
    if message.role != "assistant":
        return bool(message.parts)
    calls = message.tool_calls
    return bool(message.parts) and len({call.call_id for call in calls}) == len(calls)


def _belongs(part: Part, role: Role) -> bool:
    if role == "assistant":
        return True
    if role == "tool":
        return isinstance(part, ToolResult)
    return not isinstance(part, ToolCall | Thinking)


def _drop_blank(
    at: int, message: Message, parts: tuple[Part, ...], log: RepairLog
) -> tuple[Part, ...]:
    kept = tuple(part for part in parts if not _is_blank(part))
    if len(kept) < len(parts):
        what = "blank text was left out" if kept else "the message held nothing but blank text"
        decision: Decision = "repaired" if kept else "dropped"
        log.add(at, message, decision, "blank", f"{what[0].upper()}{what[1:]}.")
    return kept


def _is_blank(part: Part) -> bool:
    if isinstance(part, Text):
        return not part.text.strip()
    return isinstance(part, Thinking) and not part.is_signed and not part.text.strip()


def _drop_misplaced(
    at: int, message: Message, parts: tuple[Part, ...], log: RepairLog
) -> tuple[Part, ...]:
    """Leave the assistant's parts to it alone, and nothing but results to tool messages.

    Text in a tool message joins the result before it.
    """
    if message.role == "tool":
        kept: tuple[Part, ...] = _fold_into_results(parts)
    else:
        kept = tuple(part for part in parts if _belongs(part, message.role))
    if len(kept) < len(parts):
        decision: Decision = "repaired" if kept else "dropped"
        reason = f"Parts that do not belong into {with_article(message.role)} message were taken out of it."
        log.add(at, message, decision, "misplaced", reason)
    return kept


def _fold_into_results(parts: Iterable[Part]) -> tuple[Part, ...]:
    results: list[ToolResult] = []
    loose: list[ResultPart] = []  # what stands before the first result
    for part in parts:
        if isinstance(part, ToolResult):
            results.append(replace(part, content=(*loose, *part.content)) if loose else part)
            loose = []
        elif not isinstance(part, ToolCall | Thinking):
            if results:
                results[-1] = replace(results[-1], content=(*results[-1].content, part))
            else:
                loose.append(part)
    return tuple(results)


def _drop_repeated_calls(
    at: int, message: Message, parts: tuple[Part, ...], log: RepairLog
) -> tuple[Part, ...]:
    seen: dict[str, list[ToolCall]] = {}
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCall):
            alike = seen.setdefault(part.call_id, [])
            if any(_asks_for(call) == _asks_for(part) for call in alike):
                reason = f"The call {part.call_id!r} stood twice in one message."
                log.add(at, message, "repaired", "repeated_call", reason)
                continue
            alike.append(part)
        kept.append(part)
    return tuple(kept)


def _asks_for(call: ToolCall) -> tuple[str, JsonObject, str | None]:
    return call.name, call.arguments, call.arguments_json if is_unread(call) else None
