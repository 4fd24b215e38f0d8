"""Summaries that a provider wrote itself, as other providers can be told them."""

from collections.abc import Iterable
from dataclasses import replace

from context_assembler.values.compactions import is_compaction
from context_assembler.values.messages import Message
from context_assembler.values.native.response_items import PROVIDER as RESPONSES
from context_assembler.values.native.response_texts import describe_entry
from context_assembler.values.parts import Opaque, Part, Text
from context_assembler.values.report import ReportEntry


def is_sealed(messages: Iterable[Message]) -> bool:
    """Whether only the provider that wrote one of the summaries can read it: it has no plain text."""
    return any(
        message.kind == "summary"
        and not message.text.strip()
        and any(map(is_compaction, message.parts))
        for message in messages
    )


def settle_summaries(
    messages: Iterable[Message], *, provider: str
) -> tuple[tuple[Message, ...], list[ReportEntry]]:
    """Return the messages, other providers' blocks in summaries as text, and a row for each change.

    Where a text says the same, the blocks are left out; else what can be read of them is the text.
    """
    settled: list[Message] = []
    rows: list[ReportEntry] = []
    for message in messages:
        parts = _settle(message, provider) if message.kind == "summary" else message.parts
        if parts == message.parts:
            settled.append(message)
            continue
        settled.append(replace(message, parts=parts))
        rows.append(_row(message))
    return tuple(settled), rows


def _row(message: Message) -> ReportEntry:
    if is_sealed([message]) and not any(map(_is_told, message.parts)):
        return ReportEntry(
            kind="message",
            id=message.id or message.kind,
            decision="shortened",
            reason="A compaction of another provider cannot be read here, and has no plain text: what "
            "it covers is not sent. Assemble the session for a model of this provider.",
            rule="compaction.lost",
        )
    return ReportEntry(
        kind="message",
        id=message.id or message.kind,
        decision="repaired",
        reason="A compaction of another provider cannot be read here; its text stands in for it.",
        rule="compaction.twin",
    )


def _is_told(part: Part) -> bool:
    return isinstance(part, Opaque) and is_compaction(part) and bool(part.text.strip())


def _settle(message: Message, provider: str) -> tuple[Part, ...]:
    kept = tuple(p for p in message.parts if not isinstance(p, Opaque) or p.provider == provider)
    if message.text.strip() or len(kept) == len(message.parts):
        return kept
    foreign = [part for part in message.parts if isinstance(part, Opaque) and part not in kept]
    told = filter(None, map(_text_of, foreign))
    text = "\n".join(dict.fromkeys(told))
    return (*kept, Text(text)) if text.strip() else message.parts


def _text_of(part: Opaque) -> str:
    return part.text or (describe_entry(part.block) if part.provider == RESPONSES else "")
