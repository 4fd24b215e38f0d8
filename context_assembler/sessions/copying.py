"""Everything that one bundled session store holds, copied into another one, row by row."""

from collections.abc import Collection, Iterable, Iterator
from sqlite3 import Connection
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from context_assembler.events import SessionHead
from context_assembler.sessions.sqlite import (
    SqlStore,
    damaged,
    family_numbers,
    find_session,
    last_in_block,
    renumbered,
)

Outcome: TypeAlias = Literal["copied", "continued", "there", "differs"]
_PAGE: Final = 500  # rows that are read at once
# In these ?1 is the key of a session, ?2 the last sequence number that was read.
_EVENTS: Final = (
    "SELECT key & 4294967295, kind, id, created_at, body, columns FROM events "
    "WHERE key > (?1 << 32) + ?2 AND key < (?1 + 1) << 32 ORDER BY key LIMIT ?3"
)
_BLOCKS: Final = (
    "SELECT key & 4294967295, data FROM blocks WHERE key >= ?1 << 32 AND key < (?1 + 1) << 32"
)
_DERIVED: Final = "SELECT purpose, seq, value FROM derived WHERE session = ?"
_CALLS: Final = (
    "SELECT number, session, reply_seq, answers_seq, model, factor, learned, body FROM calls "
    "WHERE number > ? ORDER BY number LIMIT ?"
)
_TEXTS: Final = (
    "SELECT hash, text FROM texts WHERE hash > ? AND hash <> 'encryption' ORDER BY hash LIMIT ?"
)


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
    """Copy what the target lacks of sessions, each in one transaction; yield what became of each.

    Whatever ends it, the next run goes on from there. Calls and texts come last, in the order in
    which they were recorded: the last one to use a model is whom the next session learns from.

    Args:
        is_dry: Only look: a session counts as equal if its record and number of events are.
    """
    same: list[str] = []
    for listed in heads:
        head, found = source.look(listed.session.id), target.look(listed.session.id)
        if head is None:  # it was deleted meanwhile
            continue
        outcome, events = _compared(head, found)
        if not is_dry and outcome != "differs":
            if found is None:
                target.create_now(head.session)
            outcome = outcome if _copy_events(source, target, head) else "differs"
        if outcome == "differs":
            events = 0
        else:
            same.append(head.session.id)
        yield Copied(head.session.id, outcome, events)
    if not is_dry:
        _copy_calls(source, target, same)


def _compared(head: SessionHead, found: SessionHead | None) -> tuple[Outcome, int]:
    if found is None:
        return "copied", head.last_seq
    lacking = head.last_seq - found.last_seq
    ours, theirs = head.session, found.session
    if (ours, ours.nonce) != (theirs, theirs.nonce) or lacking < 0:
        return "differs", 0
    return ("continued", lacking) if lacking else ("there", 0)


def _copy_events(source: SqlStore, target: SqlStore, head: SessionHead) -> bool:
    """Copy the events that the target lacks, with columns and forms; false if others are there."""
    seal, open_ours = target.encryption.seal, target.encryption.open
    with source.reading() as theirs, target.writing() as ours:
        key, _ = find_session(theirs, head.session.id)
        own, last_seq = find_session(ours, head.session.id)
        known = family_numbers(theirs)
        numbers = family_numbers(ours, known)
        family_of = {0: 0} | {number: numbers[name] for name, number in known.items()}
        seq = 0
        while rows := _page(theirs, _EVENTS, key, seq, min(_PAGE, head.last_seq - seq)):
            there = _page(ours, _EVENTS, own, seq, max(min(len(rows), last_seq - seq), 0))
            opened: list[Any] = [(*row[:4], source.encryption.open(row[4]), row[5]) for row in rows]
            if [(*row[:4], open_ours(row[4])) for row in there] != [
                row[:-1] for row in opened[: len(there)]
            ]:
                return False
            ours.executemany(
                "INSERT INTO events (key, kind, id, created_at, body, columns) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (own << 32 | row[0], *row[1:4], seal(row[4]), renumbered(row[5], family_of))
                    for row in opened[len(there) :]
                ],
            )
            seq = rows[-1][0]
        if seq < head.last_seq:
            raise damaged(f"Event {seq + 1} of {head.session.id!r}", "it is not there")
        if last_seq < head.last_seq:
            blocks = [
                (own << 32 | family_of[place >> 24] << 24 | place & 0xFFFFFF, data)
                for place, data in theirs.execute(_BLOCKS, (key,)).fetchall()
                if last_in_block(place, data) <= seq  # others appended meanwhile
            ]
            kept = "INSERT INTO blocks VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET "
            ours.executemany(f"{kept} data = excluded.data", blocks)
            derived = [row for row in _page(theirs, _DERIVED, key) if row[1] <= seq]
            forms = [(own, *row) for row in _moved(source, target, derived)]
            kept = "INSERT INTO derived VALUES (?, ?, ?, ?) ON CONFLICT (session, purpose, seq) "
            ours.executemany(f"{kept} DO UPDATE SET value = excluded.value", forms)
            changed = "UPDATE sessions SET last_seq = ?, version = version + 1 WHERE key = ?"
            ours.execute(changed, (seq, own))
    return True


def _copy_calls(source: SqlStore, target: SqlStore, session_ids: Collection[str]) -> None:
    listed = "SELECT id, key, last_seq FROM sessions"
    newest = "SELECT session, max(reply_seq) FROM calls GROUP BY session"
    with source.reading() as theirs, target.writing() as ours:
        own = {name: rest for name, *rest in ours.execute(listed).fetchall() if name in session_ids}
        had = dict(ours.execute(newest).fetchall())
        keys = {key: own[name] for name, key, _ in theirs.execute(listed).fetchall() if name in own}
        number, digest = 0, ""
        while rows := _page(theirs, _CALLS, number, _PAGE):
            ours.executemany(
                "INSERT INTO calls (session, reply_seq, answers_seq, model, factor, learned, body) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (keys[key][0], *rest)
                    for _, key, *rest in _moved(source, target, rows)
                    if key in keys and had.get(keys[key][0], 0) < rest[0] <= keys[key][1]
                ],
            )
            number = rows[-1][0]
        while rows := _page(theirs, _TEXTS, digest, _PAGE):
            ours.executemany(
                "INSERT INTO texts VALUES (?, ?) ON CONFLICT DO NOTHING",
                _moved(source, target, rows),
            )
            digest = rows[-1][0]


def _moved(source: SqlStore, target: SqlStore, rows: Iterable[Any]) -> list[Any]:
    """Return rows whose last value is encrypted as the target does."""
    seal, unseal = target.encryption.seal, source.encryption.open
    return [(*rest, seal(unseal(raw))) for *rest, raw in rows]


def _page(db: Connection, sql: str, *values: Any) -> list[Any]:
    return db.execute(sql, values).fetchall()
