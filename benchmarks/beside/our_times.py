"""Times of ours that no peer has a counterpart for; each run is a process of its own.

    python -m benchmarks.beside.our_times first DATABASE BUDGET    # cold, imports apart
    python -m benchmarks.beside.our_times process DATABASE BUDGET  # cold, imports included
    python -m benchmarks.beside.our_times typical DATABASE BUDGET  # small session, and from cache

`first` reads on stdin the names of modules to import before the clock starts, so that what is left
is all that the first call does but for imports: opening the store, reading, counting, cutting.
`process` reads when it was started, in seconds since the epoch; `typical` the number of the first
copy of the session that no run has read. Prints one JSON object of
milliseconds; `modules` are those that were loaded in the end.
"""

import asyncio
import contextlib
import importlib
import json
import statistics
import sys
import time
from typing import Any, Final

MODEL: Final = "gpt-5.5"
SESSION: Final = "bench"
_ASSEMBLERS: Final = 15
_HITS: Final = 200
_TOOLS: Final = 10
UNSEEN: Final = 40  # sessions of one run that the assembler has never seen


def unseen(number: int) -> str:
    """Return the id of a copy of the session."""
    return f"{SESSION}-{number}"


def tool_specs() -> list[dict[str, Any]]:
    """Return tools of the usual size."""
    properties = {
        f"arg_{number}": {"type": "string", "description": "An argument."} for number in range(4)
    }
    parameters = {"type": "object", "properties": properties, "required": ["arg_0"]}
    return [
        {"name": f"tool_{number}", "description": "A tool. " * 8, "input_schema": parameters}
        for number in range(_TOOLS)
    ]


async def time_calls(
    database: str, *, budget_tokens: int, calls: int = 1, **given: Any
) -> list[float]:
    """Return milliseconds of calls of a new assembler, the first with the payload spelled out."""
    ours = importlib.import_module("context_assembler")
    times: list[float] = []
    started = time.perf_counter()
    assembler = ours.ContextAssembler(sessions=f"sqlite:///{database}", **given)
    for _ in range(calls):
        context = await assembler.assemble(SESSION, model=MODEL, max_context_tokens=budget_tokens)
        if not times:
            context.to_openai_chat()
        times.append((time.perf_counter() - started) * 1e3)
        started = time.perf_counter()
    await assembler.close()
    return times


async def first(database: str, *, budget_tokens: int) -> dict[str, Any]:
    """Return what the first call takes, with the modules that it loads there already."""
    for module in json.loads(sys.stdin.read()):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    [cold_ms] = await time_calls(database, budget_tokens=budget_tokens)
    [again_ms] = await time_calls(database, budget_tokens=budget_tokens)
    return {"cold_ms": cold_ms, "again_ms": again_ms}


async def process(database: str, *, budget_tokens: int) -> dict[str, Any]:
    """Return what passes from the start of the process to the first context."""
    started = float(sys.stdin.read())
    await time_calls(database, budget_tokens=budget_tokens)
    return {"process_ms": (time.time() - started) * 1e3, "modules": list(sys.modules)}


async def _time_unseen(database: str, budget_tokens: int, first_unseen: int) -> list[float]:
    ours = importlib.import_module("context_assembler")
    assembler = ours.ContextAssembler(sessions=f"sqlite:///{database}", tools=tool_specs())
    await assembler.assemble(SESSION, model=MODEL, max_context_tokens=budget_tokens)
    times: list[float] = []
    for number in range(first_unseen, first_unseen + UNSEEN):
        started = time.perf_counter()
        context = await assembler.assemble(
            unseen(number), model=MODEL, max_context_tokens=budget_tokens
        )
        context.to_openai_chat()
        times.append((time.perf_counter() - started) * 1e3)
    await assembler.close()
    return times


async def typical(database: str, *, budget_tokens: int) -> dict[str, Any]:
    """Return what a small session with ten tools takes at first, and answered from our cache.

    At first by a new assembler, and by one that has served others but has never seen the session.
    """
    first_unseen = int(sys.stdin.read())
    rounds = [
        await time_calls(database, budget_tokens=budget_tokens, calls=1 + _HITS, tools=tool_specs())
        for _ in range(_ASSEMBLERS)
    ]
    return {
        "cold_ms": statistics.median(times[0] for times in rounds[1:]),
        "unseen_ms": statistics.median(await _time_unseen(database, budget_tokens, first_unseen)),
        "cached_ms": statistics.median(statistics.median(times[1:]) for times in rounds),
    }


def main() -> None:
    """Measure and print."""
    _, mode, database, budget = sys.argv
    measure = {"first": first, "process": process, "typical": typical}[mode]
    print(json.dumps(asyncio.run(measure(database, budget_tokens=int(budget)))))


if __name__ == "__main__":
    main()
