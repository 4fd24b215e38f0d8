"""The step that names the message at which a call stops to be what the last one was, and why."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from context_assembler.values.forecasts import PrefixBreak
from context_assembler.values.messages import Message
from context_assembler.values.report import ReportEntry

_CHAIN: Final = "reasoning.chain"
STRIPPED: Final = frozenset({"reasoning.prefix", _CHAIN})
"""The rules by which reasoning that was sent before may not be sent any more."""

_NOT_THERE: Final = "It did not stand at this place in the last call."
_BACK: Final = "What the last call had left out before this place is sent again."
_OTHERWISE: Final = "It was sent otherwise in the last call."
_COMPACTED: Final = "It stands in for what the last call was sent before it."
_THE_END: Final = "the end"

_CUTS: Final = (".drop", ".window")
# What these did to a message follows from it alone: it was done in every call.
_AS_EVER: Final = ("entry.", "media.")


def name_break(
    messages: Sequence[Message],
    entries: Iterable[ReportEntry],
    *,
    shared: int,
    before: Sequence[Message] | None = None,
) -> PrefixBreak:
    """Return the first message that the last call did not send at its place, and why.

    Args:
        messages: What is sent now.
        entries: The rows of the report.
        shared: With how many messages both begin; without `before`, with how many at the least.
        before: What the last call sent, where that is known.
    """
    here = messages[shared] if shared < len(messages) else None
    name = _THE_END if here is None else _name_of(here)
    if here is not None and here.kind == "summary" and not _is_among(before or (), here):
        return _broken(name, _COMPACTED)
    rows = [row for row in entries if row.kind == "message"]
    if before is not None:
        return _broken(name, _why(here, rows, sent=messages, left=before[shared:]))
    later = _behind(rows, messages[:shared])
    dropped = next((row for row in later if _is_cut(row)), None)
    behind = messages[shared:]
    if dropped is not None:
        marker = next((_name_of(one) for one in behind if one.kind == "marker"), name)
        return _broken(marker, dropped.reason)
    by_id = {row.id: row for row in later if row.id and _may_be_new(row)}
    changed = next((by_id[one.id] for one in behind if one.id in by_id), None)
    return _broken(name, _NOT_THERE) if changed is None else _broken(changed.id, changed.reason)


def may_break_chains(entries: Iterable[ReportEntry], *, within: Collection[str]) -> bool:
    """Whether reasoning may be left out because of what stands behind these messages."""
    rows = [row for row in entries if row.rule.startswith("reasoning.")]
    others = (row.id for row in rows if row.rule != _CHAIN)
    return any(row.rule == _CHAIN for row in rows) and any(name not in within for name in others)


def _behind(rows: Sequence[ReportEntry], sent: Iterable[Message]) -> Sequence[ReportEntry]:
    """Return the rows of messages that stand behind all of these."""
    ids = {message.id for message in sent if message.id}
    places = (at for at, row in enumerate(rows, start=1) if row.id in ids)
    return rows[max(places, default=0) :]


def _why(
    here: Message | None,
    rows: Sequence[ReportEntry],
    *,
    sent: Sequence[Message],
    left: Sequence[Message],
) -> str:
    """Return what became of the message that stood here, or of the first that is not sent again."""
    was = left[0] if left else None
    if here is not None and was is not None and here.id and here.id == was.id:
        if was.is_signed and not here.is_signed:
            return _reason_of(row for row in rows if row.rule in STRIPPED) or _OTHERWISE
        own = (row for row in reversed(rows) if row.id == here.id and _may_be_new(row))
        return _reason_of(own) or _OTHERWISE
    ids = {message.id for message in sent}
    gone = next((one.id for one in left if one.id and one.id not in ids), None)
    if gone is None and was is not None and was.kind == "marker":
        return _BACK
    return _reason_of(row for row in reversed(rows) if row.id == gone) or _NOT_THERE


def _is_among(messages: Iterable[Message], one: Message) -> bool:
    return bool(one.id) and any(message.id == one.id for message in messages)


def _is_cut(row: ReportEntry) -> bool:
    return row.decision == "dropped" and row.rule.endswith(_CUTS)


def _may_be_new(row: ReportEntry) -> bool:
    return row.decision != "kept" and not row.rule.startswith(_AS_EVER)


def _reason_of(rows: Iterable[ReportEntry]) -> str:
    return next((row.reason for row in rows if row.reason), "")


def _broken(name: str, reason: str) -> PrefixBreak:
    return PrefixBreak(piece="message", id=name, reason=reason)


def _name_of(message: Message) -> str:
    return message.id or message.note or message.kind
