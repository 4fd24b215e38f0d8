"""Times of ours alone, beside what reading the same session from SQLite takes at the least."""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.beside.harness import Harness
from benchmarks.beside.long_sessions import due_for_reply, marked, prepare_session
from benchmarks.beside.our_times import SESSION, UNSEEN, unseen
from context_assembler.limits import get_model_limits
from context_assembler.resources import bundled_path
from context_assembler.sessions import SqliteStore
from context_assembler.tokens import counter_for
from context_assembler.transcripts import read_transcript

LONG: Final = 5_000
TYPICAL: Final = 50
FAMILY: Final = "tau"
_PROCESSES: Final = 5
_ENOUGH_TOKENS: Final = 100_000
_FLOOR: Final = "import json, floor\nprint(json.dumps(floor.measure({family!r}, {length})))"


def time_ours(harness: Harness | None) -> dict[str, Any]:
    """Return milliseconds, each the median over processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        long, long_tokens = _stored(harness, LONG, Path(folder))
        small, _ = _stored(harness, TYPICAL, Path(folder), copies=_PROCESSES * UNSEEN)
        # A quarter is what the harness keeps where it measures the least way.
        long_budget, small_budget = long_tokens // 4, _ENOUGH_TOKENS
        modules = json.dumps(_run("process", long, long_budget, told=_now())["modules"])
        firsts = [_run("first", long, long_budget, told=modules) for _ in range(_PROCESSES)]
        floor_ms = _floor(harness)
        processes = [_run("process", small, small_budget, told=_now()) for _ in range(_PROCESSES)]
        typical = [
            _run("typical", small, small_budget, told=str(number * UNSEEN))
            for number in range(_PROCESSES)
        ]
    return {
        "sessions": "recorded" if harness else "sample",
        "first_ms": _median(firsts, "cold_ms"),
        "first_again_ms": _median(firsts, "again_ms"),
        "floor_ms": floor_ms,
        "process_ms": _median(processes, "process_ms"),
        "typical_cold_ms": _median(typical, "cold_ms"),
        "unseen_ms": _median(typical, "unseen_ms"),
        "cached_ms": _median(typical, "cached_ms"),
    }


def _now() -> str:
    return str(time.time())


def _median(measured: list[dict[str, Any]], field: str) -> float:
    return statistics.median(float(row[field]) for row in measured)


def _run(mode: str, database: Path, budget: int, *, told: str = "") -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.beside.our_times",
        mode,
        str(database),
        str(budget),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, input=told)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _floor(harness: Harness | None) -> float | None:
    """Return what the harness's own least way from SQLite to a payload takes; warm, as it measures."""
    if harness is None or not harness.python_of(".venv").exists():
        return None
    prepare_session(harness, FAMILY, LONG)
    command = [str(harness.python_of(".venv")), "-c", _FLOOR.format(family=FAMILY, length=LONG)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=harness.folder, check=False)
    if done.returncode:
        return None
    measured: float = json.loads(done.stdout.splitlines()[-1])["ms"]["index_trim_load"]
    return measured


def _stored(
    harness: Harness | None, length: int, folder: Path, *, copies: int = 0
) -> tuple[Path, int]:
    """Return a database that holds a session and copies of it, and the session's tokens."""
    messages = _messages(harness, length)
    path = folder / f"session-{length}.db"

    async def fill() -> None:
        store = SqliteStore(path)
        events = read_transcript(messages, format="openai_chat").events
        await store.append(SESSION, events)
        for number in range(copies):
            await store.append(unseen(number), events)
        await store.close()

    asyncio.run(fill())
    return path, _count(messages)


def _messages(harness: Harness | None, length: int) -> list[dict[str, Any]]:
    if harness is not None:
        built = json.loads(Path(prepare_session(harness, FAMILY, length)).read_text("utf-8"))
        recorded: list[dict[str, Any]] = built["messages"]
        return recorded
    sample = json.loads((bundled_path("samples") / "coding_agent.json").read_text("utf-8"))
    messages: list[dict[str, Any]] = list(sample["messages"])
    rest = [message for message in messages if message["role"] != "system"]
    number = 1
    while len(messages) < length:
        messages += [marked(message, number) for message in rest]
        number += 1
    return due_for_reply(messages[:length])


def _count(messages: list[dict[str, Any]]) -> int:
    count = counter_for(get_model_limits("gpt-5.5")).count_text
    texts = [str(message.get("content") or "") for message in messages]
    texts += [
        call["function"]["name"] + call["function"]["arguments"]
        for message in messages
        for call in message.get("tool_calls") or ()
    ]
    return sum(map(count, texts)) + 4 * len(messages)
