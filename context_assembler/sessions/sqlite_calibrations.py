"""Rows of calibrations in SQLite."""

import json
import sqlite3
from typing import TypeAlias

from context_assembler.sqlite.schema import has_table, transaction
from context_assembler.values.calibration import Calibration, UsageObservation, learn
from context_assembler.values.given import check_type
from context_assembler.values.json_shapes import is_array

_Row: TypeAlias = tuple[str, str, str, str, float, int, int, str]

_SELECT = """
    SELECT provider, model, shape, counter, factor, observations, refused, recent
    FROM calibrations
"""


def find_calibrations(connection: sqlite3.Connection) -> list[Calibration]:
    """Return all that is known, by provider, model and shape; nothing in a file of before."""
    try:
        rows = connection.execute(f"{_SELECT} ORDER BY provider, model, shape")
    except sqlite3.OperationalError:
        if has_table(connection, "calibrations"):
            raise
        return []
    return [_calibration(row) for row in rows]


def observe_usage(connection: sqlite3.Connection, seen: UsageObservation) -> Calibration:
    """Learn from one call in one transaction, and return what is known since."""
    check_type("seen", seen, UsageObservation, such_as="UsageObservation(…)")
    with transaction(connection):
        row = connection.execute(
            f"{_SELECT} WHERE provider = ? AND model = ? AND shape = ?",
            (seen.provider, seen.model, seen.shape),
        ).fetchone()
        known = learn(None if row is None else _calibration(row), seen)
        connection.execute(
            "INSERT OR REPLACE INTO calibrations VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                known.provider,
                known.model,
                known.shape,
                known.counter,
                known.factor,
                known.observations,
                known.refused,
                json.dumps(known.recent),
            ),
        )
    return known


def _calibration(row: _Row) -> Calibration:
    provider, model, shape, counter, factor, observations, refused, recent = row
    ratios = json.loads(recent)
    return Calibration(
        provider=provider,
        model=model,
        shape="tools" if shape == "tools" else "text",
        counter=counter,
        factor=factor,
        observations=observations,
        refused=refused,
        recent=tuple(map(float, ratios)) if is_array(ratios) else (),
    )
