"""Sessions of one bundled store, copied into another one: records, events, calls and sent texts."""

from collections.abc import Iterable, Iterator
from functools import partial
from operator import eq
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from context_assembler.events import SessionHead
from context_assembler.sessions.sqlite import SqlStore

Outcome: TypeAlias = Literal["copied", "continued", "there", "differs"]
_PAGE: Final = 500  # events that are read at once


class Copied(NamedTuple):
    """What became of a session: `events` of its events were copied.

    `continued`: the target had its first events; `there`: it had all of them; `differs`: it has
    others, or another record, and was left as it is.
    """

    id: str
    outcome: Outcome
    events: int


def copy_sessions(
    source: SqlStore, target: SqlStore, heads: Iterable[SessionHead], *, is_dry: bool = False
) -> Iterator[Copied]:
    """Copy what the target lacks of sessions, and yield what became of each.

    Whatever ends it, the next run goes on from there. Derived forms are computed again.

    Args:
        is_dry: Only look: a session counts as equal if its record and number of events are.
    """
    stores = (source, target)
    for listed in heads:
        session_id = listed.session.id
        head, found = source.look(session_id), target.look(session_id)
        if head is None:  # it was deleted meanwhile
            continue
        outcome, last_seq = _compared(head, found)
        if not is_dry and outcome != "differs":
            if found is None:
                target.create_now(head.session)
            spans = [(seq + 1, min(seq + _PAGE, last_seq)) for seq in range(0, last_seq, _PAGE)]
            ours, theirs = (map(partial(_said, store, session_id), spans) for store in stores)
            if all(map(eq, ours, theirs)):
                _append(source, target, head, last_seq)
            else:
                outcome = "differs"
        events = 0 if outcome == "differs" else head.last_seq - last_seq
        yield Copied(session_id, outcome, events)


def _compared(head: SessionHead, found: SessionHead | None) -> tuple[Outcome, int]:
    """Return what is to become of a session, and how many of its events the target has."""
    if found is None:
        return "copied", 0
    ours, theirs = head.session, found.session
    if (ours, ours.nonce) != (theirs, theirs.nonce) or head.last_seq < found.last_seq:
        return "differs", 0
    return ("continued" if found.last_seq < head.last_seq else "there"), found.last_seq


def _said(store: SqlStore, session_id: str, span: tuple[int, int]) -> tuple[Any, ...]:
    return store.rows(session_id, [span]), store.bodies(session_id, [span])


def _append(source: SqlStore, target: SqlStore, head: SessionHead, after_seq: int) -> None:
    """Append the events that the target lacks, then the rows of calls, with the texts they name."""
    session_id = head.session.id
    for seq in range(after_seq, head.last_seq, _PAGE):
        limit = min(_PAGE, head.last_seq - seq)
        events = source.events(session_id, after_seq=seq, limit=limit)
        target.append_now(session_id, events, expected_seq=seq, is_counted=False)
    known = target.last_call(session_id)
    rows = source.calls(session_id, after_seq=known.reply_seq if known else 0)
    calls = [row for row in rows if row.reply_seq <= head.last_seq]
    digests = {digest for row in calls for digest in (row.system_hash, row.tools_hash)}
    found = {digest: source.text(digest) for digest in digests}
    texts = {digest: text for digest, text in found.items() if text is not None}
    if calls or after_seq < head.last_seq:
        target.keep_now(session_id, calls, texts, source.counts(session_id, head.last_seq))
