"""`docs/benchmarks.md`, written from what a run measured."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.beside.harness import ROOT
from benchmarks.beside.losses import losses
from benchmarks.beside.tables import all_tables

PAGE: Final[Path] = ROOT / "docs" / "benchmarks.md"

_INTRODUCTION: Final = """\
# Benchmarks

Written by `make bench` from one run; nothing on this page is typed by hand.

{machine}

Compare the ratios, not the milliseconds: peers and ours took turns on the same machine.

## How to run it

```console
$ make bench                                # about twenty minutes
$ make bench BENCH_OPTIONS="--plan full"    # every peer, patiently
```

The harness with the adapters of the peers is not part of this repository: `CONTEXT_ASSEMBLER_BENCH`
names its folder.
Without it our own times alone are taken, on the sample session.
Our adapter is `benchmarks/peers/context_assembler_peers.py`: settings as they come, the budget as
`max_context_tokens`, and pinned what the user asked to keep.

## What is measured

- *Budgets* are 25, 50 and 90 % of what the whole session takes, by the harness's own count.
- *A call* is the trim call of a peer on converted messages, and for ours all of `assemble`: reading,
  repair, exact counts, cut, report.
  `context-assembler` sees the session for the first time; `context-assembler-warm` sees one new
  exchange behind what it knows, which is what a step of an agent loop is.
  A peer keeps nothing between calls: its step is its call.
- *A replay* appends the messages of a recorded session one by one, and assembles before each reply.
  Figures are over the calls after the session first exceeds the budget.
  *Played* says how far a slow peer came in the time that it was given.
- *Cost* counts a cached token 0.1 and any other 1.25 (A, Anthropic's prices) or 1.0 (O, OpenAI's),
  divided by what sending everything costs.
- *Cached* is the longest common prefix with the payload before, in whole messages.
- *Strict* means: what the API refuses, and besides the system prompt unchanged and in front, the
  user first, no reply last.
- `ref-ideal-hysteresis-70` is the harness's own reference: it remembers its last cut, and when over
  budget drops the oldest to 70 % of it.
  In brackets stands what the reference costs at the same fill.
- *First call* is a new process, compiled to bytecode by an earlier one: imports, tokenizer, 200
  messages.
"""


def page_of(results: Mapping[str, Any]) -> str:
    """Return the page."""
    machine = results["machine"]
    sentence = (
        f"{machine['date']}, plan `{machine['plan']}`, Python {machine['python']}, "
        f"{machine['system']} on {machine['machine']}, {machine['cores']} cores "
        f"({machine['processor']})."
    )
    parts = [_INTRODUCTION.format(machine=sentence)]
    parts += [f"## {title}\n\n{table}\n" for title, table in all_tables(results)]
    lost = "\n".join(f"- {line}" for line in losses(results)) or "None was measured."
    parts.append(f"## Where peers do better\n\n{lost}\n")
    return "\n".join(parts)


def write_page(results: Mapping[str, Any]) -> None:
    """Write the page."""
    PAGE.write_text(page_of(results), encoding="utf-8")
