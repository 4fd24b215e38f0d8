"""A framework's own agent loop against the local provider: with us, and with its own trimming."""

import asyncio
import inspect
import os
import re
import subprocess
import sys
import warnings
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from context_assembler import ToolCall
from context_assembler.events import compact_json
from context_assembler.testing import (
    ProviderServer,
    ScriptedReply,
    serve_providers,
    stand_in_for_providers,
)

ROOT: Final = Path(__file__).parents[2]
STEPS: Final = 60
BUDGET: Final = 8_000
SYSTEM: Final = "You read logs with care, and say in one sentence what you found."
TASK: Final = "One page of the log is odd. Read the pages one by one, then say which page it is."
ANSWER: Final = "Page 57 is odd."


def read_page(page: int) -> str:
    """Return a page of the log.

    Args:
        page: Its number.
    """
    return f"page {page}, 12:00:{page % 60:02}, GET /orders 200\n" * (10 + 30 * (page % 3))


def make_script(thinking: str | None = None) -> list[ScriptedReply]:
    """Return replies for `STEPS` requests; every seventh asks for two pages at once."""
    script, page = list[ScriptedReply](), 0
    for step in range(STEPS - 1):
        calls = list[ToolCall]()
        for _ in range(1 if step % 7 else 2):
            arguments = {"page": page}
            calls.append(ToolCall(call_id=f"call_{page}", name="read_page", arguments=arguments))
            page += 1
        script.append(ScriptedReply("I read on." * (step % 2), tuple(calls), thinking))
    return [*script, ScriptedReply(ANSWER)]


Drive: TypeAlias = Callable[[ProviderServer], Any]


class Played(NamedTuple):
    """What reached the provider.

    Attributes:
        refused: Requests that the provider refused; the first one ends most loops.
        without_task: Requests that lack the first user message.
        rewrites: Requests that do not begin as the one before them.
        over_budget: Requests of more than `BUDGET` tokens, with system prompt and tools.
        largest_tokens: The size of the largest one.
    """

    requests: int
    refused: int
    without_task: int
    rewrites: int
    over_budget: int
    largest_tokens: int
    ended: str


def play(drive: Drive, script: Sequence[ScriptedReply] = ()) -> Played:
    """Run a loop from `TASK` to its answer, or to the provider's first refusal.

    Args:
        drive: Runs the loop against the server, and returns the answer.
    """
    ended, seen = "", list[Any]()
    try:
        with serve_providers(script or make_script()) as server:
            seen = server.requests
            given = drive(server)
            answer = asyncio.run(given) if inspect.iscoroutine(given) else given
            assert ANSWER in str(answer)
            ended = "answered"
    except Exception:
        refusals = [one.refusal for one in seen if one.refusal]
        if not refusals:
            raise
        ended = refusals[0]
    bodies = [one.body for one in seen]
    sent: list[Any] = [b.get("messages") or b.get("input") or b.get("contents") for b in bodies]
    sizes = [one.usage.input_tokens for one in seen if one.usage]
    return Played(
        requests=len(seen),
        refused=sum(one.refusal is not None for one in seen),
        without_task=sum(TASK not in compact_json(body) for body in bodies),
        rewrites=sum(after[: len(before)] != before for before, after in pairwise(sent)),
        over_budget=sum(size > BUDGET for size in sizes),
        largest_tokens=max(sizes, default=0),
        ended=ended,
    )


def check(name: str, ours: Played) -> None:
    """Print a loop, and check it: all steps, no refusal, the task kept, within the budget."""
    show(name, ours)
    assert (ours.requests, ours.refused, ours.without_task, ours.over_budget) == (STEPS, 0, 0, 0)
    assert 0 < ours.rewrites <= STEPS // 3


def check_beside(name: str, ours: Played, theirs: Played, theirs_name: str) -> None:
    """Print both loops, and check ours."""
    show(f"{name} with {theirs_name}", theirs)
    check(f"{name} with us", ours)


def show(name: str, played: Played) -> None:
    *counts, ended = (f"{key} {value}" for key, value in played._asdict().items())
    print(f"\n{name}:\n  {', '.join(counts)}\n  {ended:.150}", end="")


def needs(*modules: str) -> None:
    """Skip the calling module if the framework is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the framework's own
        for name in modules:
            reason = f"{name} is not installed here; `make integrations` runs these tests"
            pytest.importorskip(name, reason=reason, exc_type=ImportError)


def check_example(name: str, line: str, folder: Path) -> None:
    """Check that an example prints this, as a program of its own and without a key."""
    kept = {k: held for k, held in os.environ.items() if not k.endswith("_API_KEY")}
    program = ROOT / "examples" / "integrations" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, program], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert line in done.stdout


def check_section(title: str) -> None:
    """Run the Python blocks of a section of the page on frameworks."""
    page = ROOT / "docs" / "how-to" / "frameworks.md"
    section = page.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert blocks, title
    names: dict[str, Any] = {"__name__": "page"}
    with stand_in_for_providers(), asyncio.Runner() as runner:
        for block in blocks:
            code = compile(block, f"{page.name}: {title}", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT)
            given = eval(code, names)
            if inspect.iscoroutine(given):
                runner.run(given)
