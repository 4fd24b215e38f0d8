"""Times one peer's trimming of a stored session; run by assemble.py inside the peers' environment.

    python peer_worker.py MODULE NAME DATABASE BUDGET SECONDS

Prints one JSON line. A call reads the rows from SQLite, decodes them, trims and converts back: what
an application would do before each model call.
"""

import time

_STARTED = time.perf_counter()

import importlib  # noqa: E402 - the clock starts before anything is imported
import importlib.metadata  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import os  # noqa: E402
import sqlite3  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import warnings  # noqa: E402
from typing import Any  # noqa: E402


def read_rows(database: str) -> list[dict[str, Any]]:
    """Return the stored messages."""
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT body FROM messages ORDER BY seq").fetchall()
    return [json.loads(body) for (body,) in rows]


def main() -> None:
    """Measure and print."""
    module, name, database, budget, seconds = sys.argv[1:]
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    peer = next(p for p in importlib.import_module(f"peers.{module}").PEERS if p.name == name)
    messages = read_rows(database)
    system = [m for m in messages if m["role"] == "system"][:1]
    body = [m for m in messages if m["role"] != "system"]
    mean = sum(len(json.dumps(m)) for m in body) / len(body) / 4
    users = max(1, sum(m["role"] == "user" for m in body))
    peer.configure(
        {
            "mean_tokens": mean,
            "tokens_per_invocation": mean * len(body) / users,
            "system_tokens": len(json.dumps(system)) // 4,
            "pins": [],
        }
    )

    def call() -> int:
        history = read_rows(database)
        if peer.external_system:
            history = [m for m in history if m["role"] != "system"]
        return len(peer.export(peer.trim_native(peer.prepare(history), int(budget))))

    kept = call()
    cold_ms = (time.perf_counter() - _STARTED) * 1e3
    samples: list[float] = []
    deadline = time.perf_counter() + float(seconds)
    while len(samples) < 7 and (not samples or time.perf_counter() < deadline):
        started = time.perf_counter()
        call()
        samples.append((time.perf_counter() - started) * 1e3)
    version = importlib.metadata.version(peer.package) if peer.package else ""
    print(
        json.dumps(
            {
                "cold_ms": cold_ms,
                "warm_ms": statistics.median(samples),
                "kept": kept,
                "version": version,
            }
        )
    )


if __name__ == "__main__":
    main()
