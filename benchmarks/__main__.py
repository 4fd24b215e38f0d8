"""How fast, how small: the table of targets, from one run, in CPU time.

    python -m benchmarks [--plan quick|default|full|tiny] [--part N] [--earlier PYTHON] [--again]

Runs five parts, each under nine minutes; what a part has measured lies in `.bench-data` and is not
measured again unless `--again` is given. `--part N` runs one, and prints what is known by then.
Sessions are laid end to end from those of CONTEXT_ASSEMBLER_CORPUS, or generated without it.
`--earlier` names a Python that has another release of the package, to be measured beside.

Milliseconds are scaled to a machine on which the trim that reads nothing but what it keeps
(`index_trim_load`) takes 11.8 ms CPU at 5,000 messages; it is timed in the same processes.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.data import ROOT, SCRATCH, corpus, long_session
from benchmarks.targets import write_table
from benchmarks.worker import LARGE_TOKENS

WORKER: Final = Path(__file__).with_name("worker.py")
RECALL: Final = WORKER.with_name("recall.py")
PEERS: Final = ROOT / ".venv-bench" / "bin" / "python"
PEER_PACKAGES: Final = ("langchain-core", "llmbuffer")
_TIMEOUT_SECONDS: Final = 500


class Plan(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    first: int = 200
    cold: tuple[int, ...] = (5_000, 100_000)
    steps: tuple[int, ...] = (1_000, 5_000, 20_000)
    turns: tuple[int, ...] = (200, 5_000)
    many: int = 200
    small: int = 50
    held: int = 5_000
    floor: int = 5_000
    memories: tuple[int, ...] = (10_000, 100_000)
    few: tuple[int, ...] = (50, 200)
    fitted: int = 302
    replayed: int = 200
    replays: int | None = None  # of each family of sessions; all


_TINY: Final = Plan(
    *(1, 40, (80,), (80,), (40,), 2, 40, 80, 80, (80,)), fitted=40, replayed=80, replays=1
)
PLANS: Final = {
    "tiny": _TINY,  # to see that it runs
    "quick": Plan(
        *(2, 200, (1_000,), (200,), (200,), 10, 50, 1_000), memories=(10_000,), replays=1
    ),
    "default": Plan(),
    "full": Plan(rounds=15, many=600, memories=(10_000, 100_000, 1_000_000)),
}


class Run:
    """One run: what is stored, what was measured."""

    def __init__(
        self,
        plan: str,
        *,
        earlier: str | None = None,
        again: bool = False,
        folder: Path = SCRATCH,
        peers: bool = True,
    ) -> None:
        self.plan, self.asks_peers = PLANS[plan], peers
        self.folder = folder / plan
        self.results = self.folder / "results.json"
        self.pythons = {"ours": sys.executable} | ({"earlier": earlier} if earlier else {})
        self.found: dict[str, Any] = {}
        if self.results.exists() and not again:
            self.found = json.loads(self.results.read_text("utf-8"))
        self.found["about"] = {
            "plan": plan,
            "date": time.strftime("%Y-%m-%d"),
            "python": sys.version.split()[0],
            "cores": os.cpu_count(),
            "sessions": "recorded" if corpus() else "generated",
        }

    @cached_property
    def has_peers(self) -> bool:
        """Whether the peers are installed; they are, at the first run that can."""
        if not self.asks_peers:
            return False
        if not PEERS.exists():
            print(f"Installing {' and '.join(PEER_PACKAGES)} beside ours …", flush=True)
            subprocess.run([sys.executable, "-m", "venv", ROOT / ".venv-bench"], check=True)
        script = "import langchain_core, llmbuffer"
        if not subprocess.run(
            [PEERS, "-c", script], check=False, stderr=subprocess.DEVNULL
        ).returncode:
            return True
        installing = [str(PEERS), "-m", "pip", "install", "-q", *PEER_PACKAGES]
        return not subprocess.run(installing, check=False).returncode

    def part(self, number: int) -> None:
        """Run one part, as far as it is not measured yet."""
        parts = {1: self._first, 2: self._cold, 3: self._steps, 4: self._many, 5: self._recall}
        for measure, who, given in parts[number]():
            key = f"{measure} {given.get('length', '')} {who}"
            rounds = given.pop("times", 1)
            while len(self.found.get(key, [])) < rounds:
                answer = self._measure(measure, who, given)
                self.found.setdefault(key, []).append(answer)
                self.results.parent.mkdir(parents=True, exist_ok=True)
                self.results.write_text(json.dumps(self.found), "utf-8")
                if "error" in answer:
                    print(f"{key}: {answer['error']}", flush=True)

    def _first(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        plan = self.plan
        length = plan.first
        given = {"length": length, "budget": self._tokens(length)}
        for number in range(1, plan.rounds + 1):  # in turns
            for who in self.pythons:
                yield "first", who, {**given, "times": number}
            if self.has_peers:
                half = self._tokens(length) // 2
                yield (
                    "langchain_first",
                    "langchain",
                    {"length": length, "budget": half} | {"times": number},
                )
        held = {"length": plan.held, "budget": self._tokens(plan.held) // 4}
        for who in self.pythons:
            yield "memory", who, {**held, "times": min(3, plan.rounds)}
            yield "calls", who, dict(held)

    def _cold(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for length in self.plan.cold:
            quarter = self._tokens(length) // 4
            budget = min(quarter, LARGE_TOKENS)
            given = {
                "length": length,
                "budget": budget,
                "quarter": quarter,
                "index": str(self.folder / f"{length}.index.db"),
                "rounds": self.plan.rounds,
            }
            for who in self.pythons:
                yield "cold", who, dict(given)

    def _steps(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for length in self.plan.steps:
            given = {"length": length, "count": self.plan.many, "floor": self._floor()}
            given["budget"] = min(self._tokens(length) // 2, LARGE_TOKENS)
            for who in self.pythons:
                yield "turns", who, dict(given)
            if self.has_peers and length <= 1_000:  # it takes minutes from 5,000 on
                yield "llmbuffer", "llmbuffer", {"length": length, "budget": given["budget"]}
        for length in self.plan.turns:  # all of it is sent
            whole = {"length": length, "count": self.plan.many // 2, "floor": self._floor()}
            for who in self.pythons:
                yield "whole", who, {**whole, "budget": None}

    def _many(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for who in self.pythons:
            given = {"length": self.plan.small, "floor": self._floor()}
            yield "small", who, {**given, "times": min(3, self.plan.rounds)}
            yield "hundred", who, {**given, "count": max(1, self.plan.many // 10)}
        length, rounds = self.plan.fitted, 2 * self.plan.rounds
        budget = min(30_000, self._tokens(length) // 2)
        given = {"length": length, "budget": budget, "rounds": rounds}
        yield "fit", "ours", dict(given)
        if self.has_peers:
            yield "langchain_trim", "langchain", dict(given)
        for by in ("assembler", "fit_messages"):
            played = {"length": self.plan.replayed, "seeds": self.plan.replays, "by": by}
            yield f"replay-{by}", "ours", played

    def _recall(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        given = {"corpus": str(corpus() or "")}
        for length in self.plan.memories:
            yield "recall", "ours", {**given, "length": length}
            yield "recall_vectors", "ours", {**given, "length": length, "vectors": True}
        for length in self.plan.few:
            yield "listing", "ours", {**given, "length": length}

    def _measure(self, measure: str, who: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Run one measure in a process of its own; what is stored is stored before."""
        python, folder = self.pythons.get(who, str(PEERS)), self.folder
        length = given["length"]
        if measure in {"recall", "recall_vectors", "listing"}:
            folder.mkdir(parents=True, exist_ok=True)
            called = measure.partition("_")[0]
            return _call(python, called, {**given, "folder": str(folder)}, RECALL)
        if measure == "fit" or measure.startswith("replay"):
            self._session(length)
        elif who in self.pythons:
            folder = self._stored(who)
            copies = 100 if measure == "hundred" else 1
            self._prepare(who, length, copies)
        else:
            self._session(length)
        called = "turns" if measure == "whole" else measure.partition("-")[0]
        return _call(python, called, {**given, "folder": str(folder)})

    def _prepare(self, who: str, length: int, copies: int) -> None:
        folder = self._stored(who)
        name = f"{length}{'' if copies == 1 else f'x{copies}'}.db"
        self._session(length)
        if not (folder / name).exists():
            folder.mkdir(parents=True, exist_ok=True)
            given = {"folder": str(folder), "length": length, "copies": copies}
            answer = _call(self.pythons[who], "prepare", given)
            if "error" in answer:
                (folder / name).unlink(missing_ok=True)

    def _stored(self, who: str) -> Path:
        """Return where sessions are stored; another folder if what stores them has changed."""
        if who != "ours":
            return self.folder / who
        package = ROOT / "context_assembler"
        sources = [*sorted((package / "sessions").glob("*.py")), package / "tokens/__init__.py"]
        told = blake2b(b"".join(path.read_bytes() for path in sources), digest_size=4).hexdigest()
        return self.folder / f"{who}-{told}"

    def _session(self, length: int) -> Path:
        path = self.folder / f"{length}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(long_session(length)), "utf-8")
        return path

    def _tokens(self, length: int) -> int:
        """Return what a session takes; it is stored for `index_trim_load` with its counts."""
        known = self.found.setdefault("tokens", {})
        if str(length) not in known or not (self.folder / f"{length}.index.db").exists():
            self._session(length)
            answer = _call(
                sys.executable, "prepare_index", {"folder": str(self.folder), "length": length}
            )
            known[str(length)] = answer["tokens"]
        tokens: int = known[str(length)]
        return tokens

    def _floor(self) -> dict[str, Any]:
        length = self.plan.floor
        return {"base": str(self.folder), "length": length, "tokens": self._tokens(length)}


def _call(
    python: str, measure: str, given: Mapping[str, Any], worker: Path = WORKER
) -> dict[str, Any]:
    command = [python, str(worker), measure, json.dumps(given)]
    # As users run it: where no bytecode is kept, most of an import is compiling the same once more.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            env=environment,
            cwd=given["folder"],  # which has no settings: a pyproject.toml would be read
        )
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {_TIMEOUT_SECONDS} s"}
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:300]}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main() -> None:
    """Measure what is not measured yet, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--plan", choices=PLANS, default="default")
    parser.add_argument("--part", type=int, choices=(1, 2, 3, 4, 5))
    parser.add_argument("--earlier", default=os.environ.get("CONTEXT_ASSEMBLER_EARLIER"))
    parser.add_argument("--again", action="store_true", help="measure what is known once more")
    given = parser.parse_args()
    run = Run(given.plan, earlier=given.earlier, again=given.again)
    for number in (given.part,) if given.part else (1, 2, 3, 4, 5):
        started = time.monotonic()
        run.part(number)
        print(f"part {number}: {time.monotonic() - started:.0f} s", flush=True)
    print(write_table(run.found))


if __name__ == "__main__":
    main()
