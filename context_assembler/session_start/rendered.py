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
    memory_file = os.path.realpath(path) if scheme == "sqlite" else ""
    if "\n" in context.project + memory_file:
        return
    os.makedirs(state, mode=0o700, exist_ok=True)
    layers = ",".join(context.layers)
    head = f"{context.project}\n{memory_file}\n{context.tokens}\n{layers}\n"
    with closing(sqlite3.connect(Path(state, "rendered.db"), timeout=LOCKED_SECONDS)) as db, db:
        row = context.project, context.text, context.tokens, layers
        db.execute(_TABLE)
        db.execute("INSERT OR REPLACE INTO rendered VALUES (?, ?, ?, ?)", row)
    handle, written = tempfile.mkstemp(dir=state)
    with os.fdopen(handle, "wb") as file:
        file.write((head + context.text).encode("utf-8", "replace"))
    os.replace(written, snapshot_path(state, context.project))
