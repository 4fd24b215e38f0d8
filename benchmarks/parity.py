"""Compare what is assembled today with the answers of an earlier build, payload by payload.

    python -m benchmarks.parity CORPUS ANSWERS [--only TEXT] [--show N] [--part K --parts N]

ANSWERS is the folder that `benchmarks/reference_answers.py` writes; `--earlier PYTHON` (or the
variable CONTEXT_ASSEMBLER_EARLIER) names an interpreter that has the earlier build, and computes what
is missing there first. Of every recorded session and accepted request, × strategy × share of the
session's size × provider, compared are: the payload's bytes or the error, the decision for every
message, the ledger, and the counts. Exit code 1 if a payload is invalid or over budget, or if a kind
of difference touches more than 0.5 % of the payloads.
"""

import argparse
import asyncio
import collections
import gzip
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.reference_answers import MODELS, SHARES, STRATEGIES, digest
from context_assembler import ContextAssembler, ContextOverflowError, InMemoryStore
from context_assembler.events import Session, SessionEvent, event_of, kind_of
from context_assembler.ports import ToolSpec


def read_event(given: dict[str, Any]) -> SessionEvent:
    """Return the event that a file of answers holds."""
    from datetime import datetime

    created = given["created_at"]
    kind = kind_of(given["type"], given["body"], is_pinned=given["is_pinned"])
    return event_of(
        given["body"],
        kind=kind,
        id=given["id"],
        seq=0,
        created_at=None if created is None else datetime.fromisoformat(created),
    )


class Tally:
    """How many payloads are equal, and in what the others differ."""

    def __init__(self) -> None:
        self.compared = self.equal = 0
        self.kinds: collections.Counter[str] = collections.Counter()
        self.examples: dict[str, list[str]] = collections.defaultdict(list)
        self.broken: list[str] = []

    def note(self, kind: str, where: str) -> None:
        """Count one difference."""
        self.kinds[kind] += 1
        if len(self.examples[kind]) < 5:
            self.examples[kind].append(where)


async def answer(assembler: ContextAssembler, **options: Any) -> dict[str, Any]:
    """Return what one assembly gives, or which error; as `reference_answers` does."""
    try:
        context = await assembler.assemble("s", **options)
        payload = context.to_request()
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)[:300]}
    messages = [entry for entry in context.report.entries if entry.kind == "message"]
    return {
        "payload": digest(payload),
        "used_tokens": context.metadata.ledger.used_tokens,
        "messages": [[turn["id"], turn["kind"], turn["role"]] for turn in context.messages],
        "decisions": sorted(
            [one.id, one.decision, one.rule] for one in messages if one.decision != "kept"
        ),
    }


def kind_of_difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """Return in what two answers differ; `None` if they are equal."""
    if "error" in old or "error" in new:
        if old.get("error") == new.get("error"):
            return None
        return f"error {old.get('error', 'none')} → {new.get('error', 'none')}"
    if old["payload"] == new["payload"]:
        if old["used_tokens"] != new["used_tokens"]:
            return "count (same payload)"
        decisions = sorted([i, did, r] for i, did, *_, r in old["decisions"] if did != "kept")
        return None if decisions == new["decisions"] else "report (same payload)"
    if old["used_tokens"] == new["used_tokens"] and old["messages"] == new["messages"]:
        return "bytes (same messages, same count)"
    if old["messages"] == new["messages"]:
        return "shortened or counted otherwise (same messages)"
    return "other messages"


async def compare(name: str, found: dict[str, Any], tally: Tally) -> None:
    """Compare one session under every provider, strategy and share."""
    store = InMemoryStore()
    await store.create(Session(id="s"))
    await store.append("s", [read_event(event) for event in found["events"]])
    tools = [ToolSpec(**tool) for tool in found["tools"]]
    assembler = ContextAssembler(sessions=store, tools=tools, bootstrap=None)
    for provider, model in MODELS.items():
        old = found["answers"][provider]
        for key in ("whole", *(f"{s} {x:g}" for s in STRATEGIES for x in SHARES)):
            if key not in old:
                continue
            options: dict[str, Any] = {"model": model}
            if key != "whole":
                strategy, share = key.split()
                budget = max(1, int(old["whole"]["used_tokens"] * float(share)))
                options |= {
                    "max_context_tokens": budget,
                    "truncation_strategy": strategy,
                    "on_overflow": "shorten",
                }
            where = f"{name} {provider} {key}"
            new = await answer(assembler, **options)
            tally.compared += 1
            if new.get("error") not in (None, "ContextOverflowError", "EmptySessionError"):
                tally.broken.append(f"{where}: {new['error']} {new['text']}")
            kind = kind_of_difference(old[key], new)
            if kind is None:
                tally.equal += 1
            else:
                tally.note(f"{provider}: {kind}", where)
            await check(assembler, options, where, tally)


async def check(
    assembler: ContextAssembler, options: dict[str, Any], where: str, tally: Tally
) -> None:
    """Note a payload that its provider refuses, or that is over its budget."""
    try:
        context = await assembler.assemble("s", **options)
    except ContextOverflowError:
        return
    except Exception:
        return
    tally.broken += [f"{where}: {v}" for v in context.check() if v.level == "refused"]
    ledger = context.metadata.ledger
    if ledger.used_tokens > ledger.budget_tokens:
        tally.broken.append(f"{where}: {ledger.used_tokens} of {ledger.budget_tokens} tokens")


def load(path: Path) -> dict[str, Any]:
    """Return one file of answers."""
    with gzip.open(path, "rt", encoding="utf-8", errors="surrogatepass") as file:
        found: dict[str, Any] = json.load(file)
    return found


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--earlier", default=os.environ.get("CONTEXT_ASSEMBLER_EARLIER"))
    parser.add_argument("--only", default="")
    parser.add_argument("--show", type=int, default=3)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="take only every n-th session")
    parser.add_argument("--seconds", type=float, default=500)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.earlier:
        script = Path(__file__).with_name("reference_answers.py")
        command = [given.earlier, str(script), str(given.corpus), str(given.answers)]
        if subprocess.run(command, check=False).returncode:
            return 2
    tally, end, seen = Tally(), time.monotonic() + given.seconds, 0
    for number, path in enumerate(sorted(given.answers.glob("*.json.gz"))):
        if number % given.parts != given.part or number % given.every:
            continue
        found = load(path)
        if given.only not in found["name"]:
            continue
        if time.monotonic() > end:
            print("stopped by --seconds; use --part and --parts for the rest")
            break
        try:
            asyncio.run(compare(found["name"], found, tally))
        except Exception as error:
            tally.broken.append(f"{found['name']}: {type(error).__name__}: {error}")
        seen += 1
    share = tally.equal / tally.compared if tally.compared else 0
    print(f"{seen} sessions, {tally.compared:,} payloads, {tally.equal:,} equal ({share:.2%})")
    for kind, count in tally.kinds.most_common():
        print(f"  {count:6,} {kind}")
        for where in tally.examples[kind][: given.show]:
            print(f"           {where}")
    print(f"{len(tally.broken):,} invalid, over budget or failed")
    for problem in tally.broken[: 5 * given.show]:
        print(f"  {problem[:300]}")
    worst = max(tally.kinds.values(), default=0)
    return 1 if tally.broken or worst > 0.005 * tally.compared else 0


if __name__ == "__main__":
    sys.exit(main())
