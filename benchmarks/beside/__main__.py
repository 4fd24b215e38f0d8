"""Ours beside every peer that is installed, from one run.

    python -m benchmarks.beside [--plan usual|full|quick] [--only NAME,…] [--parts PART,…] [--write]

Times are taken in turns, so that all peers have the same machine; compare the ratios, not the
milliseconds. The harness, its peers and its recorded sessions come from the folder in
CONTEXT_ASSEMBLER_BENCH; without it only our own times are taken, on our sample session. Results lie
in `.bench-data/results.json`; `--write` makes `docs/benchmarks.md` of them.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.beside.environments import find_installed
from benchmarks.beside.harness import BENCH, SCRATCH, Harness
from benchmarks.beside.our_sessions import time_ours
from benchmarks.beside.page import write_page
from benchmarks.beside.peer_times import say, time_calls, time_first_calls
from benchmarks.beside.plans import PLANS, Plan
from benchmarks.beside.replays import replay
from benchmarks.beside.tables import all_tables

RESULTS: Final = SCRATCH / "results.json"
PARTS: Final = ("ours", "first", "times", "replays")


def main() -> None:
    """Measure, print, and keep the results."""
    # As users run it: where no bytecode is kept, most of an import is compiling the same once more.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    arguments = _arguments()
    plan = PLANS[arguments.plan]
    parts = arguments.parts.split(",")
    results = _opened(keeps=arguments.parts != ",".join(PARTS) or bool(arguments.only))
    results["machine"] = _machine(arguments.plan)
    harness = Harness.lay_out()
    if harness is None:
        print(f"No peers and no replays: {BENCH} holds no harness. Set CONTEXT_ASSEMBLER_BENCH.")
    if "ours" in parts:
        results["ours"] = time_ours(harness)
        _keep(results)
    if harness is not None:
        _measure_peers(results, harness, plan, parts=parts, only=arguments.only)
    for title, table in all_tables(results):
        print(f"\n## {title}\n\n{table}", flush=True)
    if arguments.write:
        write_page(results)


def _measure_peers(
    results: dict[str, Any], harness: Harness, plan: Plan, *, parts: list[str], only: str
) -> None:
    specs, missing = find_installed(harness, plan)
    wanted = [name for name in only.split(",") if name]
    specs = [s for s in specs if not wanted or any(w in s["name"] for w in wanted)]
    results["peers"] = {**results.get("peers", {}), **{s["name"]: s for s in specs}}
    results["missing"] = missing
    timed = [s for s in specs if not s["name"].startswith("context-assembler-step-")]
    played = [s for s in specs if s["name"] != "context-assembler-warm"]
    measures: Mapping[str, Callable[[], dict[str, Any]]] = {
        "first": lambda: time_first_calls(harness, timed, runs=3),
        "times": lambda: time_calls(harness, timed, plan),
        "replays": lambda: replay(harness, played, plan),
    }
    for part in parts:
        if part in measures:
            say(f"{part}: {len(specs)} peers")
            results[part] = {**results.get(part, {}), **measures[part]()}
            _keep(results)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--plan", choices=PLANS, default="usual")
    parser.add_argument("--only", default="", help="parts of names; the others stay as they were")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    return parser.parse_args()


def _opened(*, keeps: bool) -> dict[str, Any]:
    if keeps and RESULTS.exists():
        kept: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
        return kept
    return {}


def _keep(results: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")


def _machine(plan: str) -> dict[str, Any]:
    return {
        "plan": plan,
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _processor() -> str:
    names = Path("/proc/cpuinfo")
    if names.exists():
        for line in names.read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


if __name__ == "__main__":
    main()
