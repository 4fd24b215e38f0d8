"""Sessions of one bundled store, copied into another one: records, events, calls and sent texts."""

from collections.abc import Callable, Iterable, Iterator
from operator import eq
from typing import Final, Literal, NamedTuple, TypeAlias

from context_assembler.events import CallRow, SessionEvent, SessionHead
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

    Whatever ends it, the next run goes on from there. Columns and derived forms are computed again.

    Args:
        is_dry: Only look: a session counts as equal if its record and number of events are.
    """
    for listed in heads:
        session_id = listed.session.id
        head, found = source.look(session_id), target.look(session_id)
        if head is None:  # it was deleted meanwhile
            continue
        outcome, last_seq = _compared(head, found)
        if not is_dry and outcome != "differs":
            if found is None:
                target.create_now(head.session)
            ours, theirs = (_pages(store, session_id, 0, last_seq) for store in (source, target))
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


def _pages(
    store: SqlStore, session_id: str, after_seq: int, until_seq: int
) -> Iterator[list[SessionEvent]]:
    for seq in range(after_seq, until_seq, _PAGE):
        yield store.events(session_id, after_seq=seq, limit=min(_PAGE, until_seq - seq))


def _append(source: SqlStore, target: SqlStore, head: SessionHead, after_seq: int) -> None:
    """Append the events that the target lacks, each reply with the row of its call."""
    session_id = head.session.id
    rows = {row.reply_seq: row for row in source.calls(session_id, after_seq=after_seq)}
    for page in _pages(source, session_id, after_seq, head.last_seq):
        for batch, call in with_calls(page, lambda event: rows.get(event.seq)):
            digests = (call.system_hash, call.tools_hash) if call else ()
            texts = {digest: source.text(digest) for digest in digests}
            target.append_now(
                session_id,
                batch,
                expected_seq=after_seq,
                call=call,
                texts={digest: text for digest, text in texts.items() if text is not None},
                is_durable=batch[-1].seq == head.last_seq,
            )
            after_seq = batch[-1].seq


def with_calls(
    events: Iterable[SessionEvent], call_of: Callable[[SessionEvent], CallRow | None]
) -> Iterator[tuple[list[SessionEvent], CallRow | None]]:
    """Yield the events up to each reply with the row of its call; at last those behind them."""
    batch = list[SessionEvent]()
    for event in events:
        batch.append(event)
        if call := call_of(event):
            yield batch, call
            batch = []
    if batch:
        yield batch, None
