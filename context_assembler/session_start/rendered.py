"""Rendered project memory where the hook finds it: a snapshot, and a row of a table in SQLite."""

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from context_assembler.session_start.inject import LOCKED_SECONDS, snapshot_path
from context_assembler.session_start.layers import StartContext

_TABLE = """CREATE TABLE IF NOT EXISTS rendered (
    project TEXT PRIMARY KEY, text TEXT NOT NULL, tokens INTEGER NOT NULL, layers TEXT NOT NULL)"""


def keep_rendered(context: StartContext, state: str, *, store: str = "") -> None:
    """Keep a context for the hook, if its project can be named on one line.

    Args:
        state: The folder; it is made if needed, for its owner alone.
        store: URL of the store that it was read from: once a SQLite file changes, the snapshot is
            old. Close the store first, as its last writes go to the file then.
    """
    scheme, _, path = store.partition(":")
    memory_file = os.path.realpath(os.path.expanduser(path)) if scheme == "sqlite" else ""
    if "\n" in context.project + memory_file:
        return
    snapshot = snapshot_path(state, context.project)
    if not context.text and not os.path.exists(snapshot):  # nothing is known, and nothing was
        return
    os.makedirs(state, mode=0o700, exist_ok=True)
    layers = ",".join(context.layers)
    head = f"{context.project}\n{memory_file}\n{context.tokens}\n{layers}\n"
    _put_row(Path(state, "rendered.db"), (context.project, context.text, context.tokens, layers))
    handle, written = tempfile.mkstemp(dir=state)
    with os.fdopen(handle, "wb") as file:
        file.write((head + context.text).encode("utf-8", "replace"))
    os.replace(written, snapshot)


def forget_rendered(state: str) -> None:
    """Delete everything rendered: a memory was forgotten, and may be in any of it."""
    for path in (*Path(state).glob("snapshot-*.md"), Path(state, "rendered.db")):
        path.unlink(missing_ok=True)


def _put_row(path: Path, row: tuple[object, ...]) -> None:
    """Put a row into the table; one that is damaged is made anew, a locked one left alone."""
    for _ in range(2):
        try:
            with closing(sqlite3.connect(path, timeout=LOCKED_SECONDS)) as db, db:
                db.execute(_TABLE)
                db.execute("INSERT OR REPLACE INTO rendered VALUES (?, ?, ?, ?)", row)
        except sqlite3.OperationalError:  # another one writes: the snapshot is enough
            return
        except sqlite3.DatabaseError:
            path.unlink()
        else:
            return
