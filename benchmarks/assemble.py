"""Time to assemble a stored session at half its size, beside the peers that are installed.

    python -m benchmarks.assemble [--peers PYTHON] [--sizes 50,1000,5000] [--seconds 5]

Every figure of one run comes from the same machine within minutes: compare the ratios, not the
milliseconds. *Cold* is a new process from its first import to its first payload; *warm* is the
median of further calls, *step* of calls behind a new exchange (a peer has no state to go on from: its
steps are its warm calls). Ours reads events from SQLite and does everything `assemble` does (repair,
exact counts, report, provider rendering); a peer reads rows from SQLite, decodes, trims and
converts back. The peers' adapters come from the folder in CONTEXT_ASSEMBLER_BENCH.
"""

import argparse
import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.bench_sessions import BENCH, build_messages
from context_assembler.limits import get_model_limits
from context_assembler.sessions import SqliteStore
from context_assembler.tokens import counter_for
from context_assembler.transcripts import read_transcript

HERE: Final = Path(__file__).parent
_TIKTOKEN_CACHE: Final = Path(".bench-data/tiktoken").resolve()


def store_ours(path: Path, messages: list[dict[str, Any]]) -> None:
    """Import the messages as a session."""

    async def fill() -> None:
        store = SqliteStore(path)
        await store.append("bench", read_transcript(messages, format="openai_chat").events)
        await store.close()

    asyncio.run(fill())


def store_rows(path: Path, messages: list[dict[str, Any]]) -> None:
    """Keep the messages as a peer's user would: one row of JSON each."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE messages (seq INTEGER PRIMARY KEY, body TEXT)")
        connection.executemany(
            "INSERT INTO messages VALUES (?, ?)",
            [(number, json.dumps(message)) for number, message in enumerate(messages)],
        )


def count_tokens(messages: list[dict[str, Any]]) -> int:
    """Return the size of the session with the usual framing of Chat Completions."""
    count = counter_for(get_model_limits("gpt-5.5")).count_text
    total = 3
    for message in messages:
        total += 4 + count(message.get("content") or "")
        for call in message.get("tool_calls") or ():
            total += 3 + count(call["function"]["name"]) + count(call["function"]["arguments"])
    return total


def find_peers(python: Path) -> list[tuple[str, str]]:
    """Return module and name of every peer whose package that interpreter has."""
    script = (
        "import importlib,importlib.metadata,json,pathlib,sys\n"
        "found=[]\n"
        "for path in sorted(pathlib.Path('peers').glob('*_peers.py')):\n"
        "    try:\n"
        "        peers=importlib.import_module('peers.'+path.stem).PEERS\n"
        "        [importlib.metadata.version(p.package) for p in peers if p.package]\n"
        "    except Exception: continue\n"
        "    found+=[(path.stem,p.name) for p in peers]\n"
        "print(json.dumps(found))"
    )
    done = _run([str(python), "-c", script], seconds=180)
    return [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])] if done else []


def prepare_tokenizer(python: Path) -> None:
    """Give tiktoken, as the peers use it, the vocabularies that litellm's wheel carries."""
    script = (
        "import importlib.util as u;print(u.find_spec('litellm').submodule_search_locations[0])"
    )
    done = _run([str(python), "-c", script], seconds=60)
    if done is None:
        return
    source = Path(done.stdout.strip()) / "litellm_core_utils" / "tokenizers"
    _TIKTOKEN_CACHE.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if re.fullmatch(r"[0-9a-f]{40}", file.name):
            (_TIKTOKEN_CACHE / file.name).write_bytes(file.read_bytes())


def _run(command: list[str], *, seconds: float) -> subprocess.CompletedProcess[str] | None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(BENCH),
        "TIKTOKEN_CACHE_DIR": str(_TIKTOKEN_CACHE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    is_peer = Path(command[0]) != Path(sys.executable)
    try:
        return subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=BENCH if is_peer else None,
            env=environment if is_peer else None,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None


def measure(command: list[str], *, seconds: float) -> dict[str, Any] | None:
    """Return what a worker measured, or nothing where it failed or took too long."""
    done = _run(command, seconds=seconds)
    return json.loads(done.stdout.splitlines()[-1]) if done else None


def print_row(name: str, figures: dict[str, Any] | None, ours: dict[str, Any]) -> None:
    """Print one line of the table."""
    if figures is None:
        print(f"| {name} | – | – | – | – | – |")
        return
    cold, warm = figures["cold_ms"], figures["warm_ms"]
    step = f"{figures['step_ms']:,.2f}" if "step_ms" in figures else "–"
    print(
        f"| {name} | {cold:,.0f} | {cold / ours['cold_ms']:.2f} "
        f"| {warm:,.2f} | {warm / ours['warm_ms']:.2f} | {step} |",
        flush=True,
    )


def main() -> None:
    """Measure and print one table for each size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peers", type=Path, default=Path(".venv-bench/bin/python"))
    parser.add_argument("--sizes", default="50,1000,5000")
    parser.add_argument("--seconds", type=float, default=5.0, help="for the warm calls of one peer")
    arguments = parser.parse_args()
    has_peers = arguments.peers.exists() and (BENCH / "peers").is_dir()
    peers: list[tuple[str, str]] = []
    if has_peers:
        prepare_tokenizer(arguments.peers.absolute())
        peers = find_peers(arguments.peers.absolute())
    else:
        print(f"No peers: needs {arguments.peers} and {BENCH / 'peers'}.")
    for size in map(int, arguments.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            measure_size(size, Path(folder), peers=peers, arguments=arguments)


def measure_size(
    size: int, folder: Path, *, peers: list[tuple[str, str]], arguments: argparse.Namespace
) -> None:
    """Print the table of one session length."""
    origin, messages = build_messages(size)
    ours_file, rows_file = folder / "ours.db", folder / "rows.db"
    store_ours(ours_file, messages)
    store_rows(rows_file, messages)
    budget = str(count_tokens(messages) // 2)
    print(f"\n## {len(messages):,} messages, budget {int(budget):,} tokens ({origin})\n")
    print("| | cold ms | ÷ ours | warm ms | ÷ ours | step ms |")
    print("|---|---|---|---|---|---|")
    limit = str(arguments.seconds)
    command = [sys.executable, str(HERE / "our_worker.py"), str(ours_file), budget, limit]
    ours = measure(command, seconds=120)
    assert ours is not None, "our own worker failed"
    print_row("**context-assembler**", ours, ours)
    for module, name in peers:
        worker = str((HERE / "peer_worker.py").absolute())
        command = [str(arguments.peers.absolute()), worker, module, name, str(rows_file), budget]
        print_row(name, measure([*command, limit], seconds=60 + arguments.seconds), ours)
    again = measure(
        [sys.executable, str(HERE / "our_worker.py"), str(ours_file), budget, limit], seconds=120
    )
    print_row("context-assembler, again at the end", again, ours)


if __name__ == "__main__":
    main()
